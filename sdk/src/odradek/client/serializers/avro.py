"""Avro over a registry, by fastavro."""

from __future__ import annotations

import io
import json
from importlib import import_module
from typing import Any

from odradek.client.serializers.registry import Registry, Schema
from odradek.client.serializers.wire import decode_prefix, encode_prefix
from odradek.errors import ErrorCode, KafkaError


def _fastavro() -> Any:
    try:
        return import_module("fastavro")
    except ImportError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "Avro needs fastavro: pip install 'odradek[avro]'") from error


class AvroSerializer:
    """Values, as fastavro takes them, to Avro with the id of their schema before it.

    Args:
        schema: in JSON.
        subject: such as `orders-value`.
        auto_register: False looks the schema up in place of registering it.

    Raises KafkaError: INVALID_CONFIG for a schema that is none, or without fastavro; INVALID_RECORD, when called, for a
    value that does not fit.
    """

    def __init__(self, registry: Registry, schema: str, subject: str, *, auto_register: bool = True) -> None:
        self._fastavro = _fastavro()
        try:
            self._parsed = self._fastavro.parse_schema(json.loads(schema))
        except Exception as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"no Avro schema: {error}") from error
        self._registry, self._schema, self._subject = registry, Schema(schema, "AVRO"), subject
        self._auto_register = auto_register

    def __call__(self, value: Any) -> bytes | None:
        if value is None:
            return None
        find = self._registry.register if self._auto_register else self._registry.lookup
        out = io.BytesIO()
        out.write(encode_prefix(find(self._subject, self._schema)))
        try:
            self._fastavro.schemaless_writer(out, self._parsed, value)
        except Exception as error:  # fastavro raises whatever the value's type raises
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the value does not fit its Avro schema: {error}") from error
        return out.getvalue()


class AvroDeserializer:
    """Avro to values, by the schema that each was written with.

    Args:
        schema: in JSON; what the values are resolved to (Avro's schema resolution). None: as they were written.
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
            found = self._registry.schema(schema_id)
            if found.kind != "AVRO":
                raise KafkaError(ErrorCode.INVALID_RECORD, f"schema {schema_id} is {found.kind}, not AVRO")
            writer = self._writers[schema_id] = self._fastavro.parse_schema(json.loads(found.text))
        return self._fastavro.schemaless_reader(io.BytesIO(payload), writer, self._reader)
