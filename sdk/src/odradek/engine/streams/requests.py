"""Validation of streams groups' heartbeats, independent of the group's state (KIP-1071). Pure.

As in Apache Kafka 4.2, static members, patterns of source topics, warm-up tasks and changelog offsets are refused.
"""

from __future__ import annotations

from collections import Counter

from odradek.engine.catalog.topics import check_name
from odradek.engine.groups.requests import check_group_of_heartbeat
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import (
    GROUP_TARGET_BYTES_MAX,
    ID_BYTES_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    STREAMS_SOURCES_PER_SUBTOPOLOGY_MAX,
    STREAMS_TAGS_BYTES_MAX,
)
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, GroupHeartbeat
from odradek.model.streams import StreamsRequest, Subtopology, Topology


def check_streams_heartbeat(request: GroupHeartbeat) -> None:
    """Raises KafkaError: INVALID_GROUP_ID, INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    check_group_of_heartbeat(request.group_id)
    streams = request.streams or StreamsRequest()
    if request.instance_id is not None:
        raise _invalid("static membership is not supported in streams groups: remove group.instance.id")
    if streams.unsupported is not None:
        raise _invalid(streams.unsupported)
    if not request.member_id:
        raise _invalid("the member id cannot be empty: a member of a streams group chooses its own")
    tags = sum(len(name.encode()) + len(value.encode()) for name, value in streams.client_tags or ())
    if tags > STREAMS_TAGS_BYTES_MAX:
        raise _invalid(f"the client tags have {tags} bytes, at most {STREAMS_TAGS_BYTES_MAX} are allowed")
    texts = {
        "member id": request.member_id,
        "rack id": request.rack_id,
        "process id": streams.process_id,
        "endpoint's host": None if streams.endpoint is None else streams.endpoint.host,
        "client id": request.client_id,
    }
    for what, text in texts.items():
        if text is not None and len(text.encode()) > ID_BYTES_MAX:
            raise _invalid(f"the {what} has more than {ID_BYTES_MAX} bytes")
    if request.rack_id == "":
        raise _invalid("the rack id cannot be empty")
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"invalid member epoch {request.member_epoch}: the lowest is {LEAVE_EPOCH}")
    if streams.owned is not None:
        _check_tasks(streams)
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request, streams)
    elif streams.topology is not None:
        raise _invalid("only a joining member may give a topology")


def _check_tasks(streams: StreamsRequest) -> None:
    for task in streams.owned or ():
        if len(task.subtopology_id.encode()) > ID_BYTES_MAX or not 0 <= task.partition < PARTITIONS_PER_TOPIC_MAX:
            raise _invalid(f"invalid task {task.subtopology_id[:40]!r}-{task.partition}")


def _check_join(request: GroupHeartbeat, streams: StreamsRequest) -> None:
    if request.rebalance_timeout_ms <= 0:
        raise _invalid("a joining member must give its rebalance timeout")
    if streams.owned:
        raise _invalid("a joining member cannot own tasks")
    if streams.topology is None:
        raise _invalid("a joining member must give its topology")
    _check_topology(streams.topology)


def _check_topology(topology: Topology) -> None:
    if topology.epoch < 0:
        raise _invalid_topology(f"its epoch is {topology.epoch}, and cannot be negative")
    if not topology.subtopologies:
        raise _invalid_topology("it has no subtopologies")
    for name in sorted(topology.all_topics):
        try:
            check_name(name)
        except KafkaError as error:
            raise _invalid_topology(error.message) from error
    ids = Counter(each.subtopology_id for each in topology.subtopologies)
    for what, counts in {
        "subtopology": ids,
        "source topic": Counter(name for each in topology.subtopologies for name in each.sources),
        "changelog topic": Counter(topic.name for each in topology.subtopologies for topic in each.changelog_topics),
    }.items():
        for name, count in counts.items():
            if count > 1:  # a task's partitions are its own: commits could not be fenced otherwise
                raise _invalid_topology(f"{what} {name!r} is named {count} times")
    for each in topology.subtopologies:
        _check_subtopology(each)


def _check_subtopology(subtopology: Subtopology) -> None:
    name = subtopology.subtopology_id
    if not 0 < len(name.encode()) <= ID_BYTES_MAX:
        raise _invalid_topology(f"a subtopology's id must have 1 to {ID_BYTES_MAX} bytes")
    if not 0 < len(subtopology.sources) <= STREAMS_SOURCES_PER_SUBTOPOLOGY_MAX:
        raise _invalid_topology(
            f"subtopology {name!r} reads {len(subtopology.sources)} topics: it must read 1 to "
            f"{STREAMS_SOURCES_PER_SUBTOPOLOGY_MAX}"
        )
    for topic in (*subtopology.repartition_source_topics, *subtopology.changelog_topics):
        if not 0 <= topic.partitions <= PARTITIONS_PER_TOPIC_MAX:
            raise _invalid_topology(f"topic {topic.name} cannot have {topic.partitions} partitions")
    for topic in subtopology.changelog_topics:
        if topic.partitions:
            raise _invalid_topology(
                f"changelog topic {topic.name} has a partition count, {topic.partitions}: the coordinator decides it"
            )
    for group in subtopology.copartition_groups:
        if foreign := set(group) - set(subtopology.sources):
            raise _invalid_topology(f"subtopology {name!r} does not read {min(foreign)!r} of a copartition group")


def topology_too_large(size: int) -> KafkaError:
    """Return the error for a topology that does not fit an item."""
    return _invalid_topology(f"it takes {size} bytes, at most {GROUP_TARGET_BYTES_MAX} fit")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _invalid_topology(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"invalid topology: {message}")
