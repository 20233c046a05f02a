"""POST /ksql/terminate: everything ends, what is listed of the written topics is deleted, and nothing comes back."""

from __future__ import annotations

import pytest

from tests.support.sql_server import STREAM, TABLE, World


def test_a_terminated_cluster_begins_anew_after_a_restart() -> None:
    world = World()
    world.ksql(STREAM + TABLE + "CREATE STREAM u AS SELECT id, a FROM s; CREATE STREAM v AS SELECT id, a FROM s;")
    answer = world.client.post("/ksql/terminate", json={"deleteTopicList": ["N", "u.*|U", "s", "t"]})
    assert answer.status_code == 200, answer.text
    [told] = answer.json()
    assert (told["@type"], told["commandStatus"]["status"]) == ("currentStatus", "SUCCESS")
    assert set(world.topics.there) == {"s", "t", "V"}, "what no query wrote stays, and what is not listed"
    assert world.engine.started == {}
    assert ("forget", "CTAS_N_1") in world.engine.done
    refused = world.ksql("SHOW STREAMS;", 503)
    assert "has been terminated" in refused["message"]
    assert world.client.post("/query-stream", json={"sql": "SELECT * FROM s EMIT CHANGES;"}).status_code == 503
    world.start()
    assert world.log.commands == {}
    assert world.ksql("SHOW STREAMS; SHOW QUERIES;")[0]["streams"] == []


def test_without_a_list_all_topics_stay() -> None:
    world = World()
    world.ksql(STREAM + TABLE)
    assert world.client.post("/ksql/terminate", json={}).status_code == 200
    assert set(world.topics.there) == {"s", "t", "N"}


@pytest.mark.parametrize("wrong", ["N", [1], ["("]])
def test_a_list_that_is_none_is_refused_and_ends_nothing(wrong: object) -> None:
    world = World()
    world.ksql(STREAM + TABLE)
    answer = world.client.post("/ksql/terminate", json={"deleteTopicList": wrong})
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40000)
    assert "deleteTopicList" in answer.json()["message"]
    assert set(world.engine.started) == {"CTAS_N_1"}
    world.ksql("SHOW STREAMS;")
