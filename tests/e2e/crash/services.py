"""The parent's side of worker.py: services of one data folder that are started, killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from odradek.local import load_credentials

# Below the ports that a kernel gives to outgoing connections: a client that calls in vain must not meet itself there.
_PORTS = range(20_000, 30_000)


def free_port() -> int:
    """A port that nobody listens on; the same one is used by every service of a folder."""
    for port in random.Random(os.getpid()).sample(_PORTS, 50):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no free port")


@dataclass
class Services:
    """One service at a time over `data_dir`. Use it as an async context manager."""

    data_dir: Path
    settings: dict[str, Any] = field(default_factory=dict)
    synchronous: str = "NORMAL"  # a killed process loses nothing under it
    worker: str = "worker"  # the module beside this one
    under: tuple[str, ...] = ()  # a command that runs the worker
    port: int = field(default_factory=free_port)
    seen_at: Path | None = None  # the data folder as this process sees it, where that is another path

    async def __aenter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._worker = await asyncio.create_subprocess_exec(
            *self.under,
            sys.executable,
            "-m",
            f"tests.e2e.crash.{self.worker}",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._worker.stdin is not None
        self._worker.stdin.close()
        try:
            async with asyncio.timeout(20):
                await self._worker.wait()
        except TimeoutError:
            self._worker.kill()
            await self._worker.wait()
        self._errors.close()

    @property
    def worker_pid(self) -> int:
        return self._worker.pid

    @property
    def errors(self) -> str:
        """Return the services' standard error: nothing, where nothing unforeseen happened.

        That a killed process left a frame of the write-ahead log unfinished is foreseen.
        """
        self._errors.seek(0)
        lines = self._errors.read().decode().splitlines(keepends=True)
        return "".join(line for line in lines if "ends within a frame" not in line)

    @property
    def client_config(self) -> dict[str, str]:
        """Of every client; valid while the service is down, too."""
        credentials = load_credentials(self.seen_at or self.data_dir)
        return {
            "bootstrap_servers": f"http://127.0.0.1:{self.port}",
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_region": credentials.region,
        }

    async def start(self, *, die_at: int = 0, die_before: bool = False, file_bytes_max: int = 0) -> str | None:
        """Start a service; None when it is ready, else the one line that says why it is not (it is gone then).

        Args:
            die_at, die_before: after SIGUSR1 it kills itself at that write, before or after it; 0: never.
            file_bytes_max: no file of it may grow beyond this; 0: no limit.
        """
        order = {
            "data_dir": str(self.data_dir),
            "port": self.port,
            "settings": self.settings,
            "synchronous": self.synchronous,
            "die_at": die_at,
            "die_before": die_before,
            "file_bytes_max": file_bytes_max,
        }
        assert self._worker.stdin is not None
        self._worker.stdin.write(json.dumps(order).encode() + b"\n")
        line = await self._line()
        if line.startswith("ready "):
            self._service = int(line.split()[1])
            return None
        assert await self._line() == "exit 0", self.errors
        return line

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the service; one that is gone already gets none."""
        try:
            os.kill(self._service, number)
        except ProcessLookupError:
            pass

    async def ended(self) -> int:
        """Wait for the service's end; its exit status, negative for a signal."""
        line = await self._line()
        assert line.startswith("exit "), line
        return int(line.split()[1])

    async def kill(self) -> None:
        """SIGKILL, now."""
        self.signal(signal.SIGKILL)
        assert await self.ended() == -signal.SIGKILL

    async def _line(self) -> str:
        assert self._worker.stdout is not None
        async with asyncio.timeout(120):
            line = (await self._worker.stdout.readline()).decode().strip()
        assert line, f"the worker is gone: {self.errors}"
        return line
