"""Metadata, topics and configurations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey
from odradek.protocol.versions import SUPPORTED_VERSIONS
from odradek.settings import Settings

from tests.support.dispatching import ask
from tests.support.fake_engine import TOPIC_ID, FakeEngine


def versions(api_key: ApiKey, low: int = 0) -> range:
    first, last = SUPPORTED_VERSIONS[api_key]
    return range(max(first, low), last + 1)


def called(engine: FakeEngine, name: str) -> list[tuple[Any, ...]]:
    return [call[1:] for call in engine.calls if call[0] == name]


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
async def test_metadata_of_all_topics(version: int) -> None:
    response = await ask(FakeEngine(), ApiKey.METADATA, version, {"topics": None})
    [broker] = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (0, "fleet.example", 9092)
    [topic] = response.topics
    assert (topic.name, topic.error_code) == ("flights", 0)
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    assert {(p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions} == {(0, (0,), (0,))}
    if version >= 2:
        assert (response.cluster_id, response.controller_id) == ("test-cluster", 0)
    if version >= 10:
        assert topic.topic_id == TOPIC_ID


@pytest.mark.parametrize(("version", "count"), [(0, 1), (1, 0), (9, 0), (12, 0)])
async def test_an_empty_list_of_topics_means_all_in_version_0_and_none_later(version: int, count: int) -> None:
    response = await ask(FakeEngine(), ApiKey.METADATA, version, {"topics": []})
    assert len(response.topics) == count


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
async def test_metadata_of_an_unknown_topic(version: int) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.METADATA, version, {"topics": [{"name": "nope"}, {"name": "flights"}]})
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("flights", 0),
    ]
    assert called(engine, "create") == [], "topics are created on demand only where the setting says so"


async def test_metadata_by_id() -> None:
    topics = [{"topic_id": TOPIC_ID, "name": None}, {"topic_id": UUID(int=5), "name": None}]
    response = await ask(FakeEngine(), ApiKey.METADATA, 12, {"topics": topics})
    assert [(t.name, t.topic_id, t.error_code) for t in response.topics] == [
        ("flights", TOPIC_ID, 0),
        (None, UUID(int=5), ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize(("setting", "allowed", "created"), [(True, True, 1), (True, False, 0), (False, True, 0)])
async def test_topics_are_created_on_demand_if_setting_and_request_agree(
    setting: bool, allowed: bool, created: int
) -> None:
    engine = FakeEngine(Settings(auto_create_topics=setting))
    fields = {"topics": [{"name": "new"}], "allow_auto_topic_creation": allowed}
    response = await ask(engine, ApiKey.METADATA, 9, fields)
    assert len(called(engine, "create")) == created
    assert (response.topics[0].error_code == 0) == bool(created)


def new_topic(name: str = "new", **fields: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 4, "replication_factor": -1, **fields}


def assigned(*broker_ids: list[int], first: int = 0) -> dict[str, Any]:
    """A topic whose replicas are placed by hand."""
    placed = [{"partition_index": first + n, "broker_ids": ids} for n, ids in enumerate(broker_ids)]
    return new_topic(num_partitions=-1, assignments=placed)


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
async def test_an_assignment_to_the_one_broker_says_how_many_partitions_there_are(version: int) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.CREATE_TOPICS, version, {"topics": [assigned([0], [0], [0])]})
    assert [topic.error_code for topic in response.topics] == [0]
    assert called(engine, "create") == [("new", 3, {}, False)]


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
async def test_create_topics(version: int) -> None:
    engine = FakeEngine()
    topic = new_topic(configs=[{"name": "cleanup.policy", "value": "compact"}], replication_factor=3)
    response = await ask(engine, ApiKey.CREATE_TOPICS, version, {"topics": [topic]})
    assert called(engine, "create") == [("new", 4, {"cleanup.policy": "compact"}, False)]
    [result] = response.topics
    assert (result.name, result.error_code) == ("new", 0)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (4, 1)
        assert {c.name: (c.value, c.config_source) for c in result.configs} == {
            "cleanup.policy": ("compact", 1),
            "retention.ms": ("604800000", 5),
        }
    if version >= 7:
        assert result.topic_id == TOPIC_ID


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (new_topic(replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new_topic(replication_factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            new_topic(assignments=[{"partition_index": 0, "broker_ids": [0]}]),
            ErrorCode.INVALID_REQUEST,
        ),
        (assigned([0, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned([7]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned([0], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic(configs=[{"name": "retention.ms", "value": None}]), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_topics_that_cannot_be_had_are_refused_with_a_reason(topic: dict[str, Any], code: ErrorCode) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.CREATE_TOPICS, 5, {"topics": [topic, new_topic("good")]})
    assert [(t.name, t.error_code) for t in response.topics] == [("new", code), ("good", 0)]
    assert response.topics[0].error_message
    assert [call[0] for call in called(engine, "create")] == ["good"]


async def test_validate_only_is_passed_on() -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.CREATE_TOPICS, 7, {"topics": [new_topic()], "validate_only": True})
    assert called(engine, "create") == [("new", 4, {}, True)]
    assert response.topics[0].error_code == 0


async def test_a_topic_named_twice_in_one_request_is_refused() -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.CREATE_TOPICS, 5, {"topics": [new_topic(), new_topic(), new_topic("other")]})
    assert [(t.name, t.error_code) for t in response.topics] == [("new", ErrorCode.INVALID_REQUEST), ("other", 0)]

    grow = [{"name": "flights", "count": 5}, {"name": "flights", "count": 6}]
    response = await ask(engine, ApiKey.CREATE_PARTITIONS, 2, {"topics": grow})
    assert [(t.name, t.error_code) for t in response.results] == [("flights", ErrorCode.INVALID_REQUEST)]

    response = await ask(engine, ApiKey.DELETE_TOPICS, 5, {"topic_names": ["flights", "flights"]})
    assert [(t.name, t.error_code) for t in response.responses] == [("flights", ErrorCode.INVALID_REQUEST)]
    assert called(engine, "delete") == called(engine, "create_partitions") == []


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
async def test_delete_topics(version: int) -> None:
    engine = FakeEngine()
    fields = {"topic_names": ["flights"], "topics": [{"name": "flights"}]}
    response = await ask(engine, ApiKey.DELETE_TOPICS, version, fields)
    assert [(t.name, t.error_code) for t in response.responses] == [("flights", 0)]
    assert called(engine, "delete") == [("flights",)]


async def test_delete_topics_by_id() -> None:
    engine = FakeEngine()
    topics = [
        {"topic_id": TOPIC_ID, "name": None},
        {"topic_id": UUID(int=9), "name": None},
        {"topic_id": TOPIC_ID, "name": "flights"},
        {"topic_id": None, "name": None},
    ]
    response = await ask(engine, ApiKey.DELETE_TOPICS, 6, {"topics": topics})
    assert [(t.name, t.error_code) for t in response.responses] == [
        ("flights", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("flights", ErrorCode.INVALID_REQUEST),
        (None, ErrorCode.INVALID_REQUEST),
    ]
    assert called(engine, "delete") == [("flights",)]


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
async def test_create_partitions(version: int) -> None:
    engine = FakeEngine()
    topics = [
        {"name": "flights", "count": 6, "assignments": [{"broker_ids": [0]}] * 3},
        {"name": "weather", "count": 2, "assignments": [{"broker_ids": [0]}]},
    ]
    response = await ask(engine, ApiKey.CREATE_PARTITIONS, version, {"topics": topics, "validate_only": True})
    assert [(t.name, t.error_code) for t in response.results] == [
        ("flights", 0),
        ("weather", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert called(engine, "create_partitions") == [("flights", 6, True)]


@pytest.mark.parametrize("assignments", [[[0], [0]], [[0], [0], [0, 1]], [[0], [0], [9]], [[0], [0], []]])
async def test_new_partitions_may_be_assigned_to_the_one_broker_alone(assignments: list[list[int]]) -> None:
    engine = FakeEngine()
    topic = {"name": "flights", "count": 6, "assignments": [{"broker_ids": assignment} for assignment in assignments]}
    response = await ask(engine, ApiKey.CREATE_PARTITIONS, 3, {"topics": [topic]})
    assert [result.error_code for result in response.results] == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert not called(engine, "create_partitions")


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
async def test_describe_configs(version: int) -> None:
    resources = [
        {"resource_type": 2, "resource_name": "flights", "configuration_keys": None},
        {"resource_type": 2, "resource_name": "flights", "configuration_keys": ["retention.ms"]},
        {"resource_type": 2, "resource_name": "nope"},
        {"resource_type": 4, "resource_name": "0", "configuration_keys": ["num.partitions"]},
        {"resource_type": 4, "resource_name": "8"},
        {"resource_type": 16, "resource_name": "x"},
    ]
    fields = {"resources": resources, "include_synonyms": True}
    response = await ask(FakeEngine(), ApiKey.DESCRIBE_CONFIGS, version, fields)
    assert [(r.resource_name, r.error_code, [c.name for c in r.configs]) for r in response.results] == [
        ("flights", 0, ["cleanup.policy", "retention.ms"]),
        ("flights", 0, ["retention.ms"]),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("0", 0, ["num.partitions"]),
        ("8", ErrorCode.INVALID_REQUEST, []),
        ("x", ErrorCode.INVALID_REQUEST, []),
    ]
    policy = response.results[0].configs[0]
    assert (policy.value, policy.config_source, policy.read_only) == ("compact", 1, False)
    assert [(s.name, s.value) for s in policy.synonyms] == [("cleanup.policy", "compact")]
    assert response.results[3].configs[0].read_only


def alteration(*configs: tuple[str, int, str | None], name: str = "flights", resource_type: int = 2) -> dict[str, Any]:
    entries = [{"name": n, "config_operation": operation, "value": value} for n, operation, value in configs]
    return {"resource_type": resource_type, "resource_name": name, "configs": entries}


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
async def test_incremental_alter_configs(version: int) -> None:
    engine = FakeEngine()
    change = alteration(("retention.ms", 0, "5"), ("max.message.bytes", 1, None), ("cleanup.policy", 2, "delete"))
    response = await ask(engine, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, {"resources": [change]})
    assert [(r.resource_name, r.error_code) for r in response.responses] == [("flights", 0)]
    assert called(engine, "alter_configs") == [
        ("flights", {"retention.ms": "5", "cleanup.policy": "compact,delete"}, ("max.message.bytes",), False)
    ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (alteration(("a", 0, "1"), ("a", 1, None)), ErrorCode.INVALID_REQUEST),
        (alteration(("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (alteration(("retention.ms", 2, "1")), ErrorCode.INVALID_CONFIG),
        (alteration(("retention.ms", 0, None)), ErrorCode.INVALID_REQUEST),
        (alteration(("retention.ms", 0, "1"), name=""), ErrorCode.INVALID_REQUEST),
        (alteration(("retention.ms", 0, "1"), name="a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (alteration(("share.delivery.count.limit", 0, "1"), name="", resource_type=32), ErrorCode.INVALID_REQUEST),
        (alteration(("retention.ms", 0, "1"), name="nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (alteration(("num.partitions", 0, "1"), name="0", resource_type=4), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_alterations_that_make_no_sense_change_nothing(change: dict[str, Any], code: ErrorCode) -> None:
    engine = FakeEngine()
    response = await ask(engine, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [change]})
    assert [r.error_code for r in response.responses] == [code]
    assert called(engine, "alter_configs") == []


async def test_alter_configs_replaces_all_overrides() -> None:
    engine = FakeEngine()
    resource = {
        "resource_type": 2,
        "resource_name": "flights",
        "configs": [{"name": "retention.ms", "value": "5"}],
    }
    await ask(engine, ApiKey.ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": True})
    assert called(engine, "alter_configs") == [("flights", {"retention.ms": "5"}, ("cleanup.policy",), True)]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
async def test_describe_cluster(version: int) -> None:
    response = await ask(FakeEngine(), ApiKey.DESCRIBE_CLUSTER, version, {"endpoint_type": 1})
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "test-cluster", 0)
    assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(0, "fleet.example", 9092)]


async def test_there_are_no_controllers_to_describe() -> None:
    for endpoint_type, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
        response = await ask(FakeEngine(), ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": endpoint_type})
        assert (response.error_code, response.cluster_id) == (code, "")
