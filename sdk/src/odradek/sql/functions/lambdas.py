"""The functions that take lambdas. As in ksqlDB, one element for which a lambda fails makes all of the result NULL.

A lambda that is long is computed to a pair for each element, of its value and whether it is an error: `pair`.

A map is read as its entries: a key and a value become fields of an entry. As Java's maps have it, a result that is a
map has no NULL as a value, and TRANSFORM none of its keys twice: such a result is NULL too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from odradek.sql.functions.failures import any_of
from odradek.sql.functions.signature import Function
from odradek.sql.types import NEVER, Rendered, array_of, map_of


def _filter(arguments: Sequence[Rendered]) -> Rendered:
    value, test = arguments
    if test.pair:
        return Rendered(_filtered_by_pairs(value, test), value.type)
    if not _is_map(value):
        wrong = any_of([test.fails, f"{_body(test)} IS NULL"])
        found = f"filter({value.text}, {test.text})"
        return Rendered(_unless(f"exists({value.text}, {_parameters(test)} -> {wrong})", found), value.type)
    entry = _entry(test)
    each = _of_entry(test, entry)
    wrong = any_of([each.fails, f"{_body(each)} IS NULL", f"({_body(each)} AND {entry}.value IS NULL)"])
    found = f"map_filter({value.text}, {test.text})"
    return Rendered(_unless(f"exists(map_entries({value.text}), {entry} -> {wrong})", found), value.type)


def _filtered_by_pairs(value: Rendered, test: Rendered) -> str:
    elements, name, wrong = value.text, _parameters(test), ["e.p.e", "e.p.v IS NULL"]
    if _is_map(value):
        name = _entry(test)
        test, elements = _of_entry(test, name), f"map_entries({value.text})"
        wrong.append("(e.p.v AND e.x.value IS NULL)")
    kept = "transform(filter(q, e -> e.p.v), e -> e.x)"
    found = _unless(f"exists(q, e -> {any_of(wrong)})", f"map_from_entries({kept})" if _is_map(value) else kept)
    return f"transform(array(transform({elements}, {name} -> struct({name} AS x, {test.pair} AS p))), q -> {found})[0]"


def _transform(arguments: Sequence[Rendered]) -> Rendered:
    value, change = arguments[:2]
    if len(arguments) == 2:
        kind = None if change.type is None else array_of(change.type)
        if change.pair:
            pairs = f"transform({value.text}, {_parameters(change)} -> {change.pair})"
            found = _unless("exists(q, e -> e.e)", "transform(q, e -> e.v)")
            return Rendered(f"transform(array({pairs}), q -> {found})[0]", kind)
        found = f"transform({value.text}, {change.text})"
        wrong = f"exists({value.text}, {_parameters(change)} -> {change.fails})"
        return Rendered(found if change.fails == NEVER else _unless(wrong, found), kind)
    entry = _entry(change)
    keys, values = (_of_entry(each, entry) for each in arguments[1:])
    kind = map_of(keys.type, values.type) if keys.type is not None and values.type is not None else None
    entries = f"map_entries({value.text})"
    if keys.pair or values.pair:
        pairs = f"transform({entries}, {entry} -> struct({_pair(keys)} AS k, {_pair(values)} AS v))"
        wrong = "exists(q, e -> e.k.e OR e.v.e OR e.v.v IS NULL)"
        distinct = "size(array_distinct(transform(q, e -> e.k.v)))"
        there = "filter(transform(q, e -> struct(e.k.v AS k, e.v.v AS v)), e -> e.k IS NOT NULL)"
        found = _unless(f"{wrong} OR {distinct} < size(q)", f"map_from_entries({there})")
        return Rendered(f"transform(array({pairs}), q -> {found})[0]", kind)
    wrong = any_of([keys.fails, values.fails, f"{_body(values)} IS NULL"])
    distinct = f"size(array_distinct(transform({entries}, {keys.text})))"
    pair = f"struct({_body(keys)} AS k, {_body(values)} AS v)"
    found = f"map_from_entries(filter(transform({entries}, {entry} -> {pair}), e -> e.k IS NOT NULL))"
    return Rendered(_unless(f"exists({entries}, {entry} -> {wrong}) OR {distinct} < size({entries})", found), kind)


def _reduce(arguments: Sequence[Rendered]) -> Rendered:
    value, state, step = arguments
    kind = state.type or step.type
    elements = value.text
    if _is_map(value):
        held, element = _names(step)[0], _entry(step)
        step = _of_entry(step, element)
        elements = f"map_entries({elements})"
    else:
        held, element = _names(step)
    start, body = state.text, _body(step)
    if kind is not None:
        start, body = f"CAST({start} AS {kind.spark})", f"CAST({body} AS {kind.spark})"
    if step.fails == NEVER:
        found = f"aggregate({elements}, {start}, ({held}, {element}) -> {body})"
    else:  # a step that fails is remembered: a later one may have a value without it
        wrong, body, pair = (re.sub(rf"\b{held}\b", f"{held}.state", each) for each in (step.fails, body, step.pair))
        failed = f"struct({held}.state AS state, TRUE AS failed)"
        next_ = f"IF({held}.failed OR {wrong}, {failed}, struct({body} AS state, FALSE AS failed))"
        if pair:
            result = "p.v" if kind is None else f"CAST(p.v AS {kind.spark})"
            step_ = f"IF(p.e, {failed}, struct({result} AS state, FALSE AS failed))"
            next_ = f"IF({held}.failed, {failed}, transform(array({pair}), p -> {step_})[0])"
        found = (
            f"aggregate({elements}, struct({start} AS state, FALSE AS failed), ({held}, {element}) -> {next_}, "
            f"{held} -> IF({held}.failed, NULL, {held}.state))"
        )
    return Rendered(
        f"CASE WHEN {start} IS NULL THEN NULL WHEN {value.text} IS NULL THEN {start} ELSE {found} END", kind
    )


def _is_map(value: Rendered) -> bool:
    return value.type is not None and value.type.name == "MAP"


def _unless(wrong: str, found: str) -> str:
    return f"IF({wrong}, NULL, {found})"


def _parameters(lambda_: Rendered) -> str:
    return lambda_.text.partition(" -> ")[0]


def _names(lambda_: Rendered) -> list[str]:
    return [each.strip() for each in _parameters(lambda_).strip("()").split(",")]


def _body(lambda_: Rendered) -> str:
    return lambda_.text.partition(" -> ")[2]


def _entry(lambda_: Rendered) -> str:
    """Return the name of an entry: one of its own for each lambda, since lambdas are nested."""
    return f"{_names(lambda_)[-1]}_entry"


def _of_entry(lambda_: Rendered, entry: str) -> Rendered:
    """Return a lambda whose last two parameters are a key and a value as one of an entry."""
    *_, key, value = _names(lambda_)

    def read(text: str) -> str:
        return re.sub(rf"\b{value}\b", f"{entry}.value", re.sub(rf"\b{key}\b", f"{entry}.key", text))

    return Rendered(f"{entry} -> {read(_body(lambda_))}", lambda_.type, read(lambda_.fails), read(lambda_.pair))


def _pair(lambda_: Rendered) -> str:
    return lambda_.pair or f"struct({_body(lambda_)} AS v, {lambda_.fails} AS e)"


WITH_LAMBDAS = [
    Function("FILTER", 2, 2, _filter, ("array|map", "any"), lambdas=True),
    Function("TRANSFORM", 2, 3, _transform, ("array|map", "any"), lambdas=True),
    Function("REDUCE", 3, 3, _reduce, ("array|map", "any"), lambdas=True),
]
