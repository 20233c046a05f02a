"""The stream reader for PySpark 4.2 and later, whose `latestOffset` is given where a micro-batch starts, and a limit.

    new query     getDefaultReadLimit()  initialOffset()  latestOffset(start, limit)  partitions(start, end) ...
    AvailableNow  prepareForTriggerAvailableNow() first: no offset may be beyond the end at that time

A query with Trigger.AvailableNow takes as many micro-batches as maxOffsetsPerTrigger asks for, and ends at that end.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import Bounds, Offsets, decode_position, decode_topic_ids
from odradek.spark.source.data_source import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream reader that Spark tells its position."""

    _target: Offsets | None = None  # the end of a query with Trigger.AvailableNow

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {tp: partition_bounds.next_offset for tp, partition_bounds in self._bounds().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]
        offsets, _ = decode_position(start)
        # Until the first micro-batch has ended, its start has to be in its end: see StreamReader.
        if self._initial is None or offsets != self._initial:
            self._position, self._document, self._topic_ids = offsets, start, decode_topic_ids(start)
        latest = self._latest(limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        # Spark takes it for new data if the text differs; the end of an empty start has a start of its own in it.
        return start if decode_position(latest)[0] == offsets and not self._gains(start, latest) else latest

    def _gains(self, start: dict[str, Any], latest: dict[str, Any]) -> bool:
        """Return True if topics were recreated, or if an id is known now that was not."""
        before, now = decode_topic_ids(start), decode_topic_ids(latest)
        return bool(before) and before != now

    def _end(self, bounds: dict[TopicPartition, Bounds], first: Offsets) -> Offsets:
        ends = super()._end(bounds, first)
        if self._target is None:
            return ends
        return {tp: max(first[tp], min(end, self._target.get(tp, 0))) for tp, end in ends.items()}
