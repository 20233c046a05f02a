"""A fixed set of seeds over every profile: nothing is wrong, and the same seed is the same run, byte for byte.

`make sim RUNS=2000` runs many seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from tests.simulation.runner import Outcome, simulate
from tests.simulation.scenario import PROFILES, draw

SEEDS = (1, 2, 3)  # the tables of the first are Iceberg's, of the third columnar, of the second neither
MORE_SEEDS = (1, 2, 3, 4, 5, 6)
DEAR = ("crowd", "large_groups")  # a run of them costs as much as ten of others, and has no code of its own
DEAR_SEEDS = (1,)
REPLAYED = 3
_DIGESTS = """
import sys
from tests.simulation.runner import simulate
for profile in sys.argv[2:]:
    print(simulate(int(sys.argv[1]), profile).digest)
"""


@cache
def run_of(seed: int, profile: str) -> Outcome:
    """A run of this process, made once for all that is asked of it."""
    outcome = simulate(seed, profile)
    assert outcome.steps == len(outcome.trace)
    return outcome.without_trace()


def assert_nothing_is_wrong(profile: str, seeds: Sequence[int]) -> None:
    outcomes = [run_of(seed, profile) for seed in seeds]
    assert {outcome.seed: outcome.problems for outcome in outcomes if outcome.problems} == {}
    assert sum(outcome.acked for outcome in outcomes) > 5 * len(seeds), "the actors got something done"
    assert len({outcome.digest for outcome in outcomes}) == len(seeds), "another seed is another run"


@pytest.mark.parametrize(("number", "profile"), list(enumerate(sorted(PROFILES))))
def test_nothing_is_wrong(number: int, profile: str) -> None:
    """One seed of each: three profiles beside each other have different ones."""
    assert_nothing_is_wrong(profile, DEAR_SEEDS if profile in DEAR else SEEDS[number % 3 :][:1])


@pytest.mark.slow
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_nothing_is_wrong_with_more_seeds(profile: str) -> None:
    """Slow: six times as many runs; a dear one is as long as ten of others."""
    assert_nothing_is_wrong(profile, (2,) if profile in DEAR else MORE_SEEDS)


@pytest.mark.parametrize(
    "profiles",
    [
        pytest.param(["everything", "groups", "triggers"], id="some"),
        pytest.param(sorted(PROFILES), id="all", marks=pytest.mark.slow),
    ],
)
def test_same_seed_same_trace_in_any_process(profiles: Sequence[str]) -> None:
    """In a process with another hash seed. All are slow: a minute of runs."""
    command = [sys.executable, "-c", _DIGESTS, str(REPLAYED), *profiles]
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    digests = dict(zip(profiles, done.stdout.split(), strict=True))
    assert digests == {profile: run_of(REPLAYED, profile).digest for profile in profiles}


def test_a_seed_draws_its_profile() -> None:
    drawn = {draw(Random(seed)).profile for seed in range(300)}
    assert drawn == set(PROFILES)
    assert simulate(1).profile == draw(Random(1)).profile


@pytest.mark.slow
def test_a_large_group_that_waits_for_a_stalled_member_stays_cheap() -> None:
    """4,000 seeds are run: a single one must not take 200,000 steps of heartbeats, as one did. Slow: 74,000 steps.

    Two members have all partitions and read them for the hour and a half in which the others wait.
    """
    rng = Random(16)
    scenario = draw(rng, "large_groups")
    stalls = replace(scenario.fates, stall=0.01)
    outcome = simulate(16, "large_groups", change=lambda drawn: replace(drawn, fates=stalls))
    assert outcome.problems == ()
    assert outcome.steps < 100_000
