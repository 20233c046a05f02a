"""A topic as an Arrow dataset, which DuckDB scans: history and unmerged tail, up to offsets that are fixed beforehand.

DuckDB asks a dataset for the columns that a query uses, and gives the filter that it would apply. What is read follows
from both: partitions and offsets that the filter rejects are not, nor anything before the first record that can have a
timestamp; a column that is not asked for is not decoded, and a value is parsed for the fields that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from odradek.columnar.schema import schema as records_schema
from odradek.columnar.typed.typed_values import TypedValues
from odradek.engine.catalog.topics import Topics
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.operations.query.bounds import conditions_of, names_in, narrowing_of
from odradek.spark.source.log_view import LogView
from odradek.spark.source.plan import ReadRange
from odradek.spark.source.pushdown import Condition, Narrowing
from odradek.spark.source.read import read
from odradek.spark.source.typed import read_values

# The cheapest first: DuckDB reads the first column to count rows, and offsets follow from the headers of batches.
COLUMNS = ("offset", "partition", "timestamp", "key", "value", "headers", "timestampType", "topic")
Ranges = Mapping[TopicPartition, tuple[int, int]]
Spans = Mapping[TopicPartition, Sequence[tuple[int, int]]]


class QueryLog(LogView):
    """A store as queries see it: the log and the names of the topics."""

    def topic_names(self) -> list[str]:
        """Return the names of all topics."""
        topics: Topics = self._topics
        return [topic.name for topic in self._run(topics.list)]


class TopicDataset(pads.Dataset):  # type: ignore[misc]
    """The records of a topic in some ranges of offsets.

    It is a dataset by its face alone: what a scan needs, `schema` and `scanner`, is all that it has.

    Args:
        spans: offsets to read by partition, half-open, in order.
        values: the typed columns.
    """

    def __init__(
        self, log: QueryLog, ids: Mapping[TopicPartition, PartitionId], spans: Spans, values: TypedValues
    ) -> None:
        self._log = log
        self._ids = ids
        self._spans = spans
        self._values = values
        self.misfits = 0  # values that did not fit, in everything that was read
        self._schema = pa.schema([*records_schema(columns=COLUMNS), *values.schema])

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to read."""
        return not any(self._spans.values())

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> pads.Scanner:
        """Return a scanner of these columns, of the rows that the filter (a pyarrow expression) keeps."""
        columns = list(self._schema.names if columns is None else columns)
        text = "" if filter is None else str(filter)
        needed = [name for name in self._schema.names if name in {*columns, *names_in(text, self._schema.names)}]
        kinds = pa.schema([self._schema.field(name) for name in needed])
        batches = self._batches(needed, narrowing_of(text), conditions_of(text))
        return pads.Scanner.from_batches(batches, schema=kinds, columns=columns, filter=filter, use_threads=False)

    def _batches(
        self, needed: Sequence[str], wanted: Narrowing, conditions: Sequence[Condition]
    ) -> Iterator[pa.RecordBatch]:
        typed = pa.schema([each for each in self._values.schema if each.name in needed])
        plain = [name for name in needed if name not in typed.names]
        for part in narrowed(self._log, self._ids, self._spans, wanted):
            for batch in read(part, plain, self._log, typed=typed, conditions=conditions):
                arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
                missing = [name for name in typed.names if name not in arrays]
                if missing:
                    found, misfits = read_values(self._values, self._log, arrays["value"], missing)
                    self.misfits += misfits
                    arrays |= zip(missing, found, strict=True)
                yield pa.RecordBatch.from_arrays([arrays[name] for name in needed], names=list(needed))


def narrowed(
    log: QueryLog, ids: Mapping[TopicPartition, PartitionId], spans: Spans, wanted: Narrowing
) -> Iterator[ReadRange]:
    """Yield what a narrowing keeps of offsets, with the pieces; a partition is planned when it is read."""
    asked = [place for place in spans if wanted.has(place)]
    since: Mapping[TopicPartition, int] = {}
    if wanted.timestamp_ms is not None and asked:
        since = log.offsets_at(asked, wanted.timestamp_ms)
        asked = [place for place in asked if place in since]  # no other has such a record
    for place in asked:
        for span in spans[place]:
            first, stop = wanted.bounds(*span)
            first = max(first, since.get(place, first))
            if first < stop:
                pieces = log.pieces(ids[place], first, stop)
                if wanted.timestamp_ms is not None:
                    pieces = [piece for piece in pieces if piece.max_timestamp_ms >= wanted.timestamp_ms]
                yield ReadRange(place.topic, ids[place].topic_id, place.partition, first, stop, tuple(pieces))


def sample(log: QueryLog, ids: Mapping[TopicPartition, PartitionId], ranges: Ranges, records: int) -> list[bytes]:
    """Return values of the first and of the last records of the fullest partitions."""
    fullest = sorted(ranges, key=lambda place: ranges[place][0] - ranges[place][1])[:2]
    found: list[bytes] = []
    for place in fullest:
        first, stop = ranges[place]
        ends = {(first, min(first + records, stop)), (max(stop - records, first), stop)}
        for low, high in sorted(ends):
            if low < high:
                pieces = tuple(log.pieces(ids[place], low, high))
                part = ReadRange(place.topic, ids[place].topic_id, place.partition, low, high, pieces)
                for batch in read(part, ["value"], log):
                    found += [value for value in batch.column("value").to_pylist() if value is not None]
    return found
