"""Change capture beside Debezium: the same changes of one PostgreSQL server, field by field.

Debezium's connector runs in a worker of Apache Kafka Connect, which writes into an embedded service of ours; our
connector writes into the same service under another prefix. What docs/connect/postgresql.md names as different is left
out of the comparison, and nothing else.

`make peers`, which needs Maven Central for Debezium's jars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.kafka_port import service
from bench.peers.connect_workers import apache_worker, call
from bench.peers.maven import DEBEZIUM, NoJars, maven_jars
from tests.support.connect.postgres import Postgres, postgres
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
_TABLES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    """CREATE TABLE kinds (
        id bigint PRIMARY KEY, small smallint, whole int NOT NULL DEFAULT 7, big bigint, yes boolean DEFAULT true,
        single real, double double precision, exact numeric(12, 3), free numeric, cash money,
        name varchar(20) NOT NULL DEFAULT 'none', padded char(5), body text, raw bytea, number uuid,
        born date, clock time, clock3 time(3), zoned timetz, at timestamp, at3 timestamp(3), at0 timestamp(0),
        moment timestamptz, span interval, doc json, tree jsonb, words text[], numbers int[], amounts numeric(5, 2)[],
        state mood, several positive, flag bit, flags bit(10), many bit varying(20), place point,
        address inet, net cidr, mac macaddr, reach int4range, object oid,
        moments timestamptz[], identities uuid[],
        moment0 timestamptz(0), moment3 timestamptz(3), whole_moments timestamptz(0)[], scaled numeric(20, 0)
    )""",
    "CREATE TABLE plain (id int PRIMARY KEY, name text NOT NULL, note text)",
    "CREATE TABLE whole (id int PRIMARY KEY, name text NOT NULL, note text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TABLE pairs (b int, a text, c int, PRIMARY KEY (a, b))",
    "CREATE TABLE keyless (a int, b text)",
    "ALTER TABLE keyless REPLICA IDENTITY FULL",
    "CREATE TABLE secrets (id int PRIMARY KEY, card varchar(20), mail varchar(8), name text, note text, doc jsonb)",
    "ALTER TABLE secrets REPLICA IDENTITY FULL",
    "CREATE TABLE done (id int PRIMARY KEY)",
)
_MASKS = {
    "column.mask.with.3.chars": "public.secrets.card",
    "column.mask.hash.SHA-256.with.salt.salt": "public.secrets.mail,public.secrets.name",
    "column.truncate.to.6.chars": "public.secrets.note",
}
_KINDS = """INSERT INTO kinds VALUES (
    {id}, -3, 12, 9007199254740993, false, 1.5, 0.1, -12.345, 1234567890.00012, 12.34, 'Ann', 'ab', 'text', '\\x00ff10',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-02-29', '23:59:59.123456', '01:02:03.456', '04:05:06.789+02',
    '2024-02-29 12:34:56.123456', '1969-12-31 23:59:59.999', '2024-02-29 12:34:56', '2024-02-29 12:34:56.5+02',
    '1 year 2 months 3 days 04:05:06.78', '{{"a": [1, 2.50]}}', '{{"b": 1.0, "a": null}}', '{{a,NULL,"b,c"}}',
    '{{1,NULL,3}}', '{{1.25,2.50}}', 'happy', 5, B'1', B'1010101010', B'101', '(1.5,-2)', '192.168.0.1/24',
    '10.0.0.0/8', '08:00:2b:01:02:03', '[1,5)', 42, '{{2024-02-29 12:34:56+00}}',
    '{{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}}', '2024-02-29 12:34:56.5+00', '2024-02-29 12:34:56.25+00',
    '{{2024-02-29 12:34:56+00}}', 12345678901234567890)"""
_LARGE = "repeat(md5('x') || 'y', 400) || (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)"
_BEFORE = (
    _KINDS.format(id=1),
    "INSERT INTO kinds (id) VALUES (2)",
    "INSERT INTO plain VALUES (1, 'one', NULL), (2, 'two', 'x')",
    "INSERT INTO keyless VALUES (1, 'a')",
    "INSERT INTO secrets VALUES (1, '4111', 'a@b.c', 'Ann', 'a long note', '{}')",
)
_CHANGES = (
    _KINDS.format(id=3),
    "INSERT INTO kinds (id) VALUES (4)",
    "INSERT INTO kinds (id, at, moment, born) VALUES (5, 'infinity', 'infinity', '9999-12-31')",
    "INSERT INTO kinds (id, free, exact) VALUES (6, 100000000000000000000, 0)",
    "INSERT INTO kinds (id, span) VALUES (7, '-1 month -2 days -00:00:00.5')",
    "UPDATE kinds SET whole = 13, body = NULL WHERE id = 3",
    "DELETE FROM kinds WHERE id = 4",
    "INSERT INTO plain VALUES (3, 'three', NULL)",
    f"UPDATE plain SET note = {_LARGE} WHERE id = 3",
    "UPDATE plain SET name = 'THREE' WHERE id = 3",  # the large value is not sent
    "UPDATE plain SET id = 33 WHERE id = 3",
    "DELETE FROM plain WHERE id = 33",
    f"INSERT INTO whole VALUES (1, 'one', {_LARGE})",
    "UPDATE whole SET name = 'ONE'",
    "DELETE FROM whole",
    "SELECT pg_logical_emit_message(true, 'outbox', 'a text')",
    "SELECT pg_logical_emit_message(false, 'outbox', 'another')",
    "INSERT INTO secrets VALUES (2, NULL, NULL, NULL, NULL, NULL)",
    "UPDATE secrets SET note = 'short' WHERE id = 1",
    "INSERT INTO pairs VALUES (1, 'x', 2)",
    "UPDATE pairs SET c = 3",
    "DELETE FROM pairs",
    "UPDATE keyless SET b = 'c'",
    "DELETE FROM keyless",
    "ALTER TABLE plain ADD COLUMN more int DEFAULT 5",
    "INSERT INTO plain VALUES (4, 'four', NULL, 6)",
    "ALTER TABLE plain ALTER COLUMN note TYPE varchar(10)",
    "INSERT INTO plain VALUES (5, 'five', 'n', NULL)",
    "ALTER TABLE plain DROP COLUMN note",
    "INSERT INTO plain VALUES (6, 'six', 7)",
    "TRUNCATE plain",
    "INSERT INTO done VALUES (1)",
)
_KEYS = {"kinds": ("id",), "plain": ("id",), "pairs": ("a", "b")}  # of tables whose changes have the old key alone
_MESSAGES = 2  # of pg_logical_emit_message
_TOPICS = {
    "kinds": 10,
    "plain": 14,
    "whole": 4,
    "pairs": 4,
    "keyless": 3,
    "secrets": 3,
}  # their records, tombstones included


def configs(server: Postgres, database: str, prefix: str, **more: str) -> dict[str, str]:
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        **server.configs(database),
        "database.password": "any",
        "topic.prefix": prefix,
        "slot.name": prefix,
        "publication.name": prefix,
        "plugin.name": "pgoutput",
        "key.converter": converter,
        "value.converter": converter,
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
        "value.converter.replace.null.with.default": "false",
        "skipped.operations": "none",
        **_MASKS,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        **more,
    }


def captured(running: RunningCluster, prefix: str) -> dict[str, list[Any]]:
    """Return key, value and headers of the records of all tables as parsed JSON, without what is named as different."""

    def parsed(part: bytes | None) -> Any:
        return None if part is None else comparable(json.loads(part.decode().replace(prefix, "P")))

    records_by_topic: dict[str, list[Any]] = {}
    topics = {name: (f"{prefix}.public.{name}", count) for name, count in _TOPICS.items()}
    for name, (topic, count) in {**topics, "message": (f"{prefix}.message", _MESSAGES)}.items():
        records = running.read(topic, count, more=True)
        with_key_or_value = [record for record in records if record.key is not None or record.value is not None]
        records_by_topic[name] = [
            [parsed(record.key), parsed(record.value), headers(record)] for record in with_key_or_value
        ]
    return records_by_topic


def headers(record: Any) -> dict[str, bytes | None]:
    return {name: data for name, data in record.headers if not name.startswith("__debezium.context.")}


def comparable(document: Any) -> Any:
    """Return a message without what differs by its nature, and without what docs/connect/postgresql.md names."""
    payload = document["payload"]
    if "source" not in payload:
        return document
    is_snapshot = payload["op"] == "r"
    for name in ("ts_ms", "ts_us", "ts_ns"):
        payload.pop(name, None)
        if is_snapshot or (payload["op"] == "m" and payload["source"]["txId"] is None):
            del payload["source"][name]
    del payload["source"]["version"]
    payload["source"]["snapshot"] = payload["source"]["snapshot"] or "false"  # the default of its schema
    for name in ("txId", "lsn", "sequence") if is_snapshot else ():
        del payload["source"][name]
    rows = [row_field for row_field in document["schema"]["fields"] if row_field["field"] in ("before", "after")]
    for column in [column_field for row in rows for column_field in row["fields"]]:
        column.pop("default", None)
        del column["optional"]
    key = _KEYS.get(payload["source"]["table"], ())
    before = payload.get("before")
    if key and before is not None:  # only the key was sent
        payload["before"] = {name: before[name] for name in key}
    return document


def test_the_same_changes_give_the_same_records(tmp_path: Path) -> None:
    try:
        maven_jars(DEBEZIUM)
    except NoJars as reason:
        pytest.skip(str(reason))
    with postgres() as server, service() as (pid, servers, client):
        database = server.database("shop")
        server.execute(database, *_TABLES, *_BEFORE)
        with (
            RunningCluster(SimpleNamespace(client_config=client)) as running,
            apache_worker(tmp_path, (pid, servers), exactly_once=False, peer=DEBEZIUM) as worker,
        ):
            until(lambda: call(f"{worker.url}/connectors/theirs/config", "PUT",
                               configs(server, database, "theirs")), 60, "a new connector")  # fmt: skip
            running.create("ours", configs(server, database, "ours", **{"connector.class": _CLASS}))
            for prefix in ("theirs", "ours"):
                assert len(running.read(f"{prefix}.public.keyless", 1)) == 1
                assert len(running.read(f"{prefix}.public.plain", 2)) == 2
            until(lambda: len(server.execute(database, "SELECT 1 FROM pg_replication_slots WHERE active")) == 2, 60, "")
            server.execute(database, *_CHANGES)
            for prefix in ("theirs", "ours"):
                running.read(f"{prefix}.public.done", 1)
            theirs, ours = captured(running, "theirs"), captured(running, "ours")
    assert {name: len(records) for name, records in ours.items()} == {**_TOPICS, "message": _MESSAGES}
    for name in ours:
        for number, (one, other) in enumerate(zip(ours[name], theirs[name], strict=True)):
            differing = list(differences(one, other))
            assert not differing, f"{name}, record {number}: {differing}"


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield where two documents differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**ours, **theirs}:
            yield from differences(ours.get(name, "missing"), theirs.get(name, "missing"), f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            name = pair[0].get("field", number) if isinstance(pair[0], dict) else number
            yield from differences(*pair, f"{path}[{name}]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{path}: {ours!r}, Debezium {theirs!r}"
