"""Streams groups: their decisions, in the common loop of heartbeats (groups/heartbeats.py), and their description.

A heartbeat of a stable group is one Query and one PutItem. `Groups` lists and deletes groups of every kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from odradek.engine.catalog.topics import Topics
from odradek.engine.groups import admin as group_admin
from odradek.engine.groups.configs import GroupConfigs
from odradek.engine.groups.decisions import Transition
from odradek.engine.groups.heartbeats import Heartbeats
from odradek.engine.groups.state import GroupState, GroupView, StreamsGroup
from odradek.engine.groups.store import GroupStore
from odradek.engine.groups.streams_items import encode_topology
from odradek.engine.groups.topics import SubscribedTopics
from odradek.engine.streams.assignor import STICKY
from odradek.engine.streams.decisions import (
    FIRST_EPOCH,
    StreamsCircumstances,
    decide_streams_continuation,
    decide_streams_heartbeat,
)
from odradek.engine.streams.requests import check_streams_heartbeat, topology_too_large
from odradek.engine.streams.topology import configure
from odradek.engine.tools import Tools
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import GROUP_TARGET_BYTES_MAX
from odradek.model.group import JOIN_EPOCH, GroupDescription, GroupHeartbeat, GroupHeartbeatResult
from odradek.model.streams import InternalTopic, Subtopology, Topology
from odradek.model.topic import Topic
from odradek.ports.clock import Clock
from odradek.settings import Settings


class StreamsGroups:
    """KIP-1071's group coordinator over the groups table."""

    def __init__(self, tools: Tools, topics: Topics, configs: GroupConfigs) -> None:
        clock, settings = tools.clock, tools.settings
        self._clock = clock
        self._store = GroupStore(tools.tables.groups)
        self._topics = SubscribedTopics(topics, clock, settings)
        protocol = StreamsHeartbeats(self._topics, configs, clock, settings)
        self._heartbeats = Heartbeats(self._store, protocol, clock, tools.rng, settings)

    async def heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        """Join, live on or leave: what StreamsGroupHeartbeat says, as a GroupHeartbeat. Failures are results.

        `streams.missing_topics` of the result are internal topics that the caller is to create, if the member may.

        Errors: INVALID_GROUP_ID, INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, GROUP_ID_NOT_FOUND (it is a group of
        another kind, or does not exist), GROUP_MAX_SIZE_REACHED (give up), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH
        (give up all tasks, join again), COORDINATOR_NOT_AVAILABLE (send it again).
        """
        return await self._heartbeats.heartbeat(request)

    async def describe(self, group_ids: Sequence[str]) -> list[GroupDescription]:
        """Return the groups in the order of the ids; one that is missing, or of another kind, has the error
        GROUP_ID_NOT_FOUND. In the topology of a ready group internal topics have their partition counts. Raises
        KafkaError."""
        found = []
        for group in await group_admin.describe_groups(self._store, self._clock.now_ms(), group_ids):
            if group.error is ErrorCode.NONE and group.group_type != "streams":
                message = f"group {group.group_id!r} is a {group.group_type} group, not a streams group"
                group = GroupDescription(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)
            if group.topology is not None:
                topics = await self._topics.named(group.topology.required_topics)
                group = replace(group, topology=with_counts(group.topology, topics))
            found.append(group)
        return found


def with_counts(topology: Topology, topics: Mapping[str, Topic]) -> Topology:
    """Return the topology with the partition counts of its internal topics, if it is ready."""
    configured = configure(topology, topics)
    if not configured.is_ready:
        return topology

    def counted(topic: InternalTopic) -> InternalTopic:
        return replace(topic, partitions=configured.partition_counts[topic.name])

    def with_counted(each: Subtopology) -> Subtopology:
        return replace(
            each,
            repartition_source_topics=tuple(map(counted, each.repartition_source_topics)),
            changelog_topics=tuple(map(counted, each.changelog_topics)),
        )

    return replace(topology, subtopologies=tuple(map(with_counted, topology.subtopologies)))


class StreamsHeartbeats:
    """KIP-1071's decisions: `HeartbeatProtocol` of streams groups."""

    def __init__(self, topics: SubscribedTopics, configs: GroupConfigs, clock: Clock, settings: Settings) -> None:
        self._topics = topics
        self._configs = configs
        self._clock = clock
        self._settings = settings

    def check(self, request: GroupHeartbeat) -> None:
        check_streams_heartbeat(request)
        topology = request.streams.topology if request.streams is not None else None
        packed = b"" if topology is None else encode_topology(topology)["z"]
        if isinstance(packed, bytes) and len(packed) > GROUP_TARGET_BYTES_MAX:
            raise topology_too_large(len(packed))

    def admit(self, view: GroupView) -> GroupView:
        """The view, in which a group that has only had offsets, or a classic group without members, is an empty group
        of this protocol.

        Raises KafkaError(GROUP_ID_NOT_FOUND) for a group of another kind, as Kafka answers.
        """
        group = view.group
        if group is None or group.streams is not None:
            return view
        is_empty = not group_admin.has_living_members(view, self._clock.now_ms())
        if group.classic is None and (group.was_used or not is_empty):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"group {view.group_id} is a {group.group_type} group, not a streams group: use another id, or delete "
                f"it",
            )
        if not is_empty:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"group {view.group_id} has members of the classic protocol: wait until they have left",
            )
        streams = GroupState(
            view.group_id,
            version=group.version,
            epoch=max(group.epoch, FIRST_EPOCH),
            assignor=STICKY,
            streams=StreamsGroup(),
        )
        return replace(view, group=streams, topology=None)

    async def decide(self, view: GroupView, request: GroupHeartbeat, nonce: bytes, *, is_taken_in: bool) -> Transition:
        """Decide with cached topics if nothing but the member's session changes, with fresh ones if anything does."""
        decide = decide_streams_continuation if is_taken_in else decide_streams_heartbeat
        if view.group is None and request.member_epoch != JOIN_EPOCH:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id!r} does not exist")
        topology = view.topology
        if topology is None and request.streams is not None:
            topology = request.streams.topology
        names = topology.required_topics if topology is not None else frozenset[str]()
        config = await self._configs.streams_config(request.group_id)
        transition = Transition(GroupHeartbeatResult())
        for fresh in (False, True):
            around = StreamsCircumstances(
                await self._topics.named(names, fresh=fresh),
                self._clock.now_ms(),
                nonce,
                config.settings,
                config.assignment_interval_ms,
                config.standby_replicas,
                config.initial_delay_ms,
            )
            transition = decide(view, request, around)
            if _only_renews(transition):
                break
        return transition


def _only_renews(transition: Transition) -> bool:
    """Return True if nothing rests on the topics: a stale copy must never take a task away, nor report topics as
    missing."""
    answer = transition.result.streams
    moves = transition.group is not None or transition.granted or transition.released
    return not moves and (answer is None or not answer.statuses)
