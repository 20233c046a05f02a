"""The columns of a result, and which of them form the key of its records.

A key is found among the columns by its Spark SQL: it has to be selected, as in ksqlDB. PARTITION BY adds it to a star.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odradek.sql.expressions import computed, parts, render
from odradek.sql.functions import FUNCTIONS
from odradek.sql.functions.failures import ARITHMETIC, TAKING_NULL
from odradek.sql.joins import JoinedKey
from odradek.sql.planning.grouping import is_aggregate
from odradek.sql.planning.names import GeneratedNames
from odradek.sql.position import SqlError
from odradek.sql.scope import Scope
from odradek.sql.syntax import (
    Call,
    Cast,
    ColumnRef,
    Expression,
    Field,
    Literal,
    Operation,
    Query,
    SelectItem,
    Subscript,
)
from odradek.sql.types import VARCHAR, SqlType


@dataclass(frozen=True, slots=True)
class Output:
    """One column of a result."""

    name: str
    type: SqlType | None
    text: str  # Spark SQL
    expression: Expression | None  # None: from a star
    item: SelectItem


@dataclass(frozen=True, slots=True)
class _WantedKey:
    """A part of a record's key, to be found among the outputs."""

    shown: str
    texts: tuple[str, ...]  # Spark SQL, any of which is the key
    expression: Expression | None


def result_keys(
    query: Query, scope: Scope, outputs: list[Output], joined: JoinedKey | None, *, passes_nulls: bool
) -> list[str]:
    """Return the names of the outputs that form the key of the records, which it completes.

    Args:
        joined: the key of joined rows; None without a join.
        passes_nulls: the result has records without a value, for which only an expression of the key has a value.

    Raises:
        SqlError: a key column is not selected.
    """
    first = scope.bounds[0]
    if query.partition_by and isinstance(query.partition_by[0], Literal) and query.partition_by[0].kind == "null":
        return []
    if query.group_by:
        wanted = [_wanted(each, scope) for each in query.group_by]
    elif query.partition_by:
        wanted = [_wanted(without_aggregates(each, "PARTITION BY"), scope) for each in query.partition_by]
    elif joined is not None:
        wanted = [_WantedKey(joined.shown, joined.texts, None)]
    else:
        columns = [(each.name, first.render(each.name, each.type).text) for each in first.source.keys]
        wanted = [_WantedKey(name, (text,), None) for name, text in columns]
    keys: list[str] = []
    for each in wanted:
        number = _number_of(each, outputs, keys, query, scope)
        if joined is not None and not query.partition_by and not query.group_by:
            outputs[number] = replace(outputs[number], text=joined.key.text, type=joined.key.type)
        elif passes_nulls and each.expression is not None and _has_value_without_record(each.expression, scope):
            text = f"IF({first.quoted}.__deleted, NULL, {outputs[number].text})"
            outputs[number] = replace(outputs[number], text=text)
        keys.append(outputs[number].name)
    return keys


def without_aggregates(expression: Expression, clause: str) -> Expression:
    """Return an expression. Raises SqlError if it has an aggregate."""
    if is_aggregate(expression):
        raise SqlError(f"{clause} cannot contain an aggregate: use HAVING", expression.at)
    return expression


def _wanted(expression: Expression, scope: Scope) -> _WantedKey:
    shown = expression.name.text if isinstance(expression, ColumnRef) else "of this expression"
    return _WantedKey(shown, (computed(expression, scope).text,), expression)


def _number_of(wanted: _WantedKey, outputs: list[Output], keys: list[str], query: Query, scope: Scope) -> int:
    """Return the number of the output that is a part of the key; PARTITION BY may add one before a star's."""
    for text in wanted.texts:
        for number, each in enumerate(outputs):
            is_same = _is_copy(each.expression) == _is_copy(wanted.expression)
            if each.text == text and is_same and each.name not in keys:
                return number
    starred = any(each.expression is None and each.source is None for each in query.items)
    if not (query.partition_by and starred and wanted.expression is not None):
        raise SqlError(f"the key {wanted.shown} is not selected: a record needs its key, add it to SELECT", query.at)
    expression = wanted.expression
    found = computed(expression, scope)
    names = GeneratedNames({each.name for each in outputs})
    if isinstance(expression, ColumnRef):
        name = expression.name.text
    else:
        name = names.of_field(expression.name.text) if isinstance(expression, Field) else names.next()
    outputs.insert(len(keys), Output(name, found.type, found.text, expression, outputs[0].item))
    return len(keys)


def _is_copy(expression: Expression | None) -> bool:
    return isinstance(expression, Call) and expression.name.folded == "AS_VALUE"


def _has_value_without_record(expression: Expression, scope: Scope) -> bool:
    """Return True if an expression of the value's columns may have a value although all of them are NULL.

    In ksqlDB it has none where there is no value to compute it of. One of the key alone is computed of the key.
    """
    source = scope.bounds[0].source
    is_of_value = not _columns(expression) <= {each.name for each in source.keys}
    return is_of_value and not _is_null_of_nulls(expression, scope)


def _is_null_of_nulls(expression: Expression, scope: Scope) -> bool:
    """Return True if an expression is surely NULL where all columns of the value are."""
    if isinstance(expression, ColumnRef):
        column = scope.bounds[0].source.column(expression.name.text)
        return column is not None and not column.is_key
    if isinstance(expression, Cast | Field | Subscript):
        return _is_null_of_nulls(expression.operand, scope)
    passes_on = (
        isinstance(expression, Operation)
        and expression.operator in ARITHMETIC
        and render(expression, scope).type != VARCHAR  # + of texts has a result for NULL
    )
    if isinstance(expression, Call):
        name = expression.name.folded
        passes_on = name in FUNCTIONS and name not in TAKING_NULL
    return passes_on and any(_is_null_of_nulls(each, scope) for each in parts(expression))


def _columns(expression: Expression) -> set[str]:
    if isinstance(expression, ColumnRef):
        return {expression.name.text}
    return {name for each in parts(expression) for name in _columns(each)}
