"""AvroConverter: Avro with the schemas of a registry, in Confluent's wire format."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from odradek.client.serializers import registry as registries
from odradek.columnar.typed.schema_prefix import decode_prefix
from odradek.connect.converters.avro_data import avro_schema, connect_schema, datum, value_of
from odradek.connect.converters.registered import RegisteredConverter, as_data_error
from odradek.connect.data.schema import Schema
from odradek.connect.data.values import NULL, SchemaAndValue, infer_schema
from odradek.connect.errors import DataError
from odradek.errors import FormatError
from odradek.extras import extra


class AvroConverter(RegisteredConverter):
    """Avro with the schemas of a registry."""

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(configs, is_key=is_key)
        with extra("avro"):
            self._avro = import_module("fastavro")
        self._written: dict[Schema, tuple[registries.Schema, Any, str]] = {}
        self._read: dict[int, tuple[Any, Schema]] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        schema = schema or infer_schema(value)
        if schema is None:
            raise DataError("Avro needs a schema, and none follows from the value: use a JSON converter")
        if schema not in self._written:
            document = avro_schema(schema)
            name = document.get("name", "") if isinstance(document, dict) else ""
            self._written[schema] = (
                registries.Schema(json.dumps(document)),
                self._avro.parse_schema(document, named_schemas={}),
                name,
            )
        registered, parsed, name = self._written[schema]
        schema_id = self.written_id(topic, registered, name)
        out = io.BytesIO()
        try:
            self._avro.schemaless_writer(out, parsed, datum(schema, value))
        except DataError:
            raise
        except Exception as error:  # fastavro raises whatever the value's type raises
            raise DataError(f"the value does not fit its Avro schema: {error}") from error
        return self.prefixed(schema_id, out.getvalue())

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            schema_id, payload = decode_prefix(data)
        except FormatError as error:
            raise as_data_error(error) from error
        if schema_id not in self._read:
            self._read[schema_id] = self._parsed(schema_id)
        parsed, schema = self._read[schema_id]
        try:
            datum_read = self._avro.schemaless_reader(io.BytesIO(payload), parsed, None, return_named_type=True)
        except Exception as error:  # as it does for bytes that end too early
            raise DataError(f"the bytes do not match schema {schema_id}: {type(error).__name__} {error}") from error
        return SchemaAndValue(schema, value_of(schema, datum_read))

    def _parsed(self, schema_id: int) -> tuple[Any, Schema]:
        registered = self.asked(lambda: self.registry.schema(schema_id))
        if registered.kind != "AVRO":
            raise DataError(f"schema {schema_id} is {registered.kind}, not AVRO")
        named: dict[str, Any] = {}
        parsed = self._parse(registered, named)
        return parsed, connect_schema(parsed, named)

    def _referred(self, reference: registries.SchemaReference) -> registries.Schema:
        referenced: registries.Schema = self.asked(lambda: self.registry.at(reference.subject, reference.version)[1])
        return referenced

    def _parse(self, registered: registries.Schema, named: dict[str, Any]) -> Any:
        for reference in registered.references:
            self._parse(self._referred(reference), named)
        try:
            return self._avro.parse_schema(json.loads(registered.text), named_schemas=named)
        except Exception as error:  # fastavro's errors and json's
            raise DataError(f"invalid Avro schema: {error}") from error
