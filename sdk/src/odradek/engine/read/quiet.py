"""Fetches that find nothing, again and again: what a consumer that waits at the end of its partitions sends.

A fetch that found nothing finds nothing as long as the heads are the same. A store that keeps its items in memory
returns the same object until an item is written, so the next fetch of the same partitions and offsets needs no plan: it
compares the items, and waits. Where the store keeps nothing, every fetch reads the heads, and nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from odradek.engine.catalog.topics import Topics
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import decode_image, ends_of
from odradek.engine.read.looks import Looks
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreError
from odradek.model.log import FetchPartition, FetchResult
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import KeptItem, Key

_LEAST_WAIT_S = 0.001


@dataclass(frozen=True, slots=True)
class Quiet:
    """A fetch that found nothing.

    Attributes:
        topics: as the request names them, with the ids that these names had.
        ends: the end offsets of its partitions, at which it reads.
        items: their heads.
    """

    topics: tuple[tuple[str, UUID | None, UUID], ...]
    ends: Mapping[PartitionId, int]
    items: Mapping[Key, KeptItem]


class QuietFetches:
    """Remembers that a fetch found nothing, and tells for how long that lasts."""

    def __init__(self, index: PartitionIndex, topics: Topics, looks: Looks, clock: Clock) -> None:
        self._index = index
        self._topics = topics
        self._looks = looks
        self._clock = clock

    async def of(self, partitions: Sequence[FetchPartition], results: Sequence[FetchResult]) -> Quiet | None:
        """Return what a fetch saw that found nothing; None: it found something, or a store that keeps no items."""
        if not self._index.reads_kept_items or not results:
            return None
        topics: dict[tuple[str, UUID | None, UUID], None] = {}
        ends: dict[PartitionId, int] = {}
        for request, result in zip(partitions, results, strict=True):
            is_empty = result.error is ErrorCode.NONE and not result.records
            if not is_empty or result.topic_id is None or result.high_watermark != request.offset:
                return None
            topics[request.topic, request.topic_id, result.topic_id] = None
            ends[PartitionId(result.topic_id, request.partition)] = request.offset
        head_ids = dict.fromkeys(partition.head_id for partition in ends)
        try:
            items = await self._index.kept_items(head_ids)
            if items is None:
                return None
            images = dict(zip(head_ids, map(decode_image, head_ids, items.values()), strict=True))
        except (StoreError, FormatError):
            return None
        for partition, result in zip(ends, results, strict=True):
            if ends_of(images[partition.head_id], partition) != (result.log_start_offset, result.high_watermark):
                return None
        return Quiet(tuple(topics), ends, items)

    async def lasts(self, quiet: Quiet, deadline_s: float) -> bool:
        """Wait until the deadline, by the engine's monotonic clock; False, at once: the fetch must be made again."""
        try:
            for name, named_id, topic_id in quiet.topics:
                if (await self._topics.resolve(name, named_id)).topic_id != topic_id:
                    return False
        except KafkaError:
            return False
        while await self._is_unchanged(quiet):
            if deadline_s - self._clock.monotonic() < _LEAST_WAIT_S:
                return True
            if await self._looks.wait(quiet.ends, deadline_s) is None:
                return True
        return False

    async def _is_unchanged(self, quiet: Quiet) -> bool:
        try:
            return await self._index.are_unchanged(quiet.items)
        except StoreError:
            return False
