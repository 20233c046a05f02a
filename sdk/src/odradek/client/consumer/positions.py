"""The positions of a consumer in its partitions: state only, no calls.

position       the next offset to return to the application: the offset that is committed
fetch_offset   the next offset to fetch: ahead of the position by the buffered records
version        increased by seek, pause and the like: responses to earlier fetches are dropped

no position --resolve (committed offset, or reset)--> positioned --seek--> positioned
     ^------------------- reset (out of range, seek_to_*) ---------|
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class PartitionState:
    """One partition of the assignment."""

    __slots__ = (
        "fetch_offset",
        "found_in_turn",
        "high_watermark",
        "is_blocked",
        "is_paused",
        "not_before_s",
        "partition",
        "position",
        "refused",
        "reset_to",
        "unknown_since_s",
        "version",
    )

    def __init__(self, partition: TopicPartition, *, is_blocked: bool = False) -> None:
        self.partition = partition
        self.position: int | None = None
        self.fetch_offset: int | None = None
        self.reset_to: int | None = None  # a timestamp of ListOffsets; None: look for a committed offset first
        self.is_paused = False
        self.is_blocked = is_blocked  # until the listener has seen the assignment
        self.high_watermark: int | None = None
        self.not_before_s = 0.0
        self.unknown_since_s: float | None = None
        self.refused: tuple[int, float] | None = None  # the offset of fetches that keep failing, and since when
        self.version = 0
        self.found_in_turn = 0  # the fetch that last brought records

    def seek(self, offset: int) -> None:
        """Continue at this offset."""
        self.version += 1
        self.position = self.fetch_offset = offset
        self.reset_to = None

    def reset(self, timestamp_ms: int) -> None:
        """Forget the position; ListOffsets resolves the next one from the timestamp (or earliest, latest)."""
        self.version += 1
        self.position = self.fetch_offset = None
        self.reset_to = timestamp_ms

    def drop_buffered(self) -> None:
        """Fetch again from the position."""
        self.version += 1
        self.fetch_offset = self.position

    def is_fetchable(self, now_s: float) -> bool:
        return (
            self.fetch_offset is not None and not self.is_paused and not self.is_blocked and now_s >= self.not_before_s
        )

    def needs_position(self, now_s: float) -> bool:
        return self.position is None and not self.is_blocked and now_s >= self.not_before_s


class Positions:
    """The assignment of a consumer."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def __len__(self) -> int:
        return len(self._states)

    def get(self, partition: TopicPartition) -> PartitionState | None:
        return self._states.get(partition)

    def of(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition. Raises KafkaError(INVALID_REQUEST) for any other."""
        state = self._states.get(partition)
        if state is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{TopicPartition(*partition)} is not assigned to this consumer"
            )
        return state

    def partitions(self) -> set[TopicPartition]:
        return set(self._states)

    def add(self, partitions: Iterable[TopicPartition], *, is_blocked: bool = False) -> None:
        for partition in partitions:
            self._states.setdefault(partition, PartitionState(partition, is_blocked=is_blocked))

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self._states.pop(partition, None)
            if state is not None:
                state.version += 1

    def consumed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that commit all records returned so far."""
        return {
            partition: OffsetAndMetadata(state.position)
            for partition, state in self._states.items()
            if state.position is not None and (partitions is None or partition in partitions)
        }


def partitions_of(nested: Iterable[Any]) -> list[TopicPartition]:
    """Return the partitions that a caller passed one by one, in a list, or both, as Kafka's clients do.

    Raises KafkaError(INVALID_REQUEST) for an argument that is not a partition.
    """
    partitions: list[TopicPartition] = []
    for element in nested:
        if isinstance(element, tuple) and len(element) == 2 and isinstance(element[0], str):
            partitions.append(TopicPartition(*element))
        elif isinstance(element, Iterable) and not isinstance(element, str | bytes):
            partitions += partitions_of(element)
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"a partition is TopicPartition(topic, number), not {element!r}"
            )
    return partitions
