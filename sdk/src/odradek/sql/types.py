"""The types of columns: ksqlDB's names, and their types in Spark.

An unknown type (None in the planner) is that of a Spark function that functions.py does not list.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.sql.position import SqlError
from odradek.sql.syntax import TypeName


@dataclass(frozen=True, slots=True)
class SqlType:
    """A validated type."""

    name: str  # ksqlDB's name
    precision: int = 0  # of a DECIMAL
    scale: int = 0
    inner: tuple[SqlType, ...] = ()  # element; key and value; fields
    fields: tuple[str, ...] = ()  # of a STRUCT

    @property
    def spark(self) -> str:
        """The type in Spark's DDL."""
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.name == "STRUCT":
            inner = ", ".join(
                f"{quote(name)}: {each.spark}" for name, each in zip(self.fields, self.inner, strict=True)
            )
            return f"STRUCT<{inner}>"
        if self.inner:
            return f"{self.name}<{', '.join(each.spark for each in self.inner)}>"
        return _SPARK[self.name]

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.name == "STRUCT":
            return f"STRUCT<{', '.join(f'{n} {t}' for n, t in zip(self.fields, self.inner, strict=True))}>"
        if self.inner:
            return f"{self.name}<{', '.join(map(str, self.inner))}>"
        return self.name

    @property
    def is_number(self) -> bool:
        return self.name in _NUMBERS

    @property
    def is_integer(self) -> bool:
        return self.name in ("INT", "BIGINT")

    def holds_time(self) -> bool:
        """True if the type contains a DATE or TIMESTAMP, at any depth."""
        return self.name in ("DATE", "TIMESTAMP") or any(each.holds_time() for each in self.inner)


VARCHAR = SqlType("VARCHAR")
INT = SqlType("INT")
BIGINT = SqlType("BIGINT")
DOUBLE = SqlType("DOUBLE")
BOOLEAN = SqlType("BOOLEAN")
TIMESTAMP = SqlType("TIMESTAMP")
DATE = SqlType("DATE")
BYTES = SqlType("BYTES")

UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 7 * 86_400_000,
}
_SPARK = {
    "VARCHAR": "STRING",
    "INT": "INT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "TIMESTAMP": "TIMESTAMP",
    "DATE": "DATE",
    "BYTES": "BINARY",
}
_ALIASES = {"STRING": "VARCHAR", "INTEGER": "INT", "BINARY": "BYTES"}
_NUMBERS = ("INT", "BIGINT", "DECIMAL", "DOUBLE")  # in the order of the result of an operation on two
_HINTS = {
    "TIME": "TIME is not supported: use VARCHAR or BIGINT",
    "LONG": "unknown type LONG; did you mean BIGINT?",
    "FLOAT": "unknown type FLOAT; did you mean DOUBLE?",
    "TEXT": "unknown type TEXT; did you mean VARCHAR?",
    "NUMERIC": "unknown type NUMERIC; did you mean DECIMAL?",
    "BOOL": "unknown type BOOL; did you mean BOOLEAN?",
}
_INNER = {"ARRAY": 1, "MAP": 2}
_PRECISION_MAX = 38


def quote(name: str) -> str:
    """Return an identifier quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def array_of(inner: SqlType) -> SqlType:
    return SqlType("ARRAY", inner=(inner,))


def resolve_type(wanted: TypeName) -> SqlType:
    """Validate a type. Raises SqlError at it."""
    name = _ALIASES.get(wanted.name, wanted.name)
    if name in _INNER:
        if len(wanted.inner) != _INNER[name]:
            shape = "ARRAY<element>" if name == "ARRAY" else "MAP<key, value>"
            raise SqlError(f"write the type as {shape}", wanted.at)
        return SqlType(name, inner=tuple(resolve_type(each) for each in wanted.inner))
    if name == "STRUCT":
        if not wanted.fields:
            raise SqlError("write the type as STRUCT<name type, ...>", wanted.at)
        return SqlType(name, inner=tuple(resolve_type(each) for each in wanted.inner), fields=wanted.fields)
    if name in ("DECIMAL", "DEC"):
        if not 1 <= len(wanted.numbers) <= 2 or wanted.inner:
            raise SqlError("write the type as DECIMAL(precision, scale)", wanted.at)
        precision, scale = (*wanted.numbers, 0)[:2]
        if not 0 <= scale <= precision or not 1 <= precision <= _PRECISION_MAX:
            raise SqlError(
                f"a DECIMAL has 1 to {_PRECISION_MAX} digits, of which `scale` are after the point", wanted.at
            )
        return SqlType("DECIMAL", precision, scale)
    if name not in _SPARK or wanted.inner:
        raise SqlError(
            _HINTS.get(name, f"unknown type {wanted.name}: {', '.join((*_SPARK, 'DECIMAL'))}, ARRAY, MAP, STRUCT"),
            wanted.at,
        )
    if wanted.numbers and name != "VARCHAR":
        raise SqlError(f"{name} takes no length", wanted.at)
    return SqlType(name)


def wider(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the type that holds the values of both; None if there is none or it is unknown."""
    if left == right:
        return left
    if left.is_number and right.is_number:
        names = [left.name, right.name]
        if "DECIMAL" in names and "DOUBLE" not in names:
            return None  # precision and scale by Spark's rules
        return SqlType(max(names, key=_NUMBERS.index))
    return None
