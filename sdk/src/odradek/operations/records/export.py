"""Records as a file: CSV, JSON lines or Parquet, with the filter of a search.

csv       partition, offset, timestamp (ISO 8601, UTC), key, value, headers (JSON): decoded, as the console shows them
json      one object per line, as `odradek consume --json` prints it; `odradek produce --json` reads it back exactly
parquet   partition, offset, timestamp, key, value, headers: bytes, unchanged
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster import Cluster
from odradek.operations.places import Place
from odradek.operations.records.filters import Filter
from odradek.operations.records.formats import Decoder
from odradek.operations.records.lines import as_json
from odradek.operations.records.reading import Window, bounds, reader, starts, tables
from odradek.operations.records.search import records_of
from odradek.operations.records.view import Candidate, Formats, RecordView

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("csv", "json", "parquet")
ROWS_MAX = 1_000_000
_CHUNK_BYTES = 256 * 1024


async def export(
    cluster: Cluster,
    topic: str,
    kind: str,
    wanted: Filter,
    *,
    partitions: Sequence[int] = (),
    place: Place | None = None,
    rows_max: int = ROWS_MAX,
    decoder: Decoder | None = None,
    formats: Formats | None = None,
) -> AsyncGenerator[bytes]:
    """Yield a file with the matching records from a place on, oldest first by partition, at most `rows_max`.

    Raises:
        KafkaError: INVALID_CONFIG for an unknown kind or an invalid expression, UNKNOWN_TOPIC_OR_PARTITION ...
    """
    if kind not in KINDS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown kind of file {kind!r}: use {', '.join(KINDS)}")
    with extra("table"):
        import pyarrow  # noqa: F401
    keep, holds = wanted.rows(formats), wanted.records()
    reads, chosen = decoder or Decoder(), formats or Formats()
    begins, ends = await bounds(cluster, topic, partitions)
    first = await starts(cluster, place or Place("earliest"), begins, ends)
    windows = {each: (first[each], ends[each]) for each in ends}
    chunks = _matching(cluster, topic, windows, keep, holds, reads, chosen, rows_max)
    async with aclosing(chunks):
        if kind == "parquet":
            async for data in _parquet(chunks):
                yield data
            return
        if kind == "csv":
            yield _csv_line(["partition", "offset", "timestamp", "key", "value", "headers"])
        async for rows, records in chunks:
            if kind == "csv":
                yield b"".join(map(_csv_row, records))
            else:
                yield b"".join(as_json(record) for record in records_of(topic, rows))


async def _matching(
    cluster: Cluster,
    topic: str,
    windows: dict[TopicPartition, Window],
    keep: Callable[[pa.Table], pa.Table],
    holds: Callable[[Candidate], bool],
    decoder: Decoder,
    formats: Formats,
    rows_max: int,
) -> AsyncGenerator[tuple[pa.Table, list[RecordView]]]:
    """Yield matching rows, as a table and decoded."""
    left = rows_max
    async with (
        reader(cluster, fetch_max_wait_ms=100) as consumer,
        aclosing(tables(consumer, windows, headers=True)) as found,
    ):
        async for table in found:
            rows = await asyncio.to_thread(keep, table)
            matches, records = await asyncio.to_thread(_decode, topic, rows, holds, decoder, formats)
            if not records:
                continue
            rows = rows.take(matches).slice(0, left)
            yield rows, records[:left]
            left -= rows.num_rows
            if left <= 0:
                return


def _decode(
    topic: str, rows: pa.Table, holds: Callable[[Candidate], bool], decoder: Decoder, formats: Formats
) -> tuple[list[int], list[RecordView]]:
    """Return the numbers of the rows that match, and their records."""
    numbers, records = [], []
    for number, record in enumerate(records_of(topic, rows)):
        each = Candidate(record, decoder, formats)
        if holds(each):
            numbers.append(number)
            records.append(each.view())
    return numbers, records


def _csv_row(record: RecordView) -> bytes:
    headers = {each.name: None if each.value.is_null else each.value.text for each in record.headers}
    return _csv_line(
        [
            record.partition,
            record.offset,
            iso_time(record.timestamp_ms),
            None if record.key.is_null else record.key.text,
            None if record.value.is_null else record.value.text,
            json.dumps(headers, ensure_ascii=False) if headers else None,
        ]
    )


def _csv_line(cells: Sequence[Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode()


def iso_time(timestamp_ms: int) -> str:
    """Return a timestamp in ISO 8601 in UTC; "" for one that no calendar has."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""


async def _parquet(chunks: AsyncGenerator[tuple[pa.Table, list[RecordView]]]) -> AsyncGenerator[bytes]:
    """Yield a Parquet file: it is complete only at its end, so it is written to a temporary file first."""
    import pyarrow.parquet as pq

    from odradek.columnar.schema import schema
    from odradek.operations.records.reading import COLUMNS

    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema(columns=COLUMNS), compression="zstd") as writer:
            async for rows, _ in chunks:
                writer.write_table(rows.select(list(COLUMNS)))
        file.seek(0)
        while data := file.read(_CHUNK_BYTES):
            yield data
