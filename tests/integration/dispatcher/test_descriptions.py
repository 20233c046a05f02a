"""Requests of administrators' tools beyond Metadata: partitions in pages, producers, sizes, rights, resources."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.acl import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.protocol.api import ApiKey
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.dispatching import ask
from tests.support.engine import Store, batch, memory_store, produce

UNASKED = -(2**31)


def versions(api_key: ApiKey, low: int = 0) -> range:
    first, last = SUPPORTED_VERSIONS[api_key]
    return range(max(first, low), last + 1)


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
async def engine(store: Store) -> Engine:
    engine = store.engine(catalog_cache_ms=0, acl_cache_ms=0, head_bytes_max=400, spill_entries=1)
    for name, count in (("a", 3), ("b", 1), ("c", 2)):
        await engine.topics.create(name, count)
    return engine


async def allow(engine: Engine, resource_type: ResourceType, name: str, *operations: AclOperation) -> None:
    for operation in operations:
        rule = AclBinding(resource_type, name, PatternType.LITERAL, "User:*", "*", operation, AclPermission.ALLOW)
        await engine.acls.create(rule)


def pages(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics]


async def test_partitions_are_described_in_pages(engine: Engine) -> None:
    pages_read, cursor = [], None
    for _ in range(9):
        fields = {"topics": [], "response_partition_limit": 2, "cursor": cursor}
        response = await ask(engine, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields)
        pages_read.append(pages(response))
        if response.next_cursor is None:
            break
        cursor = {
            "topic_name": response.next_cursor.topic_name,
            "partition_index": response.next_cursor.partition_index,
        }
    assert pages_read == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("c", [0, 1])]]
    [described] = response.topics
    [partition, _] = described.partitions
    assert (described.topic_id, partition.leader_id) == ((await engine.topics.resolve("c")).topic_id, 0)
    assert (partition.replica_nodes, partition.isr_nodes) == ((0,), (0,))
    assert described.topic_authorized_operations != UNASKED
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())  # null breaks Java's Admin


async def test_named_topics_are_described_in_the_order_of_their_names(engine: Engine) -> None:
    fields = {"topics": [{"name": name} for name in ("c", "nope", "b")], "response_partition_limit": 2_000}
    response = await ask(engine, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields)
    assert pages(response) == [("b", [0]), ("c", [0, 1]), ("nope", [])]
    assert [topic.error_code for topic in response.topics] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    bad = await ask(
        engine,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {**fields, "cursor": {"topic_name": "b", "partition_index": -1}},
    )
    assert {topic.error_code for topic in bad.topics} == {ErrorCode.INVALID_REQUEST}


async def test_the_producers_of_a_partition(engine: Engine) -> None:
    await produce(engine, "a", 0, batch([b"x", b"y"], timestamp_ms=50, producer=(7, 2, 0)))
    await produce(engine, "a", 0, batch([b"z"], timestamp_ms=60, producer=(7, 2, 2)))
    await produce(engine, "a", 0, batch([b"z"], timestamp_ms=70, producer=(5, 0, 0)))
    fields = {"topics": [{"name": "a", "partition_indexes": [0, 1, 9]}, {"name": "nope", "partition_indexes": [0]}]}
    response = await ask(engine, ApiKey.DESCRIBE_PRODUCERS, 0, fields)
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.error_code for partition in partitions] == [0, 0, unknown, unknown]
    producers_found = [
        (producer.producer_id, producer.producer_epoch, producer.last_sequence, producer.current_txn_start_offset)
        for producer in partitions[0].active_producers
    ]
    assert producers_found == [(5, 0, 0, -1), (7, 2, 2, -1)]
    assert partitions[0].active_producers[0].last_timestamp == 70
    assert partitions[1].active_producers == ()


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
async def test_sizes_are_those_of_what_is_stored(engine: Engine, version: int) -> None:
    sent = [batch([b"x" * size]) for size in range(100, 120)]
    for batch_sent in sent:
        await produce(engine, "a", 1, batch_sent)
    await produce(engine, "b", 0, sent[0])
    response = await ask(engine, ApiKey.DESCRIBE_LOG_DIRS, version, {"topics": None})
    [result] = response.results
    sizes = {(t.name, p.partition_index): p.partition_size for t in result.topics for p in t.partitions}
    assert len(sizes) == 6
    assert (sizes["a", 0], sizes["a", 1], sizes["b", 0]) == (0, sum(map(len, sent)), len(sent[0]))
    fields = {"topics": [{"topic": "b", "partitions": [0, 5]}, {"topic": "nope", "partitions": [0]}]}
    [result] = (await ask(engine, ApiKey.DESCRIBE_LOG_DIRS, version, fields)).results
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in result.topics] == [("b", [0])]


async def test_resources_that_have_a_configuration(engine: Engine) -> None:
    await engine.group_configs.alter("q", set={"share.auto.offset.reset": "earliest"})

    async def listed(*types: int) -> list[tuple[int, str]]:
        response = await ask(engine, ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": types})
        assert response.error_code == 0
        return [(resource.resource_type, resource.resource_name) for resource in response.config_resources]

    assert await listed(2) == [(2, "a"), (2, "b"), (2, "c")]
    assert await listed(32) == [(32, "q")]
    assert await listed() == [(2, "a"), (2, "b"), (2, "c"), (4, "0"), (8, "0"), (32, "q")]
    unknown = await ask(engine, ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [77]})
    assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await ask(engine, ApiKey.LIST_CONFIG_RESOURCES, 0, {})).config_resources == ()


async def test_loggers_have_levels(engine: Engine) -> None:
    resource = {"resource_type": 8, "resource_name": "0", "configuration_keys": None}
    [result] = (await ask(engine, ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]})).results
    assert {entry.name for entry in result.configs} == {"root", "odradek"}
    assert {entry.value for entry in result.configs} <= {"FATAL", "ERROR", "WARN", "INFO", "DEBUG"}
    assert all(entry.read_only for entry in result.configs)


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


@pytest.mark.parametrize("version", versions(ApiKey.METADATA, 8))
async def test_metadata_says_what_the_caller_may_do(engine: Engine, version: int) -> None:
    read, write, describe = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
    await allow(engine, ResourceType.TOPIC, "a", read, write)
    await allow(engine, ResourceType.CLUSTER, CLUSTER_NAME, describe)
    topics = [{"name": "a", "topic_id": None}]
    asks = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    response = await ask(engine, ApiKey.METADATA, version, {"topics": topics, **asks})
    assert response.topics[0].topic_authorized_operations == bits(read, write, describe)
    if version <= 10:
        assert response.cluster_authorized_operations == bits(describe)
    unasked = await ask(engine, ApiKey.METADATA, version, {"topics": topics})
    assert unasked.topics[0].topic_authorized_operations == UNASKED


async def test_the_cluster_and_groups_say_what_the_caller_may_do(engine: Engine) -> None:
    read, delete, describe = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
    await engine.groups.heartbeat(_joining("g"))
    await engine.share_groups.heartbeat(_joining("s"))
    await allow(engine, ResourceType.GROUP, "g", read, delete)
    await allow(engine, ResourceType.GROUP, "s", read)
    await allow(engine, ResourceType.TOPIC, "a", describe)
    await allow(engine, ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALTER)
    for version in versions(ApiKey.DESCRIBE_CLUSTER):
        cluster = await ask(engine, ApiKey.DESCRIBE_CLUSTER, version, {"include_cluster_authorized_operations": True})
        assert cluster.cluster_authorized_operations == bits(AclOperation.ALTER, describe)
        assert (await ask(engine, ApiKey.DESCRIBE_CLUSTER, version, {})).cluster_authorized_operations == UNASKED
    for api_key, version, field, group in (
        *((ApiKey.DESCRIBE_GROUPS, version, "groups", "g") for version in versions(ApiKey.DESCRIBE_GROUPS, 3)),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, "group_ids", "g"),
        (ApiKey.SHARE_GROUP_DESCRIBE, 1, "group_ids", "s"),
    ):
        group_field = {field: [group]}
        [described] = (
            await ask(engine, api_key, version, {**group_field, "include_authorized_operations": True})
        ).groups
        assert described.authorized_operations == bits(*((read, delete) if group == "g" else (read,)), describe), (
            api_key
        )
        [untold] = (await ask(engine, api_key, version, group_field)).groups
        assert untold.authorized_operations == UNASKED
        missing = {field: ["nothing"], "include_authorized_operations": True}
        [unknown] = (await ask(engine, api_key, version, missing)).groups
        if unknown.error_code:
            assert unknown.authorized_operations == UNASKED, "of a group that is not there"


async def test_a_share_group_is_not_described_as_a_consumer_group(engine: Engine) -> None:
    await engine.share_groups.heartbeat(_joining("s"))
    for version in versions(ApiKey.CONSUMER_GROUP_DESCRIBE):
        [group] = (await ask(engine, ApiKey.CONSUMER_GROUP_DESCRIBE, version, {"group_ids": ["s"]})).groups
        assert (group.error_code, group.group_state, group.members) == (ErrorCode.GROUP_ID_NOT_FOUND, "", ())
        assert group.error_message == "group 's' is a share group: use ShareGroupDescribe"


def _joining(group_id: str) -> Any:
    from odradek.model.group import GroupHeartbeat

    return GroupHeartbeat(group_id, str(UUID(int=1)), 0, subscribed_topic_names=("a",), rebalance_timeout_ms=1_000)


async def test_quotas_are_altered_and_described(engine: Engine) -> None:
    async def alter(version: int, entity: dict[str, str | None], **ops: float | None) -> tuple[int, str | None]:
        ops_given = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops.items()]
        parts = [
            {"entity_type": entity_type.replace("_", "-"), "entity_name": name} for entity_type, name in entity.items()
        ]
        fields = {"entries": [{"entity": parts, "ops": ops_given}], "validate_only": False}
        [entry] = (await ask(engine, ApiKey.ALTER_CLIENT_QUOTAS, version, fields)).entries
        assert [(part.entity_type, part.entity_name) for part in entry.entity] == [
            (part["entity_type"], part["entity_name"]) for part in parts
        ]
        return entry.error_code, entry.error_message

    async def described(
        *components: tuple[str, int, str | None], strict: bool = False
    ) -> list[tuple[dict[str, Any], dict[str, float]]]:
        components_asked = [
            {"entity_type": entity_type, "match_type": how, "match": match_value}
            for entity_type, how, match_value in components
        ]
        response = await ask(
            engine, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": components_asked, "strict": strict}
        )
        assert response.error_code == 0, response
        quotas_found = [
            (
                {part.entity_type: part.entity_name for part in entry.entity},
                {quota_value.key: quota_value.value for quota_value in entry.values},
            )
            for entry in response.entries
        ]
        return sorted(quotas_found, key=str)

    for version in versions(ApiKey.ALTER_CLIENT_QUOTAS):
        assert await alter(version, {"user": "ada"}, producer_byte_rate=1000.0, consumer_byte_rate=5.0) == (0, None)
    assert await alter(1, {"user": None, "client_id": "app"}, producer_byte_rate=7.0) == (0, None)
    assert await alter(1, {"client_id": None}, consumer_byte_rate=9.0) == (0, None)
    ada = ({"user": "ada"}, {"producer_byte_rate": 1000.0, "consumer_byte_rate": 5.0})
    app = ({"user": None, "client-id": "app"}, {"producer_byte_rate": 7.0})
    everyone = ({"client-id": None}, {"consumer_byte_rate": 9.0})
    assert await described() == sorted([ada, app, everyone], key=str)
    assert await described(("user", 0, "ada")) == [ada]
    assert await described(("user", 1, None)) == [app]
    assert await described(("user", 2, None)) == sorted([ada, app], key=str)
    assert await described(("user", 2, None), strict=True) == [ada]
    assert await described(("client-id", 0, "app"), ("user", 1, None), strict=True) == [app]
    assert await alter(1, {"user": "ada"}, producer_byte_rate=None) == (0, None)
    assert await described(("user", 0, "ada")) == [({"user": "ada"}, {"consumer_byte_rate": 5.0})]
    for entity, ops in (
        ({"ip": "127.0.0.1"}, {"producer_byte_rate": 1.0}),
        ({"ip": "localhost"}, {"connection_creation_rate": 1.0}),
        ({"ip": "127.0.0.1", "user": "ada"}, {"connection_creation_rate": 1.0}),
        ({"user": "ada"}, {"connection_creation_rate": 5.0}),
        ({"user": "ada"}, {"request_rate": 5.0}),
        ({"user": ""}, {"producer_byte_rate": 5.0}),
    ):
        code, message = await alter(1, entity, **ops)
        assert (code, bool(message)) == (ErrorCode.INVALID_REQUEST, True)
    assert await alter(1, {"ip": "127.0.0.1"}, connection_creation_rate=2.0) == (0, None)
    assert await alter(1, {"ip": "0:0::1"}, connection_creation_rate=3.0) == (0, None)
    assert await alter(1, {"ip": None}, connection_creation_rate=4.0) == (0, None)
    assert await described(("ip", 0, "::1")) == [({"ip": "::1"}, {"connection_creation_rate": 3.0})]
    assert len(await described(("ip", 2, None))) == 3
    assert await alter(1, {"user": "eve"}, request_percentage=0.5, controller_mutation_rate=0.125) == (0, None)
    assert await described(("user", 0, "eve")) == [
        ({"user": "eve"}, {"request_percentage": 0.5, "controller_mutation_rate": 0.125})
    ]
    for kinds in (["group"], ["user", "user"], ["ip", "user"]):
        wrong = {"components": [{"entity_type": entity_type, "match_type": 2, "match": None} for entity_type in kinds]}
        response = await ask(engine, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {**wrong, "strict": False})
        assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_a_quota_of_a_client_slows_it_down(engine: Engine) -> None:
    parts = [{"entity_type": "client-id", "entity_name": "tests"}]
    ops = [{"key": "producer_byte_rate", "value": 100.0, "remove": False}]
    await ask(engine, ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [{"entity": parts, "ops": ops}]})
    data = [{"index": 0, "records": batch([b"x" * 1_000])}]
    fields = {"acks": -1, "topic_data": [{"name": "a", "partition_data": data}]}
    response = await ask(engine, ApiKey.PRODUCE, 9, fields)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert response.throttle_time.total_seconds() > 5


async def test_partitions_beyond_the_mutation_rate_are_refused_to_clients_that_know_it_and_announced_to_others(
    engine: Engine,
) -> None:
    parts = [{"entity_type": "client-id", "entity_name": "tests"}]
    ops = [{"key": "controller_mutation_rate", "value": 1.0, "remove": False}]
    await ask(engine, ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [{"entity": parts, "ops": ops}]})

    async def create(version: int, *counts: int, validate_only: bool = False) -> tuple[list[int], float]:
        topics = [
            {"name": f"made-{version}-{i}-{n}", "num_partitions": n, "replication_factor": -1}
            for i, n in enumerate(counts)
        ]
        fields = {"topics": topics, "timeout": 1_000, "validate_only": validate_only}
        response = await ask(engine, ApiKey.CREATE_TOPICS, version, fields)
        return [topic.error_code for topic in response.topics], response.throttle_time.total_seconds()

    assert (await create(7, 1_000, validate_only=True)) == ([0], 0)
    codes, pause_s = await create(7, 12, 3, 1)
    assert codes == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert 0 < pause_s <= 1
    codes, pause_s = await create(5, 5)
    assert codes == [0]
    assert 4 < pause_s <= 6
    grow = {"topics": [{"name": "made-5-0-5", "count": 6, "assignments": None}], "timeout": 1_000}
    [grown] = (await ask(engine, ApiKey.CREATE_PARTITIONS, 3, {**grow, "validate_only": False})).results
    assert grown.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    [grown] = (await ask(engine, ApiKey.CREATE_PARTITIONS, 2, {**grow, "validate_only": False})).results
    assert grown.error_code == 0
    deletion = {"topics": [{"name": "made-5-0-5", "topic_id": None}], "timeout": 1_000}
    [deleted] = (await ask(engine, ApiKey.DELETE_TOPICS, 6, deletion)).responses
    assert deleted.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    response = await ask(engine, ApiKey.DELETE_TOPICS, 4, {"topic_names": ["made-5-0-5"], "timeout": 1_000})
    assert response.responses[0].error_code == 0
    assert response.throttle_time.total_seconds() > 10
    missing = {"topics": [{"name": "by-itself", "topic_id": None}], "allow_auto_topic_creation": True}
    object.__setattr__(engine.settings, "auto_create_topics", True)
    response = await ask(engine, ApiKey.METADATA, 12, missing)
    assert response.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_percentage_of_time_counts_what_keeps_the_loop_busy(
    engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = engine.topics.list

    async def slow() -> Any:
        store.clock.advance(0.25)
        return await names()

    monkeypatch.setattr(engine.topics, "list", slow)

    async def ask_metadata() -> float:
        response = await ask(engine, ApiKey.METADATA, 12, {"topics": None})
        return float(response.throttle_time.total_seconds())

    assert await ask_metadata() == 0
    parts = [{"entity_type": "client-id", "entity_name": "tests"}]
    ops = [{"key": "request_percentage", "value": 12.5, "remove": False}]
    await ask(engine, ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [{"entity": parts, "ops": ops}]})
    assert await ask_metadata() == 1
    data = [{"index": 0, "records": batch([b"x"])}]
    fields = {"acks": -1, "topic_data": [{"name": "a", "partition_data": data}]}
    assert (await ask(engine, ApiKey.PRODUCE, 9, fields)).throttle_time.total_seconds() == 1, "it is owed for metadata"
