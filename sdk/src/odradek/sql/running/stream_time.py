"""Stream time: the largest timestamp so far in a partition, at each of its records. Pure.

    offset       0    1    2    3    4
    timestamp   10   40   20   50   30        ms
    stream time 10   40   40   50   50

A record is late if its window, with the grace period, ended at or before the stream time at the record, which includes
the record itself. So what is late depends on the order of records in their partition and on nothing else: not on other
partitions, nor on where micro-batches end. This is Kafka Streams' rule; docs/decisions/0073 says what follows from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

IDLE_MS = 60_000
"""A partition without records for so long does not hold back the watermark."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a partition was read."""

    stream_ms: int  # stream time after its last record
    seen_ms: int  # wall clock when a micro-batch last had a record of it


Partitions = Mapping[int, Progress]


def running(partitions: pa.Array, times_ms: pa.Array, newest: dict[int, int]) -> pa.Array:
    """Return the stream time at each record, in ms.

    Args:
        partitions: of the records; those of one partition are in the order of their offsets.
        times_ms: of the records, int64; not null.
        newest: stream time by partition before the records; updated to that after them.
    """
    found: list[pa.Array] = []
    places: list[pa.Array] = []
    for partition in pc.unique(partitions).to_pylist():
        at = pc.indices_nonzero(pc.equal(partitions, partition))
        before = newest.get(partition)
        largest = pc.cumulative_max(times_ms.take(at), start=None if before is None else pa.scalar(before, pa.int64()))
        newest[partition] = largest[-1].as_py()
        found.append(largest)
        places.append(at)
    if len(found) == 1:
        return found[0]
    order = pc.sort_indices(pa.chunked_array(places, pa.uint64()))
    return pa.chunked_array(found, pa.int64()).take(order).combine_chunks()


def advanced(before: Partitions, newest: Mapping[int, int], now_ms: int) -> dict[int, Progress]:
    """Return the progress after a micro-batch. Args: newest: stream time of the partitions that it had records of."""
    seen = {
        partition: Progress(max(time, before[partition].stream_ms) if partition in before else time, now_ms)
        for partition, time in newest.items()
    }
    return {**before, **seen}


def clock(partitions: Partitions, now_ms: int) -> int | None:
    """Return the time up to which windows are closed: the smallest stream time of the partitions that are not idle.

    If all are idle, it is the largest: nothing is awaited. None before the first record.
    """
    awake = [each.stream_ms for each in partitions.values() if now_ms - each.seen_ms <= IDLE_MS]
    if awake:
        return min(awake)
    return max((each.stream_ms for each in partitions.values()), default=None)


def encode(inputs: Mapping[int, Partitions]) -> bytes:
    """Return the progress of all inputs as JSON: input -> partition -> [stream time, when it was seen]."""
    return json.dumps(
        {str(number): {str(p): [each.stream_ms, each.seen_ms] for p, each in partitions.items()}
         for number, partitions in inputs.items()}
    ).encode()  # fmt: skip


def decode(data: bytes) -> dict[int, dict[int, Progress]]:
    """Return what was encoded."""
    return {
        int(number): {int(p): Progress(*each) for p, each in partitions.items()}
        for number, partitions in json.loads(data).items()
    }
