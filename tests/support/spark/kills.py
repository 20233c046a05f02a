"""A driver as a process that a test kills, and the Python workers of its Spark."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
_FORK_SERVER = "ODRADEK_FORK_SERVER"


class Driver:
    """A command that drives a Spark, in a process of ours; its output is added to a file."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
        self._server = str(Path(environment[_FORK_SERVER]).parent) if _FORK_SERVER in environment else None
        with output.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def workers(self) -> list[int]:
        """Python processes that Spark started: of sources, sinks, the daemon and its tasks."""
        pids = []
        for pid, parent, command in _processes():
            is_fork = self._server is not None and self._server.encode() in command and parent != os.getpid()
            if is_fork or (pid in self._below() and b"pyspark" in command and not _is_java(command)):
                pids.append(pid)
        return sorted(pids)

    def kill(self) -> None:
        """SIGKILL to the driver and its JVM; its Python workers find out by themselves, as on a lost machine."""
        java = [pid for pid, _, command in _processes() if pid in self._below() and _is_java(command)]
        for pid in (self.process.pid, *java):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def _below(self) -> set[int]:
        children: dict[int, list[int]] = {}
        for pid, parent, _ in _processes():
            children.setdefault(parent, []).append(pid)
        below, left = set(), [self.process.pid]
        while left:
            mine = children.get(left.pop(), [])
            below |= set(mine)
            left += mine
        return below


def _is_java(command: bytes) -> bool:
    return b"java" in command.split(b"\0")[0]


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Yield process id, parent and command line of all."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            yield int(entry.name), parent, (entry / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
