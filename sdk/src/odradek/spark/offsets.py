"""Positions in topics: their JSON, the limit of a micro-batch, and data loss. Pure.

Users write offsets in the form of Spark's Kafka source, `{"flights": {"0": 23, "1": -2}}` with -2 for earliest and -1
for latest. A streaming offset in a checkpoint contains more:

    {"offsets": {"flights": {"0": 120}}, "initial": {"flights": {"0": 100}}, "topics": {"flights": "<topic id>"}}

`initial` is only in the end offset of a query's first micro-batch. Spark stores no start offset: to repeat that
micro-batch it asks the reader where the stream began, and "latest" has another meaning by then. Spark shows the reader
the last end offset first, so it contains the answer. `topics` distinguishes a topic from a recreated one of the same
name, for which the offsets mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID

from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition

LATEST = -1
EARLIEST = -2

Offsets = dict[TopicPartition, int]
Ranges = dict[TopicPartition, tuple[tuple[int, int], ...]]
"""Offsets to read by partition: [first, end) each, rising, without overlaps."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition: [log_start_offset, next_offset)."""

    log_start_offset: int
    next_offset: int


def parse_offsets(option: str, text: str) -> Offsets:
    """Parse a user's offsets. Raises KafkaError(INVALID_CONFIG) that names the option."""
    wanted = f'option {option} must be JSON such as {{"topic": {{"0": 23, "1": -2}}}}, not {text!r}'
    try:
        return _flatten(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise KafkaError(ErrorCode.INVALID_CONFIG, wanted) from None


def parse_assignment(option: str, text: str) -> list[TopicPartition]:
    """Parse a user's partitions, `{"topic": [0, 1]}`. Raises KafkaError(INVALID_CONFIG)."""
    try:
        document = json.loads(text)
        partitions = sorted(
            {TopicPartition(topic, _whole(partition)) for topic, numbers in document.items() for partition in numbers}
        )
    except (ValueError, TypeError, AttributeError):
        partitions = []
    if not partitions:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f'option {option} must be JSON such as {{"topic": [0, 1]}}, not {text!r}'
        )
    return partitions


def parse_ranges(option: str, text: str) -> Ranges:
    """Parse ranges of offsets, `{"topic": {"0": [[0, 10], [20, 30]]}}`, rising. Raises KafkaError(INVALID_CONFIG)."""
    try:
        ranges = {
            TopicPartition(topic, _whole(int(partition))): tuple(
                (_whole(first), _whole(end)) for first, end in sorted(spans)
            )
            for topic, partitions in json.loads(text).items()
            for partition, spans in partitions.items()
        }
        bounds = [[offset for span in spans for offset in span] for spans in ranges.values()]
        if not ranges or any(first > end for bound in bounds for first, end in pairwise([0, *bound])):
            raise ValueError(text)
    except (ValueError, TypeError, AttributeError):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f'option {option} must be JSON such as {{"topic": {{"0": [[0, 10], [20, 30]]}}}}, ranges that do not '
            f"overlap, not {text!r}",
        ) from None
    return ranges


def ranges_document(ranges: Ranges) -> dict[str, dict[str, list[list[int]]]]:
    """Return ranges for JSON."""
    document: dict[str, dict[str, list[list[int]]]] = {}
    for (topic, partition), spans in sorted(ranges.items()):
        document.setdefault(topic, {})[str(partition)] = [list(span) for span in spans]
    return document


