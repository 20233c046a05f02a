"""Probes of share groups (KIP-932): heartbeats, sessions, acknowledgements, delivery counts, offsets."""

from __future__ import annotations

import base64
import uuid
from typing import Any

from tests.peers.connection import Connection
from tests.peers.probe import Answer, Peer, attempt, by_name, pick, probe, settled, until
from tests.peers.probes.produce import produce
from tests.peers.record_batches import Record, batch, batches

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0


def share_member_id() -> str:
    """A member id as Java's clients make it up: a UUID in their base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class ShareMember:
    """A member of a share group with its session; `peer.call` on a connection of its own."""

    def __init__(self, peer: Peer, topic: str, group: str = "", **configs: str) -> None:
        self.peer, self.topic, self.group = peer, topic, group or peer.name("g")
        self.connection: Connection = peer.connect()
        self.id, self.epoch, self.session = share_member_id(), 0, 0
        rows = [{"Name": "share.auto.offset.reset", "ConfigOperation": 0, "Value": "earliest"}]
        rows += [
            {"Name": name.replace("_", "."), "ConfigOperation": 0, "Value": value} for name, value in configs.items()
        ]
        response = peer.call(
            "IncrementalAlterConfigs", 1, Resources=[{"ResourceType": 32, "ResourceName": self.group, "Configs": rows}]
        )
        assert response["Responses"][0]["ErrorCode"] == 0, response
        peer.settle()
        response = self.beat(SubscribedTopicNames=[topic])
        assert response["ErrorCode"] == 0, response
        self.topic_id = peer.topic_id(topic)

    def beat(self, **values: Any) -> dict[str, Any]:
        """Send a heartbeat."""
        fields = {"GroupId": self.group, "MemberId": self.id, "MemberEpoch": self.epoch, **values}
        response = settled(lambda: self.connection.call("ShareGroupHeartbeat", 1, **fields))
        if response["ErrorCode"] == 0:
            self.epoch = response["MemberEpoch"]
        return response

    def fetch(self, *acknowledged: tuple[int, int, int], session: int | None = None, **values: Any) -> dict[str, Any]:
        """Fetch in the session, with acknowledgements (first, last, type); the session's epoch goes on."""
        epoch = self.session if session is None else session
        partition: dict[str, Any] = {"PartitionIndex": 0, "AcknowledgementBatches": _ranges(acknowledged)}
        topics = [{"TopicId": self.topic_id, "Partitions": [partition]}]
        fields = {
            "GroupId": self.group, "MemberId": self.id, "ShareSessionEpoch": epoch, "MaxWaitMs": 300, "MinBytes": 1,
            "MaxBytes": 1 << 20, "MaxRecords": 100, "BatchSize": 100, "Topics": topics, **values,
        }  # fmt: skip
        response = self.connection.call("ShareFetch", 1, **fields)
        if session is None and response["ErrorCode"] == 0:
            self.session += 1
        return response

    def acknowledge(self, *acknowledged: tuple[int, int, int], session: int | None = None) -> Answer:
        """Acknowledge outside of a fetch; the codes of the request and of its partitions."""
        epoch = self.session if session is None else session
        partition = {"PartitionIndex": 0, "AcknowledgementBatches": _ranges(acknowledged)}
        response = self.connection.call(
            "ShareAcknowledge", 1, GroupId=self.group, MemberId=self.id, ShareSessionEpoch=epoch,
            Topics=[{"TopicId": self.topic_id, "Partitions": [partition]}],
        )  # fmt: skip
        if session is None and response["ErrorCode"] == 0:
            self.session += 1
        codes = [row["ErrorCode"] for topic in response["Responses"] for row in topic["Partitions"]]
        return {"ErrorCode": response["ErrorCode"], "partitions": [{"ErrorCode": code} for code in codes]}

    def acquired(self, **values: Any) -> list[list[int]]:
        """Fetch until something is acquired; [first offset, last offset, delivery count] of each range."""
        return list(until(lambda: _acquired(self.fetch(**values)), 10.0))


def _ranges(acknowledged: tuple[tuple[int, int, int], ...]) -> list[dict[str, Any]]:
    return [
        {"FirstOffset": first, "LastOffset": last, "AcknowledgeTypes": [acknowledge_type]}
        for first, last, acknowledge_type in acknowledged
    ]


def _acquired(response: dict[str, Any]) -> list[list[int]]:
    return [
        [row["FirstOffset"], row["LastOffset"], row["DeliveryCount"]]
        for topic in response["Responses"]
        for partition in topic["Partitions"]
        for row in partition["AcquiredRecords"]
    ]


