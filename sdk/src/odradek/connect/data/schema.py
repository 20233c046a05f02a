"""Schemas of Connect's data model.

A schema describes a key, a value, a field or a header: a type, whether null is allowed, a default, and a name that
makes it a logical type (logical.py). Schemas are immutable and compare by content. A value without a schema
(`None`) is "schemaless": plain Python objects, as JSON has them.

    type                python value            type      python value
    int8 ... int64      int                     bytes     bytes
    float32, float64    float                   array     list
    boolean             bool                    map       dict
    string              str                     struct    Struct

Source: Kafka's org.apache.kafka.connect.data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, Self

from odradek.connect.errors import DataError


class Type(Enum):
    """The type of a schema; the value is its name in JSON envelopes."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        """Return True unless values contain other values."""
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)


INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class Schema:
    """The description of a value. Create one with the constants and functions of this module."""

    type: Type
    optional: bool = False  # whether null is allowed
    default: Any = field(default=None, hash=False)  # None: no default
    name: str | None = None  # of a struct, or of a logical type
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()  # of a logical type, in no particular order
    fields: tuple[Field, ...] = ()  # of a struct
    key_schema: Schema | None = None  # of a map
    value_schema: Schema | None = None  # of a map; of an array, its elements

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(
            (self.type, self.optional, self.name, self.version, self.fields, self.key_schema, self.value_schema)
        )

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of a struct's fields, in their order."""
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> Field | None:
        """Return a field of a struct by name, or None."""
        return self._by_name.get(name)

    def parameter(self, name: str) -> str | None:
        """Return a parameter of a logical type, or None."""
        return dict(self.parameters).get(name)

    @property
    def elements(self) -> Schema:
        """The schema of the elements of an array, or of the values of a map."""
        assert self.value_schema is not None
        return self.value_schema

    def as_optional(self, optional: bool = True) -> Self:
        """Return this schema with null allowed (or not)."""
        return self if self.optional is optional else replace(self, optional=optional)

    def with_default(self, value: Any) -> Self:
        """Return this schema with a default. Raises DataError if the value does not fit."""
        from odradek.connect.data.structs import check_value

        check_value(self, value, "default")
        return replace(self, default=value)

    def with_fields(self, fields: Iterable[tuple[str, Schema]]) -> Self:
        """Return a struct's schema with these fields in place of its own; name, version and doc are kept."""
        return replace(self, fields=_fields(fields))


def _fields(fields: Iterable[tuple[str, Schema]]) -> tuple[Field, ...]:
    made = tuple(Field(name, schema) for name, schema in fields)
    names = [field_name.name for field_name in made]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"a struct cannot have two fields with the name {twice!r}")
    return made


def struct(
    fields: Mapping[str, Schema] | Iterable[tuple[str, Schema]],
    *,
    name: str | None = None,
    optional: bool = False,
    version: int | None = None,
    doc: str | None = None,
) -> Schema:
    """Return the schema of a struct. Raises DataError for a repeated field."""
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    return Schema(Type.STRUCT, optional, name=name, version=version, doc=doc, fields=_fields(pairs))


def array(elements: Schema, *, optional: bool = False, name: str | None = None) -> Schema:
    """Return the schema of an array."""
    return Schema(Type.ARRAY, optional, name=name, value_schema=elements)


def map_of(keys: Schema, values: Schema, *, optional: bool = False, name: str | None = None) -> Schema:
    """Return the schema of a map."""
    return Schema(Type.MAP, optional, name=name, key_schema=keys, value_schema=values)


@lru_cache(maxsize=1_000)
def interned(schema: Schema) -> Schema:
    """Return the first of all schemas that equal this one: what is found by schema is found by identity then."""
    return schema


INT8 = Schema(Type.INT8)
INT16 = Schema(Type.INT16)
INT32 = Schema(Type.INT32)
INT64 = Schema(Type.INT64)
FLOAT32 = Schema(Type.FLOAT32)
FLOAT64 = Schema(Type.FLOAT64)
BOOLEAN = Schema(Type.BOOLEAN)
STRING = Schema(Type.STRING)
BYTES = Schema(Type.BYTES)
OPTIONAL_INT32 = INT32.as_optional()
OPTIONAL_INT64 = INT64.as_optional()
OPTIONAL_FLOAT64 = FLOAT64.as_optional()
OPTIONAL_BOOLEAN = BOOLEAN.as_optional()
OPTIONAL_STRING = STRING.as_optional()
OPTIONAL_BYTES = BYTES.as_optional()
