"""Fetch: what is read, how much, how many requests it costs, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from odradek.engine.read.log_reader import Piece
from odradek.errors import ErrorCode, ObjectMissing
from odradek.format.record_batch import decode_batches, parse_header
from odradek.model.log import FetchPartition, FetchResult, ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all

BIG = b"x" * 20_000


@pytest.fixture
async def store() -> Store:
    store = memory_store()
    await store.engine().topics.create("t", 3)
    return store


async def fetch(store: Store, *wanted: tuple[int, int], **limits: int) -> list[FetchResult]:
    """(partition, offset) pairs, by a new engine: nothing is cached."""
    limit = limits.pop("partition_bytes", 1 << 20)
    return await store.engine().fetch([FetchPartition("t", p, o, max_bytes=limit) for p, o in wanted], **limits)


def values(result: FetchResult) -> list[bytes | None]:
    return [record.value for record in decode_batches(b"".join(result.records))]


async def fill(store: Store, count: int, partition: int = 0, **settings: int) -> None:
    engine = store.engine(1, **settings)
    for i in range(count):
        await produce(engine, "t", partition, batch([b"%d" % i]))


async def test_every_offset_is_readable_whether_in_the_tail_or_below(store: Store) -> None:
    await fill(store, 60, head_bytes_max=600, spill_entries=4)
    for offset in range(60):
        [result] = await fetch(store, (0, offset))
        assert values(result)[0] == b"%d" % offset
        assert parse_header(b"".join(result.records)).base_offset == offset
        assert (result.high_watermark, result.log_start_offset) == (60, 0)


async def test_a_fetch_returns_the_whole_batch_that_holds_the_offset(store: Store) -> None:
    await produce(store.engine(), "t", 0, batch([b"a", b"b", b"c"]))
    [result] = await fetch(store, (0, 1))
    assert [r.offset for r in decode_batches(b"".join(result.records))] == [0, 1, 2]


async def test_the_cost_does_not_grow_with_the_lag() -> None:
    store = memory_store(per_head=1)
    await store.engine().topics.create("t", 1)
    await fill(store, 200, head_bytes_max=600, spill_entries=4)
    costs = []
    for offset in (0, 100, 180):
        store.log.calls.clear()
        await fetch(store, (0, offset), partition_bytes=1)
        costs.append((store.log.count("get"), store.log.count("query")))
    # the head, the WAL item; the row at the offset, the rows after it
    assert costs == [(2, 2)] * 3
    store.log.calls.clear()
    await fetch(store, (0, 200))
    assert store.log.calls == ["get"], "at the head of the log a fetch is one item read"


async def test_rows_are_kept_by_a_warm_engine(store: Store) -> None:
    await fill(store, 100, head_bytes_max=600, spill_entries=4)
    engine = store.engine()
    await engine.fetch([FetchPartition("t", 0, 0, max_bytes=1)])
    store.log.calls.clear()
    for offset in range(60):
        await engine.fetch([FetchPartition("t", 0, offset, max_bytes=1)])
    assert store.log.count("query") == 0


@pytest.mark.parametrize(("per_head", "calls"), [(32, ["get"]), (2, ["get_many"]), (1, ["get_many"])])
async def test_all_heads_are_one_request(per_head: int, calls: list[str]) -> None:
    store = memory_store(per_head)
    await store.engine().topics.create("t", 3)
    store.log.calls.clear()
    await fetch(store, (0, 0), (1, 0), (2, 0))
    assert store.log.calls == calls


async def test_neighbouring_batches_of_one_object_are_one_read(store: Store) -> None:
    engine = store.engine()
    from odradek.model.log import ProducePartition

    await engine.produce([ProducePartition("t", p, batch([BIG])) for p in range(3)])
    store.objects.calls.clear()
    results = await fetch(store, (0, 0), (1, 0), (2, 0))
    assert [values(r) for r in results] == [[BIG]] * 3
    assert store.objects.calls == ["get_range"]


async def test_limits_hold_and_at_least_one_batch_is_returned(store: Store) -> None:
    engine = store.engine()
    for partition in (0, 1):
        for _ in range(5):
            await produce(engine, "t", partition, batch([BIG]))
    size = len(batch([BIG]))
    one, other = await fetch(store, (0, 0), (1, 0), max_bytes=10)
    assert (one.size_bytes, other.size_bytes) == (size, 0)
    one, other = await fetch(store, (0, 0), (1, 0), partition_bytes=2 * size)
    assert (one.size_bytes, other.size_bytes) == (2 * size, 2 * size)
    one, other = await fetch(store, (0, 0), (1, 0), max_bytes=4 * size)
    assert one.size_bytes + other.size_bytes == 4 * size
    assert min(one.size_bytes, other.size_bytes) > 0
    one, other = await fetch(store, (0, 3), (1, 0), max_bytes=6 * size)
    assert one.size_bytes + other.size_bytes == 6 * size, "what one leaves is the other's"
    empty, other = await fetch(store, (2, 0), (1, 0), max_bytes=10)
    assert (empty.size_bytes, other.size_bytes) == (0, size)


async def test_partitions_that_lag_behind_the_same_uploads_read_each_of_them_once(store: Store) -> None:
    """A response full of one partition would read a piece of each upload, and the next one all of them again."""
    from odradek.model.log import ProducePartition

    engine = store.engine()
    await engine.topics.create("wide", 20)
    uploads = 30
    for _ in range(uploads):
        await engine.produce([ProducePartition("wide", number, batch([BIG])) for number in range(20)])
    size = len(batch([BIG]))
    store.objects.calls.clear()
    offsets, requests = [0] * 20, 0
    while sum(offsets) < 20 * uploads:
        requested = [FetchPartition("wide", number, offset) for number, offset in enumerate(offsets)]
        results = await engine.fetch(requested, max_bytes=60 * size)
        offsets = [offset + len(values(result)) for offset, result in zip(offsets, results, strict=True)]
        requests += 1
        assert requests < 20
    assert requests == 10
    assert store.objects.count("get_range") <= 2 * uploads


async def test_partitions_that_are_apart_meet_and_then_read_each_upload_once(store: Store) -> None:
    """With equal shares they would stay apart, and each upload would be read once for each of them, for good."""
    from odradek.model.log import ProducePartition

    engine = store.engine()
    await engine.topics.create("wide", 20)
    uploads = 200
    for _ in range(uploads):
        await engine.produce([ProducePartition("wide", number, batch([BIG])) for number in range(20)])
        store.clock.advance(1)
    size = len(batch([BIG]))
    offsets = [number * 4 for number in range(20)]
    reads = []
    while sum(offsets) < 20 * uploads:
        requested = [FetchPartition("wide", number, offset) for number, offset in enumerate(offsets)]
        store.objects.calls.clear()
        results = await engine.fetch(requested, max_bytes=100 * size)
        assert all(result.size_bytes for result, at in zip(results, offsets, strict=True) if at < uploads)
        offsets = [offset + len(values(result)) for offset, result in zip(offsets, results, strict=True)]
        reads.append(store.objects.count("get_range"))
    assert max(reads[:10]) > 20, "apart at first"
    assert max(reads[-15:]) <= 6, "together: five uploads a response"


async def test_a_partition_in_segments_leaves_half_of_the_response_to_those_in_uploads() -> None:
    """It could fill every response by itself for as long as it lags."""
    store = memory_store(per_head=1)
    engine = store.engine(1, head_bytes_max=400, spill_entries=1, merge_rows_min=1)
    await engine.topics.create("t", 2)
    for _ in range(40):
        await produce(engine, "t", 0, batch([BIG]))
    store.clock.advance(120)
    assert (await engine.maintenance.run()).done["segments_merged"]
    await produce(engine, "t", 1, batch([BIG]))
    size = len(batch([BIG]))
    one, other = await fetch(store, (0, 0), (1, 0), max_bytes=8 * size)
    assert one.size_bytes >= 4 * size
    assert other.size_bytes == size


async def test_partitions_that_lag_are_looked_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of their head are read once, and their rows at the same time: one after the other, fifty partitions
    take a second."""
    store = memory_store()
    writer = store.engine(1, head_bytes_max=600, spill_entries=1, paged_appends=8, item_bytes_max=0)
    await writer.topics.create("t", 16)
    for i in range(40):
        await writer.produce([ProducePartition("t", partition, batch([b"%d" % i])) for partition in range(16)])
    engine = store.engine(2)
    [head] = await engine.index.read_heads([PartitionId((await engine.topics.resolve("t")).topic_id, 0)], whole=False)
    assert head is not None
    assert not head.is_whole
    row_at, at_once, most = engine.index.row_at, 0, 0

    async def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        row = await row_at(*args, **kwargs)
        at_once -= 1
        return row

    monkeypatch.setattr(engine.index, "row_at", watched)
    store.log.calls.clear()
    results = await engine.fetch([FetchPartition("t", partition, 0) for partition in range(16)])
    assert all(values(result)[0] == b"0" for result in results)
    assert store.log.count("get") <= 2
    assert most == 16