def _codes(answer: Any) -> Answer:
    """The error codes of an answer to ShareFetch, and what it acquired."""
    if not isinstance(answer, dict):
        return answer
    rows = [
        pick(partition, "ErrorCode", "AcknowledgeErrorCode")
        for topic in answer["Responses"]
        for partition in topic["Partitions"]
    ]
    return {"ErrorCode": answer["ErrorCode"], "partitions": rows, "acquired": _acquired(answer)}


def _filled(peer: Peer, batches_of: tuple[int, ...] = (1, 1, 1)) -> str:
    topic = peer.topic()
    for count in batches_of:
        produce(peer, topic, batch(*(Record() for _ in range(count))))
    return topic


def _member(peer: Peer, **configs: str) -> ShareMember:
    return ShareMember(peer, _filled(peer), **configs)


# --- heartbeats -------------------------------------------------------------------------------------------------------


def _beat(peer: Peer, **values: Any) -> Answer:
    fields = {
        "GroupId": peer.name("g"), "MemberId": share_member_id(), "MemberEpoch": 0,
        "SubscribedTopicNames": [peer.name("none")], **values,
    }  # fmt: skip
    response = attempt(lambda: settled(lambda: peer.call("ShareGroupHeartbeat", 1, **fields)))
    if isinstance(response, dict):
        response.update(MemberId=bool(response["MemberId"]), MemberEpoch=response["MemberEpoch"] > 0)
        del response["HeartbeatIntervalMs"]
        response["Assignment"] = response["Assignment"] is not None  # Apache Kafka assigns after the first answer
    return response


@probe
def join_a_topic(peer: Peer) -> Answer:
    return _beat(peer, SubscribedTopicNames=[peer.topic(partitions=3)])


@probe
def join_an_unknown_topic(peer: Peer) -> Answer:
    return _beat(peer)


@probe
def join_no_topics(peer: Peer) -> Answer:
    return [_beat(peer, SubscribedTopicNames=value) for value in ([], None)]


@probe
def join_without_ids(peer: Peer) -> Answer:
    return [_beat(peer, MemberId=""), _beat(peer, GroupId="")]


@probe
def join_with_a_member_id_that_is_no_uuid(peer: Peer) -> Answer:
    return _beat(peer, MemberId="m")


@probe
def join_with_another_epoch(peer: Peer) -> Answer:
    return [_beat(peer, MemberEpoch=number) for number in (1, -1, -2)]


@probe
def a_member_with_another_epoch(peer: Peer) -> Answer:
    member = _member(peer)
    fields = {"GroupId": member.group, "MemberId": member.id, "SubscribedTopicNames": None}
    return [_beat(peer, MemberEpoch=member.epoch + shift, **fields) for shift in (0, 5)]


@probe
def a_member_leaves_twice(peer: Peer) -> Answer:
    member = _member(peer)
    fields = {"GroupId": member.group, "MemberId": member.id, "SubscribedTopicNames": None, "MemberEpoch": -1}
    return [_beat(peer, **fields), _beat(peer, **fields)]


# --- sessions ---------------------------------------------------------------------------------------------------------


@probe
def fetch_in_a_new_session(peer: Peer) -> Answer:
    member = _member(peer)
    return [_codes(member.fetch()), member.acquired()]


@probe
def a_session_whose_epoch_is_skipped(peer: Peer) -> Answer:
    member = _member(peer)
    member.fetch()
    return [_codes(member.fetch(session=number)) for number in (5, 0)]


@probe
def a_session_that_was_not_opened(peer: Peer) -> Answer:
    member = _member(peer)
    return _codes(member.fetch(session=3))


@probe
def a_session_that_is_closed(peer: Peer) -> Answer:
    member = _member(peer)
    member.fetch()
    member.acquired()
    return [_codes(member.fetch(session=-1)), _codes(member.fetch(session=-1))]


@probe
def acknowledgements_in_a_first_fetch(peer: Peer) -> Answer:
    member = _member(peer)
    return _codes(member.fetch((0, 0, ACCEPT)))


@probe
def a_fetch_by_somebody_who_is_no_member(peer: Peer) -> Answer:
    member = _member(peer)
    member.id = share_member_id()
    return _codes(attempt(member.fetch))


@probe
def a_fetch_of_no_records(peer: Peer) -> Answer:
    member = _member(peer)
    return [_codes(attempt(lambda number=number: member.fetch(session=0, MaxRecords=number))) for number in (0, -1)]


@probe
def a_fetch_of_an_unknown_topic(peer: Peer) -> Answer:
    member = _member(peer)
    member.topic_id = uuid.UUID(int=4711)
    return _codes(member.fetch())


# --- acknowledgements -------------------------------------------------------------------------------------------------


@probe
def accept(peer: Peer) -> Answer:
    member = _member(peer)
    return [member.acquired(), member.acknowledge((0, 2, ACCEPT)), _codes(member.fetch())]


@probe
def release(peer: Peer) -> Answer:
    member = _member(peer)
    return [member.acquired(), member.acknowledge((0, 2, RELEASE)), member.acquired()]


