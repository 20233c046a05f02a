"""Metadata and DescribeCluster: one logical broker leads every partition.

The epoch of leaders is answered as unknown (-1), which clients take as "do not check", until gateways can take leases.
"""

from __future__ import annotations

from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode, KafkaError
from odradek.model.cluster import Cluster
from odradek.model.topic import Topic

UNKNOWN_LEADER_EPOCH = -1
_BROKERS_ENDPOINT = 1


async def handle_metadata(call: Call) -> Answer:
    asked = call.message.topics
    if asked is None or (call.api_version == 0 and not asked):  # version 0 has no null: empty means all
        topics = [_topic(topic, call.cluster) for topic in await call.engine.topics.list()]
    else:
        topics = [await _asked(call, topic) for topic in asked]
    return {**_cluster(call.cluster), "topics": topics}


def refuse_metadata(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        **_cluster(call.cluster),
        "error_code": code,
        "topics": [
            {"error_code": code, "name": topic.name, "topic_id": getattr(topic, "topic_id", None)}
            for topic in call.message.topics or ()
        ],
    }


async def handle_describe_cluster(call: Call) -> Answer:
    if getattr(call.message, "endpoint_type", _BROKERS_ENDPOINT) != _BROKERS_ENDPOINT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "there are no controllers to describe: ask for brokers")
    broker = call.cluster.broker
    return {
        "cluster_id": call.cluster.cluster_id,
        "controller_id": broker.broker_id,
        "brokers": [
            {"broker_id": broker.broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack},
        ],
    }


def refuse_describe_cluster(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message, "cluster_id": call.cluster.cluster_id}


async def _asked(call: Call, asked: Any) -> dict[str, Any]:
    """One topic by name or id, with its own error."""
    topic_id = getattr(asked, "topic_id", None)
    try:
        topic = await call.engine.topics.resolve(asked.name or "", topic_id)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and _may_create(call):
            return await _created(call, asked.name)
        return {"error_code": error.code, "name": asked.name, "topic_id": topic_id}
    return _topic(topic, call.cluster)


def _may_create(call: Call) -> bool:
    return call.engine.settings.auto_create_topics and getattr(call.message, "allow_auto_topic_creation", True)


async def _created(call: Call, name: str) -> dict[str, Any]:
    try:
        topic = await call.engine.topics.create(name)
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and (existing := await call.engine.topics.get(name)):
            return _topic(existing, call.cluster)  # somebody else was faster
        return {"error_code": error.code, "name": name}
    return _topic(topic, call.cluster)


def _cluster(cluster: Cluster) -> dict[str, Any]:
    broker = cluster.broker
    return {
        "brokers": [{"node_id": broker.broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack}],
        "cluster_id": cluster.cluster_id,
        "controller_id": broker.broker_id,
    }


def _topic(topic: Topic, cluster: Cluster) -> dict[str, Any]:
    leader = cluster.broker.broker_id
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions": [
            {
                "partition_index": partition,
                "leader_id": leader,
                "leader_epoch": UNKNOWN_LEADER_EPOCH,
                "replica_nodes": [leader],
                "isr_nodes": [leader],
            }
            for partition in range(topic.partition_count)
        ],
    }
