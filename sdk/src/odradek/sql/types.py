"""The types of columns: ksqlDB's names, their types in Spark, and the result of an operation on two of them.

A TIME is held as INT, milliseconds of the day: what the formats write, and Spark's own TIME is not everywhere yet.
An unknown type (None in the planner) is that of NULL, or of a Spark function that functions/ does not list.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    def decimal(self) -> tuple[int, int]:
        """Precision and scale of a number, as ksqlDB counts them when it meets a DECIMAL."""
        if self.name == "DECIMAL":
            return self.precision, self.scale
        return _AS_DECIMAL[self.name], 0

    @property
    def is_time(self) -> bool:
        return self.name in _TIMES

    @property
    def is_number(self) -> bool:
        return self.name in _NUMBERS

    @property
    def is_integer(self) -> bool:
        return self.name in ("INT", "BIGINT")

    def holds_time(self) -> bool:
        """True if the type contains a DATE, TIME or TIMESTAMP, at any depth."""
        return self.is_time or any(each.holds_time() for each in self.inner)

    def holds(self, name: str) -> bool:
        """True if the type is or contains the named one, at any depth."""
        return self.name == name or any(each.holds(name) for each in self.inner)


NEVER = "FALSE"


@dataclass(frozen=True, slots=True)
class Rendered:
    """An expression of Spark SQL with its type."""

    text: str
    type: SqlType | None  # None: not known, or NULL
    fails: str = NEVER  # a condition, TRUE where it is an error (functions/failures.py): of a lambda, and of a part
    pair: str = ""  # of a lambda whose body is long: its body and `fails` as a struct of v and e


VARCHAR = SqlType("VARCHAR")
INT = SqlType("INT")
BIGINT = SqlType("BIGINT")
DOUBLE = SqlType("DOUBLE")
BOOLEAN = SqlType("BOOLEAN")
TIMESTAMP = SqlType("TIMESTAMP")
DATE = SqlType("DATE")
BYTES = SqlType("BYTES")
TIME = SqlType("TIME")

VARCHARS = SqlType("ARRAY", inner=(VARCHAR,))

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
    "TIME": "INT",
    "BYTES": "BINARY",
}
_ALIASES = {"STRING": "VARCHAR", "INTEGER": "INT", "BINARY": "BYTES"}
_NUMBERS = ("INT", "BIGINT", "DECIMAL", "DOUBLE")  # in the order of the result of an operation on two
_HINTS = {
    "LONG": "unknown type LONG; did you mean BIGINT?",
    "FLOAT": "unknown type FLOAT; did you mean DOUBLE?",
    "TEXT": "unknown type TEXT; did you mean VARCHAR?",
    "NUMERIC": "unknown type NUMERIC; did you mean DECIMAL?",
    "BOOL": "unknown type BOOL; did you mean BOOLEAN?",
}
_INNER = {"ARRAY": 1, "MAP": 2}
_TIMES = ("DATE", "TIME", "TIMESTAMP")
_AS_DECIMAL = {"INT": 10, "BIGINT": 19, "DOUBLE": 38}
_PRECISION_MAX = 38


def quote(name: str) -> str:
    """Return an identifier quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def array_of(inner: SqlType) -> SqlType:
    return SqlType("ARRAY", inner=(inner,))


def map_of(key: SqlType, value: SqlType) -> SqlType:
    return SqlType("MAP", inner=(key, value))


def struct_of(fields: Mapping[str, SqlType]) -> SqlType:
    return SqlType("STRUCT", inner=tuple(fields.values()), fields=tuple(fields))


def resolve_type(wanted: TypeName, custom: Mapping[str, SqlType] | None = None) -> SqlType:
    """Validate a type. Args: types of CREATE TYPE by name. Raises SqlError at the type."""
    name = _ALIASES.get(wanted.name, wanted.name)
    if custom and name in custom and not wanted.inner:
        return custom[name]
    if name in _INNER:
        if len(wanted.inner) != _INNER[name]:
            shape = "ARRAY<element>" if name == "ARRAY" else "MAP<key, value>"
            raise SqlError(f"write the type as {shape}", wanted.at)
        return SqlType(name, inner=tuple(resolve_type(each, custom) for each in wanted.inner))
    if name == "STRUCT":
        return SqlType(name, inner=tuple(resolve_type(each, custom) for each in wanted.inner), fields=wanted.fields)
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


def decimal_of(precision: int, scale: int) -> SqlType:
    """Return a DECIMAL; beyond 38 digits, those after the point give way, down to six."""
    if precision > _PRECISION_MAX:
        scale = max(min(scale, 6), scale - (precision - _PRECISION_MAX))
        precision = _PRECISION_MAX
    return SqlType("DECIMAL", precision, scale)


def wider(left: SqlType | None, right: SqlType | None) -> SqlType | None:
    """Return the type that holds the values of both; None if there is none. NULL fits any type."""
    if left is None or right is None or left == right:
        return left or right
    if left.is_number and right.is_number:
        names = [left.name, right.name]
        if "DOUBLE" in names:
            return DOUBLE
        if "DECIMAL" in names:
            (p1, s1), (p2, s2) = left.decimal, right.decimal
            scale = max(s1, s2)
            return decimal_of(max(p1 - s1, p2 - s2) + scale, scale)
        return SqlType(max(names, key=_NUMBERS.index))
    if left.name == right.name == "STRUCT":
        fields = dict(zip(left.fields, left.inner, strict=True))
        for name, kind in zip(right.fields, right.inner, strict=True):
            found = wider(fields[name], kind) if name in fields else kind
            if found is None:
                return None
            fields[name] = found
        return SqlType("STRUCT", inner=tuple(fields.values()), fields=tuple(fields))
    if left.name == right.name and left.inner:
        inner = [wider(one, other) for one, other in zip(left.inner, right.inner, strict=True)]
        known = [each for each in inner if each is not None]
        return SqlType(left.name, inner=tuple(known)) if len(known) == len(inner) else None
    return None


def arithmetic(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """Return the type of `left operator right` for two numbers: DECIMALs by ksqlDB's rules of precision and scale."""
    if DOUBLE in (left, right):
        return DOUBLE
    if "DECIMAL" not in (left.name, right.name):
        return SqlType(max((left.name, right.name), key=_NUMBERS.index))
    (p1, s1), (p2, s2) = left.decimal, right.decimal
    if operator in ("+", "-"):
        scale = max(s1, s2)
        return decimal_of(scale + max(p1 - s1, p2 - s2) + 1, scale)
    if operator == "*":
        return decimal_of(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal_of(p1 - s1 + s2 + scale, scale)
    return decimal_of(min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))


def fits(found: SqlType, wanted: SqlType, *, from_text: bool = False) -> bool:
    """Return True if a value can be stored without loss; a literal time may be text, a DECIMAL any number."""
    if found == wanted:
        return True
    order = ("INT", "BIGINT", "DECIMAL", "DOUBLE")
    if found.name in order and wanted.name in order:
        return order.index(found.name) <= order.index(wanted.name) or (from_text and wanted.name == "DECIMAL")
    if from_text and found.name == "VARCHAR" and wanted.is_time:
        return True
    return found.name == wanted.name and bool(found.inner)
