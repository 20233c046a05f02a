"""The producer against the real engine and dispatcher."""

from __future__ import annotations

import asyncio

import pytest
from odradek import KafkaError, NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.errors import ErrorCode, StoreUnavailable
from odradek.ports.table import Item, Update
from odradek.protocol.api import ApiKey
from odradek.testing.seeded_rng import SeededRng

from bench.engine.append import LoopClock
from tests.simulation.loop import run
from tests.support.clients.in_process import Server


async def _topic(server: Server, name: str = "flights", partitions: int = 1, **configs: str) -> None:
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics(
            [NewTopic(name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()})]
        )


async def _read(server: Server, topic: str = "flights", partitions: int = 1) -> dict[int, list[bytes | None]]:
    """All values by partition, read to the end."""
    values_by_partition: dict[int, list[bytes | None]] = {p: [] for p in range(partitions)}
    names = [TopicPartition(topic, p) for p in range(partitions)]
    async with Consumer(transport=server.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=0) as consumer:
        consumer.assign(names)
        ends = await consumer.end_offsets(names)
        while [name for name in names if await consumer.position(name) < ends[name]]:
            for name, records in (await consumer.poll(1000)).items():
                values_by_partition[name.partition] += [record.value for record in records]
    return values_by_partition


async def test_a_record_is_written_with_key_headers_and_timestamp() -> None:
    server = Server()
    await _topic(server, partitions=3)
    async with Producer(transport=server.transport()) as producer:
        future = await producer.send(
            "flights", b"departed", b"N14228", headers={"origin": b"EWR", "none": None}, timestamp_ms=1_357_016_400_000
        )
        metadata = await future
    assert metadata.offset == 0
    assert metadata.timestamp_ms == 1_357_016_400_000
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (6, 8)
    async with Consumer(transport=server.transport(), auto_offset_reset="earliest") as consumer:
        consumer.assign([metadata.topic_partition])
        [record] = (await consumer.poll(2000))[metadata.topic_partition]
    assert (record.key, record.value, record.offset) == (b"N14228", b"departed", 0)
    assert record.headers == (("origin", b"EWR"), ("none", None))
    assert record.timestamp_ms == 1_357_016_400_000


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_round_trips_in_order(compression: str) -> None:
    server = Server()
    await _topic(server)
    values = [b"%05d" % i for i in range(2_000)]
    async with Producer(transport=server.transport(), compression_type=compression, batch_size=4_000) as producer:
        futures = [await producer.send("flights", value) for value in values]
    assert [(await future).offset for future in futures] == list(range(2_000))
    assert (await _read(server))[0] == values


async def test_null_and_empty_keys_and_values_differ() -> None:
    server = Server()
    await _topic(server)
    async with Producer(transport=server.transport()) as producer:
        for key, value in [(None, None), (b"", b""), (None, b""), (b"", None)]:
            await producer.send("flights", value, key)
    async with Consumer(transport=server.transport(), auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("flights", 0)])
        records = (await consumer.poll(2000))[TopicPartition("flights", 0)]
    assert [(r.key, r.value) for r in records] == [(None, None), (b"", b""), (None, b""), (b"", None)]


async def test_several_partitions_share_a_request() -> None:
    server = Server()
    await _topic(server, partitions=6)
    async with Producer(transport=server.transport(), linger_ms=50) as producer:
        for i in range(60):
            await producer.send("flights", b"x", partition=i % 6)
    assert server.requests.count(ApiKey.PRODUCE) == 1


async def test_what_failed_in_one_request_is_sent_again_in_one() -> None:
    """Back-off is the request's: with one for each partition every record of a retry would be a call of its own."""
    server = Server()
    await _topic(server, partitions=12)

    def outage(api: ApiKey, count: int) -> str | None:
        return "lost" if api is ApiKey.PRODUCE and count <= 3 else None

    async with Producer(transport=server.transport(outage), linger_ms=50) as producer:
        futures = [await producer.send("flights", b"x", partition=p) for p in range(12)]
        await asyncio.gather(*futures)
        assert producer.metrics()["request_total"] == 4
    assert server.requests.count(ApiKey.PRODUCE) == 1


def test_while_nothing_works_the_partitions_of_a_producer_ask_together() -> None:
    """Ten virtual seconds of an outage, each partition's record sent at another time, and what came of them."""
    server = Server()
    clock = LoopClock()

    async def scenario() -> float:
        await _topic(server, partitions=16)

        def outage(api: ApiKey, count: int) -> str | None:
            return "lost" if api is ApiKey.PRODUCE and clock.monotonic() < 10 else None

        async with Producer(transport=server.transport(outage), clock=clock, rng=SeededRng(1)) as producer:
            futures = []
            for partition in range(16):
                await asyncio.sleep(0.04)
                futures.append(await producer.send("flights", b"x", partition=partition))
            await asyncio.sleep(10 - clock.monotonic())
            requests = producer.metrics()["request_total"]
            await asyncio.gather(*futures)
        return requests

    assert run(scenario()) < 100, "one partition makes some 25 requests in ten seconds: half of them pause a second"


