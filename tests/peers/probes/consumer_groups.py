"""Probes of consumer groups (KIP-848): heartbeats of members, what describes them, and classic requests to them."""

from __future__ import annotations

import uuid
from typing import Any

from tests.peers.connection import Connection
from tests.peers.probe import Answer, Peer, attempt, by_name, pick, probe, settled, until
from tests.peers.probes.offsets import commit, committed


def member_id() -> str:
    """A member id as clients make it up."""
    return str(uuid.uuid4())


def beat(connection: Connection, group: str, member: str, epoch: int, *, version: int = 1, **values: Any) -> Any:
    """Send a heartbeat; a first one (epoch 0) with all that it needs."""
    first = {"RebalanceTimeoutMs": 30_000, "TopicPartitions": []} if epoch == 0 else {}
    fields = {"GroupId": group, "MemberId": member, "MemberEpoch": epoch, **first, **values}
    return settled(lambda: connection.call("ConsumerGroupHeartbeat", version, **fields))


def _told(response: dict[str, Any], first_epoch: int = 0) -> Answer:
    """A heartbeat's answer without what a broker makes up: epochs are counted from a member's first one."""
    comparable = {
        **response,
        "MemberId": bool(response["MemberId"]),
        "MemberEpoch": max(-2, response["MemberEpoch"] - first_epoch),
    }
    del comparable["HeartbeatIntervalMs"]
    if response["ErrorCode"]:
        comparable["MemberEpoch"] = response["MemberEpoch"]
    elif not first_epoch and response["MemberEpoch"] > 0:
        comparable["MemberEpoch"] = "its first"
    if comparable.get("Assignment"):
        rows = comparable["Assignment"]["TopicPartitions"]
        comparable["Assignment"] = [[row["Partitions"], row["TopicId"]] for row in rows]
    return comparable


class Member:
    """A member that is in its group; `epoch` is the last it was told."""

    def __init__(self, peer: Peer, group: str, topics: list[str], **values: Any) -> None:
        self.connection, self.group, self.id = peer.connect(), group, member_id()
        self.epoch = 0
        response = self.beat(SubscribedTopicNames=topics, **values)
        assert response["ErrorCode"] == 0, response
        self.first_epoch = self.epoch

    def told(self, response: dict[str, Any]) -> Answer:
        return _told(response, self.first_epoch)

    def beat(self, **values: Any) -> dict[str, Any]:
        response = beat(self.connection, self.group, self.id, self.epoch, **values)
        if response["ErrorCode"] == 0:
            self.epoch = response["MemberEpoch"]
        return dict(response)


def _one(peer: Peer, **values: Any) -> tuple[str, Member]:
    topic = peer.topic(partitions=2)
    return topic, Member(peer, peer.name("g"), [topic], **values)


def _first(peer: Peer, **values: Any) -> Answer:
    """The answer to a first heartbeat."""
    values = {"SubscribedTopicNames": [peer.name("none")], **values}
    group, member = values.pop("GroupId", peer.name("g")), values.pop("MemberId", member_id())
    return attempt(lambda: _told(beat(peer.connect(), group, member, values.pop("MemberEpoch", 0), **values)))


# --- joining ----------------------------------------------------------------------------------------------------------


@probe
def join_a_topic(peer: Peer) -> Answer:
    topic = peer.topic(partitions=2)
    return _first(peer, SubscribedTopicNames=[topic])


@probe
def the_first_epoch_and_the_first_interval(peer: Peer) -> Answer:
    topic, group, member = peer.topic(), peer.name("g"), member_id()
    first = beat(peer.connect(), group, member, 0, SubscribedTopicNames=[topic])
    refused = beat(peer.connect(), group, member_id(), 9)
    return [pick(first, "MemberEpoch", "HeartbeatIntervalMs"), pick(refused, "MemberEpoch", "HeartbeatIntervalMs")]


@probe
def join_an_unknown_topic(peer: Peer) -> Answer:
    return _first(peer)


@probe
def join_no_topics(peer: Peer) -> Answer:
    return _first(peer, SubscribedTopicNames=[])


@probe
def join_without_a_subscription(peer: Peer) -> Answer:
    return _first(peer, SubscribedTopicNames=None)


