"""Room in heads that have grown far too long: appends of this process wait while one of them spills.

A throttled head (1,000 write units per second for all items of a partition) admits few writes, and a spill needs
several of them while an append needs one. If each append only retried its own write, spills would starve, the head
would grow, and with it the cost of every write. So an append that has seen a head that is far too long makes room
first: one task per process and head; the others wait for it. Functions help each other: each update of a spill
counts, whichever process makes it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from odradek.backoff import Backoff
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import HeadImage
from odradek.errors import FormatError, OutcomeUnknown, StoreError, StoreUnavailable
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

_ATTEMPTS_MAX = 12
_SEEN_MAX = 4096


class Room:
    """The heads that are far too long, as far as this process knows."""

    def __init__(self, index: PartitionIndex, clock: Clock, rng: Rng) -> None:
        self._index = index
        self._backoff = Backoff(clock, rng, first_s=0.02, max_s=0.2)
        self._far_too_long: OrderedDict[PartitionId, None] = OrderedDict()
        self._spilling: dict[PartitionId, asyncio.Lock] = {}

    def lacks(self, head_id: PartitionId) -> bool:
        """Return True if the head was far too long when it was last read."""
        return head_id in self._far_too_long

    def saw(self, head_id: PartitionId, head: HeadImage) -> None:
        """What a head says, newer than before."""
        if not self._index.is_far_too_long(head):
            self._far_too_long.pop(head_id, None)
            return
        self._far_too_long[head_id] = None
        if len(self._far_too_long) > _SEEN_MAX:
            self._far_too_long.popitem(last=False)

    async def make_where_it_lacks(self, head_id: PartitionId) -> None:
        """Spill a head that was seen far too long, or wait for the task that does. Raises nothing of the store's."""
        if not self.lacks(head_id):
            return
        lock = self._spilling.setdefault(head_id, asyncio.Lock())
        try:
            async with lock:
                if self.lacks(head_id):
                    await self.make(head_id)
        finally:
            if not lock.locked():
                self._spilling.pop(head_id, None)

    async def make(self, head_id: PartitionId) -> None:
        """Spill the excess of the head now. Raises no store error: a later append continues."""
        for attempt in range(_ATTEMPTS_MAX):
            try:
                head = await self._index.read_image(head_id)
                if head is None:
                    self._far_too_long.pop(head_id, None)
                    return
                self.saw(head_id, head)
                if not self._index.is_long(head):
                    return
                await self._index.spill(head_id, head)
            except (StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(attempt)
            except (StoreError, FormatError):
                return
