"""Schemas of a query's columns: from what the driver says of their types, so that no batch of rows decides them.

Drivers of PostgreSQL and MySQL tell the types of columns. Of a column that a driver says nothing about, such as
SQLite's, the values decide: a later value that does not fit widens the type, and never narrows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from odradek.connect.data import logical, semantic
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.values import infer_schema

_DECIMAL_OF = {"postgresql": (1700,), "mysql": (0, 246), "mariadb": (0, 246)}
_OF_POSTGRES: dict[int, Schema] = {
    16: schemas.BOOLEAN, 17: schemas.BYTES, 1082: logical.DATE, 1083: logical.TIME, 2950: schemas.STRING,
    **dict.fromkeys((20, 21, 23, 26), schemas.INT64),
    **dict.fromkeys((700, 701), schemas.FLOAT64),
    **dict.fromkeys((1114, 1184), logical.TIMESTAMP),
    **dict.fromkeys((114, 3802), semantic.JSON),
    **dict.fromkeys((18, 19, 25, 1042, 1043), schemas.STRING),
}  # fmt: skip
"""By the number of a type in pg_type."""
_OF_MYSQL: dict[int, Schema] = {
    **dict.fromkeys((1, 2, 3, 9, 13), schemas.INT64),
    **dict.fromkeys((4, 5), schemas.FLOAT64),
    **dict.fromkeys((7, 12), logical.TIMESTAMP),
    10: logical.DATE,
    245: semantic.JSON,
}
"""By the number of a type in MySQL's protocol; text and bytes have the same ones there."""
_KNOWN = {"postgresql": _OF_POSTGRES, "mysql": _OF_MYSQL, "mariadb": _OF_MYSQL}


class QuerySchema:
    """The schema of one query.

    Args:
        dialect: SQLAlchemy's name of the database.
    """

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._inferred: dict[str, Schema] = {}

    def of(self, description: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> Schema:
        """Return the schema of a batch of rows. Args: the cursor's description (PEP 249)."""
        described = {str(column[0]): self._described(column) for column in description}
        fields = {}
        for name in rows[0]:
            column_schema = described.get(name)
            if column_schema is None:
                column_schema = self._widened(name, [row[name] for row in rows])
            fields[name] = column_schema.as_optional()
        return schemas.struct(fields)

    def _described(self, column: Any) -> Schema | None:
        type_code, scale = column[1], column[5]
        if type_code in _DECIMAL_OF.get(self._dialect, ()):
            return semantic.VARIABLE_SCALE_DECIMAL if scale is None else logical.decimal(int(scale))
        return _KNOWN.get(self._dialect, {}).get(type_code)

    def _widened(self, name: str, values: Sequence[Any]) -> Schema:
        common_schema = self._inferred.get(name)
        for value in values:
            if value is not None:
                common_schema = _common(common_schema, infer_schema(value))
        if common_schema is None:
            return schemas.STRING
        self._inferred[name] = common_schema
        return common_schema


def _common(one: Schema | None, other: Schema | None) -> Schema:
    """Return a schema for values of both."""
    if other is None or not (other.type.is_primitive or other.name):
        return schemas.STRING
    if one is None or one == other:
        return semantic.VARIABLE_SCALE_DECIMAL if other.name == logical.DECIMAL_NAME else other
    numbers = (Type.INT64, Type.FLOAT64)
    exact = (logical.DECIMAL_NAME, semantic.VARIABLE_SCALE_DECIMAL.name)
    if one.name in exact and (other.name in exact or other == schemas.INT64):
        return semantic.VARIABLE_SCALE_DECIMAL
    if other.name in exact and one == schemas.INT64:
        return semantic.VARIABLE_SCALE_DECIMAL
    if one.name is other.name is None and one.type in numbers and other.type in numbers:
        return schemas.FLOAT64
    return schemas.STRING


def as_number(value: Any) -> Decimal:
    """Return a number of a driver, exactly."""
    return value if isinstance(value, Decimal) else Decimal(str(value))
