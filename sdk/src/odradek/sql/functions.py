"""ksqlDB's functions as Spark SQL. Functions that are not listed are passed to Spark by name, with an unknown type.

A template names its arguments {0}, {1} ... ({*} is all of them). `result` is a type, or the number of the argument
whose type it has, or "array" of argument 0. {order} is the position of a record in its log.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    array_of,
)

Result = SqlType | int | str | None


@dataclass(frozen=True, slots=True)
class Function:
    """One function."""

    template: str
    least: int  # number of arguments
    most: int
    result: Result
    is_aggregate: bool = False

    def result_type(self, arguments: list[SqlType | None]) -> SqlType | None:
        if isinstance(self.result, SqlType) or self.result is None:
            return self.result
        if isinstance(self.result, int):
            return arguments[self.result] if self.result < len(arguments) else None
        first = arguments[0] if arguments else None
        if self.result == "array":
            return None if first is None else array_of(first)
        if first is None or not first.inner:
            return None
        if self.result == "element":
            return first.inner[-1]
        if self.result == "keys":
            return array_of(first.inner[0])
        if self.result == "sum":
            return first
        return array_of(first.inner[-1])  # values


def _sum(kind: SqlType | None) -> SqlType | None:
    if kind is None or kind.name == "DECIMAL":
        return None
    return DOUBLE if kind == DOUBLE else BIGINT


def sum_type(argument: SqlType | None) -> SqlType | None:
    """Return the type of SUM: BIGINT for whole numbers, so that it does not overflow."""
    return _sum(argument)


_ANY = 99
_VARIADIC = "{*}"


def _aggregates() -> dict[str, Function]:
    def one(template: str, result: Result, least: int = 1, most: int = 1) -> Function:
        return Function(template, least, most, result, is_aggregate=True)

    return {
        "COUNT": one("count({0})", BIGINT),
        "SUM": one("sum({0})", None),
        "AVG": one("avg({0})", DOUBLE),
        "MIN": one("min({0})", 0),
        "MAX": one("max({0})", 0),
        "COUNT_DISTINCT": one("approx_count_distinct({0})", BIGINT),
        "LATEST_BY_OFFSET": one("max_by({0}, {order}) FILTER (WHERE {0} IS NOT NULL)", 0),
        "EARLIEST_BY_OFFSET": one("min_by({0}, {order}) FILTER (WHERE {0} IS NOT NULL)", 0),
        "COLLECT_LIST": one("collect_list({0})", "array"),
        "COLLECT_SET": one("array_sort(collect_set({0}))", "array"),
        "TOPK": one("slice(sort_array(collect_list({0}), false), 1, {1})", "array", 2, 2),
        "TOPKDISTINCT": one("slice(sort_array(collect_set({0}), false), 1, {1})", "array", 2, 2),
        "STDDEV_SAMP": one("stddev_samp({0})", DOUBLE),
        "STDDEV_SAMPLE": one("stddev_samp({0})", DOUBLE),
        "CORRELATION": one("corr({0}, {1})", DOUBLE, 2, 2),
    }


def _scalars() -> dict[str, Function]:
    def f(template: str, least: int, most: int, result: Result) -> Function:
        return Function(template, least, most, result)

    return {
        # numbers
        "ABS": f("abs({0})", 1, 1, 0),
        "CEIL": f("ceil({0})", 1, 1, None),
        "FLOOR": f("floor({0})", 1, 1, None),
        "ROUND": f("round({*})", 1, 2, None),
        "SQRT": f("sqrt({0})", 1, 1, DOUBLE),
        "EXP": f("exp({0})", 1, 1, DOUBLE),
        "LN": f("ln({0})", 1, 1, DOUBLE),
        "LOG": f("log({*})", 1, 2, DOUBLE),
        "POWER": f("power({0}, {1})", 2, 2, DOUBLE),
        "SIGN": f("CAST(sign({0}) AS INT)", 1, 1, INT),
        "GREATEST": f("greatest({*})", 2, _ANY, 0),
        "LEAST": f("least({*})", 2, _ANY, 0),
        "GEO_DISTANCE": f(
            "(2 * 6371 * asin(sqrt(pow(sin(radians({2} - {0}) / 2), 2)"
            " + cos(radians({0})) * cos(radians({2})) * pow(sin(radians({3} - {1}) / 2), 2))))",
            4,
            4,
            DOUBLE,
        ),
        # nulls
        "COALESCE": f("coalesce({*})", 1, _ANY, 0),
        "IFNULL": f("coalesce({0}, {1})", 2, 2, 0),
        "NULLIF": f("nullif({0}, {1})", 2, 2, 0),
        # strings
        "UCASE": f("upper({0})", 1, 1, VARCHAR),
        "LCASE": f("lower({0})", 1, 1, VARCHAR),
        "UPPER": f("upper({0})", 1, 1, VARCHAR),
        "LOWER": f("lower({0})", 1, 1, VARCHAR),
        "INITCAP": f("initcap({0})", 1, 1, VARCHAR),
        "LEN": f("length({0})", 1, 1, INT),
        "TRIM": f("trim({0})", 1, 1, VARCHAR),
        "CONCAT": f("concat({*})", 1, _ANY, VARCHAR),
        "CONCAT_WS": f("concat_ws({*})", 2, _ANY, VARCHAR),
        "SUBSTRING": f("substring({*})", 2, 3, VARCHAR),
        "REPLACE": f("replace({0}, {1}, {2})", 3, 3, VARCHAR),
        "LPAD": f("lpad({0}, {1}, {2})", 3, 3, VARCHAR),
        "RPAD": f("rpad({0}, {1}, {2})", 3, 3, VARCHAR),
        "INSTR": f("instr({0}, {1})", 2, 2, INT),
        "SPLIT": f("split({0}, concat('\\\\Q', {1}, '\\\\E'))", 2, 2, array_of(VARCHAR)),
        "REGEXP_EXTRACT": f("regexp_extract({1}, {0}, 0)", 2, 3, VARCHAR),
        "REGEXP_REPLACE": f("regexp_replace({0}, {1}, {2})", 3, 3, VARCHAR),
        "MASK": f("mask({0}, 'X', 'x', 'n', '-')", 1, 1, VARCHAR),
        "EXTRACTJSONFIELD": f("get_json_object({0}, {1})", 2, 2, VARCHAR),
        "TO_BYTES": f("to_binary({0}, {1})", 2, 2, BYTES),
        "CHR": f("chr({0})", 1, 1, VARCHAR),
        # times; ROWTIME, WINDOWSTART and WINDOWEND are BIGINT, in ms
        "FORMAT_TIMESTAMP": f("date_format({0}, {1})", 2, 2, VARCHAR),
        "PARSE_TIMESTAMP": f("to_timestamp({0}, {1})", 2, 2, TIMESTAMP),
        "FORMAT_DATE": f("date_format({0}, {1})", 2, 2, VARCHAR),
        "PARSE_DATE": f("to_date({0}, {1})", 2, 2, DATE),
        "TIMESTAMPTOSTRING": f("date_format(timestamp_millis({0}), {1})", 2, 2, VARCHAR),
        "STRINGTOTIMESTAMP": f("unix_millis(to_timestamp({0}, {1}))", 2, 2, BIGINT),
        "FROM_UNIXTIME": f("timestamp_millis({0})", 1, 1, TIMESTAMP),
        "UNIX_TIMESTAMP": f("unix_millis({0})", 1, 1, BIGINT),
        "UNIX_DATE": f("unix_date({0})", 1, 1, INT),
        "CONVERT_TZ": f("from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})", 3, 3, TIMESTAMP),
        # arrays, maps
        "ARRAY_LENGTH": f("size({0})", 1, 1, INT),
        "CARDINALITY": f("size({0})", 1, 1, INT),
        "ARRAY_CONTAINS": f("array_contains({0}, {1})", 2, 2, BOOLEAN),
        "ARRAY_JOIN": f("array_join({*})", 2, 3, VARCHAR),
        "ARRAY_SORT": f("array_sort({0})", 1, 1, 0),
        "ARRAY_DISTINCT": f("array_distinct({0})", 1, 1, 0),
        "ARRAY_UNION": f("array_union({0}, {1})", 2, 2, 0),
        "ARRAY_INTERSECT": f("array_intersect({0}, {1})", 2, 2, 0),
        "ARRAY_EXCEPT": f("array_except({0}, {1})", 2, 2, 0),
        "ARRAY_REMOVE": f("array_remove({0}, {1})", 2, 2, 0),
        "ARRAY_MAX": f("array_max({0})", 1, 1, "element"),
        "ARRAY_MIN": f("array_min({0})", 1, 1, "element"),
        "SLICE": f("slice({0}, {1}, {2} - {1} + 1)", 3, 3, 0),
        "FILTER": f("filter({0}, {1})", 2, 2, 0),
        "MAP_KEYS": f("map_keys({0})", 1, 1, "keys"),
        "MAP_VALUES": f("map_values({0})", 1, 1, "values"),
        "MAP_UNION": f("map_concat({0}, {1})", 2, 2, 0),
        "EXPLODE": f("explode({0})", 1, 1, "element"),
        "AS_VALUE": f("{0}", 1, 1, 0),
    }


FUNCTIONS = {**_aggregates(), **_scalars()}

# Aggregates of Spark that are passed on by name.
SPARK_AGGREGATES = frozenset(
    [
        "APPROX_COUNT_DISTINCT",
        "APPROX_PERCENTILE",
        "PERCENTILE_APPROX",
        "ANY_VALUE",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "BOOL_AND",
        "BOOL_OR",
        "CORR",
        "COUNT_IF",
        "COUNT_MIN_SKETCH",
        "COVAR_POP",
        "COVAR_SAMP",
        "EVERY",
        "SOME",
        "FIRST",
        "FIRST_VALUE",
        "LAST",
        "LAST_VALUE",
        "KURTOSIS",
        "SKEWNESS",
        "MAX_BY",
        "MIN_BY",
        "MEAN",
        "MEDIAN",
        "MODE",
        "PERCENTILE",
        "PERCENTILE_CONT",
        "STD",
        "STDDEV",
        "STDDEV_POP",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
        "TRY_AVG",
        "TRY_SUM",
        "REGR_SLOPE",
        "APPROX_TOP_K",
        "HISTOGRAM_NUMERIC",
        "LISTAGG",
        "STRING_AGG",
        "HLL_SKETCH_AGG",
        "ARRAY_AGG",
        "BITMAP_CONSTRUCT_AGG",
    ]
)
NOT_SUPPORTED = {
    "HISTOGRAM": "HISTOGRAM is not supported: GROUP BY the value and COUNT(*)",
    "ATTR": "ATTR is not supported: use MAX(x) if all values are equal",
    "GROUPING": "GROUPING is not supported",
    "RAND": "a repetition after a crash would compute another value: RAND is not supported",
    "RANDOM": "a repetition after a crash would compute another value: RANDOM is not supported",
    "UUID": "a repetition after a crash would compute another value: UUID is not supported",
    "CUBE_EXPLODE": "CUBE_EXPLODE is not supported",
    "WINDOW": "use WINDOW TUMBLING (SIZE ...)",
    "SESSION_WINDOW": "use WINDOW SESSION (gap)",
}
