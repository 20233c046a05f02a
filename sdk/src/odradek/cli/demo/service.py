"""The embedded service as a separate process, which may be killed and restarted with the same data and port."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from odradek.child_process import start_child
from odradek.cli.demo.failure import DemoFailed
from odradek.local.credentials import load_credentials
from odradek.ports.meter import Usage

_READY_S = 120.0
_STOP_S = 20.0
# With these settings a group of three forms within two seconds instead of several heartbeats of 5 s.
_ENVIRONMENT = {"ODRADEK_GROUP_HEARTBEAT_INTERVAL_MS": "500"}


class ServiceProcess:
    """Starts on entering the context, stops on leaving it."""

    def __init__(self, data_dir: Path, log_file: Path) -> None:
        self._data_dir = data_dir
        self._log_file = log_file
        self._usage_file = log_file.with_name("usage.json")
        self._earlier = Usage()  # of processes that have ended
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap_servers = ""

    @property
    def client_config(self) -> dict[str, Any]:
        """Keyword arguments for Producer, Consumer and Admin."""
        credentials = load_credentials(self._data_dir)
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_region": credentials.region,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which a client in another process signs requests."""
        return load_credentials(self._data_dir).as_environment()

    def usage(self) -> Usage:
        """Return the billable usage of all functions so far, at most a second old."""
        return self._earlier + _read_usage(self._usage_file)

    def start(self) -> None:
        """Start and wait until it answers. Raises DemoFailed."""
        self._usage_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "odradek.local", "--data-dir", str(self._data_dir)]
        command += ["--port", str(self._port), "--usage-file", str(self._usage_file)]
        with self._log_file.open("ab") as log:
            # In a separate session: Ctrl-C reaches the demo, which then stops the service in order.
            self._process = start_child(command, os.environ | _ENVIRONMENT, stdout=subprocess.PIPE, stderr=log)
        try:
            ready = json.loads(self._first_line())
        except ValueError:
            self.stop()
            raise DemoFailed(f"the embedded service did not start: {self._last_words()}") from None
        self.bootstrap_servers = ready["bootstrap_servers"]
        self._port = int(self.bootstrap_servers.rpartition(":")[2])

    def _first_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline, line = time.monotonic() + _READY_S, b""
        descriptor = self._process.stdout.fileno()
        while not line.endswith(b"\n") and (left := deadline - time.monotonic()) > 0:
            if select.select([descriptor], [], [], min(left, 0.5))[0]:
                data = os.read(descriptor, 4096)
                if not data:
                    break
                line += data
        return line

    def _last_words(self) -> str:
        lines = self._log_file.read_text(errors="replace").splitlines()
        return lines[-1].removeprefix("odradek: ") if lines else "it printed nothing"

    def kill(self) -> None:
        """Send SIGKILL: the process ends between any two instructions."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop in order; may be repeated."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._earlier += _read_usage(self._usage_file)
        self._usage_file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _read_usage(path: Path) -> Usage:
    try:
        document = json.loads(path.read_text())["usage"]
    except (OSError, ValueError, KeyError):
        return Usage()
    return Usage(**{spec.name: document[spec.name] for spec in fields(Usage) if spec.name in document})
