"""A transaction is whole or absent, whatever call is lost, late, repeated, or the last that its process made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.engine.partition.head import head_key
from odradek.errors import ErrorCode, KafkaError, OutcomeUnknown, TransactionConflict
from odradek.model.classic_group import ClassicIdentity, ClassicJoin, ClassicLeave, ClassicSync
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, GroupHeartbeat
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key
from odradek.testing.faults import Fault

from tests.support.clients.transactional_producer import Transactor, committed, values
from tests.support.counted import at_least
from tests.support.engine import Store, batch, memory_store, produce
from tests.support.stores.segments import partition_of

FAULTS = [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE, Fault.REPEATED]
PORTS = ("log", "groups", "catalog", "across", "objects")


class Crash(BaseException):
    """The process is gone."""


def port(store: Store, name: str) -> Any:
    return {"across": store.tables.across, "objects": store.objects}.get(name) or getattr(store.tables, name)


async def prepared(
    bumps: bool, configs: Mapping[str, str] | None = None, **settings: Any
) -> tuple[Store, Engine, Transactor]:
    """Two topics with a record each, and a producer with a committed transaction behind it.

    Args:
        configs: of the first topic.
    """
    store = memory_store()
    engine = store.engine(**settings)
    await engine.topics.create("a", 1, configs or {})
    await engine.topics.create("b", 1)
    producer = await Transactor(engine, bumps=bumps).init()
    await producer.send("a", 0, b"before")
    await producer.send("b", 0, b"before")
    await producer.commit()
    return store, engine, producer


PREDICTED = {"transaction.offsets": "predicted"}


async def transaction(producer: Transactor) -> None:
    assert await producer.send("a", 0, b"new") == 1  # predicted
    await producer.send("b", 0, b"new")
    await producer.send_offset("group", "a", 0, 9)
    await producer.commit()


async def state(engine: Engine) -> tuple[list[bytes | None], list[bytes | None], int | None]:
    return await values(engine, "a"), await values(engine, "b"), await committed(engine, "group", "a")


BEFORE = ([b"before"], [b"before"], None)
AFTER = ([b"before", b"new"], [b"before", b"new"], 9)


async def calls_of(bumps: bool) -> list[tuple[str, str, int]]:
    """Every call that the transaction makes: port, method, its place among the calls of that method."""
    store, _, producer = await prepared(bumps, PREDICTED)
    counts = {(name, method): port(store, name).count(method) for name in PORTS for method in _METHODS}
    await transaction(producer)
    return [
        (name, method, number)
        for (name, method), before in counts.items()
        for number in range(before + 1, port(store, name).count(method) + 1)
    ]


_METHODS = ("get", "get_many", "query", "put", "update", "delete", "transact")
READS = ("get", "get_many", "query")


@pytest.mark.parametrize("bumps", [False, True])
async def test_one_fault_at_any_call_changes_nothing_for_the_producer(bumps: bool) -> None:
    calls = await calls_of(bumps)
    assert ("across", "transact", 2) in calls
    for name, method, number in calls:
        for fault in [Fault.UNAVAILABLE] if method in READS else FAULTS:
            store, engine, producer = await prepared(bumps, PREDICTED)
            port(store, name).script[method, number] = fault
            await transaction(producer)
            assert await state(engine) == AFTER, (name, method, number, fault)
            for port_name in PORTS:
                await port(store, port_name).deliver_late()
            assert await state(engine) == AFTER, (name, method, number, fault)
            await producer.send("a", 0, b"next")
            await producer.commit()
            assert (await values(engine, "a"))[-1] == b"next", (name, method, number, fault)


@pytest.mark.parametrize("applied", [False, True], ids=["before the call", "after the call"])
@pytest.mark.parametrize("bumps", [False, True])
async def test_a_crash_at_any_call_leaves_all_or_nothing_and_a_new_instance_goes_on(bumps: bool, applied: bool) -> None:
    for name, method, number in at_least(5, await calls_of(bumps)):
        store, engine, producer = await prepared(bumps, PREDICTED)
        _crash_at(port(store, name), method, number, applied=applied)
        with pytest.raises(Crash):
            await transaction(producer)
        state_after = await state(engine)
        assert state_after in (BEFORE, AFTER), (name, method, number)
        fresh = await Transactor(store.engine(1), bumps=bumps).init()
        assert await state(engine) == state_after, (name, method, number)
        await fresh.send("a", 0, b"next")
        await fresh.commit()
        assert await state(engine) == ([*state_after[0], b"next"], *state_after[1:]), (name, method, number)
        await store.engine(2).transactions.expire_transactions()
        assert await store.log.query("txn#tx") == [], (name, method, number)


def _crash_at(faulty: Any, method: str, number: int, *, applied: bool) -> None:
    inner = faulty._port
    seen = faulty.count(method)

    class Mortal:
        def __getattr__(self, name: str) -> Any:
            call = getattr(inner, name)
            if name != method:
                return call

            async def counted(*args: Any, **kwargs: Any) -> Any:
                nonlocal seen
                seen += 1
                if seen == number and not applied:
                    raise Crash
                result = await call(*args, **kwargs)
                if seen == number:
                    raise Crash
                return result

            return counted

    faulty._port = Mortal()


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LATE])
async def test_a_commit_without_an_answer_is_found_by_the_repeated_request(fault: Fault) -> None:
    store, engine, producer = await prepared(bumps=True, group_attempts_max=1)
    await producer.send("a", 0, b"new")
    store.tables.across.script["transact", store.tables.across.count("transact") + 1] = fault
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await producer.commit()
    await store.tables.across.deliver_late()
    assert await values(engine, "a") == [b"before", b"new"]
    await producer.commit()
    assert await values(engine, "a") == [b"before", b"new"]


async def test_a_commit_that_was_applied_is_told_so_although_its_producer_was_fenced_meanwhile() -> None:
    store, engine, producer = await prepared(bumps=True)
    await producer.send("a", 0, b"new")
    before = (producer.producer_id, producer.epoch)
    inner = store.tables.across._port

    class TakenOver:
        async def transact(self, operations: Any) -> None:
            await inner.transact(operations)
            store.tables.across._port = inner
            await Transactor(store.engine(1)).init()
            raise OutcomeUnknown("the answer was lost")

    store.tables.across._port = TakenOver()
    await producer.commit()
    assert (producer.producer_id, producer.epoch) == (before[0], before[1] + 1)  # not what the other one was given
    assert await values(engine, "a") == [b"before", b"new"]
    with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
        await producer.send("a", 0, b"zombie")


async def test_a_commit_is_not_called_aborted_when_an_attempt_before_may_have_been_applied() -> None:
    """The first attempt arrives late, while the second decides; another instance commits before the row is read."""
    store, engine, producer = await prepared(True)
    await producer.send("a", 0, b"new")
    await producer.send("b", 0, b"new")
    port(store, "across").script["transact", 2] = Fault.LATE
    read_images, reads = engine.index.read_images, 0

    async def overtaken(head_ids: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == 2:
            await port(store, "across").deliver_late()
            other = await Transactor(store.engine(1), bumps=True).init()
            await other.send("a", 0, b"of another")
            await other.commit()
            await engine.topics.delete("b")  # why the second attempt could never be committed
        return await read_images(head_ids, **options)

    engine.index.read_images = overtaken  # type: ignore[method-assign]
    with pytest.raises(KafkaError) as raised:
        await producer.commit()
    assert await values(engine, "a") == [b"before", b"new", b"of another"], "it has been committed"
    assert raised.value.code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("bumps", [False, True])
async def test_no_batch_is_missing_while_the_commit_before_is_being_applied(
    bumps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to that commit was lost, its row is visible, and the heads are not yet."""
    store, engine, producer = await prepared(bumps, PREDICTED)
    keys = [head_key((await partition_of(engine, topic)).head_id) for topic in ("a", "b")]
    log = store.tables.log._port
    reads = {name: getattr(log, name) for name in ("get", "get_many", "transact_get")}
    images = dict(zip(keys, await log.get_many(keys), strict=True))
    await producer.send("a", 0, b"one")
    await producer.send("b", 0, b"one")
    await producer.commit()
    refusals = 0

    async def get_many(keys: Sequence[Key], **options: Any) -> list[Item | None]:
        items = await reads["get_many"](keys, **options)
        return [images.get(key, item) if refusals else item for key, item in zip(keys, items, strict=True)]

    async def get(key: Key, **options: Any) -> Item | None:
        return (await get_many([key], **options))[0]

    async def transact_get(keys: Sequence[Key]) -> list[Item | None]:
        nonlocal refusals
        if refusals and any(key in images for key in keys):
            refusals -= 1
            raise TransactionConflict("being applied")
        items: list[Item | None] = await reads["transact_get"](keys)
        return items

    for name, read in {"get": get, "get_many": get_many, "transact_get": transact_get}.items():
        monkeypatch.setattr(log, name, read)
    await producer.send("a", 0, b"two")
    await producer.send("b", 0, b"two")
    refusals = 2
    await producer.commit()
    assert refusals == 0, "the heads were asked for after that commit"
    assert await values(engine, "a") == await values(engine, "b") == [b"before", b"one", b"two"]


