"""CREATE OR REPLACE: whether a query can go on from the state of the one before. Pure.

A query keeps where it was in its topics, and with GROUP BY or a join of streams also what it has computed. Both belong
to the statement. So the rules list what they rest on, one fact each, and two statements are compared fact by fact:

    source topics         the offsets are those of these topics, in this order
    joins, window, GROUP BY, aggregate functions, EMIT      the state is theirs
    columns kept          of a join of streams: the rows that wait for a match have them
    topic, formats        where the result goes, and how its records are written
    key columns, columns  of the result; columns may be added behind those that are there

These are ksqlDB's rules where they apply; docs/SQL.md lists what is allowed beyond. WHERE, HAVING and expressions of
columns may change: the new statement is applied to the records that come. The facts are written beside the checkpoint
of a query, so that a script which was changed between two runs is compared as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from odradek.sql.catalog import Column, Source
from odradek.sql.expressions import parts, render
from odradek.sql.planning.grouping import is_aggregate
from odradek.sql.position import SqlError
from odradek.sql.scope import Scope
from odradek.sql.syntax import (
    Call,
    Cast,
    ColumnRef,
    Construct,
    Expression,
    Field,
    Join,
    Lambda,
    Literal,
    Name,
    Operation,
    Query,
    Subscript,
    TypeName,
    Window,
)

Rules = tuple[tuple[str, str], ...]  # the name of a rule, and what must stay the same


@dataclass(frozen=True, slots=True)
class Basis:
    """What the state and the rows of a query, or the rows of a stream or table, rest on."""

    rules: Rules
    keys: tuple[str, ...]  # name and type of each key column
    values: tuple[str, ...]  # and of each other column, in order
    is_between: bool = False  # of a step before the last: its columns are found by name, in any order

    def document(self) -> bytes:
        """Return the basis as JSON."""
        found = {"rules": self.rules, "keys": self.keys, "values": self.values, "is_between": self.is_between}
        return json.dumps(found, ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> Basis | None:
        """Return what was written; None for what is none, such as a file that a crash cut short."""
        try:
            found = json.loads(data)
            rules = tuple((str(name), str(value)) for name, value in found["rules"])
            return cls(rules, tuple(found["keys"]), tuple(found["values"]), bool(found["is_between"]))
        except (ValueError, KeyError, TypeError):
            return None


def of_source(source: Source) -> Basis:
    """Return what the rows of a stream or table rest on."""
    formats = f"key {source.key_format}, value {source.value_format}"
    timestamp = " ".join(filter(None, (source.timestamp, source.timestamp_format))) or "the record's"
    windows = f"{source.window} {source.window_ms}".strip() or "none"
    rules = (("topic", source.topic), ("formats", formats), ("timestamp column", timestamp), ("windows", windows))
    values = [each for each in source.columns if not each.is_key]
    return Basis(rules, _columns(source.keys), _columns(values))


def of_query(rules: Rules, target: Source, *, is_between: bool = False) -> Basis:
    """Return what a persistent query rests on. Args: rules: of its state; target: the stream or table that it fills."""
    made = of_source(target)
    return replace(made, rules=(*rules, *made.rules), is_between=is_between)


def difference(before: Basis, after: Basis) -> str | None:
    """Return the rule that a change breaks, with what it would change; None for a change that goes on."""
    for name in dict.fromkeys(name for name, _ in (*before.rules, *after.rules)):
        old, new = dict(before.rules).get(name, "none"), dict(after.rules).get(name, "none")
        if old != new:
            return f"{name} must stay the same: {old}, not {new}"
    if before.keys != after.keys:
        return f"key columns must stay the same: {_shown(before.keys)}, not {_shown(after.keys)}"
    there = after.values if before.is_between else after.values[: len(before.values)]
    changed = [each for number, each in enumerate(before.values)
               if (each not in there if before.is_between else there[number : number + 1] != (each,))]  # fmt: skip
    if changed:
        return f"columns may only be added at the end: {_shown(changed)} changed, missing or in another place"
    return None


def check_replaced(source: Source, name: Name, before: Sequence[Basis], after: Sequence[Basis]) -> None:
    """Raise SqlError unless what a statement makes can take the place of what there is.

    Args:
        source: the stream or table that it makes.
        before, after: of the stream or table, or of each step of its query.
    """
    broken = changed(before, after)
    if broken is not None:
        made = f"{source.kind} {name.text}"
        again = f"DROP {made}, then CREATE {made}"
        if source.query_id:
            again = f"DROP {made} DELETE TOPIC, then CREATE {made} with 'auto.offset.reset' = 'earliest'"
        raise SqlError(
            f"{name.text} cannot be replaced: {broken}. Create it under a new name, or start from the beginning: "
            f"{again}",
            name.at,
        )


def changed(before: Sequence[Basis], after: Sequence[Basis]) -> str | None:
    """Return the rule that a change of a query in steps breaks; None for a change that goes on."""
    for old, new in zip(before, after, strict=False):
        broken = difference(old, new)
        if broken is not None:
            return broken
    if len(before) != len(after):
        return f"joins must stay the same: they take {len(before)} steps, not {len(after)}"
    return None


def kept_state(query: Query, scope: Scope, *, waits: bool, is_final: bool) -> Rules:
    """Return the rules of a query's state. Args: waits: a join of streams keeps rows until they match."""
    sources = [each.source for each in scope.bounds]
    found = [("source topics", ", ".join(_topic(each) for each in sources))]
    if query.joins:
        texts = [_join(join, source, scope) for join, source in zip(query.joins, sources[1:], strict=True)]
        found.append(("joins", "; ".join(texts)))
    if waits:
        found.append(("columns kept", ", ".join(_used(query, scope))))
    if query.window is not None:
        found.append(("window", _window(query.window)))
    if query.group_by:
        found.append(("GROUP BY", ", ".join(_written(each, scope) for each in query.group_by)))
        found.append(("aggregate functions", ", ".join(_aggregates(query, scope)) or "none"))
        found.append(("EMIT", "FINAL" if is_final else "CHANGES"))
    if query.partition_by:
        found.append(("PARTITION BY", ", ".join(_written(each, scope) for each in query.partition_by)))
    return tuple(found)


