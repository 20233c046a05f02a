"""Values without schemas: inferring a schema, and the text form that headers and configurations have.

`parse_text` and `to_text` follow Kafka's org.apache.kafka.connect.data.Values: the narrowest number that holds the
text, `true`, `false`, `null`, ISO 8601 dates, times and timestamps, `[a, b]` and `{"k": v}`; anything else is a string.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
import struct as structs
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from odradek.connect.data import schema as schemas
from odradek.connect.data.logical import DATE, DAY_MS, TIME, TIMESTAMP, UTC, decimal, ms_of
from odradek.connect.data.schema import Schema, Type, array, map_of
from odradek.connect.data.structs import Struct
from odradek.connect.errors import DataError
from odradek.model import decimals


class SchemaAndValue(NamedTuple):
    """A value with its schema; None for a value without one."""

    schema: Schema | None
    value: Any


NULL = SchemaAndValue(None, None)


def infer_schema(value: Any) -> Schema | None:
    """Return a schema that the value fits, or None if there is none, as for null and for mixed lists."""
    if isinstance(value, Struct):
        return value.schema
    if isinstance(value, bool):
        return schemas.BOOLEAN
    if isinstance(value, int):
        return schemas.INT64 if -(1 << 63) <= value < 1 << 63 else decimal(0)
    for kinds, schema in _INFERRED:
        if isinstance(value, kinds):
            return schema
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return decimal(max(-exponent, 0)) if isinstance(exponent, int) else None
    if isinstance(value, list | tuple):
        elements = _common(value)
        return None if elements is None else array(elements)
    if isinstance(value, Mapping):
        keys, values = _common(value.keys()), _common(value.values())
        return None if keys is None or values is None else map_of(keys, values)
    return None


_INFERRED: tuple[tuple[tuple[type, ...], Schema], ...] = (
    ((str,), schemas.STRING),
    ((float,), schemas.FLOAT64),
    ((bytes, bytearray, memoryview), schemas.BYTES),
    ((dt.datetime,), TIMESTAMP),
    ((dt.date,), DATE),
    ((dt.time,), TIME),
)


def _common(values: Any) -> Schema | None:
    element_schemas = {infer_schema(value) for value in values}
    return element_schemas.pop() if len(element_schemas) == 1 else None


def short_float32(value: float) -> float:
    """Return the float with the fewest digits that is this value in 32 bits, which is how Java prints it."""
    packed = structs.pack(">f", value)
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        if structs.pack(">f", short) == packed:
            return short
    return value


def float32_of(number: Decimal) -> float:
    """Return the nearest float of 32 bits, rounded once. Raises OverflowError for one that is too large.

    A double is not half way: 1.000000059604644775390625000000001 is above the middle of two floats, its double on it.
    """
    double = float(number)
    packed = structs.pack(">f", double)
    nearest = float(structs.unpack(">f", packed)[0])
    if nearest == double or not number.is_finite():
        return nearest
    bits = int.from_bytes(packed, "big")
    step = 1 if abs(nearest) < abs(double) else -1
    if not 0 < (bits & _FLOAT32_MAX) + step <= _FLOAT32_MAX:
        return nearest
    other = float(structs.unpack(">f", (bits + step).to_bytes(4, "big"))[0])
    if nearest + other != 2 * double:  # both are exact: the double is not in the middle
        return nearest
    middle = Decimal(double)
    if number == middle:
        return nearest
    return max(nearest, other) if number > middle else min(nearest, other)


def to_text(value: Any, *, embedded: bool = False) -> str:
    """Return the text form of a value; embedded strings are quoted. Raises DataError for an unknown type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if embedded else value
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return to_text(base64.b64encode(bytes(value)).decode(), embedded=embedded)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return time_text(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(to_text(element, embedded=True) for element in value) + "]"
    if isinstance(value, Struct | Mapping):
        pairs = (f"{to_text(k, embedded=True)}:{to_text(v, embedded=True)}" for k, v in value.items())
        return "{" + ",".join(pairs) + "}"
    raise DataError(f"a {type(value).__name__} has no text form")


def number_text(value: int | float | Decimal) -> str:
    """Return a number as Java prints it: 1.0E10 rather than 1e+10."""
    if not isinstance(value, float):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else text + ".0"
    sign, digits, exponent = decimals.shortest(Decimal(repr(value))).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"


def time_text(value: dt.datetime | dt.date | dt.time) -> str:
    """Return ISO 8601 text, in UTC with milliseconds. A moment at midnight is a date, one before 1970-01-02 a time."""
    if isinstance(value, dt.time):
        return value.isoformat("milliseconds") + "Z"
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day, tzinfo=UTC)
    value = (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    ms = ms_of(value)
    if ms < DAY_MS:
        return value.time().isoformat("milliseconds") + "Z"
    if ms % DAY_MS == 0:
        return value.date().isoformat()
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_text(text: str | None) -> SchemaAndValue:
    """Return the value that a text stands for, with its schema."""
    if text is None:
        return NULL
    if text == "":
        return SchemaAndValue(schemas.STRING, "")
    scalar = _scalar(text.strip())
    if scalar is not None:
        return scalar
    if text.lstrip()[:1] in ("[", "{"):
        parser = _Parser(text)
        try:
            parsed = parser.value()
            if parser.rest() == "":
                return parsed
        except DataError:
            pass
    return SchemaAndValue(schemas.STRING, text)


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_SCALE_MAX = (1 << 31) - 1  # of a Decimal, in Java
_DIGITS_OF_INT64 = 19
_FLOAT32_MAX = 0x7F7FFFFF


def _scalar(text: str) -> SchemaAndValue | None:
    """Return null, a boolean, a temporal value or a number; None for other text."""
    if text == "null":
        return NULL
    if text in ("true", "false"):
        return SchemaAndValue(schemas.BOOLEAN, text == "true")
    temporal = _temporal(text)
    if temporal is not None:
        return temporal
    if _NUMBER.fullmatch(text) and text[0] != ".":
        return _number(text)
    return None


def _temporal(text: str) -> SchemaAndValue | None:
    text = text.replace("\\:", ":")
    try:
        if _DATE.fullmatch(text):
            return SchemaAndValue(DATE, dt.date.fromisoformat(text))
        if _TIME.fullmatch(text):
            return SchemaAndValue(TIME, dt.time.fromisoformat(text[:-1]))
        day, _, time = text.partition("T")
        if _DATE.fullmatch(day) and _TIME.fullmatch(time):
            return SchemaAndValue(TIMESTAMP, dt.datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC))
    except ValueError:
        return None
    return None


