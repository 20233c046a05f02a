"""The sink's own part under SIGKILL, without a JVM: uploads, the commit, and what comes after it, round upon round.

Rounds: ODRADEK_KILL_ROUNDS, seed: ODRADEK_KILL_SEED. test_exactly_once.py does the same to a real Spark.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.pipeline.writer import TASKS, last_noted, rows
from tests.support.spark.sink import ServedLog

ROOT = Path(__file__).parents[3]
ROUND_S_MAX = 120.0


@pytest.mark.slow
def test_killed_writers_leave_every_batch_once(tmp_path: Path) -> None:
    """Slow: every round starts a process, gives it time to commit and kills it."""
    rounds, seed = int(os.environ.get("ODRADEK_KILL_ROUNDS", "4")), int(os.environ.get("ODRADEK_KILL_SEED", "1"))
    chance = random.Random(seed)
    checkpoint = tmp_path / "last"
    with ServedLog(tmp_path / "store") as log:
        log.create("out", 3)
        arguments = [str(log.data_dir), log.bootstrap_servers, str(checkpoint)]
        command = [sys.executable, "-m", "tests.e2e.pipeline.writer", *arguments]
        for number in range(rounds):
            process = subprocess.Popen(command, cwd=ROOT)
            goal, deadline = last_noted(checkpoint) + chance.randrange(1, 4), time.monotonic() + ROUND_S_MAX
            while last_noted(checkpoint) < goal and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(chance.random() * 0.1)
            assert process.poll() is None, "the writer failed by itself"
            process.send_signal(signal.SIGKILL)
            process.wait()
            print(f"round {number}: batch {last_noted(checkpoint)}", flush=True)
        last = last_noted(checkpoint)
        counted = Counter(log.values("out"))
    wanted = Counter(
        value.encode() for batch_id in range(last + 1) for task in range(TASKS) for value in rows(batch_id, task)
    )
    one_more = Counter(value.encode() for task in range(TASKS) for value in rows(last + 1, task))
    assert last >= rounds - 1
    assert counted in (wanted, wanted + one_more)  # the last commit may be there and not noted
