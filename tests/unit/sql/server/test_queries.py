"""/query, /query-stream, /close-query, /inserts-stream, /ws/query: content types, rows, limits, ends."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from odradek.columnar.typed.protobuf_built_in import built_in_descriptor
from odradek.registry.protobuf.files import resolve
from odradek.registry.protobuf.text import parse_text
from odradek.registry.protobuf.wire import encode_descriptor
from odradek.sql.session import Tombstone
from starlette.websockets import WebSocketDisconnect

from tests.support.sql_server import STREAM, TABLE, World

DELIMITED = "application/vnd.ksqlapi.delimited.v1"
V1 = "application/vnd.ksql.v1+json"


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.ksql(STREAM + TABLE)
    yield made
    made.service.close()


def post(world: World, path: str, accept: str = "", **given: Any) -> Any:
    return world.client.post(path, json=given, headers={"Accept": accept} if accept else {"Accept": "*/*"})


def test_a_pull_query_is_answered_with_its_columns_and_rows(world: World) -> None:
    world.engine.present = [("x", 1), ("y", None)]
    answer = post(world, "/query", ksql="SELECT * FROM n WHERE id = 'x';")
    assert answer.headers["content-type"] == V1
    header, *rows = answer.json()
    assert header["header"]["schema"] == "`ID` STRING KEY, `C` BIGINT"
    assert rows == [{"row": {"columns": ["x", 1]}}, {"row": {"columns": ["y", None]}}]
    lines = post(world, "/query-stream", sql="SELECT * FROM n;").text.splitlines()
    assert json.loads(lines[0])["columnTypes"] == ["STRING", "BIGINT"]
    assert [json.loads(each) for each in lines[1:]] == [["x", 1], ["y", None]]
    as_json = post(world, "/query-stream", "application/json", sql="SELECT * FROM n;").json()
    assert as_json[1:] == [["x", 1], ["y", None]]


def test_an_answer_without_rows_is_whole(world: World) -> None:
    for accept in (V1, "application/json"):
        assert len(post(world, "/query-stream", accept, sql="SELECT * FROM n;").json()) == 1


def test_each_row_of_a_push_query_is_a_whole_line_as_it_comes(world: World) -> None:
    """ksqlDB's clients read lines, and wait for the first before they return."""
    world.engine.arriving = [[("x", 1, None)], [], [("y", 2, None)]]
    header, *rows = post(world, "/query-stream", V1, sql="SELECT * FROM s EMIT CHANGES LIMIT 2;").text.split("\n")
    assert header.endswith("},")
    assert rows == [
        '{"row":{"columns":["x",1,null]}},', '{"row":{"columns":["y",2,null]}},', '{"finalMessage":"Limit Reached"}]',
    ]  # fmt: skip


def test_rows_are_asked_for_as_protobuf_messages(world: World) -> None:
    world.ksql(
        "CREATE STREAM p (n INT, d DATE, t TIMESTAMP, a ARRAY<VARCHAR>, m MAP<VARCHAR, INT>, "
        "s STRUCT<x DECIMAL(4, 2)>, b BYTES) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');"
    )
    rows = [(7, "2026-01-02", "2026-01-02T03:04:05.678Z", ["x", "y"], {"k": 1}, {"X": "1.50"}, "AQI=")]
    world.engine.arriving = [[*rows, (None,) * 7]]
    for path, given in (("/query", {"ksql": "SELECT * FROM p EMIT CHANGES LIMIT 2;"}),
                        ("/query-stream", {"sql": "SELECT * FROM p EMIT CHANGES LIMIT 2;"})):  # fmt: skip
        answer = post(world, path, "application/vnd.ksql.v1+protobuf", **given)
        assert answer.headers["content-type"] == "application/vnd.ksql.v1+protobuf"
        header, row, empty, end = answer.json()
        assert header["header"]["schema"].startswith("`N` INTEGER, `D` DATE")
        proto = header["header"]["protoSchema"]
        assert "message ConnectDefault1 {\n  int32 N = 1;" in proto
        assert "ConnectDefault2Entry M = 5;\n  " in proto, proto
        message = _message_of(proto)
        message.ParseFromString(base64.b64decode(row["row"]["protobufBytes"]))
        assert (message.N, message.T.ToJsonString()) == (7, "2026-01-02T03:04:05.678Z")
        assert (message.D.year, message.D.month, message.D.day) == (2026, 1, 2)
        assert (list(message.A), message.B) == (["x", "y"], b"\1\2")
        assert [(each.key, each.value) for each in message.M] == [("k", 1)]
        assert (message.S.X.value, message.S.X.scale) == (b"\x00\x96", 2), "1.50"
        assert "X = 1 [(confluent.field_meta) = {" in proto
        assert empty == {"row": {"protobufBytes": ""}}
        assert end == {"finalMessage": "Limit Reached"}