async def test_answers_that_get_lost_do_not_duplicate() -> None:
    server = Server()
    await _topic(server, partitions=2)

    def outage(api: ApiKey, n: int) -> str | None:
        return ["unanswered", "lost", None][n % 3] if api is ApiKey.PRODUCE else None

    values = [b"%04d" % i for i in range(1_000)]
    async with Producer(
        transport=server.transport(outage), linger_ms=0, batch_size=200, retry_backoff_ms=1, retry_backoff_max_ms=5
    ) as producer:
        futures = [await producer.send("flights", value, partition=i % 2) for i, value in enumerate(values)]
        offsets = [(await future).offset for future in futures]
        assert producer.metrics()["record_retry_total"] > 0
    assert offsets == [i // 2 for i in range(1_000)]
    assert await _read(server, partitions=2) == {0: values[0::2], 1: values[1::2]}


async def test_order_holds_when_requests_overtake_each_other() -> None:
    server = Server(sequence_wait_ms=20)
    await _topic(server)
    transport = server.transport()
    direct = transport.exchange
    count = 0

    async def late(function: object, frame: bytes, timeout_s: float) -> bytes:
        nonlocal count
        count += 1
        # Every third request is overtaken by those after it, and by more than the server waits.
        await asyncio.sleep(0.1 if count % 3 == 0 else 0)
        return await direct(function, frame, timeout_s)  # type: ignore[arg-type]

    transport.exchange = late  # type: ignore[method-assign, assignment]
    values = [b"%04d" % i for i in range(400)]
    async with Producer(transport=transport, linger_ms=0, batch_size=600, retry_backoff_ms=1) as producer:
        for value in values:
            await producer.send("flights", value)
            await asyncio.sleep(0)
    assert (await _read(server))[0] == values


async def test_order_holds_behind_an_update_that_is_slow_and_one_that_is_refused() -> None:
    """Requests in flight to one process follow the first, and no function waits for it by the clock."""
    server = Server(sequence_wait_ms=0, append_attempts_max=1)
    await _topic(server)
    table = server.engine.index._log
    update, count = table.update, 0

    async def unkind(operation: Update) -> Item:
        nonlocal count
        count += 1
        if count % 7 == 0:
            await asyncio.sleep(0.05)
        if count % 11 == 0:
            raise StoreUnavailable("throttled")
        return await update(operation)

    table.update = unkind  # type: ignore[method-assign]
    values = [b"%04d" % i for i in range(200)]
    async with Producer(transport=server.transport(), linger_ms=0, batch_size=600, retry_backoff_ms=1) as producer:
        for value in values:
            await producer.send("flights", value)
            await asyncio.sleep(0)
    assert (await _read(server))[0] == values


async def test_a_batch_that_was_given_up_leaves_no_gap_behind() -> None:
    server = Server(sequence_wait_ms=20)
    await _topic(server)
    blocked = True

    def outage(api: ApiKey, n: int) -> str | None:
        return "lost" if api is ApiKey.PRODUCE and blocked and n > 1 else None

    async with Producer(
        transport=server.transport(outage),
        linger_ms=0,
        request_timeout_ms=1_000,
        delivery_timeout_ms=1_000,
        retry_backoff_ms=50,
    ) as producer:
        assert (await producer.send_and_wait("flights", b"first")).offset == 0
        lost = await producer.send("flights", b"lost")
        with pytest.raises(KafkaError):
            await lost
        blocked = False
        assert (await producer.send_and_wait("flights", b"second")).offset == 1
    assert (await _read(server))[0] == [b"first", b"second"]


async def test_a_batch_given_up_in_doubt_does_not_duplicate_its_successors() -> None:
    server = Server(sequence_wait_ms=20)
    await _topic(server)
    phase = "ok"

    def outage(api: ApiKey, n: int) -> str | None:
        return "unanswered" if api is ApiKey.PRODUCE and phase == "mute" else None

    async with Producer(
        transport=server.transport(outage),
        linger_ms=0,
        request_timeout_ms=8_000,
        delivery_timeout_ms=8_000,
        retry_backoff_ms=20,
        retry_backoff_max_ms=20,
    ) as producer:
        await producer.send_and_wait("flights", b"first")
        phase = "mute"
        doubtful = await producer.send("flights", b"doubtful")
        await asyncio.sleep(4)  # half of the deadline: the successor outlives its predecessor by that much
        later = await producer.send("flights", b"later")
        with pytest.raises(KafkaError) as failure:
            await doubtful
        phase = "ok"
        assert failure.value.code in {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION}
        assert (await later).offset == 2
    assert (await _read(server))[0] == [b"first", b"doubtful", b"later"]


async def test_a_batch_too_large_for_the_topic_is_split() -> None:
    server = Server()
    await _topic(server, max_message_bytes="2000")
    values = [b"%04d" % i + b"x" * 96 for i in range(100)]
    async with Producer(transport=server.transport(), linger_ms=20, batch_size=8_000) as producer:
        futures = [await producer.send("flights", value) for value in values]
        assert [(await future).offset for future in futures] == list(range(100))
        assert producer.metrics()["batch_split_total"] > 0
    assert (await _read(server))[0] == values


async def test_a_record_too_large_for_the_topic_fails_alone() -> None:
    server = Server()
    await _topic(server, max_message_bytes="2000")
    async with Producer(transport=server.transport(), linger_ms=20) as producer:
        before = await producer.send("flights", b"before")
        large = await producer.send("flights", b"x" * 3_000)
        after = await producer.send("flights", b"after")
        with pytest.raises(KafkaError) as failure:
            await large
        assert failure.value.code is ErrorCode.MESSAGE_TOO_LARGE
        await before
        await after
    assert (await _read(server))[0] == [b"before", b"after"]


async def test_errors_that_nobody_looked_at_are_raised_by_flush_once() -> None:
    server = Server()
    await _topic(server, max_message_bytes="2000")
    producer = await Producer(transport=server.transport(), linger_ms=0).start()
    await producer.send("flights", b"x" * 3_000)
    with pytest.raises(KafkaError, match=r"1 record\(s\) were not written; the first, to flights-0") as failure:
        await producer.flush()
    assert failure.value.code is ErrorCode.MESSAGE_TOO_LARGE
    await producer.flush()
    await producer.close()


async def test_close_flushes() -> None:
    server = Server()
    await _topic(server)
    producer = await Producer(transport=server.transport(), linger_ms=60_000, delivery_timeout_ms=120_000).start()
    futures = [await producer.send("flights", b"%d" % i) for i in range(10)]
    await producer.close()
    assert all(future.done() for future in futures)
    assert (await _read(server))[0] == [b"%d" % i for i in range(10)]
    with pytest.raises(KafkaError, match="closed"):
        await producer.send("flights", b"late")


async def test_an_unknown_topic_is_an_error_that_names_it() -> None:
    server = Server()
    async with Producer(transport=server.transport(), max_block_ms=200) as producer:
        with pytest.raises(KafkaError, match="'nowhere' does not exist") as failure:
            await producer.send("nowhere", b"x")
    assert failure.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_unknown_partition_is_an_error_and_a_new_one_is_found() -> None:
    server = Server(catalog_cache_ms=0)
    await _topic(server)
    async with Producer(transport=server.transport()) as producer:
        await producer.send_and_wait("flights", b"x", partition=0)
        with pytest.raises(KafkaError, match="has partitions 0 to 0, not 1"):
            await producer.send("flights", b"x", partition=1)
        async with Admin(transport=server.transport()) as admin:
            await admin.create_partitions({"flights": 2})
        assert (await producer.send_and_wait("flights", b"x", partition=1)).partition == 1


async def test_a_full_buffer_blocks_and_then_fails() -> None:
    server = Server()
    await _topic(server)
    gate = asyncio.Event()
    transport = server.transport()
    direct = transport.exchange

    async def gated(function: object, frame: bytes, timeout_s: float) -> bytes:
        if int.from_bytes(frame[:2], "big") == ApiKey.PRODUCE:
            await gate.wait()
        return await direct(function, frame, timeout_s)  # type: ignore[arg-type]

    transport.exchange = gated  # type: ignore[method-assign, assignment]
    options = {"transport": transport, "linger_ms": 0, "buffer_memory": 4_096}
    async with (
        Producer(**options, max_block_ms=150) as hasty,  # type: ignore[arg-type]
        Producer(**options, max_block_ms=60_000) as patient,  # type: ignore[arg-type]
    ):
        for _ in range(3):
            await hasty.send("flights", b"x" * 1_000)
            await patient.send("flights", b"x" * 1_000)
        with pytest.raises(KafkaError, match="buffer_memory"):
            await hasty.send("flights", b"x" * 1_500)
        waiting = asyncio.create_task(patient.send("flights", b"y" * 1_500))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        gate.set()
        await (await waiting)


async def test_acks_0_does_not_wait_for_the_answer() -> None:
    server = Server()
    await _topic(server)
    async with Producer(transport=server.transport(), acks=0, enable_idempotence=False) as producer:
        metadata = await producer.send_and_wait("flights", b"x")
    assert metadata.offset == -1


async def test_without_idempotence_a_lost_answer_may_duplicate_but_order_holds() -> None:
    server = Server()
    await _topic(server)

    def outage(api: ApiKey, n: int) -> str | None:
        return "unanswered" if api is ApiKey.PRODUCE and n == 1 else None

    async with Producer(transport=server.transport(outage), enable_idempotence=False, retry_backoff_ms=1) as producer:
        await producer.send_and_wait("flights", b"twice")
        await producer.send_and_wait("flights", b"once")
    assert (await _read(server))[0] == [b"twice", b"twice", b"once"]
