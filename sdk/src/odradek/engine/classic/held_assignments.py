"""Assignments of classic groups without the partitions that the group does not get yet (groups/growth_holds.py).

A classic group's leader, a client, assigns all partitions that metadata shows. The coordinator takes out of the
assignments what is held, keeps in the group's item what it took out, and has the group rebalance when that is released.
Only consumers' assignments are understood: those of Connect, and of Kafka Streams, whose tasks are in the user data,
are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.growth_holds import GrowthHolds
from odradek.format.consumer_protocol import partitions_of_assignment, without_partitions
from odradek.model.classic_group import ClassicGroup, ClassicSync
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock

_CONSUMERS, _STREAMS = "consumer", "stream"
_PATIENCE_MS = 10_000  # of a group that has got some of what it waits for: each release is a rebalance


class HeldAssignments:
    """What classic groups do not get yet."""

    def __init__(self, holds: GrowthHolds, topics: Topics, clock: Clock) -> None:
        self._holds = holds
        self._topics = topics
        self._clock = clock

    async def taken_out(self, group: ClassicGroup, request: ClassicSync) -> tuple[ClassicGroup, ClassicSync]:
        """Return the group, with what is held, and the leader's request without it. Raises KafkaError, StoreError."""
        if group.protocol_type != _CONSUMERS or group.protocol == _STREAMS:
            return group, request
        try:
            assigned = [partitions_of_assignment(each) for each in request.assignments.values() if each]
        except ValueError:
            return group, request  # another client's own bytes
        topics = await self._grown({name for each in assigned for name in each})
        if not topics:
            return group, request
        now_ms = self._clock.now_ms()
        since_ms = group.held_since_ms or now_ms
        held = await self._holds.held(request.identity.group_id, topics.values(), since_ms=since_ms)
        given = {
            PartitionId(topics[name].topic_id, number)
            for each in assigned
            for name, numbers in each.items()
            if name in topics
            for number in numbers
        }
        held &= given
        if not held:
            return replace(group, held=held), request
        numbers = {name: {n for topic_id, n in held if topic_id == topic.topic_id} for name, topic in topics.items()}
        assignments = {
            member_id: without_partitions(each, numbers) if each else each
            for member_id, each in request.assignments.items()
        }
        group = replace(group, held=held, held_since_ms=since_ms, synced_ms=now_ms)
        return group, replace(request, assignments=assignments)

    async def is_released(self, group_id: str, group: ClassicGroup) -> bool:
        """Return True if the group should rebalance to get what it waited for. Raises KafkaError, StoreError."""
        if not group.held:
            return False
        topics = [await self._topics.get_by_id(topic_id) for topic_id in sorted({each.topic_id for each in group.held})]
        grown = [topic for topic in topics if topic is not None and topic.growths]
        still = await self._holds.held(group_id, grown, since_ms=group.held_since_ms) & group.held
        waits = 0 <= self._clock.now_ms() - group.synced_ms < _PATIENCE_MS
        return not still or (still != group.held and not waits)

    async def _grown(self, names: Iterable[str]) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        for name in sorted(names):
            topic = await self._topics.get(name)
            if topic is not None and not topic.growths:
                self._topics.forget(topic)  # the leader may have seen a growth that this copy has not
                topic = await self._topics.get(name)
            if topic is not None and topic.growths:
                found[name] = topic
        return found
