"""Sessions of one group, record by record."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.sql.running.sessions import placed

from tests.support.examples import examples

GAP, GRACE = 10, 5


def sessions(records: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return start, end and number of records of each session."""
    found: dict[int, list[int]] = {}
    for (time, _), place in zip(records, placed(records, GAP, GRACE), strict=True):
        if place is not None:
            found.setdefault(place, []).append(time)
    return sorted((min(times), max(times), len(times)) for times in found.values())


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        ([(10, 10), (20, 20), (31, 31)], [(10, 20, 2), (31, 31, 1)]),
        # the session of 10 and 16 is open at 16, so 0 joins it, though 0 alone would be late
        ([(10, 10), (16, 16), (0, 16), (30, 30)], [(0, 16, 3), (30, 30, 1)]),
        # between two sessions: all three become one
        ([(0, 0), (14, 14), (7, 14)], [(0, 14, 3)]),
        # the session is closed when 15 comes: it begins another one; 14 is late
        ([(10, 10), (30, 30), (15, 30), (14, 30)], [(10, 10, 1), (15, 15, 1), (30, 30, 1)]),
        # a session whose first record is older than gap and grace is open as long as its last one is not
        ([(0, 0), (10, 10), (5, 20)], [(0, 10, 3)]),
        ([(0, 0), (0, 40)], [(0, 0, 1)]),
    ],
)
def test_the_merged_session_decides_whether_a_record_is_late(
    records: list[tuple[int, int]], wanted: list[tuple[int, int, int]]
) -> None:
    assert sessions(records) == wanted


@settings(max_examples=examples(200))
@given(st.lists(st.integers(0, 60), max_size=12))
def test_sessions_of_records_in_order_are_runs_without_a_gap(times: list[int]) -> None:
    times.sort()
    runs: list[list[int]] = []
    for time in times:
        if runs and time - runs[-1][-1] <= GAP:
            runs[-1].append(time)
        else:
            runs.append([time])
    assert sessions([(time, time) for time in times]) == [(run[0], run[-1], len(run)) for run in runs]
