"""Fields to a kio response of any version.

A handler returns nested mappings with kio's field names, written once for all versions. Fields that a version does not
have are left out; fields that the mapping does not have get their default (zero, empty, null). Times are whole
milliseconds. A builder is compiled from each schema at its first use.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any

from kio.schema.errors import ErrorCode as KioErrorCode

from odradek.protocol.decode import ms_to_datetime

Builder = Callable[[Mapping[str, Any]], Any]
_Convert = Callable[[Any], Any]

_ZERO: Mapping[str, Any] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "uuid": None,
    "error_code": KioErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": ms_to_datetime(0),  # where the schema has no null
}

_BUILDERS: dict[type[Any], Builder] = {}


def build(schema: type[Any], values: Mapping[str, Any]) -> Any:
    """Build a message of that schema."""
    return builder(schema)(values)


def builder(schema: type[Any]) -> Builder:
    """Return the builder of a schema class, compiled once."""
    made = _BUILDERS.get(schema)
    if made is None:
        made = _BUILDERS[schema] = _compile(schema)
    return made


def _compile(schema: type[Any]) -> Builder:
    plan = [(field.name, *_field(field)) for field in dataclasses.fields(schema)]

    def make(values: Mapping[str, Any]) -> Any:
        fields = {}
        for name, convert, default in plan:
            value = values.get(name)
            fields[name] = default if value is None else value if convert is None else convert(value)
        return schema(**fields)

    return make


def _field(field: dataclasses.Field[Any]) -> tuple[_Convert | None, Any]:
    """Return the conversion of a field's values, and the value used for None or a missing entry."""
    kind, nullable = _without_none(field.type)
    kafka_type = field.metadata.get("kafka_type", "")
    convert: _Convert | None = None
    if typing.get_origin(kind) is tuple:
        element = _without_none(typing.get_args(kind)[0])[0]
        convert = _each(builder(typing.cast("type[Any]", element))) if dataclasses.is_dataclass(element) else tuple
    elif dataclasses.is_dataclass(kind):
        convert = builder(typing.cast("type[Any]", kind))
    elif kafka_type.startswith("timedelta"):
        convert = _to_timedelta
    elif kafka_type.startswith("datetime"):
        convert = _to_datetime if nullable else ms_to_datetime
    if nullable:
        default = None
    elif field.default is not dataclasses.MISSING:
        default = field.default
    elif typing.get_origin(kind) is tuple:
        default = ()
    elif dataclasses.is_dataclass(kind):
        default = builder(typing.cast("type[Any]", kind))({})
    else:
        default = _ZERO.get(kafka_type, 0)
    return convert, default


def _each(make: Builder) -> _Convert:
    return lambda items: tuple([make(item) for item in items])


def _to_timedelta(value_ms: int) -> timedelta:
    return timedelta(milliseconds=value_ms)


def _to_datetime(timestamp_ms: int) -> Any:
    return None if timestamp_ms == -1 else ms_to_datetime(timestamp_ms)


def _without_none(kind: Any) -> tuple[Any, bool]:
    if typing.get_origin(kind) not in (UnionType, typing.Union):
        return kind, False
    return next(part for part in typing.get_args(kind) if part is not NoneType), True


def to_ms(value: timedelta) -> int:
    """Return a request's duration in whole milliseconds."""
    return value // timedelta(milliseconds=1)
