"""The registry as ports.value_schemas has it: maintenance, queries and Spark read the columns of a topic from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from odradek.errors import FormatError, StoreUnavailable
from odradek.model.value_schema import ValueSchema
from odradek.registry.errors import RegistryError
from odradek.registry.rows import StoredSchema
from odradek.registry.schemas import ReferencedText, Schema, parse, serialized
from odradek.registry.subjects import Subjects

_UNAVAILABLE = 500  # HTTP statuses from here on


class RegistryValueSchemas:
    """The schemas of a store's registry; those that were read are kept."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._known: dict[int, ValueSchema] = {}

    async def versions(self, subject: str) -> Sequence[ValueSchema]:
        """See ports.value_schemas."""
        try:
            history = await self._subjects.history(subject)
            return [await self._schema(registered.stored, registered.version) for registered in history]
        except RegistryError as error:
            raise _translated(error, f"the subject {subject}") from error

    async def by_id(self, schema_id: int) -> ValueSchema | None:
        """See ports.value_schemas."""
        try:
            return await self._schema(await self._subjects.schema(schema_id), 0)
        except RegistryError as error:
            if error.status == 404:
                return None
            raise _translated(error, f"schema {schema_id}") from error

    async def given(self, text: str) -> ValueSchema:
        """See ports.value_schemas."""
        schema = Schema("PROTOBUF", text)
        if text.lstrip()[:1] in ("{", "["):
            try:
                is_avro = json.loads(text).get("type") in ("record", "error")
            except (ValueError, AttributeError, RecursionError) as error:
                raise FormatError(f"the schema is not the JSON of an object: {error}") from error
            schema = Schema("AVRO" if is_avro else "JSON", text)
        try:
            return await asyncio.to_thread(_as_value_schema, schema, [], 0)
        except RegistryError as error:
            raise FormatError(error.message) from error

    async def _schema(self, stored: StoredSchema, version: int) -> ValueSchema:
        value_schema = self._known.get(stored.schema_id)
        if value_schema is None:
            texts = await self._subjects.texts(stored.schema)
            value_schema = await asyncio.to_thread(_as_value_schema, stored.schema, texts, 0)
            self._known[stored.schema_id] = value_schema
        return ValueSchema(value_schema.kind, value_schema.text, value_schema.references, version)


def _as_value_schema(schema: Schema, texts: Sequence[ReferencedText], version: int) -> ValueSchema:
    """Return a schema with what it refers to; files of Protobuf as descriptors. Raises RegistryError."""
    if schema.kind != "PROTOBUF":
        parse(schema, texts)
        return ValueSchema(schema.kind, schema.text, tuple((text.name, text.text) for text in texts), version)
    files = [(text.name, parse(Schema("PROTOBUF", text.text), texts)) for text in texts]
    references = tuple((name, serialized(file, name)) for name, file in files)
    return ValueSchema("PROTOBUF", serialized(parse(schema, texts)), references, version)


def _translated(error: RegistryError, subject_or_id: str) -> Exception:
    if error.status >= _UNAVAILABLE:
        return StoreUnavailable(f"the registry does not answer for {subject_or_id}: {error.message}")
    return FormatError(f"{subject_or_id} cannot be read: {error.message}")
