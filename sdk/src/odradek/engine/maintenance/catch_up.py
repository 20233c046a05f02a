"""Catch-up of table topics: segments of batches that will not grow any more become Parquet files.

They are there because they were closed before the topic was a table, or where maintenance had no pyarrow; or because
they were left small between closed ones, where no merge pays. A segment that this release's writer refused has a mark
(index_row.refused_by) and is tried again by a writer of another version alone. The replacement is a merge's
(segment_swap.py).

A plan looks at one page of rows of a partition, the next one with the next plan: history is looked through once by a
process, whatever its length, and then once an hour.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.engine.maintenance.merge import Merger
from odradek.engine.maintenance.merge_decisions import MergePolicy, choose_catch_up, choose_join
from odradek.engine.maintenance.table_segments import TABLE_WRITER, can_write_tables
from odradek.engine.partition.index import ROWS_REPLACED_MAX, PartitionIndex
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.engine.tools import Tools
from odradek.model.topic_partition import PartitionId

_ROWS_PER_PAGE = 128
_AGAIN_AFTER_MS = 3_600_000
_SEGMENTS_PER_RUN = 16  # the next run continues: other partitions wait
_PARTITIONS_KEPT = 10_000


class TableCatchUp:
    """The upkeep after merges."""

    acts_on_tail = False

    def __init__(self, tools: Tools, index: PartitionIndex, leases: MaintenanceLeases, merger: Merger) -> None:
        self._index = index
        self._leases = leases
        self._merger = merger
        self._clock = tools.clock
        self._settings = tools.settings
        self._looked: dict[PartitionId, tuple[int, int, int]] = {}  # the next offset to look at, when, of which flush

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        if not look.config.is_table or not can_write_tables():
            return False
        at, when_ms, flush_ms = self._looked.get(look.partition, (0, 0, -1))
        if flush_ms != look.config.table_flush_ms:
            at, when_ms = 0, 0
        if self._clock.now_ms() < when_ms:
            return False
        rows = await self._index.rows_from(look.partition, at, _ROWS_PER_PAGE)
        if _chosen(rows, self._policy(look.config)) is not None:
            return True
        if len(self._looked) >= _PARTITIONS_KEPT:
            self._looked.clear()
        # The last row of a page comes again with the next one: what follows it decides.
        more = len(rows) > 1 and rows[-1].is_segment
        self._looked[look.partition] = (
            (rows[-1].base_offset, 0, look.config.table_flush_ms) if more else self._later(look.config)
        )
        return False

    def _later(self, config: TopicConfig) -> tuple[int, int, int]:
        """Return the entry of a partition at which there is nothing to do for now: what is due by time comes sooner."""
        interval_ms = config.table_commit_interval_ms
        wait_ms = _AGAIN_AFTER_MS if interval_ms < 0 else min(_AGAIN_AFTER_MS, interval_ms // 2)
        return 0, self._clock.now_ms() + wait_ms, config.table_flush_ms

    async def run(self, held: HeldPartition) -> None:
        """Implement maintenance.Upkeep. Also raises OutcomeUnknown: the next pass continues."""
        if not held.config.is_table or not can_write_tables():
            return
        policy, at = self._policy(held.config), 0
        for _ in range(_SEGMENTS_PER_RUN):
            while True:
                rows = await self._index.rows_from(held.partition, at, _ROWS_PER_PAGE)
                window = _chosen(rows, policy)
                if window is not None:
                    break
                if len(rows) < 2 or not rows[-1].is_segment:
                    return
                at = rows[-1].base_offset
            if held.lease.expires_ms - self._clock.now_ms() < self._settings.maintenance_lease_ms // 2:
                held.lease = await self._leases.renew(held.lease)
            if not await self._merger.rewrite(held, rows, window, policy):
                again_ms = self._clock.now_ms() + _AGAIN_AFTER_MS
                self._looked[held.partition] = (0, again_ms, held.config.table_flush_ms)
                return
            at = rows[max(0, window[0] - 1)].base_offset

    def _policy(self, config: TopicConfig) -> MergePolicy:
        return MergePolicy.of(config, self._settings, ROWS_REPLACED_MAX, self._clock.now_ms())


def _chosen(rows: Sequence[IndexRow], policy: MergePolicy) -> tuple[int, int] | None:
    return choose_catch_up(rows, policy, TABLE_WRITER) or choose_join(rows, policy)
