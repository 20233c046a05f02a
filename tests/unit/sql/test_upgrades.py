"""CREATE OR REPLACE: which change of a statement goes on from its state, and which is refused by which rule."""

from __future__ import annotations

import pytest
from odradek.sql import SqlError
from odradek.sql.parse import parse
from odradek.sql.planning.upgrades import Basis, difference
from odradek.sql.script import Planner

SOURCES = """
    CREATE STREAM s (k VARCHAR KEY, w VARCHAR, v INT, b BIGINT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
    CREATE STREAM r (k VARCHAR KEY, w VARCHAR, v INT) WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'JSON');
    CREATE TABLE t (k VARCHAR PRIMARY KEY, w VARCHAR, v INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON');
    CREATE TABLE u (k VARCHAR PRIMARY KEY, w VARCHAR, v INT) WITH (KAFKA_TOPIC = 'u', VALUE_FORMAT = 'JSON');
"""
COUNT = "CREATE OR REPLACE TABLE x AS SELECT k, COUNT(*) AS n FROM s"
MINUTE = "WINDOW TUMBLING (SIZE 1 MINUTE)"
JOINED = "CREATE OR REPLACE STREAM x AS SELECT s.k, s.v, r.w FROM s"
DECLARED = "CREATE OR REPLACE STREAM s"
WITH = "WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON')"
ELSEWHERE = WITH.replace("'s'", "'z'")

