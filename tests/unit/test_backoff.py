"""Pauses between attempts: how long they are, how they grow and where, and that they differ."""

from __future__ import annotations

import pytest
from odradek.backoff import Backoff, bound_s
from odradek.testing.manual_clock import START_MS, ManualClock
from odradek.testing.seeded_rng import SeededRng

DRAWS = 2_000


class FixedRng(SeededRng):
    """Draws the same number for ever."""

    def __init__(self, drawn: float) -> None:
        super().__init__()
        self.drawn = drawn

    def random(self) -> float:
        return self.drawn


def backoff(drawn: float | None = None, *, first_s: float = 0.1, max_s: float = 1.0, seed: int = 1) -> Backoff:
    rng = SeededRng(seed) if drawn is None else FixedRng(drawn)
    return Backoff(ManualClock(auto_advance=True), rng, first_s=first_s, max_s=max_s)


@pytest.mark.parametrize(
    ("attempt", "longest_s"),
    [(0, 0.1), (1, 0.2), (2, 0.4), (3, 0.8), (4, 1.0), (5, 1.0), (1_000, 1.0), (1_000_000, 1.0)],
)
def test_the_bound_doubles_up_to_the_maximum(attempt: int, longest_s: float) -> None:
    assert bound_s(attempt, first_s=0.1, max_s=1.0) == pytest.approx(longest_s)
    assert backoff(drawn=0.0).delay_s(attempt) == pytest.approx(longest_s / 2)
    assert backoff(drawn=1 - 2**-53).delay_s(attempt) == pytest.approx(longest_s)


def test_a_maximum_below_the_first_pause_holds_from_the_first() -> None:
    assert bound_s(0, first_s=1.0, max_s=0.2) == 0.2


@pytest.mark.parametrize("attempt", [0, 2, 9])
def test_pauses_are_spread_over_the_upper_half_of_the_bound(attempt: int) -> None:
    drawing = backoff()
    longest_s = bound_s(attempt, first_s=0.1, max_s=1.0)
    drawn = sorted(drawing.delay_s(attempt) for _ in range(DRAWS))
    assert longest_s / 2 <= drawn[0] < drawn[-1] <= longest_s
    quarters = [drawn[DRAWS * quarter // 4] / longest_s for quarter in (1, 2, 3)]
    assert quarters == pytest.approx([0.625, 0.75, 0.875], abs=0.03)


def test_callers_that_failed_together_do_not_come_back_together() -> None:
    delays = [backoff(seed=seed).delay_s(0) for seed in range(100)]
    assert len(set(delays)) == len(delays)


async def test_a_pause_sleeps_by_the_clock_for_what_was_drawn() -> None:
    pausing = backoff(drawn=0.5)
    await pausing.pause(0)
    assert pausing.clock.now_ms() - START_MS == 75
    await pausing.pause(1)
    assert pausing.clock.now_ms() - START_MS == 75 + 150