@probe
def join_a_topic_twice(peer: Peer) -> Answer:
    topic = peer.topic()
    return _first(peer, SubscribedTopicNames=[topic, topic])


@probe
def join_a_pattern(peer: Peer) -> Answer:
    peer.topic("wanted")
    response = _first(peer, SubscribedTopicNames=None, SubscribedTopicRegex=f"wanted-{peer.suffix}.*")
    response.pop("Assignment")  # Apache Kafka looks for the topics afterwards
    return response


@probe
def join_a_wrong_pattern(peer: Peer) -> Answer:
    return _first(peer, SubscribedTopicNames=None, SubscribedTopicRegex="[a")


@probe
def join_an_empty_pattern(peer: Peer) -> Answer:
    return _first(peer, SubscribedTopicNames=None, SubscribedTopicRegex="")


@probe
def join_without_a_member_id(peer: Peer) -> Answer:
    return [_first(peer, MemberId=""), _first(peer, MemberId="", version=0)]


@probe
def join_an_empty_group_id(peer: Peer) -> Answer:
    return _first(peer, GroupId="")


@probe
def join_without_a_rebalance_timeout(peer: Peer) -> Answer:
    return [_first(peer, RebalanceTimeoutMs=number) for number in (-1, 0, -5)]


@probe
def join_with_partitions(peer: Peer) -> Answer:
    topic = peer.topic()
    owned = [{"TopicId": peer.topic_id(topic), "Partitions": [0]}]
    return [_first(peer, SubscribedTopicNames=[topic], TopicPartitions=value) for value in (owned, None)]


@probe
def join_with_an_assignor(peer: Peer) -> Answer:
    topic = peer.topic()
    return [
        _first(peer, SubscribedTopicNames=[topic], ServerAssignor=name, GroupId=peer.name(f"g{index}"))
        for index, name in enumerate(("uniform", "range", "none", ""))
    ]


@probe
def join_with_an_empty_instance_id(peer: Peer) -> Answer:
    return _first(peer, InstanceId="")


@probe
def join_with_an_empty_rack(peer: Peer) -> Answer:
    return _first(peer, RackId="")


@probe
def join_with_another_epoch(peer: Peer) -> Answer:
    return [_first(peer, MemberEpoch=number, TopicPartitions=[]) for number in (1, -1, -2, -3)]


@probe
def join_with_the_epoch_of_static_members(peer: Peer) -> Answer:
    return _first(peer, MemberEpoch=-2, InstanceId="i", TopicPartitions=[])


# --- members ----------------------------------------------------------------------------------------------------------


@probe
def a_heartbeat_that_says_nothing(peer: Peer) -> Answer:
    _, member = _one(peer)
    return member.told(member.beat())


@probe
def a_heartbeat_with_another_epoch(peer: Peer) -> Answer:
    _, member = _one(peer)
    epochs = member.epoch - 1, member.epoch + 7
    return [_told(beat(member.connection, member.group, member.id, epoch)) for epoch in epochs]


@probe
def a_heartbeat_of_an_unknown_member(peer: Peer) -> Answer:
    _, member = _one(peer)
    return _told(beat(member.connection, member.group, member_id(), 2))


@probe
def a_member_joins_again(peer: Peer) -> Answer:
    topic, member = _one(peer)
    return _told(beat(member.connection, member.group, member.id, 0, SubscribedTopicNames=[topic]))


@probe
def a_member_changes_its_subscription(peer: Peer) -> Answer:
    _, member = _one(peer)
    other = peer.topic("other")
    return member.told(member.beat(SubscribedTopicNames=[other], TopicPartitions=[]))


@probe
def a_member_leaves(peer: Peer) -> Answer:
    _, member = _one(peer)
    left = beat(member.connection, member.group, member.id, -1)
    return [_told(left), _told(beat(member.connection, member.group, member.id, -1)), _described(peer, member.group)]


@probe
def two_members_share(peer: Peer) -> Answer:
    topic, first = _one(peer)
    second = Member(peer, first.group, [topic])
    topic_id = peer.topic_id(topic)

    def owned() -> bool:
        rows: list[int] = []
        for member in (first, second):
            response = member.beat(TopicPartitions=[])
            assignment = response["Assignment"] or {"TopicPartitions": []}
            rows.append(sum(len(row["Partitions"]) for row in assignment["TopicPartitions"]))
        return rows == [1, 1]

    until(owned)
    assert topic_id
    return "each has one"


