"""Leases of partitions that share a head are one item: a commit is one update, each partition is fenced by itself."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.cost.metering import UsageMeter
from odradek.engine.engine import Engine
from odradek.engine.groups.leases import lease_slot, leases_in, one_update_an_item
from odradek.engine.groups.store import grant_operation
from odradek.engine.offsets.decisions import Committer, commit_operation
from odradek.errors import ConditionFailed, ErrorCode
from odradek.limits import PARTITIONS_PER_HEAD_MAX
from odradek.model.group import JOIN_EPOCH, GroupHeartbeat
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition, new_topic_id
from odradek.settings import Settings
from odradek.testing import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import Store, memory_store

PARTITIONS = 24
ALL = [TopicPartition("t", number) for number in range(PARTITIONS)]


@pytest.fixture
async def store() -> Store:
    store = memory_store()
    await store.engine().topics.create("t", PARTITIONS)
    return store


def offsets(value: int, partitions: list[TopicPartition] = ALL) -> dict[TopicPartition, OffsetAndMetadata]:
    return {partition: OffsetAndMetadata(value + partition.partition) for partition in partitions}


async def joined_member(engine: Engine) -> int:
    join: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "owned": {}}
    result = await engine.groups.heartbeat(GroupHeartbeat("g", "m" * 36, JOIN_EPOCH, **join))
    assert not result.error
    return result.member_epoch


async def committed(engine: Engine) -> list[int | None]:
    return [result.committed and result.committed.offset for result in await engine.offsets.fetch("g", ALL)]


async def test_a_member_commits_24_partitions_in_two_writes_of_a_unit() -> None:
    clock, meter = ManualClock(auto_advance=True), UsageMeter()
    engine = Engine(
        tables=MemoryStore(meter),
        objects=MemoryObjectStore(clock, meter),
        clock=clock,
        rng=SeededRng(1),
        settings=Settings(),
    )
    await engine.topics.create("t", PARTITIONS)
    epoch = await joined_member(engine)
    for value in (10, 1_000_000):
        clock.advance(1)
        before, calls = meter.total(), meter.calls()
        results = await engine.offsets.commit("g", offsets(value), member_id="m" * 36, member_epoch=epoch)
        assert {result.error for result in results} == {ErrorCode.NONE}
        used = meter.total() - before
        assert meter.calls()["UpdateItem"] - calls.get("UpdateItem", 0) == 2
        assert used.table_write_units <= 3  # owner, epoch, offset and stamp of 24 partitions
        assert used.table_read_units == 0
        assert await committed(engine) == [value + number for number in range(PARTITIONS)]


async def test_a_partition_that_is_refused_keeps_the_others_from_nothing(store: Store) -> None:
    engine = store.engine()
    epoch = await joined_member(engine)
    topic = await engine.topics.resolve("t")
    slot = lease_slot("g", PartitionId(topic.topic_id, 5))
    [(owner,), (since,)] = slot.path("o"), slot.path("e")
    item = dict(await store.groups.get(slot.key))
    await store.groups._port.put(_put(slot.key, {**item, owner: "another", since: 1}))
    store.groups.calls.clear()
    results = await engine.offsets.commit("g", offsets(10), member_id="m" * 36, member_epoch=epoch)
    codes = {result.partition.partition: result.error for result in results}
    assert codes.pop(5) is ErrorCode.FENCED_MEMBER_EPOCH
    assert set(codes.values()) == {ErrorCode.NONE}
    assert store.groups.count("update") == 3, "two items, and one of them again"
    assert (await committed(engine))[4:7] == [14, None, 16]


def _put(key: Any, item: Any) -> Any:
    from odradek.ports.table import Put

    return Put(key, item)


async def test_a_late_commit_is_refused_as_a_whole_by_any_later_one() -> None:
    table = MemoryStore().groups
    topic_id = new_topic_id(bytes(16), 8)
    slots = [lease_slot("g", PartitionId(topic_id, number)) for number in range(3)]

    def commit(numbers: list[int], offset: int, stamp_ms: int) -> Any:
        updates = [commit_operation(slots[n], "t", OffsetAndMetadata(offset), Committer(), stamp_ms) for n in numbers]
        [operation] = one_update_an_item(updates)
        return operation

    await table.update(commit([0, 1, 2], 1, 1_000))
    await table.update(commit([1], 2, 1_002))
    with pytest.raises(ConditionFailed):
        await table.update(commit([0, 1, 2], 9, 1_001))
    item = await table.get(slots[0].key)
    assert [lease.committed and lease.committed.offset for _, lease in leases_in(slots[0].key.sk, item or {})] == [
        1,
        2,
        1,
    ]


async def test_the_largest_commit_fits_an_expression_and_an_item(store: Store) -> None:
    """The table refuses more than DynamoDB takes."""
    engine = store.engine()
    await engine.topics.create("wide", PARTITIONS_PER_HEAD_MAX)
    topic = await engine.topics.resolve("wide")
    partitions = [PartitionId(topic.topic_id, number) for number in range(PARTITIONS_PER_HEAD_MAX)]
    member = "m" * 36
    from odradek.engine.groups.decisions import Grant

    grants = [
        grant_operation(lease_slot("g", partition), Grant(partition, "wide", member, 2**31 - 1))
        for partition in partitions
    ]
    granted = one_update_an_item(grants)
    assert len(granted) == 2
    await store.groups.transact(granted)
    text = OffsetAndMetadata(2**63 - 1, 2**31 - 1, "x" * 4_096)
    wanted = {TopicPartition("wide", partition.partition): text for partition in partitions}
    results = await engine.offsets.commit("g", wanted, member_id=member, member_epoch=2**31 - 1)
    assert {result.error for result in results} == {ErrorCode.NONE}


async def test_an_offset_is_deleted_without_those_beside_it(store: Store) -> None:
    engine = store.engine()
    await engine.offsets.commit("g", offsets(10, ALL[:3]))
    [deleted, never] = await engine.offsets.delete("g", [ALL[1], ALL[9]])
    assert (deleted.error, never.error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (await committed(engine))[:4] == [10, None, 12, None]
    results = await engine.offsets.fetch("g", None)
    assert [result.partition for result in results] == [ALL[0], ALL[2]]
    assert await engine.groups.delete(["g"]) == [("g", ErrorCode.NONE)]
    assert await committed(engine) == [None] * PARTITIONS


async def test_offsets_of_a_transaction_are_one_operation_an_item(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("out", 1)
    producer = await Transactor(engine).init()
    await producer.send("out", 0, b"done")
    for partition in ALL:
        await producer.send_offset("g", "t", partition.partition, 7)
    await producer.commit()
    assert await committed(engine) == [7] * PARTITIONS
    topic = await engine.topics.resolve("t")
    slot = lease_slot("g", PartitionId(topic.topic_id, 0))
    item = await store.groups.get(slot.key)
    assert len(list(leases_in(slot.key.sk, item))) == 16
