"""The code that one record runs through stays as short as it is: the bounds only fall (`make house` measures)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Modules, switches between modules, and functions. The last run measured 99, 432, 475 and 91, 558, 355.
BOUNDS = {"produce": (102, 480, 490), "fetch": (94, 640, 380)}

MEASURE = """
from tools.house import follow_record
for trace in follow_record():
    print(len(set(trace.modules)), trace.switches, len(trace.calls))
"""


def test_the_way_of_a_record_does_not_grow() -> None:
    """In a process of its own: what other tests have imported and started would be in the trace."""
    measured = subprocess.run(
        [sys.executable, "-c", MEASURE], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    counts = [tuple(map(int, line.split())) for line in measured.stdout.splitlines()]
    assert len(counts) == len(BOUNDS)
    longer = [
        (step, trace)
        for (step, bounds), trace in zip(BOUNDS.items(), counts, strict=True)
        if any(count > bound for count, bound in zip(trace, bounds, strict=True))
    ]
    assert longer == []