@probe
def a_static_member_is_replaced(peer: Peer) -> Answer:
    topic, member = _one(peer, InstanceId="i")
    other = beat(peer.connect(), member.group, member_id(), 0, InstanceId="i", SubscribedTopicNames=[topic])
    beat(member.connection, member.group, member.id, -2, InstanceId="i")
    again = beat(peer.connect(), member.group, member_id(), 0, InstanceId="i", SubscribedTopicNames=[topic])
    old = beat(member.connection, member.group, member.id, member.epoch, InstanceId="i")
    return [_told(other), _told(again), _told(old)]


@probe
def a_static_member_leaves_for_good(peer: Peer) -> Answer:
    _, member = _one(peer, InstanceId="i")
    return _told(beat(member.connection, member.group, member.id, -1, InstanceId="i"))


@probe
def a_heartbeat_with_another_instance(peer: Peer) -> Answer:
    _, member = _one(peer, InstanceId="i")
    return _told(beat(member.connection, member.group, member.id, member.epoch, InstanceId="nobody"))


# --- described --------------------------------------------------------------------------------------------------------


def _described(peer: Peer, *groups: str) -> Answer:
    rows = peer.call("ConsumerGroupDescribe", 1, GroupIds=list(groups))["Groups"]
    for row in rows:
        first = min((member["MemberEpoch"] for member in row["Members"]), default=row["GroupEpoch"])
        row.update(GroupEpoch=row["GroupEpoch"] - first, AssignmentEpoch=row["AssignmentEpoch"] - first)
        for member in row["Members"]:
            member.update(MemberId="made up", ClientHost=bool(member["ClientHost"]))
            member["MemberEpoch"] -= first
    return by_name(rows, "GroupId")


@probe
def describe_a_group(peer: Peer) -> Answer:
    _, member = _one(peer)
    return _described(peer, member.group)


@probe
def describe_a_static_member(peer: Peer) -> Answer:
    _, member = _one(peer, InstanceId="i", RackId="r")
    return _described(peer, member.group)


@probe
def describe_unknown_groups(peer: Peer) -> Answer:
    return _described(peer, peer.name("none"), "")


@probe
def describe_a_classic_group(peer: Peer) -> Answer:
    from tests.peers.probes.classic_groups import stable

    _, group, _ = stable(peer)
    return _described(peer, group)


@probe
def describe_a_group_in_the_classic_way(peer: Peer) -> Answer:
    _, member = _one(peer)
    [row] = peer.call("DescribeGroups", 6, Groups=[member.group])["Groups"]
    for member_row in row["Members"]:
        member_row.update(MemberId="made up", ClientHost=bool(member_row["ClientHost"]))
        member_row.update({name: bool(member_row[name]) for name in ("MemberAssignment", "MemberMetadata")})
    return row


@probe
def list_a_group(peer: Peer) -> Answer:
    _, member = _one(peer)

    def listed(**filters: Any) -> Answer:
        return [row for row in peer.call("ListGroups", 5, **filters)["Groups"] if row["GroupId"] == member.group]

    return [listed(), listed(TypesFilter=["Consumer"]), listed(TypesFilter=["classic"]), listed(StatesFilter=["empty"])]


@probe
def delete_a_group_with_members(peer: Peer) -> Answer:
    _, member = _one(peer)
    return peer.call("DeleteGroups", 2, GroupsNames=[member.group])


@probe
def delete_a_group_without_members(peer: Peer) -> Answer:
    _, member = _one(peer)
    beat(member.connection, member.group, member.id, -1)
    return [peer.call("DeleteGroups", 2, GroupsNames=[member.group]), _described(peer, member.group)]


# --- offsets ----------------------------------------------------------------------------------------------------------


@probe
def a_member_commits(peer: Peer) -> Answer:
    topic, member = _one(peer)
    requested = [{"Name": topic, "PartitionIndexes": [0]}]
    identity = {"MemberId": member.id, "GenerationIdOrMemberEpoch": member.epoch}
    return [
        commit(peer, member.group, topic, **identity),
        committed(peer, member.group, requested, MemberId=member.id, MemberEpoch=member.epoch),
    ]


