"""Produce requests of one connection over a slow store: in order, once each, and no answer that kills a producer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.dispatcher.access import Access
from odradek.dispatcher.answer import build
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, OutcomeUnknown, StoreUnavailable
from odradek.gateway import Gateway, Listener
from odradek.model.log import LATEST_TIMESTAMP
from odradek.ports.tables import TableOperation
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

from tests.support.engine import batch, read_all

PRODUCER = 7
VERSION = 9
Before = Callable[[Any], Awaitable[None]]


class Interposed:
    """A table; what is awaited before its calls is the test's to choose, by method."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.before: dict[str, Before] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if name in self.before:
                await self.before[name](args)
            return await method(*args, **kwargs)

        return call


class InterposedStore:
    """A memory store whose tables are `Interposed`."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.log: Any = Interposed(self._store.log)
        self.groups: Any = Interposed(self._store.groups)
        self.catalog: Any = Interposed(self._store.catalog)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        await self._store.transact(operations)


class Hold:
    """Holds calls until told how each ends."""

    def __init__(self) -> None:
        self.held: list[asyncio.Future[Exception | None]] = []
        self.came = asyncio.Event()

    async def __call__(self, _: Any) -> None:
        ending: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.held.append(ending)
        self.came.set()
        error = await ending
        if error is not None:
            raise error


@asynccontextmanager
async def gateway(**settings: Any) -> AsyncIterator[tuple[Engine, InterposedStore, str]]:
    """A gateway over a store of the test's; with a topic "t" of two partitions."""
    clock, store = SystemClock(), InterposedStore()
    engine = Engine(
        tables=store,
        objects=MemoryObjectStore(clock),
        clock=clock,
        rng=SystemRng(),
        settings=Settings(**{"sequence_wait_ms": 0, **settings}),
    )
    await engine.topics.create("t", 2)
    async with Gateway(engine, Listener(port=0), clock=clock, rng=SystemRng()) as served:
        yield engine, store, served.bootstrap_servers


