"""The simulation finds what it is there to find: each planted bug in few seeds; and nothing where there is none."""

from __future__ import annotations

import warnings
from random import Random

import pytest

from tests.simulation.planted.bug import Planted, first_seeds
from tests.simulation.planted.listed import PLANTED
from tests.simulation.runner import simulate
from tests.simulation.scenario import draw

FIRST_SEEDS = first_seeds()
STEPS_MAX = 1_000  # of a run in `make test`
LONG = [name for name in PLANTED if name in FIRST_SEEDS and FIRST_SEEDS[name].steps > STEPS_MAX]
_clean: dict[tuple[int, str], tuple[str, ...]] = {}  # the problems of runs without a bug, by seed and scenario


@pytest.mark.parametrize("name", [name for name in PLANTED if name not in LONG])
def test_planted_bug_is_found(name: str) -> None:
    assert_found(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_planted_bug_of_a_long_run_is_found(name: str) -> None:
    """Slow: two minutes of runs, some with two hundred producers or until their end as nothing moves any more."""
    assert_found(name)


def assert_found(name: str) -> None:
    planted, first_seed = PLANTED[name], FIRST_SEEDS.get(name)
    for seed in planted.order(first_seed and first_seed.seed):
        with planted.patch():
            outcome = simulate(seed, planted.profile, change=planted.change)
        if outcome.problems:
            break
    assert outcome.problems, f"{name} was not found in {planted.seeds} seeds of {planted.profile}"
    if first_seed is None or seed != first_seed.seed:
        warnings.warn(f"searching costs minutes: python -m tests.simulation.planted {name}", stacklevel=2)
    assert problems_without_it(planted, seed) == (), "the same seed has problems without the bug"


def problems_without_it(planted: Planted, seed: int) -> tuple[str, ...]:
    """The problems of the same run without the bug; several bugs have it in common, and it is made once."""
    drawn = draw(Random(seed), planted.profile)
    run = seed, repr(drawn if planted.change is None else planted.change(drawn))
    if run not in _clean:
        _clean[run] = simulate(seed, planted.profile, change=planted.change).problems
    return _clean[run]


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED) >= 20
