"""The consumer against the real engine and dispatcher."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from odradek import KafkaError, NewTopic, OffsetAndMetadata, RebalanceListener, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.consumer.record import RecordDeserializationError
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Server

T0 = TopicPartition("flights", 0)
START_MS = 1_357_016_400_000


async def _server(partitions: int = 1, records: int = 100, **settings: Any) -> Server:
    """A server with a topic whose records are numbered, dealt out to the partitions in turn."""
    server = Server(**settings)
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("flights", partitions)])
    await _produce(server, 0, records, partitions)
    return server


async def _produce(server: Server, start: int, end: int, partitions: int = 1) -> None:
    async with Producer(transport=server.transport(), batch_size=600) as producer:
        for i in range(start, end):
            await producer.send("flights", b"%d" % i, partition=i % partitions, timestamp_ms=START_MS + i * 1000)


def _consumer(server: Server, **configs: Any) -> Consumer:
    configs = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **configs}
    if "transport" not in configs:
        configs["transport"] = server.transport()
    return Consumer(**configs)


async def _poll(consumer: Consumer, count: int) -> list[int]:
    """The values of the next so many records, or fewer after a while without any."""
    values: list[int] = []
    for _ in range(200):
        if len(values) >= count:
            break
        for records in (await consumer.poll(100)).values():
            values += [int(record.value) for record in records]
    return values


async def test_assigned_partitions_are_read_in_order_and_in_pages() -> None:
    server = await _server()
    async with _consumer(server, max_poll_records=7) as consumer:
        consumer.assign([T0])
        first = await consumer.poll(5_000)
        assert [int(r.value) for r in first[T0]] == list(range(7))
        assert await consumer.position(T0) == 7
        assert await _poll(consumer, 93) == list(range(7, 100))
        assert await consumer.lag() == {T0: 0}
        assert await consumer.poll(0) == {}


async def test_latest_reads_only_what_comes_later() -> None:
    server = await _server()
    async with _consumer(server, auto_offset_reset="latest") as consumer:
        consumer.assign([T0])
        assert await consumer.position(T0) == 100
        await _produce(server, 100, 103)
        assert await _poll(consumer, 3) == [100, 101, 102]


async def test_without_a_reset_policy_a_missing_position_is_an_error_until_one_is_sought() -> None:
    server = await _server()
    async with _consumer(server, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        with pytest.raises(KafkaError, match="flights-0 has no position") as failure:
            await consumer.poll(5_000)
        assert failure.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        consumer.seek(T0, 98)
        assert await _poll(consumer, 2) == [98, 99]


async def test_an_offset_out_of_range_is_reset() -> None:
    server = await _server()
    async with _consumer(server) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 5_000)
        assert (await _poll(consumer, 100))[:3] == [0, 1, 2]
    async with _consumer(server, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 5_000)
        with pytest.raises(KafkaError, match="offset 5000 is out of range"):
            await consumer.poll(5_000)


async def test_seek_drops_what_was_buffered() -> None:
    server = await _server()
    async with _consumer(server, max_poll_records=5) as consumer:
        consumer.assign([T0])
        assert await _poll(consumer, 5) == [0, 1, 2, 3, 4]
        consumer.seek(T0, 50)
        assert await _poll(consumer, 3) == [50, 51, 52, 53, 54]
        consumer.seek_to_beginning()
        assert (await _poll(consumer, 1))[0] == 0
        consumer.seek_to_end(T0)
        assert await consumer.position(T0) == 100


async def test_offsets_by_time_beginning_and_end() -> None:
    server = await _server(partitions=2)
    other = TopicPartition("flights", 1)
    async with _consumer(server) as consumer:
        assert await consumer.beginning_offsets([T0, other]) == {T0: 0, other: 0}
        assert await consumer.end_offsets([T0, other]) == {T0: 50, other: 50}
        found_offsets = await consumer.offsets_for_times({T0: START_MS + 9_500, other: START_MS + 10**9})
    assert found_offsets[T0] is not None
    assert (found_offsets[T0].offset, found_offsets[T0].timestamp_ms) == (5, START_MS + 10_000)
    assert found_offsets[other] is None


async def test_paused_partitions_hand_out_nothing_and_resume_where_they_were() -> None:
    server = await _server(partitions=2)
    other = TopicPartition("flights", 1)
    async with _consumer(server, max_poll_records=10) as consumer:
        consumer.assign([T0, other])
        consumer.pause(T0)
        assert sorted(await _poll(consumer, 50)) == list(range(1, 100, 2))
        assert await consumer.poll(50) == {}
        assert consumer.paused() == {T0}
        consumer.resume(T0)
        consumer.pause([T0, other])
        assert consumer.paused() == {T0, other}, "a list, as other clients of Kafka take it"
        consumer.resume([other], T0)
        assert consumer.paused() == set()
        with pytest.raises(KafkaError, match="a partition is TopicPartition"):
            consumer.pause("flights")  # type: ignore[arg-type]
        assert await _poll(consumer, 50) == list(range(0, 100, 2))


async def test_iteration_counts_a_record_as_read_when_the_next_is_asked_for() -> None:
    server = await _server()
    async with _consumer(server, group_id="g") as consumer:
        consumer.subscribe(["flights"])
        numbers = []
        async for record in consumer:
            numbers.append(int(record.value))
            if len(numbers) == 10:
                break
    assert numbers == list(range(10))
    async with _consumer(server, group_id="g") as consumer:
        assert await consumer.committed([T0]) == {T0: OffsetAndMetadata(10)}
        consumer.subscribe(["flights"])
        assert (await _poll(consumer, 1))[0] == 10


async def test_records_are_read_again_where_processing_failed() -> None:
    server = await _server()

    async def process() -> None:
        async with _consumer(server, group_id="g") as consumer:
            consumer.subscribe(["flights"])
            await _poll(consumer, 100)
            raise ValueError("processing failed")

    with pytest.raises(ValueError, match="processing failed"):
        await process()
    async with _consumer(server, group_id="g") as consumer:
        assert await consumer.committed([T0]) == {T0: None}


async def test_commits_by_hand() -> None:
    server = await _server()
    async with _consumer(server, group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["flights"])
        await _poll(consumer, 100)
        await consumer.commit({T0: OffsetAndMetadata(42, metadata="half way")})
        assert await consumer.committed([T0]) == {T0: OffsetAndMetadata(42, metadata="half way")}
        await consumer.commit_async()
        assert await consumer.committed([T0]) == {T0: OffsetAndMetadata(100)}


async def test_auto_commit_happens_while_polling() -> None:
    server = await _server()
    async with _consumer(server, group_id="g", auto_commit_interval_ms=10) as consumer:
        consumer.subscribe(["flights"])
        await _poll(consumer, 100)
        await asyncio.sleep(0.02)
        await consumer.poll(50)
        await consumer.poll(50)
        committed = await consumer.committed([T0])
        assert committed[T0] is not None
        commits = server.requests.count(ApiKey.OFFSET_COMMIT)
        await asyncio.sleep(0.05)
        await consumer.poll(50)
        assert server.requests.count(ApiKey.OFFSET_COMMIT) == commits  # nothing new: no call


async def test_three_members_share_the_partitions_and_read_everything_once_across_a_rebalance() -> None:
    server = await _server(partitions=6, records=0)
    total = 600
    read: list[tuple[str, int]] = []
    stop = asyncio.Event()

    async def member(name: str, configs: dict[str, Any] | None = None) -> None:
        async with _consumer(server, group_id="g", client_id=name, max_poll_records=20, **(configs or {})) as consumer:
            consumer.subscribe(["flights"])
            while not stop.is_set():
                for records in (await consumer.poll(50)).values():
                    read.extend((name, int(record.value)) for record in records)

    async def wait_for(count: int) -> None:
        async with asyncio.timeout(60):
            while len(read) < count:
                await asyncio.sleep(0.02)

    members = [asyncio.create_task(member("a")), asyncio.create_task(member("b"))]
    await _produce(server, 0, total // 2, 6)
    await wait_for(total // 2)
    members.append(asyncio.create_task(member("c")))
    async with Admin(transport=server.transport()) as admin, asyncio.timeout(60):
        while True:
            [group] = (await admin.describe_consumer_groups(["g"])).values()
            if group.state == "Stable" and sorted(len(m.assignment) for m in group.members) == [2, 2, 2]:
                break
            await asyncio.sleep(0.05)
    await _produce(server, total // 2, total, 6)
    await wait_for(total)
    stop.set()
    await asyncio.gather(*members)
    assert sorted(value for _, value in read) == list(range(total))
    later = {name: sum(n == name and value >= total // 2 for n, value in read) for name in "abc"}
    assert later == {"a": 100, "b": 100, "c": 100}


async def test_the_listener_hears_of_partitions_and_a_leaver_hands_over_what_it_committed() -> None:
    server = await _server(partitions=2)
    heard: list[tuple[str, str, int]] = []

    class Listener(RebalanceListener):
        def __init__(self, name: str) -> None:
            self._name = name

        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:  # type: ignore[override]
            heard.append((self._name, "assigned", len(partitions)))

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            heard.append((self._name, "revoked", len(partitions)))

    first = _consumer(server, group_id="g")
    first.subscribe(["flights"], listener=Listener("first"))
    assert len(await _poll(first, 100)) == 100
    await first.close()
    assert heard == [("first", "assigned", 2), ("first", "revoked", 2)]
    async with _consumer(server, group_id="g") as second:
        second.subscribe(["flights"], listener=Listener("second"))
        while len(second.assignment()) < 2:
            await second.poll(50)
        await _produce(server, 100, 102, 2)
        assert sorted(await _poll(second, 2)) == [100, 101]
    assert heard[2:] == [("second", "assigned", 2), ("second", "revoked", 2)]


async def test_a_member_that_does_not_poll_loses_its_partitions_and_comes_back() -> None:
    server = await _server(partitions=1)
    lost: list[TopicPartition] = []

    class Listener(RebalanceListener):
        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            lost.extend(partitions)

    async with (
        _consumer(server, group_id="g", max_poll_interval_ms=200, enable_auto_commit=False) as slow,
        _consumer(server, group_id="g") as other,
    ):
        slow.subscribe(["flights"], listener=Listener())
        assert len(await _poll(slow, 100)) == 100
        other.subscribe(["flights"])
        assert await _poll(other, 100) == list(range(100))  # slow has committed nothing
        with pytest.raises(KafkaError):
            await slow.commit()
        await slow.poll(50)
        assert lost == [T0]
        assert slow.assignment() == set()


async def test_a_pattern_subscribes_to_topics_that_match() -> None:
    server = await _server()
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("weather", 1), NewTopic("flights.delays", 1)])
    async with _consumer(server, group_id="g") as consumer:
        consumer.subscribe(pattern="flights.*")
        await _poll(consumer, 100)
        assert consumer.assignment() == {T0, TopicPartition("flights.delays", 0)}


async def test_heartbeats_and_fetches_survive_lost_answers() -> None:
    server = await _server(partitions=2)

    def outage(api: ApiKey, n: int) -> str | None:
        return ["lost", "unanswered", None, None][n % 4]

    async with _consumer(
        server, group_id="g", transport=server.transport(outage), retry_backoff_ms=1, retry_backoff_max_ms=5
    ) as consumer:
        consumer.subscribe(["flights"])
        values = await _poll(consumer, 100)
    assert sorted(values) == list(range(100))


async def test_a_poison_record_is_named_and_can_be_skipped() -> None:
    server = await _server(records=10)

    def decode(value: bytes | None) -> int:
        if value == b"5":
            raise ValueError("not this one")
        return int(value or b"0")

    async with _consumer(server, value_deserializer=decode) as consumer:
        consumer.assign([T0])
        with pytest.raises(RecordDeserializationError, match="offset 5 of flights-0") as poison:
            for _ in range(10):
                await consumer.poll(1_000)
        assert (poison.value.topic_partition, poison.value.offset) == (T0, 5)
        consumer.seek(T0, 6)
        [records] = (await consumer.poll(5_000)).values()
        assert [record.value for record in records] == [6, 7, 8, 9]


async def test_iteration_yields_all_records_before_a_poison_record() -> None:
    server = await _server(records=10)

    def decode(value: bytes | None) -> int:
        if value == b"5":
            raise ValueError("not this one")
        return int(value or b"0")

    async with _consumer(server, value_deserializer=decode) as consumer:
        consumer.assign([T0])
        numbers = []
        with pytest.raises(RecordDeserializationError):
            async for record in consumer:
                numbers.append(record.value)  # noqa: PERF401
        assert numbers == [0, 1, 2, 3, 4]
        assert await consumer.position(T0) == 5


async def test_misuse_is_told() -> None:
    server = await _server(records=0)
    async with _consumer(server) as consumer:
        with pytest.raises(KafkaError, match="subscribe or assign first"):
            await consumer.poll(0)
        with pytest.raises(KafkaError, match="needs a group_id"):
            consumer.subscribe(["flights"])
        consumer.assign([T0])
        with pytest.raises(KafkaError, match="not assigned"):
            consumer.seek(TopicPartition("flights", 7), 0)
        with pytest.raises(KafkaError, match="needs a group_id"):
            await consumer.commit()
    with pytest.raises(KafkaError, match="closed"):
        await consumer.poll(0)


async def test_an_unknown_topic_is_an_error_within_seconds() -> None:
    server = Server()
    async with _consumer(server) as consumer:
        consumer.assign([TopicPartition("nowhere", 0)])
        with pytest.raises(KafkaError) as failure:
            for _ in range(10):
                await consumer.poll(2_000)
    assert failure.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "no fetch has succeeded" not in failure.value.message, "it is known at once, not given up"


async def test_an_idle_consumer_waits_on_the_server() -> None:
    server = await _server(records=0)
    async with _consumer(server, fetch_max_wait_ms=200) as consumer:
        consumer.assign([T0])
        await consumer.poll(600)
    assert server.requests.count(ApiKey.FETCH) <= 5


async def test_a_record_that_arrives_ends_the_wait() -> None:
    server = await _server(records=0)
    async with _consumer(server, fetch_max_wait_ms=20_000) as consumer:
        consumer.assign([T0])
        waiting = asyncio.create_task(consumer.poll(20_000))
        await asyncio.sleep(0.1)
        await _produce(server, 0, 1)
        async with asyncio.timeout(10):
            assert len((await waiting)[T0]) == 1


async def test_a_damaged_record_is_raised_after_those_before_it_and_can_be_passed() -> None:
    """KafkaError names the offset; polls go on to raise it until the consumer seeks past the damage."""
    server = Server(item_bytes_max=0, uploads_kept_bytes=0)
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("flights", 1)])
    async with Producer(transport=server.transport(), linger_ms=0) as producer:
        for i in range(5):
            await (await producer.send("flights", b"%d" % i, partition=0))
    keys = sorted((info.key for info in await server.engine.objects.list("wal/")), key=lambda key: key[-32:])
    await server.engine.objects.delete([keys[2]])
    async with _consumer(server, retry_backoff_ms=10, retry_backoff_max_ms=20) as consumer:
        consumer.assign([T0])
        assert await _poll(consumer, 2) == [0, 1]
        for _ in range(2):
            with pytest.raises(KafkaError, match=r"flights-0 at offset 2: CORRUPT_MESSAGE.* seek past") as raised:
                await _poll(consumer, 1)
            assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
        assert await consumer.position(T0) == 2
        consumer.seek(T0, 3)
        assert await _poll(consumer, 2) == [3, 4]


async def test_a_partition_that_cannot_be_read_for_long_is_raised_while_others_are_read() -> None:
    server = await _server(partitions=2, records=4)
    fetch = server.engine.fetch

    async def fetch_one(partitions: Any, **limits: Any) -> Any:
        results = await fetch(partitions, **limits)
        return [
            replace(result, error=ErrorCode.KAFKA_STORAGE_ERROR, records=[]) if result.partition == 0 else result
            for result in results
        ]

    server.engine.fetch = fetch_one  # type: ignore[method-assign]
    async with _consumer(server, default_api_timeout_ms=150, retry_backoff_ms=10) as consumer:
        consumer.assign([T0, TopicPartition("flights", 1)])
        values: list[int] = []
        with pytest.raises(KafkaError, match="flights-0 at offset 0: KAFKA_STORAGE_ERROR"):
            for _ in range(200):
                for records in (await consumer.poll(100)).values():
                    values += [int(record.value) for record in records]
        assert values == [1, 3]


async def test_a_store_that_is_busy_for_some_fetches_is_no_error() -> None:
    """Damage is raised as soon as it repeats; what passes by itself only when it lasts for the API's time-out."""
    server = await _server(partitions=1, records=2)
    fetch = server.engine.fetch
    refused = 0

    async def refuse_four_times(partitions: Any, **limits: Any) -> Any:
        nonlocal refused
        results = await fetch(partitions, **limits)
        refused += 1
        if refused > 4:
            return results
        return [replace(result, error=ErrorCode.KAFKA_STORAGE_ERROR, records=[]) for result in results]

    server.engine.fetch = refuse_four_times  # type: ignore[method-assign]
    async with _consumer(server, retry_backoff_ms=1, retry_backoff_max_ms=2) as consumer:
        consumer.assign([T0])
        assert await _poll(consumer, 2) == [0, 1]
    assert refused > 4
