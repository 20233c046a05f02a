"""The engine's operations at their largest, over every backend: nothing that is sent is beyond a limit of the store.

The most producers, entries, places and members; the longest names; the largest numbers. Over moto, or over the strict
emulator of `make contract-strict`, where the limits are DynamoDB's and not only ours.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from odradek.adapters.aws import AwsStore, DynamoTable
from odradek.adapters.embedded import open_embedded
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.engine.partition.head import PartitionHead, ProducerState, encode_head, head_key
from odradek.errors import ErrorCode, KafkaError
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.functions.metering import Tally
from odradek.limits import (
    OFFSET_MAX,
    OFFSET_METADATA_BYTES_MAX,
    PRODUCER_EPOCH_MAX,
    SEQUENCE_MAX,
    SPILL_ENTRIES_MAX,
    TOPIC_NAME_LENGTH_MAX,
    TRANSACTION_PLACES_MAX,
)
from odradek.model.group import GroupHeartbeat
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.ports.table import Put
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

from tests.support.aws import CREDENTIALS, DYNAMODB, create_tables, moto_server, open_store
from tests.support.engine import batch, produce, read_all
from tests.support.transactions import Transactor, values

ID = "é" * 450  # of a group, a member, a transaction: 900 bytes


@pytest.fixture(scope="module")
def aws() -> Iterator[tuple[AwsStore, Tally]]:
    meter = Tally()
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        store = open_store(endpoint, create_tables(endpoint), meter=meter)
        yield store, meter
        asyncio.run(store.aclose())


@pytest.fixture(params=["memory", "embedded", "aws"])
async def engine_of(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[..., Engine]]:
    """Makes engines over a backend; in the end nothing that was sent was one too many."""
    clock = SystemClock()

    def maker(tables: Any, objects: Any) -> Callable[..., Engine]:
        def make(**settings: Any) -> Engine:
            return Engine(tables=tables, objects=objects, clock=clock, rng=SystemRng(), settings=Settings(**settings))

        return make

    meter = Tally()
    if request.param == "memory":
        yield maker(MemoryStore(meter), MemoryObjectStore(clock))
    elif request.param == "embedded":
        async with open_embedded(tmp_path, synchronous="NORMAL", meter=meter) as embedded:
            yield maker(embedded, embedded.objects)
    else:
        store, meter = request.getfixturevalue("aws")
        yield maker(store, store.objects)
    assert meter.usage.rejected_requests == 0


def name_of(number: int) -> str:
    """A topic's name of the largest length."""
    return f"{uuid.uuid4().hex}-{number:04d}".ljust(TOPIC_NAME_LENGTH_MAX, "x")


def plays_moto(engine: Engine) -> bool:
    """Whether moto plays DynamoDB."""
    return DYNAMODB is None and isinstance(engine.index._log, DynamoTable)


async def partition_of(engine: Engine, topic: str) -> PartitionId:
    return PartitionId((await engine.topics.resolve(topic)).topic_id, 0)


@pytest.mark.parametrize("producers", [40, SPILL_ENTRIES_MAX])
async def test_a_spill_of_the_longest_tail_and_the_most_producers(
    engine_of: Callable[..., Engine], producers: int
) -> None:
    engine = engine_of()
    topic = name_of(0)
    await engine.topics.create(topic, 1)
    partition = await partition_of(engine, topic)
    if plays_moto(engine):
        pytest.skip("moto's parser calls itself for every element that an update removes, and Python stops it")
    base = OFFSET_MAX - 10**6
    ids = [2**63 - 1 - number for number in range(producers)]
    tail = [
        TailEntry(b"\xff" * 16, 2**31, 2**31, 1, 2**62, each, PRODUCER_EPOCH_MAX, SEQUENCE_MAX, 2**62)
        for each in (ids * SPILL_ENTRIES_MAX)[: 2 * SPILL_ENTRIES_MAX]
    ]
    head = PartitionHead(
        base + len(tail),
        tail_base_offset=base,
        merged_offset=base,
        tail=tuple(map(encode_tail_entry, tail)),
        appended_bytes=2**62,
        producers={each: ProducerState(PRODUCER_EPOCH_MAX, SEQUENCE_MAX) for each in ids},
        evictions=2**62,
    )
    await engine.index._log.put(Put(head_key(partition), encode_head(head)))
    for _ in range(4):
        now = await engine.index.read_head(partition)
        assert now is not None
        await engine.index.spill(partition, now)
    after = await engine.index.read_head(partition)
    assert after is not None
    assert len(after.tail) <= 16
    assert len(after.producers) <= 32 + SPILL_ENTRIES_MAX


