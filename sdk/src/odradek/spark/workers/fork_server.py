"""A process that has imported what Spark's Python workers need, and forks them: a worker starts in some milliseconds.

Spark starts a Python for the source of each streaming query, and one for each kind of worker after a minute without
work. Each imports PySpark, Arrow and odradek: more than a second of CPU, which on a busy machine is more than the ten
seconds that Spark waits for a source, and some 100 MB. A fork shares both.

    driver ──starts, holds a pipe──> fork server <──argv, environment, streams── launch.py <──starts── Spark
                                         └──forks──> worker: runs the module as `python -m` does

PYSPARK_PYTHON is a script that runs launch.py; where this process does not answer, that becomes a Python of its own. It
ends with its driver, and kills a worker whose launch.py is gone.

It starts no thread, because a fork would not have it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import selectors
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from odradek.columnar.engine import has_numba
from odradek.spark.workers.launch import ADDRESS
from odradek.spark.workers.settle import is_in_jar, settle

_IMPORTED = (
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "odradek.spark.source.data_source",
    "odradek.spark.sink.writers",
    "odradek.adapters.embedded",
)
_KERNELS = "odradek.columnar.kernels"
_READY = b"ready\n"
_PROGRAM, _SOCKET = "python", "socket"


class ForkServer:
    """A fork server that ends with this process, or when it is closed.

    Args:
        environment: of the driver, and of the workers.

    Attributes:
        environment: for the process that creates a session: its workers are forked. Without a change where this
            operating system has no fork, or the server did not start.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        if not hasattr(os, "fork"):
            return
        folder = tempfile.mkdtemp(prefix="odradek-workers-")
        command = [sys.executable, "-m", "odradek.spark.workers.fork_server", folder]
        # Spark gives its workers this seed, so that all of them agree on the hash of a text.
        own = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", **self.environment}
        self._process = subprocess.Popen(
            command, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != _READY:
            self.close()
            shutil.rmtree(folder, ignore_errors=True)
            return
        self.environment |= {
            ADDRESS: str(Path(folder, _SOCKET)),
            "PYSPARK_PYTHON": str(Path(folder, _PROGRAM)),
        }

    def close(self) -> None:
        """End the server. Workers go on."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait()


def is_launched(program: str) -> bool:
    """Return True for the program that has workers forked."""
    address = os.environ.get(ADDRESS)
    return bool(address) and Path(program) == Path(str(address)).with_name(_PROGRAM)


# --- the server


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments, environment, folder and streams that launch.py was started with."""

    words: list[str]  # a module and its arguments
    environment: dict[str, str]
    folder: str
    streams: list[int]


class _Server:
    def __init__(self, folder: Path) -> None:
        self._workers: dict[int, socket.socket] = {}  # by process id: the connection of its launch.py
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / _SOCKET))
        self._listening.listen(64)
        self._ended, self._wake = socket.socketpair()
        for wake_end in (self._ended, self._wake):
            wake_end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        for file in (self._listening, self._ended, 0):
            self._selector.register(file, selectors.EVENT_READ)

    def serve(self) -> _Request | None:
        """Return None when the driver has ended; in a fork, what its worker is to run."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    return None
                if key.fileobj is self._ended:
                    self._reap()
                elif key.fileobj is self._listening:
                    request = self._accept()
                    if request is not None:
                        return request
                elif key.data in self._workers:
                    self._kill(key.data)

    def _accept(self) -> _Request | None:
        """Fork a worker for a new launch.py; in the fork, return what it is to run."""
        connection, _ = self._listening.accept()
        request = None
        with suppress(OSError, ValueError):  # it ended meanwhile
            request = _read(connection)
        if request is None:
            connection.close()
            return None
        worker = os.fork()
        if worker == 0:
            self._forget(connection)
            return request
        for stream in request.streams:
            os.close(stream)
        self._workers[worker] = connection
        self._selector.register(connection, selectors.EVENT_READ, worker)
        self._tell(worker, worker)
        return None

    def _reap(self) -> None:
        """Tell each launch.py how its worker ended."""
        with suppress(BlockingIOError):
            self._ended.recv(4096)
        with suppress(ChildProcessError):
            while True:
                worker, status = os.waitpid(-1, os.WNOHANG)
                if worker == 0:
                    return
                code = os.waitstatus_to_exitcode(status)
                self._tell(worker, code if code >= 0 else 128 - code)
                self._release(worker)

    def _kill(self, worker: int) -> None:
        """End a worker whose launch.py is gone."""
        self._release(worker)
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)

    def _tell(self, worker: int, number: int) -> None:
        with suppress(OSError, KeyError):
            self._workers[worker].sendall(struct.pack(">i", number))

    def _release(self, worker: int) -> None:
        connection = self._workers.pop(worker, None)
        if connection is not None:
            self._selector.unregister(connection)
            connection.close()

    def _forget(self, connection: socket.socket) -> None:
        """Close in a fork what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for closed in (connection, self._listening, self._ended, self._wake, *self._workers.values()):
            closed.close()


def _read(connection: socket.socket) -> _Request | None:
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    if len(head) < 4 or len(streams) < 3:
        return None
    size = struct.unpack(">I", head)[0]
    message: dict[str, Any] = json.loads(connection.recv(size, socket.MSG_WAITALL))
    return _Request(message["words"], message["environment"], message["folder"], streams)


# --- a worker


def _become(request: _Request, library: list[str]) -> tuple[ModuleType, CodeType]:
    """Make this fork what `python -m` would be; return the module, and its code, which are still to be run.

    Args:
        library: the server's own path, without PYTHONPATH.
    """
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    own_path = [entry for entry in request.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    # Spark's jar has no Python in it: see settle.py.
    sys.path[:] = dict.fromkeys(entry for entry in (request.folder, *own_path, *library) if not is_in_jar(entry))
    random.seed()
    for output in (sys.stdout, sys.stderr):
        assert isinstance(output, TextIOWrapper)
        output.reconfigure(line_buffering=True)
    name = request.words[0]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name}", name=name)
    module = ModuleType("__main__")
    module.__spec__, module.__file__, module.__package__ = spec, spec.origin, name.rpartition(".")[0]
    sys.modules["__main__"] = module
    sys.argv = [spec.origin or name, *request.words[1:]]
    return module, spec.loader.get_code(name)  # type: ignore[attr-defined]


def _write_program(folder: Path) -> None:
    """Write the program that PYSPARK_PYTHON names."""
    program = folder / _PROGRAM
    words = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o700)


def main() -> None:
    """Fork workers until standard input ends."""
    folder = Path(sys.argv[1])
    of_driver = {entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    library = [entry for entry in sys.path[1:] if entry not in of_driver]
    for name in (*_IMPORTED, *([_KERNELS] if has_numba() else [])):
        importlib.import_module(name)
    _write_program(folder)
    settle()
    server = _Server(folder)
    sys.stdout.buffer.write(_READY)
    sys.stdout.flush()
    request = server.serve()
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    module, code = _become(request, library)
    exec(code, module.__dict__)  # noqa: S102  (a module of PySpark, as `python -m` runs it)


if __name__ == "__main__":
    main()
