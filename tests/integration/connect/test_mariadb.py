"""Change capture of a real MariaDB server by its binary log.

Slow: a MariaDB server takes seconds to install and to start. Skipped without one: `apt-get install mariadb-server`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from odradek.connect.connectors.cdc.mysql.source import MariaDbSourceConnector, MariaDbSourceTask
from odradek.connect.data import plain
from odradek.connect.errors import ConnectError
from odradek.connect.record import Offset, SourceRecord
from odradek.testing.connect import SourceDriver

from tests.support.connect.mariadb import MariaDb, is_installed, mariadb

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_installed(), reason="needs mariadbd: apt-get install mariadb-server"),
]


class RealClock:
    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        return time.monotonic()


class Database:
    def __init__(self, server: MariaDb, name: str) -> None:
        self.server, self.name = server, name
        self.offsets: dict[str, Offset] = {}
        self.drivers: list[SourceDriver] = []
        server.execute(f"CREATE DATABASE {name}")

    def execute(self, *statements: str) -> list[Any]:
        return self.server.execute(f"USE {self.name}", *statements)

    def task(self, **configs: str) -> SourceDriver:
        given = self.server.configs(self.name, **configs)
        assert {n: each.errors for n, each in MariaDbSourceConnector.validate(given).items() if each.errors} == {}
        driver = SourceDriver(MariaDbSourceTask(), given, RealClock(), self.offsets)  # type: ignore[arg-type]
        driver.start()
        self.drivers.append(driver)
        return driver


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    with mariadb() as server:
        yield server


@pytest.fixture
def db(server: MariaDb, request: pytest.FixtureRequest) -> Iterator[Database]:
    found = Database(server, f"db{abs(hash(request.node.nodeid))}")
    yield found
    for each in found.drivers:
        each.stop()


def brief(records: list[SourceRecord]) -> list[tuple[Any, ...]]:
    found = []
    for each in records:
        value, key = plain(each.value), plain(each.key)
        row = None if value is None else value["after"] or value["before"]
        found.append((None if value is None else value["op"], None if key is None else tuple(key.values()), row))
    return found


_TYPES = {
    "tinyint": ("-7", -7),
    "smallint unsigned": ("65535", 65535),
    "int unsigned": ("4294967295", 4294967295),
    "bigint": ("-9223372036854775808", -(2**63)),
    "decimal(10,2)": ("12.5", "Decimal('12.50')"),
    "double": ("1.5", 1.5),
    "varchar(20)": ("'a''b\u00e9'", "a'b\u00e9"),
    "text": ("'long \u20ac'", "long \u20ac"),
    "varbinary(4)": ("x'00ff'", b"\x00\xff"),
    "blob": ("x'ff00'", b"\xff\x00"),
    "date": ("'2024-02-29'", 19782),
    "time(6)": ("'03:04:05.123456'", 11_045_123_456),
    "datetime": ("'2024-01-02 03:04:05'", 1_704_164_645_000),
    "datetime(6)": ("'2024-01-02 03:04:05.678901'", 1_704_164_645_678_901),
    "timestamp": ("'2024-01-02 03:04:05'", "2024-01-02T03:04:05Z"),
    "year": ("2024", 2024),
    "bit(3)": ("b'110'", b"\x06"),
    "enum('sad','ok')": ("'ok'", "ok"),
    "set('a','b','c')": ("'c,a'", "a,c"),
}


def test_a_row_has_the_same_values_from_the_snapshot_and_from_the_log(db: Database) -> None:
    columns = ", ".join(f"c{number} {name} NULL" for number, name in enumerate(_TYPES))
    values = ", ".join(value for value, _ in _TYPES.values())
    db.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, {columns}) CHARACTER SET utf8mb4", "SET time_zone = '+00:00'",
        f"INSERT INTO t VALUES (1, {values})",
    )  # fmt: skip
    task = db.task()
    snapshot = task.poll_until(1)
    db.execute("SET time_zone = '+00:00'", f"INSERT INTO t VALUES (2, {values})", "INSERT INTO t (id) VALUES (3)")
    changes = task.poll_until(2)
    rows = [plain(each.value)["after"] for each in (*snapshot, *changes)]
    expected = {f"c{number}": value for number, (_, value) in enumerate(_TYPES.values())}
    for row in rows[:2]:
        found = {name: repr(row[name]) if "Decimal" in str(value) else row[name] for name, value in expected.items()}
        assert found == expected
    assert set(rows[2].values()) == {3, None}
    source = changes[0].value["source"]
    assert source["connector"] == "mariadb"
    assert source["gtid"]
    assert changes[0].topic == f"m.{db.name}.t"


def test_updates_deletes_changed_keys_and_schemas(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL)", "INSERT INTO t VALUES (1, 'x')")
    task = db.task()
    task.poll_until(1)
    db.execute(
        "UPDATE t SET a = 'y'", "UPDATE t SET id = 2", "ALTER TABLE t ADD b int", "UPDATE t SET b = 5",
        "ALTER TABLE t DROP a", "UPDATE t SET b = 6", "DELETE FROM t",
    )  # fmt: skip
    found = brief(task.poll_until(8))
    assert [(op, key) for op, key, _ in found] == [
        ("u", (1,)), ("d", (1,)), (None, (1,)), ("c", (2,)), ("u", (2,)), ("u", (2,)), ("d", (2,)), (None, (2,)),
    ]  # fmt: skip
    assert [row for _, _, row in found if row is not None] == [
        {"id": 1, "a": "y"}, {"id": 1, "a": "y"}, {"id": 2, "a": "y"}, {"id": 2, "a": "y", "b": 5}, {"id": 2, "b": 6},
        {"id": 2, "b": 6},
    ]  # fmt: skip


def test_restarts_in_snapshot_and_transaction_repeat_and_lose_nothing(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_9")
    found: list[SourceRecord] = []
    is_done = False
    for _ in range(30):
        task = db.task(snapshot_fetch_size="2", max_batch_size="2")
        some = task.poll_until(1) if len(found) < 20 else []
        found += some
        task.store()
        task.stop()
        if len(found) == 9 and not is_done:
            is_done = True
            db.execute("INSERT INTO t SELECT seq FROM seq_101_to_110", "INSERT INTO t VALUES (200)")
    assert [key for _, key, _ in brief(found)] == [(n,) for n in (*range(1, 10), *range(101, 111), 200)]
    assert [op for op, _, _ in brief(found)] == ["r"] * 9 + ["c"] * 11


def test_a_restart_of_the_server_is_waited_for_and_a_lost_log_is_named(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    task = db.task()
    task.poll_until(1)
    task.poll()
    task.store()
    db.server.restart()
    db.execute("INSERT INTO t VALUES (2)")
    assert brief(task.poll_until(1)) == [("c", (2,), {"id": 2})]
    task.stop()
    db.execute("FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)", "RESET MASTER")
    with pytest.raises(ConnectError, match="not there any more"):
        db.task().poll_until(1)
    again = db.task(snapshot_mode="when_needed").poll_until(3)
    assert [key for _, key, _ in brief(again)] == [(1,), (2,), (3,)]


def test_a_server_that_is_not_set_up_is_named(db: Database) -> None:
    db.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        with pytest.raises(ConnectError, match="needs binlog_row_metadata=FULL"):
            db.task().poll()
    finally:
        db.execute("SET GLOBAL binlog_row_metadata = FULL")