def _columns(columns: Iterable[Column]) -> tuple[str, ...]:
    return tuple(f"{each.name} {each.type}{' HEADER' if each.is_header else ''}" for each in columns)


def _shown(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "none"


def _topic(source: Source) -> str:
    timestamp = f", time {source.timestamp}" if source.timestamp else ""
    return f"{source.topic} ({source.kind.lower()}, {source.key_format}, {source.value_format}{timestamp})"


def _join(join: Join, source: Source, scope: Scope) -> str:
    within = ""
    if join.within is not None:
        grace = "" if join.within.grace is None else f" grace {join.within.grace.ms} ms"
        within = f" within {join.within.before.ms}, {join.within.after.ms} ms{grace}"
    return f"{join.kind} {source.name}{within} on {_written(join.condition, scope)}"


def _window(window: Window) -> str:
    lengths = [("", window.size), ("advance by ", window.advance), ("grace ", window.grace)]
    return f"{window.kind} {', '.join(f'{word}{each.ms} ms' for word, each in lengths if each is not None)}"


def _aggregates(query: Query, scope: Scope) -> list[str]:
    """Return the calls of aggregates, once each, in the order in which the state has them."""
    found: dict[str, None] = {}

    def visit(node: Expression) -> None:
        if isinstance(node, Call) and is_aggregate(node) and not any(is_aggregate(each) for each in parts(node)):
            types = ", ".join(str(render(each, scope).type or "?") for each in node.arguments
                              if not isinstance(each, Lambda))  # fmt: skip
            found[f"{_written(node, scope)}{f' of {types}' if types else ''}"] = None
            return
        for each in parts(node):
            visit(each)

    for item in query.items:
        if item.expression is not None:
            visit(item.expression)
    if query.having is not None:
        visit(query.having)
    return list(found)


def _used(query: Query, scope: Scope) -> list[str]:
    """Return the columns of the sources that a query uses, with their types: all of a source for a star."""
    names: set[tuple[str, str]] = set()

    def visit(node: Expression) -> None:
        if isinstance(node, ColumnRef) and (found := _place(node, scope)) is not None:
            names.add(found)
        for each in parts(node):
            visit(each)

    expressions = [item.expression for item in query.items if item.expression is not None]
    expressions += [join.condition for join in query.joins]
    expressions += [query.where] if query.where is not None else []
    for each in (*expressions, *query.partition_by):
        visit(each)
    starred = [each.source for each in query.items if each.expression is None]
    found = []
    for bound in scope.bounds:
        is_whole = any(each is None or each.text == bound.alias for each in starred)
        wanted = [each for each in bound.source.columns if is_whole or (bound.alias, each.name) in names]
        found += [f"{bound.source.name}.{each.name} {each.type}" for each in wanted]
    return found


def _place(reference: ColumnRef, scope: Scope) -> tuple[str, str] | None:
    """Return the alias of the source that has a column, and the column's name; None for what is no column."""
    name = reference.name.text
    for bound in scope.bounds:
        if reference.source is not None and reference.source.text == bound.alias:
            return (bound.alias, name) if bound.source.column(name) is not None else None
    wanted = name if reference.source is None else reference.source.text  # the latter: a field of a struct
    having = [each for each in scope.bounds if each.source.column(wanted) is not None]
    return (having[0].alias, wanted) if len(having) == 1 else None


def _written(node: Expression | Name | TypeName, scope: Scope) -> str:
    """Return an expression as text: the same for two that mean the same columns, however they name them."""

    def each_of(nodes: Iterable[Expression]) -> str:
        return ", ".join(_written(each, scope) for each in nodes)

    if isinstance(node, Literal):
        return f"'{node.text}'" if node.kind == "string" else node.text
    if isinstance(node, ColumnRef):
        return _reference(node, scope)
    if isinstance(node, Call):
        inside = "*" if node.star else f"{'DISTINCT ' if node.distinct else ''}{each_of(node.arguments)}"
        return f"{node.name.folded}({inside})"
    if isinstance(node, Operation):
        shape = f"{'!' if node.has_operand else ''}{'?' if node.has_default else ''}"
        if len(node.operands) == 2 and not shape:
            return f"({_written(node.operands[0], scope)} {node.operator} {_written(node.operands[1], scope)})"
        return f"{node.operator}{shape}({each_of(node.operands)})"
    if isinstance(node, Cast):
        return f"CAST({_written(node.operand, scope)} AS {_written(node.type, scope)})"
    if isinstance(node, Field):
        return f"{_written(node.operand, scope)}->{node.name.text}"
    if isinstance(node, Subscript):
        return f"{_written(node.operand, scope)}[{_written(node.index, scope)}]"
    if isinstance(node, Construct):
        keys = ", ".join(_written(each, scope) for each in node.keys)
        return f"{node.kind}({keys}: {each_of(node.values)})"
    if isinstance(node, Lambda):
        return f"({', '.join(each.text for each in node.parameters)}) => {_written(node.body, scope)}"
    if isinstance(node, TypeName):
        inside = ", ".join([*(str(each) for each in node.numbers), *(_written(each, scope) for each in node.inner)])
        return f"{node.name}({', '.join(node.fields)}: {inside})" if node.fields else f"{node.name}({inside})"
    return node.text


def _reference(node: ColumnRef, scope: Scope) -> str:
    place = _place(node, scope)
    if place is None:  # a column of rows, such as ROWTIME, or the parameter of a lambda
        return node.name.text if node.source is None else f"{node.source.text}.{node.name.text}"
    alias, name = place
    sources = [each.source.name for each in scope.bounds]
    [source] = [each.source.name for each in scope.bounds if each.alias == alias]
    shown = "" if len(sources) == 1 else f"{source}." if sources.count(source) == 1 else f"{alias}."
    return f"{shown}{name}{'' if node.name.text == name else f'.{node.name.text}'}"
