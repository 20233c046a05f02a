"""Functions of arrays, maps and structs, and the table functions.

A table function stands in a SELECT item; query.py turns all of one SELECT into one lateral view, side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.numbers import as_type, common
from odradek.sql.functions.sameness import as_doubles, as_texts, distinct, distinguishable, is_told_apart, positive
from odradek.sql.functions.signature import Function, Mismatch, Types, template
from odradek.sql.types import BOOLEAN, DOUBLE, INT, VARCHAR, Rendered, SqlType, array_of, map_of, struct_of


def _element(kinds: Types) -> SqlType | None:
    return kinds[0].inner[-1] if kinds[0] is not None and kinds[0].inner else None


def _keys(kinds: Types) -> SqlType | None:
    return array_of(kinds[0].inner[0]) if kinds[0] is not None else None


def _values(kinds: Types) -> SqlType | None:
    return array_of(kinds[0].inner[1]) if kinds[0] is not None else None


def _array_concat(arguments: Sequence[Rendered]) -> Rendered:
    kind = common([each.type for each in arguments])
    one, other = (as_type(each, kind) for each in arguments)
    return Rendered(f"coalesce(concat({one}, {other}), {one}, {other})", kind)


def _array_sort(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0].text
    up, down = f"array_sort({value})", f"sort_array({value}, FALSE)"
    if arguments[0].type == array_of(DOUBLE):  # what has no value is the last in both directions
        pair = f"x AS v, {positive('x')} AS p"
        up = f"transform(array_sort(transform({value}, x -> struct(x IS NULL AS n, {pair}))), e -> e.v)"
        down = f"transform(sort_array(transform({value}, x -> struct(x IS NOT NULL AS n, {pair})), FALSE), e -> e.v)"
    if len(arguments) == 1:
        return Rendered(up, arguments[0].type)
    return Rendered(
        f"(CASE WHEN upper({arguments[1].text}) LIKE 'DESC%' THEN {down} "
        f"WHEN upper({arguments[1].text}) LIKE 'ASC%' THEN {up} END)",
        arguments[0].type,
    )


def _inner(value: Rendered) -> SqlType | None:
    return value.type.inner[0] if value.type is not None else None


def _is_same(inner: SqlType | None, wanted: Rendered) -> str:
    """Return whether an element `x` of an array is a value."""
    other = as_type(wanted, DOUBLE) if inner == DOUBLE else wanted.text
    kind = DOUBLE if inner == DOUBLE else inner and wanted.type
    return f"{distinguishable('x', inner)} <=> {distinguishable(other, kind)}"


def _array_remove(arguments: Sequence[Rendered]) -> Rendered:
    value, wanted = arguments
    return Rendered(f"filter({value.text}, x -> NOT ({_is_same(_inner(value), wanted)}))", value.type)


def _array_distinct(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    return Rendered(distinct(value.text, _inner(value)), value.type)


def _array_contains(arguments: Sequence[Rendered]) -> Rendered:
    value, wanted = arguments
    return Rendered(f"coalesce(exists({value.text}, x -> {_is_same(_inner(value), wanted)}), FALSE)", BOOLEAN)


def _of_sets(name: str) -> Function:
    """ARRAY_UNION, ARRAY_EXCEPT and ARRAY_INTERSECT."""
    spark = name.lower()

    def render(arguments: Sequence[Rendered]) -> Rendered:
        kind = common([each.type for each in arguments])
        inner = kind.inner[0] if kind is not None else None
        if inner is None or not is_told_apart(inner):
            return Rendered(f"{spark}({', '.join(each.text for each in arguments)})", kind)
        one, other = (as_type(each, kind) for each in arguments)
        if inner == DOUBLE:
            return Rendered(as_doubles(f"{spark}({as_texts(one)}, {as_texts(other)})"), kind)
        is_in_other = f"exists({other}, y -> {distinguishable('y', inner)} <=> {distinguishable('x', inner)})"
        found = {
            "ARRAY_UNION": f"concat({one}, {other})",
            "ARRAY_EXCEPT": f"filter({one}, x -> NOT {is_in_other})",
            "ARRAY_INTERSECT": f"filter({one}, x -> {is_in_other})",
        }[name]
        return Rendered(f"IF({other} IS NULL, NULL, {distinct(found, inner)})", kind)

    return Function(name, 2, 2, render, ("array",))


def _array_extreme(name: str) -> Function:
    """ARRAY_MAX and ARRAY_MIN."""

    def render(arguments: Sequence[Rendered]) -> Rendered:
        [value] = arguments
        if value.type != array_of(DOUBLE):
            return Rendered(f"{name.lower()}({value.text})", _element([value.type]))
        pairs = f"transform({value.text}, x -> IF(x IS NULL, NULL, struct(x AS v, {positive('x')} AS p)))"
        return Rendered(f"{name.lower()}({pairs}).v", DOUBLE)

    return Function(name, 1, 1, render, ("array",))


def _array_join(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    kind = value.type.inner[0] if value.type is not None else VARCHAR
    if kind.inner:
        raise Mismatch(f"ARRAY_JOIN takes an array of simple values, not {value.type}")
    glue = arguments[1].text if len(arguments) == 2 else "','"
    texts = f"transform({value.text}, x -> coalesce(CAST(x AS STRING), 'null'))"
    return Rendered(f"array_join({texts}, coalesce({glue}, ''))", VARCHAR)


def _slice(arguments: Sequence[Rendered]) -> Rendered:
    value, first, last = (each.text for each in arguments)
    start, end = f"coalesce({first}, 1)", f"coalesce({last}, size({value}))"
    is_inside = f"{start} BETWEEN 1 AND {end} + 1 AND {end} <= size({value})"
    return Rendered(f"IF({is_inside}, slice({value}, {start}, {end} - {start} + 1), NULL)", arguments[0].type)


def _entries(arguments: Sequence[Rendered]) -> Rendered:
    value, is_sorted = arguments
    kind = value.type.inner[1] if value.type is not None else None
    pairs = f"transform(map_entries({value.text}), x -> named_struct('K', x.key, 'V', x.value))"
    ordered = f"array_sort({pairs}, (a, b) -> CASE WHEN a.K < b.K THEN -1 WHEN a.K > b.K THEN 1 ELSE 0 END)"
    known = None if kind is None else array_of(struct_of({"K": VARCHAR, "V": kind}))
    if is_sorted.text in ("TRUE", "FALSE"):
        return Rendered(ordered if is_sorted.text == "TRUE" else pairs, known)
    return Rendered(f"(CASE WHEN {is_sorted.text} THEN {ordered} WHEN NOT {is_sorted.text} THEN {pairs} END)", known)


def _map_union(arguments: Sequence[Rendered]) -> Rendered:
    kind = common([each.type for each in arguments])
    one, other = (as_type(each, kind) for each in arguments)
    return Rendered(f"coalesce(map_concat({one}, {other}), {one}, {other})", kind)


def _as_map(arguments: Sequence[Rendered]) -> Rendered:
    keys, values = arguments
    kind = None
    if keys.type is not None and values.type is not None:
        kind = map_of(keys.type.inner[0], values.type.inner[0])
    pairs = f"zip_with({keys.text}, {values.text}, (k, v) -> struct(k AS k, v AS v))"
    return Rendered(f"map_from_entries(filter({pairs}, x -> x.k IS NOT NULL))", kind)


def _series(arguments: Sequence[Rendered]) -> Rendered:
    kind = common([each.type for each in arguments[:2]]) or INT
    first, last = (f"CAST({each.text} AS {kind.spark})" for each in arguments[:2])
    if len(arguments) == 2:  # it counts down, too
        return Rendered(f"sequence({first}, {last})", array_of(kind))
    number = arguments[2].text
    ok = f"({number} > 0 AND {first} <= {last}) OR ({number} < 0 AND {first} >= {last})"
    return Rendered(f"IF({ok}, sequence({first}, {last}, CAST({number} AS {kind.spark})), NULL)", array_of(kind))


def _explode(arguments: Sequence[Rendered]) -> Rendered:
    return Rendered(arguments[0].text, _element([arguments[0].type]))


def _cube(arguments: Sequence[Rendered]) -> Rendered:
    """Return all combinations of each element and NULL: NULL counts as one, and the last element varies fastest."""
    value = arguments[0]
    kind = value.type.inner[0] if value.type is not None else VARCHAR
    known = array_of(kind)
    empty = f"array(CAST(array() AS {known.spark}))"
    null = f"CAST(NULL AS {kind.spark})"
    longer = (
        f"IF(x IS NULL, transform(a, c -> concat(c, array({null}))), "
        f"flatten(transform(a, c -> array(concat(c, array({null})), concat(c, array(x))))))"
    )
    return Rendered(f"aggregate({value.text}, {empty}, (a, x) -> {longer})", known)


COLLECTIONS = [
    Function("ARRAY_CONCAT", 2, 2, _array_concat, ("array",)),
    Function("ARRAY_CONTAINS", 2, 2, _array_contains, ("array", "any")),
    Function("ARRAY_DISTINCT", 1, 1, _array_distinct, ("array",)),
    _of_sets("ARRAY_EXCEPT"),
    _of_sets("ARRAY_INTERSECT"),
    _of_sets("ARRAY_UNION"),
    Function("ARRAY_JOIN", 1, 2, _array_join, ("array", "text")),
    template("ARRAY_LENGTH", "IF({0} IS NULL, NULL, size({0}))", 1, 1, INT, "array"),
    template("CARDINALITY", "IF({0} IS NULL, NULL, size({0}))", 1, 1, INT, "array|map"),
    _array_extreme("ARRAY_MAX"),
    _array_extreme("ARRAY_MIN"),
    Function("ARRAY_REMOVE", 2, 2, _array_remove, ("array", "any")),
    Function("ARRAY_SORT", 1, 2, _array_sort, ("array", "text")),
    Function("SLICE", 3, 3, _slice, ("array", "INT", "INT")),
    Function("ENTRIES", 2, 2, _entries, ("map", "boolean")),
    Function("GENERATE_SERIES", 2, 3, _series, ("integer",)),
    Function("AS_MAP", 2, 2, _as_map, ("array",)),
    template("MAP_KEYS", "map_keys({0})", 1, 1, _keys, "map"),
    template("MAP_VALUES", "map_values({0})", 1, 1, _values, "map"),
    Function("MAP_UNION", 2, 2, _map_union, ("map",)),
]
TABLE_FUNCTIONS = [
    Function("EXPLODE", 1, 1, _explode, ("array",), "table"),
    Function("CUBE_EXPLODE", 1, 1, _cube, ("array",), "table"),
]
