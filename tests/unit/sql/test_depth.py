"""A plan grows by the same number of words with each level that an expression is nested."""

from __future__ import annotations

import re

import pytest
from odradek.sql.parse import parse
from odradek.sql.plan import Started
from odradek.sql.script import Planner

SOURCE = """
    CREATE STREAM s (id VARCHAR KEY, n INT, d DOUBLE, t VARCHAR, b BOOLEAN, a ARRAY<INT>, m MAP<VARCHAR, INT>,
        c DECIMAL(8, 2), y DATE, g STRUCT<f INT>, z TIME) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
"""
FORMS = {
    "coalesce": ("n", "COALESCE({} / n, 1)"),
    "ifnull cast": ("n", "IFNULL(CAST({} AS INT) / n, 1)"),
    "substring": ("t", "SUBSTRING({}, n, n)"),
    "substring pos": ("n", "LEN(SUBSTRING(t, {}, {0}))"),
    "division": ("d", "d / {}"),
    "modulo": ("d", "d % {}"),
    "div of coalesce": ("d", "COALESCE(d / {}, 1e0)"),
    "case": ("n", "CASE WHEN {} / n = 1 THEN {0} ELSE n / {0} END"),
    "case test": ("b", "CASE WHEN {} THEN n / 0 = 1 ELSE b END"),
    "case held": ("n", "CASE {} / n WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 4 END"),
    "case else": ("n", "CASE WHEN b THEN 1 ELSE {} / n END"),
    "and": ("b", "{} AND n / n = 1"),
    "or": ("b", "n / n = 1 OR {}"),
    "not": ("b", "NOT ({} AND b)"),
    "isnull": ("n", "CASE WHEN {} / n IS NULL THEN 1 ELSE 2 END"),
    "between": ("d", "CASE WHEN {} BETWEEN d AND d / 2 THEN d ELSE 1e0 END"),
    "in": ("n", "CASE WHEN {} / n IN (1, n) THEN 1 ELSE 2 END"),
    "distinct": ("d", "CASE WHEN {} IS DISTINCT FROM d THEN 1e0 ELSE d END"),
    "like": ("t", "CASE WHEN {} LIKE 'a%' THEN t ELSE 'b' END"),
    "plus text": ("t", "{} + t"),
    "concat": ("t", "{} || CASE WHEN b THEN t ELSE t END"),
    "round": ("d", "ROUND({}, 2)"),
    "round1": ("c", "ROUND({}, 1)"),
    "trunc": ("d", "TRUNC({}, 2)"),
    "log": ("d", "LOG({}, d)"),
    "mask": ("t", "MASK_LEFT({}, 2)"),
    "lpad": ("t", "LPAD({}, 3, t)"),
    "split": ("t", "SPLIT({}, ',')[1]"),
    "json": ("t", "EXTRACTJSONFIELD({}, '$.a')"),
    "json concat": ("t", "JSON_CONCAT({}, t)"),
    "json items": ("t", "JSON_ITEMS({})[1]"),
    "regexp": ("t", "REGEXP_EXTRACT('a(b)?', {}, 1)"),
    "regexp col": ("t", "REGEXP_REPLACE({}, t, t)"),
    "url": ("t", "URL_EXTRACT_PARAMETER({}, 'a')"),
    "url err": ("t", "CASE WHEN URL_EXTRACT_HOST({}) IS NULL THEN t ELSE 'x' END"),
    "encode": ("t", "ENCODE({}, 'hex', 'utf8')"),
    "subscript": ("n", "a[{}]"),
    "subscript arr": ("a", "ARRAY[{}[1], n / n]"),
    "struct": ("g", "STRUCT(F := {}->F / n)"),
    "map": ("m", "MAP('a' := {}['a'] / n)"),
    "cast arr": ("a", "CAST(CAST({} AS ARRAY<VARCHAR>) AS ARRAY<INT>)"),
    "cast struct": ("g", "CAST(CAST({} AS STRUCT<F VARCHAR>) AS STRUCT<F INT>)"),
    "cast struct text": ("t", "CAST(STRUCT(F := {}, G := n) AS VARCHAR)"),
    "transform": ("a", "TRANSFORM({}, x => x / n)"),
    "transform in": ("a", "TRANSFORM(a, x => REDUCE({}, 0, (s, e) => s + e / x))"),
    "filter": ("a", "FILTER({}, x => x / n = 1)"),
    "filter in": ("n", "REDUCE(FILTER(a, x => x / {} = 1), 0, (s, e) => s + e / n)"),
    "transform nested": ("n", "TRANSFORM(a, x => x / {})[1]"),
    "reduce nested": ("n", "REDUCE(a, 0, (s, e) => s / {} + e)"),
    "transform map": ("m", "TRANSFORM({}, (k, v) => k, (k, v) => v / n)"),
    "transform map in": ("n", "TRANSFORM(m, (k, v) => k, (k, v) => v / {})['a']"),
    "filter map in": ("n", "FILTER(m, (k, v) => v / {} = 1)['a']"),
    "greatest": ("n", "GREATEST({} / n, n)"),
    "slice": ("a", "SLICE({}, n, n)"),
    "array_concat": ("a", "ARRAY_CONCAT({}, a)"),
    "entries": ("m", "AS_MAP(MAP_KEYS({}), MAP_VALUES({0}))"),
    "parse date": (
        "y",
        "CASE WHEN PARSE_DATE(CAST({} AS VARCHAR), 'yyyy-MM-dd') IS NULL THEN y ELSE PARSE_DATE('2020', 'yyyy') END",
    ),
    "text date": ("y", "CASE WHEN {} > t THEN y ELSE FROM_DAYS(n) END"),
    "time text": ("z", "CAST(CAST({} AS VARCHAR) AS TIME)"),
    "neg": ("n", "COALESCE(-{}, 1)"),
    "decimal": ("c", "CAST(COALESCE({} / c, 1.0) AS DECIMAL(8, 2))"),
    "nullif": ("n", "NULLIF({} / n, {0})"),
    "instr": ("n", "INSTR(t, t, {})"),
    "chr": ("t", "CHR({})"),
}
"""The innermost expression of a construct, and the one around it: {} is the one within, {0} the innermost."""