async def test_a_long_poll_waits_for_data(store: Store) -> None:
    engine = store.engine()

    async def later() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        await produce(engine, "t", 0, batch([b"news"]))

    waiting = asyncio.create_task(engine.fetch([FetchPartition("t", 0, 0)], max_wait_ms=60_000))
    await later()
    [result] = await waiting
    assert values(result) == [b"news"]


async def test_a_long_poll_ends_without_data(store: Store) -> None:
    started = store.clock.monotonic()
    [result] = await fetch(store, (0, 0), max_wait_ms=500)
    assert (result.error, result.size_bytes) == (0, 0)
    assert 0.5 <= store.clock.monotonic() - started < 0.6


async def test_offsets_outside_of_the_log_are_out_of_range(store: Store) -> None:
    await produce(store.engine(), "t", 0, batch([b"a"]))
    for offset in (-1, 2, 2**62):
        [result] = await fetch(store, (0, offset), max_wait_ms=60_000)
        assert result.error is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (result.high_watermark, result.log_start_offset) == (1, 0)


async def test_unknown_places_are_refused_one_by_one(store: Store) -> None:
    await produce(store.engine(), "t", 0, batch([b"a"]))
    wanted = [FetchPartition("t", 3, 0), FetchPartition("gone", 0, 0), FetchPartition("t", 0, 0)]
    results = await store.engine().fetch(wanted, max_wait_ms=60_000)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [r.error for r in results] == [unknown, unknown, ErrorCode.NONE]
    assert values(results[2]) == [b"a"]


