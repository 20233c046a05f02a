"""Types of columns for schemas, and values as a column takes them, of Connect's types and of Debezium's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from odradek.connect.connectors.jdbc.literals import MYSQL, geometry, hstore, literal
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
_KEY_LENGTH_MAX = 255  # of text and bytes in a primary key, of databases that index no TEXT and no BLOB
_BIT_MAX = 1 << 20
_BIT_MAX_OF_MYSQL = 64
_TYPES: dict[Type, Any] = {
    Type.INT8: types.SmallInteger(),
    Type.INT16: types.SmallInteger(),
    Type.INT32: types.Integer(),
    Type.INT64: types.BigInteger(),
    Type.FLOAT32: types.Float().with_variant(postgresql.REAL(), "postgresql"),
    Type.FLOAT64: types.Double(),
    Type.BOOLEAN: types.Boolean(),
    Type.STRING: types.Text().with_variant(mysql.LONGTEXT(), *MYSQL),
    Type.BYTES: types.LargeBinary().with_variant(mysql.LONGBLOB(), *MYSQL),
}
_JSON = types.JSON().with_variant(postgresql.JSONB(), "postgresql")
_TIMESTAMP = types.DateTime().with_variant(mysql.DATETIME(fsp=6), *MYSQL)
_ZONED = types.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), *MYSQL)
_TIME = types.Time().with_variant(mysql.TIME(fsp=6), *MYSQL)
_BITS = (semantic.bits(1).name or "").rpartition(".")[0] + ".Bits"
_NAMED: dict[str | None, Any] = {
    logical.DATE_NAME: types.Date(),
    logical.TIME_NAME: _TIME,
    logical.TIMESTAMP_NAME: _ZONED,
    semantic.DATE.name: types.Date(),
    semantic.TIME.name: _TIME,
    semantic.MICRO_TIME.name: _TIME,
    "io.debezium.time.NanoTime": _TIME,
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
        precision = schema.parameter(logical.PRECISION)
        return types.Numeric(int(precision) if precision else _PRECISION, logical.scale_of(schema))
    if schema.name in _NAMED:
        return _NAMED[schema.name]
    if schema.name == _BITS:
        length = int(schema.parameter("length") or 0)
        exact = postgresql.BIT(length) if 0 < length < _BIT_MAX else postgresql.BIT(varying=True)
        text_type = types.Text().with_variant(exact, "postgresql")
        return text_type.with_variant(mysql.BIT(length), *MYSQL) if 0 < length <= _BIT_MAX_OF_MYSQL else text_type
    if schema.type is Type.STRING and is_key:
        return types.String(_KEY_LENGTH_MAX).with_variant(types.Text(), "postgresql", "sqlite")
    if schema.type is Type.BYTES and is_key:
        return types.LargeBinary().with_variant(mysql.VARBINARY(_KEY_LENGTH_MAX), *MYSQL)
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
    is_other = isinstance(column.type, JsonText | postgresql.BIT)
    if schema is None or schema.type not in _PLAIN or schema.name is not None or is_other:
        return False
    return schema.type is Type.STRING or not isinstance(column.type, types.String)


def binder(column: Any, schema: Schema | None, dialect: str) -> Callable[[Any], Any]:
    """Return what turns values of a schema, or null, into what a column takes. It raises DataError.

    Args:
        dialect: SQLAlchemy's name of it.
    """
    data_type = column.type
    special = _special(data_type, schema, dialect)
    if special is not None:
        return lambda value: value if value is None else special(value)
    is_array, is_text = isinstance(data_type, types.ARRAY), isinstance(data_type, types.String)
    is_exact = isinstance(data_type, types.Numeric) and not isinstance(data_type, types.Float)
    is_local = isinstance(data_type, types.DateTime) and not data_type.timezone
    is_semantic = schema is not None and semantic.is_semantic(schema)

    def bind(value: Any) -> Any:
        if value is None:
            return None
        if is_semantic and not _keeps_plain(data_type, value):
            value = _natural(schema, value, dialect)  # type: ignore[arg-type]
        if type(value) is float:
            return Decimal(repr(value)) if is_exact else to_text(value) if is_text else value
        if isinstance(value, dt.datetime):
            if is_local and value.tzinfo is not None:
                return value.astimezone(dt.UTC).replace(tzinfo=None)
        elif isinstance(value, _NESTED):
            return value if is_array else _json_text(value)
        return to_text(value) if is_text and not isinstance(value, str) else value

    return bind


_NESTED = (Struct, Mapping, list, tuple)
_NUMBERS = (types.Integer, types.Numeric)
_GEOMETRIES = (semantic.POINT.name, semantic.GEOMETRY.name)


def _special(data_type: Any, schema: Schema | None, dialect: str) -> Callable[[Any], Any] | None:
    """Return what makes values of types that only some databases have; None for other columns."""
    name = None if schema is None else schema.name
    if isinstance(data_type, JsonText):
        is_json = name == semantic.JSON.name
        return lambda value: value if is_json and isinstance(value, str) else _json_text(value)
    if isinstance(data_type, mysql.BIT):
        return lambda value: int.from_bytes(value, "little") if isinstance(value, bytes) else value
    if isinstance(data_type, postgresql.BIT):
        length = 0 if data_type.varying else data_type.length or 1
        return lambda value: _bit_text(schema, value).rjust(length, "0")
    if isinstance(data_type, postgresql.HSTORE):
        return hstore
    if isinstance(data_type, types.NullType) and name in _GEOMETRIES:
        return lambda value: geometry(value, dialect)
    if isinstance(data_type, types.ARRAY) and schema is not None and schema.type is Type.ARRAY:
        return lambda value: _elements(schema.elements, value, dialect)
    return None


def _bit_text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, bytes) and semantic.is_semantic(schema):
        value = semantic.natural(schema, value)  # type: ignore[arg-type]
    return str(int(value)) if isinstance(value, bool) else str(value)


def _elements(schema: Schema, values: Sequence[Any], dialect: str) -> list[Any]:
    """Return elements of an array, all of one type: text if one of them is text in place of a date or time."""
    if not semantic.is_semantic(schema):
        return list(values)
    elements = [value if value is None else _natural(schema, value, dialect) for value in values]
    if any(isinstance(value, str) for value in elements):
        return [value if value is None else str(value) for value in elements]
    return elements


def _keeps_plain(data_type: Any, value: Any) -> bool:
    """Return True for a column that takes the plain value: a number for a number, text for text."""
    if isinstance(value, str):
        return isinstance(data_type, types.String)
    return isinstance(value, int) and isinstance(data_type, _NUMBERS)


def _natural(schema: Schema, value: Any, dialect: str) -> Any:
    if schema.name == semantic.JSON.name:
        return value
    try:
        return semantic.natural(schema, value)
    except DataError:
        text = literal(schema, value, dialect)
        if text is None and isinstance(value, str):
            return value  # the database may know it
        if text is None:
            raise
        return text


def _json_text(value: Any) -> str:
    return dump(to_json(None, plain(value))).decode()
