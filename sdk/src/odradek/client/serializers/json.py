"""JSON serializers, plain or prefixed with the id of a JSON Schema."""

from __future__ import annotations

import json
from typing import Any

from odradek.client.serializers.registry import Registry, Schema, SchemaReference
from odradek.client.serializers.subject_names import OfTopic, SubjectName, topic_name
from odradek.columnar.typed.schema_prefix import decode_prefix, encode_prefix
from odradek.errors import ErrorCode, KafkaError


class JsonSerializer(OfTopic):
    """Serializes values to JSON.

    Args:
        registry, schema: both or neither. With them each value is prefixed with the id of its JSON Schema; values are
            not checked against it.
        subject: such as `orders-value`, or a strategy (subject_names.py); the record's name is the schema's title.
        auto_register: False looks the schema up instead of registering it.
        references: schemas that this one refers to.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        schema: str | None = None,
        subject: str | SubjectName = topic_name,
        *,
        auto_register: bool = True,
        references: tuple[SchemaReference, ...] = (),
    ) -> None:
        if (registry is None) != (schema is None):
            raise KafkaError(ErrorCode.INVALID_CONFIG, "give both registry and schema, or neither")
        self._registry, self._subject, self._record = registry, subject, ""
        self._schema = None if schema is None else Schema(schema, "JSON", references)
        self._auto_register = auto_register
        if schema is not None:
            try:
                document = json.loads(schema)
            except ValueError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid JSON Schema: {error}") from error
            self._record = str(document.get("title", "")) if isinstance(document, dict) else ""

    def __call__(self, value: Any) -> bytes | None:
        return self._serialize(value, "") if self._registry is None else super().__call__(value)

    def _serialize(self, value: Any, subject: str) -> bytes | None:
        if value is None:
            return None
        try:
            data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except (TypeError, ValueError) as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the value cannot be written as JSON: {error}") from error
        if self._registry is None or self._schema is None:
            return data
        find = self._registry.register if self._auto_register else self._registry.lookup
        return encode_prefix(find(subject, self._schema)) + data


class JsonDeserializer:
    """Deserializes JSON.

    Args:
        has_schema: values are prefixed with the id of a schema.
    """

    def __init__(self, *, has_schema: bool = False) -> None:
        self._has_schema = has_schema

    def __call__(self, data: bytes | None) -> Any:
        if data is None:
            return None
        return json.loads(decode_prefix(data)[1] if self._has_schema else data)
