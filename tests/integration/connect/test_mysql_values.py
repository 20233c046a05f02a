"""Every type of MySQL and MariaDB with odd values: the snapshot, the log and SELECT say the same.

Slow: such a server takes seconds to install and to start. Each kind is skipped where it is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Decimal

import pytest
from odradek.connect import plugins
from odradek.connect.data import plain
from odradek.connect.errors import ConnectError
from odradek.connect.record import Offset, SourceRecord
from odradek.testing.connect import SourceDriver

from tests.support.connect.captured import RealClock
from tests.support.connect.mysql import KINDS, Server, missing, mysql_server
from tests.support.connect.mysql_values import KEYS, cases, rows

pytestmark = pytest.mark.slow
_LOGGED = 1_000  # what ids of rows of the log have more than those of the snapshot
_SESSION = "SET NAMES utf8mb4", "SET time_zone = '+00:00'", "SET sql_mode = 'ALLOW_INVALID_DATES'"


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    why = missing(request.param)
    if why:
        pytest.skip(why)
    with mysql_server(request.param, **{"default-time-zone": "+02:00"}) as server:
        yield server


def task_of(server: Server, database: str, offsets: dict[str, Offset], **configs: str) -> SourceDriver:
    given = server.configs(database, database_ssl_mode="disabled", **configs)
    made = plugins.connector(given["connector.class"]).task_class()
    driver = SourceDriver(made, given, RealClock(), offsets)  # type: ignore[arg-type]
    driver.start()
    return driver


def read(driver: SourceDriver, count: int) -> list[SourceRecord]:
    """Return records of rows, without tombstones."""
    found: list[SourceRecord] = []
    end_s = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end_s:
        found += [each for each in driver.poll() if each.value is not None]
    return found


def test_all_types_and_values_are_the_same_in_snapshot_log_and_update(server: Server) -> None:
    table = cases(server.kind)
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(table))
    literals = rows(table)
    server.execute(*_SESSION, "CREATE DATABASE kinds", f"CREATE TABLE kinds.t (id INT PRIMARY KEY, n INT, {columns})")

    def insert(first: int) -> None:
        listed = (", ".join(literal for literal, _ in row) for row in literals)
        wrap = ["SET column_compression_zlib_wrap = ON"] if first and server.kind == "mariadb" else []
        inserts = [f"INSERT INTO kinds.t VALUES ({id}, 0, {row})" for id, row in enumerate(listed, first)]
        server.execute(*_SESSION, *wrap, *inserts)

    insert(0)
    driver = task_of(server, "kinds", {})
    records = read(driver, len(literals))
    insert(_LOGGED)
    records += read(driver, len(literals))
    server.execute(*_SESSION, "UPDATE kinds.t SET n = 1")
    updates = read(driver, 2 * len(literals))
    driver.stop()
    wrong = []
    ways = [(records, "after"), (updates, "before"), (updates, "after")]
    for found, place in ways:
        written = {row["id"]: row for row in (plain(each.value)[place] for each in found)}
        for number, kind in enumerate(table):
            for id, row in ((first + at, row) for first in (0, _LOGGED) for at, row in enumerate(literals)):
                value, expected = written[id][f"c{number}"], row[number][1]
                if repr(value) != repr(expected):
                    wrong.append(f"{kind}: {row[number][0]} is {value!r}, not {expected!r} ({place} of {id})")
    assert not wrong, "\n".join(wrong)
    assert len({each.value_schema for each in (*records, *updates)}) == 1, "the schema of the table changed"
    cells = sum(len(values) for values in table.values())
    print(
        f"{server.kind}: {len(table)} types, {cells} values by snapshot, log, before and after an update: no difference"
    )


def test_keys_of_all_types_are_the_same_in_snapshot_log_and_restarted_snapshot(server: Server) -> None:
    table = {kind: values for kind, values in cases(server.kind).items() if kind in KEYS}
    server.execute("CREATE DATABASE `keys` CHARACTER SET utf8mb4")
    count = 0
    for number, (kind, values) in enumerate(table.items()):
        stored = [literal for literal, value in values if value is not None]
        column = kind.replace(" NOT NULL", "").removesuffix(" NULL")
        server.execute(
            *_SESSION, f"CREATE TABLE `keys`.t{number} (v {column} PRIMARY KEY, n INT)",
            *(f"INSERT INTO `keys`.t{number} VALUES ({literal}, 0)" for literal in stored),
        )  # fmt: skip
        count += len(stored)
    offsets: dict[str, Offset] = {}
    records: list[SourceRecord] = []
    while len(records) < count:  # each task reads one row, and the next one goes on behind its key
        driver = task_of(server, "keys", offsets, snapshot_fetch_size="1")
        some = read(driver, 1)
        assert some
        records += some
        driver.store()
        driver.stop()
    driver = task_of(server, "keys", offsets)
    driver.poll()
    server.execute(*_SESSION, *(f"UPDATE `keys`.t{number} SET n = 1" for number in range(len(table))))
    changes = read(driver, count)
    server.execute(*_SESSION, *(f"DELETE FROM `keys`.t{number}" for number in range(len(table))))
    deletes = read(driver, count)
    driver.stop()

    def keys(found: list[SourceRecord]) -> list[tuple[str, str]]:
        return sorted((each.topic, repr(plain(each.key))) for each in found)

    assert keys(records) == keys(changes) == keys(deletes)


_ALTERED = {  # the type before, a value; the type after, a value
    "DATETIME": ("'2024-01-02 03:04:05'", 1704164645000, "BIGINT", "5", 5),
    "INT": ("7", 7, "VARCHAR(20)", "'x'", "x"),
    "VARCHAR(40)": ("'plain'", "plain", "BLOB", "x'ff'", b"\xff"),
    "ENUM('a','b')": ("'b'", "b", "ENUM('z','a','b')", "'z'", "z"),
    "TINYINT": ("-1", -1, "INT", "70000", 70000),
    "DECIMAL(10,4)": ("1.2345", Decimal("1.2345"), "DECIMAL(10,2)", "1.23", Decimal("1.23")),
    "BIT(1)": ("b'1'", True, "TINYINT", "1", 1),
    "DATETIME(6)": ("'2024-01-02 03:04:05.123456'", 1704164645123456, "TIMESTAMP(3) NULL", "'2024-01-02 03:04:05.5'",
                    "2024-01-02T03:04:05.5Z"),
    "BINARY(4)": ("x'4100'", b"A\0\0\0", "CHAR(4)", "'ab'", "ab"),
    "VARCHAR(9) CHARACTER SET utf16": ("'ž'", "ž", "VARCHAR(9) CHARACTER SET latin2", "'ž'", "ž"),
}  # fmt: skip


def test_rows_from_before_an_alter_behind_a_stopped_connector_have_their_own_types(server: Server) -> None:
    server.execute("CREATE DATABASE altered", *_SESSION)
    for number, kind in enumerate(_ALTERED):
        server.execute(f"CREATE TABLE altered.t{number} (id INT PRIMARY KEY, v {kind}, gone INT, old INT)")
    offsets: dict[str, Offset] = {}
    driver = task_of(server, "altered", offsets, snapshot_mode="no_data")
    driver.poll()
    server.execute("INSERT INTO altered.t0 VALUES (0, NULL, NULL, NULL)")
    read(driver, 1)
    driver.store()
    driver.stop()
    for number, (before, _, kind, after, _) in enumerate(_ALTERED.values()):
        server.execute(
            *_SESSION, f"INSERT INTO altered.t{number} VALUES (1, {before}, 2, 3)",
            f"UPDATE altered.t{number} SET v = NULL",  # not every value can be converted
            f"ALTER TABLE altered.t{number} DROP COLUMN gone, CHANGE old renamed INT, MODIFY v {kind}",
            f"INSERT INTO altered.t{number} (id, v, renamed) VALUES (2, {after}, 4)",
        )  # fmt: skip
    driver = task_of(server, "altered", offsets)
    records = [plain(each.value) for each in read(driver, 3 * len(_ALTERED))]
    driver.stop()
    assert [each["after"] for each in records if each["op"] == "c"] == [
        row
        for _, old, _, _, new in _ALTERED.values()
        for row in ({"id": 1, "v": old, "gone": 2, "old": 3}, {"id": 2, "v": new, "renamed": 4})
    ]


def test_a_value_that_no_record_can_have_is_null_and_named_or_ends_the_task(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"u": ("BIGINT UNSIGNED NOT NULL", "18446744073709551615"), "d": ("DATE", "'2024-02-30'")}
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in values.items())
    literals = ", ".join(literal for _, literal in values.values())
    server.execute(*_SESSION, "CREATE DATABASE odd", f"CREATE TABLE odd.t (id INT PRIMARY KEY, {columns})",
                   f"INSERT INTO odd.t VALUES (1, {literals})")  # fmt: skip
    driver = task_of(server, "odd", {})
    records = read(driver, 1)
    server.execute(*_SESSION, f"INSERT INTO odd.t VALUES (2, {literals}), (3, 5, '2024-02-29')")
    records += read(driver, 2)
    driver.stop()
    assert [plain(each.value)["after"] for each in records] == [
        {"id": 1, "u": None, "d": None}, {"id": 2, "u": None, "d": None}, {"id": 3, "u": 5, "d": 19782},
    ]  # fmt: skip
    told = [each.getMessage() for each in caplog.records if "written as null" in each.getMessage()]
    assert [each.partition(" is written")[0] for each in told] == [
        f"the column odd.t.{name} of the row id={id}" for id in (1, 2) for name in values
    ]
    assert "set bigint.unsigned.handling.mode=precise" in told[0]
    driver = task_of(server, "odd", {}, **{"event.converting.failure.handling.mode": "fail"})
    with pytest.raises(ConnectError, match=r"the column odd\.t\.u cannot be read"):
        read(driver, 1)
    driver.stop()


_FORMS = {  # settings that give the log a form that is not read
    "mariadb": ("log_bin_compress=ON",),
    "mysql": ("binlog_row_value_options='PARTIAL_JSON'", "binlog_transaction_compression=ON"),
}


def test_a_log_in_a_form_that_is_not_read_is_refused_at_the_start_and_where_it_is_met(server: Server) -> None:
    server.execute("CREATE DATABASE forms", "CREATE TABLE forms.t (id INT PRIMARY KEY, j JSON, x TEXT)")
    server.execute("INSERT INTO forms.t VALUES (1, JSON_OBJECT('a', REPEAT('b', 900)), REPEAT('x', 900))")
    for number, setting in enumerate(_FORMS[server.kind]):
        name, _, value = setting.partition("=")
        offsets: dict[str, Offset] = {}
        driver = task_of(server, "forms", offsets, snapshot_mode="no_data")
        driver.poll()
        scope = "GLOBAL" if server.kind == "mariadb" else "SESSION"
        update = f"UPDATE forms.t SET j = JSON_SET(j, '$.a', {number}), x = REPEAT({number}, 900)"
        server.execute(f"SET {scope} {setting}", update)
        server.execute(f"SET GLOBAL {name} = DEFAULT")
        with pytest.raises(ConnectError, match=rf"changes that are not read.*{name}"):
            read(driver, 1)
        driver.stop()
        server.execute(f"SET GLOBAL {setting}")
        with pytest.raises(ConnectError, match=f"does not read a log with {name}={value.strip(chr(39))}: turn it off"):
            task_of(server, "forms", {}).poll()
        server.execute(f"SET GLOBAL {name} = DEFAULT")
