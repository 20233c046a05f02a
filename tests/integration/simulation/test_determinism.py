"""The same seed is the same run, byte for byte, in another process with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.simulation.scenario import PROFILES

_DIGESTS = """
import sys
from tests.simulation.runner import simulate
for profile in sys.argv[2:]:
    print(simulate(int(sys.argv[1]), profile).digest)
"""
_SEED = 3


_DEAR = ("crowd", "large_groups")  # half of the time of all, and no code of their own


def digests(seed: int, hash_seed: str, profiles: Sequence[str]) -> dict[str, str]:
    """One digest a profile, from a process of its own."""
    command = [sys.executable, "-c", _DIGESTS, str(seed), *profiles]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(zip(profiles, done.stdout.split(), strict=True))


@pytest.mark.parametrize(
    "profiles",
    [
        pytest.param([name for name in sorted(PROFILES) if name not in _DEAR], id="most"),
        pytest.param(_DEAR, id="dear", marks=pytest.mark.slow),
    ],
)
def test_same_seed_same_trace_in_any_process(profiles: Sequence[str]) -> None:
    """The dear ones are slow: as many steps as all the others."""
    assert digests(_SEED, "1", profiles) == digests(_SEED, "4711", profiles)
