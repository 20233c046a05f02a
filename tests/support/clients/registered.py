"""Topics whose values are written with schemas of a live log's registry: two versions, the second of wider fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from odradek.client.serializers import AvroSerializer, MemoryRegistry, Schema
from odradek.registry.schemas import Schema as RegistrySchema
from odradek.registry.subjects import Subjects
from odradek.registry.value_schemas import RegistryValueSchemas
from odradek.system import SystemClock, SystemRng

from tests.support.clients.protobuf import framed, messages_of
from tests.support.spark.session import LiveLog

TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "10000",
    "odradek.table.iceberg.enable": "true",
    "retention.ms": "-1",
}
SMALL = {
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "table_group_bytes": 4_000,
    "head_bytes_max": 400,
    "paged_appends": 4,
}
EACH = 400  # records of a version
COLUMNS = ("n", "name", "place", "tags", "note")
Serialize = Callable[[dict[str, Any]], bytes]


def avro(version: int) -> str:
    """`place.x` and `n` become long, `place` gets `z`, and the record `note`."""
    number_type = "int" if version == 1 else "long"
    place_fields = [{"name": "x", "type": number_type}, {"name": "y", "type": "double"}]
    if version == 2:
        place_fields.append({"name": "z", "type": ["null", "string"], "default": None})
    fields: list[dict[str, Any]] = [
        {"name": "n", "type": number_type},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": place_fields}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]
    if version == 2:
        fields.append({"name": "note", "type": ["null", "string"], "default": None})
    return json.dumps({"type": "record", "name": "Visit", "namespace": "a.b", "fields": fields})


def protobuf(version: int) -> str:
    """The same as `avro`."""
    number_type = "int32" if version == 1 else "int64"
    more = ("optional string z = 3;", "optional string note = 5;") if version == 2 else ("", "")
    return f"""syntax = "proto3";
package a;
message Visit {{ {number_type} n = 1; optional string name = 2; Place place = 3; repeated string tags = 4; {more[1]} }}
message Place {{ {number_type} x = 1; double y = 2; {more[0]} }}
"""


def data(i: int, version: int) -> dict[str, Any]:
    """The fields of a record."""
    wide = 2**40 if version == 2 else 1
    place_values: dict[str, Any] = {"x": i * wide + 1, "y": i / 4 + 0.5}
    fields: dict[str, Any] = {"n": i * wide + 1, "name": None if i % 7 == 0 else f"v{i}", "place": place_values}
    fields["tags"] = [f"t{k}" for k in range(i % 3)]
    if version == 2:
        place_values["z"] = None if i % 2 else f"z{i}"
        fields["note"] = f"note {i}"
    return fields


def as_read(fields: dict[str, Any]) -> tuple[Any, ...]:
    """The row of a record by the newest version: what it lacks is null."""
    place_values = {"x": fields["place"]["x"], "y": fields["place"]["y"], "z": fields["place"].get("z")}
    return fields["n"], fields["name"], place_values, fields["tags"], fields.get("note")


class _StoreRegistry(MemoryRegistry):
    """A serializer's registry that is the store's."""

    def __init__(self, log: LiveLog, subjects: Subjects) -> None:
        super().__init__()
        self._log, self._store = log, subjects

    def register(self, subject: str, schema: Schema) -> int:
        registered = self._log._run(self._store.register(subject, RegistrySchema(schema.kind, schema.text)))
        assert super().register(subject, schema) == registered.stored.schema_id
        return registered.stored.schema_id


def fill(log: LiveLog, topic: str, schema_type: str, **configs: str) -> tuple[list[bytes], list[tuple[Any, ...]]]:
    """Write records of both versions to a topic, merging each; some more stay in the tail.

    Returns the values that were sent, and the rows of their columns.
    """
    subjects = Subjects(log.engine.catalog, SystemClock(), SystemRng())
    registry = _StoreRegistry(log, subjects)
    log.engine.know_schemas(RegistryValueSchemas(subjects))
    log.create(topic, 1, **TABLE, **configs)
    values: list[bytes] = []
    rows: list[tuple[Any, ...]] = []
    for version, count in ((1, EACH), (2, EACH), (2, 5)):
        serialize = _avro(registry, topic, version) if schema_type == "avro" else _protobuf(registry, topic, version)
        for first in range(0, count, 20):
            some = [data(i, version) for i in range(first, min(first + 20, count))]
            made = [serialize(fields) for fields in some]
            log.produce(topic, 0, [(b"k", value) for value in made])
            values += made
            rows += map(as_read, some)
        if count == EACH:
            report = log._run(log.engine.maintenance.run())
            assert report.failures == []
            assert report.done["table_segments_written"] >= 1
            assert report.done["table_values_misfit"] == 0
    return values, rows


def _avro(registry: MemoryRegistry, topic: str, version: int) -> Serialize:
    return AvroSerializer(registry, avro(version), f"{topic}-value")  # type: ignore[return-value]


def _protobuf(registry: MemoryRegistry, topic: str, version: int) -> Serialize:
    text = protobuf(version)
    message = messages_of(text)("a.Visit")
    schema_id = registry.register(f"{topic}-value", Schema(text, "PROTOBUF"))
    return lambda fields: framed(schema_id, [0], message(**fields))
