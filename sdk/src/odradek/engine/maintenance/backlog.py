"""The backlog of maintenance, which alarms watch. Reads only, a few requests per topic.

    tail_entries_max         the longest tail of a head: grows when spills fail
    unmerged_records         records in the tail or in rows that are not merged: grows when maintenance does not run
    sweep_backlog_seconds    age of the hour up to which uploads were swept
    table_behind_seconds     of table topics: age of the oldest record that is in no Parquet file yet
    lag of a group           records that it has not processed (group_lag.py), and how many groups were not measured

Heads and groups are read one after the other, so the numbers are not of one moment. What cannot be read is left out and
counted in `unread`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.engine.catalog.sweep_floor import read_sweep_state
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.catalog.topics import Topics
from odradek.engine.maintenance.group_lag import Ends, GroupLagReader
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import FormatError, KafkaError, StoreError
from odradek.format.object_id import object_id_ms
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import Table
from odradek.settings import Settings

_ROWS_LOOKED_AT = 32  # of each partition of a table topic


@dataclass(frozen=True, slots=True)
class Backlog:
    """The numbers of one look."""

    partitions: int = 0
    tail_entries_max: int = 0
    unmerged_records: int = 0
    sweep_backlog_seconds: int = 0  # 0 before the first sweep
    group_lag: Mapping[str, int] = field(default_factory=dict)
    groups_unmeasured: int = 0  # beyond the bound of a look
    unread: int = 0
    table_behind_seconds: int = 0

    def gauges(self) -> dict[str, int]:
        """All but the groups, by name."""
        return {
            "partitions": self.partitions,
            "tail_entries_max": self.tail_entries_max,
            "unmerged_records": self.unmerged_records,
            "sweep_backlog_seconds": self.sweep_backlog_seconds,
            "table_behind_seconds": self.table_behind_seconds,
            "group_lag_records_max": max(self.group_lag.values(), default=0),
            "groups_unmeasured": self.groups_unmeasured,
            "unread": self.unread,
        }


class Backlogs:
    """Looks."""

    def __init__(
        self,
        catalog: Table,
        index: PartitionIndex,
        topics: Topics,
        lags: GroupLagReader,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._topics = topics
        self._lags = lags
        self._clock = clock
        self._settings = settings

    async def look(self) -> Backlog:
        """Read the heads, the sweep's floor and the groups. Raises nothing of the store's."""
        tail_max = unmerged = sweep_s = unread = behind_s = 0
        ends = Ends()
        try:
            topics = await self._topics.list()
            floor_ms = object_id_ms((await read_sweep_state(self._catalog)).floor)
            sweep_s = max(0, self._clock.now_ms() - floor_ms) // 1000 if floor_ms else 0
        except (StoreError, FormatError, KafkaError):
            return Backlog(unread=1)
        for topic in topics:
            partitions = [PartitionId(topic.topic_id, number) for number in range(topic.partition_count)]
            try:
                heads = await self._index.read_heads(partitions, whole=False)
                if TopicConfig.of(topic, self._settings).is_table:
                    behind_s = max(
                        behind_s, *[await self._behind_s(*each) for each in zip(partitions, heads, strict=True)]
                    )
            except (StoreError, FormatError):
                unread += 1
                continue
            for partition, head in zip(partitions, heads, strict=True):
                if head is not None:
                    ends.note(topic.name, partition, head.next_offset)
                    tail_max = max(tail_max, len(head.tail))
                    unmerged += head.next_offset - max(head.merged_offset, head.log_start_offset)
        lags = await self._lags.read(ends)
        return Backlog(
            len(ends.by_id),
            tail_max,
            unmerged,
            sweep_s,
            lags.records,
            lags.unmeasured,
            unread + lags.unread,
            behind_s,
        )

    async def _behind_s(self, partition: PartitionId, head: PartitionHead | None) -> int:
        """Return the age of the oldest record of a table's partition that is in no Parquet file; 0: there is none.

        Of a long backlog the newest rows alone are looked at: it is that old at least.
        """
        oldest_ms = min((entry.commit_ms for _, entry in head.entries()), default=None) if head is not None else None
        for row in await self._index.newest_rows(partition, _ROWS_LOOKED_AT):
            if row.is_segment and row.is_columnar:
                break
            oldest_ms = row.started_ms
        return 0 if oldest_ms is None else max(0, self._clock.now_ms() - oldest_ms) // 1000
