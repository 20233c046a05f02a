"""Shared by the JDBC source and sink: the engine, its errors, and types of columns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from uuid import UUID

from odradek.connect.config import ConfigDef, Kind, non_empty
from odradek.connect.connectors.jdbc.literals import MYSQL
from odradek.connect.connectors.jdbc.queries import as_number
from odradek.connect.converters.json import dump
from odradek.connect.data import logical, semantic
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import to_text
from odradek.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from odradek.extras import extra
from odradek.model import decimals

with extra("connect-jdbc"):
    import sqlalchemy as sa
    from sqlalchemy import exc, types
    from sqlalchemy.dialects import mysql
    from sqlalchemy.event import listens_for

DATABASE = (
    ConfigDef()
    .define(
        "connection.url", Kind.STRING,
        documentation="SQLAlchemy's URL, such as postgresql+psycopg://host/database; jdbc: in front is understood.",
        importance="HIGH", allowed=non_empty(),
    )
    .define("connection.user", Kind.STRING, None, "The user.", importance="HIGH")
    .define("connection.password", Kind.PASSWORD, None, "The password.", importance="HIGH")
)  # fmt: skip


def open_engine(options: Mapping[str, Any]) -> sa.Engine:
    """Return the engine of a database. Raises ConfigError for a URL that is none, or without its driver."""
    text = re.sub(r"^jdbc:", "", options["connection.url"])
    try:
        url = sa.make_url(text)
        if options["connection.user"]:
            url = url.set(username=options["connection.user"], password=options["connection.password"])
        engine = sa.create_engine(url, pool_pre_ping=True, **_options(url))
    except exc.ArgumentError as error:
        raise ConfigError({"connection.url": [f"connection.url: {error}"]}) from None
    except ModuleNotFoundError as error:
        raise ConfigError(
            {"connection.url": [f"the driver of this database is not installed: pip install {error.name}"]}
        ) from None
    if engine.dialect.name in MYSQL:
        listens_for(engine, "connect")(_use_utc)
    return engine


def _use_utc(connection: Any, _: object) -> None:
    """Let a TIMESTAMP of MySQL be in UTC: it is in the zone of the session, which may be the server's."""
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")


def _options(url: sa.URL) -> dict[str, Any]:
    """Return what makes drivers give JSON as the text that it is: numbers keep their digits, and null is not NULL."""
    if url.get_backend_name() not in ("postgresql", "mysql", "mariadb"):
        return {}
    return {"json_deserializer": lambda text: text.decode() if isinstance(text, bytes) else text}


@contextmanager
def translated(failure: str) -> Iterator[None]:
    """Turn SQLAlchemy's errors into RetriableError (the database is away or locked) or ConnectError."""
    try:
        yield
    except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError, exc.DisconnectionError) as error:
        if _is_refused_value(error):
            raise ConnectError(f"{failure}: {_short(error)}") from error
        raise RetriableError(f"{failure}: {_short(error)}") from error
    except exc.SQLAlchemyError as error:
        raise ConnectError(f"{failure}: {_short(error)}") from error


# Errors of MySQL and MariaDB about a value, which their drivers take for errors of operation: out of range,
# truncated, incorrect, too long, not a geometry, not JSON, refused by a check.
_REFUSED_VALUES = frozenset({1264, 1265, 1292, 1366, 1406, 1411, 1416, 1441, 1525, 1690, 3037, 3140, 3819, 4025})


def _is_refused_value(error: Exception) -> bool:
    """Return True for an error that the same row would have at every repetition."""
    arguments: tuple[Any, ...] = getattr(getattr(error, "orig", None), "args", ())
    return bool(arguments) and arguments[0] in _REFUSED_VALUES


def _short(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error)


# --- columns to Connect -----------------------------------------------------------------------------------------------


def column_schema(column: Any, numeric_mapping: str = "none") -> Schema:
    """Return the schema of a table's column; `numeric_mapping` as Confluent's `numeric.mapping`."""
    data_type = column.type
    schema: Schema
    is_unsigned = bool(getattr(data_type, "unsigned", False))
    if isinstance(data_type, types.SmallInteger):
        schema = schemas.INT32 if is_unsigned else schemas.INT16
    elif isinstance(data_type, types.BigInteger):
        schema = logical.decimal(0) if is_unsigned else schemas.INT64
    elif isinstance(data_type, types.Integer):
        schema = schemas.INT64 if is_unsigned else schemas.INT32
    elif isinstance(data_type, types.Float):
        schema = schemas.FLOAT64
    elif isinstance(data_type, types.Numeric):
        schema = _exact(data_type, numeric_mapping)
    else:
        schema = next((schema for base, schema in _OTHER if isinstance(data_type, base)), schemas.STRING)
    return schema.as_optional(bool(column.nullable))


