"""Effects of a script on topics, queries and the screen, with Spark replaced by a recorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from odradek.cli import run
from odradek.errors import ErrorCode, KafkaError
from odradek.sql import SqlError
from odradek.sql.plan import QueryPlan, Started
from odradek.sql.planning.upgrades import Basis
from odradek.sql.session import Row, Session, check

SOURCES = """CREATE STREAM s (k VARCHAR KEY, a INT) WITH (TOPIC = 's', VALUE_FORMAT = 'JSON');
CREATE TABLE t (k VARCHAR PRIMARY KEY, a INT) WITH (TOPIC = 't', VALUE_FORMAT = 'JSON');
"""


class World:
    """Engine, topics and screen in one: keeps what was asked for."""

    def __init__(self, **topics: int) -> None:
        self.topics = {"s": 3, "t": 1, **topics}
        self.done: list[Any] = []
        self.kept: dict[str, Basis] = {}  # what checkpoints belong to

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def note(*given: Any, **named: Any) -> None:
            self.done.append((name, *(each.query_id if isinstance(each, QueryPlan) else each for each in given)))

        return note

    def rows(self, *given: Any) -> list[Row]:
        self.done.append(("rows", *(each.query_id if isinstance(each, QueryPlan) else each for each in given)))
        return [("x", 1)]

    def changes(self, plan: QueryPlan, show: Callable[[list[Row]], None], *, once: bool) -> None:
        show([("y", 2)])

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        self.done.append(("process", plan.query_id))
        return {"batches": 1, "records": 7, "malformed": 0}

    def kept_basis(self, query_id: str) -> Basis | None:
        return self.kept.get(query_id)

    def partitions(self) -> Mapping[str, int]:
        return self.topics

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        if name == "refused":
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not yours")
        self.done.append(("create", name, partitions, dict(configs)))

    def said(self) -> list[str]:
        return [each[1] for each in self.done if each[0] == "say"]


def perform(script: str, *, once: bool = False, world: World | None = None) -> World:
    world = world or World()
    Session(world, world, world, once=once).run(check([("", SOURCES), ("x.sql", script)]))
    world.done = [each for each in world.done if each not in (("say", "created stream S"), ("say", "created table T"))]
    return world


def test_a_query_gets_its_topic_and_is_waited_for() -> None:
    world = perform("CREATE TABLE n AS SELECT k, COUNT(*) AS n FROM s GROUP BY k; CREATE STREAM c AS SELECT * FROM s;")
    assert world.done == [
        ("create", "N", 3, {"cleanup.policy": "compact"}),  # as many partitions as what it reads
        ("start", "CTAS_N"),
        ("say", "started CTAS_N, writing to topic N"),
        ("create", "C", 3, {}),
        ("start", "CSAS_C"),
        ("say", "started CSAS_C, writing to topic C"),
        ("wait",),
    ]


def test_once_each_query_ends_before_the_next_statement() -> None:
    world = perform("CREATE STREAM c AS SELECT * FROM s; SELECT * FROM c;", once=True, world=World(C=1))
    assert world.done == [
        ("process", "CSAS_C"),
        ("say", "CSAS_C: 1 batches, 7 records"),
        ("rows", "SELECT_1"),
        ("table", "", ["K", "A"], [("x", 1)]),
    ]


def test_once_a_query_sees_the_inserts_that_follow_it() -> None:
    script = "CREATE STREAM c AS SELECT * FROM s; INSERT INTO s (k, a) VALUES ('x', 1); SELECT * FROM c;"
    world = perform(script, once=True, world=World(C=1))
    assert [each[0] for each in world.done if each[0] != "say"] == ["process", "insert", "process", "rows", "table"]
    at_the_end = perform(script.rpartition("SELECT")[0], once=True, world=World(C=1))
    assert [each[0] for each in at_the_end.done if each[0] != "say"] == ["process", "insert", "process"]


def test_what_spark_cannot_do_at_once_is_said_beforehand() -> None:
    world = perform("SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k EMIT FINAL;")
    assert world.said() == [
        "note: a window is written once, when stream time has passed its end: the last ones wait for later records"
    ]
    assert world.done[-1] == ("rows", ["K", "KSQL_COL_0"], [("y", 2)])


def test_a_replaced_query_is_stopped_first_and_a_dropped_one_too() -> None:
    made = "CREATE OR REPLACE STREAM c AS SELECT * FROM s;"
    world = perform(f"{made} {made} DROP STREAM c DELETE TOPIC;", world=World(c=1))
    assert [each[0] for each in world.done if each[0] in ("start", "stop", "delete")] == [
        "start", "stop", "start", "stop", "delete",
    ]  # fmt: skip


def test_delete_topic_takes_the_topics_between_the_steps_and_the_checkpoints() -> None:
    steps = "CREATE TABLE c AS SELECT s.a AS a, COUNT(*) AS n FROM s JOIN t ON s.k = t.k GROUP BY s.a;"
    between = "_odradek_sql_CTAS_C_STAGE_1"
    world = perform(f"{steps} DROP TABLE c DELETE TOPIC;", world=World(C=1, **{between: 1}))
    assert [each[1:] for each in world.done if each[0] == "delete"] == [("C",), (between,)]
    assert [each[1:] for each in world.done if each[0] == "forget"] == [("CTAS_C_STAGE_1",), ("CTAS_C",)]
    kept = perform(f"{steps} DROP TABLE c;", world=World(C=1, **{between: 1}))
    assert not [each for each in kept.done if each[0] in ("delete", "forget")]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE STREAM x (a INT) WITH (TOPIC = 's', HISTORY_RETENTION = '1 DAYS')", "applies only to tables"),
        ("CREATE TABLE x (a INT PRIMARY KEY, b INT) WITH (TOPIC = 't', HISTORY_RETENTION = 'long')", "a duration is"),
        (
            "CREATE TABLE x (a INT PRIMARY KEY, b BIGINT) "
            "WITH (TOPIC = 't', HISTORY_RETENTION = '1 DAYS', TIMESTAMP = 'b')",
            "omit TIMESTAMP",
        ),
    ],
)
def test_what_cannot_be_versioned_is_refused(statement: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        check([("", statement)])


def test_properties_of_kafka_streams_are_taken_without_effect() -> None:
    said = perform("SET 'ksql.streams.cache.max.bytes.buffering' = '0'; UNSET 'commit.interval.ms';").said()
    assert said == ["cache.max.bytes.buffering has no effect here", "commit.interval.ms has no effect here"]


def test_a_missing_topic_is_named_or_made() -> None:
    declared = "CREATE STREAM m (a INT) WITH (TOPIC = 'missing', VALUE_FORMAT = 'JSON'{})"
    with pytest.raises(SqlError) as refused:
        perform(declared.format(""))
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "x.sql: line 1, column 1: topic missing does not exist: WITH (PARTITIONS = n) creates it" in str(
        refused.value
    )
    assert ("create", "missing", 2, {}) in perform(declared.format(", PARTITIONS = 2")).done


def test_an_error_of_the_service_keeps_its_code_and_gets_a_place() -> None:
    with pytest.raises(SqlError, match=r"TOPIC_AUTHORIZATION_FAILED: x.sql: line 2, column 2: not yours") as refused:
        perform("\n CREATE STREAM `refused` AS SELECT * FROM s;")
    assert "  2 |  CREATE STREAM `refused`" in str(refused.value)


def test_nothing_runs_of_a_script_that_is_wrong() -> None:
    with pytest.raises(SqlError, match=r"^INVALID_REQUEST: x\.sql: line 2, column 8"):
        check([("", SOURCES), ("x.sql", "CREATE STREAM c AS SELECT * FROM s;\nSELECT nope FROM c;")])


def test_topics_and_settings() -> None:
    world = perform("SHOW TOPICS; SET 'spark.sql.shuffle.partitions' = '3'; UNSET 'spark.sql.shuffle.partitions'")
    assert world.done[0] == ("table", "Topics", ("topic", "partitions"), [("s", 3), ("t", 1)])
    between = World()
    between.topics["_odradek_sql_CSAS_X_1_STAGE_1"] = 3
    shown = perform("SHOW TOPICS; LIST ALL TOPICS", world=between).done
    assert [len(each[3]) for each in shown] == [2, 3]
    assert [each for each in world.done if each[0] == "configure"] == [
        ("configure", "spark.sql.shuffle.partitions", "3"),
        ("configure", "spark.sql.shuffle.partitions", None),
    ]


# --- the command, as far as it needs no Spark


def cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["sql", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_script_can_be_checked_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "sources.sql"
    script.write_text(SOURCES)
    assert cli(capsys, str(script), "-e", "SELECT a FROM s", "--check") == (0, "3 valid statements\n", "")
    code, out, err = cli(capsys, str(script), "-e", "SELECT\n  b FROM s;", "--check")
    assert (code, out) == (1, "")
    assert err == ("odradek: INVALID_REQUEST: line 2, column 3: S has no column B\n  2 |   b FROM s;\n    |   ^\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "give a FILE, or statements with -e"),
        (["-e", "SHOW TOPICS", "--output", "xml"], 2, "'xml' is not one of 'table', 'json', 'yaml'"),
        (["no-such-file.sql"], 1, "No such file"),
        (["-e", "SHOW TOPICS", "--data-dir", "no-such-dir"], 2, "is not the folder of an embedded service"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: Sequence[str], code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    found, _, err = cli(capsys, *arguments)
    assert found == code
    assert said in err.replace("\n", " ")
    assert "Traceback" not in err


def test_a_served_table_is_served_before_its_query_and_dropped_with_it() -> None:
    made = "CREATE TABLE n WITH (SERVED = {}) AS SELECT k, COUNT(*) AS n FROM s {} GROUP BY k;"
    world = perform(made.format("TRUE", "WINDOW TUMBLING (SIZE 1 HOUR)") + " DROP TABLE n;", world=World(N=1))
    options = {"key_format": "STRING", "value_format": "JSON", "window": "TUMBLING", "window_size_ms": 3_600_000}
    assert [each for each in world.done if each[0] not in ("say", "wait", "forget")] == [
        ("serve", "N", "N", options),
        ("start", "CTAS_N"),
        ("stop", "CTAS_N"),
        ("unserve", "N"),
    ]
    assert "N is served as table N" in world.said()
    named = perform(made.format("'by_key'", ""), world=World(N=1))
    assert ("serve", "by_key", "N", {**options, "window": "", "window_size_ms": 0}) in named.done
    declared = "CREATE TABLE d (k {} PRIMARY KEY, a INT) WITH (TOPIC = 't', {}, SERVED = {});"
    of_topic = perform(declared.format("BIGINT", "KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'AVRO'", "TRUE")).done
    assert (
        "serve",
        "D",
        "t",
        {**options, "key_format": "BIGINT", "value_format": "AVRO", "window": "", "window_size_ms": 0},
    ) in of_topic
    assert not [
        each for each in perform(declared.format("INT", "VALUE_FORMAT = 'JSON'", "FALSE")).done if each[0] == "serve"
    ]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE STREAM c WITH (SERVED = TRUE) AS SELECT * FROM s;", "SERVED is a property of tables"),
        (
            "CREATE TABLE n WITH (SERVED = 'a b') AS SELECT k, COUNT(*) FROM s GROUP BY k;",
            "SERVED is true, false, or a",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(statement: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        perform(statement)


def test_a_script_of_the_console_loads_no_module(tmp_path: Path) -> None:
    from odradek.operations.sql.script import check_script

    mark = tmp_path / "ran"
    module = tmp_path / "own_code.py"
    module.write_text(f"open({str(mark)!r}, 'w')")
    found = check_script(f"SET 'odradek.functions.module' = '{module}';")
    assert "modules are not loaded here" in found.problem
    assert not mark.exists()


COUNTED = "CREATE TABLE n AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"


def kept_by(script: str) -> dict[str, Basis]:
    """Return what the checkpoints belong to after a script ran."""
    actions = [step.action for step in check([("", SOURCES), ("", script)])]
    plans = [plan for each in actions if isinstance(each, Started) for plan in (*each.stages, each.plan)]
    return {plan.query_id: plan.basis for plan in plans if plan.basis is not None}


def test_a_script_whose_query_changed_is_refused_before_any_statement_runs() -> None:
    world = World()
    world.kept = kept_by(COUNTED)
    with pytest.raises(SqlError) as refused:
        perform("INSERT INTO s (k, a) VALUES ('x', 1);" + COUNTED.replace("COUNT(*)", "MAX(a)"), world=world)
    assert "CTAS_N cannot go on from its checkpoint: aggregate functions must stay the same" in str(refused.value)
    assert "COUNT(*), not MAX(A) of INT" in str(refused.value)
    assert world.done == []
    assert ("start", "CTAS_N") in perform(COUNTED.replace(" GROUP", " WHERE a > 1 GROUP"), world=world).done


def test_a_checkpoint_that_the_script_itself_removes_is_no_hindrance() -> None:
    changed = COUNTED.replace("COUNT(*)", "MAX(a)")
    for script in (f"{COUNTED} DROP TABLE n DELETE TOPIC; {changed}", COUNTED.replace("CREATE", "CREATE OR REPLACE")):
        world = World(N=1)
        world.kept = kept_by(COUNTED)
        assert ("start", "CTAS_N") in perform(script, world=world).done
