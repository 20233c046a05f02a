"""Produce requests that meet are one call to the engine; nobody gets another's result, and order holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from odradek.engine.append.append import OnResult
from odradek.errors import KafkaError
from odradek.gateway.group_commit import FOLLOWER_BYTES_MAX, GroupCommit
from odradek.model.log import ProducePartition, ProduceResult
from odradek.settings import Settings
from odradek.testing import ManualClock

from tests.support.engine import batch


class SlowEngine:
    """Notes the calls; each lasts until it is let go."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[str, int]]] = []
        self.gates: list[asyncio.Event] = []
        self.failure: Exception | None = None

    async def produce(
        self,
        partitions: Sequence[ProducePartition],
        *,
        on_result: OnResult | None = None,
    ) -> list[ProduceResult]:
        self.calls.append([(partition.topic, partition.partition) for partition in partitions])
        number = len(self.calls)
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        if self.failure is not None:
            raise self.failure
        results = [ProduceResult(p.topic, p.partition, base_offset=100 * number + i) for i, p in enumerate(partitions)]
        for index, result in enumerate(results):
            if on_result is not None:
                on_result(index, result)
        return results

    def release(self) -> None:
        for gate in self.gates:
            gate.set()


@pytest.fixture
def engine() -> SlowEngine:
    return SlowEngine()


def request(topic: str, *numbers: int, producer: tuple[int, int, int] = (-1, -1, -1)) -> list[ProducePartition]:
    return [ProducePartition(topic, number, batch([b"v"], producer=producer)) for number in numbers]


def send(
    commits: GroupCommit, connection: int, partitions: list[ProducePartition]
) -> asyncio.Task[list[ProduceResult]]:
    over = [replace(partition, connection=connection) for partition in partitions]
    return asyncio.get_running_loop().create_task(commits.produce(over))


async def settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


async def test_a_lone_request_goes_at_once_and_those_that_meet_it_share_a_call(engine: SlowEngine) -> None:
    clock = ManualClock()
    commits = GroupCommit(engine, clock, 2)  # type: ignore[arg-type]
    first = send(commits, 1, request("a", 0))
    await settle()
    assert engine.calls == [[("a", 0)]]
    others = [send(commits, connection, request("a", connection)) for connection in (2, 3, 4)]
    await settle()
    assert len(engine.calls) == 1
    clock.advance(0.002)
    await settle()
    assert engine.calls[1:] == [[("a", 2), ("a", 3), ("a", 4)]]
    engine.release()
    assert [(r.partition, r.base_offset) for r in await first] == [(0, 100)]
    assert [(await other)[0].base_offset for other in others] == [200, 201, 202]


async def test_requests_wait_for_the_end_of_the_call_in_flight_and_share_one(engine: SlowEngine) -> None:
    commits = GroupCommit(engine, ManualClock(), 100)  # type: ignore[arg-type]
    first = send(commits, 1, request("a", 0))
    await settle()
    others = []
    for connection in range(2, 12):  # one after the other; the clock stands still
        others.append(send(commits, connection, request("a", connection)))
        await settle()
    assert len(engine.calls) == 1
    engine.release()
    await first
    await settle()
    assert engine.calls[1:] == [[("a", connection) for connection in range(2, 12)]]
    engine.release()
    await asyncio.gather(*others)


async def test_batches_of_a_partition_lie_next_to_each_other_in_a_call(engine: SlowEngine) -> None:
    clock = ManualClock()
    commits = GroupCommit(engine, clock, 2)  # type: ignore[arg-type]
    send(commits, 1, request("a", 9))
    await settle()
    both = [send(commits, connection, request("a", 0, connection)) for connection in (2, 3)]
    await settle()
    clock.advance(0.002)
    await settle()
    assert engine.calls[1:] == [[("a", 0), ("a", 0), ("a", 2), ("a", 3)]]
    engine.release()
    assert [[(r.partition, r.base_offset) for r in await pending] for pending in both] == [
        [(0, 200), (2, 202)],
        [(0, 201), (3, 203)],
    ]
    await commits.drain()


@pytest.mark.parametrize("producer_id", [-1, 5])
async def test_what_a_client_sends_before_an_answer_shares_calls_again_and_again(
    engine: SlowEngine, producer_id: int
) -> None:
    """Java's producer keeps five requests in flight, and sends five when five are answered, one after the other."""
    clock = ManualClock()
    commits = GroupCommit(engine, clock, 100)  # type: ignore[arg-type]
    sequences = iter(range(100))

    def next_one() -> asyncio.Task[list[ProduceResult]]:
        return send(commits, 1, request("a", 0, producer=(producer_id, 0, next(sequences))))

    waiting = {next_one() for _ in range(5)}
    await settle()
    assert [len(call) for call in engine.calls] == [5]
    for _ in range(3):
        engine.release()
        await asyncio.wait(waiting)
        waiting = set()
        for _ in range(5):
            waiting.add(next_one())
            await settle()
        clock.advance(0.001)
        await settle()
    assert [len(call) for call in engine.calls] == [5, 5, 5, 5]
    engine.release()
    await asyncio.gather(*waiting)


