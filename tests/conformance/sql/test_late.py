"""Late records: the same input gives the same rows, wherever micro-batches end.

Slow: a stream of Spark for each case, some seconds.
Expected are the rows of Kafka Streams: what is late is decided at each record by the largest timestamp before it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.sql.runner import Runner, source_of
from tests.conformance.sql.test_scripts import found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SOURCES = """
    CREATE STREAM a (k VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC = 'a', VALUE_FORMAT = 'JSON');
    CREATE STREAM b (k VARCHAR KEY, w VARCHAR) WITH (KAFKA_TOPIC = 'b', VALUE_FORMAT = 'JSON');
    CREATE STREAM t (k VARCHAR KEY, v VARCHAR, at BIGINT)
        WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON', TIMESTAMP = 'at');
"""
CUTS = ([], [2, 4], [1, 2, 3, 4, 5, 6, 7])
LIST = "SELECT k, COLLECT_LIST(v) AS vs FROM"
AGGREGATES: dict[str, tuple[str, list[tuple[str, int]], list[Any]]] = {
    # `late` comes in its time, and is late: the window of 0 closed at 10 + 2. `in` comes when that has one left.
    "tumbling": (
        f"{LIST} a WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 2 MILLISECONDS) GROUP BY k",
        [("x", 1), ("y", 11), ("in", 9), ("z", 12), ("late", 3), ("w", 30), ("late", 19)],
        [["k", ["x", "in"], 0], ["k", ["y", "z"], 10], ["k", ["w"], 30]],
    ),
    # A record may be late for one of its windows and not for the other.
    "hopping": (
        f"{LIST} a WINDOW HOPPING (SIZE 10 MILLISECONDS, ADVANCE BY 5 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS) "
        "GROUP BY k",
        [("x", 6), ("y", 12), ("half", 7), ("z", 20), ("late", 6), ("w", 21)],
        [["k", ["x"], 0], ["k", ["x", "y", "half"], 5], ["k", ["y"], 10], ["k", ["z", "w"], 15], ["k", ["z", "w"], 20]],
    ),
    # What does not meet WHERE is not there for stream time.
    "filtered": (
        f"{LIST} a WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS) WHERE v <> 'no' GROUP BY k",
        [("x", 1), ("no", 90), ("y", 2), ("z", 10), ("late", 3)],
        [["k", ["x", "y"], 0], ["k", ["z"], 10]],
    ),
    # A record as old as gap and grace still begins a session; within the gap of one that is closed it begins another.
    "session": (
        f"{LIST} a WINDOW SESSION (10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY k",
        [("x", 10), ("y", 30), ("on", 15), ("late", 14), ("z", 36), ("w", 100)],
        [["k", ["x"], 10], ["k", ["on"], 15], ["k", ["y", "z"], 30], ["k", ["w"], 100]],
    ),
    # 0 alone would be late, but it touches the session of 10 and 16, which is open; 5 lies between two open ones.
    "session of a late record": (
        f"{LIST} a WINDOW SESSION (10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY k",
        [("x", 10), ("y", 16), ("back", 0), ("z", 30), ("w", 44), ("between", 37), ("late", 9), ("v", 90)],
        [["k", ["x", "y", "back"], 0], ["k", ["z", "w", "between"], 30], ["k", ["v"], 90]],
    ),
    "final": (
        f"{LIST} a WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 2 MILLISECONDS) GROUP BY k EMIT FINAL",
        [("x", 1), ("y", 11), ("in", 9), ("z", 12), ("late", 3), ("w", 30), ("late", 19)],
        [["k", ["x", "in"], 0], ["k", ["y", "z"], 10]],
    ),
    "final without a grace period": (
        f"{LIST} a WINDOW TUMBLING (SIZE 10 MILLISECONDS) GROUP BY k EMIT FINAL",
        [("x", 1), ("y", 10), ("late", 9), ("z", 12)],
        [["k", ["x"], 0]],
    ),
}


def records(topic: str, rows: list[tuple[str, int]], column: str = "V") -> list[dict[str, Any]]:
    return [{"topic": topic, "key": "k", "value": {column: v}, "timestamp": ms} for v, ms in rows]


def rows_of(runner: Runner, script: str, given: list[dict[str, Any]], cuts: list[int]) -> list[Any]:
    outcome = runner.run(SOURCES + script, given, cuts=cuts)
    source = source_of(outcome.planner, "R")
    rows = found(runner, outcome, "R", 4)
    if source is not None and source.kind == "TABLE":
        return sorted(([key, value["VS"], start] for key, value, _, start in rows), key=lambda row: (row[2], row[1]))
    return sorted((value for _, value, *_ in rows), key=json.dumps)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("name", AGGREGATES)
def test_windows(spark: SparkSession, name: str, cuts: list[int]) -> None:
    select, given, wanted = AGGREGATES[name]
    assert rows_of(Runner(spark), f"CREATE TABLE r AS {select};", records("a", given), cuts) == wanted


@pytest.mark.parametrize("name", [each for each in AGGREGATES if "final" not in each])
def test_a_select_without_emit_has_the_rows_of_the_table(spark: SparkSession, name: str) -> None:
    select, given, wanted = AGGREGATES[name]
    select = select.replace("AS vs FROM", "AS vs, WINDOWSTART AS since FROM")
    outcome = Runner(spark).run(SOURCES + f"{select};", records("a", given))
    [rows] = outcome.results
    assert sorted(([row["K"], row["VS"], row["SINCE"]] for row in rows), key=lambda row: (row[2], row[1])) == wanted


def test_a_select_without_emit_over_windows_of_a_join(spark: SparkSession) -> None:
    script = """SELECT a.k, COUNT(*) AS n FROM a JOIN b WITHIN 1 SECOND ON a.k = b.k WINDOW TUMBLING (SIZE 1 SECOND)
        GROUP BY a.k;"""
    given = records("a", [("x", 1), ("y", 2)]) + records("b", [("z", 3)], "W")
    [rows] = Runner(spark).run(SOURCES + script, given).results
    assert [row["N"] for row in rows] == [2]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_a_column_gives_the_time(spark: SparkSession, cuts: list[int]) -> None:
    script = f"""CREATE TABLE r AS {LIST} t WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 2 MILLISECONDS)
        GROUP BY k;"""
    given = [("x", 1), ("y", 11), ("in", 9), ("z", 12), ("late", 3)]
    sent = [{"topic": "t", "key": "k", "value": {"V": v, "AT": at}, "timestamp": 5} for v, at in given]
    assert rows_of(Runner(spark), script, sent, cuts) == [["k", ["x", "in"], 0], ["k", ["y", "z"], 10]]


# Inner joins keep a record for 10 + 10 + 5 ms after its time.
LEFT = [("l0", 0), ("l40", 40), ("l16", 16), ("late", 15), ("l90", 90), ("l200", 200)]
RIGHT = [("r3", 3), ("r45", 45), ("r21", 21), ("late", 20), ("r95", 95), ("r201", 201)]
MATCHES = [("l0", "r3"), ("l16", "r21"), ("l40", "r45"), ("l90", "r95"), ("l200", "r201")]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_inner_joins(spark: SparkSession, cuts: list[int]) -> None:
    script = """CREATE STREAM r AS SELECT a.k AS id, v, w FROM a JOIN b
        WITHIN 10 MILLISECONDS GRACE PERIOD 5 MILLISECONDS ON a.k = b.k;"""
    wanted = [{"V": v, "W": w} for v, w in MATCHES]
    got = rows_of(Runner(spark), script, records("a", LEFT) + records("b", RIGHT, "W"), cuts)
    assert got == sorted(wanted, key=json.dumps)
