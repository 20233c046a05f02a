"""Functions of a user's own, from a module that the script names: scalar, aggregate, table, by column and by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from odradek.sql import SqlError

from tests.conformance.sql.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = """
import pyarrow as pa
import pyarrow.compute as pc
from odradek.sql import aggregate, scalar, table

FACTOR = 10

@scalar(takes="DOUBLE, DOUBLE", returns="DOUBLE")
def own_hypotenuse(a, b):
    assert isinstance(a, pa.Array)
    return pc.sqrt(pc.add(pc.multiply(a, a), pc.multiply(b, b)))

@scalar(takes="INT", returns="INT", name="own_times", by_row=True)
def times(n):
    return n * FACTOR

@scalar(takes="DECIMAL(6, 2), MAP<VARCHAR, INT>", returns="STRUCT<A DECIMAL(6, 2), B ARRAY<VARCHAR>>", by_row=True)
def own_pair(m, p):
    return {"A": m, "B": sorted(dict(p))}

@aggregate(takes="INT, VARCHAR", returns="VARCHAR")
def own_join(numbers, texts):
    return ",".join(f"{n}{t}" for n, t in zip(numbers.to_pylist(), texts.to_pylist()))

@table(takes="VARCHAR", returns="VARCHAR", by_row=True)
def own_words(text):
    return text.split()
"""

SCRIPT = """
    SET 'odradek.functions.module' = '{module}';
    CREATE STREAM s (k VARCHAR KEY, a INT, b DOUBLE, m DECIMAL(6, 2), p MAP<VARCHAR, INT>, t VARCHAR)
        WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
    CREATE STREAM scalars AS SELECT k, OWN_HYPOTENUSE(a, b) AS h, own_times(a) AS n, OWN_PAIR(m, p)->B AS l FROM s;
    CREATE TABLE groups AS SELECT k, OWN_JOIN(a, t) AS j, COUNT(*) AS c FROM s GROUP BY k;
    CREATE STREAM rows AS SELECT k, OWN_WORDS(t) AS w FROM s;
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "own_geometry.py"
    path.write_text(MODULE)
    return path


@pytest.mark.slow
def test_functions_run_on_columns_and_rows(spark: SparkSession, module: Path) -> None:
    """Slow: three queries on Spark."""
    values = [
        {"A": 3, "B": 4.0, "M": 1.5, "P": {"y": 1, "x": 2}, "T": "one two"}, {"A": None, "B": 1.0, "T": None},
        {"A": 5, "B": 12, "T": "three"},
    ]  # fmt: skip
    inputs = [{"topic": "s", "key": "k", "value": each, "timestamp": n} for n, each in enumerate(values)]
    outcome = Runner(spark).run(SCRIPT.format(module=module), inputs)

    def found(topic: str) -> list[dict[str, object]]:
        return [json.loads(each.value or b"null") for each in outcome.topics[topic]]

    assert found("SCALARS") == [
        {"H": 5.0, "N": 30, "L": ["x", "y"]}, {"H": None, "N": None, "L": None}, {"H": 13.0, "N": 50, "L": None},
    ]  # fmt: skip
    assert found("GROUPS") == [{"J": "3one two,NoneNone,5three", "C": 3}]
    assert [each["W"] for each in found("ROWS")] == ["one", "two", "three"]
    assert "functions of" in outcome.said[0]
    assert "OWN_HYPOTENUSE, OWN_TIMES, OWN_PAIR, OWN_JOIN, OWN_WORDS" in outcome.said[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(: pass", "SyntaxError"),
        ("x = 1", "has no functions: mark them with @scalar"),
        (
            "from odradek.sql import scalar\n@scalar(takes='NOPE', returns='INT')\ndef own_f(x): ...",
            "unknown type NOPE",
        ),
        (
            "from odradek.sql import scalar\n@scalar(takes='INT', returns='INT')\ndef ucase(x): ...",
            "UCASE is a function",
        ),
        ("from odradek.sql import scalar\n@scalar(takes='', returns='INT')\ndef own_f(x): ...", "takes nothing"),
    ],
)
def test_a_module_that_is_wrong_is_refused_at_the_statement(tmp_path: Path, text: str, said: str) -> None:
    from odradek.sql.session import check

    path = tmp_path / "own_wrong.py"
    path.write_text(text)
    with pytest.raises(SqlError, match=rf"line 2, column 1: .*{said}"):
        check([("", f"SHOW STREAMS;\nSET 'odradek.functions.module' = '{path}';")])


def test_arguments_are_checked(module: Path) -> None:
    from odradek.sql.session import check

    head = SCRIPT.format(module=module).partition("CREATE STREAM scalars")[0]
    for call, said in (
        ("OWN_TIMES(t)", "OWN_TIMES takes INT here, not VARCHAR"),
        ("OWN_TIMES(a, a)", "takes 1 arguments"),
    ):
        with pytest.raises(SqlError, match=said):
            check([("", f"{head} SELECT {call} FROM s EMIT CHANGES;")])
