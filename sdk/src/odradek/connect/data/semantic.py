"""Debezium's semantic types: schemas whose name says what a plain value means.

Change capture writes them, and sinks of databases read them. Unlike logical types (logical.py), their Python value is
the one of the underlying type; `natural` returns the date, time, number or UUID that it stands for.

    io.debezium.time.Date             int32   days since 1970-01-01
    io.debezium.time.Time             int32   milliseconds since midnight
    io.debezium.time.MicroTime        int64   microseconds since midnight
    io.debezium.time.Timestamp        int64   milliseconds since 1970-01-01, without a zone
    io.debezium.time.MicroTimestamp   int64   microseconds since 1970-01-01, without a zone
    io.debezium.time.ZonedTimestamp   string  ISO 8601 with a zone
    io.debezium.time.ZonedTime        string  ISO 8601 with a zone
    io.debezium.time.MicroDuration    int64   microseconds
    io.debezium.time.Interval         string  ISO 8601 duration
    io.debezium.time.Year             int32   year
    io.debezium.data.Json, Uuid, Xml, Enum, EnumSet, Ltree, Tsvector   string
    io.debezium.data.Bits             bytes   little-endian, with the parameter `length`
    io.debezium.data.VariableScaleDecimal     struct of scale and unscaled bytes
    io.debezium.data.geometry.Point, Geometry   struct of the well-known binary; of a point also x and y

Source: Debezium's documentation of its connectors' data types.
"""

from __future__ import annotations

import datetime as dt
import json
import struct as structs
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type, struct
from odradek.connect.data.structs import Struct
from odradek.connect.errors import DataError
from odradek.model import decimals

_TIME = "io.debezium.time."
_DATA = "io.debezium.data."


def _named(schema: Schema, name: str, **parameters: str) -> Schema:
    return replace(schema, name=name, version=1, parameters=tuple(sorted(parameters.items())))


