"""Every case of scripts/*.yaml: records in, a script, records out. See runner.py.

Slow: each case is a script of its own on Spark, some seconds. `make sql-conformance` runs all.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.conformance.sql.runner import Outcome, Runner, source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "scripts"


@cache
def cases() -> list[Any]:
    return [
        pytest.param(case, id=f"{path.stem}: {case['name']}")
        for path in sorted(FOLDER.glob("*.yaml"))
        for case in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    ]


def given(case: dict[str, Any]) -> list[dict[str, Any]]:
    records = []
    for topic, rows in case["in"].items():
        for key, value, timestamp, *headers in rows:
            record = {"topic": topic, "key": key, "value": value, "timestamp": timestamp}
            records.append(record | ({"headers": headers[0]} if headers else {}))
    for topic, texts in case.get("raw", {}).items():  # values as they are written
        records += [{"topic": topic, "bytes": text.encode()} for text in texts]
    return records


def comparable(value: Any) -> Any:
    """Return a value in which 3.10 is 3.1, as YAML reads it."""
    return json.loads(json.dumps(value, default=float))


def found(runner: Runner, outcome: Outcome, topic: str, width: int, *, is_table: bool = True) -> list[list[Any]]:
    """Return the records of a topic as a case writes them; of a table, the latest of each key, unless all matter."""
    source = source_of(outcome.planner, topic)
    shown = [runner.shown(source, each) for each in outcome.topics[topic]]
    rows = [
        [each["key"], each["value"], each["timestamp"], (each.get("window") or [None])[0], each["headers"]]
        for each in shown
    ]
    if source is not None and source.kind == "TABLE" and is_table:
        latest = {json.dumps([row[0], row[3]], default=float): row for row in rows}
        rows = [row for row in latest.values() if row[1] is not None]
    return [comparable(row[:width]) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("case", cases())
def test_script(spark: SparkSession, case: dict[str, Any]) -> None:
    """Slow: a script of its own for each case, some seconds of Spark."""
    runner = Runner(spark)
    if "fails" in case:  # the query ends, with this in its error
        with pytest.raises(Exception, match=case["fails"]):
            runner.run(case["script"], given(case))
        return
    outcome = runner.run(case["script"], given(case), one_by_one=case.get("one_by_one", False))
    for topic, rows in case["out"].items():
        wanted = [comparable(row) for row in rows]
        in_order = case.get("in_order", False)
        got = found(runner, outcome, topic, len(wanted[0]) if wanted else 3, is_table=not case.get("one_by_one"))
        assert (got if in_order else sorted(got, key=json.dumps)) == (
            wanted if in_order else sorted(wanted, key=json.dumps)
        ), topic
    if "shown" in case:  # the rows of each SELECT, in order
        assert comparable(outcome.results) == comparable(case["shown"])
