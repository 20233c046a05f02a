"""Text in a database's own syntax, for values of change capture that Python's types do not have.

PostgreSQL   24:00:00; dates and timestamps before the year 1 and after 9999; infinity; hstore; points
MySQL        times below 0 and of more than a day; geometries as the server stores them
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from odradek.connect.data import semantic
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct

MYSQL = ("mysql", "mariadb")
_DAY_US = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the calendar repeats
_INFINITE_DAYS = (1 << 31) - 1
_INFINITE_US = 9_223_372_036_825_200_000


def literal(schema: Schema, value: Any, dialect: str) -> str | None:
    """Return the text of a date or time that semantic.natural refuses; None if the database does not have it.

    Args:
        dialect: SQLAlchemy's name of it.
    """
    is_time = schema.name in (semantic.TIME.name, semantic.MICRO_TIME.name)
    if is_time and dialect in (*MYSQL, "postgresql"):
        return _clock(value if schema.type is Type.INT64 else value * 1_000)
    if dialect != "postgresql":
        return None
    if schema.name == semantic.ZONED_TIMESTAMP.name:
        return _zoned(value)
    scale = _SCALES.get(schema.name)
    return None if scale is None else _moment(value, *scale)


_SCALES: dict[str | None, tuple[int, int]] = {  # microseconds of 1, and the least value that is infinity
    semantic.DATE.name: (_DAY_US, _INFINITE_DAYS),
    semantic.TIMESTAMP.name: (1_000, _INFINITE_US // 1_000),
    semantic.MICRO_TIMESTAMP.name: (1, _INFINITE_US),
}


def _moment(value: int, scale: int, infinite: int) -> str:
    if abs(value) >= infinite:
        return "infinity" if value > 0 else "-infinity"
    days, micros = divmod(value * scale, _DAY_US)
    cycles, day_of_cycle = divmod(days, _CYCLE_DAYS)
    moment = semantic.natural(semantic.DATE, day_of_cycle)  # 1970 to 2369
    date = _date(moment.year + cycles * _CYCLE_YEARS, f"-{moment.month:02}-{moment.day:02}")
    return date(f" {_clock(micros)}" if scale < _DAY_US else "")


def _date(year: int, month_and_day: str) -> Callable[[str], str]:
    """Return what makes the text of a date around a time. The year 0 is 1 BC."""
    if year > 0:
        return lambda clock: f"{year:04}{month_and_day}{clock}"
    return lambda clock: f"{1 - year:04}{month_and_day}{clock} BC"


def _zoned(text: str) -> str:
    """Return +10000-01-01T00:00:00Z and -0043-03-15T12:00:00Z as PostgreSQL writes them, other text as it is."""
    sign, date_text = text[:1], text[1:]
    year, _, behind = date_text.partition("-")
    if sign not in ("+", "-") or not year.isdigit():
        return text  # such as infinity
    month_and_day, _, clock = behind.partition("T")
    return _date(int(sign + year), f"-{month_and_day}")(f" {clock}")


def _clock(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text


def hstore(value: str | Mapping[str, str | None]) -> str:
    """Return the pairs of a map, or of a JSON object, as hstore."""
    pairs = json.loads(value) if isinstance(value, str) else value
    return ", ".join(f"{_quoted(key)}=>{'NULL' if item is None else _quoted(item)}" for key, item in pairs.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def geometry(value: Struct, dialect: str) -> bytes | str:
    """Return a point or geometry for a column of such a type.

    MySQL stores the number of the reference system in four bytes, then the well-known binary. PostgreSQL's own type
    is the point.
    """
    if dialect in MYSQL:
        return struct.pack("<I", value["srid"] or 0) + bytes(value["wkb"])
    if value.schema.name == semantic.POINT.name:
        return f"({value['x']!r},{value['y']!r})"
    return bytes(value["wkb"]).hex()
