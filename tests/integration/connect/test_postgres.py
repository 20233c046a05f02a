"""Change capture of a real PostgreSQL server, task by task: what is written, and what happens over restarts."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator

import pytest
from odradek.connect.connectors.cdc.postgres.source import PostgresSourceConnector
from odradek.connect.data import plain
from odradek.connect.errors import ConnectError
from odradek.connect.record import SourceRecord
from odradek.testing.connect import SOURCE_CHECKS, SourceUnderTest
from odradek.testing.contract import check_id

from tests.support.connect.captured import Database, brief, database, replayed
from tests.support.connect.postgres import Postgres, postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def db(server: Postgres, request: pytest.FixtureRequest) -> Iterator[Database]:
    with database(server, request.node.nodeid) as found:
        yield found


# --- the contract ----------------------------------------------------------------------------------------------------

_COUNT = 12


@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=check_id)
@pytest.mark.parametrize("path", ["snapshot", "stream"])
def test_it_keeps_the_contract_of_sources(db: Database, path: str, check: Callable[[SourceUnderTest], None]) -> None:
    """Each row once, over the snapshot alone and over the stream alone."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION dbz_publication FOR ALL TABLES")
    if path == "stream":
        db.execute(f"SELECT pg_create_logical_replication_slot('slot_{db.name}', 'pgoutput')")
    db.execute(f"INSERT INTO t SELECT generate_series(1, {_COUNT // 2})")  # one transaction, in several polls
    for number in range(_COUNT // 2, _COUNT):
        db.execute(f"INSERT INTO t VALUES ({number + 1})")
    configs = db.server.configs(
        db.name, poll_interval_ms="20", snapshot_fetch_size="5", max_batch_size="4",
        snapshot_mode="initial" if path == "snapshot" else "no_data",
    )  # fmt: skip
    check(
        SourceUnderTest(
            PostgresSourceConnector, configs, list(range(1, _COUNT + 1)), lambda record: record.value["after"]["id"]
        )
    )


# --- values ----------------------------------------------------------------------------------------------------------

_TYPES = {
    "bool": ("true", True),
    "int2": ("-7", -7),
    "int8": ("9223372036854775807", 2**63 - 1),
    "float8": ("1.5", 1.5),
    "numeric(10,2)": ("12.5", "Decimal('12.50')"),
    "numeric": ("123.456", {"scale": 3, "value": (123456).to_bytes(3, "big")}),
    "text": ("'a''b\u00e9'", "a'b\u00e9"),
    "char(4)": ("'ab'", "ab  "),
    "bytea": ("'\\x00ff'", b"\x00\xff"),
    "date": ("'2024-02-29'", 19782),
    "time": ("'03:04:05.123456'", 11_045_123_456),
    "time(3)": ("'03:04:05.123'", 11_045_123),
    "timetz": ("'03:04:05+02'", "01:04:05Z"),
    "timestamp": ("'2024-01-02 03:04:05.678901'", 1_704_164_645_678_901),
    "timestamp(3)": ("'1969-12-31 23:59:59.5'", -500),
    "timestamptz": ("'2024-01-02 03:04:05.5+02'", "2024-01-02T01:04:05.500000Z"),
    "interval": ("'1 day 02:03:04.5'", 93_784_500_000),
    "uuid": ("'00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
    "jsonb": ("""'{"a": [1, null]}'""", '{"a": [1, null]}'),
    "bit(3)": ("B'110'", b"\x06"),
    "inet": ("'192.0.2.1'", "192.0.2.1"),
    "int4range": ("'[1,5)'", "[1,5)"),
    "point": ("'(1,2.5)'", {"x": 1.0, "y": 2.5, "wkb": struct.pack("<BIdd", 1, 1, 1.0, 2.5), "srid": None}),
    "text[]": ("""ARRAY['a', NULL, 'b "c", d', '']""", ["a", None, 'b "c", d', ""]),
    "numeric(5,1)[]": ("'{1,2.5}'", "[Decimal('1.0'), Decimal('2.5')]"),
    "mood": ("'ok'", "ok"),
    "positive": ("3", 3),
}


def test_a_row_has_the_same_values_from_the_snapshot_and_from_the_stream(db: Database) -> None:
    columns = ", ".join(f'"{name}" {name}' for name in _TYPES)
    values = ", ".join(text for text, _ in _TYPES.values())
    db.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS int CHECK (value > 0)",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {values})",
    )
    task = db.task()
    snapshot = task.poll_until(1)
    db.execute(f"INSERT INTO t VALUES (2, {values})", "INSERT INTO t (id) VALUES (3)")
    changes = task.poll_until(2)
    rows = [plain(each.value)["after"] for each in (*snapshot, *changes)]
    expected = {name: value for name, (_, value) in _TYPES.items()}
    for row in rows[:2]:
        found = {name: repr(row[name]) if "Decimal" in str(value) else row[name] for name, value in expected.items()}
        assert found == expected
    assert set(rows[2].values()) == {3, None}
    schema = snapshot[0].value_schema.field("after").schema  # type: ignore[union-attr]
    assert schema.field("mood").schema.parameters == (("allowed", "sad,ok"),)


def test_modes_of_values(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric, t timestamp, d date, b bytea, i interval)",
        "INSERT INTO t VALUES (1, 'NaN', '2024-01-02 03:04:05.678901', '2024-01-02', '\\xff', '1 mon')",
    )
    [record] = db.task(
        decimal_handling_mode="string", time_precision_mode="connect", binary_handling_mode="hex",
        interval_handling_mode="string",
    ).poll_until(1)  # fmt: skip
    row = plain(record.value)["after"]
    assert (row["n"], row["b"], row["i"]) == ("NaN", "ff", "P0Y1M0DT0H0M0S")
    assert (str(row["t"]), str(row["d"])) == ("2024-01-02 03:04:05.678000+00:00", "2024-01-02")


