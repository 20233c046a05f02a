"""Answers that `make peers` found to differ from Apache Kafka's, asked without Java."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

from tests.support.dispatching import ask
from tests.support.engine import batch, memory_store, produce

NOW_MS = 1_700_000_000_000
LARGEST, EARLIEST_LOCAL, LATEST_TIERED = -3, -4, -5


@pytest.fixture
async def engine() -> Engine:
    engine = memory_store().engine(catalog_cache_ms=0, acl_cache_ms=0)
    await engine.topics.create("t", 1)
    await produce(engine, "t", 0, batch([b"x"], timestamp_ms=NOW_MS))
    return engine


async def listed(engine: Engine, version: int, *timestamps: int) -> list[Any]:
    partitions = [{"partition_index": 0, "timestamp": value} for value in timestamps]
    fields: dict[str, Any] = {"replica_id": -1, "topics": [{"name": "t", "partitions": partitions}]}
    response = await ask(engine, ApiKey.LIST_OFFSETS, version, fields)
    return list(response.topics[0].partitions)


@pytest.mark.parametrize(("timestamp", "first"), [(LARGEST, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)])
async def test_a_special_timestamp_is_unknown_before_its_version(engine: Engine, timestamp: int, first: int) -> None:
    codes = [(await listed(engine, version, timestamp))[0].error_code for version in (first - 1, first)]
    assert codes == [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE]


async def test_no_offset_has_no_leader_epoch(engine: Engine) -> None:
    [beyond] = await listed(engine, 6, NOW_MS + 1)
    [first] = await listed(engine, 6, NOW_MS)
    assert (beyond.offset, beyond.leader_epoch) == (-1, -1)
    assert (first.offset, first.leader_epoch) == (0, 0)


async def test_a_topic_without_partitions_is_left_out_of_the_answer(engine: Engine) -> None:
    fields = {"transactional_id": None, "acks": -1, "topic_data": [{"name": "t", "partition_data": []}]}
    assert list((await ask(engine, ApiKey.PRODUCE, 9, fields)).responses) == []


async def test_an_unknown_group_has_neither_state_nor_assignor(engine: Engine) -> None:
    for api_key in (ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE):
        version = 0 if api_key is ApiKey.CONSUMER_GROUP_DESCRIBE else 1
        [group] = (await ask(engine, api_key, version, {"group_ids": ["none"]})).groups
        assert (group.error_code, group.group_state, group.assignor_name) == (ErrorCode.GROUP_ID_NOT_FOUND, "", "")


def joining(**changes: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **changes,
    }


@pytest.mark.parametrize(
    "changes", [{"group_id": ""}, {"member_id": ""}, {"topic_partitions": None}], ids=["group", "member", "owned"]
)
async def test_a_first_heartbeat_that_lacks_what_it_needs(engine: Engine, changes: dict[str, Any]) -> None:
    response = await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining(**changes))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message


async def test_a_first_heartbeat_that_has_it(engine: Engine) -> None:
    assert (await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining())).error_code == ErrorCode.NONE


async def test_before_version_one_the_coordinator_makes_the_member_id_up(engine: Engine) -> None:
    response = await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, joining(member_id=""))
    assert (response.error_code, bool(response.member_id)) == (ErrorCode.NONE, True)
