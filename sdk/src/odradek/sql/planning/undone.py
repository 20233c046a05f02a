"""A group of a table that has no rows any more: its row stays, with what its aggregates give for no rows.

ksqlDB undoes what a row had added, and so a group ends with COUNT 0 and SUM 0, not with a tombstone; HAVING is asked of
it as of any other row. The key of such a group is in the topic of the result, its aggregates are computed of nothing:

    SELECT items FROM gone CROSS JOIN (SELECT aggregates FROM sources WHERE FALSE) AS undone WHERE having

in which each GROUP BY expression is a column of `gone`, and each aggregate one of `undone`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from odradek.sql.catalog import Column, Source
from odradek.sql.expressions import computed, filtering, parts, render
from odradek.sql.planning.grouping import is_aggregate
from odradek.sql.scope import Bound, Scope
from odradek.sql.syntax import Call, ColumnRef, Expression, Name, SourceRef
from odradek.sql.types import SqlType, quote

GONE = "gone"
_UNDONE = "undone"


def undone_sql(
    items: Mapping[str, Expression],
    groups: Sequence[tuple[Expression, str, SqlType | None]],
    having: Expression | None,
    sources: str,
    scope: Scope,
) -> str:
    """Return the statement over `gone`: the columns of the result's key, and __time.

    Args:
        items: expressions by the names of the result.
        groups: each GROUP BY expression, with name and type of its column in the result.
        sources: FROM of the query.
        scope: its names.
    """
    texts = [render(each, scope).text for each, _, _ in groups]
    aggregates: list[Call] = []

    def changed(node: Expression) -> Expression | None:
        for (group, name, _), text in zip(groups, texts, strict=True):
            if node == group or (isinstance(node, ColumnRef) and _text(node, scope) == text):
                return _column(GONE, name, node)
        if isinstance(node, Call) and is_aggregate(node) and not any(is_aggregate(each) for each in parts(node)):
            if node not in aggregates:
                aggregates.append(node)
            return _column(_UNDONE, f"a{aggregates.index(node)}", node)
        return None

    shown = {name: _mapped(each, changed) for name, each in items.items()}
    kept = None if having is None else _mapped(having, changed)
    rendered = [render(each, scope) for each in aggregates]
    keys = [(name, kind) for _, name, kind in groups]
    values = [(f"a{number}", each.type) for number, each in enumerate(rendered)]
    inside = Scope([_bound(GONE, keys), _bound(_UNDONE, values)], types=scope.types, collected=scope.collected)
    columns = [f"{computed(each, inside).text} AS {quote(name)}" for name, each in shown.items()]
    nothing = ", ".join(f"{each.text} AS `{name}`" for (name, _), each in zip(values, rendered, strict=True)) or "1"
    sql = f"SELECT {', '.join(columns)}, {quote(GONE)}.__time AS __time FROM {quote(GONE)} "
    sql += f"CROSS JOIN (SELECT {nothing} FROM {sources} WHERE FALSE) AS {quote(_UNDONE)}"
    return sql + ("" if kept is None else f" WHERE {filtering(kept, inside, 'HAVING')}")


def _text(reference: ColumnRef, scope: Scope) -> str:
    """Return a column in Spark's words; empty for a name that is none, such as a parameter of a lambda."""
    known = reference.source is not None or any(each.source.column(reference.name.text) for each in scope.bounds)
    return scope.resolve(reference).text if known else ""


def _column(bound: str, name: str, node: Expression) -> ColumnRef:
    return ColumnRef(Name(name, node.at), Name(bound, node.at), node.at)


def _bound(alias: str, columns: Sequence[tuple[str, SqlType | None]]) -> Bound:
    made = tuple(Column(name, kind, False, True) for name, kind in columns)  # type: ignore[arg-type]  # not known
    return Bound(alias, Source("STREAM", alias, "", made))


def _mapped(node: Any, change: Callable[[Expression], Expression | None]) -> Any:
    """Return a tree of syntax.py in which `change` replaced what it returns something for."""
    if isinstance(node, tuple):
        return tuple(_mapped(each, change) for each in node)
    if not is_dataclass(node) or isinstance(node, Name | SourceRef):
        return node
    if hasattr(node, "at") and (found := change(node)) is not None:  # type: ignore[arg-type]
        return found
    inner = {each.name: _mapped(getattr(node, each.name), change) for each in fields(node) if each.name != "at"}
    return replace(node, **inner)  # type: ignore[type-var]
