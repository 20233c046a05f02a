"""Offset translation: never beyond what a group has read, and exact where the source has no holes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.errors import KafkaError
from odradek.glue_jobs.mirror.offsets import OffsetSync, parse_syncs, syncs_document, translate, with_sync

from tests.support.examples import examples


def test_offsets_of_a_dense_stretch_are_exact() -> None:
    syncs = [OffsetSync(100, 150, 40, 90)]
    assert [translate(syncs, offset) for offset in (0, 100, 120, 149, 150, 999)] == [40, 40, 60, 89, 90, 90]
    assert translate([], 5) is None


def test_a_compacted_stretch_is_read_again_rather_than_missed() -> None:
    syncs = [OffsetSync(0, 10, 0, 10), OffsetSync(10, 50, 10, 12), OffsetSync(60, 70, 12, 22)]
    assert translate(syncs, 11) == 10
    assert translate(syncs, 50) == 12
    assert translate(syncs, 55) == 12
    assert translate(syncs, 65) == 17


def test_a_repeated_stretch_changes_nothing_and_a_dense_one_extends_the_last() -> None:
    first = with_sync([], OffsetSync(0, 5, 0, 5), topic_partition="t-0")
    assert with_sync(first, OffsetSync(0, 5, 0, 5), topic_partition="t-0") == first
    assert with_sync(first, OffsetSync(5, 9, 5, 9), topic_partition="t-0") == [OffsetSync(0, 9, 0, 9)]
    assert with_sync(first, OffsetSync(7, 9, 5, 7), topic_partition="t-0") == [
        OffsetSync(0, 5, 0, 5),
        OffsetSync(7, 9, 5, 7),
    ]


def test_someone_elses_records_in_the_target_are_found() -> None:
    with pytest.raises(KafkaError, match="t-0 of the target has grown from 5 to 6 without the mirror"):
        with_sync([OffsetSync(0, 5, 0, 5)], OffsetSync(5, 9, 6, 10), topic_partition="t-0")


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(0, 5)), min_size=1), st.integers(0, 80))
def test_no_unread_record_is_skipped(stretches: list[tuple[int, int, int]], committed: int) -> None:
    """Against the records themselves: of every stretch, a gap, then some records over some more offsets."""
    syncs: list[OffsetSync] = []
    source_offsets: list[int] = []  # by target offset
    at = 0
    for gap, count, holes in stretches:
        start = at + gap
        offsets = [start + i for i in range(count - 1)] + [start + count - 1 + holes]
        new = OffsetSync(start, offsets[-1] + 1, len(source_offsets), len(source_offsets) + count)
        syncs = with_sync(syncs, new, topic_partition="t-0")
        source_offsets += offsets
        at = offsets[-1] + 1
    translated = translate(syncs, committed)
    assert translated is not None
    assert all(offset < committed for offset in source_offsets[:translated])


def test_syncs_survive_their_file() -> None:
    syncs = {"t": {0: [OffsetSync(0, 5, 0, 5)], 3: []}}
    assert parse_syncs(syncs_document(syncs)) == syncs
    with pytest.raises(KafkaError, match="damaged"):
        parse_syncs({"t": {"0": [[1, 2]]}})