# --- changes ---------------------------------------------------------------------------------------------------------


def test_updates_deletes_changed_keys_and_truncation(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, s text)", "INSERT INTO t VALUES (1, 'a')")
    task = db.task(skipped_operations="none")
    task.poll_until(1)
    db.execute("UPDATE t SET s = 'b'", "UPDATE t SET id = 2", "DELETE FROM t", "TRUNCATE t")
    records = task.poll_until(7)
    old, new = {"id": 1, "s": None}, {"id": 2, "s": "b"}
    assert brief(records) == [
        ("u", (1,), {"id": 1, "s": "b"}),
        ("d", (1,), old),
        (None, (1,), None),
        ("c", (2,), new),
        ("d", (2,), {"id": 2, "s": None}),
        (None, (2,), None),
        ("t", None, None),
    ]
    assert [each.key for each in (*records[1].headers, *records[3].headers)] == [
        "__debezium.newkey", "__debezium.oldkey",
    ]  # fmt: skip
    assert records[0].value["source"]["txId"] == int(records[0].source_offset["txId"])  # type: ignore[index]


def test_a_large_value_that_did_not_change_is_marked_or_taken_from_the_row_before(db: Database) -> None:
    big = "md5(random()::text)"
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n int, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT 1, 0, string_agg({big}, '') FROM generate_series(1, 1000)",
    )
    [first] = (task := db.task()).poll_until(1)
    db.execute("UPDATE t SET n = 1", "ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET n = 2")
    marked, full = task.poll_until(2)
    assert marked.value["after"]["big"] == "__debezium_unavailable_value"
    assert full.value["after"]["big"] == full.value["before"]["big"] == first.value["after"]["big"]
    assert full.value["before"]["n"] == 1


