"""Every type of PostgreSQL with odd values: the same in the snapshot, in the log and in the JDBC sink's copy."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from odradek.connect.data import plain
from odradek.connect.errors import ConnectError

from tests.support.connect.captured import Database, database
from tests.support.connect.copying import copying
from tests.support.connect.postgres import Postgres, postgres
from tests.support.connect.postgres_values import CASES, LARGE, LARGE_ROW, sets
from tests.support.connect.running import RunningCluster, embedded
from tests.support.kafka.port import until

TYPES = (
    "CREATE EXTENSION hstore", "CREATE EXTENSION ltree", "CREATE EXTENSION citext",
    "CREATE TYPE mood AS ENUM ('it''s', 'a,b')", "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
)  # fmt: skip
_LOGGED = 1_000


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def db(server: Postgres, request: pytest.FixtureRequest) -> Iterator[Database]:
    with database(server, request.node.nodeid) as found:
        yield found


def test_all_types_and_values_are_the_same_in_snapshot_log_and_update(db: Database) -> None:
    rows = sets(len(CASES))
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(CASES))
    db.execute(*TYPES, f"CREATE TABLE t (id int PRIMARY KEY, n int, {columns})")

    def insert(first: int) -> None:
        listed = (", ".join(literal for literal, _ in row) for row in rows)
        db.execute(*(f"INSERT INTO t VALUES ({id}, 0, {row})" for id, row in enumerate(listed, first)))

    insert(0)
    task = db.task()
    records = task.poll_until(len(rows))
    insert(_LOGGED)
    records += task.poll_until(len(rows))
    db.execute("ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET n = 1")
    updates = task.poll_until(2 * len(rows))
    wrong = []
    for found, place in ((records, "after"), (updates, "before"), (updates, "after")):
        written = {row["id"]: row for row in (plain(each.value)[place] for each in found)}
        for number, kind in enumerate(CASES):
            for id, row in ((first + at, row) for first in (0, _LOGGED) for at, row in enumerate(rows)):
                value, expected = written[id][f"c{number}"], row[number][1]
                if repr(value) != repr(expected):
                    wrong.append(f"{kind}: {row[number][0]} is {value!r}, not {expected!r} ({place} of {id})")
    assert not wrong, "\n".join(wrong)
    cells = sum(len(values) for values in CASES.values())
    print(f"PostgreSQL: {len(CASES)} types, {cells} values by snapshot, log, before and after an update: no difference")


def test_a_value_that_no_record_can_have_is_null_and_named_or_ends_the_task(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2) NOT NULL, a int[])",
        "INSERT INTO t VALUES (1, 'NaN', '{{1}}')",
    )
    task = db.task()
    records = task.poll_until(1)
    db.execute("INSERT INTO t VALUES (2, 'NaN', NULL), (3, 1, '{2}')")
    records += task.poll_until(2)
    assert [plain(each.value)["after"]["n"] for each in records][:2] == [None, None]
    assert plain(records[2].value)["after"]["a"] == [2]
    told = [each.getMessage() for each in caplog.records if "written as null" in each.getMessage()]
    assert [each.partition(" is written")[0] for each in told] == [
        "the column public.t.n of the row id=1", "the column public.t.a of the row id=1",
        "the column public.t.n of the row id=2",
    ]  # fmt: skip
    task.stop()
    db.offsets.clear()
    db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
    with pytest.raises(ConnectError, match=r"the column public\.t\.n cannot be read: .*decimal.handling.mode"):
        db.task(**{"event.converting.failure.handling.mode": "fail"}).poll_until(1)


def test_large_values_that_an_update_leaves_alone_stay_in_the_copy(server: Postgres) -> None:
    source, target = server.database("large"), server.database("large_copy")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(LARGE))
    external = ", ".join(f"ALTER c{number} SET STORAGE EXTERNAL" for number in range(len(LARGE)))
    server.execute(
        source, f"CREATE TABLE items (id int PRIMARY KEY, note text, {columns})", f"ALTER TABLE items {external}"
    )
    with embedded() as service, RunningCluster(service) as running:
        copying(running, (server, source), (server, target))
        server.execute(source, f"INSERT INTO items SELECT 1, 'first', {', '.join(LARGE.values())} FROM {LARGE_ROW}")
        until(lambda: server.execute(target, "SELECT to_regclass('items')") != [(None,)], 60, "the table")
        server.execute(source, "UPDATE items SET note = 'second'")
        until(lambda: server.execute(target, "SELECT note FROM items") == [("second",)], 60, "the update")
        records = running.read(f"{source}.public.items", 2)
    sent = json.loads(records[1].value)["payload"]["after"]
    lost = []
    for number, kind in enumerate(LARGE):
        [before], [after] = (server.execute(name, f"SELECT c{number}::text FROM items") for name in (source, target))
        if before != after:
            lost.append(f"{kind}: {str(after)[:60]}, not {str(before)[:60]}; sent {str(sent[f'c{number}'])[:60]}")
    assert not lost, "\n".join(lost)
    assert {len(json.dumps(value)) < 4_000 for value in sent.values()} == {True}, "a value was sent"
    mark = b"__debezium_unavailable_value"
    assert sent["c1"] == list(mark)
    assert base64.b64decode(sent[f"c{list(LARGE).index('bytea')}"]) == mark
    for name in (source, target):
        server.drop(name)
