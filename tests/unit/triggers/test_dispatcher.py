"""Dispatchers of several processes: what one has in its cache, and how many calls are under way at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from odradek.triggers.calls import CallFailed
from odradek.triggers.slots import Slots

from tests.support.engine import batch, produce
from tests.support.services.dispatched import Dispatched

FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:{name}"


class Functions:
    """Functions that keep the offsets with which they were called."""

    def __init__(self) -> None:
        self.called: dict[str, int] = {}
        self.offsets: list[list[int]] = []
        self.under_way = self.most = 0

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.offsets += [
            [record["offset"] for record in records] for records in json.loads(payload)["records"].values()
        ]
        name = function_arn.rpartition(":")[2]
        self.called[name] = self.called.get(name, 0) + 1
        return b""

    async def send_message(self, queue_url: str, body: str) -> None: ...

    async def publish(self, topic_arn: str, body: str) -> None: ...

    async def put_object(self, bucket: str, key: str, body: bytes) -> None: ...


async def start() -> tuple[Dispatched, Functions]:
    functions = Functions()
    dispatched = Dispatched(lambda: functions)
    await dispatched.engine.topics.create("orders", 1)
    return dispatched, functions


async def test_a_dispatcher_that_does_not_know_a_new_trigger_reads_the_definitions_again() -> None:
    dispatched, functions = await start()
    _, other = dispatched.process()
    await dispatched.create(name="old", function=FUNCTION.format(name="old"))
    await dispatched.work_off(other)
    await dispatched.create(name="new", function=FUNCTION.format(name="new"))
    await dispatched.work_off(other)
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.work_off()
    assert functions.called == {"old": 1, "new": 1}


async def test_what_a_dispatcher_of_before_marked_as_drained_is_found_without_the_sweep() -> None:
    """It knows the old trigger alone, drains for that, and marks the head."""
    dispatched, functions = await start()
    _, other = dispatched.process()
    await dispatched.create(name="old", function=FUNCTION.format(name="old"))
    await dispatched.work_off(other)
    await dispatched.create(name="new", function=FUNCTION.format(name="new"))
    await dispatched.work_off()
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.work_off(other)
    assert functions.called == {"old": 1}
    await dispatched.pass_time(10)
    assert functions.called == {"old": 1, "new": 1}


async def test_a_resumed_trigger_is_called_by_a_dispatcher_that_knew_it_as_paused() -> None:
    dispatched, functions = await start()
    _, other = dispatched.process()
    await dispatched.create(function=FUNCTION.format(name="f"))
    await dispatched.work_off(other)
    await dispatched.parts.triggers.pause("t")
    dispatched.clock.advance(6)
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.work_off(other)
    assert functions.called == {}
    await dispatched.parts.triggers.resume("t")
    await dispatched.work_off(other)
    assert functions.called == {"f": 1}


async def test_a_wake_up_has_the_newest_record_and_passes_the_others() -> None:
    dispatched, functions = await start()
    await dispatched.create(function=FUNCTION.format(name="f"), newest_only=True, starting_position="TRIM_HORIZON")
    for number in range(5):
        await produce(dispatched.engine, "orders", 0, batch([b"%d" % number, bytes(400_000)]))
    await dispatched.work_off()
    assert functions.offsets == [[9]]
    assert (await dispatched.status()).lag == 0
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.work_off()
    assert functions.offsets == [[9], [10]]


@pytest.mark.parametrize("wanted", [1, 3, 8])
async def test_slots_are_taken_together_and_never_too_many(wanted: int) -> None:
    slots, held, most = Slots(4), 0, 0

    async def work() -> None:
        nonlocal held, most
        async with slots.taken(wanted):
            held += min(wanted, 4)
            most = max(most, held)
            await asyncio.sleep(0)
            held -= min(wanted, 4)

    await asyncio.gather(*(work() for _ in range(20)))
    assert most == 4 // min(wanted, 4) * min(wanted, 4)


async def test_who_gives_up_waiting_for_slots_holds_none() -> None:
    slots = Slots(2)

    async def wait() -> None:
        async with slots.taken(2):
            raise AssertionError("there was one")

    async with slots.taken(1):
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    async with asyncio.timeout(10), slots.taken(2):
        return


class Failing(Functions):
    """A function that always fails, and when it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.times_s: list[float] = []
        self.now_s: Callable[[], float] = float

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        self.times_s.append(self.now_s())
        raise CallFailed("no")


async def test_the_pauses_between_attempts_double_up_to_a_minute() -> None:
    functions = Failing()
    dispatched = Dispatched(lambda: functions)
    functions.now_s = dispatched.clock.monotonic
    await dispatched.engine.topics.create("orders", 1)
    await dispatched.create(function=FUNCTION.format(name="f"), retry_attempts=10)
    await dispatched.work_off()
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.work_off()
    for _ in range(40):
        await dispatched.pass_time(10)
    pauses_s = [later - earlier for earlier, later in pairwise(functions.times_s)]
    bounds_s = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert len(pauses_s) == len(bounds_s)
    late_s = 2  # a message is delayed by whole seconds, and time passes in steps here
    assert all(bound / 2 <= pause <= bound + late_s for pause, bound in zip(pauses_s, bounds_s, strict=True)), pauses_s
