"""Served tables of an embedded service: SDK, commands, and plain signed HTTP."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import odradek
import pytest
from odradek.cli.app import app
from odradek.client.serializers.avro import AvroSerializer
from odradek.client.serializers.registry import HttpRegistry
from odradek.errors import ErrorCode, KafkaError
from odradek.local import ThreadedService
from odradek.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from odradek.served.api import Request
from odradek.settings import Settings
from typer.testing import CliRunner

from tests.support.services.signed_http import post

HOUR_MS = 3_600_000
COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedService]:
    data_dir = tmp_path_factory.mktemp("served") / "data"
    with odradek.local(data_dir, synchronous="NORMAL", settings=Settings(catalog_cache_ms=0)) as running:
        with odradek.Admin(**running.client_config) as admin:
            names = ("scores", "by_hour", "sessions", "typed", "numbers", "pushed", "listed", "guarded")
            admin.create_topics([odradek.NewTopic(name, 3, configs=COMPACTED) for name in names])
            admin.create_topics([odradek.NewTopic("plain", 1)])
        yield running


@pytest.fixture
def admin(service: ThreadedService) -> Iterator[odradek.Admin]:
    with odradek.Admin(**service.client_config) as client:
        yield client


def put(service: ThreadedService, topic: str, *rows: tuple[bytes, bytes | None]) -> odradek.RecordMetadata:
    """Send records; return where the last one is."""
    with odradek.Producer(**service.client_config) as producer:
        sent = [producer.send(topic, value, key=key) for key, value in rows]
        producer.flush()
        return sent[-1].result()


def command(service: ThreadedService, *words: str, code: int = 0) -> Any:
    """Run a command, and return what it printed as JSON, or as text."""
    where = ["--bootstrap-servers", service.bootstrap_servers, "--data-dir", str(service.data_dir)]
    result = CliRunner().invoke(app, ["tables", *words, *where])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.output) if "json" in words else result.output


def http(
    service: ThreadedService, method: str, path: str, body: bytes = b"", *, signed: bool = True
) -> tuple[int, Any]:
    credentials = service.credentials if signed else None
    url = service.bootstrap_servers + path
    status, text, _ = asyncio.run(post(url, body, credentials, method=method, content_type="application/json"))
    return status, text.decode()


def test_a_producer_reads_its_own_write(service: ThreadedService, admin: odradek.Admin) -> None:
    admin.serve_table("scores")
    with odradek.Table("scores", **service.client_config) as table:
        for number in range(5):
            sent = put(
                service, "scores", (b"ada", b'{"points": %d}' % number), (b"bob", b"1"), (b"ada", b'"%d"' % number)
            )
            row = table.get("ada", min_offset=sent)
            assert row is not None
            assert (row.value, row.offset, row.partition) == (str(number), sent.offset, sent.partition)
            assert table.covered[sent.partition] == sent.offset + 1
        sent = put(service, "scores", (b"ada", None))
        assert table.get("ada", min_offset=sent) is None
        sent = put(service, "scores", (b"ada", b"9"))
        assert [row and row.value for row in table.get_many(["bob", "nobody", "ada"], min_offset=sent)] == [
            1,
            None,
            9,
        ]
        with pytest.raises(KafkaError, match=rf"ends at {sent.offset + 1}: it has no offset 99") as refused:
            table.get("ada", min_offset={sent.partition: 99})
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert table.describe().table.topic == "scores"


def test_a_range_is_in_the_order_of_keys_page_by_page(service: ThreadedService, admin: odradek.Admin) -> None:
    admin.serve_table("listed", value_format="STRING")
    names = sorted([f"user-{number:03d}" for number in range(60)] + ["a/b c", "ü", "user", "z\x01", "\x00low"])
    sent = [put(service, "listed", *((name.encode(), name.upper().encode()) for name in names))]
    with odradek.Table("listed", **service.client_config) as table:
        ends = {
            partition.partition: partition.end_offset - 1
            for partition in table.describe().partitions
            if partition.end_offset
        }
        everything = [row.key for row in table.range(min_offset=ends)]
        assert everything == sorted(names, key=str.encode)
        assert [row.key for row in table.range("user-010", "user-013")] == ["user-010", "user-011", "user-012"]
        assert [row.key for row in table.range(prefix="user-05")] == [f"user-05{number}" for number in range(10)]
        for name in ("a/b c", "ü", "\x00low", "z\x01"):
            row = table.get(name)
            assert row is not None
            assert row.value == name.upper()
    pages, cursor = [], ""
    for _ in range(30):
        options = ["--limit", "7", *(["--cursor", cursor] if cursor else [])]
        page = command(service, "range", "listed", *options, "--output", "json")
        pages += [row["key"] for row in page["rows"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert pages == everything
    assert sent


def test_windows_are_rows_of_one_key(service: ThreadedService, admin: odradek.Admin) -> None:
    admin.serve_table("by_hour", window="TUMBLING", window_size_ms=HOUR_MS)
    rows = [
        (name + struct.pack(">q", hour * HOUR_MS), b'{"N": %d}' % (10 * hour + tp))
        for tp, name in enumerate((b"JFK", b"JF", b"JFK1"))
        for hour in range(4)
    ]
    put(service, "by_hour", *rows)
    with odradek.Table("by_hour", **service.client_config) as table:
        ends = {
            partition.partition: partition.end_offset - 1
            for partition in table.describe().partitions
            if partition.end_offset
        }
        windows_read = table.windows("JFK", min_offset=ends)
        assert [(row.key, row.window_start_ms, row.window_end_ms, row.value) for row in windows_read] == [
            ("JFK", hour * HOUR_MS, (hour + 1) * HOUR_MS, {"N": 10 * hour}) for hour in range(4)
        ]
        row = table.get("JFK", window=2 * HOUR_MS)
        assert row is not None
        assert row.value == {"N": 20}
        newest = table.get("JF")
        assert newest is not None
        assert newest.value == {"N": 31}
        assert table.get("JFK", window=9 * HOUR_MS) is None
        ranged = [
            (row.key, row.window_start_ms) for row in table.range("JF", "JFK", from_ms=HOUR_MS, to_ms=3 * HOUR_MS)
        ]
        assert ranged == [("JF", HOUR_MS), ("JF", 2 * HOUR_MS)]
    status, text = http(service, "GET", "/tables/by_hour/JFK?from=1970-01-01T01%3A00%3A00Z&to=10800000")
    assert status == 200
    assert [row["value"]["N"] for row in json.loads(text)["rows"]] == [10, 20]
    status, text = http(service, "GET", "/tables/by_hour/JFK?window=tomorrow")
    assert (status, json.loads(text)["error"]) == (400, "INVALID_REQUEST")
    shown = command(service, "get", "by_hour", "JFK", "--from", "1970-01-01T02:00:00", "--output", "json")
    assert [row["value"]["N"] for row in shown["rows"]] == [20, 30]
    assert "1970-01-01T03:00:00.000+00:00" in command(service, "get", "by_hour", "JFK")


def test_sessions_have_their_own_ends(service: ThreadedService, admin: odradek.Admin) -> None:
    admin.serve_table("sessions", window="SESSION")
    sent = put(service, "sessions", (b"u" + struct.pack(">qq", 90, 20), b"1"), (b"short", b"2"))
    with odradek.Table("sessions", **service.client_config) as table:
        ends = {
            partition.partition: partition.end_offset - 1
            for partition in table.describe().partitions
            if partition.end_offset
        }
        [row] = table.windows("u", min_offset=ends)
        assert (row.window_start_ms, row.window_end_ms) == (20, 90)
        assert sum(partition.unusable for partition in table.describe().partitions) == 1
    assert sent


def test_values_and_keys_by_their_format(service: ThreadedService, admin: odradek.Admin) -> None:
    schema = json.dumps(
        {
            "type": "record",
            "name": "Play",
            "namespace": "music",
            "fields": [
                {"name": "song", "type": "string"},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
                {"name": "tags", "type": {"type": "array", "items": "string"}},
                {"name": "genre", "type": ["null", {"type": "enum", "name": "Genre", "symbols": ["POP", "JAZZ"]}]},
                {"name": "other", "type": ["null", "Genre"]},
                {"name": "counts", "type": {"type": "map", "values": "int"}},
            ],
        }
    )
    play = {"song": "Ö", "at": -5, "price": Decimal("-1.50"), "tags": ["a", ""], "genre": "JAZZ", "other": None}
    play["counts"] = {"x": -1}
    config = service.client_config
    registry = HttpRegistry(
        f"{config['bootstrap_servers']}/registry",
        **{name: config[name] for name in ("aws_region", "aws_access_key_id", "aws_secret_access_key")},
    )
    data = AvroSerializer(registry, schema).for_topic("typed", is_key=False)(play)
    admin.serve_table("typed", value_format="AVRO")
    sent = put(service, "typed", (b"good", data), (b"bad", b"no schema id"))
    with odradek.Table("typed", **service.client_config) as table:
        ends = {
            partition.partition: partition.end_offset - 1
            for partition in table.describe().partitions
            if partition.end_offset
        }
        row = table.get("good", min_offset=ends)
        assert row is not None
        assert row.value == {**play, "price": "-1.50"}
        bad = table.get("bad")
        assert bad is not None
        assert bad.error == "not AVRO: it does not begin with a schema id"
        assert bad.value == "bm8gc2NoZW1hIGlk"
    admin.serve_table("numbers", key_format="BIGINT", value_format="DOUBLE")
    rows = [(struct.pack(">q", number), struct.pack(">d", number / 2)) for number in (5, -7, 0, 2**40)]
    put(service, "numbers", *rows)
    with odradek.Table("numbers", **service.client_config) as table:
        ends = {
            partition.partition: partition.end_offset - 1
            for partition in table.describe().partitions
            if partition.end_offset
        }
        row = table.get("-7", min_offset=ends)
        assert row is not None
        assert (row.key, row.value) == (-7, -3.5)
        assert [row.key for row in table.range()] == [-7, 0, 5, 2**40]
        with pytest.raises(KafkaError, match="invalid key 'seven': give a key of BIGINT"):
            table.get("seven")
    assert sent


def test_changes_are_pushed_as_events_that_a_reader_resumes(service: ThreadedService, admin: odradek.Admin) -> None:
    admin.serve_table("pushed")
    status, text = http(service, "GET", "/tables/pushed?changes=1&wait_ms=0")
    assert status == 200
    [began] = [line for line in text.splitlines() if line.startswith("id: ")]
    put(service, "pushed", (b"a", b"1"))
    put(service, "pushed", (b"a", b"2"), (b"b", b"1"))
    put(service, "pushed", (b"a", None))
    api = service.service._triggers.tables.api
    headers = {"last-event-id": began.removeprefix("id: ")}
    request = Request("GET", "/pushed/a", "changes=1", b"", "User:local", "127.0.0.1", headers)
    response = asyncio.run_coroutine_threadsafe(api.answer(request), service.loop).result()
    assert response.content_type == "text/event-stream"
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in response.body.strip().split("\n\n")]
    assert [json.loads(block["data"])["value"] for block in blocks if "data" in block] == [1, 2, None]
    assert blocks[-1].keys() == {"id"}
    # A reader that got the first event alone, and connects again, gets the others.
    again = Request("GET", "/pushed/a", "changes=1", b"", "User:local", "127.0.0.1", {"last-event-id": blocks[1]["id"]})
    response = asyncio.run_coroutine_threadsafe(api.answer(again), service.loop).result()
    assert [json.loads(line[6:])["value"] for line in response.body.splitlines() if line.startswith("data: ")] == [
        2,
        None,
    ]

    changes_seen: list[Any] = []
    done = threading.Event()

    def watch() -> None:
        with odradek.Table("pushed", **service.client_config) as table:
            for change in table.changes(after=began.removeprefix("id: "), wait_ms=5_000):
                changes_seen.append((change.key, change.value, change.is_deleted))
                if change.key == "end":
                    break
        done.set()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    put(service, "pushed", (b"end", b"0"))
    assert done.wait(30)
    assert changes_seen[:1] == [("a", 1, False)]
    assert ("a", None, True) in changes_seen


def test_the_commands_from_serving_to_dropping(service: ThreadedService, admin: odradek.Admin) -> None:
    put(service, "guarded", (b"k", b'{"v": [1, 2]}'))
    assert command(service, "serve", "commanded", "--topic", "guarded") == "serving commanded\n"
    listed = {row["name"]: row for row in command(service, "list", "--output", "json")}
    assert listed["commanded"] == {
        "name": "commanded",
        "topic": "guarded",
        "state": "ENABLED",
        "key_format": "STRING",
        "value_format": "JSON",
        "window": "",
    }
    with odradek.Table("commanded", **service.client_config) as table:
        [partition] = [partition.partition for partition in table.describe().partitions if partition.end_offset]
    shown = command(service, "get", "commanded", "k", "--min-offset", f"{partition}:0", "--output", "json")
    assert shown["rows"][0]["value"] == {"v": [1, 2]}
    assert shown["covered"][str(partition)] == 1
    assert '{"v": [1, 2]}' in command(service, "get", "commanded", "k")
    assert command(service, "get", "commanded", "nobody", "--output", "json", code=1)["rows"] == []
    described = command(service, "describe", "commanded", "--output", "json")
    assert (described["state"], described["lag"], described["changes"]) == ("ENABLED", 0, 1)
    assert "last error: none" in command(service, "describe", "commanded")
    assert command(service, "stop", "commanded") == "stopped commanded\n"
    assert command(service, "list", "--output", "json")
    assert admin.describe_table("commanded").state == "STOPPED"
    assert command(service, "resume", "commanded") == "resumed commanded\n"
    assert command(service, "drop", "commanded", "--yes") == "dropped commanded\n"
    with pytest.raises(KafkaError, match="there is no served table 'commanded'"):
        admin.describe_table("commanded")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "create it first"),
        ({"topic": "plain"}, ErrorCode.INVALID_REQUEST, "is not compacted, so it is no table: set cleanup.policy"),
        ({"name": "a/b"}, ErrorCode.INVALID_REQUEST, "invalid table name 'a/b'"),
        ({"name": "tables"}, ErrorCode.INVALID_REQUEST, "and not 'tables'"),
        ({"value_format": "XML"}, ErrorCode.INVALID_REQUEST, "value_format must be one of STRING, JSON, AVRO"),
        ({"window": "TUMBLING"}, ErrorCode.INVALID_REQUEST, "window_size_ms belongs to TUMBLING"),
        ({"window": "SESSION", "window_size_ms": 5}, ErrorCode.INVALID_REQUEST, "window_size_ms belongs to"),
        ({"retention_ms": 0}, ErrorCode.INVALID_REQUEST, "retention_ms must be above 0, or -1"),
        ({"shards": 65}, ErrorCode.INVALID_REQUEST, "shards must be 1 to 64"),
        ({"shard": 2}, ErrorCode.INVALID_REQUEST, "unknown option 'shard'"),
        ({"shards": "2"}, ErrorCode.INVALID_REQUEST, "shards must be a number"),
    ],
)
def test_a_bad_option_is_refused_with_what_to_do(
    admin: odradek.Admin, options: dict[str, Any], code: ErrorCode, said: str
) -> None:
    table_options = {"name": "refused", "topic": "scores", **options}
    with pytest.raises(KafkaError, match=said) as raised:
        admin.serve_table(table_options.pop("name"), **table_options)
    assert raised.value.code is code


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/tables/none/k", b"", 400, "there is no served table 'none'"),
        ("GET", "/tables/plainly/k?limits=1", b"", 400, "unknown parameter 'limits'"),
        ("GET", "/tables/plainly?limit=0", b"", 400, "limit must be 1 to 1000, not 0"),
        ("GET", "/tables/plainly?limit=5&cursor=%25", b"", 400, "the cursor is not one"),
        ("GET", "/tables/plainly/k?min_offset=x", b"", 400, "min_offset is PARTITION:OFFSET"),
        ("GET", "/tables/plainly/k?min_offset=7%3A0", b"", 400, "has no partition 7: it has 3"),
        ("GET", "/tables/plainly/k?wait_ms=99999", b"", 400, "wait_ms must be 0 to 20000"),
        ("GET", "/tables/plainly/a/b", b"", 400, "tables have no GET"),
        ("PUT", "/tables/plainly", b"", 400, "tables have no PUT"),
        ("POST", "/tables/plainly", b'{"keys": "a"}', 400, "several keys are asked for with"),
        ("POST", "/tables/plainly", b'{"keys": []}', 400, "ask for 1 to 100 keys"),
        ("POST", "/tables/plainly", b"[", 400, "the body must be a JSON object"),
        ("POST", "/tables", b'{"name": "x", "topic": "scores", "state": "STOPPED"}', 400, "are set by the service"),
        ("GET", "/tables/plainly?changes=1&after=0", b"", 400, "the id of an event is"),
    ],
)
def test_bad_requests_are_told_what_to_do(
    service: ThreadedService, admin: odradek.Admin, method: str, path: str, body: bytes, status: int, said: str
) -> None:
    admin.serve_table("plainly", "scores")
    answered, text = http(service, method, path, body)
    assert (answered, said in text) == (status, True), text


def test_an_unsigned_request_is_refused(service: ThreadedService) -> None:
    status, text = http(service, "GET", "/tables/scores/ada", signed=False)
    assert (status, "Forbidden" in text or "signature" in text.lower() or "Missing" in text) == (403, True), text


def test_who_may_read_the_topic_may_read_the_table_and_nobody_else(
    service: ThreadedService, admin: odradek.Admin
) -> None:
    admin.serve_table("acls", "guarded")
    rule = AclBinding(
        ResourceType.TOPIC, "guarded", PatternType.LITERAL, "User:reader", "*", AclOperation.READ, AclPermission.ALLOW
    )
    admin.create_acls([rule])
    api = service.service._triggers.tables.api

    def ask(principal: str, method: str, path: str, query: str = "", body: bytes = b"") -> tuple[int, Any]:
        request = Request(method, path, query, body, principal, "127.0.0.1")
        response = asyncio.run_coroutine_threadsafe(api.answer(request), service.loop).result()
        return response.status, json.loads(response.body)

    try:
        assert ask("User:reader", "GET", "/acls/k")[0] == 200
        assert ask("User:reader", "GET", "/acls")[0] == 200  # READ implies DESCRIBE
        assert ask("User:reader", "GET", "/acls", "limit=5")[0] == 200
        for method, path, query, body in (
            ("GET", "/acls/k", "", b""),
            ("GET", "/acls", "limit=5", b""),
            ("GET", "/acls", "changes=json", b""),
            ("POST", "/acls", "", b'{"keys": ["k"]}'),
            ("GET", "/acls", "", b""),
            ("POST", "/acls/stop", "", b""),
            ("DELETE", "/acls", "", b""),
            ("POST", "/", "", b'{"name": "n", "topic": "guarded"}'),
        ):
            status, said = ask("User:other", method, path, query, body)
            refused = (403, "TOPIC_AUTHORIZATION_FAILED") if path == "/" else (400, "RESOURCE_NOT_FOUND")
            assert (status, said["error"]) == refused, (method, path)
        for method, path, body in (("POST", "/acls/stop", b""), ("DELETE", "/acls", b"")):
            assert ask("User:reader", method, path, "", body)[0] == 403
        assert "acls" not in [table["name"] for table in ask("User:other", "GET", "/")[1]["tables"]]
    finally:
        admin.delete_acls(AclFilter())