def _message_of(proto: str) -> Any:
    """Return an empty message of the one type of a .proto file."""
    file = parse_text(proto)
    resolved, types = resolve(file, {})
    described = FileDescriptorProto.FromString(base64.b64decode(encode_descriptor(resolved, types, "rows.proto")))
    pool = DescriptorPool()
    for each in described.dependency:
        pool.AddSerializedFile(built_in_descriptor(each).SerializeToString())
    pool.Add(described)
    return GetMessageClass(pool.FindMessageTypeByName("ConnectDefault1"))()


def test_two_clients_may_ask_for_the_same(world: World) -> None:
    world.engine.arriving = [[("x", 1, None)]]
    for _ in range(2):
        post(world, "/query-stream", sql="SELECT * FROM s EMIT CHANGES LIMIT 1;")
    one, other = (each.query_id for each in world.engine.pushed)
    assert one != other


def test_a_push_query_ends_with_its_limit_and_says_so(world: World) -> None:
    world.engine.arriving = [[("x", 1, "1.50")], [("y", 2, None)]]
    found = post(world, "/query", ksql="SELECT * FROM s EMIT CHANGES LIMIT 2;").text
    assert '{"row":{"columns":["x",1,1.50]}}' in found  # all digits of a DECIMAL, as a number
    assert json.loads(found)[1:] == [
        {"row": {"columns": ["x", 1, 1.5]}}, {"row": {"columns": ["y", 2, None]}}, {"finalMessage": "Limit Reached"},
    ]  # fmt: skip
    text = post(world, "/query-stream", sql="SELECT id, a, d FROM s EMIT CHANGES LIMIT 2;").text
    assert text.splitlines()[1:] == ['["x",1,1.50]', '["y",2,null]']
    settings = {"ksql.streams.auto.offset.reset": "earliest"}
    post(world, "/query-stream", sql="SELECT * FROM s EMIT CHANGES LIMIT 1;", properties=settings)
    assert [each.starting_offsets for each in world.engine.pushed] == ["latest", "latest", "earliest"]


def test_a_row_that_left_its_table_is_a_tombstone(world: World) -> None:
    world.engine.arriving = [[("x", 1), Tombstone(("x", None))]]
    found = post(world, "/query", ksql="SELECT * FROM n WHERE c > 0 EMIT CHANGES LIMIT 2;").json()
    assert found[1:3] == [{"row": {"columns": ["x", 1]}}, {"row": {"columns": ["x", None], "tombstone": True}}]
    lines = post(world, "/query-stream", sql="SELECT * FROM n EMIT CHANGES LIMIT 2;").text.splitlines()
    assert lines[1:] == ['["x",1]'], "a row of nulls would be taken for one of the table"
    filtered, whole = world.engine.pushed
    assert filtered.marks_deleted
    assert whole.marks_deleted
    assert "OR `N`.__deleted" in filtered.sql  # whose columns are NULL meets no condition


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_print_gives_a_line_for_each_record(world: World) -> None:
    world.engine.arriving = [
        [("2026-01-02T03:04:05.006Z", b64(b"k"), b64(b'{"A": 1}'), 0)],
        [("2026-01-02T03:04:06.000Z", None, None, 2)],
    ]
    found = post(world, "/query-stream", sql="PRINT s FROM BEGINNING LIMIT 2;")
    assert found.text.splitlines() == [
        "Key format: KAFKA_STRING",
        "Value format: JSON",
        'rowtime: 2026/01/02 03:04:05.006 Z, key: k, value: {"A": 1}, partition: 0',
        "rowtime: 2026/01/02 03:04:06.000 Z, key: <null>, value: <null>, partition: 2",
    ]
    assert post(world, "/query-stream", "application/json", sql="PRINT s LIMIT 1;").status_code == 406
    assert post(world, "/query", "application/json", ksql="PRINT s LIMIT 1;").text == found.text  # as its CLI asks
    assert (
        post(world, "/query-stream", sql="PRINT nowhere LIMIT 1;").json()["message"] == "topic nowhere does not exist"
    )


