"""Numbers of dead-letter lots: a number is spent when its lot may have been written, and never used for another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.engine.share.window import (
    RecordState,
    Run,
    SharePartition,
    SharePolicy,
    lot_written,
    reset_to,
    settle,
)


def policy(*, dead_letters: bool = True) -> SharePolicy:
    return SharePolicy(30_000, 5, 2_000, has_dead_letters=dead_letters)


def window(*runs: tuple[int, int, RecordState], number: int = 7, start: int = 0) -> SharePartition:
    return SharePartition(start, tuple(Run(first, end, state) for first, end, state in runs), number)


AVAILABLE, DYING, LOT = RecordState.AVAILABLE, RecordState.DYING, RecordState.LOT


@pytest.mark.parametrize(
    ("log_start", "number", "lot"),
    [
        (0, 7, (4, 8)),
        (4, 7, (4, 8)),
        (5, 7, (5, 8)),  # a part of it is left: it is still this lot, and written without what is gone
        (7, 7, (7, 8)),
        (8, 8, None),  # nothing is left: what was written under its number may be there
        (9, 8, None),
        (20, 8, None),
    ],
)
def test_retention_that_takes_a_whole_lot_spends_its_number(log_start: int, number: int, lot: object) -> None:
    state = replace(window((4, 8, LOT), (10, 12, AVAILABLE)), start_offset=4)
    state = replace(state, runs=(state.runs[0], replace(state.runs[1], delivery_count=1)))
    settled = settle(state, 0, log_start, policy())
    assert settled.lot_number == number
    assert [(run.start, run.end) for run in settled.lot] == ([lot] if lot else [])


def test_what_waits_becomes_a_lot_of_the_next_number_when_retention_took_the_one_before() -> None:
    settled = settle(window((0, 4, LOT), (6, 9, DYING)), 0, 5, policy())
    assert [(run.start, run.end) for run in settled.lot] == [(6, 9)]
    assert settled.lot_number == 8, "else the writer of the new lot would take it for written"


def test_a_group_that_wants_no_dead_letters_any_more_spends_the_number() -> None:
    settled = settle(window((0, 4, LOT)), 0, 0, policy(dead_letters=False))
    assert (settled.lot_number, settled.lot) == (8, ())
    assert settle(settled, 0, 0, policy(dead_letters=False)).lot_number == 8, "once"


@pytest.mark.parametrize(("runs", "number"), [([(0, 4, LOT)], 8), ([(0, 4, DYING)], 7), ([(0, 4, AVAILABLE)], 7)])
def test_a_reset_spends_the_number_of_a_lot_alone(runs: list[tuple[int, int, RecordState]], number: int) -> None:
    state = window(*runs)
    after = reset_to(state, 2)
    assert (after.start_offset, after.runs, after.lot_number) == (2, (), number)


def test_a_lot_that_was_written_is_done_under_its_own_number_alone() -> None:
    state = window((0, 4, LOT), (6, 9, DYING))
    for late in (6, 8):
        assert lot_written(state, late) == state
    after = lot_written(state, 7)
    assert (after.start_offset, after.lot_number) == (4, 8)
    assert [(run.start, run.end) for run in after.lot] == [(6, 9)]
    assert lot_written(after, 7) == after