def offsets_document(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets for JSON in a fixed order: Spark compares the text."""
    document: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        document.setdefault(topic, {})[str(partition)] = offset
    return document


def encode_position(
    offsets: Mapping[TopicPartition, int],
    initial: Mapping[TopicPartition, int] | None,
    topic_ids: Mapping[str, UUID] | None = None,
) -> dict[str, Any]:
    """Return a streaming offset."""
    document: dict[str, Any] = {"offsets": offsets_document(offsets)}
    if initial is not None:
        document["initial"] = offsets_document(initial)
    if topic_ids:
        document["topics"] = {topic: str(topic_ids[topic]) for topic in sorted(topic_ids)}
    return document


def decode_topic_ids(document: Mapping[str, Any]) -> dict[str, UUID]:
    """Return the topic ids in a streaming offset, empty for older checkpoints. Raises KafkaError(INVALID_CONFIG)."""
    try:
        return {str(topic): UUID(topic_id) for topic, topic_id in document.get("topics", {}).items()}
    except (ValueError, TypeError, AttributeError):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "the topic ids in the checkpoint cannot be read") from None


def made_anew(before: Mapping[str, UUID], now: Mapping[str, UUID]) -> frozenset[str]:
    """Return the topics that have another id now: they were recreated."""
    return frozenset(topic for topic, topic_id in before.items() if now.get(topic, topic_id) != topic_id)


def decode_position(document: Mapping[str, Any]) -> tuple[Offsets, Offsets | None]:
    """Return the offsets of a streaming offset and, for a first micro-batch, the start of the stream.

    Raises KafkaError(INVALID_CONFIG): the checkpoint belongs to another source.
    """
    try:
        initial = document.get("initial")
        return _flatten(document["offsets"]), None if initial is None else _flatten(initial)
    except (ValueError, TypeError, AttributeError, KeyError):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"the checkpoint has no offset of this source: {json.dumps(document)[:200]}"
        ) from None


def resolve(option: str, requested: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]) -> Offsets:
    """Replace earliest and latest by numbers.

    Raises KafkaError(INVALID_CONFIG): the offsets do not name exactly the partitions that are read.
    """
    _check_same(option, requested, bounds)
    resolved: Offsets = {}
    for tp, offset in requested.items():
        if offset < EARLIEST:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"option {option}: {tp} has no offset {offset}")
        if offset == EARLIEST:
            offset = bounds[tp].log_start_offset
        elif offset == LATEST:
            offset = bounds[tp].next_offset
        resolved[tp] = offset
    return resolved


def limit(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], offsets_max: int | None) -> Offsets:
    """Return the end of a micro-batch of about `offsets_max` offsets: each partition gets its share of the backlog.

    A partition with a backlog advances by at least one offset, so none starves. Never before `start`, never past `end`.
    """
    backlog = {tp: max(0, stop - start.get(tp, 0)) for tp, stop in end.items()}
    total = sum(backlog.values())
    if offsets_max is None or total <= offsets_max:
        return {tp: max(stop, start.get(tp, 0)) for tp, stop in end.items()}
    return {
        tp: start.get(tp, 0) + (max(1, offsets_max * count // total) if count else 0) for tp, count in backlog.items()
    }


def check_loss(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, Bounds],
    *,
    fail: bool,
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the readable part of [start, end).

    Offsets are lost when retention has removed them, or when the topic was deleted or recreated. A partition that is
    new since `start` is read from its beginning.

    Args:
        fail: raise for lost offsets instead of continuing with the remaining data.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE that names the partition and the option failOnDataLoss.
    """
    lost: list[str] = [f"{tp} no longer exists" for tp in start if tp not in bounds]
    readable: dict[TopicPartition, tuple[int, int]] = {}
    for tp, stop in sorted(end.items()):
        partition_bounds = bounds.get(tp)
        if partition_bounds is None:
            if tp not in start:
                lost.append(f"{tp} no longer exists")
            continue
        first = start.get(tp, partition_bounds.log_start_offset)
        if first < partition_bounds.log_start_offset and first < stop:
            lost.append(f"{tp} starts at {partition_bounds.log_start_offset}, after {first}")
        if stop > partition_bounds.next_offset:
            lost.append(f"{tp} ends at {partition_bounds.next_offset}, before {stop}")
        low, high = max(first, partition_bounds.log_start_offset), min(stop, partition_bounds.next_offset)
        if low < high:
            readable[tp] = (low, high)
    if lost and fail:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{'; '.join(lost[:5])}. Set failOnDataLoss to false to continue with the remaining data",
        )
    return readable


def _check_same(option: str, requested: Iterable[TopicPartition], bounds: Iterable[TopicPartition]) -> None:
    missing, unknown = set(bounds) - set(requested), set(requested) - set(bounds)
    problems = []
    if missing:
        problems.append(f"lacks {_some(missing)}")
    if unknown:
        problems.append(f"names {_some(unknown)}, which are not subscribed to")
    if problems:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"option {option} {' and '.join(problems)}; name every partition, -2 for earliest, -1 for latest",
        )


def _some(partitions: set[TopicPartition]) -> str:
    names = [str(tp) for tp in sorted(partitions)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _flatten(document: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): _whole(offset)
        for topic, partitions in document.items()
        for partition, offset in partitions.items()
    }


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError
    return number
