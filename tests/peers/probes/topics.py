"""Probes of topics: creation, deletion, partitions, deletion of records, DescribeTopicPartitions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tests.peers.probe import Answer, Peer, add, by_name, pick, probe
from tests.peers.probes.cluster import NAMES

_TIMEOUT = {"timeoutMs": 10_000}
_RESULT = "ErrorCode", "ErrorMessage", "NumPartitions", "ReplicationFactor"


def create(peer: Peer, *topics: dict[str, Any], version: int | None = None, **more: Any) -> list[dict[str, Any]]:
    """Create topics of one partition unless they say otherwise; return the essential of each result."""
    requested = [{"NumPartitions": 1, "ReplicationFactor": 1, **topic} for topic in topics]
    response = peer.call("CreateTopics", version, Topics=requested, **_TIMEOUT, **more)
    return [pick(topic_row, "Name", *_RESULT) for topic_row in response["Topics"]]


# --- creation ---------------------------------------------------------------------------------------------------------


def _creation(**topic: Any) -> Callable[[Peer], Answer]:
    return lambda peer: create(peer, {"Name": peer.name("t"), **topic})


_CREATED: dict[str, dict[str, Any]] = {
    "no partitions": {"NumPartitions": 0},
    "the default number of partitions": {"NumPartitions": -1},
    "minus two partitions": {"NumPartitions": -2},
    "no replicas": {"ReplicationFactor": 0},
    "the default number of replicas": {"ReplicationFactor": -1},
    "minus two replicas": {"ReplicationFactor": -2},
    "three replicas": {"ReplicationFactor": 3},
    "an assignment": {
        "NumPartitions": -1,
        "ReplicationFactor": -1,
        "Assignments": [{"PartitionIndex": 0, "BrokerIds": [0]}, {"PartitionIndex": 1, "BrokerIds": [0]}],
    },
    "an assignment and a number": {"Assignments": [{"PartitionIndex": 0, "BrokerIds": [0]}]},
    "an assignment and a number of replicas": {
        "NumPartitions": -1,
        "Assignments": [{"PartitionIndex": 0, "BrokerIds": [0]}],
    },
    "an assignment with a gap": {
        "NumPartitions": -1,
        "ReplicationFactor": -1,
        "Assignments": [{"PartitionIndex": 0, "BrokerIds": [0]}, {"PartitionIndex": 2, "BrokerIds": [0]}],
    },
    "an assignment of a partition twice": {
        "NumPartitions": -1,
        "ReplicationFactor": -1,
        "Assignments": [{"PartitionIndex": 0, "BrokerIds": [0]}, {"PartitionIndex": 0, "BrokerIds": [0]}],
    },
    "an assignment to nobody": {
        "NumPartitions": -1,
        "ReplicationFactor": -1,
        "Assignments": [{"PartitionIndex": 0, "BrokerIds": []}],
    },
    "an assignment to an unknown broker": {
        "NumPartitions": -1,
        "ReplicationFactor": -1,
        "Assignments": [{"PartitionIndex": 0, "BrokerIds": [77]}],
    },
    "an assignment to a broker twice": {
        "NumPartitions": -1,
        "ReplicationFactor": -1,
        "Assignments": [{"PartitionIndex": 0, "BrokerIds": [0, 0]}],
    },
    "an unknown configuration": {"Configs": [{"Name": "no.such.thing", "Value": "1"}]},
    "a configuration of the broker": {"Configs": [{"Name": "log.retention.hours", "Value": "1"}]},
    "a configuration without a value": {"Configs": [{"Name": "retention.ms", "Value": None}]},
    "an empty value": {"Configs": [{"Name": "retention.ms", "Value": ""}]},
    "a configuration twice": {
        "Configs": [{"Name": "retention.ms", "Value": "1"}, {"Name": "retention.ms", "Value": "2"}]
    },
    "a configuration without a name": {"Configs": [{"Name": "", "Value": "1"}]},
    "a value with blanks": {"Configs": [{"Name": "retention.ms", "Value": " 1000 "}]},
    "a value that is no number": {"Configs": [{"Name": "retention.ms", "Value": "an hour"}]},
    "a value beyond a long": {"Configs": [{"Name": "retention.ms", "Value": str(2**63)}]},
    "min.compaction.lag.ms over max": {
        "Configs": [
            {"Name": "min.compaction.lag.ms", "Value": "2000"},
            {"Name": "max.compaction.lag.ms", "Value": "1000"},
        ]
    },
    "remote storage": {"Configs": [{"Name": "remote.storage.enable", "Value": "true"}]},
    "local.retention.ms over retention.ms": {
        "Configs": [{"Name": "local.retention.ms", "Value": "2000"}, {"Name": "retention.ms", "Value": "1000"}]
    },
    "min.insync.replicas over the replicas": {"Configs": [{"Name": "min.insync.replicas", "Value": "3"}]},
    "the version of message formats": {"Configs": [{"Name": "message.format.version", "Value": "2.8"}]},
    "followers throttled by name": {
        "Configs": [{"Name": "follower.replication.throttled.replicas", "Value": "0:0,1:0"}]
    },
    "followers throttled badly": {"Configs": [{"Name": "follower.replication.throttled.replicas", "Value": "0-0"}]},
}
for _label, _topic in _CREATED.items():
    add(f"topics: create with {_label}", _creation(**_topic))


def _named(name: str) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        return create(peer, {"Name": name}, validateOnly=True)

    return question


for _label, _text in NAMES.items():
    add(f"topics: create {_label}", _named(_text))


@probe
def create_in_every_version(peer: Peer) -> Answer:
    answers = {}
    for version in range(peer.oldest("CreateTopics"), peer.newest("CreateTopics") + 1):
        topic = {"Name": peer.name(f"v{version}"), "NumPartitions": 2, "ReplicationFactor": 1}
        answers[str(version)] = peer.call("CreateTopics", version, Topics=[topic], **_TIMEOUT)
        for topic_row in answers[str(version)]["Topics"]:
            topic_row.pop("Configs", None)
    return answers


@probe
def create_the_same_name_twice(peer: Peer) -> Answer:
    name = peer.name("t")
    return create(peer, {"Name": name}, {"Name": name})


@probe
def create_a_name_twice_beside_another(peer: Peer) -> Answer:
    name = peer.name("t")
    created = create(peer, {"Name": name}, {"Name": peer.name("other")}, {"Name": name})
    return sorted(created, key=lambda topic_row: str(topic_row["Name"]))


@probe
def create_what_exists(peer: Peer) -> Answer:
    return create(peer, {"Name": peer.topic()})


@probe
def create_what_exists_with_nonsense(peer: Peer) -> Answer:
    return create(peer, {"Name": peer.topic(), "NumPartitions": -7, "Configs": [{"Name": "x", "Value": "y"}]})


@probe
def validate_what_exists(peer: Peer) -> Answer:
    return create(peer, {"Name": peer.topic()}, validateOnly=True)


@probe
def validate_only_creates_nothing(peer: Peer) -> Answer:
    name = peer.name("t")
    first = create(peer, {"Name": name}, validateOnly=True)
    peer.settle()
    return [first, peer.call("Metadata", Topics=[{"Name": name}], AllowAutoTopicCreation=False)["Topics"]]


@probe
def names_that_collide(peer: Peer) -> Answer:
    """Metrics replace dots by underscores, so Apache Kafka refuses two names that differ in these alone."""
    first = create(peer, {"Name": peer.name("a.b")})
    return [
        first,
        create(peer, {"Name": peer.name("a_b")}),
        create(peer, {"Name": peer.name("a_b")}, validateOnly=True),
    ]


@probe
def names_that_collide_in_one_request(peer: Peer) -> Answer:
    return create(peer, {"Name": peer.name("c.d")}, {"Name": peer.name("c_d")})


@probe
def names_with_dots_and_underscores_that_do_not_collide(peer: Peer) -> Answer:
    return create(peer, {"Name": peer.name("e.f_g")}, {"Name": peer.name("e-f-g")})


@probe
def a_deleted_name_collides_no_more(peer: Peer) -> Answer:
    first = peer.topic("h.i")
    peer.call("DeleteTopics", TimeoutMs=10_000, Topics=[{"Name": first}])
    return create(peer, {"Name": first.replace(".", "_")})


@probe
def create_with_a_timeout_of_nothing(peer: Peer) -> Answer:
    topic = {"Name": peer.name("t"), "NumPartitions": 1, "ReplicationFactor": 1}
    first = peer.call("CreateTopics", Topics=[topic], timeoutMs=0)["Topics"][0]
    peer.settle()
    return [pick(first, "ErrorCode"), create(peer, topic)]


@probe
def create_many_at_once(peer: Peer) -> Answer:
    return [
        topic_row["ErrorCode"]
        for topic_row in create(peer, *({"Name": peer.name(f"t{number}")} for number in range(20)))
    ]


@probe
def create_10000_partitions(peer: Peer) -> Answer:
    return create(peer, {"Name": peer.name("t"), "NumPartitions": 10_001}, validateOnly=True)


@probe
def create_without_any_right(peer: Peer) -> Answer:
    topic = {"Name": peer.name("t"), "NumPartitions": 1, "ReplicationFactor": 1}
    return peer.login().call("CreateTopics", 7, Topics=[topic], **_TIMEOUT)


@probe
def a_created_topic_shows_its_configurations(peer: Peer) -> Answer:
    topic = {
        "Name": peer.name("t"),
        "NumPartitions": 1,
        "ReplicationFactor": 1,
        "Configs": [{"Name": "retention.ms", "Value": "1000"}, {"Name": "cleanup.policy", "Value": "compact"}],
    }
    created = peer.call("CreateTopics", Topics=[topic], **_TIMEOUT)["Topics"][0]
    return {config["Name"]: config for config in created["Configs"] if not config["Name"].startswith("odradek.")}


# --- deletion ---------------------------------------------------------------------------------------------------------


def _delete(peer: Peer, *topics: dict[str, Any]) -> Answer:
    return peer.call("DeleteTopics", Topics=list(topics), TimeoutMs=10_000)["Responses"]


@probe
def delete_by_name(peer: Peer) -> Answer:
    return _delete(peer, {"Name": peer.topic()})


@probe
def delete_by_id(peer: Peer) -> Answer:
    return _delete(peer, {"Name": None, "TopicId": peer.topic_id(peer.topic())})


@probe
def delete_by_name_and_id(peer: Peer) -> Answer:
    topic = peer.topic()
    return _delete(peer, {"Name": topic, "TopicId": peer.topic_id(topic)})


@probe
def delete_by_neither(peer: Peer) -> Answer:
    return _delete(peer, {"Name": None})


@probe
def delete_a_name_twice(peer: Peer) -> Answer:
    topic = peer.topic()
    return _delete(peer, {"Name": topic}, {"Name": topic})


@probe
def delete_an_id_twice(peer: Peer) -> Answer:
    topic = {"Name": None, "TopicId": peer.topic_id(peer.topic())}
    return _delete(peer, topic, topic)


@probe
def delete_a_name_and_its_id(peer: Peer) -> Answer:
    topic = peer.topic()
    return _delete(peer, {"Name": topic}, {"Name": None, "TopicId": peer.topic_id(topic)})


@probe
def delete_an_unknown_id(peer: Peer) -> Answer:
    return _delete(peer, {"Name": None, "TopicId": uuid.UUID(int=78)})


@probe
def delete_and_delete_again(peer: Peer) -> Answer:
    topic = peer.topic()
    _delete(peer, {"Name": topic})
    peer.settle()
    return _delete(peer, {"Name": topic})


@probe
def delete_in_the_oldest_version(peer: Peer) -> Answer:
    names = [peer.topic(), peer.name("missing")]
    return by_name(peer.call("DeleteTopics", 1, TopicNames=names, TimeoutMs=10_000)["Responses"])


@probe
def delete_without_any_right(peer: Peer) -> Answer:
    topic = peer.topic()
    requested = [{"Name": topic}, {"Name": peer.name("missing")}, {"Name": None, "TopicId": peer.topic_id(topic)}]
    response = peer.login().call("DeleteTopics", 6, Topics=requested, TimeoutMs=10_000)
    return sorted((pick(topic_row, "Name", "ErrorCode") for topic_row in response["Responses"]), key=str)


# --- partitions -------------------------------------------------------------------------------------------------------


def _growth(count: int, assignments: Sequence[Sequence[int]] | None = None) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        rows = None if assignments is None else [{"BrokerIds": list(assignment)} for assignment in assignments]
        topic = {"Name": peer.topic(partitions=2), "Count": count, "Assignments": rows}
        results = peer.call("CreatePartitions", Topics=[topic], TimeoutMs=10_000)["Results"]
        peer.settle()
        described = peer.call("Metadata", Topics=[{"Name": topic["Name"]}])["Topics"][0]
        return [results, len(described["Partitions"])]

    return question


for _label, _count, _assigned in (
    ("one more", 3, None),
    ("the same number", 2, None),
    ("one less", 1, None),
    ("none", 0, None),
    ("minus one", -1, None),
    ("20000", 20_000, None),
    ("one more with its broker", 3, [[0]]),
    ("one more with two brokers", 3, [[0, 0]]),
    ("one more with an unknown broker", 3, [[77]]),
    ("one more with nobody", 3, [[]]),
    ("one more with an empty list of assignments", 3, []),
    ("one more with two assignments", 3, [[0], [0]]),
    ("two more with one assignment", 4, [[0]]),
):
    add(f"topics: grow by {_label}" if _count > 2 else f"topics: grow to {_label}", _growth(_count, _assigned))


@probe
def grow_a_name_twice(peer: Peer) -> Answer:
    topic = peer.topic()
    requested = [{"Name": topic, "Count": 2, "Assignments": None}, {"Name": topic, "Count": 3, "Assignments": None}]
    return peer.call("CreatePartitions", Topics=requested, TimeoutMs=10_000)["Results"]


@probe
def validate_a_growth(peer: Peer) -> Answer:
    topic = {"Name": peer.topic(), "Count": 2, "Assignments": None}
    results = peer.call("CreatePartitions", Topics=[topic], TimeoutMs=10_000, ValidateOnly=True)["Results"]
    peer.settle()
    return [results, len(peer.call("Metadata", Topics=[{"Name": topic["Name"]}])["Topics"][0]["Partitions"])]


@probe
def grow_without_any_right(peer: Peer) -> Answer:
    requested = [{"Name": name, "Count": 2, "Assignments": None} for name in (peer.topic(), peer.name("missing"))]
    response = peer.login().call("CreatePartitions", 3, Topics=requested, TimeoutMs=10_000)
    return sorted((pick(result, "Name", "ErrorCode") for result in response["Results"]), key=str)


# --- deletion of records ----------------------------------------------------------------------------------------------


def _deletion(offset: int, partition: int = 0, **configs: Any) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        topic = peer.topic(**configs)
        requested = [{"PartitionIndex": partition, "Offset": offset}]
        return peer.call("DeleteRecords", Topics=[{"Name": topic, "Partitions": requested}], TimeoutMs=10_000)["Topics"]

    return question


add("topics: delete records up to 0 of none", _deletion(0))
add("topics: delete records up to the end of none", _deletion(-1))
add("topics: delete records up to 1 of none", _deletion(1))
add("topics: delete records up to -2", _deletion(-2))
add("topics: delete records of an unknown partition", _deletion(0, partition=9))
add("topics: delete records of a negative partition", _deletion(0, partition=-1))
add("topics: delete records of a compacted topic", _deletion(0, cleanup_policy="compact"))
add("topics: delete records of a topic that is compacted and deleted", _deletion(0, cleanup_policy="compact,delete"))


@probe
def delete_records_of_a_partition_twice(peer: Peer) -> Answer:
    rows = [{"PartitionIndex": 0, "Offset": 0}, {"PartitionIndex": 0, "Offset": 5}]
    return peer.call("DeleteRecords", Topics=[{"Name": peer.topic(), "Partitions": rows}], TimeoutMs=10_000)["Topics"]


@probe
def delete_records_of_a_topic_twice(peer: Peer) -> Answer:
    topic = {"Name": peer.topic(), "Partitions": [{"PartitionIndex": 0, "Offset": 0}]}
    return peer.call("DeleteRecords", Topics=[topic, topic], TimeoutMs=10_000)["Topics"]


@probe
def delete_records_without_any_right(peer: Peer) -> Answer:
    topics = [
        {"Name": name, "Partitions": [{"PartitionIndex": 0, "Offset": 0}]} for name in (peer.topic(), peer.name("no"))
    ]
    return by_name(peer.login().call("DeleteRecords", 2, Topics=topics, TimeoutMs=10_000)["Topics"])


# --- DescribeTopicPartitions ------------------------------------------------------------------------------------------


def _cursor(label: str, cursor: Callable[[str, str], Any], limit: int = 2000) -> None:
    def question(peer: Peer) -> Answer:
        first, second = peer.topic("a", partitions=3), peer.topic("b", partitions=3)
        response = peer.attempt(
            "DescribeTopicPartitions",
            Topics=[{"Name": second}, {"Name": first}],
            ResponsePartitionLimit=limit,
            Cursor=cursor(first, second),
        )
        if isinstance(response, str):
            return response
        topics = [
            {
                **pick(topic_row, "Name", "ErrorCode"),
                "Partitions": [part["PartitionIndex"] for part in topic_row["Partitions"]],
            }
            for topic_row in response["Topics"]
        ]
        return {"topics": topics, "NextCursor": response["NextCursor"]}

    add(f"topics: describe partitions {label}", question)


_cursor("without a cursor", lambda first, second: None)
_cursor("from the first topic", lambda first, second: {"TopicName": first, "PartitionIndex": 0})
_cursor("from the middle of a topic", lambda first, second: {"TopicName": first, "PartitionIndex": 2})
_cursor("from the second topic", lambda first, second: {"TopicName": second, "PartitionIndex": 1})
_cursor("from beyond a topic's partitions", lambda first, second: {"TopicName": first, "PartitionIndex": 3})
_cursor("from far beyond a topic's partitions", lambda first, second: {"TopicName": first, "PartitionIndex": 99})
_cursor("from a negative partition", lambda first, second: {"TopicName": first, "PartitionIndex": -1})
_cursor("from a missing topic between", lambda first, second: {"TopicName": first + "x", "PartitionIndex": 1})
_cursor("from a missing topic before", lambda first, second: {"TopicName": "A", "PartitionIndex": 1})
_cursor("from a missing topic behind", lambda first, second: {"TopicName": "z", "PartitionIndex": 1})
_cursor("from an empty name", lambda first, second: {"TopicName": "", "PartitionIndex": 0})
_cursor("up to 4", lambda first, second: None, limit=4)
_cursor("up to 3", lambda first, second: None, limit=3)
_cursor("up to 6", lambda first, second: None, limit=6)
_cursor("up to 0", lambda first, second: None, limit=0)
_cursor("up to -1", lambda first, second: None, limit=-1)
_cursor("up to 2 from the middle", lambda first, second: {"TopicName": first, "PartitionIndex": 2}, limit=2)


@probe
def describe_partitions_in_full(peer: Peer) -> Answer:
    topic = peer.topic(partitions=2)
    return peer.call("DescribeTopicPartitions", Topics=[{"Name": topic}, {"Name": topic}, {"Name": peer.name("no")}])


@probe
def describe_partitions_of_a_bad_name(peer: Peer) -> Answer:
    return by_name(peer.call("DescribeTopicPartitions", Topics=[{"Name": "a/b"}, {"Name": ""}])["Topics"])


@probe
def describe_partitions_up_to_a_limit_with_a_missing_topic(peer: Peer) -> Answer:
    topic = peer.topic("b", partitions=2)
    requested = [{"Name": peer.name(name)} for name in ("a", "c", "d")]
    response = peer.call("DescribeTopicPartitions", Topics=[*requested, {"Name": topic}], ResponsePartitionLimit=2)
    return [[pick(topic_row, "Name", "ErrorCode") for topic_row in response["Topics"]], response["NextCursor"]]


@probe
def describe_partitions_without_any_right(peer: Peer) -> Answer:
    requested = [{"Name": peer.topic()}, {"Name": peer.name("missing")}]
    return by_name(peer.login().call("DescribeTopicPartitions", 0, Topics=requested)["Topics"])
