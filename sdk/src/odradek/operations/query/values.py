"""Values to typed columns: one column for each field of a value that is an object.

The columns come from the subject `<topic>-value` of the registry (JSON Schema, Avro), with what a sample of the records
has beside it, or from the sample alone. Arrow's JSON reader reads the columns that a query needs, a chunk at once. A
chunk that it refuses, and values in Avro or Protobuf, are read one by one. A value that does not fit has nulls in the
typed columns, and is counted; `value` has its bytes in any case.

    true, false -> BOOLEAN    1 -> BIGINT    1.5 -> DOUBLE    text -> VARCHAR    {} -> STRUCT    [] -> a list
    kinds that do not agree -> VARCHAR, with JSON's text of what is not text
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from odradek.columnar.json_values import INT64, read_values
from odradek.errors import OdradekError
from odradek.operations.records.formats import Decoder

_DEPTH_MAX = 8
_FIELDS_MAX = 400
_PREFIX = "value_"  # of a column whose name a column of the record has


class Values:
    """The typed columns of a topic's values.

    Args:
        kinds: Arrow types by field.
        taken: names that the record's own columns have; fields of these names are called `value_<name>`.
        decoder: of single values.
    """

    def __init__(self, kinds: Mapping[str, pa.DataType], taken: Iterable[str], decoder: Decoder) -> None:
        self._decoder = decoder
        self.misfits = 0  # values that did not fit, in everything that was read
        used = {name.lower() for name in taken}
        self._fields: dict[str, str] = {}  # field by column
        for name in kinds:
            column = name
            while column.lower() in used:
                column = _PREFIX + column
            used.add(column.lower())
            self._fields[column] = name
        self.schema = pa.schema([pa.field(column, kinds[name]) for column, name in self._fields.items()])

    def read(self, values: pa.BinaryArray, columns: Sequence[str]) -> list[pa.Array]:
        """Return these columns of a chunk of values."""
        kinds = pa.schema([pa.field(self._fields[column], self.schema.field(column).type) for column in columns])
        arrays, misfits = read_values(values, kinds, lambda value: decoded(self._decoder, value))
        self.misfits += misfits
        return arrays


def decoded(decoder: Decoder, value: bytes) -> Any:
    """Return the data of a value, None if there is no way to read it."""
    try:
        return decoder.data(value)
    except (OdradekError, ValueError, RecursionError):
        return None


# --- from data to types -----------------------------------------------------------------------------------------------


def kinds_of(sample: Iterable[Any]) -> dict[str, pa.DataType]:
    """Return the type of each field of the objects of a sample; what is not an object says nothing."""
    found: dict[str, pa.DataType] = {}
    for data in sample:
        if isinstance(data, dict):
            for name, value in data.items():
                if name in found or len(found) < _FIELDS_MAX:
                    found[name] = joined(found.get(name, pa.null()), kind_of(value))
    return {name: _told(kind) for name, kind in found.items() if name}


def kind_of(value: Any, depth: int = 0) -> pa.DataType:
    """Return the type of a value of JSON; null for null."""
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if value in INT64 else pa.float64()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, dict) and value and depth < _DEPTH_MAX and "" not in value:
        return pa.struct([pa.field(name, kind_of(each, depth + 1)) for name, each in value.items()])
    if isinstance(value, list) and depth < _DEPTH_MAX:
        inner = pa.null()
        for each in value:
            inner = joined(inner, kind_of(each, depth + 1))
        return pa.list_(inner)
    return pa.string()


def joined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type that holds the values of both."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(joined(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {each.name: each.type for each in one}
        for each in other:
            fields[each.name] = joined(fields.get(each.name, pa.null()), each.type)
        return pa.struct([pa.field(name, kind) for name, kind in fields.items()])
    return pa.string()


def _told(kind: pa.DataType) -> pa.DataType:
    """Return a type without null in it: what nothing is known of is text."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_told(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _told(each.type)) for each in kind])
    return kind


# --- from schemas to types --------------------------------------------------------------------------------------------

_JSON_KINDS = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}
_AVRO_KINDS = {
    **dict.fromkeys(("int", "long"), pa.int64()),
    **dict.fromkeys(("float", "double"), pa.float64()),
    "boolean": pa.bool_(),
    "string": pa.string(),
}


def kinds_of_json_schema(schema: Any) -> dict[str, pa.DataType]:
    """Return the types of the properties of a JSON Schema, without those that it leaves open."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found = {name: _json_kind(each, 0) for name, each in properties.items()} if isinstance(properties, dict) else {}
    return {name: kind for name, kind in found.items() if kind is not None}


def _json_kind(schema: Any, depth: int) -> pa.DataType | None:
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return None
    kind = schema.get("type")
    options = schema.get("anyOf") or schema.get("oneOf")
    if kind is None and isinstance(options, list):
        left = [each for each in options if not (isinstance(each, dict) and each.get("type") == "null")]
        return _json_kind(left[0], depth + 1) if len(left) == 1 else None
    if isinstance(kind, list):
        left = [each for each in kind if each != "null"]
        kind = left[0] if len(left) == 1 else None
    if kind == "object":
        fields = {name: _json_kind(each, depth + 1) for name, each in (schema.get("properties") or {}).items()}
        if not fields or None in fields.values():
            return None
        return pa.struct([pa.field(name, each) for name, each in fields.items()])
    if kind == "array":
        inner = _json_kind(schema.get("items"), depth + 1)
        return None if inner is None else pa.list_(inner)
    return _JSON_KINDS.get(kind) if isinstance(kind, str) else None


def kinds_of_avro(schema: Any) -> dict[str, pa.DataType]:
    """Return the types of the primitive fields of an Avro record; a sample says what the others are."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    found: dict[str, pa.DataType] = {}
    for each in fields if isinstance(fields, list) else []:
        kind = each.get("type") if isinstance(each, dict) else None
        if isinstance(kind, list):
            left = [option for option in kind if option != "null"]
            kind = left[0] if len(left) == 1 else None
        if isinstance(kind, str) and kind in _AVRO_KINDS:
            found[each["name"]] = _AVRO_KINDS[kind]
    return found
