"""Share groups over the protocol, in every version that is spoken."""

from __future__ import annotations

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.record_batch import decode_batches
from odradek.model.topic import Topic
from odradek.protocol.api import ApiKey
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.dispatching import ask
from tests.support.engine import batch, memory_store, produce


def versions(api_key: ApiKey) -> list[int]:
    low, high = SUPPORTED_VERSIONS[api_key]
    return list(range(low, high + 1))


@pytest.fixture
async def engine() -> Engine:
    engine = memory_store().engine(catalog_cache_ms=0)
    await engine.topics.create("work", 1)
    for i in range(4):
        await produce(engine, "work", 0, batch([b"%d" % i]))
    await engine.group_configs.alter("q", set={"share.auto.offset.reset": "earliest"})
    return engine


async def join(engine: Engine) -> Topic:
    fields = {"group_id": "q", "member_id": "m", "subscribed_topic_names": ["work"]}
    response = await ask(engine, ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)
    topic = await engine.topics.resolve("work")
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "m", 1)
    [assigned] = response.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic.topic_id, (0,))
    return topic


def fetching(topic: Topic, epoch: int, **more: object) -> dict[str, object]:
    return {
        "group_id": "q",
        "member_id": "m",
        "share_session_epoch": epoch,
        "max_bytes": 1_000_000,
        "max_records": 2,
        "batch_size": 2,
        "topics": [{"topic_id": topic.topic_id, "partitions": [{"partition_index": 0}]}],
        **more,
    }


def acknowledging(topic: Topic, epoch: int, *batches: tuple[int, int, list[int]], **more: object) -> dict[str, object]:
    batches_acknowledged = [
        {"first_offset": a, "last_offset": b, "acknowledge_types": types} for a, b, types in batches
    ]
    partitions = [{"partition_index": 0, "acknowledgement_batches": batches_acknowledged}]
    topics = [{"topic_id": topic.topic_id, "partitions": partitions}]
    return {"group_id": "q", "member_id": "m", "share_session_epoch": epoch, "topics": topics, **more}


@pytest.mark.parametrize("version", versions(ApiKey.SHARE_FETCH))
async def test_fetch_and_acknowledge(engine: Engine, version: int) -> None:
    topic = await join(engine)
    response = await ask(engine, ApiKey.SHARE_FETCH, version, fetching(topic, 0))
    assert response.error_code == 0
    assert response.acquisition_lock_timeout.total_seconds() == 30
    [partition] = response.responses[0].partitions
    assert [(a.first_offset, a.last_offset, a.delivery_count) for a in partition.acquired_records] == [(0, 1, 1)]
    assert [record.value for record in decode_batches(partition.records)] == [b"0", b"1"]

    response = await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledging(topic, 1, (0, 1, [1, 2])))
    assert [part.error_code for part in response.responses[0].partitions] == [0]
    response = await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledging(topic, 2, (0, 0, [1])))
    assert [part.error_code for part in response.responses[0].partitions] == [ErrorCode.INVALID_RECORD_STATE]

    more = fetching(topic, 3)
    more["topics"] = acknowledging(topic, 3, (1, 1, [1]))["topics"]  # nobody holds it
    response = await ask(engine, ApiKey.SHARE_FETCH, version, more)
    [partition] = response.responses[0].partitions
    assert partition.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
    acquired = [(a.first_offset, a.last_offset, a.delivery_count) for a in partition.acquired_records]
    assert acquired == [(1, 1, 2), (2, 2, 1)]
    response = await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledging(topic, -1, (1, 2, [1])))
    assert response.error_code == 0
    response = await ask(engine, ApiKey.SHARE_FETCH, version, fetching(topic, 5))
    assert response.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_the_record_limit_and_renewals_of_version_2(engine: Engine) -> None:
    topic = await join(engine)
    await produce(engine, "work", 0, batch([b"x"] * 9))
    await ask(engine, ApiKey.SHARE_FETCH, 2, fetching(topic, 0, max_records=4))
    loose = await ask(engine, ApiKey.SHARE_FETCH, 2, fetching(topic, 1, max_records=3, share_acquire_mode=1))
    assert [(a.first_offset, a.last_offset) for a in loose.responses[0].partitions[0].acquired_records] == [(4, 6)]
    whole = await ask(engine, ApiKey.SHARE_FETCH, 2, fetching(topic, 2, max_records=3))
    assert [(a.first_offset, a.last_offset) for a in whole.responses[0].partitions[0].acquired_records] == [(7, 12)]
    renewal = acknowledging(topic, 3, (0, 3, [4]), is_renew_ack=True)
    response = await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, 2, renewal)
    assert [part.error_code for part in response.responses[0].partitions] == [0]
    response = await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, 1, acknowledging(topic, 4, (0, 3, [4])))
    assert [part.error_code for part in response.responses[0].partitions] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    "batch_", [(0, 1, [1, 1, 1]), (1, 0, [1]), (0, 0, [9]), (0, 2**40, [1]), (-1, 0, [1]), (0, 0, [])]
)
async def test_malformed_acknowledgements_are_refused(engine: Engine, batch_: tuple[int, int, list[int]]) -> None:
    topic = await join(engine)
    await ask(engine, ApiKey.SHARE_FETCH, 2, fetching(topic, 0))
    response = await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledging(topic, 1, batch_))
    [partition] = response.responses[0].partitions
    assert partition.error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD_STATE)
    response = await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledging(topic, 2, (0, 1, [1])))
    assert response.responses[0].partitions[0].error_code == 0