class Connection:
    """A client's connection: Produce requests out, error codes in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, servers: str) -> Connection:
        host, _, port = servers.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def produce(self, sequence: int, *, producer_id: int = PRODUCER, acks: int = -1, first: int | None = None) -> None:
        """One request with one batch of one record for partition 0."""
        producer = (producer_id, 0, sequence if first is None else first) if producer_id >= 0 else (-1, -1, -1)
        records = batch([b"%d" % sequence], producer=producer)
        fields = {
            "acks": acks,
            "timeout": 30_000,
            "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
        }
        self._send(ApiKey.PRODUCE, VERSION, fields, sequence)

    def list_end(self, number: int) -> None:
        """One request for the end of partition 0."""
        topics_asked = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": LATEST_TIMESTAMP}]}]
        self._send(ApiKey.LIST_OFFSETS, 1, {"replica_id": -1, "topics": topics_asked}, number)

    async def end(self, number: int) -> int:
        """The next answer, which must be that of this request for an end."""
        response: Any = await self._answer(ApiKey.LIST_OFFSETS, 1, number)
        return int(response.topics[0].partitions[0].offset)

    def _send(self, api: ApiKey, version: int, fields: dict[str, Any], number: int) -> None:
        frame = encode_request(build(request_schema(api, version), fields), correlation_id=number, client_id="raw")
        self._writer.write(len(frame).to_bytes(4, "big") + frame)

    async def _answer(self, api: ApiKey, version: int, number: int) -> Any:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        return decode_response(frame, response_schema(api, version), correlation_id=number)

    async def answers(self, *sequences: int) -> list[ErrorCode]:
        """The codes of the next answers, which must be those of these requests in this order."""
        codes = []
        for sequence in sequences:
            response = await self._answer(ApiKey.PRODUCE, VERSION, sequence)
            codes.append(ErrorCode(response.responses[0].partition_responses[0].error_code))
        return codes

    def close(self) -> None:
        self._writer.close()


async def values(engine: Engine) -> list[bytes | None]:
    return [record.value for record in await read_all(engine, "t", 0)]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("gateway_linger_ms", [0, 2])
@pytest.mark.parametrize("producer_id", [PRODUCER, -1])
async def test_pipelined_requests_wait_for_the_one_before(gateway_linger_ms: int, producer_id: int) -> None:
    async with gateway(gateway_linger_ms=gateway_linger_ms) as (engine, store, servers):
        client = await Connection.to(servers)
        store.log.before["update"] = hold = Hold()
        for sequence in range(5):
            client.produce(sequence, producer_id=producer_id)
        await hold.came.wait()
        await settle()
        assert len(hold.held) == 1, "only the first has asked the head"
        del store.log.before["update"]
        hold.held[0].set_result(None)
        assert await client.answers(*range(5)) == [ErrorCode.NONE] * 5
        assert await values(engine) == [b"%d" % n for n in range(5)]
        client.close()


@pytest.mark.parametrize("error", [StoreUnavailable("throttled"), OutcomeUnknown("no answer")])
async def test_when_one_is_refused_all_behind_it_may_be_sent_again(error: Exception) -> None:
    async with gateway(append_attempts_max=1, gateway_linger_ms=0) as (engine, store, servers):
        client = await Connection.to(servers)
        store.log.before["update"] = hold = Hold()
        for sequence in range(5):
            client.produce(sequence)
        await hold.came.wait()
        await settle()
        del store.log.before["update"]
        hold.held[0].set_result(error)
        codes = await client.answers(*range(5))
        assert all(code.is_retryable for code in codes)
        assert codes[1:] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 4
        for sequence in range(5):
            client.produce(sequence)
        assert await client.answers(*range(5)) == [ErrorCode.NONE] * 5
        assert await values(engine) == [b"%d" % n for n in range(5)]
        client.close()


async def test_a_request_whose_rights_take_long_to_read_is_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a request that names a topic which this process does not know yet."""
    first = Hold()
    names_of = Access.names_of

    async def slow_for_the_first(access: Access, *args: Any) -> Any:
        if not first.held:
            await first(args)
        return await names_of(access, *args)

    monkeypatch.setattr(Access, "names_of", slow_for_the_first)
    async with gateway() as (engine, _, servers):
        client = await Connection.to(servers)
        for sequence in range(3):
            client.produce(sequence)
        await first.came.wait()
        await settle()
        first.held[0].set_result(None)
        assert await client.answers(0, 1, 2) == [ErrorCode.NONE] * 3
        assert await values(engine) == [b"0", b"1", b"2"]
        client.close()


async def test_a_request_that_never_reaches_the_engine_holds_up_nobody() -> None:
    async with gateway() as (_, _, servers):
        client = await Connection.to(servers)
        for sequence in range(3):
            client.produce(sequence, acks=5 if sequence == 1 else -1, producer_id=PRODUCER + sequence, first=0)
        assert await client.answers(0, 1, 2) == [ErrorCode.NONE, ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.NONE]
        client.close()


async def test_a_client_that_comes_back_over_another_connection_loses_nothing() -> None:
    async with gateway() as (engine, store, servers):
        lost = await Connection.to(servers)
        store.log.before["update"] = hold = Hold()
        for sequence in range(3):
            lost.produce(sequence)
        await hold.came.wait()
        await settle()
        lost.close()
        again = await Connection.to(servers)
        del store.log.before["update"]
        for sequence in range(4):
            again.produce(sequence)
        assert await again.answers(*range(4)) == [ErrorCode.NONE] * 4
        hold.held[0].set_result(None)
        await settle()
        assert await values(engine) == [b"%d" % n for n in range(4)]
        again.close()


async def test_a_request_after_produce_sees_what_was_produced() -> None:
    async with gateway() as (_, store, servers):
        client = await Connection.to(servers)
        store.log.before["update"] = hold = Hold()
        client.produce(0)
        client.list_end(1)
        await hold.came.wait()
        await settle()
        hold.held[0].set_result(None)
        assert await client.answers(0) == [ErrorCode.NONE]
        assert await client.end(1) == 1
        client.close()


