"""Two connectors that copy the tables of one PostgreSQL database into another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.connect.postgres import Postgres
from tests.support.connect.running import RunningCluster

TABLE = """
    CREATE TABLE items (
        id int PRIMARY KEY, name text NOT NULL, price numeric(10,2), at timestamp DEFAULT '2024-01-02 03:04:05.678901',
        changed timestamptz, day date DEFAULT '2024-02-29', doc jsonb, tags text[], mark uuid DEFAULT gen_random_uuid(),
        raw bytea DEFAULT '\\x00ff', ratio float8, big text
    )
"""
CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}


Place = tuple[Postgres, str]
"""A server and a database of it."""


def copying(running: RunningCluster, source: Place, target: Place, *tables: str, **capture: str) -> None:
    """Create the connectors `capture`, with further configurations, and `copy`."""
    names = tables or ("items",)
    running.cluster.create(
        "capture",
        {
            **source[0].configs(source[1]), **CONVERTERS, **capture,
            "table.include.list": ",".join(rf"public\.{name}" for name in names),
        },
    )  # fmt: skip
    running.cluster.create(
        "copy", sink_configs([f"{source[1]}.public.{name}" for name in names], target[0].url(target[1]))
    )


def sink_configs(topics: Sequence[str], url: str) -> dict[str, str]:
    """Return a JDBC sink that keeps tables equal to captured ones, exactly once."""
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        **CONVERTERS,
        "topics": ",".join(topics),
        "connection.url": url,
        "table.name.format": "${topic}",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
        "exactly.once": "true",
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "500",
        "transforms": "unwrap,table",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.table.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.table.regex": r".*\.(\w+)",
        "transforms.table.replacement": "$1",
    }


def rows_of(server: Postgres, database: str, table: str = "items") -> dict[Any, Any]:
    """Return all rows by key, as JSON, without the fields that are null."""
    if server.execute(database, f"SELECT to_regclass('{table}')")[0][0] is None:
        return {}
    found = server.execute(database, f"SELECT id, jsonb_strip_nulls(to_jsonb({table})) FROM {table}")
    return dict(found)


def copied(server: Postgres, source: str, target: str, table: str = "items") -> bool:
    """Return whether both databases have the same rows."""
    return rows_of(server, source, table) == rows_of(server, target, table)
