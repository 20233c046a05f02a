"""read_at, poison records and the rests of an idle consumer, against the real engine."""

from __future__ import annotations

import json

import pytest
from odradek import KafkaError, NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.consumer.dead_letters import dead_letters
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Server

PLACE = TopicPartition("t", 0)


async def filled(values: list[bytes]) -> Server:
    server = Server()
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", 1), NewTopic("dead", 1)])
    async with Producer(transport=server.transport()) as producer:
        for value in values:
            await producer.send("t", value, b"k", headers={"h": b"1"}, timestamp_ms=7)
    return server


async def test_a_record_is_read_at_its_offset_without_an_assignment() -> None:
    server = await filled([b"0", b"1", b"2"])
    async with Consumer(transport=server.transport(), value_deserializer=lambda data: int(data or b"")) as consumer:
        record = await consumer.read_at("t", 0, 1)
        assert record is not None
        assert (record.offset, record.key, record.value, record.timestamp_ms) == (1, b"k", 1, 7)
        assert consumer.assignment() == set()
        for offset in (3, -1):
            with pytest.raises(KafkaError) as caught:
                await consumer.read_at("t", 0, offset)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("iterates", [True, False])
async def test_poison_records_go_to_a_topic_and_the_rest_goes_on(iterates: bool) -> None:
    server = await filled([b"{", b"1", b"{", b"2", b"{"])
    async with (
        Producer(transport=server.transport()) as producer,
        Consumer(
            transport=server.transport(),
            group_id="g",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=0,
            value_deserializer=lambda data: json.loads(data or b""),
            deserialization_error_handler=dead_letters(producer, "dead"),
        ) as consumer,
    ):
        consumer.subscribe(["t"])
        values_read = []
        while len(values_read) < 2:
            if iterates:
                values_read.append((await anext(aiter(consumer))).value)
            else:
                values_read += [record.value for part in (await consumer.poll(1_000)).values() for record in part]
        assert values_read == [1, 2]
        assert await consumer.position(PLACE) == 5
        await consumer.commit()
        assert (await consumer.committed([PLACE]))[PLACE].offset == 5  # type: ignore[union-attr]
    async with Consumer(transport=server.transport()) as reader:
        records = [await reader.read_at("dead", 0, offset) for offset in range(3)]
    assert [dict(record.headers)["odradek.errors.offset"] for record in records if record] == [b"0", b"2", b"4"]
    assert all(
        record and record.value == b"{" and record.key == b"k" and record.timestamp_ms == 7 for record in records
    )


async def test_a_dead_letter_that_cannot_be_written_loses_nothing() -> None:
    server = await filled([b"1", b"{", b"2"])
    failures = iter([True, False])

    async def handle(record: object, error: Exception) -> None:
        if next(failures):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the other topic is away")

    async with Consumer(
        transport=server.transport(),
        auto_offset_reset="earliest",
        fetch_max_wait_ms=0,
        value_deserializer=lambda data: json.loads(data or b""),
        deserialization_error_handler=handle,
    ) as consumer:
        consumer.assign([PLACE])
        with pytest.raises(KafkaError, match="away"):
            await consumer.poll(1_000)
        assert [record.value for record in (await consumer.poll(1_000))[PLACE]] == [1, 2]


async def test_a_resting_consumer_makes_no_call_until_something_is_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    rests = [0.0]
    monkeypatch.setattr("odradek.client.consumer.pace.FetchPace.rest_s", lambda self, now_s: rests[0])
    server = await filled([b"1"])
    async with Consumer(
        transport=server.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=5, fetch_idle_pause_max_ms=1
    ) as consumer:
        consumer.assign([PLACE])
        assert len(await consumer.poll(10_000)) == 1
        calls = [server.requests.count(ApiKey.FETCH)]
        while calls[0] + 3 > server.requests.count(ApiKey.FETCH):  # awake, it goes on asking
            assert await consumer.poll(20) == {}
        rests[0] = 3600.0
        while len(calls) < 4 or len(set(calls[-3:])) > 1:  # what is under way ends, then there is silence
            assert await consumer.poll(50) == {}
            calls.append(server.requests.count(ApiKey.FETCH))
            assert len(calls) < 100
        rests[0] = 0.0
        consumer.seek(PLACE, 0)
        assert len((await consumer.poll(10_000))[PLACE]) == 1


async def test_partitions_that_lag_take_turns_whatever_lies_between_them() -> None:
    """A response holds one batch here. An order that only rotates would give most responses to one of the two."""
    server = Server()
    value = b"x" * 20_000
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", 6)])
    async with Producer(transport=server.transport(), batch_size=1) as producer:
        for _ in range(6):
            for partition in (0, 1):
                await (await producer.send("t", value, partition=partition))
    tps = [TopicPartition("t", number) for number in range(6)]
    async with Consumer(transport=server.transport(), fetch_max_bytes=1, fetch_max_wait_ms=0) as consumer:
        consumer.assign(tps)
        for tp in tps:
            consumer.seek(tp, 0)
        partitions_polled = []
        while len(partitions_polled) < 12:
            partitions_polled += [tp.partition for tp in await consumer.poll(1_000)]
    assert {number: partitions_polled[:8].count(number) for number in (0, 1)} == {0: 4, 1: 4}
