"""The synchronous faces do what the asynchronous ones do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from odradek import (
    Admin,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from odradek.client.transport.base import InProcessTransport
from odradek.errors import ErrorCode

from tests.support.clients.in_process import server_thread

T0 = TopicPartition("flights", 0)


@pytest.fixture
def transport() -> Iterator[InProcessTransport]:
    with server_thread() as (server, loop):
        made = server.transport(loop=loop)
        with Admin(transport=made) as admin:
            admin.create_topics([NewTopic("flights", 3)])
        yield made


def _threads() -> set[str]:
    """Of clients; the pool of a registry that another test used ends when its service is collected."""
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith("odradek") and not name.startswith("odradek-schemas")}


def _fill(transport: InProcessTransport, count: int) -> None:
    with Producer(transport=transport) as producer:
        for i in range(count):
            producer.send("flights", b"%d" % i, partition=0)


def test_futures_flush_and_close(transport: InProcessTransport) -> None:
    with Producer(transport=transport, linger_ms=1) as producer:
        futures = [producer.send("flights", b"%d" % i, key=b"k") for i in range(100)]
        metadata = futures[0].result(timeout=30)
        assert metadata.topic == "flights"
        producer.flush(30)
        assert all(future.done() for future in futures)
        assert [future.result().offset for future in futures] == list(range(100))
        offsets: list[int] = []
        futures[3].add_done_callback(lambda future: offsets.append(future.result().offset))
        assert offsets == [3]
        assert futures[4].exception() is None
        assert producer.partitions_for("flights") == {0, 1, 2}
        assert producer.metrics()["record_send_total"] == 100
        assert "odradek-producer" in _threads()
    assert not _threads()
    with pytest.raises(KafkaError, match="closed"):
        producer.send("flights", b"late")
    producer.close()


def test_many_threads_send_through_one_producer(transport: InProcessTransport) -> None:
    with Producer(transport=transport, batch_size=2_000) as producer:

        def send(name: int) -> None:
            for i in range(500):
                producer.send("flights", b"%d:%d" % (name, i), key=b"%d" % name)

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    numbers_by_thread: dict[str, list[int]] = {}
    with Consumer(transport=transport, auto_offset_reset="earliest", fetch_max_wait_ms=20) as consumer:
        consumer.assign([TopicPartition("flights", p) for p in range(3)])
        while sum(map(len, numbers_by_thread.values())) < 2_000:
            for records in consumer.poll(1_000).values():
                for record in records:
                    name, number = record.value.decode().split(":")
                    numbers_by_thread.setdefault(name, []).append(int(number))
    assert numbers_by_thread == {str(name): list(range(500)) for name in range(4)}  # each thread's order is kept


def test_an_error_reaches_the_future_and_else_the_flush(transport: InProcessTransport) -> None:
    producer = Producer(transport=transport, linger_ms=0)
    future = producer.send("flights", b"x" * 1_100_000, partition=0)
    with pytest.raises(KafkaError) as failure:
        future.result(30)
    assert failure.value.code is ErrorCode.MESSAGE_TOO_LARGE
    producer.send("flights", b"x" * 1_100_000, partition=0)
    with pytest.raises(KafkaError, match=r"1 record\(s\) were not written"):
        producer.close()
    assert not _threads()


def test_a_consumer_polls_iterates_commits_and_seeks(transport: InProcessTransport) -> None:
    _fill(transport, 50)
    with Consumer(transport=transport, group_id="g", auto_offset_reset="earliest", fetch_max_wait_ms=20) as consumer:
        consumer.subscribe(["flights"])
        numbers = []
        for record in consumer:
            numbers.append(int(record.value))
            if len(numbers) == 20:
                break
        assert numbers == list(range(20))
        assert consumer.position(T0) == 20
        consumer.commit()
        assert consumer.committed([T0]) == {T0: OffsetAndMetadata(20)}
        consumer.commit_async({T0: 21}).result(30)
        assert consumer.committed([T0]) == {T0: OffsetAndMetadata(21)}
        consumer.seek(T0, 48)
        assert [int(next(consumer).value), int(next(consumer).value)] == [48, 49]
        assert consumer.lag()[T0] == 0
        assert consumer.assignment() == {TopicPartition("flights", p) for p in range(3)}
    assert not _threads()


def test_a_listener_runs_in_the_polling_thread_and_may_call_the_consumer(transport: InProcessTransport) -> None:
    _fill(transport, 10)
    heard: list[tuple[str, Any]] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            heard.append(("assigned", threading.current_thread() is threading.main_thread()))
            consumer.seek(T0, 7)

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            consumer.commit()
            heard.append(("revoked", consumer.committed([T0])[T0]))

    with Consumer(transport=transport, group_id="g", enable_auto_commit=False, fetch_max_wait_ms=20) as consumer:
        consumer.subscribe(["flights"], listener=Listener())
        values: list[int] = []
        while len(values) < 3:
            values += [int(r.value) for records in consumer.poll(1_000).values() for r in records]
    assert values == [7, 8, 9]
    assert heard == [("assigned", True), ("revoked", OffsetAndMetadata(10))]


def test_both_faces_agree(transport: InProcessTransport) -> None:
    _fill(transport, 30)

    async def read() -> list[Any]:
        from odradek.aio import Consumer as AsyncConsumer

        async with AsyncConsumer(transport=transport, auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            return (await consumer.poll(30_000))[T0]

    with Consumer(transport=transport, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert consumer.poll(30_000)[T0] == asyncio.run(read())


def test_an_error_in_the_constructor_leaves_no_thread() -> None:
    with pytest.raises(KafkaError):
        Producer(bootstrap_servers="http://127.0.0.1:1", aws_access_key_id="a", aws_secret_access_key="b")
    with pytest.raises(KafkaError):
        Consumer(bootstrap_servers="http://127.0.0.1:1", group="typo")
    assert not _threads()


def test_waiting_for_a_future_inside_its_own_callback_is_refused(transport: InProcessTransport) -> None:
    with Producer(transport=transport, linger_ms=500) as producer:  # the callback is there before the answer
        outcome: list[BaseException] = []
        entered = threading.Event()

        def callback(_: object) -> None:
            try:
                producer.send("flights", b"second", partition=0).result(5)
            except BaseException as error:
                outcome.append(error)
            entered.set()

        producer.send("flights", b"first", partition=0).add_done_callback(callback)
        assert entered.wait(30)
    assert isinstance(outcome[0], asyncio.InvalidStateError)


def test_admin_round_trip(transport: InProcessTransport) -> None:
    _fill(transport, 5)
    with Admin(transport=transport) as admin:
        with pytest.raises(KafkaError) as failure:
            admin.create_topics([NewTopic("flights", 3)])
        assert failure.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        admin.create_topics([NewTopic("weather", 2, configs={"retention.ms": "1000"})])
        assert admin.list_topics() == ["flights", "weather"]
        assert admin.describe_topics(["weather"])["weather"].partition_count == 2
        assert admin.describe_configs(["weather"])["weather"]["retention.ms"].value == "1000"
        admin.create_partitions({"weather": 4})
        assert admin.list_offsets({T0: "latest", TopicPartition("flights", 1): "earliest"})[T0].offset == 5
        admin.alter_consumer_group_offsets("g", {T0: 3})
        assert admin.list_consumer_group_offsets("g") == {T0: OffsetAndMetadata(3)}
        assert [group.group_id for group in admin.list_consumer_groups()] == ["g"]
        assert admin.describe_consumer_groups(["g"])["g"].state == "Empty"
        admin.delete_consumer_groups(["g"])
        admin.delete_topics(["weather"])
        assert admin.list_topics() == ["flights"]
        for missing in (lambda: admin.delete_topics(["weather"]), lambda: admin.describe_topics(["weather"])):
            with pytest.raises(KafkaError) as failure:
                missing()
            assert failure.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError) as failure:
            admin.describe_consumer_groups(["g"])
        assert failure.value.code is ErrorCode.GROUP_ID_NOT_FOUND
