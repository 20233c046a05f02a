"""The largest timestamp of a batch is its records', whatever its header says: some producers write -1 there."""

from __future__ import annotations

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.batch_header import check_crc, iter_headers
from odradek.format.record_batch import decode_batches
from odradek.model.log import MAX_TIMESTAMP, FetchPartition, ListOffsetsPartition, ProducePartition
from odradek.model.record import CompressionType

from tests.support.engine import Store, batch, memory_store, produce
from tests.support.kafka.poison import rebuilt

T0 = 1_700_000_000_000
WRONG = [-1, T0 - 1, T0 + 7_200_000, 2**62]


@pytest.fixture
def store() -> Store:
    return memory_store()


def wrong(max_ms: int, compression: CompressionType = CompressionType.NONE, sequence: int = -1) -> bytes:
    """Three records at T0, T0 + 1 and T0 + 2, whose header says something else."""
    producer = (7, 0, sequence) if sequence >= 0 else (-1, -1, -1)
    return rebuilt(
        batch([b"a", b"b", b"c"], timestamp_ms=T0, compression=compression, producer=producer), max_ms=max_ms
    )


async def lookups(engine: Engine) -> list[tuple[int, int]]:
    lookups_asked = [
        ListOffsetsPartition("t", 0, timestamp_ms) for timestamp_ms in (0, T0 + 1, T0 + 2, T0 + 3, MAX_TIMESTAMP)
    ]
    return [(result.offset, result.timestamp_ms) for result in await engine.list_offsets(lookups_asked)]


FOUND = [(0, T0), (1, T0 + 1), (2, T0 + 2), (-1, -1), (2, T0 + 2)]


async def check_stored(engine: Engine) -> None:
    """The log has the batch with its true timestamp and a CRC that fits."""
    assert await lookups(engine) == FOUND
    [result] = await engine.fetch([FetchPartition("t", 0, 0)])
    data = b"".join(result.records)
    [(position, header)] = list(iter_headers(data))
    check_crc(data, position, header)
    assert (header.max_timestamp_ms, header.base_timestamp_ms) == (T0 + 2, T0)
    assert [record.value for record in decode_batches(data, allow_truncated=False)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("compression", list(CompressionType))
@pytest.mark.parametrize("max_ms", WRONG)
async def test_the_header_is_repaired_in_every_codec(store: Store, max_ms: int, compression: CompressionType) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    assert not (await produce(engine, "t", 0, wrong(max_ms, compression))).error
    await check_stored(engine)


@pytest.mark.parametrize("item_bytes_max", [0, 4096])
@pytest.mark.parametrize("sequence", [-1, 0])
async def test_of_any_producer_and_any_upload(store: Store, sequence: int, item_bytes_max: int) -> None:
    engine = store.engine(item_bytes_max=item_bytes_max)
    await engine.topics.create("t", 1)
    sent = wrong(-1, sequence=sequence)
    assert not (await produce(engine, "t", 0, sent)).error
    assert not (await produce(engine, "t", 0, sent)).error or sequence < 0  # a duplicate, known by its sequence
    if sequence >= 0:
        await check_stored(engine)


async def test_of_a_batch_with_an_expected_offset(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    assert not (await produce(engine, "t", 0, wrong(-1), expected_offset=0)).error
    await check_stored(engine)


async def test_of_a_numbered_batch(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    uploaded = await engine.numbered_batches.upload([ProducePartition("t", 0, wrong(-1))])
    assert await engine.numbered_batches.commit("writer", 0, uploaded)
    await check_stored(engine)


async def test_only_the_wrong_one_of_several_batches_changes(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    good = batch([b"x"], timestamp_ms=T0 - 5)
    assert not (await produce(engine, "t", 0, good + wrong(-1) + good)).error
    assert await lookups(engine) == [(0, T0 - 5), (2, T0 + 1), (3, T0 + 2), (-1, -1), (3, T0 + 2)]
    [result] = await engine.fetch([FetchPartition("t", 0, 0)])
    data = b"".join(result.records)
    for position, header in iter_headers(data):
        check_crc(data, position, header)
    assert [header.max_timestamp_ms for _, header in iter_headers(data)] == [T0 - 5, T0 + 2, T0 - 5]


@pytest.mark.parametrize("max_ms", [-1, T0 + 7_200_000])
async def test_under_log_append_time_the_log_says_when(store: Store, max_ms: int) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1, {"message.timestamp.type": "LogAppendTime"})
    result = await produce(engine, "t", 0, wrong(max_ms))
    assert not result.error
    [looked_up] = await engine.list_offsets([ListOffsetsPartition("t", 0, result.log_append_time_ms)])
    assert (looked_up.offset, looked_up.timestamp_ms) == (0, result.log_append_time_ms)


async def test_without_validation_a_header_that_contradicts_itself_is_not_believed(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1, {"record.validation": "header"})
    assert not (await produce(engine, "t", 0, wrong(-1))).error
    await check_stored(engine)


async def test_lookups_find_it_in_segments_and_rows(store: Store) -> None:
    engine = store.engine(head_bytes_max=600, spill_entries=4)
    await engine.topics.create("t", 1)
    for _ in range(40):
        assert not (await produce(engine, "t", 0, wrong(-1))).error
    expected = [(0, T0), (1, T0 + 1), (2, T0 + 2), (-1, -1), (2, T0 + 2)]
    assert await lookups(engine) == expected
    await engine.maintenance.run()
    assert await lookups(engine) == expected


async def test_a_record_out_of_the_topics_range_is_named(store: Store) -> None:
    """Of a batch the records are refused that are wrong, not all: a client gives up those alone (KIP-467)."""
    engine = store.engine()
    await engine.topics.create("t", 1)
    now_ms = store.clock.now_ms()
    late = batch([b"a"], timestamp_ms=now_ms)
    mixed = batch([b"a", b"b"], timestamp_ms=now_ms + 7_200_000)
    for records, indexes in ((mixed, [0, 1]), (rebuilt(late, max_ms=now_ms + 7_200_000), [])):
        result = await produce(engine, "t", 0, records)
        assert [index for index, _ in result.record_errors] == indexes
        assert result.error is (ErrorCode.INVALID_TIMESTAMP if indexes else ErrorCode.NONE)