async def test_describe(engine: Engine) -> None:
    await join(engine)
    response = await ask(engine, ApiKey.SHARE_GROUP_DESCRIBE, 1, {"group_ids": ["q", "nope"]})
    group, missing = response.groups
    assert (group.group_state, group.assignor_name, group.members[0].member_id) == ("Stable", "simple", "m")
    [assigned] = group.members[0].assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("work", (0,))
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for api_key in (ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS):
        fields = {"group_ids": ["q"]} if api_key is ApiKey.CONSUMER_GROUP_DESCRIBE else {"groups": ["q"]}
        response = await ask(engine, api_key, SUPPORTED_VERSIONS[api_key][1], fields)
        assert response.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    listed = await ask(engine, ApiKey.LIST_GROUPS, 5, {"types_filter": ["share"]})
    assert [(group.group_id, group.group_type) for group in listed.groups] == [("q", "share")]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS))
async def test_offsets_are_described_moved_and_forgotten(engine: Engine, version: int) -> None:
    topic = await join(engine)
    await ask(engine, ApiKey.SHARE_FETCH, 2, fetching(topic, 0))
    await ask(engine, ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledging(topic, 1, (0, 0, [1])))

    async def start(topics: object = None) -> tuple[int, int]:
        fields = {"groups": [{"group_id": "q", "topics": topics}]}
        response = await ask(engine, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, fields)
        [one] = response.groups[0].topics[0].partitions
        return one.start_offset, getattr(one, "lag", 3 if one.start_offset == 1 else -1)

    assert await start() == (1, 3)
    moving = {"group_id": "q", "topics": [{"topic_name": "work", "partitions": [{"start_offset": 3}]}]}
    response = await ask(engine, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, moving)
    assert response.error_code == ErrorCode.NON_EMPTY_GROUP
    await ask(engine, ApiKey.SHARE_GROUP_HEARTBEAT, 1, {"group_id": "q", "member_id": "m", "member_epoch": -1})
    response = await ask(engine, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, moving)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0)
    assert (await start([{"topic_name": "work", "partitions": [0]}]))[0] == 3
    deleting = {"group_id": "q", "topics": [{"topic_name": "work"}, {"topic_name": "nope"}]}
    response = await ask(engine, ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, deleting)
    codes = [row.error_code for row in response.responses]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (await start([{"topic_name": "work", "partitions": [0]}]))[0] == -1
    response = await ask(engine, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, moving)  # makes the window
    assert (await start([{"topic_name": "work", "partitions": [0]}]))[0] == 3


async def test_offsets_of_a_group_that_is_not_there_yet_create_it(engine: Engine) -> None:
    moving = {"group_id": "new", "topics": [{"topic_name": "work", "partitions": [{"start_offset": 3}]}]}
    response = await ask(engine, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, moving)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0)
    [listed] = (await ask(engine, ApiKey.LIST_GROUPS, 5, {})).groups
    assert (listed.group_id, listed.group_state, listed.group_type) == ("new", "Empty", "share")
    fields = {"group_id": "new", "member_id": "m", "subscribed_topic_names": ["work"]}
    assert (await ask(engine, ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)).error_code == 0
    topic = await engine.topics.resolve("work")
    response = await ask(engine, ApiKey.SHARE_FETCH, 2, fetching(topic, 0, group_id="new"))
    assert [acquired.first_offset for acquired in response.responses[0].partitions[0].acquired_records] == [3]


async def test_offsets_of_another_kind_of_group_are_left_alone(engine: Engine) -> None:
    joining = {"group_id": "c", "member_id": "m", "subscribed_topic_names": ["work"], "rebalance_timeout": 1_000}
    await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {**joining, "topic_partitions": []})
    moving = {"group_id": "c", "topics": [{"topic_name": "work", "partitions": [{"start_offset": 3}]}]}
    response = await ask(engine, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, moving)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_configurations_of_groups(engine: Engine) -> None:
    resource = {"resource_type": 32, "resource_name": "q"}
    name = "share.delivery.count.limit"

    async def change(version: int, api_key: ApiKey, *configs: dict[str, object]) -> int:
        response = await ask(engine, api_key, version, {"resources": [{**resource, "configs": list(configs)}]})
        return int(response.responses[0].error_code)

    async def value() -> tuple[str, int]:
        resources = {"resources": [{**resource, "configuration_keys": [name]}]}
        response = await ask(engine, ApiKey.DESCRIBE_CONFIGS, 4, resources)
        [entry] = response.results[0].configs
        return entry.value, entry.config_source

    incremental = ApiKey.INCREMENTAL_ALTER_CONFIGS
    assert await value() == ("5", 5)
    assert await change(1, incremental, {"name": name, "config_operation": 0, "value": "3"}) == 0
    assert await value() == ("3", 8), "the source is DYNAMIC_GROUP_CONFIG"
    for wrong in ("0", "11", "many"):
        bad = {"name": name, "config_operation": 0, "value": wrong}
        assert await change(1, incremental, bad) == ErrorCode.INVALID_CONFIG
    unknown = {"name": "share.nope", "config_operation": 0, "value": "1"}
    assert await change(1, incremental, unknown) == ErrorCode.INVALID_CONFIG
    assert await change(1, incremental, {"name": name, "config_operation": 1, "value": None}) == 0
    assert (await value())[0] == "5"
    assert await change(2, ApiKey.ALTER_CONFIGS, {"name": name, "value": "4"}) == 0
    assert (await value())[0] == "4"
    assert (await engine.group_configs.of("q")).offset_reset == "latest", "AlterConfigs replaces all values"
