"""The sinks into OpenSearch and Redis beyond the contract: deletes, late writes, refusals, fencing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from odradek.connect.connectors.opensearch import OpenSearchSinkConnector
from odradek.connect.connectors.redis import RedisSinkConnector
from odradek.connect.data import INT64, STRING, Struct, struct
from odradek.connect.data.logical import DATE, TIMESTAMP, decimal
from odradek.connect.data.schema import BYTES, array
from odradek.connect.errors import RetriableError
from odradek.connect.record import SinkRecord
from odradek.model.topic_partition import TopicPartition
from odradek.testing.connect import SinkDriver, SinkUnderTest

from tests.support.connect.search_server import SearchServer
from tests.support.connect.valkey import Valkey, flushed


def record(offset: int, key: Any = "k", value: Any = None, **more: Any) -> SinkRecord:
    return SinkRecord(topic="Rows", partition=0, offset=offset, key=key, value=value, **more)


@pytest.fixture
def server() -> Iterator[SearchServer]:
    server = SearchServer()
    with server.running() as url:
        server.url = url  # type: ignore[attr-defined]
        yield server


def search(server: Any, **more: str) -> SinkDriver:
    under_test = SinkUnderTest(OpenSearchSinkConnector, {"connection.url": server.url, **more}, record, list)
    driver = SinkDriver(under_test, {})
    driver.start()
    return driver


def test_a_late_write_changes_nothing_and_a_tombstone_deletes(server: SearchServer) -> None:
    driver = search(server)
    driver.put([record(5, value={"n": 5}), record(6, "other", {"n": 6})])
    driver.put([record(4, value={"n": 4})])  # from a task that was replaced
    assert server.documents["rows"] == {"k": {"n": 5}, "other": {"n": 6}}
    driver.put([record(7)])
    driver.put([record(6, value={"n": 6})])
    assert server.documents["rows"] == {"other": {"n": 6}}
    driver.stop()


def test_refused_documents_are_sent_again_or_reported(server: SearchServer) -> None:
    driver = search(server, **{"batch.size": "3"})
    batch = [record(n, f"k{n}", {"n": n}) for n in range(5)]
    server.busy = 2
    with pytest.raises(RetriableError, match="2 of 3 documents"):
        driver.put(batch)
    driver.put(batch)
    assert len(server.documents["rows"]) == 5
    driver.put([record(9, value={"n": "text"})])
    assert [each.offset for each in driver.refused] == [9]
    driver.stop()


def test_upserts_of_one_document_stay_in_order_when_one_is_refused(server: SearchServer) -> None:
    driver = search(server, **{"write.method": "UPSERT"})
    batch = [record(0, value={"a": 1, "b": 1}), record(1, value={"b": 2})]
    server.busy = 1
    with pytest.raises(RetriableError):
        driver.put(batch)
    driver.put(batch)
    assert server.documents["rows"] == {"k": {"a": 1, "b": 2}}
    driver.stop()


def test_an_index_is_created_with_the_mapping_of_the_schema(server: SearchServer) -> None:
    schema = struct(
        {"id": INT64, "name": STRING, "price": decimal(2), "day": DATE, "at": TIMESTAMP, "tags": array(STRING)}
    )
    value = {
        "id": 1, "name": "x", "price": Decimal("1.50"), "day": dt.date(2026, 1, 2),
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 6000, dt.UTC), "tags": ["a"],
    }  # fmt: skip
    driver = search(server, index="all-${topic}")
    driver.put([record(0, value=Struct(schema, value), value_schema=schema)])
    assert {name: each["type"] for name, each in server.mappings["all-rows"].items()} == {
        "id": "long", "name": "text", "price": "double", "day": "date", "at": "date", "tags": "text",
    }  # fmt: skip
    assert server.documents["all-rows"]["k"] == {
        "id": 1, "name": "x", "price": 1.5, "day": "2026-01-02", "at": "2026-01-02T03:04:05.006Z", "tags": ["a"],
    }  # fmt: skip
    driver.stop()


# --- Redis ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def redis() -> Valkey:
    return flushed()


def into_redis(redis: Valkey, command: str, **more: str) -> SinkDriver:
    configs = {"redis.uri": redis.url, "redis.command": command, **more}
    driver = SinkDriver(SinkUnderTest(RedisSinkConnector, configs, record, list), {})
    driver.start()
    return driver


def test_hashes_lose_old_fields_and_tombstones_delete(redis: Valkey) -> None:
    driver = into_redis(redis, "HSET", **{"redis.ttl.ms": "60000"})
    driver.put([record(0, value={"a": 1, "b": "x", "c": None}), record(1, "gone", {"a": 1})])
    assert redis.client.hgetall("Rows:k") == {b"a": b"1", b"b": b"x"}
    assert 0 < redis.client.pttl("Rows:k") <= 60_000
    driver.put([record(2, value={"b": "y"}), record(3, "gone")])
    assert redis.client.hgetall("Rows:k") == {b"b": b"y"}
    assert redis.client.keys() == [b"Rows:k"]
    driver.stop()


def test_values_keys_and_scores(redis: Valkey) -> None:
    for command, value in (("SET", b"\x00raw"), ("SADD", "any"), ("ZADD", 2.5), ("RPUSH", "one"), ("LPUSH", {"a": 1})):
        driver = into_redis(redis, command, **{"redis.key": command})
        schema = {"value_schema": BYTES} if command == "SET" else {}
        driver.put([record(0, value=value, **schema)])
        driver.stop()
    client = redis.client
    assert client.get("SET:k") == b"\x00raw"
    assert client.smembers("SADD") == {b"k"}
    assert client.zscore("ZADD", "k") == 2.5
    assert (client.lrange("RPUSH", 0, -1), client.lrange("LPUSH", 0, -1)) == ([b"one"], [b'{"a":1}'])
    driver = into_redis(redis, "ZADD", **{"redis.key": "ZADD"})
    driver.put([record(0, "text", "no number"), record(1)])
    assert [each.key for each in driver.refused] == ["text"]
    assert client.exists("ZADD") == 0


def test_a_key_of_another_type_is_reported_and_the_others_are_written(redis: Valkey) -> None:
    redis.client.set("Rows", "not a list")
    driver = into_redis(redis, "RPUSH")
    driver.put([record(0, value="a")])
    assert [each.offset for each in driver.refused] == [0]
    driver.stop()


def test_of_two_tasks_each_writes_only_what_the_other_has_not(redis: Valkey) -> None:
    first = into_redis(redis, "XADD", **{"exactly.once": "true"})
    first.put([record(0, value={"n": 0})])
    second = into_redis(redis, "XADD", **{"exactly.once": "true"})
    assert second.open() == 1
    second.put([record(1, value={"n": 1})])
    batch = [record(1, value={"n": 1}), record(2, value={"n": 2})]
    with pytest.raises(RetriableError, match="another task has written"):
        first.put(batch)
    assert redis.client.xlen("Rows") == 2
    first.put(batch)  # as the worker does
    assert redis.client.xlen("Rows") == 3
    first.stop()
    second.stop()


def test_offsets_in_redis_follow_those_that_a_user_sets(redis: Valkey) -> None:
    driver = into_redis(redis, "XADD", **{"exactly.once": "true"})
    driver.put([record(0, value={"n": 0}), record(1, value={"n": 1})])
    place = TopicPartition("Rows", 0)
    configs = {"name": "contract", "redis.uri": redis.url, "exactly.once": "true"}
    RedisSinkConnector.alter_offsets(configs, {place: 1})
    assert driver.open() == 1
    RedisSinkConnector.alter_offsets(configs, {place: None})
    assert into_redis(redis, "XADD", **{"exactly.once": "true"}).open() == 0
    driver.stop()


def test_an_unknown_outcome_is_looked_up(redis: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks after Redis has executed the transaction: the batch comes again, and is not repeated."""
    driver = into_redis(redis, "XADD", **{"exactly.once": "true"})
    driver.put([record(0, value={"n": 0})])
    executed = driver.task._executed  # type: ignore[attr-defined]

    def broken(pipeline: Any) -> list[Any]:
        executed(pipeline)
        raise RetriableError("the connection broke")

    monkeypatch.setattr(driver.task, "_executed", broken)
    batch = [record(1, value={"n": 1}), record(2, value={"n": 2})]
    with pytest.raises(RetriableError):
        driver.put(batch)
    monkeypatch.undo()
    driver.put(batch)
    assert redis.client.xlen("Rows") == 3
    driver.stop()