REFUSED = [
    # what the state is
    (f"{COUNT} GROUP BY k", f"{COUNT.replace('k,', 'w AS k,')} GROUP BY w", "GROUP BY must stay the same: K, not W"),
    (
        f"{COUNT} GROUP BY k", f"{COUNT.replace('COUNT(*)', 'SUM(b)')} GROUP BY k",
        "aggregate functions must stay the same: COUNT(*), not SUM(B) of BIGINT",
    ),
    (f"{COUNT} GROUP BY k", f"{COUNT.replace(' FROM', ', SUM(v) AS m FROM')} GROUP BY k", "aggregate functions"),
    (f"{COUNT} GROUP BY k", f"{COUNT} GROUP BY k HAVING SUM(v) > 1", "aggregate functions"),
    (
        f"{COUNT.replace('COUNT(*)', 'AVG(v)')} GROUP BY k", f"{COUNT.replace('COUNT(*)', 'AVG(b)')} GROUP BY k",
        "AVG(V) of INT, not AVG(B) of BIGINT",
    ),
    (f"{COUNT} {MINUTE} GROUP BY k", f"{COUNT} {MINUTE.replace('1', '2')} GROUP BY k", "windows"),
    (f"{COUNT} {MINUTE} GROUP BY k", f"{COUNT} GROUP BY k", "windows must stay the same: TUMBLING 60000, not 0"),
    (
        f"{COUNT} WINDOW SESSION (1 MINUTE) GROUP BY k", f"{COUNT} WINDOW SESSION (2 MINUTES) GROUP BY k",
        "window must stay the same: SESSION 60000 ms, not SESSION 120000 ms",
    ),
    (f"{COUNT} {MINUTE} GROUP BY k", f"{COUNT} {MINUTE} GROUP BY k EMIT FINAL", "EMIT must stay the same"),
    (f"{COUNT} GROUP BY k", f"{COUNT.replace('FROM s', 'FROM r')} GROUP BY k", "source topics"),
    (f"{COUNT} GROUP BY k", f"{COUNT.replace('FROM s', 'FROM t')} GROUP BY k", "source topics"),
    (
        f"{JOINED} JOIN r WITHIN 1 HOUR ON s.k = r.k;", f"{JOINED} JOIN r WITHIN 2 HOURS ON s.k = r.k;",
        "joins must stay the same",
    ),
    (f"{JOINED} JOIN t r ON s.k = r.k", f"{JOINED} LEFT JOIN t r ON s.k = r.k", "joins must stay the same"),
    (f"{JOINED} JOIN t r ON s.k = r.k", f"{JOINED} JOIN u r ON s.k = r.k", "source topics"),
    (
        f"{JOINED} JOIN r WITHIN 1 HOUR ON s.k = r.k",
        f"{JOINED.replace('r.w', 'r.w, r.v AS rv')} JOIN r WITHIN 1 HOUR ON s.k = r.k",
        "columns kept must stay the same",
    ),
    (
        f"{JOINED} JOIN t r ON s.k = r.k", f"{JOINED} JOIN t r ON s.k = r.k JOIN u ON s.k = u.k",
        "source topics must stay the same",
    ),
    # ksqlDB's rules of rows
    (
        "CREATE STREAM x AS SELECT * FROM r PARTITION BY w",
        "CREATE OR REPLACE STREAM x AS SELECT * FROM r PARTITION BY v",
        "key columns must stay the same: W VARCHAR, not V INT",
    ),
    ("CREATE STREAM x AS SELECT * FROM r", "CREATE OR REPLACE STREAM x AS SELECT * FROM r PARTITION BY w", "key col"),
    (
        "CREATE TABLE x AS SELECT w, v, COUNT(*) AS n FROM s GROUP BY w, v",
        "CREATE OR REPLACE TABLE x AS SELECT v, w, COUNT(*) AS n FROM s GROUP BY v, w",
        "key columns",
    ),
    (
        "CREATE STREAM x AS SELECT k, v, w FROM s", "CREATE OR REPLACE STREAM x AS SELECT k, w, v FROM s",
        "columns may only be added at the end: V INT, W VARCHAR changed",
    ),
    ("CREATE STREAM x AS SELECT k, v, w FROM s", "CREATE OR REPLACE STREAM x AS SELECT k, v FROM s", "W VARCHAR"),
    (
        "CREATE STREAM x AS SELECT k, v FROM s",
        "CREATE OR REPLACE STREAM x AS SELECT k, CAST(v AS VARCHAR) AS v FROM s",
        "V INT changed",
    ),
    (
        "CREATE STREAM x AS SELECT k, v FROM s",
        "CREATE OR REPLACE STREAM x WITH (KAFKA_TOPIC = 'y') AS SELECT k, v FROM s",
        "topic must stay the same: X, not y",
    ),
    (
        "CREATE STREAM x AS SELECT k, v FROM s",
        "CREATE OR REPLACE STREAM x WITH (VALUE_FORMAT = 'DELIMITED') AS SELECT k, v FROM s",
        "formats must stay the same: key KAFKA, value JSON, not key KAFKA, value DELIMITED",
    ),
    (
        "CREATE STREAM x AS SELECT k, b FROM s",
        "CREATE OR REPLACE STREAM x WITH (TIMESTAMP = 'b') AS SELECT k, b FROM s",
        "timestamp column must stay the same: the record's, not B",
    ),
    ("", f"{DECLARED} (k VARCHAR KEY, v INT, w VARCHAR, b BIGINT) {WITH}", "W VARCHAR, V INT"),
    ("", f"{DECLARED} (k INT KEY, w VARCHAR, v INT, b BIGINT) {WITH}", "key columns must stay the same"),
    ("", f"{DECLARED} (k VARCHAR KEY, w VARCHAR, v INT) {WITH}", "B BIGINT changed, missing"),
    ("", f"{DECLARED} (k VARCHAR KEY, w VARCHAR, v INT, b BIGINT) {WITH.replace('JSON', 'DELIMITED')}", "formats"),
    ("", f"{DECLARED} (k VARCHAR KEY, w VARCHAR, v INT, b BIGINT) {ELSEWHERE}", "topic"),
]  # fmt: skip

