"""Roll: spill the tail of a quiet partition when it is as old as an active segment may become.

The tail in the head is the active segment: retention does not drop it and compaction does not read it. A writer spills
it when it grows too long, so on a partition without further writes a deleted key or an expired record would stay for
ever. It is spilled, as Apache Kafka rolls its active segment (LogConfig.maxSegmentMs; where all of it has
expired UnifiedLog.deleteSegments), when

    its oldest batch was appended more than `segment.ms` ago, under `compact` also more than `max.compaction.lag.ms` ago
    all of its records are older than `retention.ms`, under `delete`
    it is to be in a Parquet file: `odradek.table.commit.interval.ms`, `odradek tables flush`

From then on it is rows like any others: retention drops them, merges make them segments, compaction reads those.
"""

from __future__ import annotations

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.ports.clock import Clock

_SPILLS_MAX = 64  # in one run; the next one continues


class Roll:
    """The upkeep that spills tails of quiet partitions; it comes before those that act on rows."""

    acts_on_tail = True

    def __init__(self, index: PartitionIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        return wants_roll(look.head, look.config, self._clock.now_ms())

    async def run(self, held: HeldPartition) -> None:
        """See maintenance.Upkeep."""
        for _ in range(_SPILLS_MAX):
            head = await self._index.read_head(held.partition)
            if head is None or not wants_roll(head, held.config, self._clock.now_ms()):
                return
            await self._index.spill_to_rows(held.partition, head)
            held.report.done["tails_rolled"] += 1


def wants_roll(head: PartitionHead, config: TopicConfig, now_ms: int) -> bool:
    """Return True if the tail is older than an active segment may be. Pure."""
    entries = [entry for _, entry in head.entries()]
    if not entries:
        return False
    oldest_ms = min(entry.commit_ms for entry in entries)
    if now_ms - oldest_ms > config.active_ms_max or oldest_ms <= config.table_due_ms(now_ms):
        return True
    if not config.is_deleting or config.retention_ms < 0:
        return False
    newest_ms = max(entry.max_timestamp_ms if entry.max_timestamp_ms >= 0 else entry.commit_ms for entry in entries)
    return newest_ms < now_ms - config.retention_ms
