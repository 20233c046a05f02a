"""A real MariaDB server for tests, if Debian's or another mariadb-server is installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

_NOBODY = 65534
_READY_S = 60.0


def is_installed() -> bool:
    return shutil.which("mariadbd") is not None and shutil.which("mariadb-install-db") is not None


class MariaDb:
    """A server with a binary log, on a port of its own, without privileges to check."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
            self._identity = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={folder / 'data'}",
                   "--auth-root-authentication-method=normal", "--skip-test-db"]  # fmt: skip
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, **self._identity)
        assert done.returncode == 0, done.stderr.decode()
        self.start()

    def start(self) -> None:
        options = {
            "datadir": self.folder / "data", "port": self.port, "bind-address": "127.0.0.1",
            "socket": self.folder / "socket", "pid-file": self.folder / "pid", "log-bin": "binlog", "server-id": 1,
            "binlog-format": "ROW", "binlog-row-image": "FULL", "binlog-row-metadata": "FULL",
            "innodb-flush-log-at-trx-commit": 0, "innodb-buffer-pool-size": "16M",
        }  # fmt: skip
        command = [
            shutil.which("mariadbd") or "",
            "--no-defaults",
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        with (self.folder / "mariadb.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **self._identity)
        end_s = time.monotonic() + _READY_S
        while True:
            try:
                self.execute("SELECT 1")
                return
            except pymysql.err.OperationalError:
                assert time.monotonic() < end_s, (self.folder / "mariadb.log").read_text()[-2000:]
                time.sleep(0.1)

    def execute(self, *statements: str) -> list[Any]:
        connection = pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True, charset="utf8mb4")
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def restart(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self.start()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def configs(self, database: str, **more: str) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": "root",
            "database.include.list": database,
            "topic.prefix": "m",
            "poll.interval.ms": "40",
            "retriable.restart.connector.wait.ms": "100",
            **{name.replace("_", "."): value for name, value in more.items()},
        }


@contextmanager
def mariadb() -> Iterator[MariaDb]:
    folder = Path(tempfile.mkdtemp(prefix="odradek-mariadb-"))
    folder.chmod(0o755)
    server = None
    try:
        server = MariaDb(folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
