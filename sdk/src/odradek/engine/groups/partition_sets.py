"""Encoding of sets of partitions (members' assignments and the target) as bytes, small enough for one item.

    set       varint topics, then for each: 16 bytes topic id, runs
    runs      varint count, then for each: varint gap since the end of the last run, varint length
    target    varint topics, 16 bytes topic id each (sorted);
              varint members, then for each: varint bytes of its id, id (UTF-8),
              varint topics, then for each: varint place in the list of topics, runs

Varints are those of Kafka's records (format/varint.py). Partitions of a topic that follow each other are one run, and a
target names a topic once, so 10,000 partitions over 200 members stay far below an item's 400 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from odradek.errors import FormatError
from odradek.format.varint import decode_varint, encode_varlong
from odradek.limits import PARTITIONS_PER_TOPIC_MAX
from odradek.model.topic_partition import PartitionId


def encode_partitions(partitions: Iterable[PartitionId]) -> bytes:
    """Pack a set."""
    by_topic = _by_topic(partitions)
    out = bytearray(encode_varlong(len(by_topic)))
    for topic_id in sorted(by_topic):
        out += topic_id.bytes
        out += encode_runs(by_topic[topic_id])
    return bytes(out)


def decode_partitions(data: bytes) -> frozenset[PartitionId]:
    """Unpack a set. Raises FormatError for anything that `encode_partitions` does not write."""
    reader = PackedReader(data)
    found: list[PartitionId] = []
    for _ in range(reader.count()):
        topic_id = reader.topic_id()
        found += [PartitionId(topic_id, number) for number in reader.runs()]
    reader.end()
    return frozenset(found)


def encode_target(target: Mapping[str, frozenset[PartitionId]]) -> bytes:
    """Pack a target assignment."""
    topics = sorted({partition.topic_id for partitions in target.values() for partition in partitions})
    place = {topic_id: position for position, topic_id in enumerate(topics)}
    out = bytearray(encode_varlong(len(topics)))
    for topic_id in topics:
        out += topic_id.bytes
    out += encode_varlong(len(target))
    for member_id in sorted(target):
        encoded_id = member_id.encode()
        out += encode_varlong(len(encoded_id)) + encoded_id
        by_topic = _by_topic(target[member_id])
        out += encode_varlong(len(by_topic))
        for topic_id in sorted(by_topic):
            out += encode_varlong(place[topic_id]) + encode_runs(by_topic[topic_id])
    return bytes(out)


def decode_target(data: bytes) -> dict[str, frozenset[PartitionId]]:
    """Unpack a target assignment. Raises FormatError for anything that `encode_target` does not write."""
    reader = PackedReader(data)
    topics = [reader.topic_id() for _ in range(reader.count())]
    target = {}
    for _ in range(reader.count()):
        member_id = reader.text()
        found: list[PartitionId] = []
        for _ in range(reader.count()):
            place = reader.count()
            if place >= len(topics):
                raise FormatError(f"a target names topic {place} of {len(topics)}")
            found += [PartitionId(topics[place], number) for number in reader.runs()]
        target[member_id] = frozenset(found)
    reader.end()
    return target


def _by_topic(partitions: Iterable[PartitionId]) -> dict[UUID, list[int]]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        by_topic.setdefault(topic_id, []).append(number)
    return by_topic


def encode_runs(numbers: Iterable[int]) -> bytes:
    """Pack partition numbers."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1]:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])
    out = bytearray(encode_varlong(len(runs)))
    last_end = 0
    for start, end in runs:
        out += encode_varlong(start - last_end) + encode_varlong(end - start)
        last_end = end
    return bytes(out)


class PackedReader:
    """Reads one value after the other and never past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def count(self) -> int:
        """A number that is not negative. Raises FormatError, as all methods."""
        try:
            value, self._position = decode_varint(self._data, self._position)
        except IndexError:
            raise FormatError("packed partitions end in a number") from None
        if value < 0:
            raise FormatError(f"packed partitions hold a negative count, {value}")
        return value

    def topic_id(self) -> UUID:
        """A topic id."""
        return UUID(bytes=self._take(16))

    def text(self) -> str:
        """A text after its length in bytes."""
        try:
            return self._take(self.count()).decode()
        except UnicodeDecodeError as error:
            raise FormatError("a text in packed partitions is not UTF-8") from error

    def runs(self) -> list[int]:
        """Partition numbers."""
        numbers: list[int] = []
        end = 0
        for _ in range(self.count()):
            start = end + self.count()
            end = start + self.count()
            if end > PARTITIONS_PER_TOPIC_MAX:
                raise FormatError(f"packed partitions go up to {end}; a topic has at most {PARTITIONS_PER_TOPIC_MAX}")
            numbers += range(start, end)
        return numbers

    def end(self) -> None:
        """Nothing may follow."""
        if self._position != len(self._data):
            raise FormatError(f"{len(self._data) - self._position} bytes follow packed partitions")

    def _take(self, length: int) -> bytes:
        taken = self._data[self._position : self._position + length]
        if len(taken) != length:
            raise FormatError("packed partitions end too early")
        self._position += length
        return taken
