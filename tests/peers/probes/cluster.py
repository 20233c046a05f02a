"""Probes of the cluster: versions, metadata, coordinators, log directories, and APIs of brokers and administrators."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.peers.probe import Answer, Peer, add, attempt, by_name, pick, probe
from tests.peers.probes.every_api import REQUESTS

_SOFTWARE = {"ClientSoftwareName": "probe", "ClientSoftwareVersion": "1.0"}
_OPERATIONS = "TopicAuthorizedOperations"


def _versions(peer: Peer) -> dict[str, list[int]]:
    rows = peer.call("ApiVersions", 3, **_SOFTWARE)["ApiKeys"]
    return {peer.schemas.names[row["ApiKey"]]: [row["MinVersion"], row["MaxVersion"]] for row in rows}


# --- versions ---------------------------------------------------------------------------------------------------------


def _versions_of(api: str) -> Callable[[Peer], Answer]:
    return lambda peer: _versions(peer).get(api)


_OF_CLIENTS = (*REQUESTS, "ApiVersions", "SaslHandshake", "SaslAuthenticate")
for _api in _OF_CLIENTS:
    add(f"cluster: versions of {_api}", _versions_of(_api))


@probe
def versions_of_the_apis_of_brokers(peer: Peer) -> Answer:
    return {api: versions for api, versions in _versions(peer).items() if api in _OF_BROKERS}


@probe
def other_apis(peer: Peer) -> Answer:
    return {api: versions for api, versions in _versions(peer).items() if api not in (*_OF_BROKERS, *_OF_CLIENTS)}


@probe
def features(peer: Peer) -> Answer:
    response = peer.call("ApiVersions", 4, **_SOFTWARE)
    return {
        "supported": by_name(response["SupportedFeatures"]),
        "finalized": by_name(response["FinalizedFeatures"]),
        "epoch is known": response["FinalizedFeaturesEpoch"] >= 0,
    }


def _software(name: str, version: str) -> Callable[[Peer], Answer]:
    return lambda peer: pick(
        peer.call("ApiVersions", 3, ClientSoftwareName=name, ClientSoftwareVersion=version), "ErrorCode"
    )


for _label, _name, _number in (
    ("empty names", "", ""),
    ("an empty version", "probe", ""),
    ("a name with blanks", "a b", "1"),
    ("a name that begins with a dot", ".a", "1"),
    ("a version with a plus", "probe", "1.0+x"),
    ("letters that are not ASCII", "pröbe", "1"),
    ("a long name", "a" * 300, "1"),
    ("a name that ends with a hyphen", "a-", "1"),
):
    add(f"cluster: ApiVersions from {_label}", _software(_name, _number))


@probe
def api_versions_of_the_future(peer: Peer) -> Answer:
    connection = peer.connect()
    connection.send_body("ApiVersions", 99, b"")
    response = connection.receive("ApiVersions", 0)
    return {"ErrorCode": response["ErrorCode"], "APIs are there": len(response["ApiKeys"]) > 0}


@probe
def a_connection_goes_on_after_api_versions_of_the_future(peer: Peer) -> Answer:
    connection = peer.connect()
    connection.send_body("ApiVersions", 99, b"")
    connection.receive("ApiVersions", 0)
    return connection.call("ApiVersions", 3, **_SOFTWARE)["ErrorCode"]


# --- APIs of brokers and administrators of replicas ------------------------------------------------------------------

_OF_BROKERS: Mapping[str, Mapping[str, Any]] = {
    "WriteTxnMarkers": {"Markers": []},
    "AlterReplicaLogDirs": {"Dirs": []},
    "CreateDelegationToken": {"Renewers": [], "MaxLifetimeMs": -1},
    "RenewDelegationToken": {"Hmac": b"x", "RenewPeriodMs": -1},
    "ExpireDelegationToken": {"Hmac": b"x", "ExpiryTimePeriodMs": -1},
    "DescribeDelegationToken": {"Owners": None},
    "ElectLeaders": {"TopicPartitions": [], "TimeoutMs": 1000},
    "AlterPartitionReassignments": {"Topics": [], "TimeoutMs": 1000},
    "ListPartitionReassignments": {"Topics": [], "TimeoutMs": 1000},
    "DescribeQuorum": {"Topics": []},
    "UpdateFeatures": {"FeatureUpdates": [], "timeoutMs": 1000},
    "UnregisterBroker": {"BrokerId": 99},
    "UnregisterController": {},
    "AddRaftVoter": {},
    "RemoveRaftVoter": {},
    "InitializeShareGroupState": {"GroupId": "g", "Topics": []},
    "ReadShareGroupState": {"GroupId": "g", "Topics": []},
    "WriteShareGroupState": {"GroupId": "g", "Topics": []},
    "DeleteShareGroupState": {"GroupId": "g", "Topics": []},
    "ReadShareGroupStateSummary": {"GroupId": "g", "Topics": []},
}


def _replicas(api: str) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        response = peer.attempt(api, peer.newest(api), **_OF_BROKERS[api])
        return pick(response, "ErrorCode") if isinstance(response, dict) else response

    return question


for _api in (
    "AlterReplicaLogDirs",
    "DescribeDelegationToken",
    "ElectLeaders",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "UpdateFeatures",
    "WriteTxnMarkers",
):
    add(f"cluster: {_api} of nothing", _replicas(_api))


@probe
def elect_the_leader_that_leads(peer: Peer) -> Answer:
    topic = peer.topic()
    requested = [{"Topic": topic, "Partitions": [0, 7]}]
    return peer.attempt("ElectLeaders", ElectionType=0, TopicPartitions=requested, TimeoutMs=5000)


@probe
def move_a_partition_to_the_broker_that_has_it(peer: Peer) -> Answer:
    topic = peer.topic()
    partitions = [{"PartitionIndex": 0, "Replicas": [0]}]
    return peer.attempt(
        "AlterPartitionReassignments", Topics=[{"Name": topic, "Partitions": partitions}], TimeoutMs=5000
    )


@probe
def reassignments_of_a_topic(peer: Peer) -> Answer:
    topic = peer.topic()
    return peer.attempt("ListPartitionReassignments", Topics=[{"Name": topic, "PartitionIndexes": [0]}], TimeoutMs=5000)


# --- the cluster ------------------------------------------------------------------------------------------------------


@probe
def describe(peer: Peer) -> Answer:
    return peer.call("DescribeCluster")


@probe
def describe_with_operations(peer: Peer) -> Answer:
    return peer.call("DescribeCluster", IncludeClusterAuthorizedOperations=True)["ClusterAuthorizedOperations"]


@probe
def describe_the_controllers(peer: Peer) -> Answer:
    return peer.call("DescribeCluster", EndpointType=2)


@probe
def describe_endpoints_of_an_unknown_type(peer: Peer) -> Answer:
    return peer.call("DescribeCluster", EndpointType=7)


@probe
def describe_with_fenced_brokers(peer: Peer) -> Answer:
    return peer.call("DescribeCluster", IncludeFencedBrokers=True)


# --- metadata ---------------------------------------------------------------------------------------------------------


@probe
def metadata_of_a_topic_in_every_version(peer: Peer) -> Answer:
    topic = peer.topic(partitions=2)
    versions = range(peer.oldest("Metadata"), peer.newest("Metadata") + 1)
    return {str(version): peer.call("Metadata", version, Topics=[{"Name": topic}]) for version in versions}


@probe
def metadata_of_a_name_twice(peer: Peer) -> Answer:
    topic = peer.topic()
    response = peer.call("Metadata", Topics=[{"Name": topic}, {"Name": topic}])
    return [pick(topic_row, "ErrorCode", "Name") for topic_row in response["Topics"]]


@probe
def metadata_of_an_id_twice(peer: Peer) -> Answer:
    topic = {"Name": None, "TopicId": peer.topic_id(peer.topic())}
    response = peer.call("Metadata", Topics=[topic, topic])
    return [pick(topic_row, "ErrorCode", "Name", "TopicId") for topic_row in response["Topics"]]


@probe
def metadata_of_an_id_and_its_name(peer: Peer) -> Answer:
    topic = peer.topic()
    requested = [{"Name": topic, "TopicId": peer.topic_id(topic)}]
    return peer.attempt("Metadata", Topics=requested)


@probe
def metadata_of_an_id_beside_a_name(peer: Peer) -> Answer:
    one, other = peer.topic("a"), peer.topic("b")
    response = peer.attempt("Metadata", Topics=[{"Name": None, "TopicId": peer.topic_id(one)}, {"Name": other}])
    return (
        response
        if isinstance(response, str)
        else [pick(topic_row, "ErrorCode", "Name") for topic_row in response["Topics"]]
    )


@probe
def metadata_of_an_unknown_id(peer: Peer) -> Answer:
    response = peer.call("Metadata", Topics=[{"Name": None, "TopicId": uuid.UUID(int=77)}])
    return response["Topics"]


@probe
def metadata_of_neither_name_nor_id(peer: Peer) -> Answer:
    return peer.attempt("Metadata", Topics=[{"Name": None}])


@probe
def metadata_of_no_topics(peer: Peer) -> Answer:
    return {str(version): len(peer.call("Metadata", version, Topics=[])["Topics"]) for version in (1, 9, 12)}


@probe
def metadata_of_all_topics_in_version_0(peer: Peer) -> Answer:
    topic = peer.topic()
    return topic in by_name(peer.call("Metadata", 0, Topics=[])["Topics"])


@probe
def metadata_of_all_topics(peer: Peer) -> Answer:
    topic = peer.topic()
    return by_name(peer.call("Metadata", Topics=None)["Topics"])[topic]


@probe
def metadata_of_internal_topics(peer: Peer) -> Answer:
    names = "__consumer_offsets", "__transaction_state"
    response = peer.call("Metadata", Topics=[{"Name": name} for name in names])
    return {topic_row["Name"]: pick(topic_row, "ErrorCode", "IsInternal") for topic_row in response["Topics"]}


@probe
def metadata_with_operations(peer: Peer) -> Answer:
    topic = peer.topic()
    response = peer.call("Metadata", Topics=[{"Name": topic}], IncludeTopicAuthorizedOperations=True)
    return response["Topics"][0][_OPERATIONS]


@probe
def metadata_with_operations_of_the_cluster(peer: Peer) -> Answer:
    response = peer.call("Metadata", 8, Topics=[], IncludeClusterAuthorizedOperations=True)
    return response["ClusterAuthorizedOperations"]


@probe
def metadata_with_operations_of_a_user(peer: Peer) -> Answer:
    response = peer.login().call("Metadata", 12, Topics=None, IncludeTopicAuthorizedOperations=True)
    return [topic_row for topic_row in response["Topics"] if peer.suffix in topic_row["Name"]]


def _named(name: str) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        response = peer.attempt("Metadata", Topics=[{"Name": name}], AllowAutoTopicCreation=True)
        return response if isinstance(response, str) else [topic_row["ErrorCode"] for topic_row in response["Topics"]]

    return question


NAMES = {
    "an empty name": "",
    "a dot": ".",
    "two dots": "..",
    "249 characters": "n" * 249,
    "250 characters": "n" * 250,
    "a slash": "a/b",
    "a blank": "a b",
    "a letter that is not ASCII": "tøpic",
    "a colon": "a:b",
    "a line break": "a\nb",
    "a zero character": "a\0b",
    "__cluster_metadata": "__cluster_metadata",
}
for _label, _text in NAMES.items():
    add(f"cluster: metadata of {_label}", _named(_text))


# --- coordinators -----------------------------------------------------------------------------------------------------


def _coordinator(key: str, key_type: int, version: int) -> Callable[[Peer], Answer]:
    keys: dict[str, Any] = {"CoordinatorKeys": [key]} if version >= 4 else {"Key": key}
    return lambda peer: peer.attempt("FindCoordinator", version, **keys, **({"KeyType": key_type} if version else {}))


for _version in (0, 3, 4, 6):
    for _label, _key, _kind in (
        ("a group", "g", 0),
        ("an empty group", "", 0),
        ("a transaction", "t", 1),
        ("an unknown type", "g", 9),
        ("a negative type", "g", -1),
    ):
        if _version or _kind == 0:
            add(f"cluster: coordinator of {_label}, version {_version}", _coordinator(_key, _kind, _version))


@probe
def coordinator_of_a_share_partition(peer: Peer) -> Answer:
    keys = f"g:{'A' * 22}:0", "g", "g:x:0", f"g:{'A' * 22}:-1", f":{'A' * 22}:0", ""
    return {key: peer.attempt("FindCoordinator", 6, KeyType=2, CoordinatorKeys=[key]) for key in keys}


@probe
def coordinators_of_many_groups(peer: Peer) -> Answer:
    response = peer.call("FindCoordinator", 4, KeyType=0, CoordinatorKeys=["a", "b", "", "a"])
    return [pick(coordinator, "Key", "ErrorCode") for coordinator in response["Coordinators"]]


# --- log directories --------------------------------------------------------------------------------------------------


@probe
def log_directories(peer: Peer) -> Answer:
    topic = peer.topic(partitions=2)
    (described,) = peer.call("DescribeLogDirs", Topics=[{"Topic": topic, "Partitions": [0, 1, 7]}])["Results"][0][
        "Topics"
    ]
    return by_name(described["Partitions"], "PartitionIndex")


@probe
def log_directory_and_capacity(peer: Peer) -> Answer:
    result = peer.call("DescribeLogDirs", Topics=[])["Results"][0]
    return {
        "is a path": result["LogDir"].startswith("/"),
        "capacity is known": result["TotalBytes"] >= 0,
        "free space is known": result["UsableBytes"] >= 0,
    }


@probe
def log_directories_of_no_topics(peer: Peer) -> Answer:
    return [len(directory["Topics"]) for directory in peer.call("DescribeLogDirs", Topics=[])["Results"]]


@probe
def log_directories_of_a_partition_twice(peer: Peer) -> Answer:
    topic = peer.topic()
    requested = [{"Topic": topic, "Partitions": [0, 0]}]
    return peer.call("DescribeLogDirs", Topics=requested)["Results"][0]["Topics"]


@probe
def log_directories_of_a_user_without_rights(peer: Peer) -> Answer:
    response = peer.login().call("DescribeLogDirs", 4, Topics=None)
    return response


# --- producers --------------------------------------------------------------------------------------------------------


@probe
def producers_of_an_empty_partition(peer: Peer) -> Answer:
    topic = peer.topic()
    return peer.call("DescribeProducers", Topics=[{"Name": topic, "PartitionIndexes": [0, 7, -1]}])


@probe
def epochs_of_a_fresh_partition(peer: Peer) -> Answer:
    topic = peer.topic()
    requested = [{"Partition": number, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0} for number in (0, 7)]
    return peer.call("OffsetForLeaderEpoch", Topics=[{"Topic": topic, "Partitions": requested}])


@probe
def unknown_apis(peer: Peer) -> Answer:
    answers = []
    for key in (999, -1, 4, 5, 6, 7):
        connection = peer.connect()
        connection.send_frame(key.to_bytes(2, "big", signed=True) + b"\0\0" + b"\0\0\0\1" + b"\xff\xff")
        answers.append([key, attempt(lambda c=connection: c.receive_frame().hex())])  # type: ignore[misc]
    return answers
