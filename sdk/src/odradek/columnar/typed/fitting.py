"""Data of one value (JSON's, Avro's, Protobuf's) as a typed column has it."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from odradek.model import decimals
from odradek.model.kinds import Kind

Fit = Callable[[Any], Any]
INT64, _INT32 = range(-(2**63), 2**63), range(-(2**31), 2**31)


def fitter(data_type: Kind) -> Fit:
    """Return a function from data to a value of a type; None stays None. It raises ValueError if the data do not fit.

    Texts stand for dates, times, moments (ISO 8601; UTC where they name no zone) and decimals, since JSON has no other.
    """
    fit = _SCALARS.get(data_type.name) or _OTHERS[data_type.name](data_type)
    return lambda value: None if value is None else fit(value)


def _misfit(value: Any, data_type: object) -> ValueError:
    return ValueError(f"{type(value).__name__} is not {data_type}")


def _boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    raise _misfit(value, "boolean")


def _int(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value in _INT32:
        return value
    raise _misfit(value, "int")


def _bigint(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value in INT64:
        return value
    raise _misfit(value, "bigint")


def _double(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise _misfit(value, "double")


def _float(value: Any) -> Any:
    number = _double(value)
    struct.pack("<f", number)  # OverflowError: an infinity would come of it
    return number


def _string(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        return as_json(value)
    value.encode()  # UnicodeEncodeError: half a surrogate pair
    return value


def as_json(value: Any) -> str:
    """Return JSON's text of data; what UTF-8 cannot write in it is escaped."""
    text = json.dumps(value, ensure_ascii=False, default=shown)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=shown)
    return text


def shown(value: Any) -> Any:
    """Return data that JSON does not have, as text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)


def _binary(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise _misfit(value, "binary")


def _date(value: Any) -> Any:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise _misfit(value, "date")


def _time(value: Any) -> Any:
    if isinstance(value, str):
        value = time.fromisoformat(value)
    if isinstance(value, time) and value.tzinfo is None:
        return value
    raise _misfit(value, "time")


def _timestamp(value: Any) -> Any:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
        value = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)  # OverflowError: in another year than 1 to 9999, which readers do not have
    raise _misfit(value, "timestamp")


def _timestamp_ntz(value: Any) -> Any:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    raise _misfit(value, "timestamp_ntz")


def _decimal(data_type: Kind) -> Fit:
    most = data_type.precision - data_type.scale  # digits before the point

    def fit(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            raise _misfit(value, data_type)
        number = Decimal(repr(value) if isinstance(value, float) else value)
        if (
            not number.is_finite()
            or (number and number.adjusted() >= most)
            or not decimals.fits(number, data_type.scale)
        ):
            raise _misfit(value, data_type)
        return decimals.rescaled(number, data_type.scale)

    return fit


def _array(data_type: Kind) -> Fit:
    inner = fitter(data_type.inner[0])

    def fit(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [inner(element) for element in value]
        raise _misfit(value, data_type)

    return fit


def _map(data_type: Kind) -> Fit:
    key, inner = map(fitter, data_type.inner)

    def fit(value: Any) -> Any:
        if isinstance(value, dict):
            # Keys may be equal in other spellings, such as 1 and 1.0 of decimals: the last one counts, as of members.
            return list({key(name): inner(content) for name, content in value.items()}.items())
        raise _misfit(value, data_type)

    return fit


def _struct(data_type: Kind) -> Fit:
    fields = [(name, fitter(inner)) for name, inner in data_type.fields.items()]

    def fit(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: inner(value.get(name)) for name, inner in fields}
        raise _misfit(value, data_type)

    return fit


_SCALARS: dict[str, Fit] = {
    "boolean": _boolean,
    "int": _int,
    "bigint": _bigint,
    "float": _float,
    "double": _double,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}
_OTHERS: dict[str, Callable[[Kind], Fit]] = {"decimal": _decimal, "array": _array, "map": _map, "struct": _struct}
