"""State of a client that is cut short: buffered records, fetches under way, sequences, locks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek import KafkaError, NewTopic, TopicPartition, aio
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Server
from tests.support.clients.transactional_producer import values

T0, T1 = TopicPartition("flights", 0), TopicPartition("flights", 1)


async def server_of(records: int, partitions: int = 2) -> Server:
    """Records are numbered, dealt out to the partitions in turn, some to a batch."""
    server = Server()
    async with aio.Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("flights", partitions)])
    async with aio.Producer(transport=server.transport(), batch_size=300) as producer:
        for i in range(records):
            await producer.send("flights", b"%d" % i, partition=i % partitions)
    return server


def consumer_of(server: Server, **configs: Any) -> aio.Consumer:
    configs = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, "retry_backoff_ms": 5, **configs}
    return aio.Consumer(transport=server.transport(), **configs)


async def poll(consumer: aio.Consumer, count: int) -> list[tuple[int, int]]:
    """(partition, offset) of the next so many records."""
    positions: list[tuple[int, int]] = []
    for _ in range(200):
        if len(positions) >= count:
            break
        for records in (await consumer.poll(100)).values():
            positions += [(record.partition, record.offset) for record in records]
    return positions


# --- the consumer -----------------------------------------------------------------------------------------------------


async def test_what_was_buffered_of_a_partition_that_was_given_up_is_not_handed_out() -> None:
    server = await server_of(200)
    async with consumer_of(server, max_poll_records=3) as consumer:
        consumer.assign([T0, T1])
        assert len(await poll(consumer, 3)) == 3
        consumer.assign([T1])
        assert {partition for partition, _ in await poll(consumer, 40)} == {1}
        consumer.assign([T0, T1])
        again = [offset for partition, offset in await poll(consumer, 150) if partition == 0]
        assert again[0] == 0, "it is read anew, from the committed offset or the reset"
        assert again == list(range(len(again)))


async def test_a_response_to_a_fetch_from_before_a_seek_is_dropped() -> None:
    """The fetch is under way while the application seeks; paused partitions and new assignments are the same."""
    server = await server_of(100, partitions=1)
    fetch, arrived, released = server.engine.fetch, asyncio.Event(), asyncio.Event()

    async def slow(partitions: Any, **limits: Any) -> Any:
        results = await fetch(partitions, **limits)
        if not arrived.is_set():
            arrived.set()
            await released.wait()
        return results

    server.engine.fetch = slow  # type: ignore[method-assign]
    async with consumer_of(server) as consumer:
        consumer.assign([T0])
        polling = asyncio.ensure_future(consumer.poll(2_000))
        await arrived.wait()
        consumer.seek(T0, 70)
        released.set()
        offsets = [record.offset for records in (await polling).values() for record in records]
        offsets = offsets or [offset for _, offset in await poll(consumer, 30)]
        assert offsets[0] == 70
        assert await consumer.position(T0) == offsets[-1] + 1


async def test_a_fenced_commit_loses_the_partitions_and_the_member_joins_again() -> None:
    """The positions of before are not kept: another member may have gone on from them."""
    server = await server_of(40, partitions=1)
    async with consumer_of(server, group_id="g", enable_auto_commit=False, max_poll_records=5) as consumer:
        consumer.subscribe(["flights"])
        assert len(await poll(consumer, 5)) >= 5
        await consumer.commit()
        committed = (await consumer.committed([T0]))[T0].offset
        await poll(consumer, 5)
        commit, refused = server.engine.offsets.commit, []

        async def fenced(group_id: str, offsets: Any, **identity: Any) -> Any:
            if not refused:
                refused.append(identity)
                results = await commit(group_id, {}, **identity)
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, f"the member was fenced {results}")
            return await commit(group_id, offsets, **identity)

        server.engine.offsets.commit = fenced  # type: ignore[method-assign]
        with pytest.raises(KafkaError) as raised:
            await consumer.commit()
        assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH
        again = await poll(consumer, 5)
        assert again[0] == (0, committed), "from the committed offset, as whoever has the partition now"
        await consumer.commit()
        assert (await consumer.committed([T0]))[T0].offset > committed


# --- the producer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [False, True], ids=["empty", "with a record that was not sent"])
@pytest.mark.parametrize("times", [1, 3])
async def test_sequences_after_aborts_that_reached_nobody(waiting: bool, times: int) -> None:
    """No EndTxn was sent, so the epoch stays: what comes next must be the sequence that the log expects."""
    server = await server_of(0, partitions=1)
    async with aio.Producer(transport=server.transport(), transactional_id="tx", linger_ms=10_000) as producer:
        await producer.init_transactions()
        expected = []
        for number in range(3):
            for _ in range(times):
                await producer.begin_transaction()
                if waiting:
                    future = await producer.send("flights", b"given up", partition=0)
                server.requests.clear()
                await producer.abort_transaction()
                assert ApiKey.END_TXN not in server.requests
                if waiting:
                    with pytest.raises(KafkaError):
                        await future
            await producer.begin_transaction()
            for part in range(2):
                await producer.send("flights", b"%d %d" % (number, part), partition=0)
                expected.append(b"%d %d" % (number, part))
            await producer.commit_transaction()
        assert await values(server.engine, "flights", 0) == expected


# --- the share consumer -----------------------------------------------------------------------------------------------


async def test_the_lock_of_a_record_counts_from_the_request_not_from_the_response() -> None:
    server = await server_of(20, partitions=1)
    configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "30000"}
    await server.engine.group_configs.alter("q", set=configs)
    asked_s: list[float] = []
    transport = server.transport()
    exchange = transport.exchange

    async def slow(function: Any, frame: bytes, timeout_s: float) -> bytes:
        if ApiKey(int.from_bytes(frame[:2], "big")) is not ApiKey.SHARE_FETCH:
            return await exchange(function, frame, timeout_s)
        asked_s.append(asyncio.get_running_loop().time())
        response = await exchange(function, frame, timeout_s)
        await asyncio.sleep(0.05)
        return response

    transport.exchange = slow  # type: ignore[method-assign]
    async with aio.ShareConsumer(transport=transport, group_id="q", max_poll_records=1) as consumer:
        consumer.subscribe(["flights"])
        while not await consumer.poll(100):
            pass
        assert consumer._held, "more were acquired than were asked for"
        assert max(held.until_s for held in consumer._held) <= asked_s[-1] + 30
