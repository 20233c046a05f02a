"""A Connect worker as a process of its own, which can be killed or made to stand still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.connect.running import FAST, RunningCluster

ROOT = Path(__file__).parents[3]


class WorkerProcess:
    """A worker without a REST API.

    Args:
        configs: of the worker, in place of those of `FAST`.
    """

    def __init__(self, running: RunningCluster, number: int, folder: Path, **configs: str) -> None:
        self.name = f"process-{number}"
        given = {**FAST, "listeners": "", "worker.id": self.name, "offset.flush.interval.ms": "300", **configs}
        options = [part for name, value in given.items() for part in ("--config", f"{name}={value}")]
        client = running.client
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
            "ODRADEK_BOOTSTRAP_SERVERS": client["bootstrap_servers"],
            "AWS_ACCESS_KEY_ID": client["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": client["aws_secret_access_key"],
            "AWS_REGION": client["aws_region"],
        }
        command = [sys.executable, "-m", "odradek.cli", "connect", "run", "-g", running.settings.group_id, *options]
        with (folder / f"worker-{number}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def stand_still(self, until_then: Callable[[], object]) -> None:
        """Stop the process until others have its tasks, and let it go on: it does not know."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            until_then()
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
