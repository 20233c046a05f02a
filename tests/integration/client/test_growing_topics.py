"""Producers of ours while a topic grows: each key keeps its order, whatever was in flight."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from odradek import KafkaError, NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.producer.partitioner import partition_for_key
from odradek.errors import ErrorCode

from tests.support.clients.in_process import Server

KEYS = [b"key-%d" % number for number in range(40)]


async def topic_of(server: Server, partitions: int) -> None:
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", partitions)])


async def grow(server: Server, count: int) -> None:
    async with Admin(transport=server.transport()) as admin:
        await admin.create_partitions({"t": count})


async def read(server: Server) -> dict[int, list[tuple[bytes, int]]]:
    """Keys and numbers by partition."""
    records_by_partition: dict[int, list[tuple[bytes, int]]] = defaultdict(list)
    async with Consumer(transport=server.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=0) as consumer:
        names = [TopicPartition("t", number) for number in sorted(await consumer.partitions_for("t"))]
        consumer.assign(names)
        ends = await consumer.end_offsets(names)
        while [name for name in names if await consumer.position(name) < ends[name]]:
            for name, records in (await consumer.poll(1000)).items():
                records_by_partition[name.partition] += [
                    (record.key or b"", int(record.value or b"")) for record in records
                ]
    return records_by_partition


async def check(server: Server, counts: list[int], sent: dict[bytes, int]) -> None:
    """Every record is there once; a key's partitions, from parent to child, have its numbers in order."""
    records_by_partition = await read(server)
    for key, count in sent.items():
        path = list(dict.fromkeys(partition_for_key(key, partitions) for partitions in counts))
        numbers = [number for partition in path for one, number in records_by_partition[partition] if one == key]
        assert numbers == list(range(count)), (key, path)
    assert sum(map(len, records_by_partition.values())) == sum(sent.values())


@pytest.mark.parametrize("options", [{}, {"linger_ms": 20}, {"enable_idempotence": False}], ids=str)
async def test_each_key_keeps_its_order_while_the_topic_grows(options: dict[str, Any]) -> None:
    server = Server(catalog_cache_ms=50, default_partitions_per_head=3)
    await topic_of(server, 2)
    sent = dict.fromkeys(KEYS, 0)
    async with Producer(transport=server.transport(), **options) as producer:

        async def write(rounds: int) -> None:
            for _ in range(rounds):
                for key in KEYS:
                    await producer.send("t", b"%d" % sent[key], key)
                    sent[key] += 1
                await asyncio.sleep(0.002)

        writing = asyncio.create_task(write(60))
        for count in (4, 12):
            await asyncio.sleep(0.05)
            await grow(server, count)
        await writing
        await write(2)
        futures = [await producer.send("t", b"%d" % sent[key], key) for key in KEYS]
        for key, future in zip(KEYS, futures, strict=True):
            assert (await future).partition == partition_for_key(key, 12)
            sent[key] += 1
    await check(server, [2, 4, 12], sent)


async def test_futures_follow_their_records_to_other_partitions() -> None:
    server = Server(catalog_cache_ms=0)
    await topic_of(server, 1)
    async with Producer(transport=server.transport(), linger_ms=0) as producer:
        await producer.send_and_wait("t", b"0", key=b"first")
        await grow(server, 2)
        futures = [await producer.send("t", b"0", key) for key in KEYS]
        metadata = [await future for future in futures]
    assert [metadatum.partition for metadatum in metadata] == [partition_for_key(key, 2) for key in KEYS]
    records_by_partition = await read(server)
    assert records_by_partition[0][0] == (b"first", 0)
    for key, metadatum in zip(KEYS, metadata, strict=True):
        assert records_by_partition[metadatum.partition][metadatum.offset] == (key, 0)


async def test_the_rows_of_a_table_follow_too() -> None:
    server = Server(catalog_cache_ms=0)
    await topic_of(server, 1)
    async with Producer(transport=server.transport()) as producer:
        await producer.send_and_wait("t", b"0", key=KEYS[0])
        await grow(server, 2)
        rows = [(key, b"%d" % (number + (key == KEYS[0]))) for number in range(5) for key in KEYS]
        table = pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]})
        written = await (await producer.send_table("t", table, engine="python"))
    assert sum(written.counts.values()) == len(rows)
    assert set(written.counts) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    await check(server, [1, 2], {key: 5 + (key == KEYS[0]) for key in KEYS})


async def test_who_names_partitions_is_not_moved() -> None:
    server = Server(catalog_cache_ms=0)
    await topic_of(server, 1)
    async with Producer(transport=server.transport()) as producer:
        await producer.send_and_wait("t", b"0", key=KEYS[0], partition=0)
        await grow(server, 8)
        futures = [await producer.send("t", b"0", key, partition=0) for key in KEYS]
        assert {(await future).partition for future in futures} == {0}


async def test_a_conditional_record_of_a_grown_topic_is_told() -> None:
    server = Server(catalog_cache_ms=0)
    await topic_of(server, 1)
    async with Producer(transport=server.transport()) as producer:
        await producer.send_and_wait("t", b"0", key=KEYS[0], expected_offset=0)
        await grow(server, 2)
        with pytest.raises(KafkaError, match="has grown to 2") as refused:
            await producer.send_and_wait("t", b"1", key=KEYS[0], expected_offset=1)
        assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_transaction_that_met_a_growth_is_repeated() -> None:
    server = Server(catalog_cache_ms=0)
    await topic_of(server, 1)
    async with Producer(transport=server.transport(), transactional_id="tx") as producer:
        await producer.init_transactions()

        async def attempt(*, grows: bool) -> None:
            async with producer.transaction():
                for key in KEYS:
                    await producer.send("t", b"0", key)
                if grows:
                    await producer.flush()
                    await grow(server, 2)

        with pytest.raises(KafkaError, match="cannot be committed") as refused:
            await attempt(grows=True)
        assert refused.value.code is ErrorCode.TRANSACTION_ABORTABLE
        await attempt(grows=False)
    await check(server, [2], dict.fromkeys(KEYS, 1))