async def test_a_late_commit_of_a_fenced_producer_does_nothing() -> None:
    store, engine, zombie = await prepared(bumps=True, group_attempts_max=1)
    await zombie.send("a", 0, b"zombie")
    store.tables.across.script["transact", store.tables.across.count("transact") + 1] = Fault.LATE
    with pytest.raises(KafkaError):
        await zombie.commit()
    await Transactor(store.engine(1)).init()
    assert await store.tables.across.deliver_late() == 0
    assert await values(engine, "a") == [b"before"]


@pytest.mark.parametrize("bumps", [False, True])
async def test_of_two_that_end_a_transaction_one_way_is_taken(bumps: bool) -> None:
    store, engine, producer = await prepared(bumps)
    await producer.send("a", 0, b"new")
    ends = [
        store.engine(i).transactions.end("tx", producer.producer_id, producer.epoch, commit=i % 2 == 0, bump=bumps)
        for i in range(4)
    ]
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    done = [i % 2 == 0 for i, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
    assert len(set(done)) == 1
    assert await values(engine, "a") == ([b"before", b"new"] if done[0] else [b"before"])


async def test_appends_of_others_during_commits_lose_nothing() -> None:
    _, engine, producer = await prepared(bumps=True, head_bytes_max=400, spill_entries=1, producers_in_head_max=1)

    async def plain(name: bytes, producer_id: int) -> None:
        for i in range(20):
            result = await produce(engine, "a", 0, batch([name], producer=(producer_id, 0, i)))
            assert not result.error

    async def transactions() -> None:
        for i in range(10):
            await producer.send("a", 0, b"t%d" % i)
            await producer.send("b", 0, b"t%d" % i)
            await producer.commit()

    await asyncio.gather(plain(b"p", 500), plain(b"q", 501), transactions())
    stored_values = await values(engine, "a")
    assert (stored_values.count(b"p"), stored_values.count(b"q")) == (20, 20)
    assert [value for value in stored_values if value and value[:1] == b"t"] == [b"t%d" % i for i in range(10)]
    assert (await values(engine, "b"))[1:] == [b"t%d" % i for i in range(10)]


# --- offsets of group members -------------------------------------------------------------------------------------


async def join(engine: Engine, member_id: str) -> int:
    epoch = JOIN_EPOCH
    for _ in range(3):
        beat = GroupHeartbeat("members", member_id, epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=["a"])
        result = await engine.groups.heartbeat(beat)
        assert not result.error
        epoch = result.member_epoch
    return epoch


async def test_a_member_commits_its_offsets_with_its_records() -> None:
    _, engine, producer = await prepared(bumps=True)
    epoch = await join(engine, "m1")
    await producer.send("b", 0, b"new")
    await producer.send_offset("members", "a", 0, 1, member_id="m1", member_epoch=epoch)
    await producer.commit()
    assert await committed(engine, "members", "a") == 1


async def test_a_member_that_lost_its_partition_commits_nothing_at_all() -> None:
    _, engine, producer = await prepared(bumps=True)
    epoch = await join(engine, "m1")
    await producer.send("b", 0, b"new")
    await producer.send_offset("members", "a", 0, 1, member_id="m1", member_epoch=epoch)
    await engine.groups.heartbeat(GroupHeartbeat("members", "m1", LEAVE_EPOCH))
    await join(engine, "m2")
    with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
        await producer.commit()
    assert await values(engine, "b") == [b"before"]
    assert await committed(engine, "members", "a") is None


async def test_a_classic_member_that_is_removed_during_its_commit_commits_nothing_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its session ends between the commit's last look at the group and the transaction."""
    store, engine, producer = await prepared(bumps=True)
    request = ClassicJoin("members", "", "consumer", (("range", b""),), session_ms=10_000, rebalance_ms=30_000)
    joined = await engine.classic_groups.join(replace(request, requires_known_member_id=False))
    identity = ClassicIdentity("members", joined.member_id, joined.generation)
    await engine.classic_groups.sync(ClassicSync(identity, assignments={joined.member_id: b"all"}))
    await producer.send("b", 0, b"new")
    member = {"member_id": joined.member_id, "member_epoch": joined.generation}
    await producer.send_offset("members", "a", 0, 1, **member)
    transact = store.tables.across._port.transact

    async def after_the_removal(operations: Any) -> None:
        monkeypatch.undo()
        await engine.classic_groups.leave("members", [ClassicLeave(joined.member_id)])
        await transact(operations)

    monkeypatch.setattr(store.tables.across._port, "transact", after_the_removal)
    with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
        await producer.commit()
    assert await values(engine, "b") == [b"before"]
    assert await committed(engine, "members", "a") is None


# --- numbered batches ---------------------------------------------------------------------------------------------


async def both(engine: Engine, value: bytes) -> Callable[[int], Awaitable[bool]]:
    requests = [ProducePartition(topic, 0, batch([value])) for topic in ("a", "b")]
    uploaded = await engine.numbered_batches.upload(requests)
    return lambda batch_id: engine.numbered_batches.commit("query", batch_id, uploaded)


async def test_a_numbered_batch_is_added_once_whoever_repeats_it() -> None:
    store, engine, _ = await prepared(bumps=True)
    assert await (await both(engine, b"0"))(0) is True
    assert await (await both(store.engine(1), b"0 again"))(0) is False
    assert await (await both(engine, b"1"))(1) is True
    assert await (await both(engine, b"late 0"))(0) is False
    assert await values(engine, "a") == await values(engine, "b") == [b"before", b"0", b"1"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_numbered_batch_survives_a_fault_of_its_commit(fault: Fault) -> None:
    store, engine, _ = await prepared(bumps=True)
    commit = await both(engine, b"0")
    store.tables.across.script["transact", store.tables.across.count("transact") + 1] = fault
    await commit(0)
    await store.tables.across.deliver_late()
    assert await values(engine, "a") == await values(engine, "b") == [b"before", b"0"]


async def test_a_numbered_batch_that_cannot_be_committed_leaves_nothing() -> None:
    _, engine, _ = await prepared(bumps=True)
    commit = await both(engine, b"0")
    await engine.topics.delete("b")
    with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
        await commit(0)
    assert await values(engine, "a") == [b"before"]
    assert await engine.numbered_batches.last_committed("query") == -1


async def test_pending_uploads_are_what_the_sweep_sees_as_unreferenced() -> None:
    """An aborted transaction's bytes are named by nothing but pending items, which maintenance removes."""
    store, engine, producer = await prepared(bumps=True)
    await producer.send("a", 0, b"x" * 20_000)
    objects = {info.key for info in await store.objects.list("wal/")}
    await producer.abort()
    await engine.transactions.expire_transactions()
    topic = await engine.topics.resolve("a")
    head = await engine.index.read_head(PartitionId(topic.topic_id, 0))
    assert head is not None
    named = {entry.object_id.hex() for _, entry in head.entries()}
    assert len(objects) == 1
    assert not any(object_id in key for key in objects for object_id in named)
    assert await store.log.query("txn#tx") == []
