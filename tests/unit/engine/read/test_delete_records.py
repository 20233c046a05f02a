"""DeleteRecords: the log start moves up and never past the high watermark; refused with Kafka's errors."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.partition.head import PartitionHead
from odradek.errors import ErrorCode, StoreUnavailable
from odradek.model.log import EARLIEST_TIMESTAMP, DeleteRecordsPartition, FetchPartition, ListOffsetsPartition
from odradek.model.topic_partition import PartitionId
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all


@pytest.fixture
def store() -> Store:
    return memory_store()


async def test_deleted_records_are_gone_at_once_and_the_others_stay(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 2)
    for value in (b"a", b"b", b"c"):
        await produce(engine, "t", 0, batch([value, value]))
    [first, second] = await engine.delete_records(
        [DeleteRecordsPartition("t", 0, 3), DeleteRecordsPartition("t", 1, -1)]
    )
    assert (first.error, first.low_watermark) == (ErrorCode.NONE, 3)
    assert (second.error, second.low_watermark) == (ErrorCode.NONE, 0)
    assert [record.offset for record in await read_all(engine, "t", 0, 3)] == [3, 4, 5]
    [early] = await engine.fetch([FetchPartition("t", 0, 2)])
    assert early.error is ErrorCode.OFFSET_OUT_OF_RANGE
    [earliest] = await engine.list_offsets([ListOffsetsPartition("t", 0, EARLIEST_TIMESTAMP)])
    assert earliest.offset == 3


async def test_minus_one_deletes_up_to_the_high_watermark_and_a_lower_offset_changes_nothing(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t")
    await produce(engine, "t", 0, batch([b"a"] * 5))
    for requested, low_watermark in ((2, 2), (1, 2), (2, 2), (-1, 5), (0, 5), (5, 5)):
        [result] = await engine.delete_records([DeleteRecordsPartition("t", 0, requested)])
        assert (result.error, result.low_watermark) == (ErrorCode.NONE, low_watermark)
    assert (await produce(engine, "t", 0, batch([b"b"]))).base_offset == 5


async def test_what_is_refused(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t")
    await engine.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    await engine.topics.create("both", 1, {"cleanup.policy": "compact,delete"})
    wanted = [("t", 0, 1), ("t", 0, -2), ("t", 1, 0), ("no", 0, 0), ("compacted", 0, 0), ("both", 0, 0)]
    results = await engine.delete_records([DeleteRecordsPartition(*arguments) for arguments in wanted])
    assert [result.error for result in results] == [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NONE,
    ]
    assert all(result.message for result in results if result.error)


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.UNAVAILABLE, Fault.LATE])
async def test_a_lost_answer_is_asked_again_and_deletes_nothing_newer(store: Store, fault: Fault) -> None:
    engine = store.engine()
    await engine.topics.create("t")
    await produce(engine, "t", 0, batch([b"a"] * 5))
    store.log.script = {("update", store.log.count("update") + 1): fault}
    [result] = await engine.delete_records([DeleteRecordsPartition("t", 0, -1)])
    await produce(engine, "t", 0, batch([b"b"]))
    await store.log.deliver_late()
    assert (result.error, result.low_watermark) == (ErrorCode.NONE, 5)
    assert [record.offset for record in await read_all(engine, "t", 0, 5)] == [5]


async def test_a_store_that_never_answers_is_said_so(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t")
    await produce(engine, "t", 0, batch([b"a"]))
    used = store.log.count("update")
    store.log.script = {("update", used + n): Fault.UNAVAILABLE for n in range(1, 20)}
    assert (await engine.delete_records([DeleteRecordsPartition("t", 0, 1)]))[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    store.log.script = {("update", used + n): Fault.LOST_REQUEST for n in range(1, 40)}
    assert (await engine.delete_records([DeleteRecordsPartition("t", 0, 1)]))[0].error is ErrorCode.REQUEST_TIMED_OUT


async def test_a_repetition_deletes_nothing_that_came_meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.engine()
    await engine.topics.create("t")
    await produce(engine, "t", 0, batch([b"a"] * 3))
    advance, offsets_asked = engine.index.advance_log_start, []

    async def fails_once(partition: PartitionId, offset: int, **options: Any) -> PartitionHead | None:
        offsets_asked.append(offset)
        if len(offsets_asked) == 1:
            await produce(engine, "t", 0, batch([b"b"]))
            raise StoreUnavailable("throttled")
        return await advance(partition, offset, **options)

    monkeypatch.setattr(engine.index, "advance_log_start", fails_once)
    [result] = await engine.delete_records([DeleteRecordsPartition("t", 0, -1)])
    assert (result.error, result.low_watermark, offsets_asked) == (ErrorCode.NONE, 3, [3, 3])
    assert [record.value for record in await read_all(engine, "t", 0, 3)] == [b"b"]


async def test_a_log_start_that_comes_late_changes_nothing(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.create("t")
    await produce(engine, "t", 0, batch([b"a"] * 5))
    partition = PartitionId(topic.topic_id, 0)
    for offset in (4, 2):
        head = await engine.index.advance_log_start(partition, offset)
        assert head is not None
        assert head.log_start_offset == 4
