"""CreateTopics, DeleteTopics, CreatePartitions.

Replication is the object store's business: a replication factor of -1 or any positive number is accepted, so that
scripts written for a cluster of three run as they are, and 1 is what is answered. An assignment of replicas may name
one broker for each partition, as tools do that copy topics. A topic named twice in one request is refused whole, as
Apache Kafka does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.store_errors import knows_throttling, translated
from odradek.dispatcher.topics.configs import DYNAMIC_TOPIC_CONFIG, describe_entry
from odradek.engine.access.quotas import Mutations
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclOperation, ResourceType
from odradek.model.topic import Topic

_REPLICATION_FACTOR = 1
_NOT_DESCRIBED = {"num_partitions": -1, "replication_factor": -1, "configs": ()}


async def handle_create_topics(call: Call) -> Answer:
    counts = Counter(topic.name for topic in call.message.topics)
    topics = {topic.name: topic for topic in call.message.topics}
    quota = await _quota(call)
    results = []
    for name, topic in topics.items():
        try:
            if not call.access.may_cluster(AclOperation.CREATE):
                call.access.require(AclOperation.CREATE, ResourceType.TOPIC, name)
            _refuse_repeated(name, counts[name])
            quota.check(is_strict=knows_throttling(call))
            with translated(call):
                created = await _create(call, topic)
            if not call.message.validate_only:
                quota.record(created.partition_count)
        except KafkaError as error:
            results.append({"name": name, "error_code": error.code, "error_message": error.message, **_NOT_DESCRIBED})
        else:
            results.append(_created(call, created))
    return {"topics": results, "throttle_time": quota.throttle_ms}


async def _quota(call: Call) -> Mutations:
    return await call.engine.quotas.mutations(call.context.principal, call.request.client_id)


async def _create(call: Call, topic: Any) -> Topic:
    num_partitions = topic.num_partitions
    if topic.assignments:
        num_partitions = await _assigned_partitions(call, topic)
    elif topic.replication_factor == 0 or topic.replication_factor < -1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor must be -1 or positive, not {topic.replication_factor}",
        )
    configs = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{config.name} has no value: give one or leave it out")
        configs[config.name] = config.value
    return await call.engine.topics.create(
        topic.name, num_partitions, configs, validate_only=call.message.validate_only
    )


async def _assigned_partitions(call: Call, topic: Any) -> int:
    """Return the number of partitions in an assignment. Raises KafkaError."""
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "an assignment sets the partitions and replicas: give -1 for both numbers"
        )
    numbers = [each.partition_index for each in topic.assignments]
    if sorted(numbers) != list(range(len(numbers))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an assignment must name each partition from 0 on exactly once"
        )
    await _check_replicas(call, [each.broker_ids for each in topic.assignments])
    return len(numbers)


async def _check_replicas(call: Call, assigned: Sequence[Sequence[int]]) -> None:
    view = await call.engine.leader_view([])
    known = {call.cluster.broker.broker_id, *(broker.broker_id for broker in view.brokers)}
    for broker_ids in assigned:
        if len(broker_ids) != 1 or broker_ids[0] not in known:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"a partition has one replica, on one of the brokers {sorted(known)}, not on {list(broker_ids)}",
            )


def _created(call: Call, topic: Topic) -> dict[str, Any]:
    if not call.access.may_topic(AclOperation.DESCRIBE_CONFIGS, topic.name):
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            **_NOT_DESCRIBED,
        }
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "num_partitions": topic.partition_count,
        "replication_factor": _REPLICATION_FACTOR,
        "configs": [
            describe_entry(entry, DYNAMIC_TOPIC_CONFIG) for entry in call.engine.topics.describe_configs(topic)
        ],
    }


def refuse_create_topics(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "topics": [
            {"name": topic.name, "error_code": code, "error_message": message, **_NOT_DESCRIBED}
            for topic in call.message.topics
        ]
    }


async def handle_delete_topics(call: Call) -> Answer:
    asked = _to_delete(call)
    counts = Counter(asked)
    quota = await _quota(call)
    results = []
    for name, topic_id in dict.fromkeys(asked):
        result = {"name": name, "topic_id": topic_id}
        try:
            _refuse_repeated(name or str(topic_id), counts[name, topic_id])
            if (name is None) == (topic_id is None):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "give either the name or the id of a topic to delete")
            with translated(call):
                if name is None:
                    named = (await call.engine.topics.resolve("", topic_id)).name
                    if call.access.may_topic(AclOperation.DESCRIBE, named):
                        result["name"] = named
                    name = named
                call.access.require(AclOperation.DELETE, ResourceType.TOPIC, name)
                quota.check(is_strict=knows_throttling(call))
                deleted = await call.engine.topics.delete(name)
            quota.record(deleted.partition_count)
            result = {"name": deleted.name, "topic_id": deleted.topic_id}
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": error.message}
        results.append(result)
    return {"responses": results, "throttle_time": quota.throttle_ms}


def refuse_delete_topics(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message}
            for name, topic_id in _to_delete(call)
        ]
    }


def _to_delete(call: Call) -> Sequence[tuple[Any, Any]]:
    """Return name and id of each topic: from version 6 on either of them, before that the name."""
    if call.api_version >= 6:
        return [(topic.name, topic.topic_id) for topic in call.message.topics]
    return [(name, None) for name in call.message.topic_names]


async def handle_create_partitions(call: Call) -> Answer:
    counts = Counter(topic.name for topic in call.message.topics)
    quota = await _quota(call)
    results = []
    for topic in {topic.name: topic for topic in call.message.topics}.values():
        result = {"name": topic.name}
        try:
            call.access.require(AclOperation.ALTER, ResourceType.TOPIC, topic.name)
            _refuse_repeated(topic.name, counts[topic.name])
            quota.check(is_strict=knows_throttling(call))
            with translated(call):
                before = await call.engine.topics.resolve(topic.name) if quota.is_limited else None
                grown = await _grow(call, topic)
            if before is not None and not call.message.validate_only:
                quota.record(grown.partition_count - before.partition_count)
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": error.message}
        results.append(result)
    return {"results": results, "throttle_time": quota.throttle_ms}


async def _grow(call: Call, topic: Any) -> Topic:
    if topic.assignments is not None:
        added = topic.count - (await call.engine.topics.resolve(topic.name)).partition_count
        if len(topic.assignments) != added:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"the assignment is for {len(topic.assignments)} new partitions, the request for {added}",
            )
        await _check_replicas(call, [each.broker_ids for each in topic.assignments])
    return await call.engine.topics.create_partitions(topic.name, topic.count, validate_only=call.message.validate_only)


def refuse_create_partitions(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "results": [{"name": topic.name, "error_code": code, "error_message": message} for topic in call.message.topics]
    }


def _refuse_repeated(name: str, count: int) -> None:
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name!r} appears {count} times in one request")
