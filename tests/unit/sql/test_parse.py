"""Whatever text comes, the parser gives statements or its own error, at a place of that text."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.sql import Planner, Position, SqlError, parse
from odradek.sql.parse import substituted
from odradek.sql.syntax import Create, InsertValues, Query

from tests.support.examples import examples

WORDS = [
    "SELECT", "CREATE", "STREAM", "TABLE", "FROM", "WHERE", "GROUP", "BY", "WINDOW", "TUMBLING", "SIZE", "1",
    "HOUR", "(", ")", ",", ";", ".", "*", "<", ">", "=", "->", "=>", ":=", "[", "]", "'x'", "`y`", "EMIT",
    "CHANGES", "LIMIT", "AS", "WITH", "JOIN", "ON", "WITHIN", "a", "b", "INSERT", "INTO", "VALUES", "DROP", "IF",
    "EXISTS", "CASE", "WHEN", "THEN", "END", "NOT", "AND", "OR", "NULL", "CAST", "ARRAY", "MAP", "STRUCT", "-", "+",
    "/", "%", "||", "--", "/*", "*/", "\n", "1.5", "1e400", "INT", "KEY", "PRIMARY", "EXPLAIN", "SET", "UNSET",
    "DATE", "count", "ORDER", '"', "'", "`", "é",
]  # fmt: skip


def plan_all(text: str) -> None:
    planner = Planner()
    for statement in parse(text):
        planner.plan(statement)


def check(text: str) -> None:
    try:
        plan_all(text)
    except SqlError as error:
        refused = error
    else:
        return
    lines = text.split("\n")
    if refused.at is not None:
        assert 1 <= refused.at.line <= len(lines)
        assert 1 <= refused.at.column <= len(lines[refused.at.line - 1]) + 1
    assert str(refused.located(text)).startswith("INVALID_REQUEST: ")


@given(st.text(max_size=200))
@example("\x00")
@example("SELECT 1")
@example("'")
@example("/*")
@example("\r\n;\r\n")
@example(";;;")
@settings(max_examples=examples(80))
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
@settings(max_examples=examples(120))
def test_any_words(text: str) -> None:
    check(text)


COLUMNS = "CREATE STREAM s (k INT KEY, a INT, b VARCHAR, c ARRAY<INT>) WITH (TOPIC = 't', VALUE_FORMAT = 'JSON');"
VALUES = st.sampled_from(["a", "b", "c", "s.k", "1", "'x'", "NULL", "TRUE", "2.5", "ROWTIME", "nope", "c[1]"])
EXPRESSIONS = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%", "||", "=", "<", "AND", "OR", "LIKE"]), inner).map(
            " ".join
        ),
        inner.map("({})".format),
        inner.map("NOT {}".format),
        inner.map("SUM({})".format),
        st.tuples(inner, inner).map(lambda pair: f"COALESCE({pair[0]}, {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"CASE WHEN {pair[0]} THEN {pair[1]} END"),
        inner.map("CAST({} AS BIGINT)".format),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, EXPRESSIONS, st.sampled_from(["", "GROUP BY b", "WINDOW SESSION (1 HOUR) GROUP BY b"]))
@settings(max_examples=examples(100))
def test_any_query_is_planned_or_refused(item: str, where: str, group: str) -> None:
    text = f"{COLUMNS}\nSELECT b, {item} AS x FROM s"
    window, _, rest = group.partition("GROUP")
    check(f"{text} {window} WHERE {where} {'GROUP' + rest if rest else ''} EMIT CHANGES;")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " FROM s",
        "SELECT " + "NOT " * 3_000 + "TRUE FROM s",
        "SELECT " + " + ".join(["1"] * 5_000) + " FROM s",
        "SELECT " + "ARRAY[" * 2_000,
        "SELECT a FROM s WHERE " + "CASE WHEN a THEN " * 1_000,
    ],
)
def test_depth_is_refused_not_fatal(text: str) -> None:
    with pytest.raises(SqlError, match=r"deep|early|unknown stream"):
        plan_all(text)


def test_a_long_list_is_no_depth() -> None:
    items = ", ".join(f"a AS a{i}" for i in range(1_000))
    plan_all(f"{COLUMNS} SELECT {items} FROM s EMIT CHANGES")


def test_places_are_those_of_the_text() -> None:
    statements = parse("-- first\nSHOW TOPICS;\n\n  CREATE STREAM s (a INT)\n  WITH (TOPIC = 't');")
    assert [each.at.line for each in statements] == [2, 4]
    create = statements[1]
    assert isinstance(create, Create)
    assert create.name.at == Position(4, 17, 1)
    assert create.properties[0].at == Position(5, 17, 3)


@pytest.mark.parametrize(
    "text",
    ["CREATE STREAMX;", "CREATE STREAMx (a INT) WITH (KAFKA_TOPIC='t');", "SHOWTOPICS;", "DROPSTREAM s;"],
)
def test_a_keyword_is_a_whole_word(text: str) -> None:
    with pytest.raises(SqlError):
        parse(text)


def test_precedence() -> None:
    for loose, tight in (
        ("a OR b AND c", "a OR (b AND c)"),
        ("NOT a = b", "NOT (a = b)"),
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("- a * b", "(- a) * b"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a + 1 < b || 'x'", "(a + 1) < (b || 'x')"),
    ):
        [one], [other] = parse(f"SELECT {loose} FROM s"), parse(f"SELECT {tight} FROM s")
        assert isinstance(one, Query)
        assert isinstance(other, Query)
        assert one.items[0].expression == other.items[0].expression, loose


def test_strings_keep_what_they_hold() -> None:
    [statement] = parse("INSERT INTO s VALUES ('it''s -- no comment; /* nor this */\n\ttwo lines')")
    assert isinstance(statement, InsertValues)
    assert statement.rows[0][0].text == "it's -- no comment; /* nor this */\n\ttwo lines"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("DEFINE a = 'x'; SELECT '${a}';", "DEFINE a = 'x'; SELECT 'x';"),
        ("DEFINE a = 'x'; SELECT '$${a}';", "DEFINE a = 'x'; SELECT '${a}';"),
        ("DEFINE a = 'x'; DEFINE b = '${a}y'; SELECT '${b}';", "DEFINE a = 'x'; DEFINE b = 'xy'; SELECT 'xy';"),
        ("DEFINE a = 'it''s'; DEFINE b = '${a}'; SELECT '${b}';",
         "DEFINE a = 'it''s'; DEFINE b = 'it''s'; SELECT 'it's';"),
        ("DEFINE b = '${b}'; SELECT '${b}';", "DEFINE b = '${b}'; SELECT '${b}';"),
        ("SET 'ksql.variable.substitution.enable' = 'false'; DEFINE a = 'x'; SELECT '${a} $${a}';",
         "SET 'ksql.variable.substitution.enable' = 'false'; DEFINE a = 'x'; SELECT '${a} $${a}';"),
        ("-- ${a}\nDEFINE a = 'x'; SELECT '${A}'; UNDEFINE a; SELECT '${a}';",
         "-- ${a}\nDEFINE a = 'x'; SELECT 'x'; UNDEFINE a; SELECT '${a}';"),
    ],
)  # fmt: skip
def test_variables_are_replaced_once(script: str, text: str) -> None:
    assert substituted(script) == text
