"""A share group's life over the aws adapters: DynamoDB takes its items and conditions as memory does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.system import SystemRng
from odradek.testing.manual_clock import ManualClock

from tests.support.clients.share_member import ACCEPT, REJECT, RELEASE, ShareMember, ack
from tests.support.engine import batch, produce, read_all
from tests.support.stores.aws import CREDENTIALS, create_tables, moto_server, open_store


@pytest.fixture
def endpoint() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, moto_server() as url:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        create_tables(url)
        yield url


async def work(endpoint: str) -> None:
    clock = ManualClock(auto_advance=True)
    async with open_store(endpoint) as store:
        engine = Engine(tables=store, objects=store.objects, clock=clock, rng=SystemRng())
        await engine.topics.create("dead")
        await engine.topics.create("work")
        for value in (b"a", b"b", b"c"):
            assert not (await produce(engine, "work", 0, batch([value]))).error
        configs = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dead"}
        await engine.group_configs.alter("q", set=configs)
        one, two = ShareMember(engine, "one", "work"), ShareMember(engine, "two", "work")
        for member in (one, two):
            assert (await member.beat()).error is ErrorCode.NONE
        assert [offset for offset, _, _ in await one.fetch()] == [0, 1, 2]
        assert await two.fetch() == []
        partition = one.of(0)
        assert await one.acknowledge({partition: [ack(0, 2, ACCEPT, RELEASE, REJECT)]}) == {partition: ErrorCode.NONE}
        assert [(offset, count) for offset, count, _ in await two.fetch()] == [(1, 2)]
        assert [record.value for record in await read_all(engine, "dead", 0)] == [b"c"]
        assert (await one.request(1)).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        clock.advance(31)
        assert await two.acknowledge({partition: [ack(1, 1, ACCEPT)]}) == {partition: ErrorCode.INVALID_RECORD_STATE}
        await two.close()
        for member in (one, two):
            assert await member.leave() is ErrorCode.NONE
        [moved] = await engine.share_offsets.alter("q", {TopicPartition("work", 0): 3})
        assert moved.error is ErrorCode.NONE
        [at] = await engine.share_offsets.describe("q", None)
        assert (at.start_offset, at.lag) == (3, 0)
        await engine.topics.delete("work")
        assert not (await engine.maintenance.run()).failures
        assert await store.groups.query("g#q", sk_from="s#") == []
        assert await engine.groups.delete(["q"]) == [("q", ErrorCode.NONE)]


@pytest.mark.slow
def test_a_share_group_on_dynamodb(endpoint: str) -> None:
    """Slow: moto takes seconds to start; the contract suites check each kind of operation by itself."""
    asyncio.run(work(endpoint))
