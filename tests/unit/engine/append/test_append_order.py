"""Batches of one producer in one process: a follower waits for its predecessor's outcome, and is decided by it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.engine.append import order
from odradek.engine.append.order import LONE_ARRIVALS, AheadAnswer, AppendOrder, Fate, Missing, decide_ahead, fate_of
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, OutcomeUnknown, StoreUnavailable
from odradek.limits import SEQUENCE_MAX
from odradek.model.log import ProducePartition, ProduceResult

from tests.support.engine import Store, batch, memory_store, read_all

PRODUCER = 7
FOR_NOW, GAP = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Gate:
    """Holds the updates of heads until told how each ends.

    Attributes:
        held: by position, what to call: nothing to let it through, or the error to raise instead.
    """

    def __init__(self, store: Store) -> None:
        self._update: Any = store.log._port.update
        self.held: list[asyncio.Future[Exception | None]] = []
        self.is_open = False
        store.log._port.update = self.update

    async def update(self, update: Any) -> Any:
        if not self.is_open:
            ending: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
            self.held.append(ending)
            error = await ending
            if error is not None:
                raise error
        return await self._update(update)

    def let_through(self) -> None:
        """From now on nothing is held."""
        self.is_open = True
        for future in self.held:
            if not future.done():
                future.set_result(None)


@pytest.fixture
async def store() -> Store:
    store = memory_store()
    await store.engine().topics.create("t", 2)
    await store.engine().topics.create("compacted", 1, {"cleanup.policy": "compact"})
    return store


def request(
    sequence: int, *, epoch: int = 0, connection: int | None = 1, partition: int = 0, topic: str = "t", count: int = 1
) -> ProducePartition:
    records = batch([b"%d.%d" % (epoch, sequence)] * count, producer=(PRODUCER, epoch, sequence))
    return ProducePartition(topic, partition, records, connection=connection)


def send(engine: Engine, *requests: ProducePartition) -> asyncio.Task[list[ProduceResult]]:
    return asyncio.get_running_loop().create_task(engine.produce(requests))


async def sent(engine: Engine, request: ProducePartition) -> ErrorCode:
    [result] = await engine.produce([request])
    return result.error


async def settle() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


async def values(engine: Engine) -> list[bytes | None]:
    return [record.value for record in await read_all(engine, "t", 0)]


# --- the predecessor is on its way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("connection", [1, None])
async def test_a_follower_waits_for_its_predecessor_however_long_that_takes(
    store: Store, connection: int | None
) -> None:
    """Nor does it ask the store meanwhile."""
    engine, gate = store.engine(), Gate(store)
    tasks = [send(engine, request(sequence, connection=connection)) for sequence in range(5)]
    await settle()
    store.clock.advance(20.0)
    await settle()
    assert len(gate.held) == 1
    assert store.log.count("get") == 0
    gate.let_through()
    assert [(await task)[0].base_offset for task in tasks] == [0, 1, 2, 3, 4]


async def test_uploads_do_not_wait(store: Store) -> None:
    engine, gate = store.engine(item_bytes_max=0), Gate(store)
    tasks = [send(engine, request(sequence)) for sequence in range(5)]
    await settle()
    assert store.objects.count("put") == 5
    gate.let_through()
    await asyncio.gather(*tasks)


async def test_other_partitions_of_the_request_do_not_wait(store: Store) -> None:
    engine, gate = store.engine(), Gate(store)
    first = send(engine, request(0))
    await settle()
    results: list[tuple[int, ErrorCode]] = []
    second = asyncio.get_running_loop().create_task(
        engine.produce(
            [request(1), request(0, partition=1)], on_result=lambda at, result: results.append((at, result.error))
        )
    )
    await settle()
    gate.held[1].set_result(None)
    await settle()
    assert results == [(1, ErrorCode.NONE)]
    gate.let_through()
    await asyncio.gather(first, second)
    assert results == [(1, ErrorCode.NONE), (0, ErrorCode.NONE)]


async def test_plain_batches_of_a_connection_keep_their_order(store: Store) -> None:
    engine, gate = store.engine(), Gate(store)

    def plain(value: bytes, connection: int | None) -> ProducePartition:
        return ProducePartition("t", 0, batch([value]), connection=connection)

    held = [send(engine, plain(b"%d" % n, 1)) for n in range(3)]
    await settle()
    assert len(gate.held) == 1
    others = [send(engine, plain(b"other", connection)) for connection in (2, None)]
    await settle()
    assert len(gate.held) == 3, "nobody else waits for them"
    gate.let_through()
    await asyncio.gather(*held, *others)
    assert [value for value in await values(engine) if value != b"other"] == [b"0", b"1", b"2"]


# --- how the predecessor ends decides the follower -------------------------------------------------------------------


@pytest.mark.parametrize("error", [StoreUnavailable("throttled"), OutcomeUnknown("no answer")])
async def test_followers_are_refused_with_their_predecessor_and_never_reach_the_head(
    store: Store, error: Exception
) -> None:
    engine, gate = store.engine(append_attempts_max=1), Gate(store)
    tasks = [send(engine, request(sequence)) for sequence in range(4)]
    await settle()
    gate.held[0].set_result(error)
    codes = [(await task)[0].error for task in tasks]
    unknown = isinstance(error, OutcomeUnknown)
    assert codes == [ErrorCode.REQUEST_TIMED_OUT if unknown else FOR_NOW, FOR_NOW, FOR_NOW, FOR_NOW]
    assert len(gate.held) == 1
    gate.let_through()
    for _ in range(2):
        again = [send(engine, request(sequence)) for sequence in range(4)]
        assert [(await task)[0].base_offset for task in again] == [0, 1, 2, 3]


async def test_followers_are_decided_before_the_predecessor_is_answered(store: Store) -> None:
    """The client sends the refused batch again at once: its follower must not come in behind that by itself."""
    engine, gate = store.engine(append_attempts_max=1), Gate(store)
    first, second = send(engine, request(0)), send(engine, request(1))
    await settle()
    gate.held[0].set_result(StoreUnavailable("throttled"))
    assert (await first)[0].error is FOR_NOW
    gate.let_through()
    assert await sent(engine, request(0)) is ErrorCode.NONE
    assert (await second)[0].error is FOR_NOW
    assert await values(engine) == [b"0.0"]


async def test_a_follower_that_is_still_uploading_is_decided_too(store: Store) -> None:
    engine, gate = store.engine(append_attempts_max=1), Gate(store)
    uploading: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    put = store.log._port.put

    async def slow_put(operation: Any) -> Any:
        if b"0.1" in bytes(operation.item["d"]):
            await uploading
        return await put(operation)

    store.log._port.put = slow_put
    first, second = send(engine, request(0)), send(engine, request(1))
    await settle()
    gate.held[0].set_result(StoreUnavailable("throttled"))
    await first
    gate.let_through()
    again = [send(engine, request(0)), send(engine, request(2))]
    await settle()
    uploading.set_result(None)
    assert [(await task)[0].error for task in (second, *again)] == [FOR_NOW, ErrorCode.NONE, FOR_NOW]


async def test_behind_a_batch_that_is_refused_for_good_there_is_a_gap(store: Store) -> None:
    """As in Apache Kafka, and at once: whether the follower was there already, or comes later."""
    engine = store.engine()
    keyed = ProducePartition("compacted", 0, batch([b"v"], keys=[b"k"], producer=(PRODUCER, 0, 0)), connection=1)
    assert await sent(engine, keyed) is ErrorCode.NONE
    started_s = store.clock.monotonic()
    without_key = send(engine, request(1, topic="compacted"))
    followers = [
        send(
            engine,
            ProducePartition("compacted", 0, batch([b"v"], keys=[b"k"], producer=(PRODUCER, 0, at)), connection=1),
        )
        for at in (2, 3)
    ]
    assert (await without_key)[0].error is ErrorCode.INVALID_RECORD
    assert [(await task)[0].error for task in followers] == [GAP, GAP]
    late = ProducePartition("compacted", 0, batch([b"v"], keys=[b"k"], producer=(PRODUCER, 0, 4)), connection=1)
    assert await sent(engine, late) is GAP
    assert store.clock.monotonic() == started_s


async def test_followers_hear_who_leads_the_partition(store: Store) -> None:
    elsewhere = Engine(
        tables=store.tables,
        objects=store.objects,
        clock=store.clock,
        rng=store.engine().rng,
        broker_id=9,  # type: ignore[arg-type]
    )
    await elsewhere.leaders.register("there", 9092)
    assert await sent(elsewhere, request(0)) is ErrorCode.NONE
    engine, gate = store.engine(), Gate(store)
    tasks = [send(engine, request(sequence)) for sequence in (1, 2)]
    await settle()
    gate.let_through()
    for task in tasks:
        [result] = await task
        assert (result.error, result.current_leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 9)


async def test_behind_a_duplicate_the_follower_goes_on(store: Store) -> None:
    engine = store.engine()
    assert await sent(engine, request(0)) is ErrorCode.NONE
    tasks = [send(engine, request(sequence)) for sequence in (0, 1)]
    assert [(await task)[0].base_offset for task in tasks] == [0, 1]


async def test_a_request_that_is_given_up_leaves_its_followers_to_be_sent_again(store: Store) -> None:
    engine, gate = store.engine(), Gate(store)
    first, second = send(engine, request(0)), send(engine, request(1))
    await settle()
    first.cancel()
    assert (await second)[0].error is FOR_NOW
    gate.let_through()
    assert [await sent(engine, request(at)) for at in (0, 1)] == [ErrorCode.NONE] * 2


async def test_a_batch_that_is_sent_again_elsewhere_frees_who_waits_for_the_first_attempt(store: Store) -> None:
    """A connection is lost while its request hangs; the client comes back over another one."""
    engine, gate = store.engine(), Gate(store)
    hanging, follower = send(engine, request(0)), send(engine, request(1))
    await settle()
    gate.is_open = True
    assert await sent(engine, request(0, connection=2)) is ErrorCode.NONE
    assert (await follower)[0].base_offset == 1
    assert await sent(engine, request(2, connection=2)) is ErrorCode.NONE
    gate.let_through()
    assert (await hanging)[0].base_offset == 0, "its late update is refused, and it finds itself"
    assert await values(engine) == [b"0.0", b"0.1", b"0.2"]


async def test_a_new_epoch_waits_for_the_older_one_of_its_connection(store: Store) -> None:
    """Else the older batch, which came first, were fenced: Apache Kafka has it in the log by then."""
    engine, gate = store.engine(), Gate(store)
    older, newer = send(engine, request(0)), send(engine, request(0, epoch=1))
    await settle()
    assert len(gate.held) == 1
    gate.let_through()
    assert [(await task)[0].base_offset for task in (older, newer)] == [0, 1]


async def test_a_new_epoch_over_another_connection_does_not_wait(store: Store) -> None:
    engine, gate = store.engine(), Gate(store)
    older, newer = send(engine, request(0)), send(engine, request(0, epoch=1, connection=2))
    await settle()
    assert len(gate.held) == 2
    gate.let_through()
    await asyncio.gather(older, newer)


# --- the predecessor is not there ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "is_known", "expected"),
    [
        (Missing(), True, AheadAnswer.COME_AGAIN),
        (Missing(answered=LONE_ARRIVALS - 1), True, AheadAnswer.COME_AGAIN),
        (Missing(answered=LONE_ARRIVALS), True, AheadAnswer.GAP),
        (Missing(is_refused_for_good=True), True, AheadAnswer.GAP),
        (Missing(), False, AheadAnswer.COME_AGAIN),
        (Missing(answered=LONE_ARRIVALS), False, AheadAnswer.TAKE),
        (Missing(is_refused_for_good=True), False, AheadAnswer.COME_AGAIN),
    ],
)
def test_what_a_batch_without_its_predecessor_is_answered(
    missing: Missing, is_known: bool, expected: AheadAnswer
) -> None:
    assert decide_ahead(missing, is_known=is_known) is expected


async def test_a_predecessor_that_never_comes_is_a_gap_in_the_end_and_no_clock_says_when(store: Store) -> None:
    engine = store.engine()
    assert await sent(engine, request(0)) is ErrorCode.NONE
    started_s = store.clock.monotonic()
    assert [await sent(engine, request(2)) for _ in range(4)] == [FOR_NOW, FOR_NOW, GAP, GAP]
    assert store.clock.monotonic() == started_s
    assert await sent(engine, request(0, epoch=1)) is ErrorCode.NONE


async def test_a_follower_whose_predecessor_comes_again_is_never_told_of_a_gap(store: Store) -> None:
    """Sent again in order, refused again, as often as it takes."""
    engine = store.engine(append_attempts_max=1)
    assert await sent(engine, request(0)) is ErrorCode.NONE
    gate = Gate(store)
    for attempt in range(6):
        first = send(engine, request(1))
        await settle()
        gate.held[attempt].set_result(StoreUnavailable("throttled"))
        assert (await first)[0].error is FOR_NOW
        gate.is_open = True
        assert await sent(engine, request(2)) is FOR_NOW
        gate.is_open = False
    gate.let_through()
    assert [await sent(engine, request(at)) for at in (1, 2)] == [ErrorCode.NONE] * 2


async def test_a_run_that_is_sent_again_in_reverse_comes_to_order(store: Store) -> None:
    """kafka-python puts the batches of a failed run back one by one at the front of its queue."""
    engine = store.engine()
    codes = {}
    for at in (3, 2, 1, 0):
        codes[at] = await sent(engine, request(at))
    assert codes == {3: FOR_NOW, 2: FOR_NOW, 1: FOR_NOW, 0: ErrorCode.NONE}
    for at in (3, 2, 1):
        codes[at] = await sent(engine, request(at))
    assert codes == {3: FOR_NOW, 2: FOR_NOW, 1: ErrorCode.NONE, 0: ErrorCode.NONE}
    assert [await sent(engine, request(at)) for at in (2, 3)] == [ErrorCode.NONE] * 2


async def test_the_predecessor_may_be_with_another_broker(store: Store) -> None:
    """Over two processes: the follower is sent again behind it, and nothing is out of order to anybody."""
    one_broker, other_broker = store.engine(1), store.engine(2)
    assert await sent(one_broker, request(0)) is ErrorCode.NONE
    assert await sent(other_broker, request(2, connection=5)) is FOR_NOW
    assert await sent(one_broker, request(1)) is ErrorCode.NONE
    assert await sent(other_broker, request(2, connection=5)) is ErrorCode.NONE


async def test_a_producer_that_the_log_does_not_know_goes_on_where_it_is(store: Store) -> None:
    """A topic deleted and recreated, or a day of silence: as in Apache Kafka, for every client knows no other way."""
    engine = store.engine()
    for _ in range(LONE_ARRIVALS):
        run = [send(engine, request(at)) for at in (50, 51)]
        assert [(await task)[0].error for task in run] == [FOR_NOW, FOR_NOW]
    run = [send(engine, request(at)) for at in (50, 51)]
    assert [(await task)[0].base_offset for task in run] == [0, 1]
    assert [await sent(engine, request(at)) for at in range(52, 60)] == [ErrorCode.NONE] * 8


async def test_what_came_before_a_producer_began_here_is_no_duplicate(store: Store) -> None:
    """It was never in this log: to call it a duplicate would lose it. Also where the producer has left the head."""
    engine = store.engine(head_bytes_max=300, spill_entries=1, producers_in_head_max=1)
    for _ in range(LONE_ARRIVALS + 1):
        last = await sent(engine, request(50))
    assert last is ErrorCode.NONE
    assert await sent(engine, request(45)) is GAP
    for at in range(51, 60):
        await sent(engine, request(at))
    assert await sent(engine, request(45)) is GAP
    assert await sent(engine, request(50)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "that one is"
    for other in range(100, 104):
        records = batch([b"x"], producer=(other, 0, 0))
        assert await sent(engine, ProducePartition("t", 0, records)) is ErrorCode.NONE
    assert await sent(engine, request(45)) is GAP
    assert await sent(engine, request(60)) is ErrorCode.NONE
    assert await sent(engine, request(45)) is GAP
    assert await sent(engine, request(0, epoch=1)) is ErrorCode.NONE


async def test_a_new_producers_second_batch_is_not_taken_for_its_first(store: Store) -> None:
    """Its first was refused for good, and its halves come in their turn."""
    engine = store.engine()
    refused = ProducePartition("compacted", 0, batch([b"v"], producer=(PRODUCER, 0, 0)), connection=1)
    second = ProducePartition("compacted", 0, batch([b"v"], keys=[b"k"], producer=(PRODUCER, 0, 1)), connection=1)
    tasks = [send(engine, refused), send(engine, second)]
    assert [(await task)[0].error for task in tasks] == [ErrorCode.INVALID_RECORD, FOR_NOW]


# --- what it keeps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        (ErrorCode.NONE, Fate.APPENDED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Fate.APPENDED),
        (ErrorCode.REQUEST_TIMED_OUT, Fate.FOR_NOW),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Fate.FOR_NOW),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Fate.FOR_NOW),
        (ErrorCode.CORRUPT_MESSAGE, Fate.FOR_NOW),
        (ErrorCode.MESSAGE_TOO_LARGE, Fate.FOR_GOOD),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Fate.FOR_GOOD),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Fate.FOR_GOOD),
    ],
)
def test_what_a_result_means_for_those_behind(code: ErrorCode, fate: Fate) -> None:
    assert fate_of(ProduceResult("t", 0, code)) is fate


def _entered(turns: AppendOrder, *sequences: int, count: int = 1) -> list[Any]:
    return [turns.enter(request(sequence, count=count)) for sequence in sequences]


async def test_a_long_run_falls_at_once() -> None:
    turns = AppendOrder()
    run = _entered(turns, *range(3000))
    run[0].settle(None)
    assert all(turn.fate is not None for turn in run)
    assert not turns._lines


async def test_sequences_wrap_in_line_too() -> None:
    first, second = _entered(AppendOrder(), SEQUENCE_MAX - 1, 0, count=2)
    assert second.waits_for == [first]


async def test_nothing_is_kept_of_what_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_GAPS_KEPT", 3)
    turns = AppendOrder()
    for turn in _entered(turns, *range(10, 20)):
        turn.ahead(is_known=True)
        turn.settle(ProduceResult("t", 0, FOR_NOW))
    assert not turns._lines
    assert len(turns._missing) == 3


@pytest.mark.parametrize("records", [b"", b"\0" * 10, b"\xff" * 100, batch([b"v"])[:-3]])
async def test_bytes_that_are_no_batches_wait_for_nobody(records: bytes) -> None:
    turn = AppendOrder().enter(ProducePartition("t", 0, records, connection=1))
    assert await turn.come() is None
    turn.settle(None)


async def test_a_predecessor_is_of_the_same_epoch() -> None:
    turns = AppendOrder()
    older = turns.enter(request(4))
    fresh = turns.enter(request(5, epoch=1, connection=2))
    assert turns.predecessor(fresh) is None
    assert turns.predecessor(turns.enter(request(5))) is older


@pytest.mark.parametrize("connection", [1, None])
async def test_a_batch_that_may_arrive_with_its_predecessor_is_not_called_refused(
    store: Store, connection: int | None
) -> None:
    """Its update was lost on the way: it may still come, and is taken once the predecessor is there."""
    engine, gate = store.engine(sequence_wait_ms=0), Gate(store)
    assert await asyncio.gather(send(engine, request(0)), _let_through_after(gate))
    lost = Gate(store)
    task = send(engine, request(2, connection=connection))
    await settle()
    lost.held[0].set_result(OutcomeUnknown("the request is still on its way"))
    lost.is_open = True
    for _ in range(20):
        await settle()
        store.clock.advance(1.0)
    assert (await task)[0].error is ErrorCode.REQUEST_TIMED_OUT
    assert await sent(engine, request(2, connection=connection)) in (FOR_NOW, GAP)


async def _let_through_after(gate: Gate) -> bool:
    await settle()
    gate.let_through()
    return True
