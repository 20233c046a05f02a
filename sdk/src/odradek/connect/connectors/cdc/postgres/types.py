"""PostgreSQL's types: schemas of columns, and their values from the text that the server sends.

The connections set DateStyle, IntervalStyle, TimeZone and bytea_output, so that the text has one form. Types that are
not built in are looked up: enumerations, domains, arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from odradek.connect.connectors.cdc import text_values
from odradek.connect.data import logical, semantic
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, array, map_of
from odradek.connect.data.structs import Struct
from odradek.connect.errors import DataError

SESSION = "-c datestyle=ISO -c intervalstyle=iso_8601 -c timezone=UTC -c bytea_output=hex -c extra_float_digits=1"
"""Options of every connection."""

Decode = Callable[[str], Any]
_MS_DIGITS, _US_DIGITS = 3, 6
_HSTORE = map_of(schemas.STRING, schemas.OPTIONAL_STRING)


class Known(NamedTuple):
    """A type of the catalog: its name, its kind (pg_type.typtype), and what it is made of."""

    name: str
    kind: str = "b"
    base_oid: int = 0  # of a domain
    typmod: int = -1  # of a domain
    element_oid: int = 0  # of an array
    labels: tuple[str, ...] = ()  # of an enumeration


class Types(Protocol):
    """Looks up types."""

    def type_of(self, oid: int) -> Known: ...


class ColumnType(NamedTuple):
    """The schema of a column, and how its text is read."""

    schema: Schema
    decode: Decode


_SIMPLE: dict[str, tuple[Schema, Decode]] = {
    "bool": (schemas.BOOLEAN, lambda text: text == "t"),
    "int2": (schemas.INT16, int),
    "int4": (schemas.INT32, int),
    "int8": (schemas.INT64, int),
    "oid": (schemas.INT64, int),
    "xid": (schemas.INT64, int),
    "float4": (schemas.FLOAT32, float),
    "float8": (schemas.FLOAT64, float),
    **dict.fromkeys(
        (
            "char", "bpchar", "varchar", "text", "name", "citext", "inet", "cidr", "macaddr", "macaddr8", "int4range",
            "int8range", "numrange", "tsrange", "tstzrange", "daterange", "int4multirange", "int8multirange",
            "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange",
        ),
        (schemas.STRING, str),
    ),
    "json": (semantic.JSON, str),
    "jsonb": (semantic.JSON, str),
    "uuid": (semantic.UUID_TEXT, str),
    "xml": (semantic.XML, str),
    "ltree": (semantic.LTREE, str),
    "tsvector": (semantic.TSVECTOR, str),
    "timetz": (semantic.ZONED_TIME, text_values.zoned_time),
    "point": (semantic.POINT, lambda text: _point(text)),
}  # fmt: skip


def column_type(oid: int, typmod: int, types: Types, options: Mapping[str, Any]) -> ColumnType | None:
    """Return how a column becomes a field; None for an unknown type, which is left out.

    Args:
        typmod: pg_attribute.atttypmod.
        options: the connector's configuration.
    """
    known_type = types.type_of(oid)
    if known_type.kind == "d":
        return column_type(known_type.base_oid, known_type.typmod if typmod < 0 else typmod, types, options)
    if known_type.kind == "e":
        return ColumnType(semantic.enum(known_type.labels), str)
    if known_type.element_oid:
        element = column_type(known_type.element_oid, typmod, types, options)
        if element is None:
            return None
        return ColumnType(array(element.schema.as_optional()), lambda text: _array(text, element.decode))
    name = known_type.name
    if name in ("numeric", "money"):
        return _number(name, typmod, options)
    if name == "timestamptz":
        digits = typmod if typmod >= 0 else _US_DIGITS
        return ColumnType(semantic.ZONED_TIMESTAMP, lambda text: text_values.zoned_timestamp(text, digits))
    if name in ("date", "time", "timestamp", "interval"):
        return ColumnType(*_moment(name, typmod, options))
    if name == "bytea":
        schema, form = text_values.binary(options["binary.handling.mode"])
        return ColumnType(schema, lambda text: form(bytes.fromhex(text.removeprefix("\\x"))))
    if name in ("bit", "varbit"):
        return _bits(name, typmod)
    if name in _SIMPLE:
        return ColumnType(*_SIMPLE[name])
    if name == "hstore":
        if options["hstore.handling.mode"] == "map":
            return ColumnType(_HSTORE, text_values.hstore)
        return ColumnType(semantic.JSON, lambda text: _compact(text_values.hstore(text)))
    if options["include.unknown.datatypes"]:
        return ColumnType(schemas.STRING, str)
    return None


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(name: str, typmod: int, options: Mapping[str, Any]) -> ColumnType:
    mode = options["decimal.handling.mode"]
    if mode == "double":
        return ColumnType(schemas.FLOAT64, lambda text: float(_amount(text)))
    if mode == "string":
        return ColumnType(schemas.STRING, _amount)
    if name == "money":
        digits = options["money.fraction.digits"]
        return ColumnType(logical.decimal(digits), lambda text: _exact(_amount(text)))
    if typmod < 0:
        return ColumnType(semantic.VARIABLE_SCALE_DECIMAL, lambda text: semantic.variable_scale(Decimal(text)))
    scale = (typmod - 4) & 0x7FF
    scale = scale - 0x800 if scale & 0x400 else scale  # PostgreSQL 15 has negative scales
    return ColumnType(logical.decimal(scale, precision=(typmod - 4) >> 16 & 0xFFFF), _exact)


def _amount(text: str) -> str:
    """Return a number without the currency and the separators that `money` may have."""
    if not any(sign in text for sign in "$,()€£"):
        return text
    digits = "".join(character for character in text if character.isdigit() or character in ".-")
    return f"-{digits}" if text.startswith("(") else digits


def _exact(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise DataError(f"the number {text} has no exact form: set decimal.handling.mode=string or double")
    return value


def _moment(name: str, typmod: int, options: Mapping[str, Any]) -> tuple[Schema, Decode]:
    mode = options["time.precision.mode"]
    is_short = 0 <= typmod <= _MS_DIGITS
    if name == "interval":
        if options["interval.handling.mode"] == "string":
            return semantic.INTERVAL, text_values.interval
        return semantic.MICRO_DURATION, text_values.duration_us
    if name == "date":
        if mode == "connect":
            return logical.DATE, lambda text: logical.moment_of(_days(text) * logical.DAY_MS).date()
        return semantic.DATE, _days
    if name == "time":
        if mode == "connect":
            return logical.TIME, lambda text: logical.moment_of(_within_day(text) // 1000).time()
        if mode == "adaptive" and is_short:
            return semantic.TIME, lambda text: text_values.clock_us(text) // 1000
        return semantic.MICRO_TIME, text_values.clock_us
    if mode == "connect":
        return logical.TIMESTAMP, lambda text: logical.moment_of(text_values.timestamp_us(text) // 1000)
    if is_short:
        return semantic.TIMESTAMP, lambda text: text_values.timestamp_us(text) // 1000
    return semantic.MICRO_TIMESTAMP, text_values.timestamp_us


def _days(text: str) -> int:
    if text in ("infinity", "-infinity"):
        return (1 << 31) - 1 if text == "infinity" else -(1 << 31)
    return text_values.days_of(text)


def _within_day(text: str) -> int:
    return min(text_values.clock_us(text), text_values.DAY_US - 1000)


def _bits(name: str, typmod: int) -> ColumnType:
    if name == "bit" and typmod == 1:
        return ColumnType(schemas.BOOLEAN, lambda text: text == "1")
    length = typmod if typmod > 0 else (1 << 31) - 1
    return ColumnType(semantic.bits(length), lambda text: int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little"))


def _point(text: str) -> Struct:
    x, _, y = text.strip("()").partition(",")
    return semantic.point(float(x), float(y))


def _array(text: str, decode: Decode) -> list[Any]:
    """Read an array of one dimension, such as {1,NULL,"a b"}. Raises DataError for several dimensions."""
    if text.startswith("["):  # bounds that do not begin with 1
        text = text.partition("=")[2]
    elements: list[Any] = []
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == "{":
            raise DataError("an array of several dimensions has no schema: leave the column out")
        if text[at] == '"':
            at, part = _quoted(text, at + 1)
            elements.append(decode(part))
        else:
            stop = text.find(",", at, end)
            stop = end if stop < 0 else stop
            part = text[at:stop]
            elements.append(None if part == "NULL" else decode(part))
            at = stop
        at += 1  # the comma
    return elements


def _quoted(text: str, at: int) -> tuple[int, str]:
    """Return the place behind the closing quote, and the text before it."""
    made = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        made.append(text[at])
        at += 1
    return at + 1, "".join(made)
