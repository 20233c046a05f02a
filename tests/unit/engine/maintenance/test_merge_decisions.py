"""Choice of segments to merge; bytes are not rewritten for ever."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from odradek.engine.maintenance.merge_decisions import FANOUT, MergePolicy, choose_window, wants_merge
from odradek.engine.partition.index_row import IndexRow
from odradek.format.tail_entry import TailEntry

KIB, MIB, HOUR_MS = 1024, 1024 * 1024, 3_600_000
NOW_MS = 1_700_000_000_000
POLICY = MergePolicy(
    segment_bytes=64 * MIB, segment_ms=24 * HOUR_MS, rows_min=16, age_ms=600_000, delay_ms=0, rows_max=98
)


def segment(size: int, base: int = 0, *, started_ms: int = NOW_MS, ended_ms: int = NOW_MS) -> IndexRow:
    return IndexRow(base, base + 10, 0, size, ended_ms, (), b"s" * 16, 100, 0, started_ms)


def spilled(size: int, base: int = 0, *, commit_ms: int = NOW_MS) -> IndexRow:
    entry = TailEntry(b"w" * 16, 0, size, 10, 0, commit_ms=commit_ms)
    return IndexRow(base, base + 10, 0, size, commit_ms, (entry,))


def in_a_row(*rows: IndexRow) -> list[IndexRow]:
    return [replace(row, base_offset=10 * i, end_offset=10 * i + 10) for i, row in enumerate(rows)]


def choose(*rows: IndexRow, policy: MergePolicy = POLICY) -> tuple[int, int] | None:
    return choose_window(in_a_row(*rows), policy, NOW_MS)


def test_few_young_rows_wait() -> None:
    assert choose(*[spilled(KIB)] * 15) is None
    assert choose(*[spilled(KIB)] * 16) == (0, 16)
    assert choose(spilled(KIB, commit_ms=NOW_MS - 599_999)) is None
    assert choose(spilled(KIB, commit_ms=NOW_MS - 600_000), spilled(KIB)) == (0, 2)
    assert choose() is None
    assert not wants_merge([], POLICY, NOW_MS)


def test_what_a_writer_may_still_look_for_waits() -> None:
    policy = replace(POLICY, delay_ms=60_000, rows_min=2)
    old, young = spilled(KIB, commit_ms=NOW_MS - 60_000), spilled(KIB, commit_ms=NOW_MS - 59_999)
    assert choose(old, old, young, young, policy=policy) == (0, 2)
    assert choose(segment(KIB), young, young, young, policy=policy) is None
    assert choose(old, young, young, policy=policy) is None


def test_a_window_is_at_most_a_segment_and_a_transaction() -> None:
    assert choose(*[spilled(5 * MIB)] * 20) == (0, 12)
    assert choose(*[spilled(KIB)] * 200) == (0, 98)
    assert choose(*[spilled(80 * MIB)] * 20) == (0, 1), "a row is never cut off from the others for its size"


def test_small_segments_before_the_rows_join_and_large_ones_do_not() -> None:
    rows = [spilled(10 * KIB)] * 16
    assert choose(segment(40 * MIB), segment(20 * KIB), segment(3 * KIB), *rows) == (1, 19)
    assert choose(segment(200 * KIB), *rows) == (1, 17), "both together stand on the rung of the first"
    assert choose(*[segment(200 * KIB)] * 3, *rows) == (0, 19), "these reach the next"


def test_segments_alone_are_merged_where_compaction_left_them_small() -> None:
    assert choose(*[segment(900 * KIB)] * 2) is None
    assert choose(*[segment(900 * KIB)] * 3) == (0, 3)
    assert choose(segment(50 * MIB), *[segment(KIB)] * 9, segment(50 * MIB), spilled(KIB)) == (1, 10)
    assert choose(segment(50 * MIB), segment(50 * MIB)) is None
    assert choose(*[segment(0)] * 5) is None


def test_a_segment_spans_no_more_than_segment_ms() -> None:
    old = segment(KIB, started_ms=NOW_MS - 25 * HOUR_MS, ended_ms=NOW_MS - HOUR_MS)
    young = segment(KIB, started_ms=NOW_MS - 23 * HOUR_MS, ended_ms=NOW_MS - HOUR_MS)
    assert choose(old, *[spilled(KIB)] * 16) == (1, 17)
    assert choose(young, *[spilled(KIB)] * 16) == (0, 17)
    late = [spilled(KIB, commit_ms=NOW_MS - 30 * HOUR_MS)] * 2
    assert choose(*late, *[spilled(KIB)] * 16) == (0, 2)


@pytest.mark.parametrize("seed", range(6))
def test_write_amplification_and_the_number_of_segments_are_logarithmic(seed: int) -> None:
    chance = random.Random(seed)
    row_bytes = 16 * KIB
    policy = replace(POLICY, segment_bytes=8 * MIB, rows_min=4)
    rows: list[IndexRow] = []
    written = appended = offset = 0
    most_open = 0
    for _ in range(600):
        for _ in range(chance.choice([1, 1, 2, 9])):
            size = chance.randint(row_bytes // 2, 2 * row_bytes)
            rows.append(replace(spilled(size), base_offset=offset, end_offset=offset + 10))
            offset, appended = offset + 10, appended + size
        while (window := choose_window(rows[-128:], policy, NOW_MS)) is not None:
            shift = max(0, len(rows) - 128)
            first, stop = window[0] + shift, window[1] + shift
            merged = rows[first:stop]
            size = sum(row.size_bytes for row in merged)
            assert size <= policy.segment_bytes
            written += size
            end = merged[-1].end_offset
            rows[first:stop] = [replace(segment(size, merged[0].base_offset), end_offset=end)]
        most_open = max(most_open, sum(row.is_segment and policy.rung(row.size_bytes) > 0 for row in rows))
    assert rows[0].base_offset == 0
    assert _are_neighbours(rows)
    rungs = math.log(policy.segment_bytes / row_bytes, FANOUT)
    assert written / appended <= rungs + 1, "each byte is written once a rung at most"
    assert most_open <= FANOUT * (rungs + 2)
    closed = [row for row in rows if row.is_segment][: -int(most_open)]
    assert len(closed) <= appended / (policy.segment_bytes / 2) + most_open


def _are_neighbours(rows: Sequence[IndexRow]) -> bool:
    return all(a.end_offset == b.base_offset for a, b in itertools.pairwise(rows))