DATE = _named(schemas.INT32, _TIME + "Date")
TIME = _named(schemas.INT32, _TIME + "Time")
MICRO_TIME = _named(schemas.INT64, _TIME + "MicroTime")
TIMESTAMP = _named(schemas.INT64, _TIME + "Timestamp")
MICRO_TIMESTAMP = _named(schemas.INT64, _TIME + "MicroTimestamp")
ZONED_TIMESTAMP = _named(schemas.STRING, _TIME + "ZonedTimestamp")
ZONED_TIME = _named(schemas.STRING, _TIME + "ZonedTime")
MICRO_DURATION = _named(schemas.INT64, _TIME + "MicroDuration")
INTERVAL = _named(schemas.STRING, _TIME + "Interval")
YEAR = _named(schemas.INT32, _TIME + "Year")
JSON = _named(schemas.STRING, _DATA + "Json")
UUID_TEXT = _named(schemas.STRING, _DATA + "Uuid")
XML = _named(schemas.STRING, _DATA + "Xml")
LTREE = _named(schemas.STRING, _DATA + "Ltree")
TSVECTOR = _named(schemas.STRING, _DATA + "Tsvector")
VARIABLE_SCALE_DECIMAL = struct(
    {"scale": schemas.INT32, "value": schemas.BYTES},
    name=_DATA + "VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)
POINT = struct(
    {
        "x": schemas.FLOAT64,
        "y": schemas.FLOAT64,
        "wkb": schemas.OPTIONAL_BYTES,
        "srid": schemas.OPTIONAL_INT32,
    },
    name=_DATA + "geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
GEOMETRY = struct(
    {"wkb": schemas.BYTES, "srid": schemas.OPTIONAL_INT32},
    name=_DATA + "geometry.Geometry",
    version=1,
    doc="Geometry",
)
_WKB_POINT = structs.Struct("<BIdd")  # little-endian, the kind of geometry, x, y


def enum(allowed: Sequence[str], *, several: bool = False) -> Schema:
    """Return the schema of one of these texts; with `several`, of some of them with commas in between."""
    return _named(schemas.STRING, _DATA + ("EnumSet" if several else "Enum"), allowed=",".join(allowed))


def bits(length: int) -> Schema:
    """Return the schema of so many bits."""
    return _named(schemas.BYTES, _DATA + "Bits", length=str(length))


def variable_scale(value: Decimal) -> Struct:
    """Return a decimal with its own scale, at least 0. Raises DataError for NaN and infinity."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"the number {value} has no exact form: set decimal.handling.mode=string or double")
    scale = max(-exponent, 0)
    data = decimals.to_bytes(decimals.to_unscaled(value, scale))
    return Struct(VARIABLE_SCALE_DECIMAL, {"scale": scale, "value": data})


def point(x: float, y: float) -> Struct:
    """Return a point, also in the well-known binary of geometries."""
    return Struct(POINT, {"x": x, "y": y, "wkb": _WKB_POINT.pack(1, 1, x, y)})


def geometry(wkb: bytes, srid: int | None, *, is_point: bool) -> Struct:
    """Return a geometry of its well-known binary. Raises DataError for a point that is none."""
    if not is_point:
        return Struct(GEOMETRY, {"wkb": wkb, "srid": srid})
    if len(wkb) != _WKB_POINT.size:
        raise DataError(f"not a point in well-known binary: {wkb.hex()[:80]}")
    _, _, x, y = _WKB_POINT.unpack(wkb)
    return Struct(POINT, {"x": x, "y": y, "wkb": wkb, "srid": srid})


# --- what a value stands for ------------------------------------------------------------------------------------------

_EPOCH = dt.datetime(1970, 1, 1)
_DAY_US = 86_400_000_000


def _timestamp(microseconds: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=microseconds)


def _time(microseconds: int) -> dt.time:
    if not 0 <= microseconds < _DAY_US:
        raise ValueError("not within a day")
    return _timestamp(microseconds).time()


def _zoned(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _decimal(value: Struct) -> Decimal:
    return decimals.of_bytes(value["value"], value["scale"])


def _bits(schema: Schema, value: bytes) -> str:
    """Return the bits as text of 0 and 1, the highest one first; of fewer bits than the type has, whole bytes."""
    length = min(int(schema.parameter("length") or len(value) * 8), len(value) * 8)
    if not length:
        return ""
    return format(int.from_bytes(value, "little"), f"0{length}b")[-length:]


_NATURAL: dict[str | None, Callable[[Any], Any]] = {
    DATE.name: lambda value: _EPOCH.date() + dt.timedelta(days=value),
    TIME.name: lambda value: _time(value * 1000),
    MICRO_TIME.name: _time,
    _TIME + "NanoTime": lambda value: _time(value // 1000),
    TIMESTAMP.name: lambda value: _timestamp(value * 1000),
    MICRO_TIMESTAMP.name: _timestamp,
    _TIME + "NanoTimestamp": lambda value: _timestamp(value // 1000),
    ZONED_TIMESTAMP.name: _zoned,
    ZONED_TIME.name: lambda value: dt.time.fromisoformat(value),
    MICRO_DURATION.name: lambda value: dt.timedelta(microseconds=value),
    JSON.name: json.loads,
    UUID_TEXT.name: UUID,
    VARIABLE_SCALE_DECIMAL.name: _decimal,
}


def is_semantic(schema: Schema | None) -> bool:
    """Return True if `natural` knows a schema."""
    return schema is not None and (schema.name in _NATURAL or (schema.name or "").startswith(_DATA + "Bits"))


def natural(schema: Schema, value: Any) -> Any:
    """Return what a value stands for: a date, a time, a number, a UUID, parsed JSON; other values as they are.

    Raises:
        DataError: for a date before the year 1 or after 9999, a time that is not within a day, and text that is none
            of its type.
    """
    if value is None:
        return None
    if schema.type is Type.ARRAY and is_semantic(schema.elements):
        return [natural(schema.elements, each) for each in value]
    if schema.name == _DATA + "Bits":
        return _bits(schema, bytes(value))
    make = _NATURAL.get(schema.name)
    if make is None:
        return value
    try:
        return make(value)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{value!r:.80} is not a {schema.name}: {error}") from error
