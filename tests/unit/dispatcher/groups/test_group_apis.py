"""Coordinators, producer ids, committed offsets and consumer groups."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.protocol.api import ApiKey
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.dispatching import ask
from tests.support.engine import memory_store
from tests.support.fake_engine import TOPIC_ID, FakeEngine


def versions(api_key: ApiKey, low: int = 0) -> range:
    first, last = SUPPORTED_VERSIONS[api_key]
    return range(max(first, low), last + 1)


def called(engine: FakeEngine, name: str) -> list[tuple[Any, ...]]:
    return [call[1:] for call in engine.calls if call[0] == name]


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
async def test_find_coordinator(version: int) -> None:
    fields = {"key": "g", "coordinator_keys": ["g", "h"]}
    response = await ask(FakeEngine(), ApiKey.FIND_COORDINATOR, version, fields)
    coordinators = response.coordinators if version >= 4 else [response]
    assert {(c.node_id, c.host, c.port, c.error_code) for c in coordinators} == {(0, "fleet.example", 9092, 0)}
    if version >= 4:
        assert [c.key for c in coordinators] == ["g", "h"]


async def test_share_groups_have_no_coordinator() -> None:
    response = await ask(FakeEngine(), ApiKey.FIND_COORDINATOR, 6, {"key_type": 2, "coordinator_keys": ["g"]})
    assert [c.error_code for c in response.coordinators] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
async def test_init_producer_id(version: int) -> None:
    engine = FakeEngine()
    fields = {"transaction_timeout": 60_000, "producer_id": 9, "producer_epoch": 2}
    response = await ask(engine, ApiKey.INIT_PRODUCER_ID, version, fields)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 17, 0)
    kept = {"producer_id": 9, "producer_epoch": 2} if version >= 3 else {"producer_id": -1, "producer_epoch": -1}
    assert called(engine, "init") == [(None, kept)]
    named = FakeEngine()
    await ask(named, ApiKey.INIT_PRODUCER_ID, version, {"transactional_id": "tx", **fields})
    assert called(named, "init") == [("tx", 60_000, kept)]


async def test_an_empty_transactional_id_is_refused() -> None:
    engine = memory_store().engine()
    response = await ask(engine, ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": "", "transaction_timeout": 1})
    assert response.error_code == ErrorCode.INVALID_REQUEST


def commit(**fields: Any) -> dict[str, Any]:
    partition = {"partition_index": 1, "committed_offset": 42, "committed_metadata": None, "committed_leader_epoch": 3}
    topic = {"name": "flights", "topic_id": TOPIC_ID, "partitions": [partition]}
    return {
        "group_id": "g",
        "member_id": "m",
        "generation_id_or_member_epoch": 5,
        "group_instance_id": "i",
        "topics": [topic],
        **fields,
    }


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_offset_commit(version: int) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.OFFSET_COMMIT, version, commit())
    epoch = 3 if version >= 6 else -1
    assert called(engine, "commit") == [
        (
            "g",
            {TopicPartition("flights", 1): OffsetAndMetadata(42, epoch, "")},
            {"member_id": "m", "member_epoch": 5, "instance_id": "i" if version >= 7 else None},
        )
    ]
    [topic] = response.topics
    assert (topic.topic_id if version >= 10 else topic.name) == (TOPIC_ID if version >= 10 else "flights")
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(1, 0)]


async def test_a_refused_commit_is_refused_for_each_partition() -> None:
    engine = FakeEngine(failure=KafkaError(ErrorCode.STALE_MEMBER_EPOCH, "rejoin"))
    response = await ask(engine, ApiKey.OFFSET_COMMIT, 9, commit())
    assert [p.error_code for p in response.topics[0].partitions] == [ErrorCode.STALE_MEMBER_EPOCH]


async def test_a_commit_for_an_unknown_topic_id_fails_alone() -> None:
    engine = FakeEngine()
    partition = {"partition_index": 1, "committed_offset": 1}
    topics = [{"topic_id": UUID(int=7), "partitions": [partition]}, {"topic_id": TOPIC_ID, "partitions": [partition]}]
    response = await ask(engine, ApiKey.OFFSET_COMMIT, 10, commit(topics=topics))
    assert [t.partitions[0].error_code for t in response.topics] == [ErrorCode.UNKNOWN_TOPIC_ID, 0]
    assert list(called(engine, "commit")[0][1]) == [TopicPartition("flights", 1)]


def by_group(version: int, fields: dict[str, Any]) -> dict[str, Any]:
    return {"groups": [fields]} if version >= 8 else fields


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch(version: int) -> None:
    engine = FakeEngine()
    topic = {"name": "flights", "topic_id": TOPIC_ID, "partition_indexes": [0, 2]}
    fields = by_group(version, {"group_id": "g", "topics": [topic]})
    if version >= 7:
        fields["require_stable"] = True
    response = await ask(engine, ApiKey.OFFSET_FETCH, version, fields)
    assert called(engine, "offsets.fetch") == [
        (
            "g",
            [TopicPartition("flights", 0), TopicPartition("flights", 2)],
            {"member_id": None, "member_epoch": -1, "require_stable": version >= 7},
        )
    ]
    [fetched] = (response.groups[0] if version >= 8 else response).topics
    assert [(p.partition_index, p.committed_offset, p.error_code) for p in fetched.partitions] == [
        (0, -1, 0),
        (2, -1, 0),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, low=2))
async def test_offset_fetch_of_everything(version: int) -> None:
    response = await ask(
        FakeEngine(), ApiKey.OFFSET_FETCH, version, by_group(version, {"group_id": "g", "topics": None})
    )
    [topic] = (response.groups[0] if version >= 8 else response).topics
    assert (topic.topic_id if version >= 10 else topic.name) == (TOPIC_ID if version >= 10 else "flights")
    [partition] = topic.partitions
    assert (partition.partition_index, partition.committed_offset, partition.metadata) == (1, 42, "note")


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, low=2))
async def test_offset_fetch_of_everything_that_is_refused(version: int) -> None:
    engine = FakeEngine(failure=KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no"))
    answer = await ask(engine, ApiKey.OFFSET_FETCH, version, by_group(version, {"group_id": "g", "topics": None}))
    refused = answer.groups[0] if version >= 8 else answer
    assert (refused.error_code, refused.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, ())


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch_that_fails_as_a_whole(version: int) -> None:
    engine = FakeEngine(failure=KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no"))
    topic = {"name": "flights", "partition_indexes": [0]}
    response = await ask(engine, ApiKey.OFFSET_FETCH, version, by_group(version, {"group_id": "g", "topics": [topic]}))
    if version >= 8:
        assert [(g.group_id, g.error_code) for g in response.groups] == [("g", ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    else:
        assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_HEARTBEAT))
async def test_heartbeat(version: int) -> None:
    engine = FakeEngine()
    fields = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 1,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["flights"],
        "subscribed_topic_regex": "fl.*",
        "topic_partitions": [{"topic_id": TOPIC_ID, "partitions": [1]}],
    }
    response = await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, fields)
    [(request,)] = called(engine, "heartbeat")
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", 1)
    assert (request.rebalance_timeout_ms, tuple(request.subscribed_topic_names)) == (30_000, ("flights",))
    assert request.subscribed_topic_regex == ("fl.*" if version >= 1 else None)
    assert {key: tuple(value) for key, value in request.owned.items()} == {TOPIC_ID: (1,)}
    assert (request.client_id, request.client_host) == ("tests", "/127.0.0.1")
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "m", 2)
    assert response.heartbeat_interval.total_seconds() == 5
    assert [(t.topic_id, t.partitions) for t in response.assignment.topic_partitions] == [(TOPIC_ID, (0, 2))]


async def test_what_a_heartbeat_leaves_out_is_unchanged() -> None:
    engine = FakeEngine()
    await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, {"group_id": "g", "member_id": "m", "member_epoch": 1})
    [(request,)] = called(engine, "heartbeat")
    assert request.owned is None
    assert request.subscribed_topic_names is None


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
async def test_consumer_group_describe(version: int) -> None:
    response = await ask(FakeEngine(), ApiKey.CONSUMER_GROUP_DESCRIBE, version, {"group_ids": ["known", "nope"]})
    known_group, unknown = response.groups
    assert (known_group.error_code, known_group.group_state, known_group.group_epoch) == (0, "Stable", 2)
    [member] = known_group.members
    [assigned] = member.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (TOPIC_ID, "flights", (0, 2))
    assert (unknown.group_id, unknown.error_code) == ("nope", ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
async def test_older_administrators_see_the_same_groups(version: int) -> None:
    response = await ask(FakeEngine(), ApiKey.DESCRIBE_GROUPS, version, {"groups": ["known", "nope"]})
    known_group, unknown = response.groups
    assert (known_group.error_code, known_group.group_state, known_group.protocol_type) == (0, "Stable", "consumer")
    # ConsumerProtocolAssignment 0: version, one topic "flights", partitions 0 and 2, null user data.
    assert known_group.members[0].member_assignment == bytes.fromhex(
        "0000 00000001 0007 666c6967687473 00000002 00000000 00000002 ffffffff"
    )
    assert unknown.group_state == "Dead"
    assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
async def test_list_groups(version: int) -> None:
    engine = FakeEngine()
    fields = {"states_filter": ["Stable"], "types_filter": ["consumer"]}
    response = await ask(engine, ApiKey.LIST_GROUPS, version, fields)
    assert [(g.group_id, g.protocol_type) for g in response.groups] == [("known", "consumer")]
    states = ("Stable",) if version >= 4 else ()
    assert called(engine, "list_groups") == [(states, ("consumer",) if version >= 5 else ())]


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
async def test_delete_groups(version: int) -> None:
    response = await ask(FakeEngine(), ApiKey.DELETE_GROUPS, version, {"groups_names": ["a", "b"]})
    assert [(r.group_id, r.error_code) for r in response.results] == [("a", 0), ("b", 0)]
