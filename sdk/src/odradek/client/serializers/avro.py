"""Avro serializers over a schema registry, with fastavro."""

from __future__ import annotations

import io
import json
from importlib import import_module
from typing import Any

from odradek.client.serializers.registry import Registry, Schema, SchemaReference
from odradek.client.serializers.subject_names import OfTopic, SubjectName, topic_name
from odradek.columnar.typed.schema_prefix import decode_prefix, encode_prefix
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra


def _fastavro() -> Any:
    with extra("avro"):
        return import_module("fastavro")


def _parse(fastavro: Any, registry: Registry, schema: Schema, names: dict[str, Any]) -> Any:
    """Parse a schema after the schemas that it refers to. Raises fastavro's errors or KafkaError."""
    for reference in schema.references:
        _, referenced = registry.at(reference.subject, reference.version)
        _parse(fastavro, registry, referenced, names)
    return fastavro.parse_schema(json.loads(schema.text), named_schemas=names)


class AvroSerializer(OfTopic):
    """Serializes values, as fastavro accepts them, to Avro, prefixed with the id of their schema.

    Args:
        schema: in JSON; None with `use_latest_version`.
        subject: such as `orders-value`, or a strategy (subject_names.py).
        auto_register: False looks the schema up instead of registering it.
        use_latest_version: write with the subject's latest schema, whichever it is.
        references: schemas that this one refers to by name.

    Raises KafkaError: INVALID_CONFIG for an invalid schema, or without fastavro; INVALID_RECORD, when called, for a
    value that does not fit.
    """

    def __init__(
        self,
        registry: Registry,
        schema: str | None,
        subject: str | SubjectName = topic_name,
        *,
        auto_register: bool = True,
        use_latest_version: bool = False,
        references: tuple[SchemaReference, ...] = (),
    ) -> None:
        self._fastavro = _fastavro()
        self._registry, self._subject = registry, subject
        self._find = registry.register if auto_register else registry.lookup
        self._schema: Schema | None = None
        self._latest: dict[str, tuple[int, Any]] = {}
        self._record = ""
        if (schema is None) != use_latest_version:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "give either a schema or use_latest_version=True")
        if schema is not None:
            self._schema = Schema(schema, "AVRO", references)
            self._parsed = self._parse(self._schema)
            self._record = self._parsed.get("name", "") if isinstance(self._parsed, dict) else ""

    def _parse(self, schema: Schema) -> Any:
        try:
            return _parse(self._fastavro, self._registry, schema, {})
        except KafkaError:
            raise
        except Exception as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid Avro schema: {error}") from error

    def _serialize(self, value: Any, subject: str) -> bytes | None:
        if value is None:
            return None
        if self._schema is not None:
            schema_id, parsed = self._find(subject, self._schema), self._parsed
        elif subject in self._latest:
            schema_id, parsed = self._latest[subject]
        else:
            schema_id, schema = self._registry.at(subject, None)
            if schema.kind != "AVRO":
                raise KafkaError(ErrorCode.INVALID_RECORD, f"the schema of {subject!r} is {schema.kind}, not AVRO")
            parsed = self._parse(schema)
            self._latest[subject] = schema_id, parsed
        out = io.BytesIO()
        out.write(encode_prefix(schema_id))
        try:
            self._fastavro.schemaless_writer(out, parsed, value)
        except Exception as error:  # fastavro raises whatever the value's type raises
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the value does not fit its Avro schema: {error}") from error
        return out.getvalue()


class AvroDeserializer:
    """Deserializes Avro by the schema with which each value was written.

    Args:
        schema: in JSON; the schema to which values are resolved (Avro's schema resolution). None: as written.

    Raises KafkaError(INVALID_RECORD), when called, for bytes that do not match their schema.
    """

    def __init__(self, registry: Registry, schema: str | None = None) -> None:
        self._fastavro = _fastavro()
        self._registry = registry
        self._reader = None if schema is None else self._fastavro.parse_schema(json.loads(schema))
        self._writers: dict[int, Any] = {}

    def __call__(self, data: bytes | None) -> Any:
        if data is None:
            return None
        schema_id, payload = decode_prefix(data)
        writer = self._writers.get(schema_id)
        if writer is None:
            schema = self._registry.schema(schema_id)
            if schema.kind != "AVRO":
                raise KafkaError(ErrorCode.INVALID_RECORD, f"schema {schema_id} is {schema.kind}, not AVRO")
            writer = self._writers[schema_id] = _parse(self._fastavro, self._registry, schema, {})
        try:
            return self._fastavro.schemaless_reader(io.BytesIO(payload), writer, self._reader)
        except Exception as error:  # fastavro raises EOFError, IndexError and others for bytes that end too early
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"the bytes do not match schema {schema_id}: {type(error).__name__} {error}"
            ) from error
