"""Functions of a user's own, in Python: a module declares them, and a script names the module.

    import pyarrow as pa
    import pyarrow.compute as pc
    from odradek.sql import aggregate, scalar, table

    @scalar(takes="DOUBLE, DOUBLE", returns="DOUBLE")
    def hypotenuse(a: pa.Array, b: pa.Array) -> pa.Array:      # columns of a batch in, a column of the same length out
        return pc.sqrt(pc.add(pc.multiply(a, a), pc.multiply(b, b)))

    @aggregate(takes="DOUBLE", returns="DOUBLE")
    def spread(values: pa.Array) -> float:                     # the values of a group, in the order of the log
        return pc.subtract(pc.max(values), pc.min(values)).as_py()

    @table(takes="VARCHAR", returns="VARCHAR", by_row=True)
    def words(text: str | None) -> list[str]:                  # by_row: plain values of one row
        return (text or "").split()

The decorators only mark a function; planning/own_functions.py loads a module, running/own.py runs it in Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__odradek_function__"


@dataclass(frozen=True, slots=True)
class Declared:
    """What a decorator says of a function."""

    kind: str  # scalar | aggregate | table
    takes: str  # types, separated by commas
    returns: str  # a type; of a table function, that of an element
    name: str  # empty: the function's own
    by_row: bool


def scalar(*, takes: str, returns: str, name: str = "", by_row: bool = False) -> Callable[[F], F]:
    """Mark a function of columns: Arrow arrays in, an array of the same length out.

    Args:
        takes: types of the arguments, separated by commas: "VARCHAR, DECIMAL(10, 2)".
        returns: type of the result.
        name: in SQL; default: the function's name. Case does not count.
        by_row: it takes and returns plain values of one row. An exception makes the result NULL.
    """
    return _marking(Declared("scalar", takes, returns, name, by_row))


def aggregate(*, takes: str, returns: str, name: str = "") -> Callable[[F], F]:
    """Mark a function of groups: for each argument an Arrow array of the group's values, in the order of the log, in; a
    plain value out. The values of a group are its state."""
    return _marking(Declared("aggregate", takes, returns, name, False))


def table(*, takes: str, returns: str, name: str = "", by_row: bool = False) -> Callable[[F], F]:
    """Mark a function that makes rows of one: as `scalar`, with a list of elements as the result of each row."""
    return _marking(Declared("table", takes, returns, name, by_row))


def _marking(declared: Declared) -> Callable[[F], F]:
    def mark(function: F) -> F:
        setattr(function, MARK, declared)
        return function

    return mark
