"""send(expected_offset=...): optimistic concurrency on a partition, through the wire, against the real engine."""

from __future__ import annotations

import asyncio
import pickle
import random

import odradek
import pytest
from odradek import KafkaError, NewTopic, OffsetConflict, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Outage, Server, server_thread


async def _server(partitions: int = 1, **settings: int) -> Server:
    server = Server(**settings)
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("orders", partitions)])
    return server


async def _values(server: Server) -> list[bytes | None]:
    tp = TopicPartition("orders", 0)
    async with Consumer(transport=server.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=0) as consumer:
        consumer.assign([tp])
        end = (await consumer.end_offsets([tp]))[tp]
        values_read: list[bytes | None] = []
        while await consumer.position(tp) < end:
            values_read += [r.value for r in (await consumer.poll(1000)).get(tp, [])]
        return values_read


async def test_the_expected_offset_is_the_one_that_the_record_gets() -> None:
    server = await _server()
    async with Producer(transport=server.transport()) as producer:
        for offset in range(3):
            future = await producer.send("orders", b"%d" % offset, partition=0, expected_offset=offset)
            assert (await future).offset == offset
    assert await _values(server) == [b"0", b"1", b"2"]


async def test_who_expects_another_offset_is_told_where_the_log_ends_and_can_go_on() -> None:
    server = await _server()
    async with Producer(transport=server.transport(), linger_ms=0) as producer:
        await producer.send_and_wait("orders", b"a", partition=0)
        await producer.send_and_wait("orders", b"b", partition=0)
        with pytest.raises(OffsetConflict) as conflict:
            await producer.send_and_wait("orders", b"lost", partition=0, expected_offset=1)
        assert (conflict.value.expected_offset, conflict.value.actual_offset) == (1, 2)
        assert conflict.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert not conflict.value.is_retryable
        won = await producer.send_and_wait("orders", b"c", partition=0, expected_offset=conflict.value.actual_offset)
        assert won.offset == 2
        await producer.send_and_wait("orders", b"d", partition=0)
    assert await _values(server) == [b"a", b"b", b"c", b"d"]


async def test_a_conditional_record_is_a_batch_of_its_own() -> None:
    server = await _server()
    async with Producer(transport=server.transport(), linger_ms=200) as producer:
        futures = [await producer.send("orders", b"%d" % i, partition=0) for i in range(5)]
        futures.append(await producer.send("orders", b"mine", partition=0, expected_offset=5))
        futures += [await producer.send("orders", b"%d" % i, partition=0) for i in range(6, 9)]
        assert [(await future).offset for future in futures] == list(range(9))
    assert (await _values(server))[5] == b"mine"


async def test_a_lost_record_takes_nothing_with_it() -> None:
    """Those before and after it in the same partition are written, in order, and once."""
    server = await _server()
    async with Producer(transport=server.transport()) as producer:
        before = [await producer.send("orders", b"before %d" % i, partition=0) for i in range(3)]
        lost = await producer.send("orders", b"lost", partition=0, expected_offset=0)
        after = [await producer.send("orders", b"after %d" % i, partition=0) for i in range(3)]
        with pytest.raises(OffsetConflict):
            await lost
        assert [(await future).offset for future in before + after] == list(range(6))
    assert await _values(server) == [*(b"before %d" % i for i in range(3)), *(b"after %d" % i for i in range(3))]


async def test_writers_that_race_by_expected_offsets_take_turns() -> None:
    server = await _server()

    async def count_up(producer: Producer, rng: random.Random) -> int:
        """Add 1 to the number in the last record, 10 times; a conflict means: look again."""
        done, offset = 0, 0
        while done < 10:
            await asyncio.sleep(rng.random() / 500)
            try:
                await producer.send_and_wait("orders", b"%d" % (offset + 1), partition=0, expected_offset=offset)
            except OffsetConflict as conflict:
                offset = max(conflict.actual_offset, offset + 1)
            else:
                done, offset = done + 1, offset + 1
        return done

    producers = [Producer(transport=server.transport(), linger_ms=0) for _ in range(3)]
    async with producers[0], producers[1], producers[2]:
        await asyncio.gather(*(count_up(producer, random.Random(i)) for i, producer in enumerate(producers)))
    assert await _values(server) == [b"%d" % (i + 1) for i in range(30)]


def _unanswered(nth: int) -> Outage:
    return lambda api, n: "unanswered" if api is ApiKey.PRODUCE and n == nth else None


async def test_an_idempotent_producer_whose_answer_was_lost_has_won_all_the_same() -> None:
    server = await _server()
    async with Producer(transport=server.transport(_unanswered(1)), retry_backoff_ms=1) as producer:
        assert (await producer.send_and_wait("orders", b"a", partition=0, expected_offset=0)).offset == 0
    assert await _values(server) == [b"a"]


async def test_without_idempotence_it_is_not_sent_again_when_it_may_have_been_written() -> None:
    server = await _server()
    async with Producer(transport=server.transport(_unanswered(1)), enable_idempotence=False) as producer:
        with pytest.raises(KafkaError) as failure:
            await producer.send_and_wait("orders", b"a", partition=0, expected_offset=0)
    assert not isinstance(failure.value, OffsetConflict), "it would be a conflict with itself"
    assert "may have been written" in failure.value.message
    assert await _values(server) == [b"a"]


@pytest.mark.parametrize(
    "wrong",
    [{"expected_offset": -1, "partition": 0}, {"expected_offset": 0}],
    ids=["a negative offset", "any partition"],
)
async def test_an_expectation_that_cannot_be_is_refused_at_once(wrong: dict[str, int]) -> None:
    server = await _server(partitions=2)
    async with Producer(transport=server.transport()) as producer:
        with pytest.raises(KafkaError) as refused:
            await producer.send("orders", b"a", **wrong)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert ApiKey.PRODUCE not in server.requests


def test_the_synchronous_producer_has_it_too() -> None:
    with server_thread() as (server, loop):
        with odradek.Admin(transport=server.transport(loop=loop)) as admin:
            admin.create_topics([NewTopic("orders", 1)])
        with odradek.Producer(transport=server.transport(loop=loop), linger_ms=0) as producer:
            assert producer.send("orders", b"a", key=b"k", expected_offset=0).result(10).offset == 0
            with pytest.raises(OffsetConflict) as conflict:
                producer.send("orders", b"b", key=b"k", expected_offset=0).result(10)
    assert conflict.value.actual_offset == 1
    again = pickle.loads(pickle.dumps(conflict.value))
    assert (again.expected_offset, again.actual_offset, again.code) == (0, 1, ErrorCode.OFFSET_OUT_OF_RANGE)
