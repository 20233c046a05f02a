"""The SDK's transactions against the real engine and dispatcher, in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek import Consumer, ErrorCode, KafkaError, Producer, TopicPartition, aio
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Outage, Server, server_thread
from tests.support.clients.transactional_producer import committed, values


@pytest.fixture
async def server() -> Server:
    server = Server()
    await server.engine.topics.create("in", 1)
    await server.engine.topics.create("out", 2)
    return server


def producer_of(server: Server, outage: Outage | None = None, **configs: Any) -> aio.Producer:
    configs = {"transactional_id": "tx", "linger_ms": 0, "retry_backoff_ms": 1, **configs}
    return aio.Producer(transport=server.transport(outage), **configs)


async def test_reads_processes_and_writes_in_one_step(server: Server) -> None:
    async with aio.Producer(transport=server.transport()) as plain:
        for i in range(10):
            await plain.send("in", b"%d" % i)
    async with (
        producer_of(server) as producer,
        aio.Consumer(
            transport=server.transport(), group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
    ):
        await producer.init_transactions()
        consumer.subscribe(["in"])
        done = 0
        while done < 10:
            records = [record for some in (await consumer.poll(timeout_ms=5_000)).values() for record in some]
            if not records:
                continue
            async with producer.transaction():
                for record in records:
                    future = await producer.send("out", record.value, partition=record.offset % 2)
                await producer.send_offsets_to_transaction(
                    {TopicPartition("in", 0): records[-1].offset + 1}, consumer.group_metadata()
                )
                assert await values(server.engine, "out", 0) == [b"%d" % i for i in range(0, done, 2)]
            assert (await future).offset == -1
            done += len(records)
    assert await values(server.engine, "out", 0) == [b"0", b"2", b"4", b"6", b"8"]
    assert await values(server.engine, "out", 1) == [b"1", b"3", b"5", b"7", b"9"]
    assert await committed(server.engine, "readers", "in") == 10


async def test_a_told_offset_is_kept_or_the_transaction_is_repeated(server: Server) -> None:
    await server.engine.topics.create("told", 1, {"transaction.offsets": "predicted"})
    async with producer_of(server) as producer, aio.Producer(transport=server.transport()) as other:
        await producer.init_transactions()
        await producer.begin_transaction()
        assert (await (await producer.send("told", b"refused"))).offset == 0
        await (await other.send("told", b"of another"))
        with pytest.raises(KafkaError) as raised:
            await producer.commit_transaction()
        assert raised.value.code is ErrorCode.TRANSACTION_ABORTABLE
        await producer.abort_transaction()
        async with producer.transaction():
            futures = [await producer.send("told", b"kept %d" % i) for i in range(2)]
            assert [(await future).offset for future in futures] == [1, 2]
    assert await values(server.engine, "told") == [b"of another", b"kept 0", b"kept 1"]


async def test_an_exception_in_the_block_aborts(server: Server) -> None:
    async with producer_of(server) as producer:
        await producer.init_transactions()
        for i in range(3):
            with pytest.raises(RuntimeError, match="stop"):
                async with producer.transaction():
                    await producer.send_and_wait("out", b"dropped", partition=0)
                    await producer.send("out", b"dropped, too", partition=1)
                    raise RuntimeError("stop")
            async with producer.transaction():
                await producer.send("out", b"%d" % i, partition=0)
    assert await values(server.engine, "out", 0) == [b"0", b"1", b"2"]
    assert await values(server.engine, "out", 1) == []


async def test_lost_requests_and_answers_change_nothing(server: Server) -> None:
    def outage(api: ApiKey, n: int) -> str | None:
        if api in (ApiKey.PRODUCE, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID):
            return {1: "lost", 3: "unanswered"}.get(n % 4)
        return None

    async with producer_of(server, outage) as producer:
        await producer.init_transactions()
        for i in range(8):
            await producer.begin_transaction()
            await producer.send("out", b"%d" % i, partition=0)
            await producer.send("out", b"%d" % i, partition=1)
            await producer.send_offsets_to_transaction({TopicPartition("in", 0): i}, "readers")
            await (producer.abort_transaction() if i % 4 == 3 else producer.commit_transaction())
    for partition in (0, 1):
        assert await values(server.engine, "out", partition) == [b"%d" % i for i in (0, 1, 2, 4, 5, 6)]
    assert await committed(server.engine, "readers", "in") == 6


async def test_a_zombie_is_fenced_for_good(server: Server) -> None:
    async with producer_of(server) as zombie, producer_of(server) as fresh:
        await zombie.init_transactions()
        await zombie.begin_transaction()
        await zombie.send_and_wait("out", b"zombie", partition=0)
        await fresh.init_transactions()
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            await zombie.commit_transaction()
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            await zombie.abort_transaction()
        with pytest.raises(KafkaError, match="close this producer"):
            await zombie.begin_transaction()
        async with fresh.transaction():
            await fresh.send("out", b"fresh", partition=0)
    assert await values(server.engine, "out", 0) == [b"fresh"]


async def test_a_zombie_that_sends_is_told_by_its_commit(server: Server) -> None:
    async with producer_of(server) as zombie, producer_of(server) as fresh:
        await zombie.init_transactions()
        await zombie.begin_transaction()
        await fresh.init_transactions()
        await zombie.send("out", b"zombie", partition=0)
        with pytest.raises(KafkaError):
            await zombie.commit_transaction()
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            await zombie.abort_transaction()
    assert await values(server.engine, "out", 0) == []


async def test_a_timed_out_transaction_is_aborted_and_the_producer_goes_on(server: Server) -> None:
    async with producer_of(server, transaction_timeout_ms=1_000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_and_wait("out", b"late", partition=0)
        await asyncio.sleep(1.1)
        with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("out", b"in time", partition=0)
    assert await values(server.engine, "out", 0) == [b"in time"]


async def test_a_record_that_fails_makes_the_transaction_abortable(server: Server) -> None:
    async with producer_of(server, metadata_max_age_ms=600_000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_and_wait("out", b"good", partition=0)
        await server.engine.topics.alter_configs("out", set={"max.message.bytes": "100"})
        server.engine.topics.forget(await server.engine.topics.resolve("out"))
        future = await producer.send("out", b"x" * 1000, partition=1)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await future
        with pytest.raises(KafkaError, match="abort the transaction"):
            await producer.send("out", b"more", partition=0)
        with pytest.raises(KafkaError, match="abort the transaction"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("out", b"small", partition=0)
            await producer.send("out", b"small", partition=1)
    assert await values(server.engine, "out", 0) == await values(server.engine, "out", 1) == [b"small"]


async def test_misuse_is_told(server: Server) -> None:
    async with aio.Producer(transport=server.transport()) as plain:
        with pytest.raises(KafkaError, match="transactional_id"):
            await plain.init_transactions()
    async with producer_of(server) as producer:
        with pytest.raises(KafkaError, match="init_transactions first"):
            await producer.begin_transaction()
        await producer.init_transactions()
        for call in (
            producer.init_transactions(),
            producer.send("out", b"outside"),
            producer.commit_transaction(),
            producer.abort_transaction(),
        ):
            with pytest.raises(KafkaError) as caught:
                await call
            assert caught.value.code is ErrorCode.INVALID_TXN_STATE
        async with producer.transaction():
            with pytest.raises(KafkaError, match="a transaction is open"):
                await producer.begin_transaction()
    with pytest.raises(KafkaError, match="enable_idempotence"):
        producer_of(server, enable_idempotence=False)
    with pytest.raises(KafkaError, match="INVALID_TRANSACTION_TIMEOUT"):
        async with producer_of(server, transaction_timeout_ms=10_000_000) as producer:
            await producer.init_transactions()


async def test_an_empty_transaction_makes_no_call(server: Server) -> None:
    async with producer_of(server) as producer:
        await producer.init_transactions()
        server.requests.clear()
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
        assert server.requests == []


async def test_closing_aborts_what_is_open(server: Server) -> None:
    async with producer_of(server) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_and_wait("out", b"open", partition=0)
    assert [row.is_ongoing for row in await server.engine.transactions.list()] == [False]
    assert await values(server.engine, "out", 0) == []


async def test_an_abort_may_come_at_any_step_of_a_send(server: Server) -> None:
    """Also between a batch's sequence and its request: the next transaction begins under a new epoch."""
    async with producer_of(server) as producer:
        await producer.init_transactions()
        for steps in range(12):
            await producer.begin_transaction()
            await producer.send("out", b"dropped", partition=0)
            for _ in range(steps):
                await asyncio.sleep(0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("out", b"%d" % steps, partition=0)
    assert await values(server.engine, "out", 0) == [b"%d" % steps for steps in range(12)]


def test_the_synchronous_face() -> None:
    with server_thread() as (server, loop):
        asyncio.run_coroutine_threadsafe(server.engine.topics.create("out", 1), loop).result(10)
        with Producer(transport=server.transport(loop=loop), transactional_id="tx") as producer:
            producer.init_transactions()
            with pytest.raises(RuntimeError, match="stop"), producer.transaction():
                producer.send("out", b"dropped").result(10)
                raise RuntimeError("stop")
            with producer.transaction():
                future = producer.send("out", b"kept")
            assert future.result(10).offset == -1
            producer.begin_transaction()
            producer.send("out", b"dropped")
            producer.abort_transaction()
            producer.begin_transaction()
            producer.send("out", b"kept, too")
            producer.commit_transaction()
        with Consumer(
            transport=server.transport(loop=loop), auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign([TopicPartition("out", 0)])
            values_read: list[Any] = []
            while len(values_read) < 2:
                values_read += [record.value for some in consumer.poll(5_000).values() for record in some]
            assert values_read == [b"kept", b"kept, too"]
            with pytest.raises(KafkaError, match="group_id"):
                consumer.group_metadata()
