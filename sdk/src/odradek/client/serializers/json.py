"""JSON, as it is or with a JSON Schema's id before it."""

from __future__ import annotations

import json
from typing import Any

from odradek.client.serializers.registry import Registry, Schema
from odradek.client.serializers.wire import decode_prefix, encode_prefix
from odradek.errors import ErrorCode, KafkaError


class JsonSerializer:
    """Values to JSON.

    Args:
        registry, schema, subject: all or none: with them each value is preceded by the id of its JSON Schema. Values
            are not checked against it.
        auto_register: False looks the schema up in place of registering it.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        schema: str | None = None,
        subject: str | None = None,
        *,
        auto_register: bool = True,
    ) -> None:
        given = [part for part in (registry, schema, subject) if part is not None]
        if given and len(given) != 3:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "give registry, schema and subject, or none of them")
        self._registry, self._schema, self._subject = registry, schema, subject
        self._auto_register = auto_register

    def __call__(self, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except (TypeError, ValueError) as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the value cannot be written as JSON: {error}") from error
        if self._registry is None:
            return data
        assert self._schema is not None
        assert self._subject is not None
        find = self._registry.register if self._auto_register else self._registry.lookup
        return encode_prefix(find(self._subject, Schema(self._schema, "JSON"))) + data


class JsonDeserializer:
    """JSON to values.

    Args:
        has_schema: values are preceded by the id of a schema.
    """

    def __init__(self, *, has_schema: bool = False) -> None:
        self._has_schema = has_schema

    def __call__(self, data: bytes | None) -> Any:
        if data is None:
            return None
        return json.loads(decode_prefix(data)[1] if self._has_schema else data)
