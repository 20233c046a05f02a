"""The JDBC sink's copy of a captured table is the table, row by row: every type of MySQL and MariaDB, keys included.

Slow: such a server takes seconds to install and to start. Each kind is skipped where it is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.testing.connect import SourceDriver

from tests.integration.connect.test_mysql_values import read, task_of
from tests.support.connect.mysql import KINDS, Server, missing, mysql_server
from tests.support.connect.mysql_values import BINARIES, KEYS, MOMENTS, NUMBERS, cases, rows
from tests.support.connect.sink_copies import write_copy

pytestmark = pytest.mark.slow
_MODE = "ALLOW_INVALID_DATES"
_SESSION = "SET NAMES utf8mb4", "SET time_zone = '+00:00'", f"SET sql_mode = '{_MODE}'"
_EPOCH = ("DATE NOT NULL", "DATETIME NOT NULL", "TIMESTAMP NOT NULL DEFAULT '2000-01-01'")
"""Types whose zero is 1970-01-01 in the record, as Debezium has it. TIMESTAMP takes it for zero again."""
_GEOMETRIES = ("POINT", "LINESTRING")
_LOGGED = 1_000


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    why = missing(request.param)
    if why:
        pytest.skip(why)
    with mysql_server(request.param, **{"default-time-zone": "+02:00"}) as server:
        yield server


def comparable(kind: str, column: str, *, is_created: bool) -> str:
    """Return SQL of a column's value that does not depend on charset and collation."""
    if kind in NUMBERS or kind in MOMENTS:
        return column
    if kind in _GEOMETRIES:
        wkb = f"FROM_BASE64(JSON_UNQUOTE(JSON_EXTRACT({column}, '$.wkb')))" if is_created else f"ST_AsBinary({column})"
        return f"HEX({wkb})"
    if kind in BINARIES or "BLOB" in kind or "BINARY" in kind:
        return f"HEX({column})"
    return f"HEX(CONVERT(CAST({column} AS CHAR CHARACTER SET utf8mb4) USING utf8mb4))"


def url(server: Server, database: str) -> str:
    return f"mysql+pymysql://root@127.0.0.1:{server.port}/{database}?charset=utf8mb4&sql_mode={_MODE}"


def test_a_copy_has_every_value_of_every_type(server: Server) -> None:
    table = cases(server.kind)
    literals = rows(table)
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(table))
    create = f"CREATE TABLE {{}}.t (id INT PRIMARY KEY, n INT, {columns})"
    server.execute(*_SESSION, "CREATE DATABASE s", create.format("s"))
    driver = task_of(server, "s", {})
    records = []
    for first in (0, _LOGGED):
        listed = (", ".join(literal for literal, _ in row) for row in literals)
        server.execute(*_SESSION, *(f"INSERT INTO s.t VALUES ({id}, 0, {row})" for id, row in enumerate(listed, first)))
        records += read(driver, len(literals))
    server.execute(*_SESSION, "UPDATE s.t SET n = 1")
    records += read(driver, 2 * len(literals))
    driver.stop()
    cells, accepted, wrong = 0, set(), []
    for name, is_created in (("created", True), ("same", False)):
        server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        if not is_created:
            server.execute(*_SESSION, create.format(name))
        write_copy(records, url(server, name))
        for number, kind in enumerate(table):
            was = comparable(kind, f"s.t.c{number}", is_created=False)
            is_now = comparable(kind, f"copy.c{number}", is_created=is_created)
            compared = f"SELECT s.t.id, {was} <=> {is_now}, copy.c{number} FROM s.t LEFT JOIN {name}.t copy USING (id)"
            found = server.execute(*_SESSION, compared)
            cells += len(found)
            for id, is_same, value in found:
                literal, expected = literals[id % _LOGGED][number]
                is_lost = expected is None and value is None
                is_epoch = kind in _EPOCH and str(value).startswith("1970-01-01")
                if not is_same:
                    accepted.add(f"{kind}: {literal} is {value}")
                    if not is_lost and not is_epoch:
                        wrong.append(f"{kind}: {literal} is {str(value)[:100]!r} ({name})")
        assert server.execute(f"SELECT COUNT(*), SUM(n) FROM {name}.t") == [(2 * len(literals),) * 2]
    assert not wrong, "\n".join(sorted(set(wrong)))
    print(f"{server.kind}: {cells} cells of copies, {len(accepted)} accepted differences: {sorted(accepted)}")


@pytest.mark.parametrize("is_created", [True, False], ids=["created", "same"])
def test_a_copy_has_every_key(server: Server, is_created: bool) -> None:
    table = {kind: values for kind, values in cases(server.kind).items() if kind in KEYS}
    source, name = f"keys_{is_created}", f"copied_keys_{is_created}"
    stored = [
        (number, literal)
        for number, (kind, values) in enumerate(table.items())
        for literal, value in values
        if value is not None and not (kind in _EPOCH and literal.startswith("'0000"))
    ]
    for database in (source, name):
        server.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    for number, kind in enumerate(table):
        column = kind.replace(" NOT NULL", "").removesuffix(" NULL")
        for database in (source,) if is_created else (source, name):
            server.execute(*_SESSION, f"CREATE TABLE {database}.t{number} (v {column} PRIMARY KEY, n INT)")
    server.execute(*_SESSION, *(f"INSERT INTO {source}.t{number} VALUES ({literal}, 0)" for number, literal in stored))
    driver = task_of(server, source, {})

    def same(driver: SourceDriver) -> list[str]:
        """Copy the changes of all rows; return the types whose tables differ."""
        records = read(driver, len(stored))  # without tombstones: a delete becomes one
        write_copy(records, url(server, name))
        return [kind for number, kind in enumerate(table) if not is_same(number, kind)]

    def is_same(number: int, kind: str) -> bool:
        was, is_now = (comparable(kind, f"{each}.v", is_created=False) for each in ("s", "c"))
        [[count], [copies]] = (server.execute(f"SELECT COUNT(*) FROM {each}.t{number}") for each in (source, name))
        [[matches]] = server.execute(
            *_SESSION,
            f"SELECT COUNT(*) FROM {source}.t{number} s JOIN {name}.t{number} c ON {was} = {is_now} AND s.n = c.n",
        )
        return bool(count[0] == copies[0] == matches)

    assert same(driver) == []
    server.execute(*_SESSION, *(f"UPDATE {source}.t{number} SET n = 1" for number in range(len(table))))
    assert same(driver) == []
    server.execute(*_SESSION, *(f"DELETE FROM {source}.t{number}" for number in range(len(table))))
    assert same(driver) == []
    driver.stop()
