"""Compaction against a dict: any log, cut into any segments, with any small map, in any number of runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.compaction.batch import compact_batch, read_keys
from odradek.engine.compaction.decisions import Bounds, CompactionPolicy
from odradek.engine.compaction.offset_map import OffsetMap
from odradek.format.record_batch import decode_batch, encode_batch, parse_header
from odradek.model.record import CompressionType, Record, TimestampType
from odradek.testing.manual_clock import START_MS

from tests.support.examples import examples
from tests.support.stores.compaction import ALWAYS, Log, last_of_each_key

KEYS = [b"", b"a", b"b" * 200, b"\x00", b"key"]
ENTRY = st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=40))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)
BATCH = st.fixed_dictionaries(
    {
        "entries": st.lists(ENTRY, min_size=1, max_size=6),
        "compression": st.sampled_from(list(CompressionType)),
        "timestamp_type": st.sampled_from(list(TimestampType)),
        "timestamp_ms": st.integers(START_MS - 100_000, START_MS + 100_000),
        "headers": HEADERS,
    }
)
SEGMENT = st.lists(BATCH, min_size=1, max_size=4)
SETTINGS = st.fixed_dictionaries(
    {
        "compaction_map_entries_max": st.integers(1, 6),
        "segment_bytes_max": st.sampled_from([200, 600, 2_000]),
        "compaction_read_bytes": st.sampled_from([1, 150, 10_000]),
    }
)


@dataclass(frozen=True)
class Round:
    segments: list[list[dict[str, Any]]]
    pause_s: int
    settings: dict[str, int]


ROUND = st.builds(Round, st.lists(SEGMENT, min_size=1, max_size=4), st.integers(0, 20), SETTINGS)


@settings(max_examples=examples(120))
@given(rounds=st.lists(ROUND, min_size=1, max_size=3), retention_ms=st.sampled_from([0, 10_000, 10**9, 2**63 - 1]))
def test_a_reader_sees_the_last_of_each_key_as_it_was(rounds: list[Round], retention_ms: int) -> None:
    asyncio.run(play(rounds, retention_ms))


async def play(rounds: list[Round], retention_ms: int) -> None:
    log = Log({**ALWAYS, "delete.retention.ms": str(retention_ms)})
    written: list[Record] = []
    for compaction_round in rounds:
        for segment in compaction_round.segments:
            at, batches = log.next_offset, []
            for options in segment:
                batches.append(log.batch(at=at, **options))
                at += len(options["entries"])
                written += decode_batch(batches[-1])
            await log.add_segment(*batches)
        assert (await log.compact(**compaction_round.settings)).failures == []
        assert await log.audit() == []
        left = await log.records()
        originals, last = {record.offset: record for record in written}, last_of_each_key(written)
        assert all(originals[record.offset] == record for record in left), "key, value, headers, timestamp"
        assert [record.offset for record in left] == sorted({record.offset for record in left})
        values = {record.offset for record in last.values() if record.value is not None}
        tombstones = {record.offset for record in last.values() if record.value is None}
        offsets = {record.offset for record in left}
        assert values <= offsets <= values | tombstones
        if retention_ms >= 10**9:
            assert tombstones <= offsets
        headers = await log.headers()
        assert headers[-1].next_offset == log.next_offset, "a reader gets to the end"
        log.clock.advance(compaction_round.pause_s)


@settings(max_examples=examples(150))
@given(
    entries=st.lists(ENTRY, min_size=1, max_size=8),
    compression=st.sampled_from(list(CompressionType)),
    timestamp_type=st.sampled_from(list(TimestampType)),
    timestamps=st.lists(st.integers(-(2**61), 2**61), min_size=8, max_size=8),
    map_entries=st.integers(1, 5),
    pass_end=st.integers(100, 110),
    is_last=st.booleans(),
    now_ms=st.sampled_from([START_MS, START_MS + 100, START_MS + 10**9]),
)
def test_one_batch(
    entries: list[tuple[bytes, bytes | None]],
    compression: CompressionType,
    timestamp_type: TimestampType,
    timestamps: list[int],
    map_entries: int,
    pass_end: int,
    is_last: bool,
    now_ms: int,
) -> None:
    records = [Record(100 + i, timestamps[i], key, value) for i, (key, value) in enumerate(entries)]
    batch = encode_batch(
        records, compression_type=compression, timestamp_type=timestamp_type, last_offset=120, producer_id=5
    )
    header = parse_header(batch)
    before = {record.offset: record for record in decode_batch(batch)}
    policy = CompactionPolicy(0, 2**63 - 1, 0.0, 50, 1000, 2**63 - 1)
    offsets = OffsetMap(map_entries)
    full_at = read_keys(batch, header, 0, offsets)
    end = pass_end if full_at is None else min(full_at, pass_end)
    current: bytes = batch
    for run_ms in (now_ms, now_ms, now_ms + 60):
        header = parse_header(current)
        left = compact_batch(current, header, offsets, Bounds(0, end, run_ms), policy, is_last=is_last)
        if left.batch is None:
            assert not is_last
            return
        current = bytes(left.batch)
        after = parse_header(current)
        assert (after.base_offset, after.last_offset, after.producer_id) == (100, 120, 5)
        kept = decode_batch(current)
        assert len(kept) == after.record_count == header.record_count - left.dropped
        assert all(before[record.offset] == record for record in kept)
        assert {record.offset for record in kept} >= {offset for offset in before if offset >= end}
        if kept:
            assert after.compression is compression
            assert timestamp_type or after.max_timestamp_ms == max(record.timestamp_ms for record in kept)
        if not left.is_changed:
            assert current == bytes(left.batch)
