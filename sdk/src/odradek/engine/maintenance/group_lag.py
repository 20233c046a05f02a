"""The lag of groups of every type: the only place that says what it is counted from.

    consumer, classic, streams    committed offsets
    share                         the windows: from the first record that is not done, without those done after it

A partition that a group has not committed, or not read, has no lag. At most `GROUPS_MAX` groups are measured at a look,
in the order of their ids; how many were left out is part of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.engine.groups.groups import Groups
from odradek.engine.offsets.offsets import GroupOffsets
from odradek.engine.share.items import decode_share, share_partition
from odradek.errors import FormatError, KafkaError, StoreError
from odradek.format.item_keys import SHARE_PARTITION_END, SHARE_PARTITION_PREFIX, group_pk
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.ports.table import Table

GROUPS_MAX = 200  # whose lag is measured


@dataclass(frozen=True, slots=True)
class Ends:
    """The high watermarks of all partitions, by name and by id."""

    by_name: dict[TopicPartition, int] = field(default_factory=dict)
    by_id: dict[PartitionId, int] = field(default_factory=dict)

    def note(self, topic: str, partition: PartitionId, end_offset: int) -> None:
        self.by_name[TopicPartition(topic, partition.partition)] = end_offset
        self.by_id[partition] = end_offset


@dataclass(frozen=True, slots=True)
class GroupLags:
    """Records behind the high watermarks, by group.

    Attributes:
        unmeasured: groups beyond the bound.
        unread: groups, or lists of them, that could not be read.
    """

    records: Mapping[str, int] = field(default_factory=dict)
    unmeasured: int = 0
    unread: int = 0


class GroupLagReader:
    """Measures the lag of all groups."""

    def __init__(self, groups_table: Table, groups: Groups, offsets: GroupOffsets) -> None:
        self._table = groups_table
        self._groups = groups
        self._offsets = offsets

    async def read(self, ends: Ends) -> GroupLags:
        """Return the lag of each group. Raises nothing of the store's."""
        try:
            groups = await self._groups.list()
        except (StoreError, FormatError, KafkaError):
            return GroupLags(unread=1)
        records: dict[str, int] = {}
        unread = 0
        for group in groups[:GROUPS_MAX]:
            try:
                if group.group_type == "share":
                    records[group.group_id] = await self._of_share_group(group.group_id, ends)
                else:
                    records[group.group_id] = await self._of_offsets(group.group_id, ends)
            except (StoreError, FormatError, KafkaError):
                unread += 1
        return GroupLags(records, max(0, len(groups) - GROUPS_MAX), unread)

    async def _of_offsets(self, group_id: str, ends: Ends) -> int:
        return sum(
            max(0, ends.by_name.get(each.partition, 0) - each.committed.offset)
            for each in await self._offsets.fetch(group_id, None)
            if each.committed is not None and each.committed.offset >= 0
        )

    async def _of_share_group(self, group_id: str, ends: Ends) -> int:
        rows = await self._table.query(group_pk(group_id), sk_from=SHARE_PARTITION_PREFIX, sk_to=SHARE_PARTITION_END)
        windows = [(share_partition(row.key.sk), decode_share(row.item).state) for row in rows]
        return sum(
            max(0, ends.by_id.get(partition, 0) - window.start_offset - window.done_count)
            for partition, window in windows
        )
