"""Reads that another gateway should serve, because it stands in the consumer's rack (KIP-392).

The answer is a leader's: no records, the high watermark, and the broker to ask from then on. The consumer comes back
when its metadata has expired, or when that broker is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.engine.catalog.partitions import resolve_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.leaders.view import LeaderViews
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import FormatError, KafkaError, StoreUnavailable
from odradek.model.log import FetchPartition, FetchResult
from odradek.model.topic_partition import PartitionId


class ReadReplicas:
    """Finds the gateways of a rack for partitions."""

    def __init__(self, topics: Topics, index: PartitionIndex, views: LeaderViews) -> None:
        self._topics = topics
        self._index = index
        self._views = views

    async def move(self, partitions: Sequence[FetchPartition], rack: str) -> list[FetchResult | None]:
        """See Engine.move_reads."""
        found = await asyncio.gather(*(self._nearest(asked, rack) for asked in partitions))
        try:
            heads = await self._index.read_heads([each[0] for each in found if each is not None], whole=False)
        except (StoreUnavailable, FormatError):
            return [None] * len(partitions)
        read = iter(heads)
        results: list[FetchResult | None] = []
        for asked, nearest in zip(partitions, found, strict=True):
            head = None if nearest is None else next(read)
            if nearest is None or head is None:
                results.append(None)
                continue
            results.append(
                FetchResult(
                    asked.topic,
                    asked.partition,
                    high_watermark=head.next_offset,
                    log_start_offset=head.log_start_offset,
                    topic_id=asked.topic_id,
                    preferred_read_replica=nearest[1],
                )
            )
        return results

    async def _nearest(self, asked: FetchPartition, rack: str) -> tuple[PartitionId, int] | None:
        try:
            _, partition = await resolve_partition(self._topics, asked.topic, asked.partition, asked.topic_id)
        except KafkaError:
            return None
        broker_id = await self._views.nearest(partition, rack)
        return None if broker_id is None else (partition, broker_id)