async def test_an_append_of_the_most_batches(engine_of: Callable[..., Engine]) -> None:
    engine = engine_of()
    topic = name_of(0)
    await engine.topics.create(topic, 1)
    result = await produce(engine, topic, 0, batch([b"x"]) * 1_000)
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    assert len(await read_all(engine, topic, 0)) == 1_000
    if plays_moto(engine):
        return  # it cannot remove so many elements
    head = await engine.index.read_head(await partition_of(engine, topic))
    assert head is not None
    assert len(head.tail) < 100


async def test_a_transaction_of_the_most_places(engine_of: Callable[..., Engine]) -> None:
    engine = engine_of()
    topic, count = name_of(0), TRANSACTION_PLACES_MAX // 2
    await engine.topics.create(topic, count + 1)
    transactor = await Transactor(engine, ID[:-8] + uuid.uuid4().hex[:16]).init()
    for partition in range(count):
        await transactor.send(topic, partition, b"a", b"b")
    offsets = {
        TopicPartition(topic, partition): OffsetAndMetadata(OFFSET_MAX, 2**31 - 1, "m" * OFFSET_METADATA_BYTES_MAX)
        for partition in range(TRANSACTION_PLACES_MAX - count)
    }
    results = await engine.transactions.commit_offsets(
        transactor.transactional_id, transactor.producer_id, transactor.epoch, ID, offsets, announces=True
    )
    assert {result.error for result in results} == {ErrorCode.NONE}
    await transactor.commit()
    assert await values(engine, topic, count - 1) == [b"a", b"b"]


async def test_offsets_of_many_partitions_with_the_longest_metadata(engine_of: Callable[..., Engine]) -> None:
    engine = engine_of()
    topic = name_of(0)
    await engine.topics.create(topic, 150)
    offsets = {
        TopicPartition(topic, partition): OffsetAndMetadata(OFFSET_MAX, 2**31 - 1, "m" * OFFSET_METADATA_BYTES_MAX)
        for partition in range(150)
    }
    group = uuid.uuid4().hex + ID[:400]
    results = await engine.offsets.commit(group, offsets)
    assert {result.error for result in results} == {ErrorCode.NONE}
    found = await engine.offsets.fetch(group, list(offsets))
    assert all(each.committed == offsets[each.partition] for each in found)


async def test_members_with_the_longest_subscriptions(engine_of: Callable[..., Engine]) -> None:
    engine = engine_of()
    names = [name_of(number) for number in range(1_000)]
    await engine.topics.create(names[0], 100)
    group, members = uuid.uuid4().hex + ID[:400], 6
    joined = []
    for number in range(members):
        result = await engine.groups.heartbeat(
            GroupHeartbeat(
                group,
                f"{number}{ID[:449]}",
                0,
                instance_id=f"{number}{ID[:449]}",
                rack_id=ID,
                rebalance_timeout_ms=2**31 - 1,
                subscribed_topic_names=names,
                client_id=ID,
                client_host="h",
            )
        )
        assert result.error is ErrorCode.NONE, result.message
        joined.append(result)
    assert len(joined) == members


async def test_users_rules_and_configurations_of_the_longest_names(engine_of: Callable[..., Engine]) -> None:
    engine = engine_of()
    await engine.users.create("é" * 127, "secret")
    assert [user.name for user in await engine.users.list()] == ["é" * 127]


CALLS: list[Callable[[Engine], Awaitable[Any]]] = [
    lambda engine: engine.offsets.commit("g" * 901, {}),
    lambda engine: engine.offsets.fetch("é" * 451, []),
    lambda engine: engine.transactions.init("t" * 901, 1_000),
    lambda engine: engine.produce([ProducePartition("t" * 250, 0, batch([b"x"]))]),
]


@pytest.mark.parametrize("call", CALLS, ids=["commit", "fetch", "init", "produce"])
async def test_longer_names_are_refused_before_the_store(
    engine_of: Callable[..., Engine], call: Callable[[Engine], Awaitable[Any]]
) -> None:
    """The fixture asks that nothing was rejected; a KafkaError or a result with an error is the answer."""
    answer = []
    with suppress(KafkaError):
        answer = await call(engine_of())
    assert all(each.error is not ErrorCode.NONE for each in answer)
