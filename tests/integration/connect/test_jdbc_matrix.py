"""The JDBC sink's copy of a captured table is the table, row by row: every type of PostgreSQL, keys included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.connect.connectors.jdbc import sink
from odradek.connect.record import SourceRecord

from tests.integration.connect.test_postgres_values import TYPES
from tests.support.connect.captured import Database, database
from tests.support.connect.postgres import Postgres, postgres
from tests.support.connect.postgres_values import CASES, KEYS, sets
from tests.support.connect.sink_copies import write_copy

_DIFFERENT = {  # type: the value in the source, in the copy, and why
    "timetz": ("23:59:59.999999-15:59", "15:58:59.999999+00", "Debezium writes it in UTC"),
    "bit varying(20)": ("101", "00000101", "Debezium writes whole bytes"),
    "int[]": ("[5:6]={1,2}", "{1,2}", "Debezium writes no bounds"),
}
_DIFFERENT_IF_CREATED = {  # in a column that the sink makes
    "bit varying(20)": {"": "0" * 20, "101": "00000000000000000101"},
}
_CAST = {  # how a column that the sink makes becomes one of the source's type
    "bit(1)": "{column}::int::bit(1)",
    "hstore": "CASE WHEN {column} IS NOT NULL THEN (SELECT coalesce(hstore(array_agg(key), array_agg(value)), '') "
              "FROM jsonb_each_text({column})) END",
}  # fmt: skip
_LOGGED = 1_000
_COPIES_MIN = {"COPY": 1, "statements": 1_000_000}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def db(server: Postgres, request: pytest.FixtureRequest) -> Iterator[Database]:
    with database(server, request.node.nodeid) as found:
        yield found


def texts(server: Postgres, name: str, casts: list[str]) -> dict[int, list[str | None]]:
    """Return the text of all columns by id."""
    columns = ", ".join(f"({cast})::text" for cast in casts)
    return {id: row for id, *row in server.execute(name, f"SELECT id, {columns} FROM t")}


def test_a_copy_has_every_value_of_every_type(server: Postgres, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sets(len(CASES))
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(CASES))
    create = f"CREATE TABLE t (id int PRIMARY KEY, n int, {columns})"
    db.execute(*TYPES, create)
    task = db.task(interval_handling_mode="string")
    records: list[SourceRecord] = []
    for first in (0, _LOGGED):
        listed = (", ".join(literal for literal, _ in row) for row in rows)
        db.execute(*(f"INSERT INTO t VALUES ({id}, 0, {row})" for id, row in enumerate(listed, first)))
        records += task.poll_until(len(rows))
    db.execute("UPDATE t SET n = 1", "DELETE FROM t WHERE id = 0")
    records += task.poll_until(2 * len(rows) + 2)  # and a tombstone
    source = texts(server, db.name, [f"c{number}" for number in range(len(CASES))])
    cells, accepted, wrong = 0, set(), []
    for way, rows_min in _COPIES_MIN.items():
        monkeypatch.setattr(sink, "ROWS_MIN", rows_min)
        for is_created in (True, False):
            name = server.database(f"{db.name}_{way}_{is_created}".lower())
            server.execute(name, *TYPES, *(() if is_created else (create,)))
            write_copy(records, server.url(name))
            casts = [
                _CAST.get(kind, "{column}::text::" + kind).format(column=f"c{number}") if is_created else f"c{number}"
                for number, kind in enumerate(CASES)
            ]
            copy = texts(server, name, casts)
            assert copy.keys() == source.keys()
            for id, row in copy.items():
                for number, kind in enumerate(CASES):
                    cells += 1
                    was, is_now = source[id][number], row[number]
                    expected = was if rows[id % _LOGGED][number][1] is not None else None
                    if kind in _DIFFERENT and was == _DIFFERENT[kind][0]:
                        expected = _DIFFERENT[kind][1]
                    if is_created and was in _DIFFERENT_IF_CREATED.get(kind, {}):
                        expected = _DIFFERENT_IF_CREATED[kind][str(was)]
                    if is_now != was:
                        accepted.add(f"{kind}: {was} is {is_now}")
                    if is_now != expected:
                        wrong.append(f"{kind}: {was!r} is {is_now!r} ({way}, created: {is_created})")
            server.drop(name)
    assert not wrong, "\n".join(wrong)
    print(f"PostgreSQL: {cells} cells of copies, {len(accepted)} accepted differences: {sorted(accepted)}")


@pytest.mark.parametrize("is_created", [True, False], ids=["created", "same"])
def test_a_copy_has_every_key(server: Postgres, db: Database, is_created: bool) -> None:
    tables = {number: (kind, CASES[kind]) for number, kind in enumerate(KEYS)}
    create = [f"CREATE TABLE t{number} (v {kind} PRIMARY KEY, n int)" for number, (kind, _) in tables.items()]
    stored = [
        (number, literal)
        for number, (kind, values) in tables.items()
        for literal, value in values
        if value is not None and literal.strip("'") != _DIFFERENT.get(kind, ("",))[0]
    ]
    db.execute(*TYPES, *create, *(f"INSERT INTO t{number} VALUES ({literal}, 0)" for number, literal in stored))
    task = db.task()
    records = task.poll_until(len(stored))
    name = server.database(f"{db.name}_copy")
    server.execute(name, *TYPES, *(() if is_created else create))
    write_copy(records, server.url(name))
    assert keys(server, name) == keys(server, db.name)
    db.execute(*(f"UPDATE t{number} SET n = 1" for number in tables))
    write_copy(task.poll_until(len(stored)), server.url(name))
    assert keys(server, name) == keys(server, db.name)
    db.execute(*(f"DELETE FROM t{number}" for number in tables))
    write_copy(task.poll_until(2 * len(stored)), server.url(name))
    assert keys(server, name) == keys(server, db.name) == [[] for _ in tables]
    server.drop(name)


def keys(server: Postgres, name: str) -> list[list[tuple[str, int]]]:
    """Return keys, as text of their type, and numbers of all tables."""
    return [
        sorted(server.execute(name, f"SELECT v::text::{kind}::text, n FROM t{number}"))
        for number, kind in enumerate(KEYS)
    ]
