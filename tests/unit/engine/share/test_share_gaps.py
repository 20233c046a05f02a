"""Records that compaction took out of a window: they are done, so that the window goes on behind them."""

from __future__ import annotations

import pytest
from odradek.engine.share.window import RecordState, Run, SharePartition, Stretch, acquire, next_stretch
from odradek.model.share import SharePolicy

BACK = Run(3, 4, RecordState.AVAILABLE, 1)  # delivered once, and given back


@pytest.mark.parametrize("locks", [4, 2_000])
def test_what_is_left_of_the_log_is_done_already_and_the_window_passes_the_gap(locks: int) -> None:
    policy = SharePolicy(lock_ms=1_000, delivery_count_limit=5, max_record_locks=locks)
    state = SharePartition(3, (BACK, Run(4, 7, RecordState.DONE)))
    after, acquired = acquire(state, "m", 0, policy, 3, [Stretch(5, 7)], max_records=10, max_held=100)
    assert (after, acquired) == (SharePartition(7), ())
    assert next_stretch(after, policy, 1) == (7, 8)


def test_a_full_window_whose_records_are_gone_is_not_full() -> None:
    policy = SharePolicy(lock_ms=1_000, delivery_count_limit=5, max_record_locks=4)
    state = SharePartition(3, (BACK, Run(4, 7, RecordState.DONE)))
    state, acquired = acquire(state, "m", 0, policy, 3, [Stretch(23, 26)], max_records=10, max_held=100)
    assert acquired == ()
    assert next_stretch(state, policy, 1) == (7, 8)


def test_a_record_that_somebody_holds_is_not_passed() -> None:
    policy = SharePolicy(lock_ms=1_000, delivery_count_limit=5, max_record_locks=2_000)
    held = Run(2, 3, RecordState.ACQUIRED, 1, "other", 500)
    state = SharePartition(2, (held, BACK, Run(4, 7, RecordState.DONE)))
    after, acquired = acquire(state, "m", 0, policy, 3, [Stretch(5, 7)], max_records=10, max_held=100)
    assert (after, acquired) == (SharePartition(2, (held, Run(3, 7, RecordState.DONE))), ())
