"""Process everything that exists now, in micro-batches of bounded size: Trigger.AvailableNow as in Spark's own sources.

With Trigger.AvailableNow and a source written in Python, PySpark 4.1 runs one micro-batch per query; after a crash that
may be the unfinished micro-batch of the previous run. So the end is fixed once, here, as the stream's endingOffsets,
and the query is started until its checkpoint has reached it. Producers that continue to write do not delay its end.

Nor does PySpark run the micro-batch without data with which Spark's own sources end, in which a query in append mode
writes the windows that the data before it closed. It does so for the wrapper of such sources
(spark.sql.streaming.triggerAvailableNowWrapper.enabled, which `odradek.spark.register` sets). The wrapper accepts no
limit: it fixes the end of a run before the checkpoint has told the source its position. So there are two kinds of run:

    bounded   maxOffsetsPerTrigger, without the wrapper: up to one record before the end of each partition
    last      the wrapper, without a limit: those records, and the micro-batch without data

Measured with PySpark 4.1.1: tests/integration/spark/test_available_now.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import Offsets, decode_position, offsets_document
from odradek.spark.options import parse_options
from odradek.spark.slow_start import SlowStarts
from odradek.spark.source.log_view import LogView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
_LIMIT = "maxoffsetspertrigger"
_IDLE_RUNS_MAX = 3


def latest_offsets(options: Mapping[str, str]) -> str:
    """Return the present end of the subscribed partitions as JSON for endingOffsets. Options: those of the source."""
    parsed = parse_options(options)
    with LogView(parsed.store) as view:
        bounds = view.bounds(view.partitions(parsed.subscription))
    return json.dumps(offsets_document({tp: partition_bounds.next_offset for tp, partition_bounds in bounds.items()}))


def process_available(
    spark: SparkSession,
    options: Mapping[str, str],
    start: Callable[[DataFrame], StreamingQuery],
) -> list[dict[str, Any]]:
    """Process everything in the topics at the time of the call, then return.

    Args:
        spark: a session that knows the source (`odradek.spark.register`).
        options: of the source; endingOffsets is set here.
        start: creates the query of a stream and starts it with trigger(availableNow=True) and a checkpointLocation,
            the same at each call.

    Returns:
        The progress of every micro-batch (StreamingQuery.recentProgress), oldest first.

    Raises:
        KafkaError: invalid options, or the present end could not be reached.
        StreamingQueryException: the query failed; another call continues where it stopped.
    """
    return process_streams_available(spark, [options], start)


def process_streams_available(
    spark: SparkSession,
    sources: Sequence[Mapping[str, str]],
    start: Callable[..., StreamingQuery],
) -> list[dict[str, Any]]:
    """Process a query of several streams: `start` gets one for each of `sources`, and reads nothing else."""
    targets = [latest_offsets(options) for options in sources]
    if not any(_offsets(targets).values()):
        return []
    done: list[dict[str, Any]] = []
    if not _fits_one(sources, targets):
        with _wrapper(spark, enabled=False):
            done += _bounded_runs(spark, sources, [without_last(target) for target in targets], start)
    unlimited = [{name: value for name, value in source.items() if name.lower() != _LIMIT} for source in sources]
    with _wrapper(spark, enabled=True):
        for _ in range(_IDLE_RUNS_MAX):  # the first may only finish what a crash interrupted
            progress = run_to_end(start, *_streams(spark, unlimited, targets))
            done += progress
            if _reached(progress, _offsets(targets)) or not any(
                batch_progress["numInputRows"] for batch_progress in progress
            ):
                break
    return done


def _fits_one(sources: Sequence[Mapping[str, str]], targets: Sequence[str]) -> bool:
    """Return True if all records, from the first on, are within the limits of one micro-batch."""
    for options, target in zip(sources, targets, strict=True):
        parsed = parse_options(options)
        if parsed.max_offsets_per_trigger is None:
            continue
        with LogView(parsed.store) as view:
            bounds = view.bounds(view.partitions(parsed.subscription))
        ends = _offsets([target])
        if sum(ends.get(tp, 0) - partition_bounds.log_start_offset for tp, partition_bounds in bounds.items()) > (
            parsed.max_offsets_per_trigger
        ):
            return False
    return True


def without_last(target: str) -> str:
    """Return endingOffsets one record earlier in each non-empty partition, so that the last run certainly has data."""
    document = json.loads(target)
    return json.dumps(
        {
            topic: {partition: max(offset - 1, 0) for partition, offset in partitions.items()}
            for topic, partitions in document.items()
        }
    )


def _bounded_runs(
    spark: SparkSession,
    sources: Sequence[Mapping[str, str]],
    targets: Sequence[str],
    start: Callable[..., StreamingQuery],
) -> list[dict[str, Any]]:
    """Run with the sources' limits until the checkpoint has reached the targets."""
    done: list[dict[str, Any]] = []
    goal, idle_runs = _offsets(targets), 0
    while True:
        progress = run_to_end(start, *_streams(spark, sources, targets))
        done += progress
        if _reached(progress, goal):
            return done
        if not any(batch_progress["numInputRows"] for batch_progress in progress):
            idle_runs += 1
            # There was nothing to do, or an unfinished micro-batch without data came first.
            if not progress or idle_runs == _IDLE_RUNS_MAX:
                return done


def _streams(spark: SparkSession, sources: Sequence[Mapping[str, str]], targets: Sequence[str]) -> list[DataFrame]:
    return [
        spark.readStream.format("odradek").options(**{**options, "endingOffsets": target}).load()
        for options, target in zip(sources, targets, strict=True)
    ]


def _offsets(targets: Sequence[str]) -> Offsets:
    """Return the offsets of all targets together."""
    return {
        TopicPartition(topic, int(partition)): offset
        for target in targets
        for topic, partitions in json.loads(target).items()
        for partition, offset in partitions.items()
    }


@contextmanager
def _wrapper(spark: SparkSession, *, enabled: bool) -> Iterator[None]:
    """Say whether queries of Python sources also run the micro-batch without data, inside the block."""
    before = spark.conf.get(_WRAPPER, None)
    spark.conf.set(_WRAPPER, str(enabled).lower())
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_WRAPPER)
        else:
            spark.conf.set(_WRAPPER, before)


def run_to_end(start: Callable[..., StreamingQuery], *streams: DataFrame) -> list[dict[str, Any]]:
    """Start a query with trigger(availableNow=True), wait for its end, return its progress."""
    from pyspark.errors import StreamingQueryException

    slow_starts = SlowStarts("a query of everything available")
    while True:
        query = start(*streams)
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if not slow_starts.may_start_again(error):
                raise
        else:
            return [json.loads(batch_progress.json) for batch_progress in query.recentProgress]


def _reached(progress: list[dict[str, Any]], goal: Offsets) -> bool:
    """Return True if the last micro-batch ended at the goal; the slower of several readers of a topic counts."""
    for batch_progress in reversed(progress):
        ends = [source["endOffset"] for source in batch_progress["sources"] if source["endOffset"] is not None]
        if not ends:
            continue
        reached: dict[TopicPartition, int] = {}
        for end in ends:
            try:
                offsets, _ = decode_position(end if isinstance(end, dict) else json.loads(end))
            except KafkaError as error:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, "start must read only the streams that it is given"
                ) from error
            for tp, offset in offsets.items():
                reached[tp] = min(offset, reached.get(tp, offset))
        return all(reached.get(tp, 0) >= offset for tp, offset in goal.items())
    return False
