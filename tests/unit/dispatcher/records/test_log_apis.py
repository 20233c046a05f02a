"""Produce, Fetch and ListOffsets: requests of any version become the same question to the engine."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from odradek.dispatcher.records.produce import NIL
from odradek.errors import ErrorCode
from odradek.model.log import DeleteRecordsPartition, FetchPartition, ListOffsetsPartition
from odradek.protocol.api import ApiKey
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.dispatching import ask
from tests.support.fake_engine import TOPIC_ID, FakeEngine


def versions(api_key: ApiKey) -> range:
    low, high = SUPPORTED_VERSIONS[api_key]
    return range(low, high + 1)


def produce(acks: int = -1, records: bytes | None = b"batch", **fields: Any) -> dict[str, Any]:
    data = [{"index": 1, "records": records}, {"index": 0, "records": b"other"}]
    return {"acks": acks, "topic_data": [{"name": "flights", "topic_id": TOPIC_ID, "partition_data": data}], **fields}


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
async def test_produce(version: int) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.PRODUCE, version, produce(transactional_id="t1"))
    [(_, partitions, transactional_id)] = engine.calls
    assert transactional_id == "t1"
    assert [(p.partition, bytes(p.records)) for p in partitions] == [(1, b"batch"), (0, b"other")]
    assert {(p.topic, p.topic_id) for p in partitions} == {("", TOPIC_ID) if version >= 13 else ("flights", None)}
    [topic] = response.responses
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [(1, 0, 7), (0, 0, 7)]
    assert (topic.topic_id if version >= 13 else topic.name) == (TOPIC_ID if version >= 13 else "flights")


async def test_produce_without_acks_appends_and_answers_nothing() -> None:
    engine = FakeEngine()
    assert await ask(engine, ApiKey.PRODUCE, 9, produce(acks=0)) is None
    assert engine.calls


@pytest.mark.parametrize("acks", [2, -2, 32_000])
async def test_other_acks_are_refused_before_the_engine(acks: int) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.PRODUCE, 9, produce(acks=acks))
    assert [p.error_code for p in response.responses[0].partition_responses] == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert engine.calls == []


async def test_a_null_topic_id_is_no_topic() -> None:
    engine = FakeEngine()
    await ask(engine, ApiKey.PRODUCE, 13, {"acks": 1, "topic_data": [{"partition_data": [{"index": 0}]}]})
    assert engine.calls[0][1][0].topic_id == NIL == UUID(int=0)


async def test_a_partition_written_twice_is_refused_and_the_others_are_appended() -> None:
    engine = FakeEngine()
    data = [{"index": index, "records": b"batch"} for index in (0, 1, 1)]
    response = await ask(engine, ApiKey.PRODUCE, 9, {"acks": 1, "topic_data": [{"name": "f", "partition_data": data}]})
    [(_, partitions, _)] = engine.calls
    assert [partition.partition for partition in partitions] == [0]
    results = [(p.index, p.error_code, p.base_offset) for p in response.responses[0].partition_responses]
    assert results == [(0, 0, 7), *[(1, ErrorCode.INVALID_REQUEST, -1)] * 2]


def fetch(**fields: Any) -> dict[str, Any]:
    partition = {"partition": 2, "fetch_offset": 40, "partition_max_bytes": 1000}
    topic = {"topic": "flights", "topic_id": TOPIC_ID, "partitions": [partition]}
    return {"max_wait": 500, "min_bytes": 1, "max_bytes": 5_000, "session_epoch": -1, "topics": [topic], **fields}


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
async def test_fetch(version: int) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.FETCH, version, fetch())
    [(_, partitions, limits)] = engine.calls
    by_id = version >= 13
    assert partitions == [FetchPartition("" if by_id else "flights", 2, 40, 1000, topic_id=TOPIC_ID if by_id else None)]
    assert limits == {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 5_000}
    [topic] = response.responses
    [partition] = topic.partitions
    assert (partition.partition_index, partition.error_code, bytes(partition.records)) == (2, 0, b"abcd")
    assert partition.high_watermark == partition.last_stable_offset == 9
    if version >= 7:
        assert (response.error_code, response.session_id) == (0, 0)


async def test_fetch_leaves_room_in_the_answer_for_what_surrounds_the_records() -> None:
    engine = FakeEngine()
    await ask(engine, ApiKey.FETCH, 11, fetch(max_bytes=2**31 - 1), max_response_bytes=10_000)
    assert 9_000 < engine.calls[0][2]["max_bytes"] < 10_000
    await ask(engine, ApiKey.FETCH, 11, fetch(max_bytes=2**31 - 1), max_response_bytes=10)
    assert engine.calls[1][2]["max_bytes"] == 0, "one batch at least is the engine's promise"


async def test_fetch_waits_no_longer_than_a_request_may_take() -> None:
    engine = FakeEngine()
    await ask(engine, ApiKey.FETCH, 11, fetch(max_wait=2**31 - 1))
    assert engine.calls[0][2]["max_wait_ms"] == engine.settings.request_timeout_ms
    await ask(engine, ApiKey.FETCH, 11, fetch(max_wait=-5, min_bytes=-1, max_bytes=-1))
    assert engine.calls[1][2] == {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0}


async def test_the_continuation_of_a_session_that_was_never_opened_is_sent_back() -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.FETCH, 11, fetch(session_id=9, session_epoch=3))
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert engine.calls == []


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
async def test_list_offsets(version: int) -> None:
    engine = FakeEngine()
    topic = {"name": "flights", "partitions": [{"partition_index": 1, "timestamp": -2}]}
    response = await ask(engine, ApiKey.LIST_OFFSETS, version, {"topics": [topic]})
    assert engine.calls == [("list_offsets", [ListOffsetsPartition("flights", 1, -2)])]
    [partition] = response.topics[0].partitions
    assert (partition.partition_index, partition.error_code, partition.offset, partition.timestamp) == (1, 0, 5, 6)


async def test_a_partition_asked_twice_is_refused_and_the_others_are_answered() -> None:
    engine = FakeEngine()
    partitions = [{"partition_index": index, "timestamp": -1} for index in (0, 1, 1)]
    response = await ask(engine, ApiKey.LIST_OFFSETS, 5, {"topics": [{"name": "flights", "partitions": partitions}]})
    assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
async def test_delete_records(version: int) -> None:
    engine = FakeEngine()
    requested = [{"partition_index": 1, "offset": 40}, {"partition_index": 0, "offset": -1}]
    requested += [{"partition_index": 2, "offset": n} for n in (1, 2)]
    response = await ask(
        engine, ApiKey.DELETE_RECORDS, version, {"topics": [{"name": "flights", "partitions": requested}]}
    )
    [(_, partitions)] = engine.calls
    asked_once = [DeleteRecordsPartition("flights", *arguments) for arguments in ((1, 40), (0, -1), (2, 2))]
    assert partitions == asked_once, "of a partition named twice the last offset counts"
    [topic] = response.topics
    results = [(p.partition_index, p.low_watermark, p.error_code) for p in topic.partitions]
    assert results == [(1, 40, 0), (0, -1, 0), (2, 2, 0)]
