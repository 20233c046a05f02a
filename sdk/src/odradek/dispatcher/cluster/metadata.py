"""Metadata and DescribeCluster: the leaders of partitions, and their addresses.

The response shows the answering function or gateway as the leader of a partition that belongs to the fleet; a gateway
takes over such a partition at the first write. A partition led by a live gateway is shown with that gateway. A gateway
that is about to stop, while others go on, names only those (engine/leaders/view.py).
"""

from __future__ import annotations

from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.store_errors import translated
from odradek.engine.catalog.topics import check_name
from odradek.engine.leaders.view import LeaderView
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import CLUSTER, AclOperation, ResourceType
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

_BROKERS_ENDPOINT, _CONTROLLERS_ENDPOINT = 1, 2


async def handle_metadata(call: Call) -> Answer:
    asked = call.message.topics
    if asked is None or (call.api_version == 0 and not asked):  # version 0 has no null: empty means all
        found: list[Topic | dict[str, Any]] = [
            topic for topic in await call.engine.topics.list() if _may_describe(call, topic.name)
        ]
    else:
        each_once = {(topic.name, getattr(topic, "topic_id", None)): topic for topic in asked}
        found = [await _asked(call, topic) for topic in each_once.values()]
    view = await call.engine.leader_view([each for each in found if isinstance(each, Topic)])
    topics = [_described(call, each, view) if isinstance(each, Topic) else each for each in found]
    answer = {**_cluster(call.cluster, view), "topics": topics}
    if getattr(call.message, "include_cluster_authorized_operations", False):
        answer["cluster_authorized_operations"] = call.access.operations(*CLUSTER)
    return answer


def _described(call: Call, topic: Topic, view: LeaderView) -> dict[str, Any]:
    described = _topic(topic, call.cluster, view)
    if getattr(call.message, "include_topic_authorized_operations", False):
        described["topic_authorized_operations"] = call.access.operations(ResourceType.TOPIC, topic.name)
    return described


def refuse_metadata(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        **_cluster(call.cluster, LeaderView()),
        "error_code": code,
        "topics": [
            {"error_code": code, "name": topic.name, "topic_id": getattr(topic, "topic_id", None)}
            for topic in call.message.topics or ()
        ],
    }


async def handle_describe_cluster(call: Call) -> Answer:
    endpoint_type = getattr(call.message, "endpoint_type", _BROKERS_ENDPOINT)
    if endpoint_type == _CONTROLLERS_ENDPOINT:
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "there are no controllers to describe: request brokers")
    if endpoint_type != _BROKERS_ENDPOINT:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"unknown endpoint type {endpoint_type}: request brokers")
    view = await call.engine.leader_view([])
    operations: dict[str, Any] = {}
    if call.message.include_cluster_authorized_operations:
        operations["cluster_authorized_operations"] = call.access.operations(*CLUSTER)
    return {
        **operations,
        "cluster_id": call.cluster.cluster_id,
        "controller_id": _brokers(call.cluster, view)[0].broker_id,
        "brokers": [
            {"broker_id": broker.broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
            for broker in _brokers(call.cluster, view)
        ],
    }


def refuse_describe_cluster(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message, "cluster_id": ""}


async def _asked(call: Call, asked: Any) -> Topic | dict[str, Any]:
    """Describe one topic by name or id, or return its error, which for a hidden topic does not reveal if it exists."""
    topic_id = getattr(asked, "topic_id", None)
    if asked.name is not None and topic_id is None and not _may_describe(call, asked.name):
        return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name": asked.name}
    try:
        if topic_id is None:
            check_name(asked.name or "")
        with translated(call):
            topic = await call.engine.topics.resolve(asked.name or "", topic_id)
            if topic.growing is not None:  # producers of ours wait for it: their requests are refused, and they ask
                topic = await call.engine.topics.resume_growth(topic)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and _may_create(call):
            return await _created(call, asked.name)
        return {"error_code": error.code, "name": asked.name, "topic_id": topic_id}
    if not _may_describe(call, topic.name):
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": asked.name, "topic_id": topic_id}
    return topic


def _may_describe(call: Call, name: str) -> bool:
    return call.access.may_topic(AclOperation.DESCRIBE, name)


def _may_create(call: Call) -> bool:
    return call.engine.settings.auto_create_topics and getattr(call.message, "allow_auto_topic_creation", True)


async def _created(call: Call, name: str) -> Topic | dict[str, Any]:
    create = AclOperation.CREATE
    if not call.access.may_cluster(create) and not call.access.may_topic(create, name):
        return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name": name}
    quota = await call.engine.quotas.mutations(call.context.principal, call.request.client_id)
    try:
        quota.check(is_strict=True)
        with translated(call):
            created = await call.engine.topics.create(name)
        quota.record(created.partition_count)
        return created
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and (existing := await call.engine.topics.get(name)):
            return existing  # another request created it first
        if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:  # which clients do not expect here
            return {"error_code": ErrorCode.LEADER_NOT_AVAILABLE, "name": name}
        return {"error_code": error.code, "name": name}


def _brokers(cluster: Cluster, view: LeaderView) -> list[Broker]:
    """Return the answering broker first, then the other gateways."""
    if view.is_going:
        return list(view.brokers)
    return [cluster.broker, *(broker for broker in view.brokers if broker.broker_id != cluster.broker.broker_id)]


def _cluster(cluster: Cluster, view: LeaderView) -> dict[str, Any]:
    return {
        "brokers": [
            {"node_id": broker.broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
            for broker in _brokers(cluster, view)
        ],
        "cluster_id": cluster.cluster_id,
        "controller_id": _brokers(cluster, view)[0].broker_id,
    }


def _topic(topic: Topic, cluster: Cluster, view: LeaderView) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions": [
            describe_partition(topic, partition, cluster, view) for partition in range(topic.partition_count)
        ],
    }


def describe_partition(topic: Topic, partition: int, cluster: Cluster, view: LeaderView) -> dict[str, Any]:
    """A partition as Metadata and DescribeTopicPartitions show it."""
    place = PartitionId(topic.topic_id, partition)
    leader, epoch = view.leader_of(place)
    if leader == FLEET_BROKER_ID:
        leader = _brokers(cluster, view)[0].broker_id
    replicas = [leader, *view.read_replicas(place, leader)]
    return {
        "partition_index": partition,
        "leader_id": leader,
        "leader_epoch": epoch,
        "replica_nodes": replicas,
        "isr_nodes": replicas,
        # Of DescribeTopicPartitions: nullable, but Java's Admin takes an absent list for an error of its own.
        "eligible_leader_replicas": [],
        "last_known_elr": [],
    }
