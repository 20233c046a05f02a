"""The schemas of the registry as a query needs them, read from the store: no function and no service is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pyarrow as pa

from odradek.client.serializers.registry import Schema, SchemaReference
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.query.values import kinds_of_avro, kinds_of_json_schema
from odradek.registry.errors import RegistryError
from odradek.registry.rows import StoredSchema
from odradek.registry.schemas import serialized
from odradek.registry.subjects import Subjects

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class StoredRegistry:
    """A `Registry` of a store that is only read.

    Args:
        run: runs work on the store's loop, and returns its result.
    """

    def __init__(self, subjects: Subjects, run: Callable[[Work[Any]], Any]) -> None:
        self._subjects = subjects
        self._run = run

    def schema(self, schema_id: int, *, serialized: bool = False) -> Schema:
        """Implement Registry.schema."""
        return self._given(self._asked(lambda: self._subjects.schema(schema_id)), serialized)

    def at(self, subject: str, version: int | None, *, serialized: bool = False) -> tuple[int, Schema]:
        """Implement Registry.at."""
        found = self._asked(lambda: self._subjects.version(subject, version))
        return found.stored.schema_id, self._given(found.stored, serialized)

    def register(self, subject: str, schema: Schema) -> int:
        """Refuse: a query writes nothing."""
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a query registers no schema")

    lookup = version_of = register

    def kinds(self, topic: str) -> dict[str, pa.DataType]:
        """Return the columns that the subject `<topic>-value` describes; none if there is no such subject."""
        try:
            _, schema = self.at(f"{topic}-value", None)
            text = json.loads(schema.text) if schema.kind != "PROTOBUF" else None
        except (KafkaError, ValueError, RecursionError):
            return {}
        return {"JSON": kinds_of_json_schema, "AVRO": kinds_of_avro}.get(schema.kind, lambda _: {})(text)

    def _given(self, stored: StoredSchema, is_serialized: bool) -> Schema:
        schema = stored.schema
        text = schema.text
        if is_serialized and schema.kind == "PROTOBUF":
            text = self._asked(lambda: self._parsed(stored))
        references = tuple(SchemaReference(each.name, each.subject, each.version) for each in schema.references)
        return Schema(text, schema.kind, references)

    async def _parsed(self, stored: StoredSchema) -> str:
        return serialized(await self._subjects.parsed(stored))

    def _asked(self, work: Work[T]) -> T:
        try:
            found: T = self._run(work)
            return found
        except RegistryError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
