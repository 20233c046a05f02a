"""Removal of the rows of a generation that was dropped: a stretch a message, until a day after nothing is left.

Positions are removed before rows: after that nobody can add one (rows.py). A maintainer with an outdated definition may
create a position again, so a dropped generation is looked at for a day.
"""

from __future__ import annotations

from uuid import UUID

from odradek.engine.marks import Wake
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import Delete, Table
from odradek.served.definition import Definitions, Dropped
from odradek.served.keys import shard_pk

REMOVAL_PREFIX = "dropped:"  # before a generation in a wake message
_NO_HEAD = PartitionId(UUID(int=0), 0)
_KEPT_MS = 86_400_000
_ROWS_AT_ONCE = 500
_ROWS_PER_RUN = 20_000


def removal_of(dropped: Dropped) -> Wake:
    """The message that has a generation removed."""
    return Wake(_NO_HEAD, REMOVAL_PREFIX + dropped.generation)


class Removal:
    """Removes rows.

    Args:
        rows: the table of rows.
        definitions: the tables.
    """

    def __init__(self, rows: Table, definitions: Definitions, clock: Clock) -> None:
        self._rows = rows
        self._definitions = definitions
        self._clock = clock

    async def run(self, generation: str, deadline_s: float) -> None:
        """Remove what there is, as far as time allows; the next sweep has the rest removed. Raises StoreError."""
        dropped = await self._definitions.dropped_generation(generation)
        if dropped is None:
            return
        now = await self._definitions.get(dropped.name, fresh=True)
        if now is not None and now.generation == generation:
            return  # its drop was begun and never ended: it is served still
        for key, _ in await self._rows.query(generation):
            await self._rows.delete(Delete(key))
        left = _ROWS_PER_RUN
        for shard in range(dropped.shards):
            while left > 0 and self._clock.monotonic() < deadline_s:
                rows = await self._rows.query(shard_pk(generation, shard), limit=min(left, _ROWS_AT_ONCE))
                for key, _ in rows:
                    await self._rows.delete(Delete(key))
                left -= len(rows)
                if not rows:
                    break
        is_done = left > 0 and self._clock.monotonic() < deadline_s
        if is_done and self._clock.now_ms() - dropped.dropped_ms > _KEPT_MS:
            await self._definitions.removed(dropped)
