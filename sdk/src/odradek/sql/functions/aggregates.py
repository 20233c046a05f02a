"""Aggregate functions. ORDER in an expression is the position of a record in its log.

NULL is ignored, except by COLLECT_LIST, COLLECT_SET and ATTR; SUM of nothing is 0. Without an argument a function
takes ROWTIME. COLLECTED in COLLECT_LIST and COLLECT_SET is the number of elements that they keep: a setting.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.sameness import distinct
from odradek.sql.functions.signature import ANY, Function, Mismatch, template
from odradek.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    TIMESTAMP,
    VARCHAR,
    Rendered,
    SqlType,
    array_of,
    decimal_of,
    map_of,
    struct_of,
)  # fmt: skip

ORDER = "__odradek_order__"  # expressions.py replaces it, and this:
COLLECTED = "__odradek_collected__"
COLLECTED_MAX = 1000


def _sum(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    kind = value.type or DOUBLE
    if kind.name == "ARRAY":
        inner = kind.inner[0]
        if not inner.is_number:
            raise Mismatch(f"SUM takes numbers, not {kind}")
        wide = decimal_of(38, inner.scale).spark if inner.name == "DECIMAL" else inner.spark
        one = f"aggregate({value.text}, CAST(0 AS {wide}), (a, x) -> CAST(a + coalesce(x, 0) AS {wide}))"
        if inner.name == "DECIMAL":
            return Rendered(_exact_sum(one, f"count({value.text})", inner), inner)
        return Rendered(f"CAST(coalesce(sum({one}), 0) AS {inner.spark})", inner)
    if kind.name == "DECIMAL":
        return Rendered(_exact_sum(value.text, f"count({value.text})", kind), kind)
    return Rendered(f"CAST(coalesce(sum({value.text}), 0) AS {kind.spark})", kind)


def _exact_sum(value: str, count: str, kind: SqlType) -> str:
    """Return a sum of DECIMALs: one with more digits than the type ends the query, as in ksqlDB, and is not NULL."""
    problem = f"SUM has more digits than {kind}: CAST the values to a DECIMAL with more"
    wrong = f"IF({count} = 0, CAST(0 AS {kind.spark}), raise_error('{problem}'))"
    return f"coalesce(CAST(sum({value}) AS {kind.spark}), CAST({wrong} AS {kind.spark}))"


def ordered(value: str) -> str:
    """Return all values of a group in the order of the log."""
    pairs = f"collect_list(struct({ORDER} AS o, {value} AS v))"
    return f"transform(array_sort({pairs}, (a, b) -> CASE WHEN a.o < b.o THEN -1 ELSE 1 END), s -> s.v)"


def _collect_list(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    known = None if value.type is None else array_of(value.type)
    return Rendered(f"slice({ordered(value.text)}, 1, {COLLECTED})", known)


def _collect_set(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    known = None if value.type is None else array_of(value.type)
    return Rendered(f"slice({distinct(ordered(value.text), value.type)}, 1, {COLLECTED})", known)


def _topk(name: str, distinct: bool) -> Function:
    def render(arguments: Sequence[Rendered]) -> Rendered:
        value, *others, count = arguments
        if not count.text.isdigit():
            raise Mismatch(f"the last argument of {name} is a number, how many: {name}(x, 3)", len(arguments) - 1)
        kind = value.type or DOUBLE
        if not (kind.is_number or kind.is_time or kind.name in ("VARCHAR", "BYTES")):
            raise Mismatch(f"{name} takes numbers, texts, bytes and times, not {kind}")
        if others:
            if distinct:
                raise Mismatch(f"{name} takes a value and a number", 1)
            names = ["sort_col", *(f"col{number}" for number in range(len(others)))]
            pairs = ", ".join(f"'{n}', {each.text}" for n, each in zip(names, [value, *others], strict=True))
            known = struct_of({n: each.type or VARCHAR for n, each in zip(names, [value, *others], strict=True)})
            rows = f"collect_list(named_struct({pairs})) FILTER (WHERE {value.text} IS NOT NULL)"
            best = f"array_sort({rows}, (a, b) -> CASE WHEN a.sort_col > b.sort_col THEN -1 ELSE 1 END)"
            return Rendered(f"slice({best}, 1, {count.text})", array_of(known))
        gathered = f"collect_{'set' if distinct else 'list'}({value.text})"
        return Rendered(f"slice(sort_array({gathered}, FALSE), 1, {count.text})", array_of(kind))

    return Function(name, 2, ANY, render, kind="aggregate")


def _by_offset(name: str, *, latest: bool) -> Function:
    def render(arguments: Sequence[Rendered]) -> Rendered:
        value, *rest = arguments
        number = next((each.text for each in rest if each.text.isdigit()), None)
        keep_nulls = any(each.text == "FALSE" for each in rest)
        if any(not each.text.isdigit() and each.text not in ("TRUE", "FALSE") for each in rest):
            raise Mismatch(f"write {name}(x, n, TRUE | FALSE)", 1)
        where = "" if keep_nulls else f" FILTER (WHERE {value.text} IS NOT NULL)"
        if number is None:
            # By way of a struct: max_by skips a value that is NULL.
            pick = "max_by" if latest else "min_by"
            return Rendered(f"{pick}(struct({value.text} AS v), {ORDER}){where}.v", value.type)
        pairs = f"collect_list(struct({ORDER} AS o, {value.text} AS v)){where}"
        values = f"transform(array_sort({pairs}, (a, b) -> CASE WHEN a.o < b.o THEN -1 ELSE 1 END), s -> s.v)"
        cut = f"slice({values}, greatest(size({values}) - {number} + 1, 1), {number})"
        known = None if value.type is None else array_of(value.type)
        return Rendered(cut if latest else f"slice({values}, 1, {number})", known)

    return Function(name, 1, 3, render, kind="aggregate")


def _histogram(arguments: Sequence[Rendered]) -> Rendered:
    values = f"collect_list({arguments[0].text})"
    names = f"slice(array_distinct({values}), 1, {COLLECTED_MAX})"
    counts = f"transform({names}, n -> CAST(size(filter({values}, v -> v = n)) AS BIGINT))"
    return Rendered(f"map_from_arrays({names}, {counts})", map_of(VARCHAR, BIGINT))


def _attr(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    values = distinct(ordered(value.text), value.type)
    return Rendered(f"IF(size({values}) = 1, element_at({values}, 1), NULL)", value.type)


def _correlation(arguments: Sequence[Rendered]) -> Rendered:
    one, other = (f"CAST({each.text} AS DOUBLE)" for each in arguments)
    return Rendered(f"coalesce(corr({one}, {other}), double('NaN'))", DOUBLE)


def _extreme(name: str) -> Function:
    return template(name, f"{name.lower()}({{0}})", 1, 1, 0, "number|time|text|bytes", kind="aggregate")


AGGREGATES = [
    template("COUNT", "count({0})", 1, 1, BIGINT, kind="aggregate"),
    Function("SUM", 1, 1, _sum, ("number|array",), "aggregate"),
    Function("SUM_LIST", 1, 1, _sum, ("array",), "aggregate"),
    template("AVG", "coalesce(avg(CAST({0} AS DOUBLE)), 0D)", 1, 1, DOUBLE, "number", kind="aggregate"),
    _extreme("MIN"),
    _extreme("MAX"),
    template("COUNT_DISTINCT", "approx_count_distinct({0})", 1, 1, BIGINT, kind="aggregate"),
    _by_offset("LATEST_BY_OFFSET", latest=True),
    _by_offset("EARLIEST_BY_OFFSET", latest=False),
    Function("COLLECT_LIST", 1, 1, _collect_list, (), "aggregate"),
    Function("COLLECT_SET", 1, 1, _collect_set, (), "aggregate"),
    _topk("TOPK", distinct=False),
    _topk("TOPKDISTINCT", distinct=True),
    Function("HISTOGRAM", 1, 1, _histogram, ("text",), "aggregate"),
    Function("ATTR", 1, 1, _attr, (), "aggregate"),
    # ksqlDB's STDDEV_SAMP is the variance; it says so itself, and STDDEV_SAMPLE is the root of it.
    template("STDDEV_SAMP", "coalesce(var_samp({0}), 0D)", 1, 1, DOUBLE, "number", kind="aggregate"),
    template("STDDEV_SAMPLE", "coalesce(stddev_samp({0}), 0D)", 1, 1, DOUBLE, "number", kind="aggregate"),
    Function("CORRELATION", 2, 2, _correlation, ("number",), "aggregate"),
]

# Aggregates of Spark that are passed on by name.
SPARK_AGGREGATES = frozenset({
    "APPROX_COUNT_DISTINCT", "APPROX_PERCENTILE", "PERCENTILE_APPROX", "ANY_VALUE", "BIT_AND", "BIT_OR", "BIT_XOR",
    "BOOL_AND", "BOOL_OR", "CORR", "COUNT_IF", "COUNT_MIN_SKETCH", "COVAR_POP", "COVAR_SAMP", "EVERY", "SOME",
    "FIRST", "FIRST_VALUE", "LAST", "LAST_VALUE", "KURTOSIS", "SKEWNESS", "MAX_BY", "MIN_BY", "MEAN", "MEDIAN",
    "MODE", "PERCENTILE", "PERCENTILE_CONT", "STD", "STDDEV", "STDDEV_POP", "VARIANCE", "VAR_POP", "VAR_SAMP",
    "TRY_AVG", "TRY_SUM", "REGR_SLOPE", "APPROX_TOP_K", "HISTOGRAM_NUMERIC", "LISTAGG", "STRING_AGG",
    "HLL_SKETCH_AGG", "ARRAY_AGG", "BITMAP_CONSTRUCT_AGG",
})  # fmt: skip
# Types of functions of Spark's own.
SPARK_TYPES: dict[str, SqlType] = {
    "HOUR": INT, "MINUTE": INT, "SECOND": INT, "YEAR": INT, "MONTH": INT, "DAY": INT, "DAYOFWEEK": INT,
    "LENGTH": INT, "SHA1": VARCHAR, "MD5": VARCHAR, "REVERSE": VARCHAR, "DATE_FORMAT": VARCHAR, "TO_JSON": VARCHAR,
    "TIMESTAMP_MILLIS": TIMESTAMP, "TO_TIMESTAMP": TIMESTAMP, "TO_DATE": DATE, "MEDIAN": DOUBLE, "MEAN": DOUBLE,
    "STDDEV": DOUBLE, "VARIANCE": DOUBLE, "APPROX_COUNT_DISTINCT": BIGINT, "COUNT_IF": BIGINT, "STARTSWITH": BOOLEAN,
    "ENDSWITH": BOOLEAN, "CONTAINS": BOOLEAN, "HEX": VARCHAR, "LEFT": VARCHAR,
    "RIGHT": VARCHAR, "DATE_TRUNC": TIMESTAMP,
}  # fmt: skip
