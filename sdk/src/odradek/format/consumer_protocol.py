"""Topics in the bytes that members of classic consumer groups agree upon. Pure.

    ConsumerProtocolSubscription   version i16, [topic string], user data bytes, from 1 on [topic string, [i32]] it owns
    ConsumerProtocolAssignment     version i16, [topic string, [partition i32]], user data bytes

A string is an i16 of its length and UTF-8, a list an i32 of its count, bytes an i32 of their length (-1: none).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping


def encode_subscription(topics: Collection[str]) -> bytes:
    """Return the subscription, in version 0, of a member that says nothing but these topics."""
    out = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        name = topic.encode()
        out += struct.pack(">h", len(name)) + name
    return out + struct.pack(">i", -1)


def topics_of_subscription(data: bytes) -> list[str]:
    """The topics that a member subscribes to. Raises ValueError."""
    return _Reader(data).topics(with_partitions=False)


def topics_named(subscription: bytes, assignment: bytes) -> set[str]:
    """Every topic that a member's bytes name. Raises ValueError."""
    named: set[str] = set()
    if subscription:
        reader = _Reader(subscription)
        named.update(reader.topics(with_partitions=False))
        reader.skip_bytes()
        if reader.version >= 1:
            named.update(reader.list_of_topics(with_partitions=True))
    if assignment:
        named.update(_Reader(assignment).topics(with_partitions=True))
    return named


def partitions_of_assignment(assignment: bytes) -> dict[str, list[int]]:
    """The partitions of an assignment by topic. Raises ValueError."""
    return _Reader(assignment).partitions()


def without_partitions(assignment: bytes, left_out: Mapping[str, Collection[int]]) -> bytes:
    """Return an assignment without some partitions; the rest of its bytes stays. Raises ValueError."""
    reader = _Reader(assignment)
    kept = {
        topic: [number for number in numbers if number not in left_out.get(topic, ())]
        for topic, numbers in reader.partitions().items()
    }
    out = bytearray(assignment[:2]) + struct.pack(">i", len(kept))
    for topic, numbers in kept.items():
        name = topic.encode()
        out += struct.pack(">h", len(name)) + name + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return bytes(out) + assignment[reader.position :]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2
        (self.version,) = self._unpack(">h", 0)

    def topics(self, *, with_partitions: bool) -> list[str]:
        self._at = 2
        return self.list_of_topics(with_partitions=with_partitions)

    def list_of_topics(self, *, with_partitions: bool) -> list[str]:
        names = []
        for _ in range(self._count()):
            names.append(self._name())
            if with_partitions:
                count = self._count()
                self._at += 4 * count
        return names

    def partitions(self) -> dict[str, list[int]]:
        """The topics, each with its partitions."""
        self._at = 2
        partitions: dict[str, list[int]] = {}
        for _ in range(self._count()):
            name = self._name()
            count = self._count()
            if 4 * count > len(self._data) - self._at:
                raise ValueError("a list is longer than its bytes")
            partitions.setdefault(name, []).extend(self._unpack(f">{count}i", self._at))
            self._at += 4 * count
        return partitions

    @property
    def position(self) -> int:
        """Return the position of the first byte that was not read."""
        return self._at

    def skip_bytes(self) -> None:
        size = self._count()
        self._at += size

    def _name(self) -> str:
        (size,) = self._unpack(">h", self._at)
        begin, self._at = self._at + 2, self._at + 2 + max(size, 0)
        if self._at > len(self._data):
            raise ValueError("a name is longer than its bytes")
        return self._data[begin : self._at].decode()

    def _count(self) -> int:
        (count,) = self._unpack(">i", self._at)
        self._at += 4
        return int(max(count, 0))

    def _unpack(self, shape: str, at: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(shape, self._data, at)
        except struct.error:
            raise ValueError("the bytes end too early") from None