@probe
def a_member_commits_with_another_epoch(peer: Peer) -> Answer:
    topic, member = _one(peer)
    return [
        [
            commit(peer, member.group, topic, MemberId=member.id, GenerationIdOrMemberEpoch=number, version=version)
            for number in (0, member.epoch + 5, -1)
        ]
        for version in (8, 9)
    ]


@probe
def an_unknown_member_commits(peer: Peer) -> Answer:
    topic, member = _one(peer)
    identity = {"MemberId": "nobody", "GenerationIdOrMemberEpoch": member.epoch}
    return [commit(peer, member.group, topic, version=version, **identity) for version in (8, 9)]


@probe
def a_simple_consumer_commits_beside_members(peer: Peer) -> Answer:
    topic, member = _one(peer)
    return commit(peer, member.group, topic)


@probe
def offsets_are_fetched_with_another_epoch(peer: Peer) -> Answer:
    topic, member = _one(peer)
    requested = [{"Name": topic, "PartitionIndexes": [0]}]
    return [committed(peer, member.group, requested, MemberId=member.id, MemberEpoch=number) for number in (0, 99, -1)]


@probe
def offsets_of_a_subscribed_topic_are_deleted(peer: Peer) -> Answer:
    topic, member = _one(peer)
    other = peer.topic("other")
    requested = [{"Name": name, "Partitions": [{"PartitionIndex": 0}]} for name in (topic, other)]
    response = peer.call("OffsetDelete", 0, GroupId=member.group, Topics=requested)
    return [response["ErrorCode"], by_name(response["Topics"])]


# --- classic requests -------------------------------------------------------------------------------------------------


def _removed(peer: Peer, member: Member, version: int = 5, **row: Any) -> Answer:
    rows = [{"MemberId": "", "GroupInstanceId": None, **row}]
    response = peer.call("LeaveGroup", version, GroupId=member.group, Members=rows)
    for member_row in response["Members"]:
        member_row["MemberId"] = bool(member_row["MemberId"])
    return response


@probe
def an_administrator_removes_a_member(peer: Peer) -> Answer:
    _, member = _one(peer)
    return [_removed(peer, member, MemberId=member.id), member.told(member.beat())]


@probe
def an_administrator_removes_a_static_member(peer: Peer) -> Answer:
    _, member = _one(peer, InstanceId="i")
    return [_removed(peer, member, GroupInstanceId="i"), member.told(member.beat())]


@probe
def an_administrator_removes_nobody(peer: Peer) -> Answer:
    _, member = _one(peer)
    return [_removed(peer, member, MemberId="nobody"), _removed(peer, member, GroupInstanceId="nobody")]


@probe
def a_classic_member_joins(peer: Peer) -> Answer:
    from tests.peers.probes.classic_groups import join

    _, member = _one(peer)
    response = join(peer.connect(), member.group)
    return [response["ErrorCode"], response.get("ProtocolName"), response.get("ProtocolType")]


@probe
def a_classic_heartbeat_of_a_member(peer: Peer) -> Answer:
    _, member = _one(peer)
    fields = {"GroupId": member.group, "GenerationId": member.epoch, "MemberId": member.id}
    return peer.call("Heartbeat", 4, **fields)


@probe
def a_classic_sync_of_a_member(peer: Peer) -> Answer:
    _, member = _one(peer)
    fields = {"GroupId": member.group, "GenerationId": member.epoch, "MemberId": member.id, "Assignments": []}
    return peer.call("SyncGroup", 5, ProtocolType="consumer", ProtocolName="range", **fields)


@probe
def a_consumer_joins_a_classic_group(peer: Peer) -> Answer:
    from tests.peers.probes.classic_groups import stable

    _, group, _ = stable(peer)
    return _first(peer, GroupId=group)


@probe
def a_consumer_joins_where_offsets_were_committed(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    commit(peer, group, topic)
    return [_first(peer, GroupId=group, SubscribedTopicNames=[topic]), _described(peer, group)[group]["GroupState"]]
