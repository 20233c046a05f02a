"""The rights that each API requires, by Apache Kafka's rules (security documentation, "Operations and resources").

    REQUIRED     rights without which the whole request is refused, checked here before its handler runs
    PER_ITEM     APIs whose handlers also (or only) check each topic, group or id, and refuse or omit it
    FREE         APIs that need no right

    Produce            WRITE topic, WRITE transactional id     Fetch                READ topic
    ListOffsets, OffsetForLeaderEpoch, Metadata                                     DESCRIBE topic
    FindCoordinator    DESCRIBE group or transactional id      CreateTopics         CREATE cluster or topic
    OffsetCommit, TxnOffsetCommit    READ group, READ topic    OffsetFetch          DESCRIBE group, DESCRIBE topic
    JoinGroup, SyncGroup, Heartbeat, LeaveGroup                                     READ group
    ConsumerGroupHeartbeat           READ group, DESCRIBE of the topics that it subscribes to by name
    DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe DESCRIBE group
    ShareGroupHeartbeat              as ConsumerGroupHeartbeat
    StreamsGroupHeartbeat            READ group, DESCRIBE of the topics of its topology; internal topics are created
                                     with CREATE cluster or topic
    ShareFetch, ShareAcknowledge     READ group, READ topic
    DescribeShareGroupOffsets        DESCRIBE group, DESCRIBE topic
    AlterShareGroupOffsets           READ group, READ topic    DeleteShareGroupOffsets  DELETE group, READ topic
    ListGroups         DESCRIBE cluster, else those groups that may be described
    DeleteGroups       DELETE group                            OffsetDelete         DELETE group, READ topic
    DeleteTopics, DeleteRecords      DELETE topic              CreatePartitions     ALTER topic
    DescribeConfigs    DESCRIBE_CONFIGS topic, group, cluster  Alter..., Incremental...   ALTER_CONFIGS
                       (and WRITE of the topic that a group's dead letters are to go to)
    InitProducerId     WRITE transactional id; without one IDEMPOTENT_WRITE cluster, or WRITE of any topic
    AddPartitionsToTxn, EndTxn       WRITE transactional id (and WRITE topic)
    AddOffsetsToTxn    WRITE transactional id, READ group
    Describe-, ListTransactions      DESCRIBE transactional id (those that may be)
    Describe-, Create-, DeleteAcls   DESCRIBE cluster, ALTER cluster
    Describe-, AlterUserScramCredentials                       DESCRIBE cluster, ALTER cluster
    DescribeTopicPartitions          DESCRIBE topic            DescribeProducers    READ topic
    Describe-, AlterClientQuotas     DESCRIBE_CONFIGS, ALTER_CONFIGS cluster
    DescribeLogDirs    DESCRIBE cluster                        ListConfigResources  DESCRIBE_CONFIGS cluster

Users and ACLs decide about everything else. On the Kafka port without mandatory login a connection may belong to
anyone, so only super users may read or change them until the first ACL exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.dispatcher.access import refusal
from odradek.dispatcher.context import Call
from odradek.model.acl import CLUSTER, AclOperation, Resource, ResourceType
from odradek.protocol.api import ApiKey

Right = tuple[AclOperation, Resource]

_READ, _WRITE, _DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
_DESCRIBE, _ALTER = AclOperation.DESCRIBE, AclOperation.ALTER


def _group(operation: AclOperation) -> Callable[[Any], list[Right]]:
    return lambda message: [(operation, Resource(ResourceType.GROUP, message.group_id))]


def _cluster(operation: AclOperation) -> Callable[[Any], list[Right]]:
    return lambda message: [(operation, CLUSTER)]


def _transaction(transactional_id: str | None) -> list[Right]:
    if transactional_id is None:
        return []
    return [(_WRITE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id))]


def _topics_of(topology: Any) -> list[str]:
    """The topics that a streams topology names, internal ones included."""
    names = set[str]()
    for each in topology.subtopologies if topology is not None else ():
        names.update(each.source_topics, each.repartition_sink_topics)
        names.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    return sorted(names)


REQUIRED: Mapping[ApiKey, Callable[[Any], Iterable[Right]]] = {
    ApiKey.PRODUCE: lambda message: _transaction(message.transactional_id),
    ApiKey.INIT_PRODUCER_ID: lambda message: _transaction(message.transactional_id),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda message: _transaction(message.v3_and_below_transactional_id),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda message: [*_transaction(message.transactional_id), *_group(_READ)(message)],
    ApiKey.TXN_OFFSET_COMMIT: lambda message: [*_transaction(message.transactional_id), *_group(_READ)(message)],
    ApiKey.END_TXN: lambda message: _transaction(message.transactional_id),
    ApiKey.OFFSET_COMMIT: _group(_READ),
    ApiKey.OFFSET_DELETE: _group(_DELETE),
    ApiKey.JOIN_GROUP: _group(_READ),
    ApiKey.HEARTBEAT: _group(_READ),
    ApiKey.LEAVE_GROUP: _group(_READ),
    ApiKey.SYNC_GROUP: _group(_READ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda message: [
        *_group(_READ)(message),
        *((_DESCRIBE, Resource(ResourceType.TOPIC, name)) for name in message.subscribed_topic_names or ()),
    ],
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda message: [
        *_group(_READ)(message),
        *((_DESCRIBE, Resource(ResourceType.TOPIC, name)) for name in message.subscribed_topic_names or ()),
    ],
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda message: [
        *_group(_READ)(message),
        *((_DESCRIBE, Resource(ResourceType.TOPIC, name)) for name in _topics_of(message.topology)),
    ],
    ApiKey.SHARE_FETCH: _group(_READ),
    ApiKey.SHARE_ACKNOWLEDGE: _group(_READ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _group(_READ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _group(_DELETE),
    ApiKey.DESCRIBE_ACLS: _cluster(_DESCRIBE),
    ApiKey.CREATE_ACLS: _cluster(_ALTER),
    ApiKey.DELETE_ACLS: _cluster(_ALTER),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(_DESCRIBE),
    ApiKey.DESCRIBE_LOG_DIRS: _cluster(_DESCRIBE),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _cluster(AclOperation.ALTER_CONFIGS),
    ApiKey.LIST_CONFIG_RESOURCES: _cluster(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(_ALTER),
}

PER_ITEM = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_CLUSTER,  # addresses, which whoever asks has called; as in Kafka
    }
)

FREE = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)

# APIs that decide about rights: before the first ACL, the Kafka port serves them only to super users.
_ABOUT_RIGHTS = frozenset(
    {
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    }
)


def require(call: Call) -> None:
    """Raise KafkaError with the code of the first right that the caller lacks for the request as a whole."""
    api_key = call.request.api_key
    access = call.access
    needed = REQUIRED.get(api_key)
    if needed is None:
        return
    if api_key in _ABOUT_RIGHTS and call.context.transport == "tcp" and access.is_unruled:
        operation, resource = next(iter(needed(call.message)))
        raise refusal(access.principal, operation, resource)
    if access.is_bound:
        for operation, resource in needed(call.message):
            access.require(operation, resource.type, resource.name)
