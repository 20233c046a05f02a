"""Everything that is there now, in micro-batches of bounded size: Trigger.AvailableNow as Spark's own sources have it.

PySpark 4.1 runs one micro-batch a query when the trigger is AvailableNow and the source is written in Python, and after
a crash that one may be the unfinished micro-batch of the run before. So the end is fixed once, here, as the stream's
endingOffsets, and the query is started until its checkpoint has reached it. Producers that go on writing do not keep it
from ending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import Offsets, decode_position, offsets_document
from odradek.spark.options import parse_options
from odradek.spark.store import LogView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_IDLE_RUNS_MAX = 3
_START_ATTEMPTS = 5
_SLOW_START = "Python worker failed to connect back"


def latest_offsets(options: Mapping[str, str]) -> str:
    """The end of the subscribed partitions now, as JSON for endingOffsets. Options: those of the source."""
    parsed = parse_options(options)
    with LogView(parsed.store) as view:
        bounds = view.bounds(view.partitions(parsed.subscription))
    return json.dumps(offsets_document({place: there.next_offset for place, there in bounds.items()}))


def process_available(
    spark: SparkSession,
    options: Mapping[str, str],
    start: Callable[[DataFrame], StreamingQuery],
) -> list[dict[str, Any]]:
    """Process all that is in the topics when this is called, then return.

    Args:
        spark: a session that knows the source (`odradek.spark.register`).
        options: of the source; endingOffsets is set here.
        start: makes the query of a stream and starts it with trigger(availableNow=True) and a checkpointLocation,
            the same each time it is called.

    Returns:
        The progress of every micro-batch (StreamingQuery.recentProgress), oldest first.

    Raises:
        KafkaError: the options; what is there now could not be reached.
        StreamingQueryException: the query failed; calling again goes on where it stopped.
    """
    return process_streams_available(spark, [options], start)


def process_streams_available(
    spark: SparkSession,
    sources: Sequence[Mapping[str, str]],
    start: Callable[..., StreamingQuery],
) -> list[dict[str, Any]]:
    """The same for a query of several streams: `start` gets one for each of `sources`, and reads nothing else."""
    targets = [latest_offsets(options) for options in sources]
    goal = {
        TopicPartition(topic, int(partition)): offset
        for target in targets
        for topic, partitions in json.loads(target).items()
        for partition, offset in partitions.items()
    }
    done: list[dict[str, Any]] = []
    idle_runs = 0
    if not any(goal.values()):
        return done
    while True:
        streams = [
            spark.readStream.format("odradek").options(**{**options, "endingOffsets": target}).load()
            for options, target in zip(sources, targets, strict=True)
        ]
        progress = run_to_end(start, *streams)
        done += progress
        if _reached(progress, goal):
            return done
        if not any(each["numInputRows"] for each in progress):
            idle_runs += 1
            # Nothing to do from the start, or an unfinished micro-batch without data came first.
            if not progress or idle_runs == _IDLE_RUNS_MAX:
                return done


def run_to_end(start: Callable[..., StreamingQuery], *streams: DataFrame) -> list[dict[str, Any]]:
    """Start a query with trigger(availableNow=True), wait for its end, return its progress.

    Spark gives a source's Python process ten seconds to start, which a busy machine may not. Nothing was read then.
    """
    from pyspark.errors import StreamingQueryException

    for attempt in range(1, _START_ATTEMPTS + 1):
        query = start(*streams)
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            if attempt == _START_ATTEMPTS or _SLOW_START not in str(error):
                raise
    return [json.loads(each.json) for each in query.recentProgress]


def _reached(progress: list[dict[str, Any]], goal: Offsets) -> bool:
    """Whether the last micro-batch ended at the goal; of a topic that is read twice, by the slower reader."""
    for each in reversed(progress):
        ends = [source["endOffset"] for source in each["sources"] if source["endOffset"] is not None]
        if not ends:
            continue
        reached: dict[TopicPartition, int] = {}
        for end in ends:
            try:
                offsets, _ = decode_position(end if isinstance(end, dict) else json.loads(end))
            except KafkaError as error:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, "start must read nothing but the streams it is given"
                ) from error
            for place, offset in offsets.items():
                reached[place] = min(offset, reached.get(place, offset))
        return all(reached.get(place, 0) >= offset for place, offset in goal.items())
    return False
