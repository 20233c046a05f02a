"""Probes of every API in its oldest and its newest common version, made from one valid request each.

valid      the request, with names and ids that do not exist
empty      every list empty
null       every list null that may be
doubled    every entry of its lists twice
nameless   every name and id empty
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.peers.probe import Answer, Peer, add, attempt
from tests.peers.schemas import Field, Message

_MISSING = "missing"
_ID = uuid.UUID(int=0xABCD_0000_0000_4000_8000_0000_0000_0001)
_PARTITION = {"Partition": 0, "PartitionIndex": 0, "Index": 0}
_TOPIC = {"Name": _MISSING, "Topic": _MISSING, "TopicId": _ID}
_MEMBER = {"GroupId": _MISSING, "MemberId": "m", "GenerationId": 1, "MemberEpoch": 0}
_PRODUCER = {"TransactionalId": _MISSING, "ProducerId": 4711, "ProducerEpoch": 0}

# By API: every field that some version has. Of what a version lacks nothing is sent.
REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "Produce": {
        "Acks": -1,
        "TimeoutMs": 1000,
        "TopicData": [{**_TOPIC, "PartitionData": [{**_PARTITION, "Records": b""}]}],
    },
    "Fetch": {
        "MaxBytes": 1 << 20,
        "Topics": [{**_TOPIC, "Partitions": [{**_PARTITION, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}]}],
    },
    "ListOffsets": {"ReplicaId": -1, "Topics": [{**_TOPIC, "Partitions": [{**_PARTITION, "Timestamp": -1}]}]},
    "Metadata": {"Topics": [{"Name": _MISSING}], "AllowAutoTopicCreation": False},
    "OffsetCommit": {
        "GroupId": _MISSING,
        "GenerationIdOrMemberEpoch": -1,
        "Topics": [{**_TOPIC, "Partitions": [{**_PARTITION, "CommittedOffset": 1, "CommittedMetadata": ""}]}],
    },
    "OffsetFetch": {
        "GroupId": _MISSING,
        "Topics": [{**_TOPIC, "PartitionIndexes": [0]}],
        "Groups": [{"GroupId": _MISSING, "Topics": [{**_TOPIC, "PartitionIndexes": [0]}]}],
    },
    "FindCoordinator": {"Key": _MISSING, "KeyType": 0, "CoordinatorKeys": [_MISSING]},
    "JoinGroup": {
        "GroupId": _MISSING,
        "SessionTimeoutMs": 10_000,
        "RebalanceTimeoutMs": 10_000,
        "MemberId": "m",
        "ProtocolType": "consumer",
        "Protocols": [{"Name": "range", "Metadata": b""}],
    },
    "Heartbeat": _MEMBER,
    "LeaveGroup": {**_MEMBER, "Members": [{"MemberId": "m"}]},
    "SyncGroup": {**_MEMBER, "Assignments": [{"MemberId": "m", "Assignment": b""}]},
    "DescribeGroups": {"Groups": [_MISSING]},
    "ListGroups": {"StatesFilter": ["NoSuchState"], "TypesFilter": ["nosuchtype"]},
    "CreateTopics": {
        "Topics": [{"Name": "valid", "NumPartitions": 1, "ReplicationFactor": 1}],
        "timeoutMs": 10_000,
        "validateOnly": True,
    },
    "DeleteTopics": {"TopicNames": [_MISSING], "Topics": [{"Name": _MISSING}], "TimeoutMs": 10_000},
    "DeleteRecords": {"Topics": [{**_TOPIC, "Partitions": [{**_PARTITION, "Offset": 0}]}], "TimeoutMs": 10_000},
    "InitProducerId": {"TransactionTimeoutMs": 10_000},
    "OffsetForLeaderEpoch": {
        "ReplicaId": -1,
        "Topics": [{**_TOPIC, "Partitions": [{**_PARTITION, "LeaderEpoch": 0}]}],
    },
    "AddPartitionsToTxn": {
        "V3AndBelowTransactionalId": _MISSING,
        "V3AndBelowProducerId": 4711,
        "V3AndBelowProducerEpoch": 0,
        "V3AndBelowTopics": [{"Name": _MISSING, "Partitions": [0]}],
    },
    "AddOffsetsToTxn": {**_PRODUCER, "GroupId": _MISSING},
    "EndTxn": {**_PRODUCER, "Committed": True},
    "TxnOffsetCommit": {
        **_PRODUCER,
        **_MEMBER,
        "GenerationId": -1,
        "MemberId": "",
        "Topics": [{**_TOPIC, "Partitions": [{**_PARTITION, "CommittedOffset": 1, "CommittedMetadata": ""}]}],
    },
    "DescribeAcls": {
        "ResourceTypeFilter": 2,
        "ResourceNameFilter": _MISSING,
        "PatternTypeFilter": 3,
        "Operation": 1,
        "PermissionType": 1,
    },
    "CreateAcls": {
        "Creations": [
            {
                "ResourceType": 2,
                "ResourceName": "every-api",
                "ResourcePatternType": 3,
                "Principal": "User:every-api",
                "Host": "*",
                "Operation": 3,
                "PermissionType": 3,
            }
        ]
    },
    "DeleteAcls": {
        "Filters": [
            {
                "ResourceTypeFilter": 2,
                "ResourceNameFilter": _MISSING,
                "PatternTypeFilter": 3,
                "Operation": 3,
                "PermissionType": 3,
            }
        ]
    },
    "DescribeConfigs": {"Resources": [{"ResourceType": 2, "ResourceName": _MISSING, "ConfigurationKeys": ["a"]}]},
    "AlterConfigs": {
        "Resources": [
            {"ResourceType": 2, "ResourceName": _MISSING, "Configs": [{"Name": "retention.ms", "Value": "1"}]}
        ]
    },
    "DescribeLogDirs": {"Topics": [{"Topic": _MISSING, "Partitions": [0]}]},
    "CreatePartitions": {"Topics": [{"Name": _MISSING, "Count": 2, "Assignments": None}], "TimeoutMs": 10_000},
    "DeleteGroups": {"GroupsNames": [_MISSING]},
    "IncrementalAlterConfigs": {
        "Resources": [
            {
                "ResourceType": 2,
                "ResourceName": _MISSING,
                "Configs": [{"Name": "retention.ms", "ConfigOperation": 0, "Value": "1"}],
            }
        ]
    },
    "OffsetDelete": {"GroupId": _MISSING, "Topics": [{"Name": _MISSING, "Partitions": [{"PartitionIndex": 0}]}]},
    "DescribeClientQuotas": {"Components": [{"EntityType": "user", "MatchType": 0, "Match": _MISSING}]},
    "AlterClientQuotas": {
        "Entries": [
            {
                "Entity": [{"EntityType": "user", "EntityName": "every-api"}],
                "Ops": [{"Key": "producer_byte_rate", "Value": 1e6}],
            }
        ],
        "ValidateOnly": True,
    },
    "DescribeUserScramCredentials": {"Users": [{"Name": _MISSING}]},
    "AlterUserScramCredentials": {"Deletions": [{"Name": _MISSING, "Mechanism": 1}], "Upsertions": []},
    "DescribeCluster": {},
    "DescribeProducers": {"Topics": [{"Name": _MISSING, "PartitionIndexes": [0]}]},
    "DescribeTransactions": {"TransactionalIds": [_MISSING]},
    "ListTransactions": {"StateFilters": ["NoSuchState"], "ProducerIdFilters": [4711]},
    "ConsumerGroupHeartbeat": {
        "GroupId": _MISSING,
        "MemberId": "m",
        "MemberEpoch": 5,
        "SubscribedTopicNames": [_MISSING],
        "TopicPartitions": [],
    },
    "ConsumerGroupDescribe": {"GroupIds": [_MISSING]},
    "ListConfigResources": {"ResourceTypes": [16]},
    "DescribeTopicPartitions": {"Topics": [{"Name": _MISSING}]},
    "ShareGroupHeartbeat": {
        "GroupId": _MISSING,
        "MemberId": "AAAAAAAAAAAAAAAAAAAAAA",
        "MemberEpoch": 5,
        "SubscribedTopicNames": [_MISSING],
    },
    "ShareGroupDescribe": {"GroupIds": [_MISSING]},
    "ShareFetch": {
        "GroupId": _MISSING,
        "MemberId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "ShareSessionEpoch": 7,
        "MaxBytes": 1 << 20,
        "MaxRecords": 10,
        "BatchSize": 10,
        "Topics": [{"TopicId": _ID, "Partitions": [{"PartitionIndex": 0}]}],
    },
    "ShareAcknowledge": {
        "GroupId": _MISSING,
        "MemberId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "ShareSessionEpoch": 7,
        "Topics": [
            {
                "TopicId": _ID,
                "Partitions": [
                    {
                        "PartitionIndex": 0,
                        "AcknowledgementBatches": [{"FirstOffset": 0, "LastOffset": 0, "AcknowledgeTypes": [1]}],
                    }
                ],
            }
        ],
    },
    "StreamsGroupHeartbeat": {
        "GroupId": _MISSING,
        "MemberId": "m",
        "MemberEpoch": 5,
        "EndpointInformationEpoch": 0,
    },
    "StreamsGroupDescribe": {"GroupIds": [_MISSING]},
    "DescribeShareGroupOffsets": {
        "Groups": [{"GroupId": _MISSING, "Topics": [{"TopicName": _MISSING, "Partitions": [0]}]}]
    },
    "AlterShareGroupOffsets": {
        "GroupId": _MISSING,
        "Topics": [{"TopicName": _MISSING, "Partitions": [{"PartitionIndex": 0, "StartOffset": 0}]}],
    },
    "DeleteShareGroupOffsets": {"GroupId": _MISSING, "Topics": [{"TopicName": _MISSING}]},
}

# What lists everything where nothing is named: the probes of the families ask that of topics of their own.
_LISTS_ALL = {
    "Metadata": "Topics",
    "DescribeLogDirs": "Results",
    "ListGroups": "Groups",
    "ListTransactions": "TransactionStates",
    "DescribeTopicPartitions": "Topics",
    "ListConfigResources": "ConfigResources",
    "DescribeClientQuotas": "Entries",
    "DescribeUserScramCredentials": "Results",
    "DescribeAcls": "Resources",
    "OffsetFetch": "Topics",
}
_WITHOUT_LISTS = {"DescribeCluster"}  # nothing in it to vary
_LEFT_OUT = {("AlterConfigs", "doubled")}  # Apache Kafka 4.4.0 does not answer a resource that is named twice
_NAMELESS = "empty", "null", "nameless"
_VOLATILE = ("ProducerId", "MemberId", "LogDir", "TotalBytes", "UsableBytes")

Values = dict[str, Any]


def fill(message: Message, version: int, values: Mapping[str, Any], change: Callable[[Field, Any], Any]) -> Values:
    """The values that a version of a message has, each after `change`."""

    def structure(fields: Sequence[Field], values: Mapping[str, Any]) -> Values:
        return {field.name: value(field, values[field.name]) for field in fields if is_there(field, values)}

    def is_there(field: Field, values: Mapping[str, Any]) -> bool:
        return field.name in values and version in field.versions

    def value(field: Field, given_value: Any) -> Any:
        if field.element in message.structures and given_value is not None:
            inner = message.structures[field.element]
            given_value = (
                [structure(inner, row) for row in given_value] if field.is_array else structure(inner, given_value)
            )
        return change(field, given_value)

    return structure(message.fields, values)


def _changes(version: int) -> Iterator[tuple[str, Callable[[Field, Any], Any]]]:
    yield "valid", lambda field, value: value
    yield "empty", lambda field, value: [] if field.is_array else value
    yield "null", lambda field, value: None if field.is_array and version in field.nullable else value
    yield "doubled", lambda field, value: [*value, *value] if field.is_array and value else value
    yield "nameless", _nameless


def _nameless(field: Field, value: Any) -> Any:
    if value is None or field.name in ("ProtocolType", "EntityType"):
        return value
    if field.type == "[]string":
        return ["" for _ in value]
    return {"string": "", "uuid": uuid.UUID(int=0)}.get(field.type, value)


def _question(api: str, is_newest: bool, label: str) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        version = peer.newest(api) if is_newest else peer.oldest(api)
        if is_newest and version == peer.oldest(api):
            return "it has one version"
        message = peer.schemas.request(api)
        if message.name == "FindCoordinatorRequest" and label == "empty" and version < 4:
            return "not in this version"
        request = _own(REQUESTS[api], peer)
        valid = fill(message, version, request, lambda field, value: value)
        request_values = fill(message, version, request, dict(_changes(version))[label])
        if request_values == valid and label != "valid":
            return "no other request than the valid one"
        answer = attempt(lambda: peer.call(api, version, **request_values))
        if isinstance(answer, dict) and api in _LISTS_ALL and (label in _NAMELESS or api.startswith("List")):
            answer.pop(_LISTS_ALL[api], None)
        return _steady(answer)

    return question


def _own(value: Any, peer: Peer) -> Any:
    """With names that no other probe has."""
    if isinstance(value, Mapping):
        return {name: _own(member, peer) for name, member in value.items()}
    if isinstance(value, list):
        return [_own(element, peer) for element in value]
    return peer.name(_MISSING) if value == _MISSING else value


def _steady(answer: Any) -> Any:
    """Without ids that a broker makes up."""
    if isinstance(answer, dict):
        return {
            name: "made up" if name in _VOLATILE and value not in ("", -1, "m") else _steady(value)
            for name, value in answer.items()
        }
    return [_steady(element) for element in answer] if isinstance(answer, list) else answer


for _api, _is_newest, (_label, _) in itertools.product(REQUESTS, (False, True), _changes(0)):
    if (_api, _label) not in _LEFT_OUT and (_label == "valid" or _api not in _WITHOUT_LISTS):
        add(f"every api: {_api}, {'newest' if _is_newest else 'oldest'}, {_label}", _question(_api, _is_newest, _label))
