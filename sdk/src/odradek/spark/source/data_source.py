"""PySpark 4.1's Python Data Source API over the core: the source (sink/writers.py has the sink).

PySpark 4.1 drives a streaming reader like this (measured; it is not documented):

    new query     latestOffset()  initialOffset()  partitions(start, end)  latestOffset()  commit(end) ...
    restart       partitions(X, X)   X: the last end offset in the checkpoint, its micro-batch finished or not
                  initialOffset()    only if that was the first micro-batch and is run again
                  partitions(start, X)   only if X is run again
                  latestOffset() ...

`latestOffset` takes no start and no limit (from 4.2 on it does: limited_stream.py), so the reader remembers its
position: from `partitions`, or for a new query from the resolved startingOffsets. So maxOffsetsPerTrigger applies from
the first micro-batch on, and after a restart.

Trigger.AvailableNow: PySpark 4.1 runs ONE micro-batch for a Python source (as Trigger.Once), which is everything if
maxOffsetsPerTrigger is not set, and none without data after it, so that in append mode the windows that it closed stay
unwritten. Spark has a wrapper for such sources that runs both; `odradek.spark.register` turns it on. It accepts no
maxOffsetsPerTrigger: with a limit, use available_now.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.errors import ErrorCode, KafkaError
from odradek.model.kinds import Kind
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    Bounds,
    Offsets,
    check_loss,
    decode_position,
    decode_topic_ids,
    encode_position,
    limit,
    made_anew,
    resolve,
)
from odradek.spark.options import SourceOptions, parse_options
from odradek.spark.sink.options import parse_sink_options
from odradek.spark.source.log_view import LogView
from odradek.spark.source.plan import TASK_BYTES, ReadRange, bundle_ranges, range_bytes_of, split_range
from odradek.spark.source.pushdown import Narrowing, narrow
from odradek.spark.source.typed import read_columns, texts_for_times, typed_schema, without_times
from odradek.spark.workers.settle import settle

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
_log = logging.getLogger("odradek.spark")  # of the worker that drives the source: Spark's own standard error
_TAKES_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")  # PySpark 4.2
_QUIET_POLL_S = 0.1  # an idle query with no trigger would read the heads a hundred times a second


class OdradekDataSource(DataSource):
    """The data source `format("odradek")`. Options: spark/options.py."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.raw_options = dict(options)  # of a reader or of a writer: it is not known yet which

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> StructType:
        options = parse_options(self.raw_options)
        names = [*options.columns, *(name for name, _ in options.typed_columns)]
        kinds = source_kinds(options.typed_columns)
        return StructType([StructField(name, kinds[name]) for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_options(self.raw_options)
        return BatchReader(options, _columns_of(schema, options))

    def streamReader(self, schema: StructType) -> StreamReader:
        options = parse_options(self.raw_options)
        if options.ranges is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "option ranges is for batches: a stream has startingOffsets")
        if _TAKES_LIMITS:
            from odradek.spark.source.limited_stream import LimitedStreamReader

            return LimitedStreamReader(options, _columns_of(schema, options))
        return StreamReader(options, _columns_of(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from odradek.spark.sink.writers import BatchWriter

        return BatchWriter(parse_sink_options(self.raw_options, is_streaming=False), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from odradek.spark.sink.writers import StreamWriter

        return StreamWriter(parse_sink_options(self.raw_options, is_streaming=True), schema)


class NarrowingDataSource(OdradekDataSource):
    """The data source with filters that narrow the offsets to read, for sessions that allow it."""

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_options(self.raw_options)
        return NarrowingReader(options, _columns_of(schema, options))


def kinds_of(typed: Sequence[tuple[str, Kind]]) -> dict[str, DataType]:
    """Return Spark's types of the record's columns, and of typed ones, given as in `odradek.table.schema`."""
    return _TYPES | {field.name: _spark_type(field.type) for field in typed_schema(typed)}


def source_kinds(typed: Sequence[tuple[str, Kind]]) -> dict[str, DataType]:
    """Return the types that the source has: those of `kinds_of`, but texts for times of day."""
    return _TYPES | {field.name: _spark_type(without_times(field.type)) for field in typed_schema(typed)}


def _spark_type(arrow_type: pa.DataType) -> DataType:
    return from_arrow_type(arrow_type, prefer_timestamp_ntz=True)


def _columns_of(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """Return the columns of a schema, which a user may have given. Raises KafkaError(INVALID_CONFIG)."""
    kinds = source_kinds(options.typed_columns)
    for field in schema.fields:
        if kinds.get(field.name) != field.dataType:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the source has no column {field.name} {field.dataType.simpleString()}: omit the schema",
            )
    return tuple(schema.fieldNames())


class RangesPartition(InputPartition):
    """The input of one Spark task."""

    def __init__(self, ranges: Sequence[ReadRange]) -> None:
        super().__init__(
            ", ".join(str(TopicPartition(read_range.topic, read_range.partition)) for read_range in ranges)
        )
        self.ranges = tuple(ranges)


class _Reader:
    """Base of both readers. It is pickled to executors, where it opens another view."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._opened: LogView | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _view(self) -> LogView:
        if self._opened is None:
            self._opened = LogView(self._options.store)
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _bounds(self) -> dict[TopicPartition, Bounds]:
        view = self._view()
        return view.bounds(view.partitions(self._options.subscription))

    def _ids(self) -> dict[TopicPartition, PartitionId]:
        return self._view().partitions(self._options.subscription)

    def _start(self, bounds: dict[TopicPartition, Bounds], default: int) -> Offsets:
        """Return the start offsets by the options."""
        if self._options.starting_timestamp_ms is not None:
            offsets = self._view().offsets_at(list(bounds), self._options.starting_timestamp_ms)
            return {tp: offsets.get(tp, partition_bounds.next_offset) for tp, partition_bounds in bounds.items()}
        starting = self._options.starting_offsets
        starting = default if starting is None else starting
        by_place = dict.fromkeys(bounds, starting) if isinstance(starting, int) else starting
        return resolve("startingOffsets", by_place, bounds)

    def _plan(self, start: Offsets, end: Offsets, topic_ids: Mapping[str, UUID] | None = None) -> list[RangesPartition]:
        """Return the tasks that read [start, end), of the topics with these ids if they are known."""
        view = self._view()
        ids = self._ids()
        bounds = view.bounds(ids)
        anew = made_anew(topic_ids or {}, {tp.topic: partition.topic_id for tp, partition in ids.items()})
        bounds_kept = {tp: bound for tp, bound in bounds.items() if tp.topic not in anew}
        readable = check_loss(start, end, bounds_kept, fail=self._options.fail_on_data_loss)
        planned = self._ranges(ids, readable, self._options.range_bytes)
        smaller = range_bytes_of(
            (whole.size_bytes for whole in planned), self._options.range_bytes, self._options.min_partitions
        )
        if smaller < self._options.range_bytes:
            planned = self._ranges(ids, readable, smaller)
        ranges = [part for whole in planned for part in split_range(whole, smaller)]
        bytes_max = 0 if self._options.min_partitions is not None else min(TASK_BYTES, smaller)
        return [RangesPartition(together) for together in bundle_ranges(ranges, bytes_max)]

    def _ranges(
        self, ids: Mapping[TopicPartition, PartitionId], readable: Mapping[TopicPartition, tuple[int, int]], size: int
    ) -> list[ReadRange]:
        """Return one range per partition, with pieces of at most about `size` bytes."""
        planned = []
        for tp, (first, stop) in readable.items():
            pieces = tuple(self._view().pieces(ids[tp], first, stop, size))
            planned.append(ReadRange(tp.topic, ids[tp].topic_id, tp.partition, first, stop, pieces))
        return planned

    def _read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangesPartition):  # nothing was planned: None of 4.1, a plain one of later Sparks
            return
        with LogView(self._options.store) as view:
            if len(partition.ranges) > 1:
                view.read_ahead([piece for read_range in partition.ranges for piece in read_range.pieces])
            for wanted in partition.ranges:
                batches = read_columns(
                    wanted,
                    self._columns,
                    view,
                    self._options.typed_columns,
                    corrupt_batches=self._options.corrupt_batches,
                )
                yield from map(texts_for_times, batches)
        settle()


class BatchReader(_Reader, DataSourceReader):
    """The reader of `spark.read`: from startingOffsets to endingOffsets, both fixed when Spark plans."""

    _narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        try:
            bounds = self._bounds()
            planned: list[RangesPartition] = []
            for start, end in self._spans(bounds):
                readable = check_loss(start, end, bounds, fail=self._options.fail_on_data_loss)
                narrowed = self._narrowed(readable)
                planned += self._plan(
                    {tp: first for tp, (first, _) in narrowed.items()},
                    {tp: stop for tp, (_, stop) in narrowed.items()},
                )
            return planned
        finally:
            self._close()

    def _spans(self, bounds: dict[TopicPartition, Bounds]) -> Iterator[tuple[Offsets, Offsets]]:
        """Yield starts and ends; of `ranges` the first range of every partition, then the second, and so on."""
        ranges = self._options.ranges
        if ranges is None:
            yield self._start(bounds, EARLIEST), self._end(bounds)
            return
        for number in range(max(map(len, ranges.values()))):
            spans_here = {tp: spans[number] for tp, spans in ranges.items() if number < len(spans)}
            yield (
                {tp: first for tp, (first, _) in spans_here.items()},
                {tp: end for tp, (_, end) in spans_here.items()},
            )

    def _narrowed(self, readable: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the part that the filters may keep."""
        wanted = self._narrowing
        narrowed = {tp: wanted.bounds(*bounds) for tp, bounds in readable.items() if wanted.has(tp)}
        if wanted.timestamp_ms is not None:
            offsets = self._view().offsets_at(list(narrowed), wanted.timestamp_ms)
            narrowed = {tp: (max(first, offsets.get(tp, stop)), stop) for tp, (first, stop) in narrowed.items()}
        return {tp: (first, stop) for tp, (first, stop) in narrowed.items() if first < stop}

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return self._read(partition)

    def _end(self, bounds: dict[TopicPartition, Bounds]) -> Offsets:
        ending = self._options.ending_offsets
        by_place = dict.fromkeys(bounds, ending) if isinstance(ending, int) else ending
        return resolve("endingOffsets", by_place, bounds)


class NarrowingReader(BatchReader):
    """A batch reader with filters. PySpark 4.1 refuses such a class unless its configuration allows it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._narrowing = narrow(filters)
        return filters  # Spark applies all of them again


class StreamReader(_Reader, DataSourceStreamReader):
    """The reader of `spark.readStream`; see the module on how Spark drives it."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._position: Offsets | None = None  # start of the next micro-batch; None: unknown yet
        self._document: dict[str, Any] | None = None  # the position as it is in the checkpoint
        self._initial: Offsets | None = None  # start of the stream, as long as Spark may ask for it
        self._topic_ids: dict[str, UUID] = {}  # of the topics of the position
        self._quiet_since: float | None = None  # time of the last look without new records

    def initialOffset(self) -> dict[str, Any]:
        return encode_position(self._began(), None)

    def latestOffset(self) -> dict[str, Any]:
        return self._latest(self._options.max_offsets_per_trigger)

    def _latest(self, offsets_max: int | None) -> dict[str, Any]:
        """Return the end of the next micro-batch, of at most so many offsets."""
        self._pause_when_quiet()
        start = self._began() if self._position is None else self._position
        ids = self._ids()
        bounds = self._view().bounds(ids)
        topic_ids = {tp.topic: partition.topic_id for tp, partition in ids.items()}
        anew = made_anew(self._topic_ids, topic_ids)
        if anew and self._options.fail_on_data_loss:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"topic {min(anew)} was deleted and recreated. Set failOnDataLoss to false to "
                "read the new topic from its beginning",
            )
        start = {tp: offset for tp, offset in start.items() if tp.topic not in anew}
        first = {tp: start.get(tp, partition_bounds.log_start_offset) for tp, partition_bounds in bounds.items()}
        check_loss(start, start, bounds, fail=self._options.fail_on_data_loss)
        deleted = {tp: offset for tp, offset in start.items() if tp not in bounds}
        reached = deleted | limit(first, self._end(bounds, first), offsets_max)
        self._quiet_since = time.monotonic() if reached == start else None
        if self._document is not None and reached == self._position and not anew:
            return self._document  # Spark compares the text
        initial = self._began() if self._position is None else None
        return encode_position(reached, initial, {**self._topic_ids, **topic_ids})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, _ = decode_position(start)
        stop, initial = decode_position(end)
        if initial is not None:
            self._initial = initial
        topic_ids = decode_topic_ids(end)
        anew = made_anew(decode_topic_ids(start), topic_ids)
        first = {tp: offset for tp, offset in first.items() if tp.topic not in anew}
        behind = [tp for tp, offset in first.items() if tp in stop and stop[tp] < offset]
        if behind:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the stream would go back on {behind[0]}: trigger(availableNow=True) takes no maxOffsetsPerTrigger; "
                "omit it, or call odradek.spark.available_now.process_available",
            )
        self._position, self._document, self._topic_ids = stop, end, topic_ids
        return [] if first == stop else self._plan(first, stop, topic_ids)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return self._read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint has the position."""

    def stop(self) -> None:
        self._close()

    def _began(self) -> Offsets:
        if self._initial is None:
            bounds = self._bounds()
            self._initial = self._start(bounds, LATEST)
            most, is_open = self._options.max_offsets_per_trigger, isinstance(self._options.ending_offsets, int)
            if most is not None and is_open and not _TAKES_LIMITS:
                _log.warning(
                    "maxOffsetsPerTrigger is %d: with trigger(availableNow=True) this PySpark ends the query after one "
                    "micro-batch and leaves the rest unread; call odradek.spark.available_now.process_available then",
                    most,
                )
            if self._options.starting_offsets is None and self._options.starting_timestamp_ms is None:
                unread = sum(
                    partition_bounds.next_offset - partition_bounds.log_start_offset
                    for partition_bounds in bounds.values()
                )
                if unread:
                    _log.warning(
                        "startingOffsets is not set, so the new stream begins at the end and skips %d existing "
                        "records; set startingOffsets to earliest to read them",
                        unread,
                    )
        return self._initial

    def _end(self, bounds: dict[TopicPartition, Bounds], first: Offsets) -> Offsets:
        """Return the present end, at most endingOffsets; a partition that those do not name does not move."""
        ending = self._options.ending_offsets
        if isinstance(ending, int):
            return {tp: partition_bounds.next_offset for tp, partition_bounds in bounds.items()}
        return {
            tp: partition_bounds.next_offset
            if ending.get(tp) == LATEST
            else max(first[tp], min(ending.get(tp, 0), partition_bounds.next_offset))
            for tp, partition_bounds in bounds.items()
        }

    def _pause_when_quiet(self) -> None:
        if self._quiet_since is not None:
            time.sleep(max(0.0, self._quiet_since + _QUIET_POLL_S - time.monotonic()))