def test_close_query_ends_a_push_query(world: World) -> None:
    world.engine.arriving = [[("x", 1, None)]]
    closed = []

    def close() -> None:
        while not world.engine.pushing:
            threading.Event().wait(0.01)
        [query_id] = _running(world)
        closed.append(world.client.post("/close-query", json={"queryId": query_id}).status_code)

    with world.client:
        closer = threading.Thread(target=close)
        closer.start()
        found = post(world, "/query-stream", sql="SELECT * FROM s EMIT CHANGES;")
        closer.join()
    assert closed == [200]
    assert len(found.text.splitlines()) == 2
    unknown = world.client.post("/close-query", json={"queryId": "none"})
    assert (unknown.status_code, unknown.json()["message"]) == (400, "No query with id none")


def test_a_push_query_is_shown_and_can_be_terminated(world: World) -> None:
    world.engine.arriving = [[("x", 1, None)]]
    shown: list[Any] = []

    def terminate() -> None:
        while not world.engine.pushing:
            threading.Event().wait(0.01)
        [found] = world.ksql("SHOW QUERIES;")
        shown.append(found["queries"][-1])
        shown.append(world.ksql(f"TERMINATE {shown[0]['id']};")[0])

    with world.client:
        other = threading.Thread(target=terminate)
        other.start()
        found = post(world, "/query", V1, ksql="SELECT * FROM s EMIT CHANGES;").json()
        other.join()
    assert found[-1] == {"finalMessage": "Query Completed"}
    query, ended = shown
    assert (query["queryType"], query["sinks"], query["queryString"]) == ("PUSH", [], "SELECT * FROM s EMIT CHANGES;")
    assert (ended["@type"], ended["queryId"], ended["wasTerminated"]) == ("terminate_query", query["id"], True)


def _running(world: World) -> list[str]:
    return list(world.transients._pushes)


def test_no_more_push_queries_run_than_allowed(world: World) -> None:
    world.transients._push_max = 0
    refused = post(world, "/query-stream", sql="SELECT * FROM s EMIT CHANGES;")
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40003)
    world.transients._pulls = 1
    refused = post(world, "/query-stream", sql="SELECT * FROM n;")
    assert (refused.status_code, refused.json()["error_code"]) == (429, 42900)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT nope FROM n;", "N has no column NOPE"),
        ("SHOW STREAMS;", "/query takes SELECT and PRINT"),
        ("SELECT * FROM n; SELECT * FROM n;", "expected one statement, not 2"),
    ],
)
def test_a_wrong_query_is_refused(world: World, text: str, said: str) -> None:
    answer = post(world, "/query-stream", sql=text)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40001)
    assert said in answer.json()["message"]


def test_rows_are_inserted_up_to_the_first_wrong_one(world: World) -> None:
    rows = [{"ID": "x", "a": 1}, {"id": "y", "d": "1.25"}, {"id": "z", "a": "text"}, {"id": "never"}]
    lines = [{"target": "s"}, *rows]
    answer = world.client.post("/inserts-stream", content="\n".join(json.dumps(each) for each in lines))
    acks = [json.loads(line) for line in answer.text.splitlines()]
    assert acks[:2] == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    assert acks[2] == {"status": "error", "seq": 2, "error_code": 40001, "message": 'A is INT, not "text"'}
    assert [json.loads(each) for each in world.engine.documents] == [{"ID": "x", "A": 1}, {"ID": "y", "D": "1.25"}]
    unknown = world.client.post("/inserts-stream", content='{"target": "nowhere"}\n')
    assert (unknown.status_code, unknown.json()["message"]) == (400, "unknown stream or table NOWHERE")


def test_a_websocket_gets_columns_then_rows(world: World) -> None:
    world.engine.arriving = [[("x", 1)]]
    request = json.dumps({"ksql": "SELECT id, a FROM s EMIT CHANGES LIMIT 1;"})
    with world.client.websocket_connect("/ws/query", params={"request": request}) as socket:
        assert [each["name"] for each in socket.receive_json()] == ["ID", "A"]
        assert socket.receive_json() == {"row": {"columns": ["x", 1]}}
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
    assert ended.value.code == 1000
    wrong = {"request": '{"ksql": "SELEC"}'}
    with (
        world.client.websocket_connect("/ws/query", params=wrong) as socket,
        pytest.raises(WebSocketDisconnect) as ended,
    ):
        socket.receive_json()
    assert (ended.value.code, "SELEC is not expected" in ended.value.reason) == (1008, True)


def test_an_unknown_path_and_a_wrong_method(world: World) -> None:
    assert world.client.get("/nothing").json()["error_code"] == 40400
    assert world.client.get("/ksql").json()["error_code"] == 40500
    assert world.client.get("/", follow_redirects=False).headers["location"] == "/info"
    assert post(world, "/query", "text/html", ksql="SELECT * FROM n;").status_code == 406
