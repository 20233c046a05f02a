"""Changes to a query's text before DuckDB sees it."""

from __future__ import annotations

import pytest
from odradek.errors import KafkaError
from odradek.operations.query.statement import Moment, read_statement


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT offset FROM t WHERE offset > 5", 'SELECT "offset" FROM t WHERE "offset" > 5'),
        ("FROM t ORDER BY offset LIMIT 5 OFFSET 10", 'FROM t ORDER BY "offset" LIMIT 5 OFFSET 10'),
        (
            "SELECT t.offset, 'offset', \"offset\" FROM t -- offset",
            'SELECT t."offset", \'offset\', "offset" FROM t -- offset',
        ),
        ("SELECT 1 /* AS OF '2026-01-01' */", "SELECT 1 /* AS OF '2026-01-01' */"),
        ("SELECT $$ offset $$, $a$ it's offset $a$", "SELECT $$ offset $$, $a$ it's offset $a$"),
    ],
)
def test_offset_is_a_column_unless_a_number_follows(sql: str, read: str) -> None:
    assert read_statement(sql).text == read


def test_as_of_becomes_a_relation_that_keeps_the_topics_name() -> None:
    read = read_statement("SELECT t.key FROM t AS OF '1970-01-01T00:00:01' WHERE t.offset > 1")
    assert read.text == 'SELECT t.key FROM "t as of 1" AS "t" WHERE t."offset" > 1'
    assert read.moments == {"t as of 1": ("t", Moment(timestamp_ms=1000))}


def test_as_of_keeps_an_alias_and_takes_offsets() -> None:
    read = read_statement('SELECT * FROM "a.b" AS OF \'{"0": 3, "1": 0}\' x JOIN t AS OF 5000 AS y USING (key)')
    assert read.text == 'SELECT * FROM "a.b as of 1" x JOIN "t as of 2" AS y USING (key)'
    assert read.moments["a.b as of 1"] == ("a.b", Moment(offsets={0: 3, 1: 0}))
    assert read.moments["t as of 2"] == ("t", Moment(timestamp_ms=5000))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (" ;\n-- nothing", "empty"),
        ("x" * 100_001, "100,000"),
        ("SELECT 1 FROM t AS OF 'yesterday'", "AS OF: invalid time 'yesterday'"),
        ("SELECT 1 FROM t AS OF '{\"a\": 1}'", "use the ends by partition"),
        ("SELECT 1 FROM t AS OF '{\"0\": -1}'", "use the ends by partition"),
    ],
)
def test_wrong_text_is_refused_with_what_to_do(sql: str, message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        read_statement(sql)
