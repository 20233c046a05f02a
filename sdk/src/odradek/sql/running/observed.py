"""Stream time on Spark: at each record, from micro-batch to micro-batch, and as the watermark.

    base ──property of the job──> tasks: running maximum by partition ──> __stream_ms at each record
      ^                             │ accumulator
      └──── <checkpoint>/stream-time/<micro-batch> <── progress after it ──> Spark's watermark

A task reads whole ranges of a partition, in order, so it needs only the stream time before the micro-batch. That is in
the file of the micro-batch before. The file of a micro-batch is written before Spark commits it, so what is repeated
after a crash begins where it began before. A file that was torn by the crash is written again before it is read.

Spark's own watermark is the largest time of all partitions, which would drop records of the others. So the column has
a watermark that is far behind (_FAR_MS), and the time up to which windows are closed, stream_time.clock(), is added to
the statistics of the operator after each micro-batch, by so much ahead. Spark then logs it as any watermark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.sql.window import Window

from odradek.sql.plan import Input
from odradek.sql.running.checkpoint_files import CheckpointFiles
from odradek.sql.running.stream_time import Progress, advanced, clock, decode, encode, running

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

WriteBatch = Callable[["DataFrame", int], None]

_FOLDER = "stream-time"
_PROPERTY = "odradek.stream.time"
_QUERY_ID = "sql.streaming.queryId"
_FAR_DAYS = 36_500
_FAR_MS = _FAR_DAYS * 24 * 3_600_000
_OPERATOR = "EventTimeWatermarkExec"


def add_stream_time(columns: DataFrame) -> DataFrame:
    """Return records that are all there, with the stream time at each."""
    order = Window.partitionBy("__partition").orderBy("__offset")
    return columns.withColumn("__stream_ms", F.max(F.unix_millis("__time")).over(order))


class StreamTime:
    """Stream time of one query that runs.

    Args:
        spark: the session that starts the query.
        checkpoint: of the query.
        now_ms: the wall clock.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, now_ms: Callable[[], int]) -> None:
        self._spark = spark
        self._files = CheckpointFiles(spark, f"{checkpoint}/{_FOLDER}")
        self._now_ms = now_ms
        self._newest: dict[int, Accumulator[dict[int, int]]] = {}  # by number of the input
        self._watermark_ms = 0
        self._after: tuple[int, dict[int, dict[int, Progress]]] | None = None  # a micro-batch, and the progress then

    def add(self, given: Input, number: int, columns: DataFrame) -> DataFrame:
        """Return the columns of a stream with the stream time at each record."""
        newest = self._spark.sparkContext.accumulator({}, _Newest())
        self._newest[number] = newest
        self._watermark_ms = given.watermark_ms or 0
        schema = StructType([*columns.schema.fields, StructField("__stream_ms", LongType())])
        return columns.mapInArrow(partial(_with_stream_time, number, newest), schema)

    def under_watermark(self, given: Input, columns: DataFrame) -> DataFrame:
        """Return a stream with a watermark that this object moves."""
        return columns.withWatermark(given.event_time, f"{_FAR_DAYS} days")

    def around(self, write: WriteBatch) -> WriteBatch:
        """Return a function for foreachBatch that writes as the given one does, and keeps stream time."""

        def write_timed(frame: DataFrame, batch_id: int) -> None:
            before = self._before(batch_id)
            base = {number: {p: each.stream_ms for p, each in known.items()} for number, known in before.items()}
            context = self._spark.sparkContext
            context.setLocalProperty(_PROPERTY, json.dumps(base))
            for newest in self._newest.values():
                newest.value = {}
            write(frame, batch_id)
            now_ms = self._now_ms()
            after = {
                number: advanced(before.get(number, {}), newest.value, now_ms)
                for number, newest in self._newest.items()
            }
            self._keep(batch_id, after)
            clocks = [clock(partitions, now_ms) for partitions in after.values()]
            if all(each is not None for each in clocks):
                self._move_watermark(min(each for each in clocks if each is not None) - self._watermark_ms)

        return write_timed

    # --- the file of each micro-batch

    def _before(self, batch_id: int) -> dict[int, dict[int, Progress]]:
        if self._after is not None and self._after[0] == batch_id - 1:
            return self._after[1]
        written = self._files.read(f"{batch_id - 1}")
        return {} if written is None else decode(written)

    def _keep(self, batch_id: int, after: dict[int, dict[int, Progress]]) -> None:
        self._files.write(f"{batch_id}", encode(after))
        self._after = (batch_id, after)
        self._files.delete(f"{batch_id - 2}")  # Spark repeats no micro-batch but the last

    # --- Spark's watermark

    def _move_watermark(self, to_ms: int) -> None:
        """Let Spark's watermark be at a time from the next micro-batch on, if it is not there yet."""
        query_id = self._spark.sparkContext.getLocalProperty(_QUERY_ID)
        assert query_id is not None, "outside of foreachBatch"
        query: Any = self._spark.streams.get(query_id)
        plan = query._jsq.streamingQuery().lastExecution().executedPlan()
        operators = [node for node in _nodes(plan) if node.getClass().getSimpleName() == _OPERATOR]
        for operator in operators:
            operator.eventTimeStats().add(to_ms + _FAR_MS)
        if not operators and any(newest.value for newest in self._newest.values()):
            raise RuntimeError(
                f"Spark {self._spark.version} has no {_OPERATOR} in the plan of a micro-batch with records, so no "
                "window would ever be closed: use a version of PySpark that odradek supports"
            )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


class _Newest(AccumulatorParam[dict[int, int]]):
    """Stream time by partition: the larger of two."""

    def zero(self, value: dict[int, int]) -> dict[int, int]:
        return {}

    def addInPlace(self, one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
        return one | {p: max(time, one.get(p, time)) for p, time in other.items()}


def _with_stream_time(
    number: int, newest: Accumulator[dict[int, int]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Add the column __stream_ms to the records of a task."""
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(_PROPERTY)
    base = json.loads(text or "{}").get(str(number), {})
    known = {int(partition): time for partition, time in base.items()}
    seen: set[int] = set()
    for batch in batches:
        if not batch.num_rows:
            continue
        partitions = batch.column("__partition")
        times = batch.column("__time").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        stream_ms = running(partitions, times, known)
        seen.update(partitions.unique().to_pylist())
        yield pa.RecordBatch.from_arrays([*batch.columns, stream_ms], names=[*batch.schema.names, "__stream_ms"])
    newest.add({partition: known[partition] for partition in seen})
