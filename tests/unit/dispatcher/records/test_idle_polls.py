"""Repeated polls that find nothing: the same response without decoding, and the usual way once anything differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from odradek.adapters.memory import MemoryTable
from odradek.dispatcher import Dispatcher, dispatcher
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.quota import QuotaEntity
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, response_schema

from tests.support.dispatching import CLUSTER, context
from tests.support.engine import Store, batch, memory_store, produce
from tests.support.services.function_calls import frame

VERSION = 12
WAIT_MS = 400
CONNECTION = replace(context(principal="User:ann"), transport="tcp", connection=7)


class Consumer:
    """A consumer at the end of the partitions of one topic."""

    def __init__(self, engine: Engine) -> None:
        self._dispatcher = Dispatcher(engine, CLUSTER)
        self._correlation_id = 0
        self.decoded = 0  # requests

    async def poll(self, *, topic: str = "flights", offset: int = 0, min_bytes: int = 1, connection: Any = CONNECTION):  # type: ignore[no-untyped-def]
        self._correlation_id += 1
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000}
        request = bytearray(
            frame(
                ApiKey.FETCH,
                VERSION,
                {
                    "max_wait": WAIT_MS,
                    "min_bytes": min_bytes,
                    "max_bytes": 100_000,
                    "session_epoch": -1,
                    "topics": ({"topic": topic, "partitions": (partition,)},),
                },
            )
        )
        request[4:8] = self._correlation_id.to_bytes(4, "big")
        original = dispatcher.decode_request

        def counted(*arguments: Any) -> Any:
            self.decoded += 1
            return original(*arguments)

        with patch.object(dispatcher, "decode_request", counted):
            parts = await self._dispatcher.dispatch(bytes(request), connection)
        response = decode_response(
            b"".join(parts or ()), response_schema(ApiKey.FETCH, VERSION), correlation_id=self._correlation_id
        )
        [answered] = response.responses
        [partition] = answered.partitions
        return partition, response.throttle_time


@pytest.fixture(params=[1, 32], ids=["own head", "shared head"])
def store(request: pytest.FixtureRequest) -> Store:
    return memory_store(per_head=request.param)


async def started(store: Store, **settings: Any) -> tuple[Engine, Consumer]:
    engine = store.engine(allow_everyone_if_no_acl_found="true", **settings)
    await engine.topics.create("flights", 2)
    await produce(engine, "flights", 0, batch([b"first"]))
    return engine, Consumer(engine)


async def test_a_repeated_poll_is_answered_alike_and_decoded_once(store: Store) -> None:
    _, consumer = await started(store)
    began_s = store.clock.monotonic()
    answers = [await consumer.poll(offset=1) for _ in range(4)]
    assert consumer.decoded == 1
    assert len(answers) == 4
    assert all(answer == answers[0] for answer in answers)
    partition, _ = answers[0]
    assert (partition.error_code, partition.high_watermark, len(partition.records or b"")) == (0, 1, 0)
    assert store.clock.monotonic() - began_s >= 4 * WAIT_MS / 1000, "each has waited for as long as it asked"


async def test_records_end_the_wait_and_other_requests_go_the_usual_way(store: Store) -> None:
    engine, consumer = await started(store)
    for _ in range(2):
        await consumer.poll(offset=1)
    await produce(engine, "flights", 0, batch([b"second"]))
    partition, _ = await consumer.poll(offset=1)
    assert (partition.high_watermark, consumer.decoded) == (2, 2)
    assert partition.records
    empty, _ = await consumer.poll(offset=2)
    again, _ = await consumer.poll(offset=2)
    assert empty == again
    assert consumer.decoded == 3
    await consumer.poll(offset=2, min_bytes=2)
    await consumer.poll(offset=2, min_bytes=2, connection=replace(CONNECTION, principal="User:bob"))
    assert consumer.decoded == 5, "another request, and another principal"


async def test_an_append_to_another_partition_of_the_head_changes_nothing(store: Store) -> None:
    engine, consumer = await started(store)
    before = [await consumer.poll(offset=1) for _ in range(2)]
    await produce(engine, "flights", 1, batch([b"elsewhere"]))
    assert await consumer.poll(offset=1) == before[0]


async def test_a_deleted_topic_is_told_to_who_waits(store: Store) -> None:
    engine, consumer = await started(store, catalog_cache_ms=0)
    for _ in range(2):
        await consumer.poll(offset=1)
    await engine.topics.delete("flights")
    partition, _ = await consumer.poll(offset=1)
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_rule_binds_the_next_poll(store: Store) -> None:
    engine, consumer = await started(store, acl_cache_ms=0)
    for _ in range(2):
        await consumer.poll(offset=1)
    await engine.acls.create(
        AclBinding(
            ResourceType.TOPIC, "flights", PatternType.LITERAL, "User:ann", "*", AclOperation.READ, AclPermission.DENY
        )
    )
    partition, _ = await consumer.poll(offset=1)
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_quota_is_charged_from_the_next_poll_on(store: Store) -> None:
    engine, consumer = await started(store, acl_cache_ms=0)
    for _ in range(2):
        await consumer.poll(offset=1)
    assert consumer.decoded == 1
    await engine.client_quotas.alter(QuotaEntity(user="ann"), {"consumer_byte_rate": 1.0})
    for _ in range(2):
        await consumer.poll(offset=1)
    assert consumer.decoded == 3


async def test_a_store_that_keeps_nothing_is_not_read_more_often() -> None:
    original = MemoryTable.get

    async def get(self: MemoryTable, *arguments: Any, **options: Any) -> Any:
        item = await original(self, *arguments, **options)
        return None if item is None else dict(item)

    reads = []
    with patch.object(MemoryTable, "get", get):
        for number in (7, None):  # who has no connection is never remembered
            store = memory_store()
            _, consumer = await started(store)
            for _ in range(4):
                await consumer.poll(offset=1, connection=replace(CONNECTION, connection=number))
            assert consumer.decoded == 4
            reads.append(store.log.count("get"))
    assert reads[0] == reads[1]