def nested(inner: str, form: str, depth: int) -> str:
    found = inner
    for _ in range(depth):
        found = form.replace("{0}", inner).replace("{}", found)
    return found


def words(select: str) -> int:
    planner = Planner()
    *_, plan = (planner.plan(each) for each in parse(f"{SOURCE} CREATE STREAM o AS SELECT id, {select};"))
    assert isinstance(plan, Started)
    return len(re.findall(r"\w+|[^\w\s]", plan.plan.sql))


@pytest.mark.parametrize("name", FORMS)
def test_a_plan_is_as_long_as_its_expression_is_deep(name: str) -> None:
    counts = {depth: words(f"{nested(*FORMS[name], depth)} AS x FROM s") for depth in (2, 4, 8, 16)}
    assert counts[4] < 9 * counts[2]
    assert counts[16] - counts[8] < 2.2 * (counts[8] - counts[4]) + 250, counts


@pytest.mark.parametrize("form", ["NOT ({} AND n / n = 1)", "COALESCE({} OR n / n = 1, b)", "({}) OR n / n = 1"])
def test_conditions_too(form: str) -> None:
    counts = {depth: words(f"n FROM s WHERE {nested('b', form, depth)}") for depth in (4, 8, 16)}
    assert counts[16] - counts[8] < 2.2 * (counts[8] - counts[4]) + 250, counts


def test_what_is_short_has_no_lambda() -> None:
    planner = Planner()
    select = "COALESCE(n / 2, 1), d / n, SUBSTRING(t, n, 2), a[n] BETWEEN 1 AND n / 2, ROUND(d, 1)"
    *_, plan = (planner.plan(each) for each in parse(f"{SOURCE} CREATE STREAM o AS SELECT id, {select} FROM s;"))
    assert isinstance(plan, Started)
    assert "->" not in plan.plan.sql
