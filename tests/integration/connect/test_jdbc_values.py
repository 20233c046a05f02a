"""The JDBC source: every value is written as the database has it, by tables and by queries, in every batch."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from odradek.connect.connectors.jdbc.source import JdbcSourceTask
from odradek.connect.data import plain, semantic
from odradek.connect.record import SourceRecord
from odradek.testing.connect import SourceDriver

from tests.support.connect.captured import RealClock
from tests.support.connect.mysql import missing, mysql_server
from tests.support.connect.postgres import Postgres, postgres

_RATES = ("1.5", "1.2345", "0.00071", "12345678901234567890.123456789", "-7", "0")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


def rows(url: str, **configs: str) -> tuple[list[SourceRecord], list[dict[str, Any]]]:
    """Return the records of a source in batches of two rows, and their rows."""
    given = {"connection.url": url, "mode": "incrementing", "incrementing.column.name": "id", "batch.max.rows": "2",
             "topic.prefix": "t", "poll.interval.ms": "50"}  # fmt: skip
    given |= {name.replace("_", "."): value for name, value in configs.items()}
    driver = SourceDriver(JdbcSourceTask(), {**given, "tables": given.pop("table", "")}, RealClock(), {})  # type: ignore[arg-type]
    driver.start()
    records = driver.poll_until(1000)
    driver.stop()
    return records, [plain(each.value) for each in records]


@pytest.mark.parametrize("source", [{"table": "rates"}, {"query": "SELECT id, rate, rate * 1 AS more FROM rates"}])
def test_a_number_without_a_scale_keeps_its_digits_in_every_batch(server: Postgres, source: dict[str, str]) -> None:
    name = server.database("table_of_rates" if "table" in source else "query_of_rates")
    values = ", ".join(f"({id}, {rate})" for id, rate in enumerate(_RATES))
    server.execute(name, "CREATE TABLE rates (id int PRIMARY KEY, rate numeric)", f"INSERT INTO rates VALUES {values}",
                   "INSERT INTO rates VALUES (100, 'NaN'), (101, NULL)")  # fmt: skip
    records, _ = rows(server.url(name), **source)
    found = [semantic.natural(semantic.VARIABLE_SCALE_DECIMAL, each.value["rate"]) for each in records]
    assert found == [*map(Decimal, _RATES), None, None]
    assert len({each.value_schema for each in records}) == 1


def test_a_query_has_the_types_of_its_columns_and_not_of_its_first_rows(server: Postgres) -> None:
    name = server.database("types_of_queries")
    server.execute(
        name, "CREATE TABLE t (id int PRIMARY KEY, n numeric(38,10), d date, b bytea, x float8, j jsonb, s text)",
        "INSERT INTO t (id) VALUES (1), (2)",
        "INSERT INTO t VALUES (3, 1234567890123456789012345678.0123456789, '2024-01-02', '\\xff', 1, 'null', 'a')",
    )  # fmt: skip
    records, found = rows(server.url(name), query="SELECT * FROM t")
    assert len({each.value_schema for each in records}) == 1
    assert found[2]["n"] == Decimal("1234567890123456789012345678.0123456789")
    assert (str(found[2]["d"]), found[2]["b"], found[2]["x"], found[2]["j"]) == ("2024-01-02", b"\xff", 1.0, "null")


@pytest.mark.parametrize("source", [{"table": "t"}, {"query": "SELECT * FROM t"}])
def test_json_is_the_text_of_its_value(server: Postgres, source: dict[str, str]) -> None:
    name = server.database("json_" + next(iter(source)))
    texts = ['{"a": 1.10}', "[1, 2]", '"text"', "null", "5", "12345678901234567890.123"]
    values = ", ".join(f"({id}, '{text}')" for id, text in enumerate(texts))
    server.execute(name, "CREATE TABLE t (id int PRIMARY KEY, doc jsonb)", f"INSERT INTO t VALUES {values}, (99, NULL)")
    records, found = rows(server.url(name), **source)
    assert [each["doc"] for each in found] == [*texts, None]
    assert records[0].value_schema.field("doc").schema.name == "io.debezium.data.Json"  # type: ignore[union-attr]


def test_a_column_of_sqlite_becomes_wider_and_never_narrower(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
        database.executemany("INSERT INTO t (v) VALUES (?)", [(None,), (None,), (1,), (2,), (2.5,), (3,), ("x",), (4,)])
    _, found = rows(f"sqlite:///{tmp_path / 't.db'}", query="SELECT * FROM t")
    assert [each["v"] for each in found] == [None, None, 1, 2, 2.5, 3.0, "x", "4"]


@pytest.mark.slow
def test_types_of_mariadb_have_room_for_their_values() -> None:
    """Slow: such a server takes seconds to install and to start."""
    if missing("mariadb"):
        pytest.skip(str(missing("mariadb")))
    values = {
        "INT UNSIGNED": ("3707109316", 3707109316), "SMALLINT UNSIGNED": ("65535", 65535), "TINYINT(1)": ("2", 2),
        "BIGINT UNSIGNED": ("18446744073709551615", Decimal(2**64 - 1)), "YEAR": ("2024", 2024), "BIT(5)": ("22", 22),
        "DATE": ("'0000-00-00'", None), "DATE NOT NULL": ("'0000-00-00'", "1970-01-01"),
        "TIME": ("'07:08:09'", "07:08:09"), "ENUM('a','b')": ("'b'", "b"),
        "DATETIME(6)": ("'2024-01-02 03:04:05.678901'", "2024-01-02 03:04:05.678901+00:00"),
    }  # fmt: skip
    with mysql_server("mariadb", **{"sql-mode": ""}) as server:
        columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(values))
        literals = ", ".join(literal for literal, _ in values.values())
        server.execute("CREATE DATABASE shop", f"CREATE TABLE shop.t (id INT PRIMARY KEY, {columns})",
                       f"INSERT INTO shop.t VALUES (1, {literals})")  # fmt: skip
        _, [row] = rows(f"mysql+pymysql://root@127.0.0.1:{server.port}/shop", table="t")
    expected = {kind: value for kind, (_, value) in values.items()}
    found = {kind: row[f"c{number}"] for number, kind in enumerate(values)}
    assert {kind: str(value) for kind, value in found.items()} == {kind: str(value) for kind, value in expected.items()}
