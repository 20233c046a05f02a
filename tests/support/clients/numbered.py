"""Numbered records: what any producer sent, was told and left in the log, and whether the three agree.

A record's value names its producer, its partition and its number among that producer's records of that partition:

    <producer>:<partition>:<sequence>:<padding>

So a log tells by itself which records are missing, which are there twice, and which overtook another. A producer in
another language needs no more than this format and a list of what it was told (`Sent`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import odradek

_EXAMPLES = 5


class Numbered(NamedTuple):
    """Which record this is."""

    producer: str
    partition: int
    sequence: int

    def value(self, size: int = 0) -> bytes:
        """The record's value, padded to at least `size` bytes."""
        return f"{self.producer}:{self.partition}:{self.sequence}:".encode().ljust(size, b".")

    @classmethod
    def of(cls, value: bytes) -> Numbered:
        """The record of a value. Raises ValueError for the value of another program."""
        producer, partition, sequence, _ = value.split(b":", 3)
        return cls(producer.decode(), int(partition), int(sequence))


@dataclass
class Sent:
    """Records that producers sent, and their acknowledgements.

    Attributes:
        counts: records sent, 0 to count - 1, by producer and partition.
        refused: those whose producer was told an error, or nothing; all others were acknowledged.
        errors: the errors, by their text, with how often they were told.
        fatal: errors after which a producer can send no more.
    """

    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    refused: set[Numbered] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)
    fatal: list[str] = field(default_factory=list)

    def next(self, producer: str, partition: int) -> Numbered:
        """Count one more record as sent."""
        sequence = self.counts[producer, partition]
        self.counts[producer, partition] += 1
        return Numbered(producer, partition, sequence)

    def refuse(self, record: Numbered, error: object) -> None:
        """The record's producer was told that it was not written, or may not have been."""
        self.refused.add(record)
        self.errors[str(error)[:160]] += 1

    def merge(self, other: Sent) -> None:
        """Add what another producer was told."""
        self.counts += other.counts
        self.refused |= other.refused
        self.errors += other.errors
        self.fatal += other.fatal


@dataclass(frozen=True)
class Findings:
    """The log compared with the records that were sent. Lists of records, but for `fatal`."""

    sent: int
    acknowledged: int
    found: int  # different ones of those sent
    lost: Sequence[Numbered]  # acknowledged and not in the log
    doubled: Sequence[Numbered]  # in the log more than once
    disordered: Sequence[Numbered]  # behind a later one of the same producer and partition
    misplaced: Sequence[bytes]  # values in the log that nobody sent there
    errors: Mapping[str, int]
    fatal: Sequence[str]

    def __str__(self) -> str:
        figures = (
            f"sent {self.sent}  acknowledged {self.acknowledged}  refused {self.sent - self.acknowledged}  "
            f"found {self.found}  lost {len(self.lost)}  doubled {len(self.doubled)}  "
            f"disordered {len(self.disordered)}  misplaced {len(self.misplaced)}  fatal {len(self.fatal)}"
        )
        details = [
            f"  {name}: {list(examples[:_EXAMPLES])}"
            for name, examples in (
                ("lost", self.lost),
                ("doubled", self.doubled),
                ("disordered", self.disordered),
                ("misplaced", self.misplaced),
                ("fatal", self.fatal),
                ("errors", list(self.errors.items())),
            )
            if examples
        ]
        return "\n".join([figures, *details])

    @property
    def is_exact(self) -> bool:
        """Nothing lost, doubled, out of order or misplaced, and no producer died."""
        return not (self.lost or self.doubled or self.disordered or self.misplaced or self.fatal)


def judge(sent: Sent, log: Mapping[int, Iterable[bytes]], *, recreated: bool = False) -> Findings:
    """Compare what was sent with the values that a topic's partitions hold, in the order of their offsets.

    Args:
        recreated: the topic was deleted and recreated while it was written to. What was acknowledged before is rightly
            gone: of each producer and partition, all from the first record found must be there.
    """
    copies: Counter[Numbered] = Counter()
    first: dict[tuple[str, int], int] = {}
    newest: dict[tuple[str, int], int] = defaultdict(lambda: -1)
    disordered, misplaced = [], []
    for partition, values in log.items():
        for value in values:
            record = _record_of(value)
            if record is None or record.partition != partition or record.sequence >= sent.counts[record[:2]]:
                misplaced.append(value[:80])
                continue
            copies[record] += 1
            first.setdefault(record[:2], record.sequence)
            if copies[record] == 1 and record.sequence < newest[record[:2]]:
                disordered.append(record)
            newest[record[:2]] = max(newest[record[:2]], record.sequence)
    lost = [
        record
        for writer, count in sent.counts.items()
        for record in (Numbered(*writer, number) for number in range(first.get(writer, 0) if recreated else 0, count))
        if record not in copies and record not in sent.refused
    ]
    total = sum(sent.counts.values())
    return Findings(
        sent=total,
        acknowledged=total - len(sent.refused),
        found=len(copies),
        lost=lost,
        doubled=[record for record, count in copies.items() if count > 1],
        disordered=disordered,
        misplaced=misplaced,
        errors=dict(sent.errors),
        fatal=list(sent.fatal),
    )


def _record_of(value: bytes) -> Numbered | None:
    try:
        return Numbered.of(value)
    except ValueError:
        return None


def read_back(
    data_dir: Path, *topics: str, committed: bool = False, keys: bool = False
) -> dict[str, dict[int, list[bytes]]]:
    """Every value of topics, by topic and partition, read by our consumer from a data directory that nobody has open.

    Args:
        committed: leave out what belongs to aborted transactions.
        keys: give the keys instead of the values.
    """
    isolation = "read_committed" if committed else "read_uncommitted"
    with (
        odradek.local(data_dir, synchronous="NORMAL") as service,
        odradek.Admin(**service.client_config) as admin,
        odradek.Consumer(**service.client_config, isolation_level=isolation) as consumer,
    ):
        described = admin.describe_topics(topics)
        tps = [
            odradek.TopicPartition(topic, partition.partition)
            for topic in topics
            for partition in described[topic].partitions
        ]
        logs: dict[str, dict[int, list[bytes]]] = {topic: {} for topic in topics}
        for tp in tps:
            logs[tp.topic][tp.partition] = []
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        for tp in tps:
            consumer.seek(tp, 0)
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            for tp, records in consumer.poll(timeout_ms=1_000, max_records=10_000).items():
                logs[tp.topic][tp.partition] += [(record.key if keys else record.value) or b"" for record in records]
    return logs
