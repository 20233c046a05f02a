"""Logical types: a schema's name gives its values another Python type.

    name                                       on         python value
    org.apache.kafka.connect.data.Decimal      bytes      decimal.Decimal, with the parameter `scale`
    org.apache.kafka.connect.data.Date         int32      datetime.date                days since 1970-01-01
    org.apache.kafka.connect.data.Time         int32      datetime.time                milliseconds since midnight, UTC
    org.apache.kafka.connect.data.Timestamp    int64      datetime.datetime in UTC     milliseconds since 1970-01-01

`encode` turns such a value into the one of the underlying type, and `decode` turns it back. Timestamps and times have a
precision of one millisecond, as in Kafka Connect.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from odradek.connect.data.schema import Schema, Type
from odradek.connect.errors import DataError
from odradek.model import decimals

_PACKAGE = "org.apache.kafka.connect.data."
DECIMAL_NAME = _PACKAGE + "Decimal"
DATE_NAME = _PACKAGE + "Date"
TIME_NAME = _PACKAGE + "Time"
TIMESTAMP_NAME = _PACKAGE + "Timestamp"
SCALE = "scale"
PRECISION = "connect.decimal.precision"
UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DATE = EPOCH.date()
DAY_MS = 86_400_000
_MS = dt.timedelta(milliseconds=1)

DATE = Schema(Type.INT32, name=DATE_NAME, version=1)
TIME = Schema(Type.INT32, name=TIME_NAME, version=1)
TIMESTAMP = Schema(Type.INT64, name=TIMESTAMP_NAME, version=1)


def decimal(scale: int, *, precision: int | None = None, optional: bool = False) -> Schema:
    """Return the schema of decimals with that many digits after the point, and so many in all if that is known."""
    parameters: tuple[tuple[str, str], ...] = ((SCALE, str(scale)),)
    if precision is not None:
        parameters = ((PRECISION, str(precision)), *parameters)  # by name, as schemas are read: they compare by content
    return Schema(Type.BYTES, optional, name=DECIMAL_NAME, version=1, parameters=parameters)


def scale_of(schema: Schema) -> int:
    """Return the scale of a decimal's schema. Raises DataError."""
    text = schema.parameter(SCALE)
    try:
        return int(text or "")
    except ValueError:
        raise DataError(f"a Decimal schema needs the parameter 'scale', a number, not {text!r}") from None


def ms_of(moment: dt.datetime) -> int:
    """Return milliseconds since the epoch; a moment without a zone is in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // _MS


def moment_of(ms: int) -> dt.datetime:
    """Return the moment in UTC. Raises DataError for a year that Python does not know."""
    try:
        return EPOCH + ms * _MS
    except OverflowError:
        raise DataError(f"timestamp {ms} is out of range: years 1 to 9999 are supported") from None


def time_ms(time: dt.time) -> int:
    """Return milliseconds since midnight."""
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1000 + time.microsecond // 1000


def _time(ms: int) -> dt.time:
    if not 0 <= ms < DAY_MS:
        raise DataError(f"a Time must be 0 to {DAY_MS - 1} milliseconds, not {ms}")
    return moment_of(ms).time()


def _date(days: int) -> dt.date:
    return moment_of(days * DAY_MS).date()


def _decimal_encoder(schema: Schema) -> Callable[[Decimal], bytes]:
    scale = scale_of(schema)

    def encode_decimal(value: Decimal) -> bytes:
        try:
            return decimals.to_bytes(decimals.to_unscaled(value, scale))
        except ValueError as error:
            raise DataError(str(error)) from None

    return encode_decimal


def _decimal(schema: Schema, data: bytes) -> Decimal:
    return decimals.of_bytes(data, scale_of(schema))


class _Logical(NamedTuple):
    underlying: Type
    python: type[Any]
    encoder: Callable[[Schema], Callable[[Any], Any]]
    decode: Callable[[Schema, Any], Any]


LOGICAL = {
    DECIMAL_NAME: _Logical(Type.BYTES, Decimal, _decimal_encoder, _decimal),
    DATE_NAME: _Logical(Type.INT32, dt.date, lambda _: lambda value: (value - EPOCH_DATE).days, lambda _, v: _date(v)),
    TIME_NAME: _Logical(Type.INT32, dt.time, lambda _: time_ms, lambda _, value: _time(value)),
    TIMESTAMP_NAME: _Logical(Type.INT64, dt.datetime, lambda _: ms_of, lambda _, v: moment_of(v)),
}


def is_logical(schema: Schema | None) -> bool:
    """Return True if values of the schema are those of a logical type of this module."""
    return schema is not None and schema.name in LOGICAL


def encode(schema: Schema, value: Any) -> Any:
    """Return the value of the underlying type. Raises DataError for another type of value."""
    return encoder(schema)(value)


@lru_cache(maxsize=1_000)
def encoder(schema: Schema) -> Callable[[Any], Any]:
    """Return what encodes values of one schema."""
    logical_type = LOGICAL[schema.name or ""]
    python, encode_value = logical_type.python, logical_type.encoder(schema)

    def encode_checked(value: Any) -> Any:
        if not isinstance(value, python) or (python is dt.date and isinstance(value, dt.datetime)):
            raise DataError(
                f"a {(schema.name or '').removeprefix(_PACKAGE)} must be a {python.__name__}, not {value!r}"
            )
        return encode_value(value)

    return encode_checked


def decode(schema: Schema, value: Any) -> Any:
    """Return the logical value of a value of the underlying type. Raises DataError."""
    return LOGICAL[schema.name or ""].decode(schema, value)
