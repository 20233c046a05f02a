"""Batches that would stop every reader behind them: refused at the door, or passed where a topic lets them in."""

from __future__ import annotations

import pytest
from odradek import NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer, ShareConsumer
from odradek.client.consumer.dead_letters import dead_letters
from odradek.client.consumer.record import CorruptRecordBatchError
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey
from odradek.system import SystemClock

from tests.support.clients.in_process import Server
from tests.support.dispatching import ask
from tests.support.engine import batch, produce
from tests.support.kafka.poison import garbage, rebuilt

PLACE = TopicPartition("t", 0)
FUTURE_MS = 2**62
ONE = batch([b"x"])


async def opened(**configs: str) -> Server:
    """A server with the topics t and dead; the configurations are t's."""
    server = Server()
    async with Admin(transport=server.transport()) as admin:
        topic = NewTopic("t", 1, configs={name.replace("_", "."): value for name, value in configs.items()})
        await admin.create_topics([topic, NewTopic("dead", 1)])
    return server


@pytest.mark.parametrize(
    ("poison", "code"),
    [
        pytest.param(garbage(), ErrorCode.INVALID_RECORD, id="garbage"),
        pytest.param(rebuilt(ONE, b"\x00" * 100, count=38_000_000), ErrorCode.INVALID_RECORD, id="claims"),
        pytest.param(batch([b"x"], timestamp_ms=FUTURE_MS), ErrorCode.INVALID_TIMESTAMP, id="future"),
        pytest.param(rebuilt(ONE, base_ms=-FUTURE_MS), ErrorCode.INVALID_TIMESTAMP, id="past"),
    ],
)
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
async def test_poison_is_refused_by_default(poison: bytes, code: ErrorCode, timestamp_type: str) -> None:
    server = await opened(message_timestamp_type=timestamp_type)
    assert (await produce(server.engine, "t", 0, poison)).error is code
    assert (await produce(server.engine, "t", 0, batch([b"good"]))).base_offset == 0


async def test_a_topic_says_how_far_a_timestamp_may_be() -> None:
    server = await opened(message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000")
    now_ms = SystemClock().now_ms()
    for offset_ms, error in ((0, 0), (-50_000, 0), (50_000, 0), (-90_000, 32), (90_000, 32)):
        assert (await produce(server.engine, "t", 0, batch([b"x"], timestamp_ms=now_ms + offset_ms))).error == error
    assert (await produce(server.engine, "t", 0, batch([b"x"], timestamp_ms=-1))).error == 0, "-1 means none"


@pytest.mark.parametrize("version", range(8, 14))
async def test_the_answer_names_the_records(version: int) -> None:
    server = await opened(cleanup_policy="compact")
    topic = await server.engine.topics.resolve("t")
    data = [{"index": 0, "records": batch([b"a", b"b", b"c"], keys=[b"k", None, b"k"])}]
    name = {"topic_id": topic.topic_id} if version >= 13 else {"name": "t"}
    fields = {"acks": -1, "timeout": 1000, "topic_data": [{**name, "partition_data": data}]}
    response = await ask(server.engine, ApiKey.PRODUCE, version, fields)
    [partition] = response.responses[0].partition_responses
    assert partition.error_code == ErrorCode.INVALID_RECORD
    [named] = partition.record_errors
    assert named.batch_index == 1
    assert "needs a key" in named.batch_index_error_message
    assert "needs a key" in partition.error_message


async def poisoned() -> Server:
    """One record, three that cannot be read, one record."""
    server = await opened(record_validation="header")
    for batch_sent in (batch([b"0"]), garbage(3), batch([b"4"])):
        assert not (await produce(server.engine, "t", 0, batch_sent)).error
    return server


@pytest.mark.parametrize("as_table", [False, True])
async def test_a_consumer_without_a_handler_says_how_to_go_on(as_table: bool) -> None:
    server = await poisoned()
    async with Consumer(transport=server.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=0) as consumer:
        consumer.assign([PLACE])

        async def offsets() -> list[int]:
            if as_table:
                return (await consumer.poll_table(1_000))["offset"].to_pylist()
            return [record.offset for part in (await consumer.poll(1_000)).values() for record in part]

        assert await offsets() == [0]
        with pytest.raises(CorruptRecordBatchError, match="seek to 4 to skip it") as caught:
            await offsets()
        assert (caught.value.offset, caught.value.next_offset) == (1, 4)
        assert await consumer.position(PLACE) == 1
        consumer.seek(PLACE, caught.value.next_offset)
        assert await offsets() == [4]


@pytest.mark.parametrize("as_table", [False, True])
async def test_a_consumer_with_a_handler_passes_the_batch(as_table: bool) -> None:
    server = await poisoned()
    async with (
        Producer(transport=server.transport()) as producer,
        Consumer(
            transport=server.transport(),
            auto_offset_reset="earliest",
            fetch_max_wait_ms=0,
            deserialization_error_handler=dead_letters(producer, "dead"),
        ) as consumer,
    ):
        consumer.assign([PLACE])
        offsets: list[int] = []
        while len(offsets) < 2:
            if as_table:
                offsets += (await consumer.poll_table(1_000))["offset"].to_pylist()
            else:
                offsets += [record.offset for part in (await consumer.poll(1_000)).values() for record in part]
        assert offsets == [0, 4]
        assert await consumer.position(PLACE) == 5
        letter = await consumer.read_at("dead", 0, 0)
    assert letter is not None
    headers = dict(letter.headers)
    assert (letter.value, headers["odradek.errors.offset"]) == (None, b"1")
    assert b"offsets 1 to 3" in headers["odradek.errors.message"]


async def test_a_share_consumer_gets_what_stands_behind_a_poisoned_batch() -> None:
    server = await poisoned()
    async with Admin(transport=server.transport()) as admin:
        await admin.alter_group_configs("q", {"share.auto.offset.reset": "earliest"})
    async with ShareConsumer(transport=server.transport(), group_id="q") as consumer:
        consumer.subscribe(["t"])
        offsets: list[int] = []
        while len(offsets) < 2:
            try:
                offsets += [record.offset for part in (await consumer.poll(1_000)).values() for record in part]
            except CorruptRecordBatchError:
                continue
        assert offsets == [0, 4]
