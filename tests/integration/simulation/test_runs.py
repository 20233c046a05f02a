"""A fixed set of seeds over every profile: nothing is wrong. `make sim RUNS=2000` runs many."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.simulation.runner import simulate
from tests.simulation.scenario import PROFILES, draw

SEEDS_PER_PROFILE = 6
FEWER = {"crowd": 3, "large_groups": 2}  # a run of them costs as much as five of others


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_nothing_is_wrong(profile: str) -> None:
    count = FEWER.get(profile, SEEDS_PER_PROFILE)
    outcomes = [simulate(seed, profile) for seed in range(1, count + 1)]
    assert {outcome.seed: outcome.problems for outcome in outcomes if outcome.problems} == {}
    assert sum(outcome.acked for outcome in outcomes) > 5 * count, "the actors got something done"
    assert len({outcome.digest for outcome in outcomes}) == count, "another seed is another run"
    assert all(outcome.steps == len(outcome.trace) for outcome in outcomes)


def test_a_seed_draws_its_profile() -> None:
    drawn = {draw(Random(seed)).profile for seed in range(300)}
    assert drawn == set(PROFILES)
    assert simulate(1).profile == draw(Random(1)).profile


def test_a_large_group_that_waits_for_a_stalled_member_stays_cheap() -> None:
    """4,000 seeds are run: a single one must not take 200,000 steps of heartbeats, as one did."""
    rng = Random(16)
    scenario = draw(rng, "large_groups")
    stalls = replace(scenario.fates, stall=0.01)
    outcome = simulate(16, "large_groups", change=lambda drawn: replace(drawn, fates=stalls))
    assert outcome.problems == ()
    assert outcome.steps < 40_000
