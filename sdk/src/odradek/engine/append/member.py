"""One partition's part of an append, and what became of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from odradek.engine.append.decisions import KnownRows, Reject
from odradek.engine.append.order import Turn
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.producer_places import places_of
from odradek.format.tail_entry import TailEntry
from odradek.model.topic_partition import PartitionId

AHEAD_POLL_S = 0.01  # between the first two looks for a predecessor; the pauses grow


@dataclass(frozen=True, slots=True)
class Appended:
    """The location of appended entries: the first offset, where the log starts, the append time."""

    base_offset: int
    log_start_offset: int
    append_ms: int  # under LogAppendTime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition's entries.

    Attributes:
        head: of who was refused, the newest that was seen, if any.
        partition_is_gone: it has no head any more.
    """

    result: Appended | Reject
    head: PartitionHead | None
    partition_is_gone: bool


_NOTHING_KNOWN = KnownRows()


class Member:
    """The entries of one partition in an append.

    Args:
        entries: entries of one chain, uploaded, without a commit time.
        data: the bytes of the entries, in case they must be uploaded again.
        expected_offset: append only if this is the next offset; None: at any offset.
        chosen_by: append only if the topic has not grown beyond so many partitions; None: however many it has.
        turn: the entries' turn among the batches of their producer; it has come.
        is_run: the entries are of several requests, and go into the log together or not at all (APART).
    """

    def __init__(
        self,
        partition: PartitionId,
        entries: Sequence[TailEntry],
        data: memoryview,
        expected_offset: int | None,
        turn: Turn,
        chosen_by: int | None = None,
        *,
        is_run: bool = False,
    ) -> None:
        self.partition = partition
        self.is_run = is_run
        self.entries: Sequence[TailEntry] = entries
        self.data = data
        self.expected_offset = expected_offset
        self.turn = turn
        self.chosen_by = chosen_by
        self.places = places_of(partition)
        # A batch of no idempotent producer: only its entry tells it from a new one.
        self.is_plain = any(entry.producer_id < 0 for entry in entries)
        self.offset_count = sum([entry.offset_count for entry in entries])
        self.known = _NOTHING_KNOWN
        self.accept_unknown = False
        self.ahead_until_s: float | None = None
        self.ahead_poll_s = AHEAD_POLL_S

    def first_entries(self) -> Collection[TailEntry]:
        """The first entry of each producer, by whose sequence the log must know it, or not."""
        return {entry.producer_id: entry for entry in reversed(self.entries)}.values()
