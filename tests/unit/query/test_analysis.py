"""Analysis of a statement before it runs."""

from __future__ import annotations

import pytest
from odradek.errors import KafkaError
from odradek.operations.query.analysis import analyse


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT count(*) FROM t", set()),
        ("SELECT Origin, avg(delay) AS d FROM t x WHERE x.delay > 3 GROUP BY origin ORDER BY d", "origin delay d x"),
        ("SELECT a.b.c FROM t", "a b c"),
        ("SELECT t FROM t", "t"),
        ("SELECT a FROM t JOIN u USING (key)", "a key"),
        ("SELECT a FROM t UNION ALL BY NAME SELECT b FROM u", "a b"),
        ("WITH x AS (SELECT a FROM t) SELECT count(*) FROM x WHERE EXISTS (SELECT b FROM u)", "a b"),
        ("SELECT list_transform(a, x -> x + y) FROM t", "a x y"),
        ("SELECT sum(a) OVER (PARTITION BY b ORDER BY c) FROM t QUALIFY d = 1", "a b c d"),
    ],
)
def test_columns_that_a_statement_may_use(sql: str, columns: str) -> None:
    assert analyse(sql, allow_files=False).columns == set(columns.split() if columns else ())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT t.* FROM t",
        "SELECT * EXCLUDE (a) FROM t",
        "SELECT COLUMNS('a.*') FROM t",
        "FROM t",
        "SELECT a FROM (FROM t)",
        "WITH x AS (FROM t) SELECT a FROM x",
        "SELECT a FROM t NATURAL JOIN u",
        "SELECT b FROM t AS x(a, b)",
        "SELECT a FROM (PIVOT t ON b USING sum(c))",
        "PIVOT t ON b USING sum(c)",
        "SELECT count(*) FROM t, query_table('t')",
        "DESCRIBE t",
        "SUMMARIZE t",
        "EXPLAIN SELECT a FROM t",
    ],
)
def test_statements_that_may_use_any_column(sql: str) -> None:
    assert analyse(sql, allow_files=False).columns is None


def test_only_one_statement_that_reads() -> None:
    for sql in ("SELECT 1; SELECT 2", "DROP TABLE t", "COPY (SELECT 1) TO 'x.csv'", "SET threads = 1"):
        with pytest.raises(KafkaError):
            analyse(sql, allow_files=False)
    assert analyse("COPY (SELECT a FROM t) TO 'x.csv'", allow_files=True).columns is None


def test_tables_are_those_that_a_statement_does_not_define() -> None:
    assert analyse("WITH x AS (SELECT a FROM t) SELECT a FROM x JOIN u ON true", allow_files=False).tables == {"t", "u"}
    assert analyse("DESCRIBE t", allow_files=False).tables in (None, {"t"})
