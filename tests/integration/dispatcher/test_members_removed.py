"""LeaveGroup and DescribeGroups, which administrators use, beside members of the new protocol."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.consumer_protocol import topics_of_subscription
from odradek.model.group import GroupHeartbeat
from odradek.protocol.api import ApiKey

from tests.support.dispatching import ask
from tests.support.engine import memory_store


@pytest.fixture
async def engine() -> Engine:
    engine = memory_store().engine()
    await engine.topics.create("t", 250)
    return engine


async def beat(engine: Engine, member_id: str, epoch: int = 0, **options: Any) -> Any:
    joins: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"]}
    return await engine.groups.heartbeat(
        GroupHeartbeat("g", member_id, epoch, **({**joins, **options} if epoch == 0 else options))
    )


async def remove(engine: Engine, *members: dict[str, Any]) -> list[int]:
    response = await ask(engine, ApiKey.LEAVE_GROUP, 5, {"group_id": "g", "members": list(members)})
    assert response.error_code == 0
    return [member.error_code for member in response.members]


async def described(engine: Engine, version: int = 6) -> Any:
    [group] = (await ask(engine, ApiKey.DESCRIBE_GROUPS, version, {"groups": ["g"]})).groups
    return group


async def test_an_administrator_removes_members_by_their_ids_and_instance_ids(engine: Engine) -> None:
    """One of them holds more leases than one step releases."""
    assert (await beat(engine, "a")).error is ErrorCode.NONE
    assert (await beat(engine, "b", instance_id="one")).error is ErrorCode.NONE
    assert (await beat(engine, "c")).error is ErrorCode.NONE
    wrong = {"member_id": "other", "group_instance_id": "one"}
    codes = await remove(engine, {"member_id": "a"}, {"member_id": "nobody"}, wrong)
    assert codes == [0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
    assert [member.member_id for member in (await described(engine)).members] == ["b", "c"]
    assert (await beat(engine, "a", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert await remove(engine, {"member_id": "", "group_instance_id": "one"}, {"member_id": "c"}) == [0, 0]
    group = await described(engine)
    assert (group.group_state, group.members) == ("Empty", ())
    assert await engine.groups.delete(["g"]) == [("g", ErrorCode.NONE)]


async def test_who_stays_gets_what_the_removed_one_had(engine: Engine) -> None:
    await beat(engine, "a")
    await remove(engine, {"member_id": "a"})
    result = await beat(engine, "b")
    for _ in range(5):
        result = await beat(engine, "b", result.member_epoch)
    assert sum(map(len, (result.assignment or {}).values())) in (0, 250)
    [member] = (await described(engine)).members
    assert member.member_id == "b"


@pytest.mark.parametrize("version", [0, 6])
async def test_a_member_of_the_new_protocol_is_described_with_its_subscription(engine: Engine, version: int) -> None:
    await beat(engine, "a")
    [member] = (await described(engine, version)).members
    assert topics_of_subscription(member.member_metadata) == ["t"]
    assert member.member_assignment


@pytest.mark.parametrize("version", range(1, 12))
async def test_special_timestamps_are_known_from_their_versions_on(engine: Engine, version: int) -> None:
    partitions_asked = [{"partition_index": -timestamp, "timestamp": timestamp} for timestamp in range(-7, 0)]
    response = await ask(
        engine, ApiKey.LIST_OFFSETS, version, {"topics": [{"name": "t", "partitions": partitions_asked}]}
    )
    [topic] = response.topics
    partitions_by_timestamp = {-partition.partition_index: partition for partition in topic.partitions}
    since = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
    timestamps_served = {timestamp for timestamp, first in since.items() if version >= first}
    for timestamp, partition in partitions_by_timestamp.items():
        assert (partition.error_code == 0) == (timestamp in timestamps_served), timestamp
        assert timestamp in timestamps_served or partition.error_code == ErrorCode.UNSUPPORTED_VERSION
    for timestamp in timestamps_served & {-3, -5, -6}:
        assert (partitions_by_timestamp[timestamp].offset, partitions_by_timestamp[timestamp].leader_epoch) == (-1, -1)