@probe
def reject(peer: Peer) -> Answer:
    member = _member(peer)
    return [member.acquired(), member.acknowledge((0, 1, REJECT)), _codes(member.fetch())]


@probe
def release_until_the_limit(peer: Peer) -> Answer:
    member = ShareMember(peer, _filled(peer, (1,)))
    counts = []
    for _ in range(5):
        counts += member.acquired()
        member.acknowledge((0, 0, RELEASE))
    return [counts, _codes(member.fetch())]


@probe
def close_sessions_until_the_limit(peer: Peer) -> Answer:
    topic, group, counts = _filled(peer, (1,)), peer.name("g"), []
    for _ in range(5):
        member = ShareMember(peer, topic, group)
        counts += member.acquired()
        member.fetch(session=-1)
        member.beat(MemberEpoch=-1)
    return [counts, _codes(ShareMember(peer, topic, group).fetch())]


@probe
def accept_twice(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return [member.acknowledge((0, 2, ACCEPT)), member.acknowledge((0, 2, ACCEPT))]


@probe
def accept_what_was_not_acquired(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return [member.acknowledge((7, 9, ACCEPT)), member.acknowledge((0, 9, ACCEPT)), member.acknowledge((0, 2, ACCEPT))]


@probe
def accept_what_another_member_holds(peer: Peer) -> Answer:
    first = _member(peer)
    first.acquired()
    second = ShareMember(peer, first.topic, first.group)
    second.fetch()
    return [second.acknowledge((0, 0, ACCEPT)), first.acknowledge((0, 2, ACCEPT))]


@probe
def accept_a_part_of_a_batch(peer: Peer) -> Answer:
    member = ShareMember(peer, _filled(peer, (4,)))
    return [
        member.acquired(), member.acknowledge((1, 2, ACCEPT)), member.acknowledge((0, 0, RELEASE)),
        member.acquired(), member.acknowledge((3, 3, REJECT)),
    ]  # fmt: skip


@probe
def acknowledge_ranges_that_overlap(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return member.acknowledge((0, 1, ACCEPT), (1, 2, ACCEPT))


@probe
def acknowledge_ranges_out_of_order(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return member.acknowledge((2, 2, ACCEPT), (0, 1, ACCEPT))


@probe
def acknowledge_a_range_backwards(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return member.acknowledge((2, 0, ACCEPT))


@probe
def acknowledge_in_no_way(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return [member.acknowledge((0, 0, number)) for number in (5, -1, GAP)]


@probe
def acknowledge_in_as_many_ways_as_records(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    partition = {
        "PartitionIndex": 0,
        "AcknowledgementBatches": [{"FirstOffset": 0, "LastOffset": 2, "AcknowledgeTypes": [ACCEPT, RELEASE, REJECT]}],
    }
    topics = [{"TopicId": member.topic_id, "Partitions": [partition]}]
    fields = {"GroupId": member.group, "MemberId": member.id, "ShareSessionEpoch": member.session, "Topics": topics}
    response = member.connection.call("ShareAcknowledge", 1, **fields)
    member.session += 1
    codes = [row["ErrorCode"] for topic in response["Responses"] for row in topic["Partitions"]]
    return [response["ErrorCode"], codes, member.acquired()]


@probe
def acknowledge_in_fewer_ways_than_records(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    partition = {
        "PartitionIndex": 0,
        "AcknowledgementBatches": [{"FirstOffset": 0, "LastOffset": 2, "AcknowledgeTypes": [ACCEPT, RELEASE]}],
    }
    topics = [{"TopicId": member.topic_id, "Partitions": [partition]}]
    fields = {"GroupId": member.group, "MemberId": member.id, "ShareSessionEpoch": member.session, "Topics": topics}
    response = member.connection.call("ShareAcknowledge", 1, **fields)
    codes = [{"ErrorCode": row["ErrorCode"]} for topic in response["Responses"] for row in topic["Partitions"]]
    return {"ErrorCode": response["ErrorCode"], "partitions": codes}


@probe
def acknowledge_with_another_session_epoch(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return [member.acknowledge((0, 0, ACCEPT), session=number) for number in (0, 9)]


@probe
def acknowledge_within_a_fetch(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return _codes(member.fetch((0, 1, ACCEPT), (2, 2, RELEASE)))


@probe
def renew_in_a_version_before_its(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    return member.acknowledge((0, 0, RENEW))


@probe
def records_of_one_batch_stay_together(peer: Peer) -> Answer:
    member = ShareMember(peer, _filled(peer, (3, 3)))
    return member.acquired(MaxRecords=1)


@probe
def what_is_fetched_holds_whole_batches(peer: Peer) -> Answer:
    member = ShareMember(peer, _filled(peer, (3,)))
    response = until(lambda: (fetched := member.fetch()) and _acquired(fetched) and fetched, 10.0)
    return [row["count"] for row in batches(response["Responses"][0]["Partitions"][0]["Records"])]


# --- described, offsets -----------------------------------------------------------------------------------------------


@probe
def describe_a_group(peer: Peer) -> Answer:
    member = _member(peer)
    rows = peer.call("ShareGroupDescribe", 1, GroupIds=[member.group, peer.name("none"), ""])["Groups"]
    for row in rows:
        row.update(GroupEpoch=row["GroupEpoch"] > 0, AssignmentEpoch=row["AssignmentEpoch"] > 0)
        for member_row in row["Members"]:
            member_row.update(
                MemberId="made up", ClientHost=bool(member_row["ClientHost"]), MemberEpoch=member_row["MemberEpoch"] > 0
            )
            del member_row["Assignment"]
    return by_name(rows, "GroupId")


@probe
def list_a_group(peer: Peer) -> Answer:
    member = _member(peer)

    def listed(**filters: Any) -> Answer:
        return [row for row in peer.call("ListGroups", 5, **filters)["Groups"] if row["GroupId"] == member.group]

    return [listed(), listed(TypesFilter=["share"]), listed(TypesFilter=["Share"]), listed(TypesFilter=["consumer"])]


def _offsets(peer: Peer, group: str, topics: list[dict[str, Any]] | None) -> Answer:
    response = peer.call("DescribeShareGroupOffsets", 0, Groups=[{"GroupId": group, "Topics": topics}])
    return response["Groups"]


@probe
def offsets_of_a_group(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    member.acknowledge((0, 1, ACCEPT))
    requested = [{"TopicName": member.topic, "Partitions": [0]}]
    until(lambda: _offsets(peer, member.group, requested)[0]["Topics"][0]["Partitions"][0]["StartOffset"] == 2)
    return [_offsets(peer, member.group, requested), _offsets(peer, member.group, None)]


@probe
def offsets_of_what_does_not_exist(peer: Peer) -> Answer:
    member = _member(peer)
    requested = [{"TopicName": peer.name("none"), "Partitions": [0]}]
    return [_offsets(peer, member.group, requested), _offsets(peer, peer.name("none"), requested)]


def _altered(peer: Peer, group: str, topic: str, offset: int, partition: int = 0) -> Answer:
    rows = [{"TopicName": topic, "Partitions": [{"PartitionIndex": partition, "StartOffset": offset}]}]
    return peer.attempt("AlterShareGroupOffsets", 0, GroupId=group, Topics=rows)


@probe
def offsets_are_altered_beside_members(peer: Peer) -> Answer:
    member = _member(peer)
    return _altered(peer, member.group, member.topic, 1)


@probe
def offsets_are_altered(peer: Peer) -> Answer:
    member = _member(peer)
    member.acquired()
    member.fetch(session=-1)
    member.beat(MemberEpoch=-1)
    altered = [_altered(peer, member.group, member.topic, 1), _altered(peer, member.group, peer.name("none"), 1)]
    altered.append(_altered(peer, member.group, member.topic, 1, 9))
    return [altered, _offsets(peer, member.group, [{"TopicName": member.topic, "Partitions": [0]}])]


@probe
def offsets_are_deleted(peer: Peer) -> Answer:
    member = _member(peer)
    member.fetch(session=0)
    fields = {"GroupId": member.group, "Topics": [{"TopicName": member.topic}, {"TopicName": peer.name("none")}]}
    beside = peer.call("DeleteShareGroupOffsets", 0, **fields)
    member.beat(MemberEpoch=-1)
    deleted = peer.call("DeleteShareGroupOffsets", 0, **fields)
    return [beside, deleted["ErrorCode"], by_name(deleted["Responses"], "TopicName")]


@probe
def delete_a_group(peer: Peer) -> Answer:
    member = _member(peer)
    beside = peer.call("DeleteGroups", 2, GroupsNames=[member.group])
    member.beat(MemberEpoch=-1)
    return [beside, peer.call("DeleteGroups", 2, GroupsNames=[member.group])]


@probe
def a_consumer_joins_a_share_group(peer: Peer) -> Answer:
    from tests.peers.probes.classic_groups import join
    from tests.peers.probes.consumer_groups import beat, member_id

    member = _member(peer)
    consumer = beat(peer.connect(), member.group, member_id(), 0, SubscribedTopicNames=[member.topic])
    return [pick(consumer, "ErrorCode"), pick(join(peer.connect(), member.group), "ErrorCode")]


@probe
def a_share_consumer_joins_a_consumer_group(peer: Peer) -> Answer:
    from tests.peers.probes.consumer_groups import Member

    topic = peer.topic()
    member = Member(peer, peer.name("g"), [topic])
    return _beat(peer, GroupId=member.group, SubscribedTopicNames=[topic])
