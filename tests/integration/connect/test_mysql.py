"""Change capture of real servers of MariaDB and MySQL by their binary logs.

Slow: such a server takes seconds to install and to start. Each kind is skipped where it is not installed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from odradek.connect import plugins
from odradek.connect.connectors.cdc.mysql.catalog import Catalog
from odradek.connect.connectors.cdc.mysql.chunks import Chunks
from odradek.connect.data import plain
from odradek.connect.errors import ConnectError
from odradek.connect.plugin import SourceTask
from odradek.connect.record import Offset, SourceRecord
from odradek.testing.connect import SourceDriver

from tests.support.connect.mysql import KINDS, Server, missing, mysql_server

pytestmark = pytest.mark.slow


class RealClock:
    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        return time.monotonic()


class Database:
    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name = server, name
        self.offsets: dict[str, Offset] = {}
        self.drivers: list[SourceDriver] = []
        server.execute(f"CREATE DATABASE {name}")

    def execute(self, *statements: str) -> list[Any]:
        return self.server.execute(f"USE {self.name}", *statements)

    def task(self, **configs: str) -> SourceDriver:
        given = self.server.configs(self.name, **configs)
        connector = plugins.connector(given["connector.class"])
        assert {n: each.errors for n, each in connector.validate(given).items() if each.errors} == {}
        made = connector.task_class()
        assert isinstance(made, SourceTask)
        driver = SourceDriver(made, given, RealClock(), self.offsets)  # type: ignore[arg-type]
        driver.start()
        self.drivers.append(driver)
        return driver


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    why = missing(request.param)
    if why:
        pytest.skip(why)
    with mysql_server(request.param) as server:
        yield server


@pytest.fixture
def db(server: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
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


def numbered(first: int, last: int) -> str:
    return ", ".join(f"({number})" for number in range(first, last + 1))


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


def test_masked_columns_are_masked_in_the_snapshot_and_in_the_log(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, card varchar(20) NOT NULL, mail varchar(8), note text)",
        "INSERT INTO t VALUES (1, '4111', 'a@b.c', 'a long note')",
    )
    column = f"{db.name}.t".replace(".", r"\.")
    task = db.task(**{
        "column.mask.with.3.chars": column + r"\.card",
        "column.truncate.to.6.chars": column + r"\.note",
        "column.mask.hash.v2.MD5.with.salt.s": column + r"\.mail",
    })  # fmt: skip
    found = task.poll_until(1)
    db.execute("UPDATE t SET note = NULL, mail = NULL WHERE id = 1")
    found += task.poll_until(1)
    first = {"id": 1, "card": "***", "mail": hashlib.md5(b"sa@b.c").hexdigest()[:8], "note": "a long"}
    values = [plain(each.value) for each in found]
    assert (values[0]["after"], values[1]["before"]) == (first, first)
    assert values[1]["after"] == {**first, "mail": None, "note": None}


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
    assert source["connector"] == db.server.kind
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
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", f"INSERT INTO t VALUES {numbered(1, 9)}")
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
            db.execute(f"INSERT INTO t VALUES {numbered(101, 110)}", "INSERT INTO t VALUES (200)")
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
    db.execute("FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
    db.server.forget_log()
    with pytest.raises(ConnectError, match="not there any more"):
        db.task().poll_until(1)
    again = db.task(snapshot_mode="when_needed").poll_until(3)
    assert [key for _, key, _ in brief(again)] == [(1,), (2,), (3,)]


def test_a_user_without_the_right_to_lock_gets_a_snapshot_and_all_changes_behind_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes between the place in the log and the rows are in both."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
    user = f"u{db.name[-8:]}"
    db.execute(
        f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY ''",
        f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}@'127.0.0.1'",
    )
    place = Catalog.place

    def slow(self: Catalog) -> Any:
        found = place(self)
        db.execute("UPDATE t SET v = 1 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 0)")
        return found

    monkeypatch.setattr(Catalog, "place", slow)
    task = db.task(database_user=user)
    found = brief(task.poll_until(7))
    assert [(op, key) for op, key, _ in found] == [
        ("r", (1,)), ("r", (3,)), ("r", (4,)), ("u", (1,)), ("d", (2,)), (None, (2,)), ("c", (4,)),
    ]  # fmt: skip


# --- GTIDs ------------------------------------------------------------------------------------------------------------


def test_a_failover_to_a_replica_goes_on_in_the_middle_of_a_transaction(db: Database) -> None:
    """The replica has the same transactions at other places of its own log."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    found: list[SourceRecord] = []
    with mysql_server(db.server.kind, 2) as replica:
        replica.follow(db.server)
        task = db.task(max_batch_size="4")
        found += task.poll_until(1)
        db.execute("BEGIN", *(f"INSERT INTO t VALUES ({number})" for number in range(2, 12)), "COMMIT")
        found += task.poll_until(4)  # a part of the transaction
        assert 1 < len(found) < 11
        task.store()
        task.stop()
        db.execute(f"REPLACE INTO t VALUES {numbered(2, 11)}", "INSERT INTO t VALUES (100)")
        replica_rows = f"SELECT count(*) FROM {db.name}.t"
        wait_for(lambda: replica.execute(replica_rows)[0][0] == 12)
        replica.lead()
        replica.execute(f"INSERT INTO {db.name}.t VALUES (200)")
        port = str(replica.port)
        task = db.task(database_port=port)
        found += task.poll_until(1000)
        task.store()
        ids = [key[0] for op, key, _ in brief(found) if op in ("r", "c")]
        assert ids == [*range(1, 12), 100, 200]
        [offset] = db.offsets.values()
        task.stop()
        again = db.task(database_port=port)
        assert again.poll_until(1) == []
        replica.execute(f"INSERT INTO {db.name}.t VALUES (201)")
        assert [key for _, key, _ in brief(again.poll_until(1))] == [(201,)]
        again.stop()
        # An offset of places alone does not say where another server's log goes on.
        for name in ("gtids", "partial"):
            offset.pop(name, None)
        offset["server"] = "another"
        with pytest.raises(ConnectError, match="and has or had no GTIDs"):
            db.task(database_port=port).poll_until(1)
        tables_again = db.task(database_port=port, snapshot_mode="when_needed")
        assert {op for op, _, _ in brief(tables_again.poll_until(14))} == {"r"}
        tables_again.stop()