ALLOWED = [
    (f"{COUNT} GROUP BY k", f"{COUNT} WHERE v > 1 GROUP BY k"),
    (f"{COUNT} GROUP BY k", f"{COUNT} GROUP BY k HAVING COUNT(*) > 1"),
    (f"{COUNT} GROUP BY k", f"{COUNT.replace(' FROM', ', AS_VALUE(k) AS again, COUNT(*) + 1 AS m FROM')} GROUP BY k"),
    (f"{COUNT} GROUP BY k", "CREATE OR REPLACE TABLE x AS SELECT a.k, COUNT(*) AS n FROM s AS a GROUP BY a.k"),
    (f"{COUNT} {MINUTE} GROUP BY k", f"{COUNT} {MINUTE} WHERE v > 1 GROUP BY k"),
    (f"{JOINED} JOIN t r ON s.k = r.k", f"{JOINED.replace('r.w', 'r.w, s.b')} JOIN t AS r ON s.k = r.k WHERE s.v > 1"),
    (f"{JOINED} JOIN r WITHIN 1 HOUR ON s.k = r.k", f"{JOINED} JOIN r WITHIN 1 HOUR ON s.k = r.k WHERE s.v > 1"),
    (
        "CREATE STREAM x AS SELECT k, v FROM s",
        "CREATE OR REPLACE STREAM x AS SELECT k, v + 1 AS v, w FROM s WHERE v > 1",
    ),
    ("CREATE TABLE x AS SELECT * FROM t", "CREATE OR REPLACE TABLE x AS SELECT * FROM t WHERE v > 1"),
    ("", f"{DECLARED} (k VARCHAR KEY, w VARCHAR, v INT, b BIGINT, c INT) {WITH}"),
]  # fmt: skip


def planned(*statements: str) -> Planner:
    planner = Planner()
    for statement in parse(SOURCES + "".join(f"{each.rstrip(';')};" for each in statements if each)):
        planner.plan(statement)
    return planner


@pytest.mark.parametrize(("before", "after", "rule"), REFUSED)
def test_a_change_that_the_state_or_the_rows_do_not_bear_is_refused(before: str, after: str, rule: str) -> None:
    with pytest.raises(SqlError) as refused:
        planned(before, after)
    assert rule in refused.value.problem
    assert "cannot be replaced" in refused.value.problem
    assert "Create it under a new name, or start from the beginning: DROP " in refused.value.problem


@pytest.mark.parametrize(("before", "after"), ALLOWED)
def test_filters_and_added_columns_go_on(before: str, after: str) -> None:
    planned(before, after)


def test_what_a_query_makes_is_not_declared_anew() -> None:
    with pytest.raises(SqlError, match="X is made by query CSAS_X"):
        planned(
            "CREATE STREAM x AS SELECT k, v FROM s",
            "CREATE OR REPLACE STREAM x (k VARCHAR KEY, v INT) WITH (KAFKA_TOPIC = 'X', VALUE_FORMAT = 'JSON')",
        )


def test_a_basis_survives_its_file_and_a_file_that_was_cut_short_has_none() -> None:
    planner = planned(f"{COUNT} {MINUTE} GROUP BY k")
    basis = planner.queries["CTAS_X"].plan.basis
    assert basis is not None
    data = basis.document()
    parsed = Basis.parse(data)
    assert parsed == basis
    assert difference(basis, parsed) is None
    assert Basis.parse(data[:-9]) is None
    assert Basis.parse(b"[]") is None


def test_the_steps_of_a_query_are_compared_too() -> None:
    steps = "CREATE OR REPLACE TABLE x AS SELECT s.w AS w, COUNT(*) AS n FROM s JOIN t ON s.k = t.k GROUP BY s.w"
    with pytest.raises(SqlError, match="joins must stay the same"):
        planned(steps, steps.replace("ON s.k", "ON s.w"))
    planner = planned(steps, steps.replace(" GROUP", " WHERE s.v > 1 GROUP"))
    [stage] = planner.queries["CTAS_X"].stages
    assert stage.basis is not None
    assert stage.basis.is_between
