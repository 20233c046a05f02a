"""Planted bugs of topics that grow (docs/decisions/0062)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from odradek.client.producer.accumulator import Accumulator
from odradek.engine.groups import growth_holds
from odradek.engine.partition import head_append
from odradek.engine.partition.index import PartitionIndex

from tests.simulation.planted.bug import bug

STALL_S = 3.0


@bug("growth", seeds=40)
def new_partition_before_its_parent_is_consumed() -> Iterator[None]:
    """A group gets a new partition while it still has to consume the records that were there before it."""
    with patch.object(growth_holds, "_is_short", lambda behind, commits: False):
        yield


@bug("growth", seeds=40)
def append_by_fewer_partitions_than_there_are() -> Iterator[None]:
    """Records that a producer partitioned before it heard of a growth are appended after it."""
    with patch.object(head_append, "_fences", lambda chosen_by: ()):
        yield


@bug("growth", seeds=120)
def mark_from_before_the_fence() -> Iterator[None]:
    """Records that are appended between the read of the next offset and a stalled caller's fence are above it."""
    original = PartitionIndex.fence

    async def fence(self: PartitionIndex, head_id: Any, partition_count: int) -> Any:
        before = await self.read_image(head_id)
        await asyncio.sleep(STALL_S)
        await original(self, head_id, partition_count)
        return before

    with patch.object(PartitionIndex, "fence", fence):
        yield


@bug("growth", seeds=40)
def later_records_overtake_those_that_move() -> Iterator[None]:
    """A producer that learns of a growth sends by the new number while earlier records of the keys are in flight."""
    with patch.object(Accumulator, "_waiting_lanes", lambda self: set()):
        yield