def test_changes_of_the_schema(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL)", "ALTER TABLE t REPLICA IDENTITY FULL")
    task = db.task()
    task.poll()
    db.execute(
        "INSERT INTO t VALUES (1, 'x')",
        "ALTER TABLE t ALTER a DROP NOT NULL",
        "INSERT INTO t VALUES (2, NULL)",
        "ALTER TABLE t ADD b numeric(4,1) DEFAULT 1.5",
        "INSERT INTO t VALUES (3, 'y')",
        "ALTER TABLE t RENAME a TO c",
        "ALTER TABLE t ALTER id TYPE bigint",
        "INSERT INTO t VALUES (4, 'z')",
        "ALTER TABLE t DROP c",
        "UPDATE t SET b = 2 WHERE id = 4",
        "ALTER TABLE t ALTER b SET NOT NULL",  # later than the rows, but before they are read
    )
    rows = [plain(each.value)["after"] for each in task.poll_until(5)]
    assert [{name: str(value) for name, value in row.items()} for row in rows] == [
        {"id": "1", "a": "x"},
        {"id": "2", "a": "None"},
        {"id": "3", "a": "y", "b": "1.5"},
        {"id": "4", "c": "z", "b": "1.5"},
        {"id": "4", "b": "2.0"},
    ]


def test_tables_columns_and_keys_of_choice(db: Database) -> None:
    db.execute(
        "CREATE SCHEMA s",
        "CREATE TABLE s.a (id int PRIMARY KEY, name text, secret text)",
        "CREATE TABLE s.b (id int PRIMARY KEY)",
        "CREATE TABLE other (x int)",
        "INSERT INTO s.a VALUES (1, 'n', 'p')",
        "INSERT INTO s.b VALUES (1)",
        "INSERT INTO other VALUES (1)",
    )
    task = db.task(
        table_include_list=r"s\.a,public\..*", column_exclude_list=r".*\.secret", message_key_columns="s.a:name,id",
        publication_autocreate_mode="filtered",
    )  # fmt: skip
    assert brief(task.poll_until(3)) == [
        ("r", None, {"x": 1}),
        ("r", ("n", 1), {"id": 1, "name": "n"}),
    ]
    published = db.execute("SELECT schemaname || '.' || tablename FROM pg_publication_tables ORDER BY 1")
    assert published == [("public.other",), ("s.a",)]


def test_masked_columns_are_masked_in_snapshots_and_in_changes(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, card varchar(20) NOT NULL, mail varchar(8), note text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, '4111', 'a@b.c', 'a long note')",
    )
    masks = {"column.mask.with.3.chars": "public.t.card", "column.truncate.to.6.chars": "public.t.note",
             "column.mask.hash.v2.MD5.with.salt.s": "public.t.mail"}  # fmt: skip
    task = db.task(**masks)
    found = task.poll_until(1)
    db.execute("UPDATE t SET note = NULL, mail = NULL WHERE id = 1")
    found += task.poll_until(1)
    values = [plain(each.value) for each in found]
    hashed = hashlib.md5(b"sa@b.c").hexdigest()[:8]
    first = {"id": 1, "card": "***", "mail": hashed, "note": "a long"}
    assert (values[0]["after"], values[1]["before"]) == (first, first)
    assert values[1]["after"] == {"id": 1, "card": "***", "mail": None, "note": None}


