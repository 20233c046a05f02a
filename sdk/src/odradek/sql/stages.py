"""A query that takes several stateful steps -> a chain of queries, with a stream of its own between two steps.

    FROM a JOIN b WITHIN ... JOIN c ON ...    -> a stream of a JOIN b, and FROM that stream JOIN c
    FROM a JOIN t ON ... GROUP BY ...         -> a stream of a JOIN t, and FROM that stream GROUP BY

The stream between has all columns of its sources, called SOURCE_COLUMN as in SELECT * of a join, in JSON, in a topic of
its own: what ksqlDB's repartition topics are. Each step adds its micro-batches once, so the chain does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from odradek.sql.catalog import Catalog, Source
from odradek.sql.planning.grouping import is_aggregate
from odradek.sql.query import named_items
from odradek.sql.scope import PSEUDO_COLUMNS, Bound, Scope
from odradek.sql.syntax import ColumnRef, Expression, Join, Name, Operation, Query, SelectItem, SourceRef

_KEY = "STAGE_KEY"  # of a stream between two full joins


@dataclass(frozen=True, slots=True)
class Split:
    """A query in two steps."""

    first: Query  # makes the stream between
    rest: Callable[[str], Query]  # the query over the stream between, by its name


def split(query: Query, catalog: Catalog) -> Split | None:
    """Return the first step of a query over streams and the rest; None if one step does it all.

    Raises:
        SqlError: an unknown source or column.
    """
    count = _joins_of_first_step(query, catalog)
    if not count:
        return None
    refs = [query.source, *(join.source for join in query.joins)]
    bounds = {(each.alias or each.name).text: catalog.find(each.name) for each in refs}
    inside = dict(list(bounds.items())[: count + 1])
    after = dict(list(bounds.items())[count + 1 :])
    items = named_items(query, catalog)
    used: set[tuple[str, str]] = set()

    def moved(reference: ColumnRef, between: str) -> ColumnRef:
        alias = _alias(reference, inside, after)
        if alias is None:
            return reference
        if reference.name.text in PSEUDO_COLUMNS:
            used.add((alias, reference.name.text))
        return ColumnRef(
            Name(f"{alias}_{reference.name.text}", reference.at), Name(between, reference.at), reference.at
        )

    def rest(between: str) -> Query:
        changed = replace(
            query,
            items=items,
            source=SourceRef(Name(between, query.source.name.at), None),
            joins=tuple(_by_columns(join, query.joins[:count]) for join in query.joins[count:]),
        )
        return _mapped(changed, lambda each: moved(each, between))  # type: ignore[no-any-return]

    rest("")  # finds the pseudo columns that are used
    items_between: tuple[SelectItem, ...] = (SelectItem(None, None, None, query.at),)
    if query.joins[count - 1].kind == "FULL" and any(join.kind == "FULL" for join in query.joins[count:]):
        # The last join has a key of its own by that name.
        key = ColumnRef(Name(Scope([Bound(*each) for each in inside.items()]).row_key_name, query.at), None, query.at)
        stars = [SelectItem(None, None, Name(alias, query.at), query.at) for alias in inside]
        items_between = (SelectItem(key, Name(_KEY, query.at), None, query.at), *stars)
    times = [
        SelectItem(
            ColumnRef(Name(name, query.at), Name(alias, query.at), query.at),
            Name(f"{alias}_{name}", query.at), None, query.at,
        )
        for alias, name in sorted(used)
    ]  # fmt: skip
    first = Query(
        items=(*items_between, *times), source=query.source, joins=query.joins[:count], window=None, where=None,
        group_by=(), partition_by=(), having=None, emit="CHANGES", limit=None, at=query.at,
    )  # fmt: skip
    return Split(first, rest)


def _by_columns(join: Join, before: Sequence[Join]) -> Join:
    """Return a join in which an expression that an inner join made equal to a column is that column: the key."""
    equal: list[tuple[Expression, Expression]] = []
    for each in before:
        sides = each.condition.operands if isinstance(each.condition, Operation) else ()
        if each.kind == "INNER" and len(sides) == 2:
            equal += [
                (a, b) for a, b in (sides, sides[::-1]) if isinstance(b, ColumnRef) and not isinstance(a, ColumnRef)
            ]
    if not isinstance(join.condition, Operation):
        return join
    operands = [next((b for a, b in equal if a == each), each) for each in join.condition.operands]
    return replace(join, condition=replace(join.condition, operands=tuple(operands)))


def _joins_of_first_step(query: Query, catalog: Catalog) -> int:
    """Return how many joins the first of several steps does; 0 if there is one step."""
    if not query.joins or catalog.find(query.source.name).kind == "TABLE":
        return 0
    kinds = [catalog.find(join.source.name).kind for join in query.joins]
    count = 1
    if kinds[0] == "TABLE":
        while count < len(kinds) and kinds[count] == "TABLE":
            count += 1
    aggregates = bool(query.group_by) or any(
        item.expression is not None and is_aggregate(item.expression) for item in query.items
    )
    return count if count < len(kinds) or aggregates else 0


def _alias(reference: ColumnRef, inside: dict[str, Source], after: dict[str, Source]) -> str | None:
    """Return the source, of those of the first step, that a reference means; None: another one, or none."""
    if reference.source is not None:
        return reference.source.text if reference.source.text in inside else None
    name = reference.name.text
    having = [alias for alias, source in inside.items() if source.column(name) is not None]
    if len(having) != 1 or any(source.column(name) is not None for source in after.values()):
        return None
    return having[0]


def _mapped(node: Any, change: Callable[[ColumnRef], Expression]) -> Any:
    """Return a tree of syntax.py with each reference to a column changed."""
    if isinstance(node, ColumnRef):
        return change(node)
    if isinstance(node, tuple):
        return tuple(_mapped(each, change) for each in node)
    if not is_dataclass(node) or isinstance(node, Name | SourceRef):
        return node
    changed = {each.name: _mapped(getattr(node, each.name), change) for each in fields(node) if each.name != "at"}
    return replace(node, **changed)  # type: ignore[type-var]