async def test_leader_epochs_are_checked(store: Store) -> None:
    [result] = await store.engine().fetch([FetchPartition("t", 0, 0, current_leader_epoch=1)])
    assert result.error is ErrorCode.UNKNOWN_LEADER_EPOCH
    [result] = await store.engine().fetch([FetchPartition("t", 0, 0, current_leader_epoch=0)])
    assert result.error is ErrorCode.NONE


async def test_a_store_that_is_away_is_a_retryable_error(store: Store) -> None:
    store.log.calls.clear()
    store.log.script[("get", 1)] = Fault.UNAVAILABLE
    [result] = await fetch(store, (0, 0))
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert result.error.is_retryable


async def test_a_missing_object_fails_its_partition_alone(store: Store) -> None:
    engine = store.engine()
    await produce(engine, "t", 0, batch([BIG]))
    await store.objects.delete([info.key for info in await store.objects.list("wal/")])
    await produce(engine, "t", 1, batch([BIG]))
    lost, fine = await fetch(store, (0, 0), (1, 0))
    assert lost.error is ErrorCode.CORRUPT_MESSAGE
    assert values(fine) == [BIG]


async def test_partitions_that_are_planned_again_keep_to_what_is_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were small when the limit was shared out. A merge takes what was planned, and they have grown meanwhile."""
    for partition in range(3):
        await produce(store.engine(), "t", partition, batch([b"small"]))
    engine = store.engine(2)
    read, numbers = engine.pieces.read, iter(range(100))

    async def read_too_late(pieces: Sequence[Piece]) -> list[memoryview]:
        number = next(numbers)
        if number == 0:
            for partition in range(3):
                for _ in range(3):
                    await produce(store.engine(3), "t", partition, batch([BIG]))
        if number in (0, 1, 3, 5):  # all of them at once, then each by itself
            raise ObjectMissing("merged")
        return await read(pieces)

    monkeypatch.setattr(engine.pieces, "read", read_too_late)
    wanted = [FetchPartition("t", partition, 0, max_bytes=50_000) for partition in range(3)]
    results = await engine.fetch(wanted, max_bytes=60_000)
    assert [result.error for result in results] == [ErrorCode.NONE] * 3
    assert all(values(result)[0] == b"small" for result in results)
    assert sum(result.size_bytes for result in results) <= 60_000


async def test_reading_everything_gives_everything(store: Store) -> None:
    await fill(store, 50, head_bytes_max=400, spill_entries=3)
    assert [r.value for r in await read_all(store.engine(), "t", 0)] == [b"%d" % i for i in range(50)]


async def test_a_topic_that_was_recreated_is_found_by_the_next_fetch(store: Store) -> None:
    engine = store.engine()
    await produce(engine, "t", 0, batch([b"old"]))
    other = store.engine(1)
    await other.topics.delete("t")
    await other.topics.create("t", 3)
    await produce(other, "t", 0, batch([b"new"]))
    [deleted] = await engine.fetch([FetchPartition("t", 0, 0)])
    assert deleted.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    [result] = await engine.fetch([FetchPartition("t", 0, 0)])
    assert values(result) == [b"new"]
