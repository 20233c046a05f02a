"""The matrix of values beside Debezium: PostgreSQL and MariaDB, by snapshot, log and update, value by value.

Debezium's connectors run in a worker of Apache Kafka Connect, which writes into an embedded service of ours; ours write
into the same service under another prefix. Differences that are accepted are listed with their reasons, and counted.

Needs Maven Central for Debezium's jars, and for MariaDB its server.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.kafka_port import service
from bench.peers.connect_workers import apache_worker, call
from bench.peers.maven import DEBEZIUM, NoJars, maven_jars
from tests.support.connect import mysql_values, postgres_values
from tests.support.connect.mysql import missing, mysql_server
from tests.support.connect.mysql_values import Cases
from tests.support.connect.postgres import postgres
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]

_LOGGED = 1_000
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_COMMON = {
    "key.converter": _CONVERTER, "value.converter": _CONVERTER, "value.converter.replace.null.with.default": "false",
    "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
}  # fmt: skip
_ACCEPTED = {
    "numeric(5,-2)": "Debezium takes the scale -2 for 2046",
    "numeric": "Debezium drops zeros at the end of a number, which PostgreSQL keeps",
    "name": "Debezium writes null for changes",
    "hstore": "Debezium orders pairs by their hash, ours are in the server's order",
    "interval[]": "Debezium leaves lists of intervals out",
    "int[]": "a list of two dimensions is a list of nulls in Debezium, ours is null and named in the log",
    "date": "infinity overflows in Debezium; its snapshot is Julian before 1582",
    "FLOAT": "Debezium's snapshot has the six digits of a query",
    "FLOAT(10,2)": "Debezium takes it for a double",
    "DATE": "Debezium takes the year 1 for 2001",
    "TIMESTAMP NOT NULL DEFAULT '2000-01-01'": "Debezium writes the column's default for a zero date",
    "ENUM('it''s','b,c','back\\\\slash','ž') CHARACTER SET utf8mb4": "labels with backslashes are escaped otherwise",
    "timestamp": "Debezium's snapshot is Julian before 1582",
    "timestamptz": "Debezium's snapshot is Julian before 1582",
}
"""Types whose values or schemas may differ, and why."""
_NOT_PARSED = ("INET4", "INET6", "YEAR")
"""Types of MariaDB whose tables end Debezium 3.3: addresses are not parsed, the year 0 is not read."""
_NO_CHARSETS = ("keybcs2", "dec8", "hp8", "swe7", "armscii8", "geostd8", "macce", "tis620", "utf16le", "eucjpms")
"""Charsets that Java or Debezium's parser does not have."""
_SESSION = "SET NAMES utf8mb4", "SET time_zone = '+00:00'", "SET sql_mode = 'ALLOW_INVALID_DATES'"


def jars() -> None:
    try:
        maven_jars(DEBEZIUM)
    except NoJars as reason:
        pytest.skip(str(reason))


def compared(
    tmp_path: Path, cases: Cases, topic: str, configs: Callable[[str], dict[str, str]],
    run: Callable[[int], None], *, has_log: bool = True,
) -> None:  # fmt: skip
    """Run both connectors over the same changes. Fails with the cells that differ without an accepted reason.

    Args:
        topic: without the prefix.
        configs: the configuration of a connector, by its prefix.
        run: makes the rows of the log from an id on; of id 0 the rows of the snapshot; of -1 updates all.
        has_log: Debezium can read the log.
    """
    listed = list(cases)
    ways = 4 if has_log else 1
    count = max(len(values) + ("NOT NULL" not in column_type) for column_type, values in cases.items())
    run(0)
    with (
        service() as (pid, servers, client),
        RunningCluster(SimpleNamespace(client_config=client)) as running,
        apache_worker(tmp_path, (pid, servers), exactly_once=False, peer=DEBEZIUM) as worker,
    ):
        until(lambda: call(f"{worker.url}/connectors/theirs/config", "PUT", configs("theirs")), 90, "theirs")
        running.create("ours", configs("ours"))
        for prefix in ("theirs", "ours"):
            assert len(running.read(f"{prefix}.{topic}", count, timeout_s=60)) == count, prefix
        if has_log:
            run(_LOGGED)
            run(-1)
        records = {
            prefix: running.read(f"{prefix}.{topic}", ways * count, timeout_s=60) for prefix in ("theirs", "ours")
        }
    documents = {
        prefix: [json.loads(record.value) for record in values_read] for prefix, values_read in records.items()
    }
    assert {prefix: len(documents_read) for prefix, documents_read in documents.items()} == {
        "theirs": ways * count,
        "ours": ways * count,
    }
    different: dict[str, set[str]] = {}
    cells: Counter[str] = Counter()
    for theirs, ours in zip(*(ordered(documents[prefix]) for prefix in ("theirs", "ours")), strict=True):
        types = [fields(document) for document in (theirs, ours)]
        for number, column_type in enumerate(listed):
            name = f"c{number}"
            pairs = [("type", *(types_of.get(name) for types_of in types))]
            pairs += [
                (side, *(document["payload"][side].get(name, "missing") for document in (theirs, ours)))
                for side in ("before", "after") if theirs["payload"][side] and ours["payload"][side]
            ]  # fmt: skip
            for side, one, other in pairs:
                cells["cells"] += 1
                if one != other:
                    cells["accepted" if column_type in _ACCEPTED else "different"] += 1
                    different.setdefault(column_type, set()).add(
                        f"{theirs['payload']['op']} {side}: ours {str(other)[:120]}, Debezium {str(one)[:120]}"
                    )
    print(f"\n{topic}: {cells['cells']} cells, {cells['accepted']} accepted differences:")
    for column_type in different.keys() & _ACCEPTED.keys():
        print(f"  {column_type}: {_ACCEPTED[column_type]}")
    wrong = {
        column_type: sorted(mismatches) for column_type, mismatches in different.items() if column_type not in _ACCEPTED
    }
    assert not wrong, "\n".join(
        f"{column_type}: {mismatch}" for column_type, mismatches in wrong.items() for mismatch in mismatches
    )


