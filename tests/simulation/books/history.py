"""Actions and results of actors: the evidence from outside of the store.

Every record that is ever sent has a unique identity (its value; a tombstone's is in a header), so a record names its
send.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from odradek.model.record import Record
from odradek.model.topic_partition import PartitionId

IDENTITY_HEADER = "id"


def identity(record: Record) -> bytes:
    """Return the identity of the record's send."""
    if record.value is not None:
        return record.value
    return next((value or b"" for name, value in record.headers if name == IDENTITY_HEADER), b"")


@dataclass
class Send:
    """One record that an actor tried to append."""

    identity: bytes
    partition: PartitionId
    producer: str  # sends of one idempotent producer to one partition keep their order; others have ""
    sequence: int  # the order of sending within the producer and partition
    offset: int | None = None  # acknowledged at this offset; in a transaction: told before its commit
    outcome: str = "unknown"  # acked | failed (surely not in the log) | unknown


@dataclass
class KeyedSend:
    """One record of a key, which a producer of ours sent as the key's n-th, from 0."""

    key: bytes
    number: int
    place: tuple[int, int] | None = None  # partition and offset, once it is acknowledged; offset -1: not told

    @property
    def identity(self) -> bytes:
        return b"%b:%d" % (self.key, self.number)


@dataclass
class Poll:
    """Records that one consumer saw, in the order it saw them; `resets`: where it was sent to a later log start."""

    consumer: str
    partition: PartitionId
    records: list[tuple[int, bytes]] = field(default_factory=list)
    resets: list[tuple[int, int]] = field(default_factory=list)  # (from, to)
    position: int = 0
    finished: bool = False  # it read to the end after the world had calmed down


@dataclass
class Transaction:
    """A transaction as its producer knows it."""

    name: str
    group: str = ""
    wrote: list[tuple[PartitionId, bytes]] = field(default_factory=list)
    read: list[tuple[PartitionId, int]] = field(default_factory=list)
    commits: tuple[PartitionId, int] | None = None  # the offset that it commits
    has_gap: bool = False  # a batch of it was lost
    began_s: float = 0.0  # as the loop's time
    outcome: str = "unknown"  # committed | aborted | unknown


@dataclass
class History:
    """All of it."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    # What members of a group processed, and the offsets that they were sent past because the log starts later.
    processed: dict[tuple[str, PartitionId], set[int]] = field(default_factory=lambda: defaultdict(set))
    skipped: dict[tuple[str, PartitionId], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    # Share groups: (offset, delivery count, member, identity) of what workers were given; what was accepted, rejected.
    deliveries: dict[tuple[str, PartitionId], list[tuple[int, int, str, bytes]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    accepted: dict[tuple[str, PartitionId], set[int]] = field(default_factory=lambda: defaultdict(set))
    rejected: dict[tuple[str, PartitionId], set[int]] = field(default_factory=lambda: defaultdict(set))
    keyed: list[KeyedSend] = field(default_factory=list)
    # Records in the order in which groups processed them for the first time.
    order: dict[str, list[tuple[PartitionId, int]]] = field(default_factory=lambda: defaultdict(list))
    server_written: set[UUID] = field(default_factory=set)  # topics whose records no actor sends: dead letters
    written_again: set[UUID] = field(default_factory=set)  # of these, topics that may have a record more than once
    deletions_asked: dict[PartitionId, int] = field(default_factory=dict)  # DeleteRecords up to here
    problems: list[str] = field(default_factory=list)  # what an actor saw that cannot be

    def sent(self, name: bytes, partition: PartitionId, producer: str, sequence: int) -> Send:
        send = Send(name, partition, producer, sequence)
        self.sends.append(send)
        return send

    def problem(self, text: str) -> None:
        """An actor saw what cannot be."""
        if text not in self.problems:
            self.problems.append(text)
