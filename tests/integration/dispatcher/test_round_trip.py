"""Frames in, frames out, a real engine in between: the calls of a producer, a consumer and an administrator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.record_batch import decode_batches
from odradek.model.record import CompressionType, Record
from odradek.protocol.api import ApiKey

from tests.support.dispatching import ask
from tests.support.engine import batch, memory_store


@dataclass(frozen=True)
class Client:
    """The versions that a client uses, and ours at either end."""

    name: str
    produce: int
    fetch: int
    list_offsets: int
    offset_commit: int
    offset_fetch: int


CLIENTS = [
    Client("oldest", 3, 4, 1, 2, 1),
    Client("aiokafka", 7, 11, 3, 3, 3),
    Client("kafka-python", 9, 12, 7, 8, 7),
    Client("librdkafka", 10, 16, 7, 9, 9),
    Client("newest", 13, 18, 10, 10, 10),
]
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@pytest.fixture
async def engine() -> Engine:
    engine = memory_store().engine()
    topics = [{"name": "flights", "num_partitions": 2, "replication_factor": 3}]
    response = await ask(engine, ApiKey.CREATE_TOPICS, 7, {"topics": topics})
    assert response.topics[0].error_code == 0
    return engine


async def topic_id(engine: Engine, name: str = "flights") -> UUID:
    response = await ask(engine, ApiKey.METADATA, 12, {"topics": [{"name": name}]})
    id_found: UUID = response.topics[0].topic_id
    return id_found


async def produce(engine: Engine, version: int, partition: int, records: bytes, acks: int = -1) -> Any:
    data = {"index": partition, "records": records}
    topic = {"name": "flights", "topic_id": await topic_id(engine), "partition_data": [data]}
    response = await ask(engine, ApiKey.PRODUCE, version, {"acks": acks, "timeout": 1000, "topic_data": [topic]})
    return None if response is None else response.responses[0].partition_responses[0]


async def fetch(engine: Engine, version: int, partition: int, offset: int, **fields: Any) -> Any:
    partition_asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topic = {"topic": "flights", "topic_id": await topic_id(engine), "partitions": [partition_asked]}
    request = {"min_bytes": 1, "max_bytes": 1 << 22, "session_epoch": -1, "topics": [topic], **fields}
    response = await ask(engine, ApiKey.FETCH, version, request)
    return response.responses[0].partitions[0]


async def list_offset(engine: Engine, version: int, partition: int, timestamp: int) -> tuple[int, int]:
    partition_asked = {"partition_index": partition, "timestamp": timestamp}
    response = await ask(
        engine, ApiKey.LIST_OFFSETS, version, {"topics": [{"name": "flights", "partitions": [partition_asked]}]}
    )
    [partition_found] = response.topics[0].partitions
    assert partition_found.error_code == 0
    return partition_found.offset, partition_found.timestamp


def records_of(partition: Any) -> list[Record]:
    return list(decode_batches(partition.records))


@each_client
async def test_what_is_produced_is_fetched_found_by_time_and_committed(client: Client, engine: Engine) -> None:
    first = await produce(engine, client.produce, 1, batch([b"a", b"b"], timestamp_ms=1_000))
    second = await produce(
        engine, client.produce, 1, batch([b"c"], timestamp_ms=5_000, compression=CompressionType.GZIP)
    )
    assert [(r.error_code, r.base_offset) for r in (first, second)] == [(0, 0), (0, 2)]

    partition = await fetch(engine, client.fetch, 1, 0)
    assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (0, 3, 3)
    assert [(r.offset, r.timestamp_ms, r.value) for r in records_of(partition)] == [
        (0, 1_000, b"a"),
        (1, 1_001, b"b"),
        (2, 5_000, b"c"),
    ]

    assert await list_offset(engine, client.list_offsets, 1, -2) == (0, -1)
    assert await list_offset(engine, client.list_offsets, 1, -1) == (3, -1)
    assert await list_offset(engine, client.list_offsets, 1, 1_001) == (1, 1_001)
    assert await list_offset(engine, client.list_offsets, 1, 9_000) == (-1, -1)

    by_name_and_id = {"name": "flights", "topic_id": await topic_id(engine)}
    partition_commit = {
        "partition_index": 1,
        "committed_offset": 3,
        "committed_metadata": "done",
        "committed_leader_epoch": 0,
    }
    response = await ask(
        engine,
        ApiKey.OFFSET_COMMIT,
        client.offset_commit,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "topics": [{**by_name_and_id, "partitions": [partition_commit]}],
        },
    )
    assert response.topics[0].partitions[0].error_code == 0

    group = {"group_id": "g", "topics": [{**by_name_and_id, "partition_indexes": [1, 0]}]}
    batched = client.offset_fetch >= 8
    response = await ask(engine, ApiKey.OFFSET_FETCH, client.offset_fetch, {"groups": [group]} if batched else group)
    [topic] = (response.groups[0] if batched else response).topics
    assert [(p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in topic.partitions] == [
        (1, 3, "done", 0),
        (0, -1, "", 0),
    ]


@each_client
async def test_the_stored_bytes_come_back_unchanged_but_for_offsets(client: Client, engine: Engine) -> None:
    sent = [batch([b"v"], keys=[b"k"], timestamp_ms=-5), batch([None], keys=[b""]), batch([b""], keys=[None])]
    for one in sent:
        await produce(engine, client.produce, 0, one)
    partition = await fetch(engine, client.fetch, 0, 0)
    stored = bytes(partition.records)
    assert len(stored) == sum(map(len, sent))
    assert stored[21 : len(sent[0])] == sent[0][21:], "from the CRC'd part on, a batch is what its producer made"
    assert [(r.key, r.value) for r in records_of(partition)] == [(b"k", b"v"), (b"", None), (None, b"")]


async def test_acks_0_appends_without_an_answer(engine: Engine) -> None:
    assert await produce(engine, 9, 0, batch([b"quiet"]), acks=0) is None
    assert [r.value for r in records_of(await fetch(engine, 12, 0, 0))] == [b"quiet"]


async def test_a_fetch_is_cut_to_what_the_transport_carries_but_gives_one_batch(engine: Engine) -> None:
    for _ in range(4):
        await produce(engine, 9, 0, batch([bytes(1_000)]))
    partition_asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fields = {"max_bytes": 1 << 22, "topics": [{"topic": "flights", "partitions": [partition_asked]}]}
    for room, count in ((1_500, 1), (2_500, 2), (100, 1), (1 << 20, 4)):
        response = await ask(engine, ApiKey.FETCH, 11, fields, max_response_bytes=room)
        assert len(records_of(response.responses[0].partitions[0])) == count


async def test_an_idempotent_producer_gets_its_first_offset_back(engine: Engine) -> None:
    initialized = await ask(engine, ApiKey.INIT_PRODUCER_ID, 4, {"producer_id": -1, "producer_epoch": -1})
    assert initialized.error_code == 0
    again = batch([b"once"], producer=(initialized.producer_id, initialized.producer_epoch, 0))
    answers = [await produce(engine, 9, 0, again) for _ in range(3)]
    assert [(a.error_code, a.base_offset) for a in answers] == [(0, 0)] * 3
    assert (await fetch(engine, 12, 0, 0)).high_watermark == 1


async def test_the_life_of_a_topic(engine: Engine) -> None:
    new = {"name": "new", "num_partitions": -1, "replication_factor": -1}
    for expected in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        response = await ask(engine, ApiKey.CREATE_TOPICS, 7, {"topics": [new]})
        assert response.topics[0].error_code == expected
    grown = await ask(engine, ApiKey.CREATE_PARTITIONS, 3, {"topics": [{"name": "new", "count": 4}]})
    assert grown.results[0].error_code == 0
    change = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    resource = {"resource_type": 2, "resource_name": "new"}
    altered = await ask(engine, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [{**resource, "configs": [change]}]})
    assert altered.responses[0].error_code == 0
    resource_asked = {**resource, "configuration_keys": ["retention.ms"]}
    described = await ask(engine, ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource_asked]})
    [entry] = described.results[0].configs
    assert (entry.name, entry.value, entry.config_source) == ("retention.ms", "1000", 1)
    metadata = await ask(engine, ApiKey.METADATA, 12, {"topics": None})
    assert {t.name: len(t.partitions) for t in metadata.topics} == {"flights": 2, "new": 4}
    deleted = await ask(engine, ApiKey.DELETE_TOPICS, 6, {"topics": [{"topic_id": await topic_id(engine, "new")}]})
    assert [(t.name, t.error_code) for t in deleted.responses] == [("new", 0)]
    metadata = await ask(engine, ApiKey.METADATA, 12, {"topics": [{"name": "new"}]})
    assert metadata.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_consumer_group_by_its_heartbeats(engine: Engine) -> None:
    join = {
        "group_id": "readers",
        "member_id": "8f0c6b1e-0000-4000-8000-000000000001",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["flights"],
        "topic_partitions": [],
    }
    member = await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join)
    assert (member.error_code, member.member_epoch > 0) == (0, True)
    [assigned] = member.assignment.topic_partitions
    assert (assigned.topic_id, sorted(assigned.partitions)) == (await topic_id(engine), [0, 1])

    described = await ask(engine, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["readers", "nobody"]})
    readers, nobody = described.groups
    assert readers.error_code == 0
    assert [m.member_id for m in readers.members] == [join["member_id"]]
    assert {t.topic_name for t in readers.members[0].target_assignment.topic_partitions} == {"flights"}
    assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    listed = await ask(engine, ApiKey.LIST_GROUPS, 5, {})
    assert [(g.group_id, g.group_type) for g in listed.groups] == [("readers", "consumer")]
    busy = await ask(engine, ApiKey.DELETE_GROUPS, 2, {"groups_names": ["readers"]})
    assert busy.results[0].error_code == ErrorCode.NON_EMPTY_GROUP

    leave = {**join, "member_epoch": -1, "subscribed_topic_names": None, "topic_partitions": None}
    assert (await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, leave)).error_code == 0
    deletion = await ask(engine, ApiKey.DELETE_GROUPS, 2, {"groups_names": ["readers"]})
    assert deletion.results[0].error_code == 0