def test_messages_of_programs_are_written_once_in_their_order(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")

    def emit(is_transactional: bool, prefix: str, content: str) -> str:
        return f"SELECT pg_logical_emit_message({str(is_transactional).lower()}, '{prefix}', '{content}')"

    def shown(records: list[SourceRecord]) -> list[str | int]:
        found = [plain(each.value) for each in records]
        return [each["message"]["content"] if each["op"] == "m" else each["after"]["id"] for each in found]

    configs = {"binary_handling_mode": "hex", "message_prefix_exclude_list": "noise.*"}
    task = db.task(**configs)
    task.poll()
    task.store()
    batch = [
        emit(False, "outbox", "a"), "BEGIN", "INSERT INTO t VALUES (1)", emit(True, "outbox", "b"),
        emit(True, "noise-1", "x"), "INSERT INTO t VALUES (2)", "COMMIT", emit(False, "outbox", "c"),
        "INSERT INTO t VALUES (3)",
    ]  # fmt: skip
    db.execute(*batch)
    found = task.poll_until(6)
    assert shown(found) == ["61", 1, "62", 2, "63", 3]
    message = found[0]
    assert (message.topic, plain(message.key)) == (f"{db.name}.message", {"prefix": "outbox"})
    assert plain(message.value)["message"] == {"prefix": "outbox", "content": "61"}
    assert [plain(each.value)["source"]["txId"] is None for each in found] == [True, *[False] * 3, True, False]
    for stored in range(1, 7):  # a restart behind each of them
        db.stop()
        db.offsets = {key: found[stored - 1].source_offset or {} for key in db.offsets}
        again = db.task(**configs)
        assert shown(again.poll_until(6 - stored)) == shown(found)[stored:]


# --- positions -------------------------------------------------------------------------------------------------------


def test_a_restart_within_a_transaction_repeats_and_loses_nothing(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    task = db.task(max_batch_size="2", provide_transaction_metadata="true")
    task.poll()
    task.store()
    db.execute("INSERT INTO t SELECT generate_series(1, 5)", "INSERT INTO t VALUES (6)")
    found: list[SourceRecord] = []
    while len(found) < 10:
        some = task.poll_until(1)
        assert some
        found += some
        task.store()
        task.stop()
        task = db.task(max_batch_size="2", provide_transaction_metadata="true")
    rows = [each for each in found if each.topic.endswith(".t")]
    assert [each.value["after"]["id"] for each in rows] == [1, 2, 3, 4, 5, 6]
    assert [each.value["transaction"]["total_order"] for each in rows] == [1, 2, 3, 4, 5, 1]
    borders = [plain(each.value) for each in found if each.topic.endswith(".transaction")]
    assert [(each["status"], each["event_count"]) for each in borders] == [
        ("BEGIN", None), ("END", 5), ("BEGIN", None), ("END", 1),
    ]  # fmt: skip
    assert borders[1]["data_collections"] == [{"data_collection": "public.t", "event_count": 5}]


def test_the_server_may_forget_only_what_is_stored(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int)")
    task = db.task(table_include_list="public.t", status_update_interval_ms="1")
    task.poll_until(0)
    task.poll()
    task.store()
    db.execute("INSERT INTO t VALUES (1)")
    task.poll_until(1)
    behind = db.execute("SELECT pg_current_wal_lsn()::text")[0][0]
    for _ in range(5):
        task.poll()
    assert db.slot(f"confirmed_flush_lsn < '{behind}'"), "confirmed before it was stored"
    task.store()
    db.execute("INSERT INTO other VALUES (1)")  # not captured, and yet it moves the position
    later = db.execute("SELECT pg_current_wal_lsn()::text")[0][0]
    for _ in range(50):
        task.poll()
        if db.slot(f"confirmed_flush_lsn >= '{later}'"):
            break
    assert db.slot(f"confirmed_flush_lsn >= '{later}'")


def test_an_interrupted_snapshot_goes_on_and_the_rows_end_as_they_are(db: Database) -> None:
    db.execute(
        "CREATE TABLE a (x int, y text, v int, PRIMARY KEY (y, x))",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        "INSERT INTO a SELECT n, chr(97 + n % 3), 0 FROM generate_series(1, 7) n",
        "INSERT INTO b SELECT n, 0 FROM generate_series(1, 5) n",
    )
    found: list[SourceRecord] = []
    for round in range(20):
        task = db.task(snapshot_fetch_size="2")
        some = task.poll_until(1)
        found += some
        task.store()
        task.stop()
        db.execute(
            f"UPDATE a SET v = {round} WHERE x = {1 + round % 7}",
            f"DELETE FROM b WHERE id = {round - 9}",
            f"INSERT INTO b VALUES ({100 + round}, {round})",
        )
    found += db.task().poll_until(1000)
    reads = [(each.topic, key) for each, (op, key, _) in zip(found, brief(found), strict=True) if op == "r"]
    assert len(reads) == len(set(reads)), "a row was read twice"
    for table, keys in (("a", ("y", "x")), ("b", ("id",))):
        rows = replayed([each for each in found if each.topic.endswith(f".{table}")])
        stored = db.execute(f"SELECT to_jsonb({table}) FROM {table}")
        assert rows == {tuple(row[name] for name in keys): row for (row,) in stored}
    marks = [each.value["source"]["snapshot"] for each in found if each.value and each.value["op"] == "r"]
    assert marks[0] == "first"
    assert marks[-1] == "last"


def test_a_new_task_takes_the_slot_from_one_that_still_reads(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    old = db.task()
    old.poll_until(1)
    old.poll()
    old.store()
    new = db.task()
    new.poll()
    db.execute("INSERT INTO t VALUES (2)")
    assert brief(new.poll_until(1)) == [("c", (2,), {"id": 2})]


def test_a_crash_of_the_server_is_waited_for(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    task = db.task()
    task.poll_until(1)
    task.poll()
    db.server.kill()
    assert task.poll() == []
    db.server.start()
    db.execute("INSERT INTO t VALUES (2)")
    assert brief(task.poll_until(1)) == [("c", (2,), {"id": 2})]
    db.stop()
    db.server.kill()
    task = db.task(errors_max_retries="1")
    try:
        assert task.poll() == []
        with pytest.raises(ConnectError, match="PostgreSQL cannot be read"):
            task.poll()
    finally:
        db.server.start()


def test_a_lost_slot_is_an_error_or_a_new_snapshot(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    task = db.task()
    task.poll_until(1)
    task.poll()
    task.store()
    db.stop()
    db.execute(f"SELECT pg_drop_replication_slot('slot_{db.name}')", "INSERT INTO t VALUES (2)")
    with pytest.raises(ConnectError, match=r"changes behind .* are lost"):
        db.task().poll()
    assert brief(db.task(snapshot_mode="when_needed").poll_until(2)) == [
        ("r", (1,), {"id": 1}),
        ("r", (2,), {"id": 2}),
    ]


@pytest.mark.parametrize(
    ("mode", "based_on", "expected"),
    [
        ("initial_only", (), ["r"]),
        ("no_data", (), ["c"]),
        ("recovery", (), ["c"]),
        ("configuration_based", ("snapshot_data",), ["r"]),
        ("configuration_based", ("start_stream",), ["c"]),
        ("configuration_based", ("snapshot_data", "start_stream"), ["r", "c"]),
    ],
)
def test_snapshot_alone_and_changes_alone(
    db: Database, mode: str, based_on: tuple[str, ...], expected: list[str]
) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    configs = {"snapshot_mode": mode} | {f"snapshot_mode_configuration_based_{each}": "true" for each in based_on}
    task = db.task(**configs)
    found = task.poll() + task.poll()
    task.store()
    task.stop()
    db.execute("INSERT INTO t VALUES (2)")
    task = db.task(**configs)
    for _ in range(4):
        found += task.poll()
    assert [op for op, _, _ in brief(found)] == expected


# --- configuration ---------------------------------------------------------------------------------------------------


def test_mistakes_are_named(db: Database) -> None:
    def errors(**changes: str) -> list[str]:
        found = PostgresSourceConnector.validate(db.server.configs(db.name, **changes))
        return [error for each in found.values() for error in each.errors]

    assert errors() == []
    assert errors(table_include_list="a", table_exclude_list="b") == [
        "give either table.include.list or table.exclude.list"
    ]
    assert "must have regular expressions" in errors(column_include_list="(")[0]
    assert "must be one of pgoutput" in errors(plugin_name="wal2json")[0]
    db.execute("CREATE TABLE t (id int)")
    with pytest.raises(ConnectError, match="publication p does not exist"):
        db.task(publication_autocreate_mode="disabled", publication_name="p").poll()
    with pytest.raises(ConnectError, match='database "nowhere" does not exist'):
        db.task(database_dbname="nowhere").poll()
