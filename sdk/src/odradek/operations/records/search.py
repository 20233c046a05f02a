"""Records that match a filter, as they are found, with progress. Closing the iterator cancels the search.

Newest first, the log is read in windows from its end: within a window records are sorted by timestamp, so a search for
what happened lately ends soon. Oldest first, it is read once from the beginning on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.client.consumer.record import ConsumerRecord
from odradek.extras import extra
from odradek.model.record import TimestampType
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster import Cluster
from odradek.operations.places import Place
from odradek.operations.records.filters import Filter
from odradek.operations.records.formats import Decoder
from odradek.operations.records.reading import Window, bounds, reader, starts, tables
from odradek.operations.records.view import Candidate, Formats, RecordView, view

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_ROUND = 20_000  # offsets of all partitions together, in the first window from the end
_ROUND_MAX = 2_000_000
_WINDOW_MIN = 1_000  # of one partition
_GROWTH = 4
_SCAN_CHUNK_ROWS = 50_000  # rows that are decoded between two looks at whether anyone still listens


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is."""

    scanned: int  # records looked at
    total: int  # records between the start and the end of the log
    matched: int
    is_finished: bool = False


Found = Progress | list[RecordView]


async def search(
    cluster: Cluster,
    topic: str,
    wanted: Filter,
    *,
    partitions: Sequence[int] = (),
    place: Place | None = None,
    newest_first: bool = True,
    limit: int = 100,
    decoder: Decoder | None = None,
    formats: Formats | None = None,
) -> AsyncGenerator[Found]:
    """Yield lists of matching records and the progress after each table, up to `limit` records.

    Args:
        place: the oldest record to look at; None: the beginning.

    Raises:
        KafkaError: INVALID_CONFIG for an invalid expression, UNKNOWN_TOPIC_OR_PARTITION ...; MissingExtra.
    """
    with extra("table"):
        import pyarrow  # noqa: F401
    keep, holds = wanted.rows(formats), wanted.records()
    begins, ends = await bounds(cluster, topic, partitions)
    first = await starts(cluster, place or Place("earliest"), begins, ends)
    total = sum(ends[each] - first[each] for each in ends)
    scanned = matched = 0
    reads, chosen = decoder or Decoder(), formats or Formats()
    rounds = _from_the_end(first, ends) if newest_first else iter([{each: (first[each], ends[each]) for each in ends}])
    yield Progress(0, total, 0)
    async with reader(cluster, fetch_max_wait_ms=100) as consumer:
        for windows in rounds:
            held: list[RecordView] = []
            async with aclosing(tables(consumer, windows, headers=True)) as found_tables:
                async for table in found_tables:
                    scanned += table.num_rows
                    for rows in _slices(await asyncio.to_thread(keep, table)):
                        found = await asyncio.to_thread(
                            _matches, topic, rows, holds, reads, chosen, wanted.needs_headers
                        )
                        if newest_first:
                            held += found
                        elif found:
                            yield found[: limit - matched]
                            matched += len(found)
                    yield Progress(min(scanned, total), total, min(matched + len(held), limit))
                    if not newest_first and matched >= limit:
                        break
            if held:
                held.sort(key=lambda record: (-record.timestamp_ms, record.partition, -record.offset))
                yield held[: limit - matched]
                matched += len(held)
            if matched >= limit:
                break
    yield Progress(min(scanned, total), total, min(matched, limit), is_finished=True)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    for at in range(0, table.num_rows, _SCAN_CHUNK_ROWS):
        yield table.slice(at, _SCAN_CHUNK_ROWS)


def _from_the_end(
    first: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[dict[TopicPartition, Window]]:
    """Yield windows of all partitions from their ends to their first offsets, larger each time."""
    at, size = dict(ends), max(_WINDOW_MIN, _FIRST_ROUND // max(1, len(ends)))
    while any(at[each] > first[each] for each in at):
        windows = {each: (max(first[each], end - size), end) for each, end in at.items()}
        yield windows
        at = {each: window[0] for each, window in windows.items()}
        size = min(size * _GROWTH, max(_WINDOW_MIN, _ROUND_MAX // len(ends)))


def _matches(
    topic: str,
    rows: pa.Table,
    holds: Callable[[Candidate], bool],
    decoder: Decoder,
    formats: Formats,
    needs_headers: bool,
) -> list[RecordView]:
    """Return the rows that match. Headers are made for those alone, unless a condition asks about them."""
    if rows.num_rows and needs_headers:
        found = [each for each in records_of(topic, rows) if holds(Candidate(each, decoder, formats))]
    else:
        bare = records_of(topic, rows.drop_columns(["headers"]))
        kept = [number for number, each in enumerate(bare) if holds(Candidate(each, decoder, formats))]
        found = list(records_of(topic, rows.take(kept))) if kept else []
    return [view(each, decoder, formats) for each in found]


def records_of(topic: str, rows: pa.Table) -> Iterator[ConsumerRecord]:
    """Yield the rows of a table with reading.COLUMNS as records."""
    columns: dict[str, list[Any]] = {name: rows[name].to_pylist() for name in ("partition", "offset", "key", "value")}
    timestamps = rows["timestamp"].cast("int64").to_pylist()
    headers = rows["headers"].to_pylist() if "headers" in rows.column_names else [()] * rows.num_rows
    for at in range(rows.num_rows):
        yield ConsumerRecord(
            topic,
            columns["partition"][at],
            columns["offset"][at],
            timestamps[at] // 1000,
            TimestampType.CREATE_TIME,
            columns["key"][at],
            columns["value"][at],
            tuple((each["key"], each["value"]) for each in headers[at] or ()),
        )
