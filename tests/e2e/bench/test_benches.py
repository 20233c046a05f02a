"""The committed benches still run: what they print is for people, that they end and write their figures is for us.

Left out: `kafka_port` and `pipeline`, which fetch their peers from Maven Central; mypy reads them as the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import QUESTIONS

ROOT = Path(__file__).parents[3]


FETCHING = {"kafka_port", "pipeline"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in FETCHING])
def test_a_bench_runs_and_writes_what_it_measured(name: str) -> None:
    """Slow: each measures for a while."""
    results = ROOT / "bench" / "results" / f"{name.rpartition('.')[2]}.json"
    before = results.stat().st_mtime_ns if results.exists() else 0
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert f"== {name}" in done.stdout
    assert results.stat().st_mtime_ns > before
    assert _figures(json.loads(results.read_text())) > 3


def _figures(result: Any) -> int:
    """How many numbers above 0 are in it."""
    if isinstance(result, dict):
        return sum(map(_figures, result.values()))
    if isinstance(result, list):
        return sum(map(_figures, result))
    return isinstance(result, int | float) and not isinstance(result, bool) and result > 0