def ordered(documents: list[Any]) -> list[Any]:
    return sorted(documents, key=lambda document: (document["payload"]["op"], document["payload"]["after"]["id"]))


def fields(document: Any) -> dict[str, Any]:
    """Return type, name and parameters of the columns."""
    [row] = [field for field in document["schema"]["fields"] if field["field"] == "after"]
    kept = ("type", "name", "parameters", "items")
    return {column["field"]: {name: column[name] for name in kept if name in column} for column in row["fields"]}


def statements(rows: list[list[tuple[str, Any]]], first: int) -> list[str]:
    listed = (", ".join(literal for literal, _ in row) for row in rows)
    return [f"({id}, 0, {row})" for id, row in enumerate(listed, first)]


def test_values_of_postgresql_are_those_of_debezium(tmp_path: Path) -> None:
    jars()
    cases = postgres_values.CASES
    rows = postgres_values.sets(len(cases))
    columns = ", ".join(f"c{number} {column_type}" for number, column_type in enumerate(cases))
    with postgres() as server:
        database = server.database("kinds")
        server.execute(
            database, "CREATE EXTENSION hstore", "CREATE EXTENSION ltree", "CREATE EXTENSION citext",
            "CREATE TYPE mood AS ENUM ('it''s', 'a,b')", "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            f"CREATE TABLE t (id int PRIMARY KEY, n int, {columns})", "ALTER TABLE t REPLICA IDENTITY FULL",
        )  # fmt: skip

        def run(first: int) -> None:
            made = [f"INSERT INTO t VALUES {row}" for row in statements(rows, first)]
            server.execute(database, *(["UPDATE t SET n = 1"] if first < 0 else made))

        def configs(prefix: str) -> dict[str, str]:
            return {
                **server.configs(database), **_COMMON, "topic.prefix": prefix, "slot.name": prefix,
                "publication.name": prefix, "plugin.name": "pgoutput", "database.password": "any",
            }  # fmt: skip

        compared(tmp_path, cases, "public.t", configs, run)


def test_values_of_mariadb_are_those_of_debezium(tmp_path: Path) -> None:
    jars()
    if missing("mariadb"):
        pytest.skip(str(missing("mariadb")))
    cases = mysql_values.cases("mariadb")
    for column_type in [
        column_type
        for column_type in cases
        if column_type in _NOT_PARSED or any(name in column_type for name in (*_NO_CHARSETS, "COMPRESSED"))
    ]:
        del cases[column_type]
    rows = mysql_values.rows(cases)
    columns = ", ".join(f"c{number} {column_type}" for number, column_type in enumerate(cases))
    history = ".".join(("schema", "history", "internal"))
    with mysql_server("mariadb") as server:
        server.execute(*_SESSION, "CREATE DATABASE k", f"CREATE TABLE k.t (id INT PRIMARY KEY, n INT, {columns})")

        def run(first: int) -> None:
            made = [f"INSERT INTO k.t VALUES {row}" for row in statements(rows, first)]
            server.execute(*_SESSION, *(["UPDATE k.t SET n = 1"] if first < 0 else made))

        def configs(prefix: str) -> dict[str, str]:
            theirs = {
                history: "io.debezium.storage.file.history.FileSchemaHistory", f"{history}.file.filename":
                str(tmp_path / "history"), "database.ssl.mode": "disable", "include.schema.changes": "false",
            }  # fmt: skip
            return {
                **server.configs("k"), **_COMMON, "topic.prefix": prefix, "database.password": "",
                "database.server.id": "7002",
                **({"database.server.id": "7001", **theirs} if prefix == "theirs" else {}),
            }  # fmt: skip

        # Debezium's reader of MariaDB's log ends at the description of this table.
        compared(tmp_path, cases, "k.t", configs, run, has_log=False)
