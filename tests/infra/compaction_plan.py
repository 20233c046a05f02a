"""Calls of functions for a compacted topic, for the test of their permissions."""

from __future__ import annotations

from typing import Any

from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import MaintenancePlan, MaintenanceReport
from odradek.functions.environment import MAINTAINER, MAINTENANCE

from tests.support.engine import batch, produce


async def plan_compaction(world: Any, admin: Engine, producer: Engine) -> None:
    """Plan a compaction: the function reads the age of a segment from its first batch."""
    configs = {"cleanup.policy": "compact", "max.compaction.lag.ms": "86400000", "min.cleanable.dirty.ratio": "1"}
    table = await admin.topics.create("table", 1, configs)
    for _ in range(4):
        assert not (await produce(producer, "table", 0, batch([b"v"], keys=[b"k"]))).error
    merged = MaintenanceReport()
    merging = world.engine(MAINTAINER, merge_rows_min=1, merge_delay_ms=0).maintenance
    await merging.run_partition(table, 0, merged)
    assert merged.done["segments_merged"], merged
    await world.engine(MAINTENANCE).maintenance.plan(MaintenancePlan())
    await admin.topics.delete("table")