def _number(text: str) -> SchemaAndValue:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return SchemaAndValue(schemas.STRING, text)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and abs(exponent) > _SCALE_MAX:  # such as a hexadecimal id with a lone e
        return SchemaAndValue(schemas.STRING, text)
    if isinstance(exponent, int) and decimals.is_whole(number):
        if number.adjusted() >= _DIGITS_OF_INT64:  # not written out: an exponent may be large
            return _large(number, exponent)
        whole = int(number)
        for integer_schema in (schemas.INT8, schemas.INT16, schemas.INT32, schemas.INT64):
            if (
                -(1 << schemas.INTEGER_BITS[integer_schema.type] - 1)
                <= whole
                < 1 << schemas.INTEGER_BITS[integer_schema.type] - 1
            ):
                return SchemaAndValue(integer_schema, whole)
        return _large(number, exponent)
    return _floating(number) or SchemaAndValue(decimal(-int(exponent)), number)


def _large(number: Decimal, exponent: int) -> SchemaAndValue:
    """Return a whole number that is none of 64 bits: with an exponent Kafka takes it for a float, if there is one."""
    as_double = _floating(number) if exponent else None
    return as_double or SchemaAndValue(decimal(-exponent), number)


def _floating(number: Decimal) -> SchemaAndValue | None:
    """Return a number as the smaller float that has room for it; None if there is none."""
    with suppress(OverflowError):
        single = float32_of(number)
        if math.isfinite(single):
            return SchemaAndValue(schemas.FLOAT32, single)
    double = float(number)
    return SchemaAndValue(schemas.FLOAT64, double) if math.isfinite(double) else None


class _Parser:
    """A recursive descent over `[...]` and `{...}`."""

    _TOKEN = re.compile(r'\s*(?:([\[\]{},:])|"((?:[^"\\]|\\.)*)"|((?:[^\[\]{},:"\\]|\\.|:(?=\d\d))+))')

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def _take(self, mark: str) -> bool:
        remaining = self._text[self._at :]
        if remaining.lstrip().startswith(mark):
            self._at += len(remaining) - len(remaining.lstrip()) + len(mark)
            return True
        return False

    def value(self) -> SchemaAndValue:
        if self._take("["):
            return self._array()
        if self._take("{"):
            return self._map()
        token = self._TOKEN.match(self._text, self._at)
        if token is None or token[1]:
            raise DataError("a value is missing")
        self._at = token.end()
        if token[2] is not None:
            content = re.sub(r"\\(.)", r"\1", token[2])
            return _temporal(content) or SchemaAndValue(schemas.STRING, content)
        scalar = _scalar(token[3].strip())
        if scalar is None:
            raise DataError("text inside a list or map must be quoted")
        return scalar

    def _array(self) -> SchemaAndValue:
        elements: list[SchemaAndValue] = []
        while not self._take("]"):
            elements.append(self.value())
            if not self._take(",") and not self.rest().startswith("]"):
                raise DataError("elements are separated by commas")
        common = _merged(elements)
        if common is not None and any(element.value is None for element in elements):
            raise DataError("a list has nulls only, or none")
        schema = None if common is None else array(common)
        return SchemaAndValue(schema, [element.value for element in elements])

    def _map(self) -> SchemaAndValue:
        keys: list[SchemaAndValue] = []
        values: list[SchemaAndValue] = []
        while not self._take("}"):
            keys.append(self.value())
            if keys[-1].value is None or not self._take(":"):
                raise DataError("a map has keys that are not null, colons and values")
            values.append(self.value())
            self._take(",")
        of_keys, of_values = _merged(keys), _merged(values)
        schema = None if of_keys is None or of_values is None else map_of(of_keys, of_values)
        return SchemaAndValue(schema, {key.value: entry.value for key, entry in zip(keys, values, strict=True)})


_WIDENING = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)


def _merged(elements: list[SchemaAndValue]) -> Schema | None:
    """Return the widest schema of the values, or None if they have none in common."""
    common: Schema | None = None
    for schema, _ in elements:
        if schema is None or schema == common:
            continue
        if common is None:
            common = schema
        elif schema.type in _WIDENING and common.type in _WIDENING:
            common = max(common, schema, key=lambda candidate: _WIDENING.index(candidate.type))
        else:
            return None
    return common
