"""Records as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from odradek.client.consumer.record import ConsumerRecord
from odradek.operations.cluster import Cluster
from odradek.operations.records.filters import Filter
from odradek.operations.records.formats import Decoder
from odradek.operations.records.reading import bounds, reader, seek
from odradek.operations.records.view import Candidate, Formats, RecordView

_POLL_MS = 1_000
_SHOWN_MAX = 200  # of one poll: nobody reads more, and a browser would not keep up


@dataclass(frozen=True, slots=True)
class Arrived:
    """Records since the last one: the newest matching records, oldest first, and how many were left out."""

    records: tuple[RecordView, ...]
    skipped: int  # matching records that were not shown
    seen: int  # records, matching or not


async def tail(
    cluster: Cluster,
    topic: str,
    wanted: Filter,
    *,
    partitions: Sequence[int] = (),
    decoder: Decoder | None = None,
    formats: Formats | None = None,
) -> AsyncGenerator[Arrived]:
    """Yield what arrives from now on, about once a second, also if it is nothing, until the iterator is closed.

    Raises:
        KafkaError: INVALID_CONFIG for an invalid expression, UNKNOWN_TOPIC_OR_PARTITION ...
    """
    matches, reads, chosen = wanted.whole(), decoder or Decoder(), formats or Formats()
    _, ends = await bounds(cluster, topic, partitions)
    async with reader(cluster, max_poll_records=5_000) as consumer:
        seek(consumer, {place: (end, end) for place, end in ends.items()})
        while True:
            polled = [record for records in (await consumer.poll(_POLL_MS)).values() for record in records]
            yield await asyncio.to_thread(_arrived, polled, matches, reads, chosen)


def _arrived(
    polled: Sequence[ConsumerRecord], matches: Callable[[Candidate], bool], decoder: Decoder, formats: Formats
) -> Arrived:
    ordered = sorted(polled, key=lambda record: (record.timestamp_ms, record.partition, record.offset))
    found = [each for each in (Candidate(record, decoder, formats) for record in ordered) if matches(each)]
    shown = tuple(each.view() for each in found[-_SHOWN_MAX:])
    return Arrived(shown, len(found) - len(shown), len(polled))
