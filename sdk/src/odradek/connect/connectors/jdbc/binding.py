"""Types of columns for schemas, and values as a column takes them, of Connect's types and of Debezium's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.data import logical, semantic
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct, plain
from odradek.connect.data.values import to_text
from odradek.connect.errors import DataError
from odradek.extras import extra

with extra("connect-jdbc"):
    import sqlalchemy as sa
    from sqlalchemy import types
    from sqlalchemy.dialects import mysql, postgresql

_PRECISION = 38
_KEY_CHARS_MAX = 255  # text in a primary key, of databases that index no TEXT
_BIT_MAX = 1 << 20
_TYPES: dict[Type, Any] = {
    Type.INT8: types.SmallInteger(),
    Type.INT16: types.SmallInteger(),
    Type.INT32: types.Integer(),
    Type.INT64: types.BigInteger(),
    Type.FLOAT32: types.Float().with_variant(postgresql.REAL(), "postgresql"),
    Type.FLOAT64: types.Double(),
    Type.BOOLEAN: types.Boolean(),
    Type.STRING: types.Text(),
    Type.BYTES: types.LargeBinary(),
}
_JSON = types.JSON().with_variant(postgresql.JSONB(), "postgresql")
_TIMESTAMP = types.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_ZONED = types.DateTime(timezone=True)
_BITS = (semantic.bits(1).name or "").rpartition(".")[0] + ".Bits"
_NAMED: dict[str | None, Any] = {
    logical.DATE_NAME: types.Date(),
    logical.TIME_NAME: types.Time(),
    logical.TIMESTAMP_NAME: _ZONED,
    semantic.DATE.name: types.Date(),
    semantic.TIME.name: types.Time(),
    semantic.MICRO_TIME.name: types.Time(),
    "io.debezium.time.NanoTime": types.Time(),
    semantic.TIMESTAMP.name: _TIMESTAMP,
    semantic.MICRO_TIMESTAMP.name: _TIMESTAMP,
    "io.debezium.time.NanoTimestamp": _TIMESTAMP,
    semantic.ZONED_TIMESTAMP.name: _ZONED,
    semantic.ZONED_TIME.name: types.Time(timezone=True),
    semantic.MICRO_DURATION.name: types.BigInteger().with_variant(postgresql.INTERVAL(), "postgresql"),
    semantic.INTERVAL.name: types.Text().with_variant(postgresql.INTERVAL(), "postgresql"),
    semantic.JSON.name: _JSON,
    semantic.UUID_TEXT.name: types.Uuid(),
    semantic.VARIABLE_SCALE_DECIMAL.name: types.Numeric(_PRECISION, 10).with_variant(types.Numeric(), "postgresql"),
}


def column_type(schema: Schema, *, is_key: bool = False) -> Any:
    """Return the type of a column for values of a schema; lists, maps and structs are JSON, or arrays in PostgreSQL."""
    if schema.name == logical.DECIMAL_NAME:
        given = schema.parameter(logical.PRECISION)
        return types.Numeric(int(given) if given else _PRECISION, logical.scale_of(schema))
    if schema.name in _NAMED:
        return _NAMED[schema.name]
    if schema.name == _BITS:
        length = int(schema.parameter("length") or 0)
        exact = postgresql.BIT(length) if 0 < length < _BIT_MAX else postgresql.BIT(varying=True)
        return types.Text().with_variant(exact, "postgresql")
    if schema.type is Type.STRING and is_key:
        return types.String(_KEY_CHARS_MAX).with_variant(types.Text(), "postgresql", "sqlite")
    if schema.type is Type.ARRAY and (schema.elements.type.is_primitive or semantic.is_semantic(schema.elements)):
        return types.JSON().with_variant(types.ARRAY(column_type(schema.elements)), "postgresql")
    return _TYPES.get(schema.type, _JSON)


class JsonText(types.UserDefinedType[str]):
    """A JSON column that takes JSON as text, which is what Connect has; a number keeps all of its digits."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"


def take_json_as_text(table: sa.Table) -> sa.Table:
    """Change a reflected table, so that its JSON columns take text."""
    for column in table.c:
        if isinstance(column.type, types.JSON):
            column.type = JsonText()
    return table


_PLAIN = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.STRING})


def takes_plainly(column: Any, schema: Schema | None) -> bool:
    """Return True if `bound` returns every value of a schema as it is."""
    if schema is None or schema.type not in _PLAIN or schema.name is not None or isinstance(column.type, JsonText):
        return False
    return schema.type is Type.STRING or not isinstance(column.type, types.String)


def binder(column: Any, schema: Schema | None) -> Callable[[Any], Any]:
    """Return what turns values of a schema, or null, into what a column takes. It raises DataError."""
    kind = column.type
    if isinstance(kind, JsonText):
        is_json = schema is not None and schema.name == semantic.JSON.name
        return lambda value: value if value is None or (is_json and isinstance(value, str)) else _json_text(value)
    is_array, is_text = isinstance(kind, types.ARRAY), isinstance(kind, types.String)
    is_exact = isinstance(kind, types.Numeric) and not isinstance(kind, types.Float)
    is_local = isinstance(kind, types.DateTime) and not kind.timezone
    is_semantic = schema is not None and semantic.is_semantic(schema)

    def bind(value: Any) -> Any:
        if value is None:
            return None
        if is_semantic and not _keeps_plain(kind, value):
            value = _natural(schema, value)  # type: ignore[arg-type]
        if type(value) is float:
            return Decimal(repr(value)) if is_exact else to_text(value) if is_text else value
        if isinstance(value, dt.datetime):
            if is_local and value.tzinfo is not None:
                return value.astimezone(dt.UTC).replace(tzinfo=None)
        elif isinstance(value, _NESTED):
            return value if is_array else _json_text(value)
        return to_text(value) if is_text and not isinstance(value, str) else value

    if is_array and schema is not None and schema.type is Type.ARRAY and not is_semantic:
        return lambda value: semantic.natural(schema, value)
    return bind


_NESTED = (Struct, Mapping, list, tuple)
_NUMBERS = (types.Integer, types.Numeric)


def _keeps_plain(kind: Any, value: Any) -> bool:
    """Return True for a column that takes the plain value: a number for a number, text for text."""
    if isinstance(value, str):
        return isinstance(kind, types.String)
    return isinstance(value, int) and isinstance(kind, _NUMBERS)


def _natural(schema: Schema, value: Any) -> Any:
    if schema.name == semantic.JSON.name:
        return value
    try:
        return semantic.natural(schema, value)
    except DataError:
        if isinstance(value, str):
            return value  # such as infinity: the database may know it
        if schema.name in (semantic.MICRO_TIMESTAMP.name, semantic.DATE.name) and _is_infinite(schema, value):
            return "infinity" if value > 0 else "-infinity"
        raise


def _is_infinite(schema: Schema, value: int) -> bool:
    return abs(value) >= ((1 << 31) - 1 if schema.type is Type.INT32 else 9_223_372_036_825_200_000)


def _json_text(value: Any) -> str:
    return dump(to_json(None, plain(value))).decode()
