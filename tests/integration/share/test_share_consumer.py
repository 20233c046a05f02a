"""odradek.ShareConsumer over the real functions in this process: a work queue, its crashes, its poison."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek import aio
from odradek.client.share.consumer import ShareConsumer, ShareRecord
from odradek.errors import ErrorCode, KafkaError
from odradek.model.share import AcknowledgeType
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Outage, Server, server_thread
from tests.support.engine import batch, produce, read_all

LOCK_MS = 1_000


@pytest.fixture
async def server() -> Server:
    server = Server()
    await server.engine.topics.create("work", 2)
    configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)}
    await server.engine.group_configs.alter("q", set=configs)
    return server


async def fill(server: Server, count: int = 10, partition: int = 0) -> None:
    for i in range(count):
        assert not (await produce(server.engine, "work", partition, batch([b"%d" % i]))).error


def consumer(server: Server, outage: Outage | None = None, **configs: Any) -> ShareConsumer:
    made = aio.ShareConsumer(
        transport=server.transport(outage), group_id="q", fetch_max_wait_ms=20, retry_backoff_ms=1, **configs
    )
    made.subscribe(["work"])
    return made


async def take(consumer: ShareConsumer, timeout_ms: float = 3_000) -> list[ShareRecord]:
    return [record for records in (await consumer.poll(timeout_ms)).values() for record in records]


async def start_offset(server: Server, partition: int = 0) -> int:
    offsets_described = await server.engine.share_offsets.describe("q", None)
    return next(described.start_offset for described in offsets_described if described.partition == partition)


async def test_consumers_work_a_queue_off_together(server: Server) -> None:
    await fill(server, 20, 0)
    await fill(server, 20, 1)
    done: list[tuple[int, int]] = []

    async def work(one: ShareConsumer) -> None:
        async with one:
            while len(done) < 40:
                done.extend((record.partition, record.offset) for record in await take(one, 50))

    await asyncio.wait_for(
        asyncio.gather(*(work(consumer(server, share_acquire_mode="record_limit", max_poll_records=3)) for _ in "abc")),
        30,
    )
    assert sorted(done) == [(partition, offset) for partition in (0, 1) for offset in range(20)]
    assert [await start_offset(server, partition) for partition in (0, 1)] == [20, 20]


async def test_the_next_poll_accepts_and_an_error_in_the_block_gives_back(server: Server) -> None:
    await fill(server, 4)
    with pytest.raises(ZeroDivisionError):
        async with consumer(server, max_poll_records=2, share_acquire_mode="record_limit") as one:
            assert [record.offset for record in await take(one)] == [0, 1]
            assert [record.offset for record in await take(one)] == [2, 3]
            assert await start_offset(server) == 2
            1 / 0  # noqa: B018
    async with consumer(server) as two:
        assert [(record.offset, record.delivery_count) for record in await take(two)] == [(2, 2), (3, 2)]
    assert await start_offset(server) == 4


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
async def test_a_record_on_which_the_application_fails_becomes_a_dead_letter(server: Server, mode: str) -> None:
    await server.engine.topics.create("dead", 1)
    values = {"errors.deadletterqueue.topic.name": "dead", "share.delivery.count.limit": "3"}
    await server.engine.group_configs.alter("q", set=values)
    await fill(server, 2)
    counts = []
    for _ in range(4):
        with pytest.raises(ZeroDivisionError):
            async with consumer(server, share_acknowledgement_mode=mode) as one:
                records = (await one.poll(3_000, max_records=1)).values()
                counts += [(record.offset, record.delivery_count) for [record] in records]
                1 / 0  # noqa: B018
    assert counts == [(0, 1), (0, 2), (0, 3), (1, 1)]
    assert [letter.value for letter in await read_all(server.engine, "dead", 0)] == [b"0"]


async def test_records_that_wait_in_the_client_when_it_closes_do_not_count(server: Server) -> None:
    assert not (await produce(server.engine, "work", 0, batch([b"%d" % i for i in range(3)]))).error
    async with consumer(server) as one:
        [[record]] = (await one.poll(3_000, max_records=1)).values()  # the batch is acquired whole
        assert record.offset == 0
        assert len(one._held) == 2
        offsets_committed: list[set[int]] = []
        one.set_acknowledgement_commit_callback(lambda offsets, error: offsets_committed.extend(offsets.values()))
    assert offsets_committed == [{0}]
    async with consumer(server) as two:
        assert [(record.offset, record.delivery_count) for record in await take(two)] == [(1, 1), (2, 1)]


async def test_explicit_acknowledgements(server: Server) -> None:
    await fill(server, 3)
    commits: list[tuple[set[int], KafkaError | None]] = []
    async with consumer(server, share_acknowledgement_mode="explicit") as one:
        one.set_acknowledgement_commit_callback(
            lambda offsets, error: commits.extend((o, error) for o in offsets.values())
        )
        records = await take(one)
        with pytest.raises(KafkaError, match="is not acknowledged"):
            await one.poll()
        one.acknowledge(records[0])
        one.acknowledge(records[1], AcknowledgeType.RELEASE)
        one.acknowledge(records[2], AcknowledgeType.REJECT)
        with pytest.raises(KafkaError, match="already acknowledged"):
            one.acknowledge(records[0])
        again = await take(one)
        assert [(record.offset, record.delivery_count) for record in again] == [(1, 2)]
        assert commits == [({0, 1, 2}, None)]
        one.acknowledge(again[0])
        assert set((await one.commit_sync()).values()) == {None}
    assert await start_offset(server) == 3


async def test_a_late_acknowledgement_is_told(server: Server) -> None:
    await fill(server, 1)
    async with consumer(server) as one:
        await take(one)
        await asyncio.sleep(LOCK_MS / 1000 + 0.05)
        [error] = (await one.commit_sync()).values()
        assert error is not None
        assert error.code is ErrorCode.INVALID_RECORD_STATE


async def test_a_renewed_record_stays_until_it_is_accepted(server: Server) -> None:
    await fill(server, 1)
    async with consumer(server, share_acknowledgement_mode="explicit") as one, consumer(server) as two:
        [record] = await take(one)
        for _ in range(3):
            await asyncio.sleep(LOCK_MS / 2000)
            one.acknowledge(record, AcknowledgeType.RENEW)
            assert set((await one.commit_sync()).values()) == {None}
        assert await take(two, 50) == []
        one.acknowledge(record)
        assert set((await one.commit_sync()).values()) == {None}


async def test_a_killed_consumers_records_come_back_and_poison_ends_with_the_dead_letters(server: Server) -> None:
    await server.engine.topics.create("dead", 1)
    values = {"errors.deadletterqueue.topic.name": "dead", "share.delivery.count.limit": "2"}
    await server.engine.group_configs.alter("q", set=values)
    await fill(server, 3)
    killed = await consumer(server).start()
    assert len(await take(killed)) == 3
    assert killed._task is not None
    killed._task.cancel()  # no heartbeat, no acknowledgement, no goodbye
    async with consumer(server, share_acknowledgement_mode="explicit") as two:
        records = await take(two)
        assert [(record.offset, record.delivery_count) for record in records] == [(0, 2), (1, 2), (2, 2)]
        for record, acknowledge_type in zip(records, ("ACCEPT", "RELEASE", "ACCEPT"), strict=True):
            two.acknowledge(record, AcknowledgeType[acknowledge_type])
        assert set((await two.commit_sync()).values()) == {None}
        assert await take(two, 50) == []
    [letter] = await read_all(server.engine, "dead", 0)
    assert (letter.value, dict(letter.headers)["__dlq.errors.delivery.count"]) == (b"1", b"2")


@pytest.mark.parametrize("fate", ["lost", "unanswered"])
async def test_requests_and_answers_that_get_lost_lose_no_record(server: Server, fate: str) -> None:
    await fill(server, 12)

    def outage(api: ApiKey, n: int) -> str | None:
        shaky = api in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_GROUP_HEARTBEAT)
        return fate if shaky and n % 3 == 0 else None

    got: set[int] = set()
    async with consumer(server, outage, share_acquire_mode="record_limit", max_poll_records=4) as one:
        for _ in range(60):
            got.update(record.offset for record in await take(one, 100))
            if got == set(range(12)):
                break
    assert got == set(range(12))


async def test_a_record_that_cannot_be_deserialized_is_released_and_the_others_come(server: Server) -> None:
    await fill(server, 3)

    def parse(value: bytes | None) -> int:
        if value == b"1":
            raise ValueError(value)
        return int(value or b"0")

    async with consumer(server, value_deserializer=parse) as one:
        assert [record.value for record in await take(one)] == [0]
        with pytest.raises(KafkaError, match="offset 1"):
            await take(one)
        assert [record.value for record in await take(one)] == [2]


async def test_misuse_is_told(server: Server) -> None:
    with pytest.raises(KafkaError, match="group_id is required"):
        aio.ShareConsumer(transport=server.transport())
    one = aio.ShareConsumer(transport=server.transport(), group_id="q")
    with pytest.raises(KafkaError, match="subscribe first"):
        await one.poll()
    await one.close()
    with pytest.raises(KafkaError, match="closed"):
        await one.poll()


async def test_an_idle_poll_is_one_request(server: Server) -> None:
    async with consumer(server) as one:
        await take(one, 100)
        before = len(server.requests)
        await one.poll(0)
        made = [api for api in server.requests[before:] if api is not ApiKey.SHARE_GROUP_HEARTBEAT]
        assert made == [ApiKey.SHARE_FETCH]


def test_the_synchronous_face() -> None:
    from odradek import ShareConsumer as SyncShareConsumer

    with server_thread() as (server, loop):

        async def prepare() -> None:
            await server.engine.topics.create("work", 1)
            await server.engine.group_configs.alter("q", set={"share.auto.offset.reset": "earliest"})
            await fill(server, 3)

        asyncio.run_coroutine_threadsafe(prepare(), loop).result(10)
        with SyncShareConsumer(transport=server.transport(loop=loop), group_id="q") as one:
            one.subscribe(["work"])
            assert [next(one).value for _ in range(3)] == [b"0", b"1", b"2"]
            assert set(one.commit_sync().values()) == {None}


async def test_an_unreachable_server_is_told_even_to_polls_that_do_not_wait(server: Server) -> None:
    down = False

    def outage(api: ApiKey, n: int) -> str | None:
        return "lost" if down and api is ApiKey.SHARE_FETCH else None

    async with consumer(server, outage, default_api_timeout_ms=50) as one:
        await take(one, 100)
        down = True
        with pytest.raises(KafkaError, match="NETWORK_EXCEPTION"):
            for _ in range(200):
                await one.poll(0)
                await asyncio.sleep(0.005)
        down = False
        await fill(server, 1)
        assert [record.value for record in await take(one)] == [b"0"]


async def test_a_quiet_consumer_rests(server: Server) -> None:
    async with consumer(server, fetch_idle_pause_max_ms=100) as one:
        await take(one, 50)
        one._pace.restart(one._clock.monotonic() - 60)  # as if nothing had come for a minute
        before = server.requests.count(ApiKey.SHARE_FETCH)
        await take(one, 400)
        assert 1 <= server.requests.count(ApiKey.SHARE_FETCH) - before <= 5, "one call a pause; without it twenty"