async def test_requests_that_want_no_answer_keep_their_order_too() -> None:
    async with gateway() as (engine, store, servers):
        client = await Connection.to(servers)
        store.log.before["update"] = hold = Hold()
        for sequence in range(3):
            client.produce(sequence, acks=0)
        client.produce(3)
        await hold.came.wait()
        await settle()
        del store.log.before["update"]
        hold.held[0].set_result(None)
        assert await client.answers(3) == [ErrorCode.NONE]
        assert await values(engine) == [b"%d" % n for n in range(4)]
        client.close()


# --- confluent-kafka -------------------------------------------------------------------------------------------------


class Stalls:
    """Writes of the log stand still for a while, again and again."""

    def __init__(self, store: InterposedStore, *, pause_s: float = 1.5, between_s: float = 1.5) -> None:
        self._runs = asyncio.Event()
        self._runs.set()
        self._pause_s, self._between_s = pause_s, between_s
        self.count = 0
        store.log.before["update"] = self._wait

    async def _wait(self, _: Any) -> None:
        await self._runs.wait()

    async def run(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(self._between_s)
            self._runs.clear()
            await asyncio.sleep(self._pause_s)
            self._runs.set()
            self.count += 1


def send_one_by_one(servers: str, is_over: Callable[[], bool]) -> tuple[int, list[str], list[str]]:
    """Records of their own batches until it is over: how many were sent, refused ones, fatal errors."""
    from confluent_kafka import KafkaError, Producer

    refused: list[str] = []
    fatal: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            refused.append(str(error))

    def failed(error: KafkaError) -> None:
        if error.fatal():
            fatal.append(str(error))

    config = {
        "bootstrap.servers": servers,
        "enable.idempotence": True,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "error_cb": failed,
    }
    producer = Producer(config)
    sent = 0
    while not is_over() and not fatal:
        producer.produce("t", b"%d" % sent, partition=sent % 2, on_delivery=delivered)
        sent += 1
        producer.poll(0.002)
    assert producer.flush(180) == 0
    return sent, refused, fatal


async def _no_producer_dies(times: int) -> None:
    async with gateway() as (engine, store, servers):
        stalls = Stalls(store)
        stalling = asyncio.get_running_loop().create_task(stalls.run(times))
        sent, refused, fatal = await asyncio.to_thread(send_one_by_one, servers, stalling.done)
        await stalling
        assert stalls.count == times
        assert (refused, fatal) == ([], [])
        for partition in (0, 1):
            numbers = [int(record.value or b"") for record in await read_all(engine, "t", partition)]
            assert numbers == list(range(partition, sent, 2)), "nothing lost, nothing doubled, order kept"


async def test_a_confluent_producer_lives_through_stalls_of_the_store() -> None:
    await _no_producer_dies(2)


@pytest.mark.slow
async def test_a_confluent_producer_lives_through_a_minute_of_stalls() -> None:
    """Slow: the store stands still for 1.5 s twenty times, in real time."""
    await _no_producer_dies(20)


async def test_a_confluent_producer_goes_on_in_a_topic_that_was_deleted_and_recreated() -> None:
    from confluent_kafka import Producer

    async with gateway(catalog_cache_ms=0) as (engine, _, servers):
        errors: list[str] = []
        done: list[int] = []
        config = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 1}
        producer = Producer({**config, "error_cb": lambda error: errors.append(str(error)) if error.fatal() else None})

        def send(start: int) -> int:
            for number in range(start, start + 20):
                producer.produce(
                    "t", b"%d" % number, partition=0, on_delivery=lambda error, _: done.append(error is None)
                )
            return producer.flush(30)

        assert await asyncio.to_thread(send, 0) == 0
        await engine.topics.delete("t")
        await engine.topics.create("t", 2)
        assert await asyncio.to_thread(send, 20) == 0
        assert (errors, done) == ([], [True] * 40)
        assert await values(engine) == [b"%d" % n for n in range(20, 40)]
