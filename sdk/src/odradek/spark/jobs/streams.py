"""A job's streaming query: until everything that exists now is processed (`--once`), or until it is stopped.

    running ──no new records for idle_after_seconds──> resting ──the log grew──> running
       │ stop requested: the current micro-batch ends                  │ stop requested
       └────────────────────────> ended <──────────────────────────────┘

While resting, no query runs: the heads of the inputs are read with growing pauses, a few item reads a minute. The
checkpoint has position and state, so starting again is the same as a restart of the job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.backoff import Backoff
from odradek.errors import ErrorCode, KafkaError
from odradek.spark.available_now import process_streams_available
from odradek.spark.exactly_once import exactly_once
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.progress import CORRUPT, READ, corrupt_batches_of, records_of
from odradek.spark.jobs.run import Stop
from odradek.spark.options import CORRUPT_TIMESTAMP_TYPE
from odradek.spark.slow_start import SlowStarts
from odradek.system import SystemClock, SystemRng

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from odradek.spark.jobs.listener import ProgressListener

Build = Callable[..., "DataFrame"]
WriteBatch = Callable[["DataFrame", int], None]

_POLL_S = 1
_FINISH_S = 60.0  # time limit of the current micro-batch when a stop is requested


def run_streams(
    spark: SparkSession,
    arguments: StreamArguments,
    stop: Stop,
    *,
    name: str,
    sources: Sequence[Mapping[str, str]],
    build: Build,
    output_mode: str = "append",
    topic: str = "",
    write_batch: WriteBatch | None = None,
) -> dict[str, Any]:
    """Run a query until everything that exists is processed, or until a stop is requested.

    Args:
        name: of the job.
        sources: options of each stream.
        build: returns the query's rows from the streams, in the order of `sources`; pure.
        topic: the sink's topic for rows without one.
        write_batch: writes a micro-batch instead of the sink; called again with the same number after a crash.

    Returns:
        A summary: batches, records, dropped late rows, malformed records, skipped corrupt batches.

    Raises:
        KafkaError: invalid options.
        StreamingQueryException: the query failed; the next run continues from the checkpoint.
    """
    from odradek.spark.jobs.listener import FORMS, LogEnds, ProgressListener

    if arguments.metrics not in FORMS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--metrics must be one of {', '.join(FORMS)}")
    job = arguments.JOB_NAME or name

    def start(*streams: DataFrame) -> StreamingQuery:
        rows = build(*(_observed(stream, i) for i, stream in enumerate(streams)))
        writer = rows.writeStream.queryName(job).outputMode(output_mode)
        # Of a sink in Python, Spark takes no query in update mode; of foreachBatch it takes any.
        writer = writer.foreachBatch(write_batch or exactly_once(arguments.sink(topic)))
        writer = writer.option("checkpointLocation", arguments.checkpoint_location)
        if arguments.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=arguments.trigger).start()

    ends = LogEnds(sources)
    listener = ProgressListener(job, ends, form=arguments.metrics)
    spark.streams.addListener(listener)
    try:
        if arguments.once:
            return summary(process_streams_available(spark, sources, start))
        _run_until_stopped(spark, arguments, stop, sources, start, listener, ends.now)
        return summary(listener.batches)
    finally:
        spark.streams.removeListener(listener)
        ends.close()


def run_query(
    spark: SparkSession, arguments: StreamArguments, stop: Stop, *, name: str, start: Callable[[], StreamingQuery]
) -> dict[str, Any]:
    """Run a query of sources other than topics, as `run_streams` does; it is not stopped to rest.

    Args:
        start: starts it, named as the job, with a trigger that agrees with `arguments.once`.
    """
    from odradek.spark.jobs.listener import LogEnds, ProgressListener

    listener = ProgressListener(arguments.JOB_NAME or name, LogEnds([]), form=arguments.metrics)
    spark.streams.addListener(listener)
    try:
        query = start()
        while not query.awaitTermination(_POLL_S):
            listener.report()
            if stop.is_set():
                finish(query)
                break
        return summary([json.loads(batch_progress.json) for batch_progress in query.recentProgress])
    finally:
        spark.streams.removeListener(listener)


def _observed(stream: DataFrame, number: int) -> DataFrame:
    from pyspark.sql import functions as F

    if "timestampType" in stream.columns:  # the source marks corrupt batches (StreamArguments.stream)
        is_corrupt = F.col("timestampType") == CORRUPT_TIMESTAMP_TYPE
        stream = stream.observe(f"{CORRUPT}_{number}", F.count(F.when(is_corrupt, 1)).alias("corrupt"))
        stream = stream.where(~is_corrupt).drop("timestampType")
    if "timestamp" not in stream.columns:
        return stream
    return stream.observe(f"{READ}_{number}", F.max("timestamp").alias("newest"))


def _run_until_stopped(
    spark: SparkSession,
    arguments: StreamArguments,
    stop: Stop,
    sources: Sequence[Mapping[str, str]],
    start: Callable[..., StreamingQuery],
    listener: ProgressListener,
    ends_now: Callable[[], Any],
) -> None:
    from pyspark.errors import StreamingQueryException

    slow_starts = SlowStarts(arguments.JOB_NAME or "the job's query")
    while not stop.is_set():
        streams = [spark.readStream.format("odradek").options(**source).load() for source in sources]
        listener.restarted()
        query = start(*streams)
        try:
            while not query.awaitTermination(_POLL_S):
                listener.report()
                if stop.is_set() or _may_rest(listener, arguments):
                    finish(query)
                    break
            else:
                return  # stopped by someone else
        except StreamingQueryException as error:
            if not slow_starts.may_start_again(error):
                raise
            continue
        slow_starts.started()
        _rest(stop, dict(listener.position), ends_now, arguments.idle_backoff_seconds, listener.report)


def _may_rest(listener: ProgressListener, arguments: StreamArguments) -> bool:
    # Before the first micro-batch the checkpoint does not say where a stream from `latest` began.
    return bool(listener.position) and listener.idle_s() > arguments.idle_after_seconds


def _rest(
    stop: Stop, position: Any, ends_now: Callable[[], Any], backoff_s_max: float, report: Callable[[], None]
) -> None:
    """Return when there is something to read or a stop is requested."""
    backoff = Backoff(SystemClock(), SystemRng(), first_s=1.0, max_s=backoff_s_max)
    looks = 0
    while not stop.is_set():
        ends = ends_now()
        if any(end > position.get(tp, 0) for tp, end in ends.items()):
            return
        report()
        stop.wait(backoff.delay_s(looks))
        looks += 1


def finish(query: StreamingQuery, *, within_s: float = _FINISH_S) -> None:
    """Stop a query when its micro-batch is done, or after a time limit."""
    deadline = time.monotonic() + within_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.05)
    query.stop()


def query_id(frame: DataFrame) -> str:
    """Return the id, from the checkpoint, of the query whose foreachBatch gets this frame; "none" without a query."""
    return frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or "none"


def summary(progress: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a summary of all micro-batches of a run."""
    operators = [operator for batch_progress in progress for operator in batch_progress.get("stateOperators") or []]
    observed = [
        metrics
        for batch_progress in progress
        for metrics in (batch_progress.get("observedMetrics") or {}).values()
        if metrics
    ]
    return {
        "batches": len([batch_progress for batch_progress in progress if batch_progress.get("numInputRows")]),
        "records": sum(records_of(batch_progress) for batch_progress in progress),
        "malformed": sum(metrics.get("malformed") or 0 for metrics in observed),
        "corrupt_batches": sum(corrupt_batches_of(batch_progress) for batch_progress in progress),
        "late_rows_dropped": sum(operator.get("numRowsDroppedByWatermark") or 0 for operator in operators),
    }
