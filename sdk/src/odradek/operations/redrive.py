"""Dead letters of share groups (KIP-1191): where they stand, and sending them back to where they came from.

A dead letter carries headers with its topic, partition and offset, its group and why it is there
(engine/share/dead_letters.py). A redrive produces it again to the topic that it came from: with key, value and headers
as they were, in the partition of its key. Positions are committed for the consumer group `<group>.redrive`, after what
was read is acknowledged, so the next redrive continues there; one that was interrupted may send a record twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.record import ConsumerRecord
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.operations.cluster import Cluster
from odradek.operations.records.reading import bounds, read_windows, reader

PREFIX = "__dlq.errors."
CONFIG = "errors.deadletterqueue.topic.name"
RECORDS_MAX = 1_000  # of one redrive


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The source of a dead letter, and its error."""

    partition: int  # of the topic of dead letters
    offset: int
    timestamp_ms: int
    topic: str
    from_partition: int
    from_offset: int
    group: str
    deliveries: int
    reason: str
    has_record: bool  # False: only its place is told; a redrive reads the record there


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of a group that were not sent back yet."""

    topic: str  # of dead letters; "" if the group has none
    waiting: int  # at most: those of other groups in the same topic count, too
    letters: tuple[DeadLetter, ...]  # the oldest ones


@dataclass(frozen=True, slots=True)
class Redriven:
    """The outcome of a redrive."""

    sent: int
    passed_over: int  # of other groups, of another topic, or whose record is gone
    left: int  # dead letters behind the last one that was read


def redrive_group(group_id: str) -> str:
    """Return the consumer group whose offsets say how far redrives came."""
    return f"{group_id}.redrive"


async def dead_letters(cluster: Cluster, group_id: str, limit: int = 100) -> DeadLetters:
    """Return the oldest dead letters of a group that no redrive has passed. Raises KafkaError."""
    topic = await dead_letter_topic(cluster, group_id)
    if not topic:
        return DeadLetters("", 0, ())
    windows = await _windows(cluster, group_id, topic)
    waiting = sum(end - start for start, end in windows.values())
    records = await _read(cluster, windows, limit)
    letters = [letter for record in records if (letter := letter_of(record)) is not None and letter.group == group_id]
    return DeadLetters(topic, waiting, tuple(letters))


async def dead_letter_topic(cluster: Cluster, group_id: str) -> str:
    """Return the topic of a group's dead letters, "" if it has none."""
    entry = (await cluster.admin.describe_group_configs(group_id)).get(CONFIG)
    return "" if entry is None else entry.value or ""


async def redrive(cluster: Cluster, group_id: str, limit: int = RECORDS_MAX) -> Redriven:
    """Send the oldest dead letters of a group back to their topics.

    Raises:
        KafkaError: INVALID_CONFIG if the group has no topic of dead letters; errors of produce: nothing behind the
            last commit is passed, so the next redrive tries again.
    """
    topic = await dead_letter_topic(cluster, group_id)
    if not topic:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"group {group_id!r} has no dead letters: set its {CONFIG}")
    windows = await _windows(cluster, group_id, topic)
    records = await _read(cluster, windows, max(1, min(limit, RECORDS_MAX)))
    sent = 0
    waiting = []
    async with cluster.producer() as producer, reader(cluster) as consumer:
        for record in records:
            letter = letter_of(record)
            if letter is None or letter.group != group_id:
                continue
            again = record if letter.has_record else await _original(consumer, letter)
            if again is None:
                continue
            headers = [each for each in again.headers if not each[0].startswith(PREFIX)]
            waiting.append(await producer.send(letter.topic, again.value, again.key, headers=headers))
            sent += 1
        await producer.flush()
        await asyncio.gather(*waiting)
    reached = {place: start for place, (start, _) in windows.items()}
    for record in records:
        place = TopicPartition(topic, record.partition)
        reached[place] = max(reached[place], record.offset + 1)
    if records:
        await cluster.admin.alter_consumer_group_offsets(
            redrive_group(group_id), {place: OffsetAndMetadata(offset) for place, offset in reached.items()}
        )
    left = sum(end - reached[place] for place, (_, end) in windows.items())
    return Redriven(sent, len(records) - sent, left)


async def _original(consumer: Consumer, letter: DeadLetter) -> ConsumerRecord | None:
    """Return the record that a letter without contents speaks of; None if retention or compaction took it."""
    try:
        found: ConsumerRecord | None = await consumer.read_at(letter.topic, letter.from_partition, letter.from_offset)
    except KafkaError as error:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        raise
    return found


async def _windows(cluster: Cluster, group_id: str, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """Return what no redrive has passed, by partition."""
    begins, ends = await bounds(cluster, topic)
    try:
        committed = await cluster.admin.list_consumer_group_offsets(redrive_group(group_id))
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        committed = {}
    return {
        place: (max(begins[place], min(end, committed[place].offset if place in committed else 0)), end)
        for place, end in ends.items()
    }


async def _read(
    cluster: Cluster, windows: dict[TopicPartition, tuple[int, int]], limit: int
) -> Sequence[ConsumerRecord]:
    """Return the first records of each window, `limit` in all."""
    left, chosen = limit, {}
    for place, (start, end) in sorted(windows.items()):
        chosen[place] = (start, min(end, start + left))
        left -= chosen[place][1] - start
    return await read_windows(cluster, chosen)


def letter_of(record: ConsumerRecord) -> DeadLetter | None:
    """Return what the headers of a dead letter say; None if it is none."""
    told = {name.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace")
            for name, value in record.headers if name.startswith(PREFIX)}  # fmt: skip
    try:
        return DeadLetter(
            record.partition,
            record.offset,
            record.timestamp_ms,
            told["topic"],
            int(told["partition"]),
            int(told["offset"]),
            told["group"],
            int(told["delivery.count"]),
            told["message"],
            record.key is not None or record.value is not None or len(told) < len(record.headers),
        )
    except (KeyError, ValueError):
        return None
