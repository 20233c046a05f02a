"""The drawing of a plan, words to complete, and lines of progress."""

from __future__ import annotations

from odradek.operations.sql.graph import graph_of
from odradek.operations.sql.jobs import parse_progress
from odradek.operations.sql.script import StatementRow, check_script, words_of

CHAIN = """
CREATE STREAM orders (id INT, country STRING) WITH (kafka_topic='orders', value_format='json');
CREATE STREAM paid AS SELECT id, country FROM orders WHERE id > 3;
CREATE TABLE by_country AS SELECT country, COUNT(*) AS n FROM paid GROUP BY country;
"""


def test_a_chain_is_drawn_from_left_to_right() -> None:
    graph = graph_of(check_script(CHAIN).statements)
    assert graph is not None
    at = {each.name: each.x for each in graph.nodes if each.kind == "topic"}
    assert at["orders"] < at["PAID"] < at["BY_COUNTRY"]
    assert len([each for each in graph.nodes if each.kind == "query"]) == 2
    assert len(graph.edges) == 4
    boxes = {(each.x, each.y) for each in graph.nodes}
    assert len(boxes) == len(graph.nodes), "none hides another"
    assert all(each.x + graph.node_width <= graph.width and each.y + graph.node_height <= graph.height
               for each in graph.nodes)  # fmt: skip


def test_a_script_without_queries_has_no_drawing() -> None:
    assert graph_of([]) is None
    assert graph_of([StatementRow(1, "declares", "s", (), "t", (), ())]) is None


def test_a_query_that_writes_what_it_reads_ends() -> None:
    loop = StatementRow(1, "inserts", "q", ("t",), "t", (), ())
    graph = graph_of([loop])
    assert graph is not None
    assert {each.name for each in graph.nodes} == {"q", "t"}


def test_columns_come_from_the_script_itself() -> None:
    found = words_of(CHAIN, ["orders", "others"], None)
    assert {"id", "country"} <= set(found["columns"])
    assert found["topics"] == ["orders", "others"]
    assert "SELECT" in found["keywords"]


def test_lines_of_progress_are_told_from_others() -> None:
    line = '@progress {"query": "q", "batch": 3, "rows": 7, "rows_per_s": 1.5, "batch_ms": 40, "state_rows": 2, "state_bytes": 99}'  # noqa: E501
    found = parse_progress(line)
    assert found is not None
    assert (found.query, found.rows, found.state_bytes) == ("q", 7, 99)
    for other in ("hello", "@progress {", "@progress []", '@progress {"query": "q"}'):
        assert parse_progress(other) is None
