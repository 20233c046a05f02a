"""Where a head keeps a producer's epoch and next sequence: the conditions and actions on it.

    a head of one partition     p.<id>          {e: epoch, s: next sequence, r, t, b}
    a shared head               p.<place><id>   one number, epoch * 2^31 + next sequence; f.<place><id> where it began

Decisions (append/decisions.py, transactions/decisions.py) say what must be true of a producer and what it becomes; this
module says it in attributes.
"""

from __future__ import annotations

from typing import Protocol

from odradek.engine.partition.head import ProducerState, encode_producer
from odradek.engine.partition.shared_head import producer_name, stamp_of
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, Action, Compare, Condition, Set, all_of


class ProducerPlaces(Protocol):
    """The producers of one partition in its head's item."""

    @property
    def keeps_recent(self) -> bool:
        """True if the head remembers batches that left the tail."""
        ...

    def absent(self, producer_id: int, evictions: int) -> Condition:
        """The head does not know the producer, and has evicted as many as it had."""
        ...

    def below(self, producer_id: int, epoch: int) -> Condition | None:
        """The head knows the producer under an earlier epoch. None: no epoch is earlier."""
        ...

    def at(self, producer_id: int, epoch: int, sequence: int) -> Condition:
        """The producer's next batch is this one."""
        ...

    def advance(self, producer_id: int, epoch: int, sequence: int) -> tuple[Action, ...]:
        """The producer, which stays in its epoch, has this sequence next."""
        ...

    def begin(self, producer_id: int, state: ProducerState) -> tuple[Action, ...]:
        """The producer has this state from now on."""
        ...


class OwnPlaces:
    """Of a head of one partition."""

    keeps_recent = True

    def absent(self, producer_id: int, evictions: int) -> Condition:
        return all_of(Absent(("p", str(producer_id))), Compare(("pv",), "=", evictions))

    def below(self, producer_id: int, epoch: int) -> Condition | None:
        return Compare(("p", str(producer_id), "e"), "<", epoch)

    def at(self, producer_id: int, epoch: int, sequence: int) -> Condition:
        path = ("p", str(producer_id))
        return all_of(Compare((*path, "e"), "=", epoch), Compare((*path, "s"), "=", sequence))

    def advance(self, producer_id: int, epoch: int, sequence: int) -> tuple[Action, ...]:
        return (Set(("p", str(producer_id), "s"), sequence),)

    def begin(self, producer_id: int, state: ProducerState) -> tuple[Action, ...]:
        return (Set(("p", str(producer_id)), encode_producer(state)),)


class SharedPlaces:
    """Of a partition that shares its head."""

    keeps_recent = False

    def __init__(self, place: int) -> None:
        self._place = place

    def absent(self, producer_id: int, evictions: int) -> Condition:
        return all_of(Absent(self._path("p", producer_id)), Compare(("pv",), "=", evictions))

    def below(self, producer_id: int, epoch: int) -> Condition | None:
        return Compare(self._path("p", producer_id), "<", stamp_of(epoch, 0)) if epoch > 0 else None

    def at(self, producer_id: int, epoch: int, sequence: int) -> Condition:
        return Compare(self._path("p", producer_id), "=", stamp_of(epoch, sequence))

    def advance(self, producer_id: int, epoch: int, sequence: int) -> tuple[Action, ...]:
        return (Set(self._path("p", producer_id), stamp_of(epoch, sequence)),)

    def begin(self, producer_id: int, state: ProducerState) -> tuple[Action, ...]:
        actions = self.advance(producer_id, state.epoch, state.next_sequence)
        if state.first_sequence:
            actions += (Set(self._path("f", producer_id), stamp_of(state.epoch, state.first_sequence)),)
        return actions

    def _path(self, name: str, producer_id: int) -> tuple[str, str]:
        return name, producer_name(self._place, producer_id)


OWN_PLACES = OwnPlaces()


def places_of(partition: PartitionId) -> ProducerPlaces:
    """Where the partition's head keeps its producers."""
    return SharedPlaces(partition.place) if partition.shares_head else OWN_PLACES
