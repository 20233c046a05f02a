"""The same seed is the same run, byte for byte, in another process with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.runner import simulate
from tests.simulation.scenario import PROFILES

_DIGESTS = """
import sys
from tests.simulation.runner import simulate
for profile in sys.argv[2:]:
    print(simulate(int(sys.argv[1]), profile).digest)
"""
_SEED = 3


def digests(seed: int, hash_seed: str) -> list[str]:
    """One digest a profile, from a process of its own."""
    command = [sys.executable, "-c", _DIGESTS, str(seed), *sorted(PROFILES)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_same_seed_same_trace_in_any_process() -> None:
    first, second = digests(_SEED, "1"), digests(_SEED, "4711")
    assert len(first) == len(PROFILES)
    assert dict(zip(sorted(PROFILES), first, strict=True)) == dict(zip(sorted(PROFILES), second, strict=True))


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_another_seed_is_another_run(profile: str) -> None:
    outcome = simulate(_SEED + 1, profile)
    assert outcome.digest != simulate(_SEED, profile).digest
    assert outcome.steps == len(outcome.trace)