# --- signals, heartbeats, transactions --------------------------------------------------------------------------------

_SIGNALS = "CREATE TABLE signals (id varchar(255) PRIMARY KEY, type varchar(64), data text)"


def signal(db: Database, id: str, kind: str, **data: Any) -> None:
    db.execute(f"INSERT INTO signals VALUES ('{id}', '{kind}', '{json.dumps(data)}')")


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete"])
def test_an_incremental_snapshot_by_signals_over_changes_and_restarts(db: Database, strategy: str) -> None:
    db.execute("CREATE TABLE t (a binary(2), b int, v int, PRIMARY KEY (a, b))", _SIGNALS)
    keys = [(f"x'{number % 3:02x}ff'", number) for number in range(1, 21)]
    db.execute(*(f"INSERT INTO t VALUES ({a}, {b}, 0)" for a, b in keys))

    def task() -> SourceDriver:
        return db.task(
            snapshot_mode="no_data", signal_data_collection=f"{db.name}.signals", incremental_snapshot_chunk_size="3",
            incremental_snapshot_watermarking_strategy=strategy,
        )  # fmt: skip

    driver = task()
    driver.poll()
    signal(db, "s1", "execute-snapshot", **{"data-collections": [f"{db.name}.t"], "type": "incremental"})
    found: list[SourceRecord] = []
    for round in range(40):
        db.execute(f"UPDATE t SET v = {round} WHERE b = {1 + round % 20}", f"DELETE FROM t WHERE b = {21 - round}")
        found += driver.poll()
        driver.store()
        if round % 5 == 4:
            driver.stop()
            driver = task()
    found += driver.poll_until(1000)
    driver.store()
    reads = [key for op, key, _ in brief(found) if op == "r"]
    assert len(reads) == len(set(reads)), "a row was read twice"
    assert len(reads) > 3
    assert {each.value["source"]["snapshot"] for each in found if each.value and each.value["op"] == "r"} == {
        "incremental"
    }
    rows: dict[Any, Any] = {}
    for op, key, row in brief(found):
        rows[key] = row
        if op in ("d", None):
            del rows[key]
    assert sorted(row["b"] for row in rows.values()) == [b for (b,) in db.execute("SELECT b FROM t ORDER BY b")]
    assert {key: row["v"] for key, row in rows.items()} == {
        (a, b): v for a, b, v in db.execute("SELECT a, b, v FROM t")
    }
    assert {each.topic for each in found} == {f"m.{db.name}.t"}
    assert "incremental" not in next(iter(db.offsets.values()))


