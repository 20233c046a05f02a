"""Probes of committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, of simple consumers and of members."""

from __future__ import annotations

import uuid
from typing import Any

from tests.peers.probe import Answer, Peer, attempt, by_name, probe, settled
from tests.peers.probes.classic_groups import stable


def commit(
    peer: Peer, group: str, topic: str, offset: int = 5, *, version: int = 9, partition: int = 0,
    metadata: str | None = "", epoch: int = -1, **fields: Any,
) -> Answer:  # fmt: skip
    """Commit an offset; by default as a simple consumer."""
    row = {"PartitionIndex": partition, "CommittedOffset": offset, "CommittedMetadata": metadata}
    if version >= 6:
        row["CommittedLeaderEpoch"] = epoch
    values = {
        "GroupId": group, "GenerationIdOrMemberEpoch": -1, "MemberId": "",
        "Topics": [{"Name": topic, "Partitions": [row]}], **fields,
    }  # fmt: skip

    def ask() -> dict[str, Any]:
        response = peer.call("OffsetCommit", version, **values)
        return {"ErrorCode": response["Topics"][0]["Partitions"][0]["ErrorCode"], "answer": response}

    return attempt(lambda: settled(ask)["answer"]["Topics"])


def committed(peer: Peer, group: str, topics: list[dict[str, Any]] | None, version: int = 9, **fields: Any) -> Answer:
    """Ask for committed offsets of one group; in versions before 8 the whole answer."""
    if version < 8:
        return peer.attempt("OffsetFetch", version, GroupId=group, Topics=topics, **fields)
    requested = {"GroupId": group, "Topics": topics, **fields}
    response = attempt(lambda: peer.call("OffsetFetch", version, Groups=[requested]))
    return response["Groups"] if isinstance(response, dict) else response


def _of(topic: str, *partitions: int) -> list[dict[str, Any]]:
    return [{"Name": topic, "PartitionIndexes": list(partitions)}]


@probe
def a_simple_consumer_commits(peer: Peer) -> Answer:
    topic, group = peer.topic(partitions=2), peer.name("g")
    return [commit(peer, group, topic), committed(peer, group, _of(topic, 0, 1)), committed(peer, group, None)]


