"""Fetches that find nothing, again and again: what a consumer that waits at the end of its partitions sends.

A fetch that found nothing finds nothing as long as the heads say what they said. A store that keeps its items says so
by the same image (partition/shared_head.py), so the next fetch of the same partitions and offsets needs no plan: it
compares the images, and waits. Where the store keeps nothing, every fetch reads the heads, and nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from odradek.engine.catalog.topics import Topics
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import HeadImage, ends_of
from odradek.engine.read.looks import Looks
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreError
from odradek.model.log import FetchPartition, FetchResult
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock

_LEAST_WAIT_S = 0.001


@dataclass(frozen=True, slots=True)
class Quiet:
    """A fetch that found nothing.

    Attributes:
        topics: as the request names them, with the ids that these names had.
        ends: the end offsets of its partitions, at which it reads.
        images: what their heads said.
    """

    topics: tuple[tuple[str, UUID | None, UUID], ...]
    ends: Mapping[PartitionId, int]
    images: Mapping[PartitionId, HeadImage]


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
        images = await self._images(ends)
        if images is None:
            return None
        for partition, result in zip(ends, results, strict=True):
            if ends_of(images[partition.head_id], partition) != (result.log_start_offset, result.high_watermark):
                return None
        return Quiet(tuple(topics), ends, images)

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
        images = await self._images(quiet.ends)
        return images is not None and all(images[head_id] is image for head_id, image in quiet.images.items())

    async def _images(self, ends: Mapping[PartitionId, int]) -> dict[PartitionId, HeadImage] | None:
        """Return what the heads say now; None: one is gone, damaged or not to be read."""
        try:
            found = await self._index.read_images([partition.head_id for partition in ends])
        except (StoreError, FormatError):
            return None
        images = {head_id: image for head_id, image in found.items() if image is not None}
        return images if len(images) == len(found) else None
