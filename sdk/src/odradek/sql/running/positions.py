"""Offsets of a query's micro-batches, from its checkpoint, and from where the records that a join keeps are read.

    offsets/<n>     Spark's log, written before micro-batch n runs: versions, then a line of JSON for each input, the
                    end of what it reads
    kept/<n>        ours: JSON, for each input the offset of each partition at which the records begin that are kept
                    before micro-batch n, and before each later one

`kept/0` is where the query began. Another one is written when records have fallen away, so that a restart reads the
last hours of a topic, not all of it. It is written in micro-batch n, so that micro-batch n - 1 is never repeated after
it. A file that a crash cut short is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import Offsets, Ranges, decode_position, offsets_document, parse_offsets
from odradek.sql.running.checkpoint_files import CheckpointFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT = "kept"
_FILES = 2  # a newer one may be cut short


class Positions:
    """The checkpoint of one query. Methods raise KafkaError(INVALID_CONFIG) for one of another query."""

    def __init__(self, session: SparkSession, checkpoint: str) -> None:
        self._files = CheckpointFiles(session, checkpoint)

    def ends(self, batch_id: int) -> list[Offsets]:
        """Return the end of a micro-batch, by input."""
        return [decode_position(each)[0] for each in self._logged(batch_id)]

    def kept_before(self, batch_id: int, starts: Sequence[Mapping[int, int]]) -> None:
        """Note that before a micro-batch nothing is kept below `starts`; a partition that has none keeps nothing."""
        found = []
        for there, ends in zip(starts, self.ends(batch_id - 1), strict=True):
            found.append({place: there.get(place.partition, end) for place, end in ends.items()})
        self._write(batch_id, found)

    def began(self) -> None:
        """Note where the query began, in its first micro-batch."""
        initial = [decode_position(each) for each in self._logged(0)]
        self._write(0, [ends if start is None else start for ends, start in initial])

    def ranges_before(self, batch_id: int) -> list[Ranges]:
        """Return the offsets, by input, of all records that may be kept before a micro-batch."""
        ends = self.ends(batch_id - 1)
        starts = self._starts(batch_id) or [{} for _ in ends]
        return [
            {place: ((first.get(place, 0), end),) for place, end in stop.items() if first.get(place, 0) < end}
            for first, stop in zip(starts, ends, strict=True)
        ]

    def _logged(self, batch_id: int) -> list[dict[str, Any]]:
        text = (self._files.read(f"offsets/{batch_id}") or b"").decode()
        lines = text.splitlines()[2:]  # after the version and Spark's own metadata
        if not lines:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"the checkpoint has no offsets of micro-batch {batch_id}")
        return [json.loads(each) for each in lines]

    def _numbers(self) -> list[int]:
        return sorted((int(each) for each in self._files.names(_KEPT) if each.isdigit()), reverse=True)

    def _starts(self, batch_id: int) -> list[Offsets] | None:
        for number in self._numbers():
            if number <= batch_id:
                try:
                    found = json.loads(self._files.read(f"{_KEPT}/{number}") or b"")
                except ValueError:
                    continue
                return [parse_offsets(_KEPT, json.dumps(each)) for each in found]
        return None

    def _write(self, batch_id: int, starts: Sequence[Mapping[TopicPartition, int]]) -> None:
        self._files.write(f"{_KEPT}/{batch_id}", json.dumps([offsets_document(each) for each in starts]).encode())
        for number in self._numbers()[_FILES:]:
            self._files.delete(f"{_KEPT}/{number}")
