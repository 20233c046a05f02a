"""Stands for Python where Spark starts a worker: the fork server runs the module, with this process's streams.

    Spark ──starts──> this process ──argv, environment, streams──> fork server ──forks──> the worker
                        │ SIGTERM, SIGHUP ──────────────────────────────────────────────────> │
                        └─ ends with the worker's exit code <──────────────────────────────── ┘

What the fork server does not do (no module, no answer) a Python of its own does. Started in isolated mode and without
site, so that it takes some milliseconds: it may import no more than it has to, and nothing of odradek.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys

ADDRESS = "ODRADEK_FORK_SERVER"  # of the server's socket
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # with which Spark ends its workers


def main() -> None:
    """Have the module of the arguments run, and end as it ends."""
    arguments = sys.argv[1:]
    address = os.environ.get(ADDRESS)
    if address and arguments[:1] == ["-m"]:
        # What comes before the worker is known waits until it can be passed on.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
            worker = _handed_over(connection, arguments[1:])
        except OSError:
            worker = 0
        if worker:
            for number in _SIGNALS:
                signal.signal(number, lambda number, _: os.kill(worker, number))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os._exit(_received(connection) or 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606


def _handed_over(connection: socket.socket, words: list[str]) -> int:
    """Return the worker's process id; 0 if the server ended."""
    request = json.dumps({"words": words, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(connection, [struct.pack(">I", len(request))], [0, 1, 2])
    connection.sendall(request)
    return _received(connection) or 0


def _received(connection: socket.socket) -> int | None:
    data = connection.recv(4, socket.MSG_WAITALL)
    return struct.unpack(">i", data)[0] if len(data) == 4 else None


if __name__ == "__main__":
    main()
