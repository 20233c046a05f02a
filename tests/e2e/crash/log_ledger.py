"""Compares records that were written, those acknowledged and those in the log.

A record's value is `<producer> <number> <padding>`: unique, so a second copy shows, and in the producer's order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from odradek import TopicPartition
from odradek.aio import Consumer


def value_of(producer: str, number: int, padding: int) -> bytes:
    """The value of a producer's record."""
    return b"%s %d %s" % (producer.encode(), number, b"." * padding)


@dataclass
class Ledger:
    """Everything that is known of a topic's log, over all restarts."""

    partitions: list[TopicPartition]
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (partition, offset) -> value
    unplaced: dict[bytes, int] = field(default_factory=dict)  # value -> partition: the offset was not told
    log: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    _places: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    _reread_from: dict[int, int] = field(default_factory=dict)

    def acknowledge(self, partition: int, offset: int, value: bytes) -> None:
        """A producer was told that the value lies there; with offset -1, that it is a duplicate of long ago."""
        if offset < 0:
            self.unplaced[value] = partition
            return
        other = self.acknowledged.setdefault((partition, offset), value)
        assert other == value, f"offset {offset} of partition {partition} was promised twice: {other!r}, {value!r}"

    async def check(self, consumer: Consumer, *, whole: bool = False) -> int:
        """Read what is there and compare; how many records were read.

        Reads from where the log ended at the check before the last one (all that was written since then, and some of
        what was read before), or the whole log.
        """
        acknowledged, unplaced = dict(self.acknowledged), dict(self.unplaced)  # as they are before the reading
        ends = await consumer.end_offsets(self.partitions)
        positions = {p: 0 if whole else self._reread_from.get(p.partition, 0) for p in self.partitions}
        for partition, offset in positions.items():
            self._reread_from[partition.partition] = len(self.log[partition.partition])
            consumer.seek(partition, offset)
        first = {p.partition: offset for p, offset in positions.items()}
        count = 0
        while any(positions[p] < ends[p] for p in self.partitions):
            for partition, records in (await consumer.poll(1000, max_records=10_000)).items():
                for record in records:
                    assert record.offset == positions[partition], "offsets are dense"
                    assert record.value is not None, f"offset {record.offset} has lost its value"
                    self._see(record.partition, record.offset, record.value)
                    positions[partition] += 1
                    count += 1
        for (partition, offset), value in acknowledged.items():
            if offset >= first[partition]:
                assert offset < len(self.log[partition]), f"acknowledged, and lost: {value[:20]!r} at {offset}"
                stored = self.log[partition][offset]
                assert stored == value, f"acknowledged, and lost: {value[:20]!r} at {offset}, where {stored[:20]!r} is"
        for value, partition in unplaced.items():
            position = self._places.get(value)
            assert position is not None, f"acknowledged, and lost: {value[:20]!r}"
            assert position[0] == partition, f"{value[:20]!r} is in another partition than {partition}: {position}"
            del self.unplaced[value]
            self.acknowledge(*position, value)
        return count

    def _see(self, partition: int, offset: int, value: bytes) -> None:
        log = self.log[partition]
        position = self._places.setdefault(value, (partition, offset))
        assert position == (partition, offset), (
            f"{value[:20]!r} is in the log twice: {position} and {(partition, offset)}"
        )
        if offset < len(log):
            assert log[offset] == value, f"offset {offset} of partition {partition} has changed"
        else:
            log.append(value)

    def check_order(self, producer: str) -> None:
        """The producer's records stand in its order, in each partition."""
        for values in self.log.values():
            numbers = [int(v.split()[1]) for v in values if v.split()[0] == producer.encode()]
            assert numbers == sorted(numbers), f"the records of {producer} are not in its order"

    def count_of(self, producer: str) -> int:
        """How many of the producer's records are in the log."""
        return sum(v.split()[0] == producer.encode() for values in self.log.values() for v in values)