def test_rows_that_change_while_their_chunk_is_read_are_not_overwritten(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1,0),(2,0),(3,0),(4,0)", _SIGNALS)
    read = Chunks.chunk

    def chunk(self: Chunks, *arguments: Any) -> Any:
        found = read(self, *arguments)
        db.execute("UPDATE t SET v = 9 WHERE id = 2", "DELETE FROM t WHERE id = 3", "UPDATE t SET id = 5 WHERE id = 4")
        return found

    monkeypatch.setattr(Chunks, "chunk", chunk)
    task = db.task(snapshot_mode="no_data", signal_data_collection=f"{db.name}.signals")
    task.poll()
    signal(db, "1", "execute-snapshot", **{"data-collections": [f"{db.name}.t"]})
    found = brief(task.poll_until(8))
    assert [(op, key) for op, key, _ in found] == [
        ("u", (2,)), ("d", (3,)), (None, (3,)), ("d", (4,)), (None, (4,)), ("c", (5,)), ("r", (1,)),
    ]  # fmt: skip


def test_signals_that_are_wrong_are_passed_and_a_filter_is_kept(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9)",
        "CREATE TABLE keyless (id int)", "CREATE TABLE labels (id enum('b','a') PRIMARY KEY)", _SIGNALS,
    )  # fmt: skip
    task = db.task(snapshot_mode="no_data", signal_data_collection=f"{db.name}.signals")
    task.poll()
    signal(db, "1", "unknown")
    for number, name in enumerate(("nowhere", "keyless", "labels"), 2):
        signal(db, str(number), "execute-snapshot", **{"data-collections": [f"{db.name}.{name}"]})
    table = f"{db.name}.t"
    filtered = {"data-collection": table, "filter": "id % 4 = 0"}
    signal(db, "9", "execute-snapshot", **{"data-collections": [table], "additional-conditions": [filtered]})
    assert [key for _, key, _ in brief(task.poll_until(3))] == [(4,), (8,)]


def test_heartbeats_truncations_and_the_bounds_of_transactions(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int)", "CREATE TABLE beats (n int)")

    def task() -> SourceDriver:
        return db.task(
            heartbeat_interval_ms="1", heartbeat_action_query=f"INSERT INTO {db.name}.beats VALUES (1)",
            table_exclude_list=f"{db.name}.beats", provide_transaction_metadata="true", skipped_operations="none",
            max_batch_size="2", snapshot_mode="no_data",
        )  # fmt: skip

    driver = task()
    driver.poll()
    db.execute(
        "BEGIN", *(f"INSERT INTO t VALUES ({number})" for number in range(4)), "INSERT INTO u VALUES (1)", "COMMIT"
    )
    db.execute("TRUNCATE TABLE t", f"TRUNCATE {db.name}.`u`")
    found: list[SourceRecord] = []

    def of(topic: str) -> list[Any]:
        return [plain(each.value) for each in found if each.topic == f"m.{topic}"]

    for _ in range(60):
        found += driver.poll()
        driver.store()
        if len(of("transaction")) == 6:
            break
        driver.stop()
        driver = task()
    beats = [each for each in found if each.topic == "__debezium-heartbeat.m"]
    assert beats
    assert all(each.source_offset for each in beats)
    assert db.execute("SELECT count(*) FROM beats")[0][0] >= len(beats)
    borders = of("transaction")
    assert [each["status"] for each in borders] == ["BEGIN", "END"] * 3
    assert [each["event_count"] for each in borders] == [None, 5, None, 1, None, 1]
    assert borders[1]["data_collections"] == [
        {"data_collection": f"{db.name}.t", "event_count": 4}, {"data_collection": f"{db.name}.u", "event_count": 1},
    ]  # fmt: skip
    changes = [
        (each["op"], each["transaction"]["total_order"], each["transaction"]["id"]) for each in of(f"{db.name}.t")
    ]
    assert [(op, order) for op, order, _ in changes] == [("c", 1), ("c", 2), ("c", 3), ("c", 4), ("t", 1)]
    assert {id for _, _, id in changes} == {borders[0]["id"], borders[2]["id"]}
    assert [(each["op"], each["transaction"]["total_order"]) for each in of(f"{db.name}.u")] == [("c", 5), ("t", 1)]


def wait_for(condition: Any) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_a_server_that_is_not_set_up_is_named(db: Database) -> None:
    db.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        with pytest.raises(ConnectError, match="needs binlog_row_metadata=FULL"):
            db.task().poll()
    finally:
        db.execute("SET GLOBAL binlog_row_metadata = FULL")
