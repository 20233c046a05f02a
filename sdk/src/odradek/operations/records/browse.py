"""A page of records: newest or oldest first over some partitions, with cursors to the pages before and after.

Each partition contributes a window of as many records as the page has. The windows are merged by timestamp, and a page
ends early rather than skip a record: where the window of a partition is used up and the partition has more, its next
record might come first.

    newest first    the records below a cursor (or the end): cursor = offset of each partition, exclusive
    oldest first    the records from a cursor (or a place) on: cursor = offset of each partition, inclusive
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.client.consumer.record import ConsumerRecord
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster import Cluster
from odradek.operations.places import Place
from odradek.operations.records.formats import Decoder
from odradek.operations.records.reading import bounds, read_windows, reader, starts
from odradek.operations.records.view import Formats, RecordView, view

LIMIT_MAX = 500
_MANY_PARTITIONS = 20  # from here on a partition's window is smaller than the page


@dataclass(frozen=True, slots=True)
class Page:
    """Records and where to continue; a cursor is "" where there is nothing more."""

    records: tuple[RecordView, ...]
    newer: str  # cursor of the page with newer records, for newest_first=False
    older: str  # cursor of the page with older records, for newest_first=True
    begins: Mapping[int, int]
    ends: Mapping[int, int]


def parse_cursor(text: str) -> dict[int, int]:
    """Parse "0:120,1:88": partition and offset. Raises KafkaError(INVALID_CONFIG)."""
    if not re.fullmatch(r"\d{1,9}:\d{1,19}(,\d{1,9}:\d{1,19})*", text):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid cursor {text[:60]!r}: use partition:offset,...")
    return {int(number): int(offset) for number, _, offset in (part.partition(":") for part in text.split(","))}


def as_cursor(offsets: Mapping[TopicPartition, int]) -> str:
    """Write a cursor."""
    return ",".join(f"{place.partition}:{offset}" for place, offset in sorted(offsets.items()))


async def browse(
    cluster: Cluster,
    topic: str,
    *,
    partitions: Sequence[int] = (),
    place: Place | None = None,
    cursor: str = "",
    newest_first: bool = True,
    limit: int = 50,
    decoder: Decoder | None = None,
    formats: Formats | None = None,
) -> Page:
    """Return a page of records.

    Args:
        partitions: empty for all.
        place: where to begin; with newest_first the page ends before it. None: the end, or the beginning.
        cursor: of another page; then `place` is ignored.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, TOPIC_AUTHORIZATION_FAILED ...
    """
    limit = max(1, min(limit, LIMIT_MAX))
    begins, ends = await bounds(cluster, topic, partitions)
    if cursor:
        given = parse_cursor(cursor)
        # A partition that was added since the cursor was made begins where the others began.
        here = {each: given.get(each.partition, ends[each] if newest_first else begins[each]) for each in ends}
        here = {each: max(begins[each], min(offset, ends[each])) for each, offset in here.items()}
    else:
        here = await starts(cluster, place or Place("latest" if newest_first else "earliest"), begins, ends)
    width = limit if len(ends) < _MANY_PARTITIONS else max(10, 4 * limit // len(ends))
    if newest_first:
        windows = {each: (max(begins[each], end - width), end) for each, end in here.items()}
    else:
        windows = {each: (first, min(ends[each], first + width)) for each, first in here.items()}
    found: dict[TopicPartition, list[ConsumerRecord]] = {each: [] for each in ends}
    for record in await read_windows(cluster, windows):
        found[record.topic_partition].append(record)
    if newest_first:
        more = {each for each, (first, _) in windows.items() if first > begins[each]}
        taken, left = _merge_newest(found, windows, more, limit)
        older, newer = (as_cursor(left) if any(left[each] > begins[each] for each in left) else ""), as_cursor(here)
        newer = newer if any(here[each] < ends[each] for each in here) else ""
    else:
        more = {each for each, (_, end) in windows.items() if end < ends[each]}
        taken, left = _merge_oldest(found, windows, more, limit)
        newer, older = (as_cursor(left) if any(left[each] < ends[each] for each in left) else ""), as_cursor(here)
        older = older if any(here[each] > begins[each] for each in here) else ""
    chosen, reads = formats or Formats(), decoder or Decoder()
    shown = await asyncio.to_thread(lambda: tuple(view(record, reads, chosen) for record in taken))
    return Page(
        shown,
        newer,
        older,
        {each.partition: offset for each, offset in begins.items()},
        {each.partition: offset for each, offset in ends.items()},
    )


def _merge_oldest(
    found: Mapping[TopicPartition, list[ConsumerRecord]],
    windows: Mapping[TopicPartition, tuple[int, int]],
    more: set[TopicPartition],
    limit: int,
) -> tuple[list[ConsumerRecord], dict[TopicPartition, int]]:
    """Return the first records by timestamp, and the next offset of each partition."""
    left = {place: end for place, (_, end) in windows.items()}
    heap = [(records[0].timestamp_ms, place, 0) for place, records in found.items() if records]
    heapq.heapify(heap)
    taken: list[ConsumerRecord] = []
    while heap and len(taken) < limit:
        _, place, at = heapq.heappop(heap)
        taken.append(found[place][at])
        if at + 1 < len(found[place]):
            heapq.heappush(heap, (found[place][at + 1].timestamp_ms, place, at + 1))
        elif place in more:
            break
    for _, place, at in heap:
        left[place] = found[place][at].offset
    return taken, left


def _merge_newest(
    found: Mapping[TopicPartition, list[ConsumerRecord]],
    windows: Mapping[TopicPartition, tuple[int, int]],
    more: set[TopicPartition],
    limit: int,
) -> tuple[list[ConsumerRecord], dict[TopicPartition, int]]:
    """Return the last records by timestamp, newest first, and the end of what is left in each partition."""
    left = {place: first for place, (first, _) in windows.items()}
    heap = [(-records[-1].timestamp_ms, place, len(records) - 1) for place, records in found.items() if records]
    heapq.heapify(heap)
    taken: list[ConsumerRecord] = []
    while heap and len(taken) < limit:
        _, place, at = heapq.heappop(heap)
        taken.append(found[place][at])
        if at > 0:
            heapq.heappush(heap, (-found[place][at - 1].timestamp_ms, place, at - 1))
        elif place in more:
            break
    for _, place, at in heap:
        left[place] = found[place][at].offset + 1
    return taken, left


async def read_one(
    cluster: Cluster, topic: str, partition: int, offset: int, decoder: Decoder, formats: Formats
) -> RecordView | None:
    """Return the record at an offset, None if compaction removed it. Raises KafkaError as Consumer.read_at."""
    async with reader(cluster) as consumer:
        record = await consumer.read_at(topic, partition, offset)
    return None if record is None else await asyncio.to_thread(view, record, decoder, formats)


async def raw_value(cluster: Cluster, topic: str, partition: int, offset: int, *, key: bool) -> bytes | None:
    """Return the bytes of a record's key or value; None for null or a record that compaction removed."""
    async with reader(cluster) as consumer:
        record = await consumer.read_at(topic, partition, offset)
    if record is None:
        return None
    found: bytes | None = record.key if key else record.value
    return found
