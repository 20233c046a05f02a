"""Compaction as Kafka's log cleaner does it: what stays, what goes, when, and where it is written."""

from __future__ import annotations

import pytest
from odradek.format.record_batch import decode_batches
from odradek.model.record import CompressionType, TimestampType
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import START_MS

from tests.support.stores.compaction import ALWAYS, Log

HOUR_MS = 3_600_000


async def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    log = Log()
    await log.add((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    await log.add((b"c", b"1"), (b"b", b"2"))
    report = await log.compact()
    assert await log.values() == {2: (b"a", b"2"), 3: (b"c", b"1"), 4: (b"b", b"2")}
    assert report.done["records_dropped"] == 2
    assert report.done["bytes_reclaimed"] > 0
    assert report.failures == []
    assert await log.audit() == []


async def test_a_batch_keeps_its_span_its_producer_and_its_bytes() -> None:
    log = Log()
    headers = (("h", b"\x00\xff"), ("n", None))
    await log.add_segment(
        log.batch(
            [(b"a", b"1"), (b"b", b"1"), (b"a", b"")],
            headers=headers,
            producer=(9, 3, 77),
            leader_epoch=5,
            compression=CompressionType.ZSTD,
        )
    )
    before = {record.offset: record for record in await log.records()}
    await log.add((b"b", b"2"), leader_epoch=6)
    await log.compact()
    [first, _] = await log.headers()
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (9, 3, 77)
    assert (first.compression, first.partition_leader_epoch) == (CompressionType.ZSTD, 5)
    assert first.max_timestamp_ms == START_MS + 2
    records = {record.offset: record for record in await log.records()}
    assert records[2] == before[2], "value, headers and timestamp are what they were"
    await log.audit()


async def test_what_loses_nothing_is_not_written_again() -> None:
    log = Log()
    await log.add((b"a", b"1"), (b"b", b"1"), compression=CompressionType.GZIP)
    names = await log.object_names()
    report = await log.compact()
    assert await log.object_names() == names
    assert log.objects.count("put") == 0
    assert report.done["records_dropped"] == 0
    state = await log.state()
    assert state is not None
    assert (state.first_dirty, state.is_under_way) == (2, False)


async def test_an_untouched_batch_is_copied_byte_for_byte() -> None:
    log = Log()
    odd = log.batch([(b"x", b"v" * 50)], at=0, compression=CompressionType.SNAPPY)
    await log.add_segment(odd, log.batch([(b"a", b"1")], at=1), log.batch([(b"a", b"2")], at=2))
    await log.compact()
    [row] = await log.rows()
    assert (await log.bytes_of(row)).startswith(odd)


async def test_log_append_time_stays() -> None:
    log = Log()
    stamped = {"timestamp_type": TimestampType.LOG_APPEND_TIME}
    await log.add((b"a", b"1"), (b"b", b"1"), (b"c", None), **stamped)
    await log.add((b"a", b"2"))
    await log.compact()
    first = next(iter(await log.headers()))
    assert first.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert first.max_timestamp_ms == START_MS + 2
    assert [record.timestamp_ms for record in await log.records()][:2] == [START_MS + 2] * 2


async def test_batches_without_records_go() -> None:
    log = Log()
    await log.add_segment(*(log.batch([(b"a", b"%d" % i)], at=i) for i in range(5)))
    await log.compact()
    assert [header.base_offset for header in await log.headers()] == [4]
    assert [(row.base_offset, row.end_offset) for row in await log.rows()] == [(0, 5)]


async def test_the_last_batch_of_the_cleanable_part_stays_without_records() -> None:
    """Else a reader that waits at its offset would find nothing that leads on to the end of the log."""
    log = Log({**ALWAYS, "delete.retention.ms": "0"})
    await log.add((b"a", b"1"))
    await log.add((b"a", None), timestamp_ms=START_MS + 5)
    # The tombstone gets its horizon, but the state that says so is lost: the pass is made again, past the horizon.
    log.table.script[("transact", 3)] = Fault.UNAVAILABLE
    assert (await log.compact()).failures
    assert await log.values() == {1: (b"a", None)}
    log.clock.advance(60)
    await log.compact()
    [header] = await log.headers()
    assert (header.base_offset, header.next_offset, header.record_count) == (1, 2, 0)
    assert header.max_timestamp_ms == -1, "no record has a timestamp"
    assert await log.audit() == []
    await log.add((b"b", b"1"))
    await log.compact()
    assert [header.base_offset for header in await log.headers()] == [2], "now another one is the last"


# --- tombstones -------------------------------------------------------------------------------------------------------


async def test_a_tombstone_outlives_the_first_cleaning_by_delete_retention() -> None:
    log = Log({**ALWAYS, "delete.retention.ms": str(HOUR_MS)})
    await log.add((b"a", b"1"), (b"b", b"1"))
    await log.add((b"a", None), (b"c", b"1"), timestamp_ms=START_MS - 48 * HOUR_MS)
    await log.compact()
    horizon_ms = log.clock.now_ms() + HOUR_MS
    values = {1: (b"b", b"1"), 2: (b"a", None), 3: (b"c", b"1")}
    assert await log.values() == values
    header = (await log.headers())[-1]
    assert header.delete_horizon_ms == header.base_timestamp_ms == horizon_ms
    timestamps = [record.timestamp_ms for record in await log.records() if record.offset >= 2]
    assert timestamps == [START_MS - 48 * HOUR_MS, START_MS - 48 * HOUR_MS + 1], "a horizon changes no timestamp"

    log.clock.advance(HOUR_MS / 1000 - 1)
    await log.add((b"d", b"1"))
    await log.compact()
    assert await log.values() == values | {4: (b"d", b"1")}, "one second too early"
    assert (await log.headers())[1].delete_horizon_ms == horizon_ms, "it is set once"
    log.clock.advance(2)
    await log.add((b"e", b"1"))
    await log.compact()
    assert sorted(await log.values()) == [1, 3, 4, 5]
    assert await log.audit() == []


async def test_a_tombstone_that_is_overwritten_goes_at_once() -> None:
    log = Log()
    await log.add((b"a", None), (b"a", b"2"), (b"b", b"1"))
    await log.compact()
    assert sorted(await log.values()) == [1, 2]
    assert (await log.headers())[0].delete_horizon_ms is None


async def test_a_batch_that_reaches_past_the_pass_gets_no_horizon_yet() -> None:
    log = Log({**ALWAYS, "delete.retention.ms": "0"})
    await log.add((b"a", b"1"))
    # The map holds one key: the pass ends inside of this batch, before the tombstone of b was seen as the last.
    await log.add((b"a", None), (b"b", None))
    await log.compact(compaction_map_entries_max=1)
    assert (b"b", None) in (await log.values()).values()
    assert await log.audit() == []


async def test_a_timestamp_too_far_from_the_horizon_keeps_its_tombstone() -> None:
    log = Log({**ALWAYS, "delete.retention.ms": str(2**63 - 1)})
    await log.add((b"a", None), (b"b", b"1"), (b"b", b"2"), timestamp_ms=-5)
    before = {record.offset: record for record in await log.records()}
    assert (await log.compact()).failures == []
    assert {record.offset: record for record in await log.records()} == {at: before[at] for at in (0, 2)}
    assert (await log.headers())[0].delete_horizon_ms is None


# --- when -------------------------------------------------------------------------------------------------------------


async def test_only_compacted_topics_are_compacted() -> None:
    log = Log({"cleanup.policy": "delete"})
    await log.add((b"a", b"1"), (b"a", b"2"))
    await log.compact()
    assert len(await log.records()) == 2
    assert log.table.count("query") == 0, "not even looked at"


async def test_compact_and_delete_is_compacted() -> None:
    log = Log({**ALWAYS, "cleanup.policy": "compact,delete"})
    await log.add((b"a", b"1"), (b"a", b"2"))
    await log.compact()
    assert sorted(await log.values()) == [1]


async def test_younger_than_the_minimum_lag_stays() -> None:
    log = Log({**ALWAYS, "min.compaction.lag.ms": str(HOUR_MS)})
    now_ms = log.clock.now_ms()
    await log.add((b"a", b"1"), (b"a", b"2"), timestamp_ms=now_ms - 2 * HOUR_MS)
    await log.add((b"a", b"3"), (b"a", b"4"), timestamp_ms=now_ms - HOUR_MS // 2)
    await log.compact()
    assert sorted(await log.values()) == [1, 2, 3], "what is too young neither goes nor makes others go"
    log.clock.advance(HOUR_MS / 1000)
    await log.compact()
    assert sorted(await log.values()) == [3]


async def test_a_log_is_compacted_when_enough_of_it_is_dirty() -> None:
    log = Log({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"})
    await log.add(*((b"k%d" % i, b"v" * 10) for i in range(40)))
    await log.compact()
    state = await log.state()
    assert state is not None
    assert state.first_dirty == 40, "all of it was dirty"
    await log.add(*((b"k%d" % i, b"v" * 10) for i in range(30)))
    assert (await log.compact()).done["compaction_passes"] == 0
    await log.add(*((b"k%d" % i, b"v" * 10) for i in range(30)))
    assert (await log.compact()).done["records_dropped"] == 60


async def test_a_quiet_compacted_log_costs_a_few_reads_and_no_write() -> None:
    log = Log()
    for i in range(30):
        await log.add((b"%d" % i, b"v" * 100))
    await log.compact(segment_bytes_max=300)
    before = len(log.table.calls), len(log.objects.calls)
    await log.compact(segment_bytes_max=300)
    assert log.table.calls[before[0] :] == [
        *("get", "update"),  # the lease
        *("get", "get", "query", "query"),  # head, state, the rows above the first dirty offset: none
        "update",  # the lease
    ]
    assert len(log.objects.calls) == before[1]


async def test_records_that_waited_for_the_maximum_lag_are_compacted_whatever_the_ratio() -> None:
    log = Log({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(HOUR_MS)})
    await log.add((b"a", b"1"), (b"a", b"2"))
    assert (await log.compact()).done["compaction_passes"] == 0
    log.clock.advance(HOUR_MS / 1000 + 1)
    assert (await log.compact()).done["records_dropped"] == 1
    assert (await log.compact()).done["compaction_passes"] == 0, "clean, however old"


async def test_below_the_log_start_nothing_is_kept_or_looked_at() -> None:
    log = Log()
    await log.add((b"a", b"1"))
    await log.add((b"a", b"2"), (b"b", b"1"), (b"c", b"1"))
    await log.add((b"d", b"1"), (b"d", b"2"))
    first = (await log.rows())[0]
    await log.set_log_start(2)
    await log.compact()
    assert (await log.rows())[0] == first, "retention drops it"
    assert sorted(await log.values()) == [0, 2, 3, 5]


# --- where ------------------------------------------------------------------------------------------------------------


async def test_small_neighbours_become_one_segment() -> None:
    log = Log()
    for i in range(12):
        await log.add((b"a", b"%d" % i), (b"k%d" % i, b"v"))
    report = await log.compact(segment_bytes_max=600)
    rows = await log.rows()
    assert len(rows) < 6
    assert all(row.size_bytes <= 600 for row in rows)
    assert report.done["segments_compacted"] == 12
    assert await log.audit() == [], "what was replaced is gone"


async def test_what_retention_may_drop_apart_is_not_joined() -> None:
    """The rows of the log are committed 1 ms apart."""
    for policy, count in (("compact,delete", 4), ("compact", 1)):
        log = Log({**ALWAYS, "cleanup.policy": policy, "segment.ms": "2"})
        for i in range(12):
            await log.add((b"k%d" % i, b"v"))
        await log.compact()
        assert len(await log.rows()) == count


async def test_emptied_segments_go_into_their_neighbour() -> None:
    log = Log()
    for i in range(5):
        await log.add((b"a", b"%d" % i * 100))
    await log.add((b"b", b"1" * 5000))
    await log.add((b"a", b"last"))
    await log.compact(segment_bytes_max=200)
    assert [(row.base_offset, row.end_offset) for row in await log.rows()] == [(0, 6), (6, 7)]
    assert sorted(await log.values()) == [5, 6]


async def test_no_swap_replaces_more_rows_than_a_transaction_takes() -> None:
    log = Log()
    for i in range(250):
        await log.add((b"a", b"%d" % i))
    report = await log.compact()
    assert report.failures == []
    assert sorted(await log.values()) == [249]
    assert len(await log.rows()) == 3
    assert await log.audit() == []


async def test_the_spill_floor_of_the_rows_never_falls() -> None:
    log = Log()
    for i in range(4):
        await log.add((b"a", b"%d" % i))
    await log.compact()
    [row] = await log.rows()
    assert row.spill_floor_ms == START_MS + 3


async def test_a_payload_that_is_no_records_is_its_producers_and_stays() -> None:
    log = Log()
    good = log.batch([(b"a", b"1")])
    broken = bytearray(good)
    broken[61] = 0xFE  # the record's length
    from odradek.format.batch_header import CRC_FIELD, CRC_START
    from odradek.format.crc import crc32c

    CRC_FIELD.pack_into(broken, 17, crc32c(bytes(broken[CRC_START:])))
    await log.add_segment(bytes(broken))
    await log.add((b"a", b"2"), (b"a", b"3"))
    report = await log.compact()
    assert report.failures == []
    [row] = await log.rows()
    stored = await log.bytes_of(row)
    assert stored.startswith(bytes(broken))
    assert [record.offset for record in decode_batches(stored[len(broken) :])] == [2]


@pytest.mark.parametrize("how", ["one bit", "missing", "truncated"])
async def test_a_damaged_segment_stays_as_it_is_and_the_others_are_compacted(how: str) -> None:
    log = Log()
    await log.add((b"a", b"1"), (b"b", b"1"))
    await log.add((b"a", b"2"), (b"c", b"1"))
    await log.add((b"a", b"3"), (b"b", None), (b"c", b"2"))
    await log.add((b"d", b"1"))
    damaged = (await log.rows())[1]
    assert damaged.segment_id is not None
    [name] = [name for name in await log.object_names() if name.endswith(f"{damaged.segment_id.hex()}.log")]
    content = bytearray(await log.bytes_of(damaged))
    content[-5] ^= 1
    await log.kept.delete([name])
    if how != "missing":
        await log.kept.put(name, [bytes(content[:-9] if how == "truncated" else content)])
    report = await log.compact()
    assert report.failures == []
    assert report.done["rows_set_apart"] == 1
    rows = await log.rows()
    assert [row.is_damaged for row in rows].count(True) == 1
    assert (name in await log.object_names()) == (how != "missing")
    [flagged] = [row for row in rows if row.is_damaged]
    assert (flagged.base_offset, flagged.end_offset) == (damaged.base_offset, damaged.end_offset)
    left = [decoded for row in rows if not row.is_damaged for decoded in decode_batches(await log.bytes_of(row))]
    assert [(record.offset, record.value) for record in left] == [(4, b"3"), (5, None), (6, b"2"), (7, b"1")]
    # The tombstone stays for good: a value that it deletes may be in the damaged segment.
    for _ in range(3):
        log.clock.advance(10 * 86_400)
        await log.add((b"a", b"4"))
        assert (await log.compact()).failures == []
    left = [
        record for row in await log.rows() if not row.is_damaged for record in decode_batches(await log.bytes_of(row))
    ]
    assert (5, b"b", None) in [(record.offset, record.key, record.value) for record in left]


@pytest.mark.parametrize("compression", list(CompressionType))
async def test_every_compression_is_kept(compression: CompressionType) -> None:
    log = Log()
    await log.add(*((b"%d" % (i % 7), b"value" * 20) for i in range(50)), compression=compression)
    await log.compact()
    assert [header.compression for header in await log.headers()] == [compression]
    assert sorted(await log.values()) == list(range(43, 50))
