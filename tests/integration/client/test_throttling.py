"""Clients pause as long as an answer asks them to; counted on a clock that a test moves."""

from __future__ import annotations

import asyncio

from odradek import NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.protocol.api import ApiKey
from odradek.testing.manual_clock import ManualClock

from tests.support.clients.in_process import Server


async def _settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def _server(**quotas: int) -> Server:
    server = Server(**quotas)
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", 1)])
    return server


async def test_a_producer_sends_nothing_until_the_pause_is_over() -> None:
    server, clock = await _server(quota_produce_bytes_per_s=1_000), ManualClock()
    async with Producer(transport=server.transport(), clock=clock, linger_ms=0) as producer:
        first = await producer.send("t", b"x" * 10_000, partition=0)  # ten seconds' worth
        while not first.done():
            await asyncio.sleep(0)
        second = await producer.send("t", b"y", partition=0)
        await _settle()
        assert server.requests.count(ApiKey.PRODUCE) == 1
        clock.advance(8.5)
        await _settle()
        assert server.requests.count(ApiKey.PRODUCE) == 1
        clock.advance(1.0)
        while not second.done():
            await asyncio.sleep(0)
        assert (await second).offset == 1
        assert producer.metrics()["throttle_time_ms_total"] > 9_000


async def test_a_consumer_fetches_nothing_until_the_pause_is_over() -> None:
    server, clock = await _server(quota_fetch_bytes_per_s=1_000), ManualClock()
    async with Producer(transport=server.transport()) as producer:
        for _ in range(3):
            await producer.send_and_wait("t", b"x" * 5_000, partition=0)
    consumer = Consumer(
        transport=server.transport(),
        clock=clock,
        auto_offset_reset="earliest",
        fetch_max_bytes=5_000,
        fetch_max_wait_ms=0,
    )
    async with consumer:
        consumer.assign([TopicPartition("t", 0)])
        offsets = []
        while not offsets:
            offsets += await _poll(consumer)
        for _ in range(5):
            offsets += await _poll(consumer)
        assert (offsets, server.requests.count(ApiKey.FETCH)) == ([0], 1)
        clock.advance(6.0)
        while len(offsets) < 2:
            offsets += await _poll(consumer)
        assert (offsets, server.requests.count(ApiKey.FETCH)) == ([0, 1], 2)


async def _poll(consumer: Consumer) -> list[int]:
    await _settle()
    return [record.offset for records in (await consumer.poll(0)).values() for record in records]