def _exact(numeric_type: types.Numeric[Any], numeric_mapping: str) -> Schema:
    if not numeric_type.asdecimal:
        return schemas.FLOAT64
    if numeric_type.scale is not None:
        return _mapped(logical.decimal(numeric_type.scale), numeric_type, numeric_mapping)
    # Each value has a scale of its own.
    return schemas.FLOAT64 if numeric_mapping == "best_fit_eager_double" else semantic.VARIABLE_SCALE_DECIMAL


def _mapped(exact: Schema, numeric_type: types.Numeric[Any], mapping: str) -> Schema:
    """Return the schema of an exact number: a Decimal, or a number of the machine that has room for it."""
    precision, scale = numeric_type.precision, numeric_type.scale or 0
    fits = precision is not None and precision <= _DIGITS_OF_INT64
    if mapping == "none" or (scale > 0 and mapping == "precision_only"):
        return exact
    if scale > 0:
        return schemas.FLOAT64 if fits or mapping == "best_fit_eager_double" else exact
    if not fits:
        return exact
    assert precision is not None
    return next((schema for digits, schema in _INTEGERS if precision <= digits), schemas.INT64)


_DIGITS_OF_INT64 = 18
_INTEGERS = ((2, schemas.INT8), (4, schemas.INT16), (9, schemas.INT32))

_OTHER: tuple[tuple[type, Schema], ...] = (
    (types.Boolean, schemas.BOOLEAN),
    (types.DateTime, logical.TIMESTAMP),
    (types.Date, logical.DATE),
    (types.Time, logical.TIME),
    (types.LargeBinary, schemas.BYTES),
    (types.JSON, semantic.JSON),
    (mysql.YEAR, schemas.INT32),
    (mysql.BIT, schemas.INT64),
)


def fitted(schema: Schema, value: Any) -> Any:
    """Return a column's value as its schema has it."""
    if value is None:
        return None
    if schema.name == logical.DECIMAL_NAME:
        number = as_number(value)
        return None if _is_null(schema, number) else decimals.rounded(number, logical.scale_of(schema))
    if schema.name == semantic.VARIABLE_SCALE_DECIMAL.name:
        number = as_number(value)
        return None if _is_null(schema, number) else semantic.variable_scale(number)
    if schema.name in _EPOCH and isinstance(value, str):  # MySQL's 0000-00-00 is no date
        return None if schema.optional else _EPOCH[schema.name]
    if schema.name == logical.TIME_NAME and isinstance(value, dt.timedelta):
        return _time_of_day(value)
    if schema.type in (Type.FLOAT64, Type.FLOAT32):
        return float(value)
    if isinstance(value, Decimal) and schema.type in (Type.INT8, Type.INT16, Type.INT32, Type.INT64):
        return int(value)
    if schema.name == logical.TIMESTAMP_NAME and isinstance(value, dt.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return value.astimezone(dt.UTC)
    if schema.type is Type.BYTES:
        return bytes(value)
    if schema.type is Type.STRING and not isinstance(value, str):
        return str(value) if isinstance(value, UUID) else _as_text(value)
    return value


def _is_null(schema: Schema, number: Decimal) -> bool:
    """Return True for NaN and infinity, which an exact number is not, in a column that may be null."""
    return schema.optional and not number.is_finite()


_EPOCH: dict[str | None, Any] = {logical.DATE_NAME: logical.EPOCH_DATE, logical.TIMESTAMP_NAME: logical.EPOCH}


def _time_of_day(value: dt.timedelta) -> dt.time:
    if not dt.timedelta() <= value < dt.timedelta(days=1):
        raise DataError(f"the time {value} is none of a day, which Connect's Time is")
    return (dt.datetime.min + value).time()


def _as_text(value: Any) -> str:
    """Return JSON for lists and objects, and the text form of others."""
    return dump(value).decode() if isinstance(value, dict | list) else to_text(value)


def as_struct(schema: Schema, row: Mapping[str, Any]) -> Struct:
    """Return a row as a struct."""
    return Struct(schema, {field.name: fitted(field.schema, row[field.name]) for field in schema.fields})
