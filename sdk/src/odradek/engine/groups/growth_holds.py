"""Partitions that a growing topic has got, and that a group does not get yet (docs/decisions/0062).

A child partition (catalog/growth.py) has keys whose earlier records are in its parent. A group gets it when it has
consumed the parent, and the parent's own parents, up to the marks: then no member can meet a key's later record before
an earlier one. Consumed up to its mark is a partition

    at whose mark, or beyond it, the group has committed an offset
    whose log starts there: the records before it are deleted
    of which the group has committed nothing for `odradek.growth.hold.ms`: it does not commit, or did not begin there

A child that is released to a group that follows the parent begins at its start, not where `auto.offset.reset` says:
its first offset is committed first. What a group's target has already is never taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from odradek.engine.catalog.growth import ancestors_of
from odradek.engine.catalog.topic_configs import growth_hold_ms
from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.leases import VERSION, decode_lease, lease_slot
from odradek.engine.groups.state import NO_PARTITIONS
from odradek.engine.partition.fields import is_version_or_absent
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.tools import Tools
from odradek.errors import ConditionFailed
from odradek.model.topic import Growth, Topic
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId
from odradek.ports.table import Absent, Item, Key, Set, Update, all_of

_PARALLEL_COMMITS = 25


@dataclass(frozen=True, slots=True)
class Behind:
    """What a child waits for: its parent is to be consumed up to the mark."""

    parent: PartitionId
    mark: int
    growth: Growth
    hold_ms: int


class GrowthHolds:
    """Which partitions groups wait for; keeps nothing."""

    def __init__(self, tools: Tools, topics: Topics, index: PartitionIndex) -> None:
        self._table = tools.tables.groups
        self._clock = tools.clock
        self._settings = tools.settings
        self._topics = topics
        self._index = index

    async def held(
        self, group_id: str, topics: Collection[Topic], *, given: Collection[PartitionId] = (), since_ms: int = 0
    ) -> frozenset[PartitionId]:
        """Return the partitions that the group does not get yet; those that it gets now have an offset to begin at.

        Args:
            topics: as the catalog has them now.
            given: what the group has already.
            since_ms: since when it might have committed; 0: since now.

        Raises KafkaError, StoreError (ask again); FormatError.
        """
        names = {topic.topic_id: topic.name for topic in topics if topic.growths}
        waits = {
            child: behind
            for topic in topics
            for child, behind in (await self._waits(topic)).items()
            if child not in given
        }
        if not waits:
            return NO_PARTITIONS
        parents = {each.parent for behind in waits.values() for each in behind}
        commits = await self._commits(group_id, {*parents, *waits})
        starts = await self._log_starts(
            {each.parent for behind in waits.values() for each in behind if _is_short(each, commits)}
        )
        now_ms = self._clock.now_ms()
        held = frozenset(
            child
            for child, behind in waits.items()
            if any(
                _is_short(each, commits)
                and starts.get(each.parent, 0) < each.mark
                and not (each.parent not in commits and _has_waited(each, since_ms or now_ms, now_ms))
                for each in behind
            )
        )
        followed = [
            child
            for child, behind in waits.items()
            if child not in held and child not in commits and behind[0].parent in commits
        ]
        await self._begin(group_id, followed, names)
        return held

    async def _waits(self, topic: Topic) -> dict[PartitionId, list[Behind]]:
        """The children of a topic with what each waits for, its own parent first."""
        hold_ms = growth_hold_ms(topic, self._settings) if topic.growths else 0
        if not hold_ms:
            return {}
        marks = {growth: await self._topics.marks_of(topic, growth) for growth in topic.growths}
        return {
            PartitionId(topic.topic_id, number): [
                Behind(PartitionId(topic.topic_id, parent), marks[growth][parent], growth, hold_ms)
                for growth, parent in ancestors_of(number, topic.growths)
            ]
            for number in range(topic.growths[0].before, topic.partition_count)
        }

    async def _commits(
        self, group_id: str, partitions: Collection[PartitionId]
    ) -> dict[PartitionId, OffsetAndMetadata]:
        """What the group has committed of the partitions; a negative offset is none."""
        slots = {partition: lease_slot(group_id, partition) for partition in sorted(partitions)}
        keys = list(dict.fromkeys(slot.key for slot in slots.values()))
        items: dict[Key, Item | None] = dict(zip(keys, await self._table.get_many(keys), strict=True))
        found = {}
        for partition, slot in slots.items():
            item = items[slot.key]
            committed = None if item is None else decode_lease(item, slot.suffix).committed
            if committed is not None and committed.offset >= 0:
                found[partition] = committed
        return found

    async def _log_starts(self, partitions: Collection[PartitionId]) -> dict[PartitionId, int]:
        ordered = sorted(partitions)
        heads = await self._index.read_heads(ordered, whole=False) if ordered else []
        return {each: head.log_start_offset for each, head in zip(ordered, heads, strict=True) if head is not None}

    async def _begin(self, group_id: str, children: Collection[PartitionId], names: Mapping[UUID, str]) -> None:
        """Commit the first offset of each child, unless there is a commit."""

        async def commit(child: PartitionId, offset: int) -> None:
            slot = lease_slot(group_id, child)
            begins = (
                Set(("v",), VERSION),
                Set(("t",), names[child.topic_id]),
                Set(slot.path("f"), offset),
                Set(slot.path("c"), 0),
            )
            unset = (Absent(slot.path(name)) for name in ("f", "c", "o"))  # nor does it come late
            is_unset = all_of(is_version_or_absent(VERSION), *unset)
            try:
                await self._table.update(Update(slot.key, begins, is_unset))
            except ConditionFailed:
                return  # somebody has committed meanwhile

        some = sorted((await self._log_starts(children)).items())
        for at in range(0, len(some), _PARALLEL_COMMITS):
            await asyncio.gather(*(commit(*each) for each in some[at : at + _PARALLEL_COMMITS]))


def _is_short(behind: Behind, commits: Mapping[PartitionId, OffsetAndMetadata]) -> bool:
    """Return True if the group's commit does not show that the parent is consumed."""
    if not behind.mark:
        return False
    return behind.parent not in commits or commits[behind.parent].offset < behind.mark


def _has_waited(behind: Behind, since_ms: int, now_ms: int) -> bool:
    return now_ms - max(behind.growth.at_ms, since_ms) >= behind.hold_ms