async def test_a_large_request_waits_for_none_of_its_connection(engine: SlowEngine) -> None:
    commits = GroupCommit(engine, ManualClock(), 2)  # type: ignore[arg-type]
    large = [ProducePartition("a", 0, batch([bytes(FOLLOWER_BYTES_MAX)]))]
    tasks = []
    for _ in range(3):
        tasks.append(send(commits, 1, large))
        await settle()
    assert engine.calls == [[("a", 0)]] * 3
    engine.release()
    await asyncio.gather(*tasks)


async def test_calls_begin_in_the_order_of_their_requests(engine: SlowEngine) -> None:
    """The second goes alone and at once, but not before the gathering that holds the first."""
    clock = ManualClock()
    commits = GroupCommit(engine, clock, 2)  # type: ignore[arg-type]
    send(commits, 9, request("z", 9))
    await settle()
    first = send(commits, 1, request("a", 0, 7, producer=(5, 0, 0)))
    await settle()
    assert engine.calls[1:] == []
    second = send(commits, 1, [ProducePartition("a", 0, batch([bytes(FOLLOWER_BYTES_MAX)], producer=(5, 0, 1)))])
    await settle()
    assert engine.calls[1:] == [[("a", 0), ("a", 7)], [("a", 0)]]
    engine.release()
    await asyncio.gather(first, second)
    clock.advance(0.002)
    await commits.drain()


async def test_a_partition_that_waits_holds_up_nobody_elses_request() -> None:
    callbacks: list[OnResult] = []
    gate = asyncio.Event()

    class HalfSlow:
        async def produce(self, partitions: Sequence[ProducePartition], *, on_result: OnResult) -> None:
            callbacks.append(on_result)
            await gate.wait()

    commits = GroupCommit(HalfSlow(), ManualClock(auto_advance=True), 2)  # type: ignore[arg-type]
    send(commits, 9, request("z", 9))
    await settle()
    slow, quick = send(commits, 1, request("a", 0)), send(commits, 2, request("a", 1))
    await settle()
    callbacks[1](1, ProduceResult("a", 1, base_offset=7))
    assert [result.base_offset for result in await quick] == [7]
    assert not slow.done()
    callbacks[1](0, ProduceResult("a", 0, base_offset=8))
    assert [result.base_offset for result in await slow] == [8]
    gate.set()


async def test_who_gives_up_takes_nothing_from_the_others(engine: SlowEngine) -> None:
    commits = GroupCommit(engine, ManualClock(auto_advance=True), 2)  # type: ignore[arg-type]
    send(commits, 1, request("a", 9))
    await settle()
    cancelled, stays = send(commits, 2, request("a", 0)), send(commits, 3, request("a", 1))
    await settle()
    cancelled.cancel()
    await settle()
    engine.release()
    assert [result.partition for result in await stays] == [1]
    await commits.drain()


async def test_a_failure_reaches_everybody_in_the_call(engine: SlowEngine) -> None:
    commits = GroupCommit(engine, ManualClock(auto_advance=True), 2)  # type: ignore[arg-type]
    engine.failure = RuntimeError("a bug")
    tasks = [send(commits, connection, request("a", connection)) for connection in (1, 2)]
    await settle()
    engine.release()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError, RuntimeError]


async def test_no_linger_merges_nothing(engine: SlowEngine) -> None:
    commits = GroupCommit(engine, ManualClock(), 0)  # type: ignore[arg-type]
    tasks = [send(commits, connection, request("a", connection)) for connection in (1, 2)]
    await settle()
    assert len(engine.calls) == 2
    engine.release()
    await asyncio.gather(*tasks)


async def test_with_an_interval_calls_begin_no_sooner_and_share_what_came_meanwhile(engine: SlowEngine) -> None:
    clock = ManualClock()
    commits = GroupCommit(engine, clock, 100, interval_ms=250)  # type: ignore[arg-type]
    tasks = [send(commits, 1, request("a", 0))]
    await settle()
    assert engine.calls == [[("a", 0)]]  # nobody waits after a pause
    engine.release()
    await settle()
    for connection in range(2, 6):
        clock.advance(0.06)
        tasks.append(send(commits, connection, request("a", connection)))
        await settle()
    assert len(engine.calls) == 1
    clock.advance(0.011)
    await settle()
    assert engine.calls[1:] == [[("a", connection) for connection in range(2, 6)]]
    engine.release()
    await asyncio.gather(*tasks)
    clock.advance(1)
    tasks = [send(commits, 1, request("a", 0))]
    await settle()
    assert len(engine.calls) == 3
    engine.release()
    await asyncio.gather(*tasks)


async def test_no_interval_holds_back_a_full_call(engine: SlowEngine) -> None:
    settings = Settings(gateway_linger_ms=0, gateway_upload_interval_ms=250, gateway_upload_bytes=30_000)
    commits = GroupCommit.by_settings(engine, ManualClock(), settings)  # type: ignore[arg-type]
    send(commits, 1, request("a", 0))
    await settle()
    large = batch([bytes(10_000)])
    tasks = []
    for number in range(3):
        tasks.append(send(commits, 2, [ProducePartition("a", 1, large)]))
        await settle()
        assert len(engine.calls) == 1 + (number == 2)
    engine.release()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("size", [0, -1, 64 * 1024 * 1024 + 1])
def test_an_upload_of_no_bytes_or_of_too_many_is_refused(size: int) -> None:
    with pytest.raises(KafkaError, match=f"gateway_upload_bytes must be 1 to 67108864, not {size}"):
        Settings(gateway_upload_bytes=size)
