"""The schemas of topics' values, as maintenance and queries need them: a registry that is only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.model.value_schema import ValueSchema


class ValueSchemas(Protocol):
    """A registry. Methods raise StoreUnavailable if it does not answer, and FormatError for what cannot be read."""

    async def versions(self, subject: str) -> Sequence[ValueSchema]:
        """Return the versions of a subject, oldest first, up to its latest one; none if there is no such subject."""
        ...

    async def by_id(self, schema_id: int) -> ValueSchema | None:
        """Return the schema of an id, None if there is none."""
        ...

    async def given(self, text: str) -> ValueSchema:
        """Return the schema of a text: Avro's or JSON Schema's JSON, or a .proto file."""
        ...