@probe
def metadata_and_epoch_are_kept(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    return [commit(peer, group, topic, metadata="note", epoch=3), committed(peer, group, _of(topic, 0))]


@probe
def null_metadata(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    return [commit(peer, group, topic, metadata=None), committed(peer, group, _of(topic, 0))]


@probe
def metadata_at_the_limit(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    return [commit(peer, group, topic, metadata="m" * size) for size in (4096, 4097)]


@probe
def a_later_commit_without_metadata(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    commit(peer, group, topic, metadata="note", epoch=3)
    return [commit(peer, group, topic, 6), committed(peer, group, _of(topic, 0))]


@probe
def offsets_of_minus_one_and_minus_two(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    return [[commit(peer, group, topic, number), committed(peer, group, _of(topic, 0))] for number in (-1, -2, 2**62)]


@probe
def an_unknown_topic(peer: Peer) -> Answer:
    topic, group = peer.name("none"), peer.name("g")
    return [commit(peer, group, topic), committed(peer, group, _of(topic, 0)), committed(peer, group, None)]


@probe
def an_unknown_partition(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    return [commit(peer, group, topic, partition=9), committed(peer, group, _of(topic, 9))]


@probe
def a_negative_partition(peer: Peer) -> Answer:
    return commit(peer, peer.name("g"), peer.topic(), partition=-1)


@probe
def an_empty_group_id(peer: Peer) -> Answer:
    topic = peer.topic()
    return [commit(peer, "", topic), committed(peer, "", _of(topic, 0))]


@probe
def a_simple_consumer_commits_beside_members(peer: Peer) -> Answer:
    _, group, _ = stable(peer)
    return commit(peer, group, peer.topic())


@probe
def a_member_commits(peer: Peer) -> Answer:
    _, group, joined = stable(peer)
    topic = peer.topic()
    identity = {"GenerationIdOrMemberEpoch": joined["GenerationId"], "MemberId": joined["MemberId"]}
    return [commit(peer, group, topic, **identity), committed(peer, group, _of(topic, 0))]


@probe
def a_member_commits_with_another_generation(peer: Peer) -> Answer:
    _, group, joined = stable(peer)
    topic = peer.topic()
    return [
        commit(peer, group, topic, GenerationIdOrMemberEpoch=number, MemberId=joined["MemberId"])
        for number in (0, 2, -1)
    ]


@probe
def an_unknown_member_commits(peer: Peer) -> Answer:
    _, group, joined = stable(peer)
    return commit(peer, group, peer.topic(), GenerationIdOrMemberEpoch=joined["GenerationId"], MemberId="nobody")


@probe
def an_unknown_instance_commits(peer: Peer) -> Answer:
    _, group, joined = stable(peer, GroupInstanceId="i")
    identity = {"GenerationIdOrMemberEpoch": joined["GenerationId"], "MemberId": joined["MemberId"]}
    topic = peer.topic()
    return [commit(peer, group, topic, GroupInstanceId=name, **identity) for name in ("nobody", "i")]


@probe
def a_generation_and_no_group(peer: Peer) -> Answer:
    topic = peer.topic()
    return [
        commit(peer, peer.name("a"), topic, GenerationIdOrMemberEpoch=3, MemberId="m"),
        commit(peer, peer.name("b"), topic, GenerationIdOrMemberEpoch=3),
        commit(peer, peer.name("c"), topic, MemberId="m"),
        commit(peer, peer.name("d"), topic, GenerationIdOrMemberEpoch=3, MemberId="m", version=8),
    ]


@probe
def a_commit_without_topics(peer: Peer) -> Answer:
    return peer.attempt("OffsetCommit", 9, GroupId=peer.name("g"), MemberId="", Topics=[])


@probe
def a_topic_twice_in_a_commit(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    rows = [
        {"Name": topic, "Partitions": [{"PartitionIndex": 0, "CommittedOffset": offset, "CommittedMetadata": ""}]}
        for offset in (5, 6)
    ]
    response = peer.attempt("OffsetCommit", 9, GroupId=group, MemberId="", Topics=rows)
    return [response, committed(peer, group, _of(topic, 0))]


@probe
def by_topic_id(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    row = {"PartitionIndex": 0, "CommittedOffset": 5, "CommittedMetadata": ""}
    rows = [{"TopicId": topic_id, "Partitions": [row]} for topic_id in (peer.topic_id(topic), uuid.UUID(int=77))]
    response = peer.call("OffsetCommit", 10, GroupId=group, MemberId="", Topics=rows)
    response = {"unknown" if row["TopicId"].int == 77 else "there": row["Partitions"] for row in response["Topics"]}
    requested = [{"TopicId": peer.topic_id(topic), "PartitionIndexes": [0, 1]}]
    return [response, committed(peer, group, requested, 10), committed(peer, group, None, 10)]


@probe
def fetch_of_a_group_that_does_not_exist(peer: Peer) -> Answer:
    topic = peer.topic()
    return [committed(peer, peer.name("none"), _of(topic, 0)), committed(peer, peer.name("none"), None)]


@probe
def fetch_of_no_topics(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    commit(peer, group, topic)
    return [committed(peer, group, []), committed(peer, group, [], 7)]


@probe
def fetch_in_old_versions(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    commit(peer, group, topic)
    return [committed(peer, group, _of(topic, 0), version) for version in (1, 2, 5, 7)]


@probe
def fetch_as_an_unknown_member(peer: Peer) -> Answer:
    _, group, _ = stable(peer)
    topic = peer.topic()
    return [
        committed(peer, group, _of(topic, 0), MemberId="nobody", MemberEpoch=3),
        committed(peer, peer.name("none"), _of(topic, 0), MemberId="nobody", MemberEpoch=3),
    ]


@probe
def fetch_of_two_groups(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    commit(peer, group, topic)
    requested = [{"GroupId": name, "Topics": _of(topic, 0)} for name in (group, peer.name("none"), "")]
    return peer.attempt("OffsetFetch", 9, Groups=requested)


@probe
def offsets_are_deleted(peer: Peer) -> Answer:
    topic, group = peer.topic(partitions=2), peer.name("g")
    commit(peer, group, topic)
    requested = [{"Name": topic, "Partitions": [{"PartitionIndex": 0}, {"PartitionIndex": 1}, {"PartitionIndex": 7}]}]

    def deleted() -> Answer:
        response = peer.call("OffsetDelete", 0, GroupId=group, Topics=requested)
        return [response["ErrorCode"], by_name(response["Topics"][0]["Partitions"], "PartitionIndex")]

    return [deleted(), committed(peer, group, None), deleted()]


@probe
def offsets_of_an_unknown_group_are_deleted(peer: Peer) -> Answer:
    requested = [{"Name": peer.topic(), "Partitions": [{"PartitionIndex": 0}]}]
    return [peer.attempt("OffsetDelete", 0, GroupId=name, Topics=requested) for name in (peer.name("none"), "")]


@probe
def a_group_of_a_simple_consumer_is_described(peer: Peer) -> Answer:
    group = peer.name("g")
    commit(peer, group, peer.topic())
    listed = [row for row in peer.call("ListGroups", 5)["Groups"] if row["GroupId"] == group]
    return [peer.call("DescribeGroups", 6, Groups=[group])["Groups"], listed]


@probe
def a_group_of_a_simple_consumer_is_deleted(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    commit(peer, group, topic)
    return [peer.call("DeleteGroups", 2, GroupsNames=[group]), committed(peer, group, _of(topic, 0))]


@probe
def offsets_of_a_deleted_topic(peer: Peer) -> Answer:
    topic, group = peer.topic(), peer.name("g")
    commit(peer, group, topic)
    peer.call("DeleteTopics", 6, Topics=[{"Name": topic}], TimeoutMs=10_000)
    peer.settle()
    return committed(peer, group, _of(topic, 0))
