"""The JDBC sink into PostgreSQL: rows that are copied are those that statements for each row would have written."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.connect.connectors.jdbc import copying
from odradek.connect.connectors.jdbc.sink import JdbcSinkTask
from odradek.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Struct,
    array,
    decimal,
    semantic,
    struct,
)
from odradek.connect.record import SinkRecord

from tests.support.connect.postgres import Postgres, postgres

_MANY = copying.ROWS_MIN + 5
KEY = struct({"id": INT64})
ROW = struct(
    {
        name: schema.as_optional()
        for name, schema in {
            "id": INT64, "text 100%": STRING, "order": STRING, "number": FLOAT64, "exact": FLOAT64, "single": FLOAT32,
            "amount": decimal(3), "yes": BOOLEAN, "raw": BYTES, "day": DATE, "clock": TIME, "naive": TIMESTAMP,
            "aware": TIMESTAMP, "whole": INT32, "words": array(STRING), "document": semantic.JSON,
            "other": array(INT32), "uuid": semantic.UUID_TEXT, "micro": semantic.MICRO_TIMESTAMP,
        }.items()
    }
)  # fmt: skip
_TABLE = """
    CREATE TABLE {name} (
        id bigint {key}, "text 100%" text, "order" varchar(40), number double precision, exact numeric, single real,
        amount numeric(12, 1), yes boolean, raw bytea, day date, clock time, naive timestamp, aware timestamptz,
        whole smallint, words text[], document jsonb, other json, uuid uuid, micro timestamp
    )
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def database(server: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    name = server.database(f"db{abs(hash(request.node.nodeid))}")
    server.execute("postgres", f"ALTER DATABASE {name} SET timezone = 'America/New_York'")
    yield name
    server.drop(name)


def row(number: int) -> Struct:
    moment = dt.datetime(2026, 7, 1, 12, 30, 0, 123_000, tzinfo=dt.UTC) + dt.timedelta(hours=number)
    return Struct(ROW, {
        "id": number, "text 100%": f"tab\t, line\n, back\\ and \\N of {number}", "order": "" if number % 2 else "ä'\"",
        "number": (0.1, math.inf, math.nan, -1e300)[number % 4], "exact": 0.1 + 0.2, "single": 1.5,
        "amount": Decimal("1234.567"), "yes": number % 2 == 0, "raw": bytes(range(256)), "day": moment.date(),
        "clock": moment.time().replace(microsecond=0), "naive": moment, "aware": moment, "whole": number,
        "words": ["a", 'quote " comma , brace { back \\', "NULL", ""], "document": '{"a": [1, null, "x"]}',
        "other": [1, 2], "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "micro": 1_782_909_000_123_456,
    })  # fmt: skip


def empty(number: int) -> Struct:
    return Struct(ROW, {"id": number})


def put(server: Postgres, database: str, values: list[Any], **configs: str) -> None:
    task = JdbcSinkTask()
    task.initialize(SimpleNamespace(errant_records=None))  # type: ignore[arg-type]
    given = {"connection.url": server.url(database), **{name.replace("_", "."): each for name, each in configs.items()}}
    task.start(given)
    records = [
        SinkRecord(topic="rows", partition=0, offset=offset, key=Struct(KEY, {"id": value["id"]}), key_schema=KEY,
                   value=value, value_schema=value.schema)
        for offset, value in enumerate(values)
    ]  # fmt: skip
    try:
        task.put(records)
    finally:
        task.stop()


def table(server: Postgres, database: str, name: str) -> list[Any]:
    return sorted(map(repr, server.execute(database, f"SELECT * FROM {name}")))


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_copy_writes_what_statements_write(server: Postgres, database: str, mode: str) -> None:
    keyed = {"insert_mode": mode, "pk_mode": "record_key" if mode == "upsert" else "none"}
    key = "PRIMARY KEY" if mode == "upsert" else ""
    values = [*map(row, range(1, _MANY)), *map(empty, range(_MANY, 2 * _MANY))]
    for name, size in (("copied", "3000"), ("stated", "1")):
        server.execute(database, _TABLE.format(name=name, key=key))
        put(server, database, values, table_name_format=name, batch_size=size, **keyed)
    assert len(table(server, database, "copied")) == len(values)
    assert table(server, database, "copied") == table(server, database, "stated")


def test_a_copy_is_used(server: Postgres, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []

    def watched(*arguments: Any) -> bool:
        outcomes.append(copying.copied(*arguments))
        return outcomes[-1]

    monkeypatch.setattr("odradek.connect.connectors.jdbc.sink.copied", watched)
    server.execute(database, _TABLE.format(name="rows", key="PRIMARY KEY"))
    put(server, database, [row(number) for number in range(_MANY)], insert_mode="upsert", pk_mode="record_key")
    assert outcomes == [True]


def test_the_last_change_of_a_key_counts(server: Postgres, database: str) -> None:
    server.execute(database, _TABLE.format(name="rows", key="PRIMARY KEY"))
    values = [*map(empty, range(_MANY)), *map(row, range(_MANY)), *map(empty, range(_MANY // 2))]
    put(server, database, values, insert_mode="upsert", pk_mode="record_key")
    found = server.execute(database, "SELECT id FROM rows WHERE raw IS NULL ORDER BY id")
    assert [each[0] for each in found] == list(range(_MANY // 2))
    assert len(table(server, database, "rows")) == _MANY


def test_where_a_copy_is_refused_statements_write(server: Postgres, database: str) -> None:
    """A value that only a cast makes fit, and a user who may not create temporary tables."""
    server.execute(
        database,
        "CREATE TABLE rows (id bigint PRIMARY KEY, number int)",
        f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC",
        f"CREATE ROLE {database} LOGIN",
        f"GRANT ALL ON rows TO {database}",
    )
    schema = struct({"id": INT64, "number": FLOAT64})
    values = [Struct(schema, {"id": number, "number": 1.6}) for number in range(_MANY)]
    put(server, database, values, insert_mode="insert")
    assert server.execute(database, "SELECT count(*), min(number) FROM rows") == [(_MANY, 2)]
    put(server, database, values, insert_mode="upsert", pk_mode="record_key", connection_user=database)
    assert server.execute(database, "SELECT count(*) FROM rows") == [(_MANY,)]
    server.execute(database, "DROP TABLE rows", f"DROP ROLE {database}")
