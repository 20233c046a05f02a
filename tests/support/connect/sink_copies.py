"""Captured records into tables: through the JSON converter and the unwrap transform into a task of the JDBC sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.connect import plugins
from odradek.connect.connectors.jdbc.sink import JdbcSinkConnector
from odradek.connect.converters.json import JsonConverter
from odradek.connect.record import SinkRecord, SourceRecord
from odradek.testing.connect import SinkDriver, SinkUnderTest


def sink_records(records: Iterable[SourceRecord]) -> list[SinkRecord]:
    """Return what a sink behind ExtractNewRecordState gets of captured records; the topic is the table's name."""
    converters = []
    for is_key in (True, False):
        converters.append(JsonConverter())
        converters[-1].configure({}, is_key=is_key)
    unwrap: Any = plugins.find("transforms", "io.debezium.transforms.ExtractNewRecordState").load()()
    unwrap.configure({})
    received = []
    for offset, record in enumerate(records):
        parts = ((record.key_schema, record.key), (record.value_schema, record.value))
        (key_schema, key), (value_schema, value) = (
            converter.to_connect(record.topic, converter.from_connect(record.topic, schema, part))
            for converter, (schema, part) in zip(converters, parts, strict=True)
        )
        unwrapped = unwrap.apply(SinkRecord(
            topic=record.topic.rpartition(".")[2], partition=0, offset=offset,
            key=key, key_schema=key_schema, value=value, value_schema=value_schema,
        ))  # fmt: skip
        if unwrapped is not None:
            received.append(unwrapped)
    return received


def write_copy(records: Iterable[SourceRecord], url: str, **configs: str) -> None:
    """Write captured records into the tables of a database, which are created where they are missing."""
    merged = {
        "connection.url": url, "insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true",
        "auto.create": "true", **{name.replace("_", "."): value for name, value in configs.items()},
    }  # fmt: skip
    received = sink_records(records)
    driver = SinkDriver(SinkUnderTest(JdbcSinkConnector, merged, lambda _: received[0], list), {})
    driver.start()
    try:
        driver.put(received)
        assert not driver.refused
    finally:
        driver.stop()
