"""StreamsGroupHeartbeat and StreamsGroupDescribe over the wire's fields, and the topics that a heartbeat creates."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.protocol.api import ApiKey

from tests.support.dispatching import ask
from tests.support.engine import Store, memory_store

TOPOLOGY = {
    "epoch": 1,
    "subtopologies": [
        {
            "subtopology_id": "1",
            "source_topics": ["prices"],
            "repartition_source_topics": [{"name": "app-r", "topic_configs": []}],
            "state_changelog_topics": [
                {"name": "app-c", "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}
            ],
            "copartition_groups": [{"source_topics": [0], "repartition_source_topics": [0]}],
        },
        {
            "subtopology_id": "0",
            "source_topics": ["orders"],
            "repartition_sink_topics": ["app-r"],
            "state_changelog_topics": [],
            "repartition_source_topics": [],
            "copartition_groups": [],
        },
    ],
}
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
JOIN = {
    "group_id": "app",
    "member_id": "m",
    "member_epoch": 0,
    "endpoint_information_epoch": -1,
    "rebalance_timeout": 60_000,
    "topology": TOPOLOGY,
    "process_id": "p",
    "client_tags": [{"key": "zone", "value": "a"}],
    "user_endpoint": {"host": "here", "port": 8080},
    **NO_TASKS,
}
UNCHANGED = {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None, "client_tags": None}


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
async def engine(store: Store) -> Engine:
    engine = store.engine(
        catalog_cache_ms=0, acl_cache_ms=0, group_assignment_interval_ms=0, group_initial_rebalance_delay_ms=0
    )
    await engine.topics.create("orders", 2)
    await engine.topics.create("prices", 3)
    return engine


async def heartbeat(engine: Engine, **fields: Any) -> Any:
    return await ask(engine, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, JOIN | fields, principal="User:tester")


async def follow(engine: Engine, response: Any, **fields: Any) -> Any:
    """The next heartbeat, with nothing new."""
    fields_sent = {"member_epoch": response.member_epoch, "topology": None, "process_id": None, "user_endpoint": None}
    fields_sent["endpoint_information_epoch"] = response.endpoint_information_epoch
    return await heartbeat(engine, **fields_sent, **UNCHANGED, **fields)


def tasks(role: Any) -> dict[str, list[int]]:
    return {role_tasks.subtopology_id: list(role_tasks.partitions) for role_tasks in role}


async def test_a_member_joins_creates_its_topics_and_is_assigned(engine: Engine) -> None:
    joined = await heartbeat(engine)
    assert (joined.error_code, joined.member_id) == (0, "m")
    assert joined.member_epoch > 0
    [status] = joined.status
    assert (status.status_code, status.status_detail) == (3, "Internal topics are missing: app-c, app-r")
    assert (joined.active_tasks, joined.standby_tasks, joined.warmup_tasks) == ((), (), ())
    changelog = await engine.topics.resolve("app-c")
    assert (changelog.partition_count, changelog.configs) == (3, {"cleanup.policy": "compact"})
    assert (await engine.topics.resolve("app-r")).partition_count == 3, "as many as the topic that it is joined with"

    assigned = await follow(engine, joined)
    assert assigned.status == ()
    assert tasks(assigned.active_tasks) == {"0": [0, 1], "1": [0, 1, 2]}
    [endpoint] = assigned.partitions_by_user_endpoint
    assert (endpoint.user_endpoint.host, endpoint.user_endpoint.port) == ("here", 8080)
    assert {active.topic: active.partitions for active in endpoint.active_partitions} == {
        "app-r": (0, 1, 2),
        "orders": (0, 1),
        "prices": (0, 1, 2),
    }
    quiet = await follow(engine, assigned)
    assert (quiet.active_tasks, quiet.partitions_by_user_endpoint) == (None, None)


async def test_a_group_is_described_as_it_was_given(engine: Engine) -> None:
    await follow(engine, await heartbeat(engine))
    response = await ask(engine, ApiKey.STREAMS_GROUP_DESCRIBE, 0, {"group_ids": ["app", "none"]})
    group, missing = response.groups
    assert (missing.group_id, missing.error_code) == ("none", ErrorCode.GROUP_ID_NOT_FOUND)
    assert (group.error_code, group.group_state, group.group_epoch) == (0, "Stable", group.assignment_epoch)
    assert group.topology.epoch == 1
    first, second = group.topology.subtopologies
    assert (first.subtopology_id, first.source_topics, first.repartition_sink_topics) == ("0", ("orders",), ("app-r",))
    [changelog] = second.state_changelog_topics
    assert (changelog.name, changelog.partitions) == ("app-c", 3)
    assert [(config.key, config.value) for config in changelog.topic_configs] == [("cleanup.policy", "compact")]
    [member] = group.members
    assert (member.member_id, member.process_id, member.topology_epoch) == ("m", "p", 1)
    assert (member.user_endpoint.host, [(tag.key, tag.value) for tag in member.client_tags]) == (
        "here",
        [("zone", "a")],
    )
    assert tasks(member.assignment.active_tasks) == tasks(member.target_assignment.active_tasks)
    for api_key, fields, of in (
        (ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["app"]}, "StreamsGroupDescribe"),
        (ApiKey.SHARE_GROUP_DESCRIBE, {"group_ids": ["app"]}, "not a share group"),
    ):
        [refused] = (await ask(engine, api_key, 1, fields)).groups
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert of in refused.error_message


async def test_the_member_leaves(engine: Engine) -> None:
    await heartbeat(engine)
    left = await heartbeat(engine, member_epoch=-1, topology=None, **UNCHANGED)
    assert (left.error_code, left.member_epoch) == (0, -1)
    listed = await ask(engine, ApiKey.LIST_GROUPS, 5, {"types_filter": ["streams"]})
    assert [
        (listed_group.group_id, listed_group.group_state, listed_group.protocol_type) for listed_group in listed.groups
    ] == [("app", "Empty", "streams")]


@pytest.mark.parametrize(
    "fields",
    [
        {"active_tasks": None},
        {"task_offsets": [{"subtopology_id": "0", "partition": 0, "offset": 1}]},
        {"warmup_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
        {"instance_id": "static"},
        {"topology": {"epoch": 0, "subtopologies": [TOPOLOGY["subtopologies"][1] | {"source_topic_regex": [".*"]}]}},
    ],
    ids=["some tasks", "offsets", "warm-ups", "static", "pattern"],
)
async def test_what_apache_kafka_does_not_support_is_refused(engine: Engine, fields: dict[str, Any]) -> None:
    response = await heartbeat(engine, **fields)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message


async def test_a_copartition_group_must_name_topics_that_are_there(engine: Engine) -> None:
    wrong = TOPOLOGY["subtopologies"][0] | {"copartition_groups": [{"source_topics": [7]}]}  # type: ignore[index]
    response = await heartbeat(engine, topology={"epoch": 0, "subtopologies": [wrong]})
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


async def test_internal_topics_need_the_right_to_create_them(engine: Engine) -> None:
    def allow(operation: AclOperation, resource_type: ResourceType, name: str) -> AclBinding:
        return AclBinding(resource_type, name, PatternType.LITERAL, "User:tester", "*", operation, AclPermission.ALLOW)

    await engine.acls.create(allow(AclOperation.ALL, ResourceType.GROUP, "app"))
    refused = await heartbeat(engine)
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, "it may not see the topics"
    names = ("orders", "prices", "app-r", "app-c")
    for name in names:
        await engine.acls.create(allow(AclOperation.DESCRIBE, ResourceType.TOPIC, name))
    joined = await heartbeat(engine)
    assert joined.error_code == 0
    assert joined.status[0].status_detail.endswith("; Unauthorized to CREATE on topics app-c, app-r.")
    assert await engine.topics.get("app-c") is None
    for name in ("app-r", "app-c"):
        await engine.acls.create(allow(AclOperation.CREATE, ResourceType.TOPIC, name))
    await follow(engine, joined)
    assert await engine.topics.get("app-c") is not None


async def test_what_keeps_an_internal_topic_from_being_created_is_told(engine: Engine) -> None:
    unknown = [{"name": "app-c", "topic_configs": [{"key": "retention.ms", "value": "soon"}]}]
    topology = {
        "epoch": 0,
        "subtopologies": [TOPOLOGY["subtopologies"][1] | {"state_changelog_topics": unknown}],  # type: ignore[index]
    }
    response = await heartbeat(engine, topology=topology)
    assert response.error_code == 0
    assert "; Creation failed: app-c (" in response.status[0].status_detail


async def test_offsets_are_committed_and_fetched_by_the_member(engine: Engine) -> None:
    assigned = await follow(engine, await heartbeat(engine))
    partition = {"partition_index": 1, "committed_offset": 5}
    fields = {
        "group_id": "app",
        "generation_id_or_member_epoch": assigned.member_epoch,
        "member_id": "m",
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    for epoch, code in ((assigned.member_epoch, 0), (assigned.member_epoch - 1, ErrorCode.STALE_MEMBER_EPOCH)):
        fields["generation_id_or_member_epoch"] = epoch
        response = await ask(engine, ApiKey.OFFSET_COMMIT, 9, fields)
        assert [partition.error_code for topic in response.topics for partition in topic.partitions] == [code]
    [result] = await engine.offsets.fetch(
        "app", [TopicPartition("orders", 1)], member_id="m", member_epoch=assigned.member_epoch
    )
    assert result.committed is not None
    assert result.committed.offset == 5
