"""Real servers of MariaDB and MySQL for tests, where they are installed: `mariadbd`, or `mysqld` of MySQL."""

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
from functools import cache
from pathlib import Path
from typing import Any

import pymysql

KINDS = ("mariadb", "mysql")
_NOBODY = 65534
_READY_S = 60.0


@cache
def missing(kind: str) -> str | None:
    """Return what to install, or None if there is such a server."""
    if kind == "mariadb":
        has = shutil.which("mariadbd") is not None and shutil.which("mariadb-install-db") is not None
        return None if has else "needs mariadbd: apt-get install mariadb-server"
    found = shutil.which("mysqld")
    if found is not None:
        said = subprocess.run([found, "--version"], capture_output=True, check=False, text=True).stdout
        if said and "mariadb" not in said.lower():
            return None
    return "needs mysqld of MySQL 8 or later in the PATH: mysql-server-core of Ubuntu or of Debian's unstable"


class Server:
    """A server with a binary log and GTIDs, on a port of its own, without privileges to check.

    Args:
        number: its server id.
        options: of the server, beside or in place of those of tests.
    """

    def __init__(self, folder: Path, kind: str, number: int = 1, **options: Any) -> None:
        self.folder, self.kind, self.number, self._options = folder, kind, number, options
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
            self._identity = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        command = {
            "mariadb": ["mariadb-install-db", "--no-defaults", f"--datadir={folder / 'data'}",
                        "--auth-root-authentication-method=normal", "--skip-test-db"],
            "mysql": ["mysqld", "--no-defaults", "--initialize-insecure", f"--datadir={folder / 'data'}"],
        }[kind]  # fmt: skip
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, **self._identity)
        assert done.returncode == 0, done.stderr.decode()
        self.start()

    def start(self) -> None:
        folder = self.folder
        options: dict[str, Any] = {
            "datadir": folder / "data", "port": self.port, "bind-address": "127.0.0.1", "socket": folder / "socket",
            "pid-file": folder / "pid", "log-bin": folder / "data" / "binlog", "server-id": self.number,
            "binlog-format": "ROW", "binlog-row-image": "FULL", "binlog-row-metadata": "FULL",
            "innodb-buffer-pool-size": "16M", "innodb-flush-log-at-trx-commit": 0,
        }  # fmt: skip
        if self.kind == "mysql":
            options |= {"gtid-mode": "ON", "enforce-gtid-consistency": "ON", "mysqlx": "OFF", "sync-binlog": 0,
                        "performance-schema": "OFF", "secure-file-priv": folder}  # fmt: skip
        options["log-replica-updates" if self.kind == "mysql" else "log-slave-updates"] = "ON"
        options |= self._options
        name = "mysqld" if self.kind == "mysql" else "mariadbd"
        command = [shutil.which(name) or "", "--no-defaults", *(f"--{each}={value}" for each, value in options.items())]
        with (folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **self._identity)
        end_s = time.monotonic() + _READY_S
        while True:
            try:
                self.execute("SELECT 1")
                return
            except pymysql.err.OperationalError:
                said = (folder / "server.log").read_text()[-2000:]
                assert self._process.poll() is None, said
                assert time.monotonic() < end_s, said
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

    def follow(self, primary: Server) -> None:
        """Become a replica of another server from the beginning of its log."""
        if self.kind == "mysql":
            self.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={primary.port}, SOURCE_USER='root',"
                " SOURCE_AUTO_POSITION=1", "START REPLICA",
            )  # fmt: skip
        else:
            self.execute(
                f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='root', "
                "MASTER_USE_GTID=slave_pos", "START SLAVE",
            )  # fmt: skip

    def lead(self) -> None:
        """Stop following."""
        self.execute("STOP REPLICA" if self.kind == "mysql" else "STOP SLAVE")

    def forget_log(self) -> None:
        """Delete the binary logs, and with them the GTIDs."""
        self.execute("RESET BINARY LOGS AND GTIDS" if self.kind == "mysql" else "RESET MASTER")

    def restart(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self.start()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def configs(self, database: str, **more: str) -> dict[str, str]:
        classes = {"mariadb": "mariadb.MariaDbConnector", "mysql": "mysql.MySqlConnector"}
        return {
            "connector.class": f"io.debezium.connector.{classes[self.kind]}",
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
def mysql_server(kind: str, number: int = 1, **options: Any) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix=f"odradek-{kind}-"))
    folder.chmod(0o755)
    server = None
    try:
        server = Server(folder, kind, number, **options)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
