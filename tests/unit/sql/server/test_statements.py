"""POST /ksql: what is answered, what is kept, and what a restarted server runs again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sql_server import STREAM, TABLE, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.service.close()


def test_statements_are_answered_in_order_with_numbers_that_rise(world: World) -> None:
    made, query = world.ksql(f"{STREAM}\n-- a comment; with a semicolon\n{TABLE}")
    assert made["@type"] == "currentStatus"
    assert made["commandId"] == "stream/S/create"
    assert made["commandStatus"] == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    assert query["statementText"] == TABLE
    assert query["commandStatus"]["queryId"] == "CTAS_N_1"
    assert (made["commandSequenceNumber"], query["commandSequenceNumber"]) == (0, 1)
    assert world.client.get("/status/table/N/create").json()["status"] == "SUCCESS"
    assert world.client.get("/status").json() == {
        "commandStatuses": {"stream/S/create": "SUCCESS", "table/N/create": "SUCCESS"}
    }
    assert world.client.get("/status/table/M/create").status_code == 404


def test_a_restarted_server_runs_what_ran_with_the_same_ids(world: World) -> None:
    world.ksql(STREAM + TABLE + "CREATE STREAM u AS SELECT id, a FROM s; INSERT INTO u SELECT id, a FROM s;")
    world.ksql("CREATE STREAM gone AS SELECT id, a FROM s; DROP STREAM gone; PAUSE CSAS_U_2;")
    ran = dict(world.engine.started)
    assert set(ran) == {"CTAS_N_1", "INSERTQUERY_3"}
    world.start()
    assert world.engine.started == ran
    states = {each["id"]: each["state"] for each in world.ksql("SHOW QUERIES;")[0]["queries"]}
    assert states == {"CTAS_N_1": "RUNNING", "CSAS_U_2": "PAUSED", "INSERTQUERY_3": "RUNNING"}
    world.ksql("RESUME CSAS_U_2;")
    world.start()
    assert set(world.engine.started) == {"CTAS_N_1", "CSAS_U_2", "INSERTQUERY_3"}


def test_a_name_that_is_used_again_gets_a_query_of_its_own(world: World) -> None:
    world.ksql(f"{STREAM} {TABLE} DROP TABLE n;")
    assert ("forget", "CTAS_N_1") in world.engine.done
    [again] = world.ksql(TABLE)
    assert again["commandStatus"]["queryId"] not in ("CTAS_N_1", None)
    before = len(world.log.commands)
    world.ksql(f"DROP TABLE n; {TABLE} DROP TABLE n; {TABLE}")
    assert len(world.log.commands) == before  # what was dropped is gone from the log, too


def test_a_source_that_an_ended_query_read_can_be_dropped_and_the_log_still_be_replayed(world: World) -> None:
    world.ksql(f"{STREAM} {TABLE} TERMINATE CTAS_N_1; DROP STREAM s;")
    world.start()
    assert world.engine.started == {}
    assert not world.service.is_degraded
    assert [each["name"] for each in world.ksql("SHOW TABLES;")[0]["tables"]] == ["N"]
    assert world.ksql("SHOW STREAMS;")[0]["streams"] == []


@pytest.mark.parametrize("dropped", ["s", "u"])
def test_what_an_ended_insert_read_or_wrote_can_be_dropped_and_the_log_still_be_replayed(
    world: World, dropped: str
) -> None:
    world.ksql(STREAM + TABLE + "CREATE STREAM u (id VARCHAR KEY, a INT) WITH (KAFKA_TOPIC = 't', FORMAT = 'JSON');")
    world.ksql("INSERT INTO u SELECT id, a FROM s; TERMINATE ALL; DROP TABLE n;")
    world.ksql(f"DROP STREAM {dropped};")
    world.start()
    assert not world.service.is_degraded
    [left] = world.ksql("SHOW STREAMS;")[0]["streams"]
    assert left["name"] == {"s": "U", "u": "S"}[dropped]
    world.ksql(f"DROP STREAM {left['name']};")
    world.start()
    assert not world.service.is_degraded


def test_a_chain_of_ended_queries_can_be_dropped_and_the_log_still_be_replayed(world: World) -> None:
    world.ksql(STREAM + "CREATE STREAM u AS SELECT id, a FROM s; CREATE STREAM v AS SELECT id, a FROM u;")
    world.ksql("TERMINATE ALL; DROP STREAM u; DROP STREAM s;")
    world.start()
    assert not world.service.is_degraded
    assert [each["name"] for each in world.ksql("SHOW STREAMS;")[0]["streams"]] == ["V"]


def test_drop_delete_topic_drops_the_topics_between_the_steps(world: World) -> None:
    two = "CREATE TABLE j AS SELECT s.id AS id, COUNT(*) AS c FROM s JOIN n ON s.id = n.id GROUP BY s.id;"
    world.ksql(STREAM + TABLE + two)
    assert {each for each in world.topics.there if each.startswith("_odradek_sql_")} == {
        "_odradek_sql_CTAS_J_2_STAGE_1"
    }
    world.ksql("DROP TABLE j DELETE TOPIC;")
    assert set(world.topics.there) == {"s", "t", "N"}
    assert set(world.engine.started) == {"CTAS_N_1"}


def test_what_fails_changes_nothing_and_is_not_in_the_log(world: World) -> None:
    world.ksql(STREAM)
    wrong = world.ksql("CREATE STREAM ok AS SELECT id, a FROM s; CREATE STREAM b AS SELECT nope FROM s;", 400)
    assert wrong["@type"] == "statement_error"
    assert wrong["error_code"] == 40001
    assert wrong["message"].startswith("line 1:")
    assert "S has no column NOPE" in wrong["message"]
    assert wrong["statementText"] == "CREATE STREAM b AS SELECT nope FROM s;"
    assert [each["commandId"] for each in wrong["entities"]] == ["stream/OK/create"]
    world.engine.refuses = "CTAS_N"
    failed = world.ksql(TABLE, 500)
    assert (failed["error_code"], failed["message"]) == (50000, "Spark is away")
    assert len(world.log.commands) == 2
    world.log.refuses = True
    assert world.ksql("CREATE STREAM later AS SELECT id, a FROM s;", 500)["message"] == "the log is away"
    assert set(world.engine.started) == {"CSAS_OK_1"}
    missing = world.ksql("CREATE STREAM m (a INT) WITH (KAFKA_TOPIC = 'm', VALUE_FORMAT = 'JSON');", 400)
    assert missing["message"] == "topic m does not exist: WITH (PARTITIONS = n) creates it"


def test_a_replaced_query_goes_on_from_its_checkpoint_and_an_unstartable_one_leaves_the_old_one(world: World) -> None:
    world.ksql(STREAM + "CREATE STREAM u AS SELECT id, a FROM s;")
    world.ksql("CREATE OR REPLACE STREAM u AS SELECT id, a FROM s WHERE a > 1;")
    assert list(world.engine.started) == ["CSAS_U_1"]
    assert "> 1" in world.engine.started["CSAS_U_1"].sql
    world.start()
    assert "> 1" in world.engine.started["CSAS_U_1"].sql


def test_what_is_defined_is_shown(world: World) -> None:
    world.ksql(STREAM + TABLE + "CREATE TYPE price AS DECIMAL(9, 2);")
    shown = world.ksql(
        "SHOW STREAMS; SHOW TABLES; DESCRIBE n; SHOW TYPES; SHOW TOPICS; SHOW FUNCTIONS; EXPLAIN CTAS_N_1;"
    )
    streams, tables, described, types, topics, functions, explained = shown
    assert streams["streams"] == [
        {"type": "STREAM", "name": "S", "topic": "s", "keyFormat": "KAFKA", "valueFormat": "JSON", "isWindowed": False}
    ]
    assert tables["@type"] == "tables"
    description = described["sourceDescription"]
    assert [(each["name"], each["schema"]["type"], each.get("type")) for each in description["fields"]] == [
        ("ID", "STRING", "KEY"), ("C", "BIGINT", None),
    ]  # fmt: skip
    assert description["statement"] == TABLE
    assert [each["id"] for each in description["writeQueries"]] == ["CTAS_N_1"]
    assert types["types"]["PRICE"]["parameters"] == {"precision": 9, "scale": 2}
    assert {"name": "s", "replicaInfo": [1, 1, 1]} in topics["topics"]
    assert {"name": "COUNT", "type": "AGGREGATE", "category": ""} in functions["functions"]
    assert explained["queryDescription"]["sinks"] == ["N"]
    assert explained["queryDescription"]["state"] == "RUNNING"


def test_extended_lists_and_plans_of_queries_are_in_the_types_that_ksqldbs_clients_know(world: World) -> None:
    world.ksql(STREAM + TABLE)
    topics, queries, explained, round_, count = world.ksql(
        "SHOW TOPICS EXTENDED; SHOW QUERIES EXTENDED; EXPLAIN SELECT id, d FROM s EMIT CHANGES; "
        "DESCRIBE FUNCTION ROUND; DESCRIBE FUNCTION CONCAT;"
    )
    assert topics["@type"] == "kafka_topics_extended"
    counted = {each["name"]: (each["consumerCount"], each["consumerGroupCount"]) for each in topics["topics"]}
    assert counted == {"s": (0, 0), "t": (3, 2), "N": (0, 0)}
    assert queries["@type"] == "query_descriptions"
    [query] = queries["queryDescriptions"]
    assert (query["id"], query["sinks"], query["fields"][0]["type"]) == ("CTAS_N_1", ["N"], "KEY")
    fields = explained["queryDescription"]["fields"]
    assert explained["queryDescription"]["sources"] == ["S"]
    assert [(each["name"], each["schema"]["type"]) for each in fields] == [("ID", "STRING"), ("D", "DECIMAL")]
    assert [len(each["arguments"]) for each in round_["functions"]] == [1, 2]
    assert [each["isVariadic"] for each in count["functions"][0]["arguments"]][-1]


def test_commands_have_the_ids_and_numbers_that_ksqldbs_clients_read(world: World) -> None:
    """They know few kinds of commands, and wait for the number of the last one."""

    def run(text: str) -> tuple[str, str]:
        [found] = world.ksql(text)
        world.ksql("SHOW STREAMS;", commandSequenceNumber=found["commandSequenceNumber"])
        return found["commandId"], found["commandStatus"]["message"]

    world.ksql(STREAM + TABLE)
    world.ksql("CREATE STREAM u AS SELECT id, a FROM s;")
    assert run("INSERT INTO u SELECT id, a FROM s;")[0] == "stream/U/create"
    assert run("PAUSE CTAS_N_1;")[0] == "pause/CTAS_N_1/execute"
    assert run("PAUSE CTAS_N_1;")[0] == "pause/CTAS_N_1/execute"
    assert run("RESUME ALL;")[0] == "resume/ALL/execute"
    assert run("TERMINATE ALL;")[0] == "terminate/ALL/execute"
    assert run("DROP STREAM IF EXISTS nothing;") == ("stream/NOTHING/drop", "Source `NOTHING` does not exist.")
    assert run("DROP TYPE IF EXISTS nothing;") == ("type/NOTHING/drop", "Type 'NOTHING' does not exist")
    run("CREATE TYPE pair AS STRUCT<a INT>;")
    assert run("CREATE TYPE IF NOT EXISTS pair AS INT;")[0] == "type/PAIR/create"
    [there] = world.ksql("CREATE STREAM IF NOT EXISTS s (id VARCHAR KEY) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');")
    assert (there["@type"], there["message"][:22]) == ("warning_entity", "Cannot add stream `S`:")


def test_a_query_that_runs_is_not_resumed(world: World) -> None:
    world.ksql(STREAM + TABLE)
    before = list(world.engine.done)
    world.ksql("RESUME ALL;")
    assert world.engine.done == before


def test_properties_hold_for_one_request_and_variables_are_filled_in(world: World) -> None:
    given = {"ksql.streams.auto.offset.reset": "earliest"}
    world.ksql(STREAM + TABLE, streamsProperties=given)
    assert world.engine.started["CTAS_N_1"].starting_offsets == "earliest"
    world.ksql("CREATE STREAM u AS SELECT ${column} FROM s;", sessionVariables={"column": "id, a"})
    assert world.engine.started["CSAS_U_2"].starting_offsets == "latest"
    world.start()
    assert world.engine.started["CTAS_N_1"].starting_offsets == "earliest"
    wrong = world.ksql("SHOW STREAMS;", 400, streamsProperties={"auto.offset.reset": "middle"})
    assert "'auto.offset.reset' is earliest or latest, not middle" in wrong["message"]
    assert world.client.get("/is_valid_property/auto.offset.reset").json() is True
    assert world.client.get("/is_valid_property/nonsense").status_code == 400


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("odradek.functions.module", "a server runs the functions that it was started with"),
        ("spark.jars", "spark.jars belongs to the server"),
    ],
)
def test_a_request_cannot_bring_code_or_change_spark(world: World, name: str, said: str) -> None:
    for given in ({"text": f"SET '{name}' = 'os';"}, {"text": "SHOW STREAMS;", "streamsProperties": {name: "os"}}):
        assert said in world.ksql(given.pop("text"), 400, **given)["message"]
    query = {"sql": "SELECT * FROM s;", "properties": {name: "os"}}
    assert said in world.client.post("/query-stream", json=query).json()["message"]


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        (b"no JSON", 400, 40000, "not JSON"),
        (b"[]", 400, 40000, "must be a JSON object"),
        (b"{}", 400, 40000, '"ksql"'),
        (b'{"ksql": ";"}', 400, 40001, "no statement"),
        (b'{"ksql": "SELECT * FROM s;"}', 400, 40002, "/query"),
        (b'{"ksql": "SHOW STREAMS;", "commandSequenceNumber": 7}', 503, 50301, "statement 7 has not run"),
        (b'{"ksql": "ASSERT TOPIC nowhere TIMEOUT 0 SECONDS;"}', 417, 41700, "topic nowhere does not exist"),
    ],
)
def test_bad_requests_are_answered_as_ksqldb_answers_them(
    world: World, body: bytes, status: int, code: int, said: str
) -> None:
    answer = world.client.post("/ksql", content=body)
    assert answer.status_code == status
    assert answer.json()["error_code"] == code
    assert said in answer.json()["message"]


def test_what_asserts_and_inserts_answer(world: World) -> None:
    assert world.ksql("ASSERT TOPIC s;")[0] == {
        "@type": "assert_topic", "statementText": "ASSERT TOPIC s;", "topicName": "s", "exists": True, "warnings": [],
    }  # fmt: skip
    assert world.ksql(STREAM + "INSERT INTO s (id, a) VALUES ('x', 1);")[1:] == []
    assert world.engine.done == [("insert", "s")]


def test_a_query_that_fails_is_shown_and_started_again(world: World) -> None:
    world.ksql(STREAM + TABLE)
    world.engine.failures["CTAS_N_1"] = "a Python worker did not start"

    def state() -> tuple[str, list[str]]:
        [found] = world.ksql("EXPLAIN CTAS_N_1;")
        described = found["queryDescription"]
        return described["state"], [each["errorMessage"] for each in described["queryErrors"]]

    for _ in range(300):
        if ("start", "CTAS_N_1") in world.engine.done[1:]:
            break
        world.service.supervisor._stop.wait(0.05)
    assert world.engine.done.count(("start", "CTAS_N_1")) == 2
    assert state() == ("RUNNING", ["a Python worker did not start"])


def test_a_statement_that_can_no_longer_be_planned_does_not_stop_the_others(world: World) -> None:
    world.ksql(STREAM + TABLE)
    command = world.log.commands[0]
    world.log.commands[0] = type(command)(0, "CREATE STREAM s (id NOSUCH) WITH (KAFKA_TOPIC = 's');", command.about)
    world.ksql("CREATE TABLE t (id VARCHAR PRIMARY KEY, a INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON');")
    world.start()
    assert world.client.get("/info").json()["KsqlServerInfo"]["serverStatus"] == "DEGRADED"
    assert world.client.get("/healthcheck").status_code == 503
    assert [each["name"] for each in world.ksql("SHOW TABLES;")[0]["tables"]] == ["T"]


def test_a_served_table_is_served_as_long_as_it_is_there(world: World) -> None:
    served = TABLE.replace("AS SELECT", "WITH (SERVED = 'by_id') AS SELECT", 1)
    world.ksql(STREAM)
    world.engine.refuses = "CTAS_N"
    world.ksql(served, 500)
    assert (world.topics.served, world.engine.started) == ({}, {}), "what failed is undone"
    world.engine.refuses = ""
    world.ksql(served)
    assert world.topics.served == {"by_id": "N"}
    world.start()
    assert world.topics.served == {"by_id": "N"}
    world.ksql("DROP TABLE n;")
    assert world.topics.served == {}


def test_a_replacement_that_cannot_go_on_is_refused_and_nothing_is_written(world: World) -> None:
    world.ksql(STREAM + TABLE)
    before, ran = dict(world.log.commands), dict(world.engine.started)
    refused = world.client.post("/ksql", json={"ksql": TABLE.replace("CREATE", "CREATE OR REPLACE").replace("id", "a")})
    assert refused.status_code == 400
    assert "N cannot be replaced: key columns must stay the same" in refused.json()["message"]
    assert "DROP TABLE N DELETE TOPIC" in refused.json()["message"]
    assert dict(world.log.commands) == before
    assert world.engine.started == ran
    [again] = world.ksql(TABLE.replace("CREATE", "CREATE OR REPLACE").replace(" GROUP", " WHERE a > 1 GROUP"))
    assert again["commandStatus"]["queryId"] == "CTAS_N_1"


def test_a_request_shows_its_variables_and_may_leave_them_as_they_are(world: World) -> None:
    body = {"ksql": "DEFINE b = '${a}y'; UNDEFINE c; SHOW VARIABLES;", "sessionVariables": {"a": "x", "c": "1"}}
    [found] = world.client.post("/ksql", json=body).json()
    assert found["variables"] == [{"name": "A", "value": "x"}, {"name": "B", "value": "xy"}]
    world.ksql(STREAM)
    made = "CREATE STREAM u AS SELECT id, '$${a}' AS v FROM s;"
    [created] = world.client.post("/ksql", json={"ksql": made, "sessionVariables": {"a": "x"}}).json()
    assert created["statementText"] == made.replace("$$", "$")
    world.start()  # reads the statement again, in which no variable is left
    assert not world.service.is_degraded
    properties = {"ksql.variable.substitution.enable": "false"}
    kept = "CREATE STREAM w AS SELECT id, '${a}' AS v FROM s;"
    body = {"ksql": kept, "sessionVariables": {"a": "x"}, "streamsProperties": properties}
    assert world.client.post("/ksql", json=body).json()[0]["statementText"] == kept
