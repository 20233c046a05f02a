"""Where a head keeps a producer's epoch and next sequence: the conditions and actions on it.

    a head of one partition     p.<id>           {e: epoch, s: next sequence, r, t, b}
    a shared head               p.<id>.<place>   one number, epoch * 2^31 + next sequence; <place>f: where it began

Decisions (append/decisions.py, transactions/decisions.py) say what must be true of a producer and what it becomes; this
module says it in attributes.

A shared head has all that is known of a producer, or nothing: it leaves with all its places, and returns with all of
them. So where the head has it, a place that it does not name is one it has not written to; where the head does not have
it, its row tells, and the update that brings it back sets the whole map (`Return`).

The row was read after the head, and what it said must still be so when the update comes: the producer must not have
returned and left again in between. A producer leaves only when nothing of it is in the tail. So if it returned after
the head was read, everything that the tail had then has left the tail before the producer left: the head's turnover has
passed the bound that it had then (`PartitionHead.turnover_bound`), and the condition refuses the update. In a head of
one partition, turnover is the count of evictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from odradek.engine.partition.head import PartitionHead, ProducerState, encode_producer
from odradek.engine.partition.producer_rows import EvictedProducer
from odradek.engine.partition.shared_head import first_name, id_name_of, place_name, stamp_of
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, Action, AnyOf, Compare, Condition, Exists, Path, Set, all_of


@dataclass(frozen=True, slots=True)
class Return:
    """A producer comes into a shared head, which has nothing of it.

    Attributes:
        row: what its row has of all places.
        own: what becomes of one of them.
    """

    path: Path
    row: Mapping[str, int]
    own: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SequenceClause:
    """The part of an append that holds a producer's sequence: one more condition, and what it changes.

    Attributes:
        common: a condition that is the same for all partitions of the producer.
    """

    condition: Condition | None
    actions: tuple[Action, ...] = ()
    common: Condition | None = None
    returns: Return | None = None


def joined(clauses: Iterable[SequenceClause]) -> tuple[list[Condition], list[Action]]:
    """The conditions and actions of an update of a head: a producer returns once, for all of its partitions."""
    conditions: list[Condition] = []
    actions: list[Action] = []
    returning: dict[Path, dict[str, int]] = {}
    for clause in clauses:
        if clause.common is not None and clause.common not in conditions:
            conditions.append(clause.common)
        if clause.condition is not None:
            conditions.append(clause.condition)
        actions += clause.actions
        if clause.returns is not None:
            returning.setdefault(clause.returns.path, {**clause.returns.row}).update(clause.returns.own)
    return conditions, [*actions, *(Set(path, {**stamps}) for path, stamps in returning.items())]


class ProducerPlaces(Protocol):
    """The producers of one partition in its head's item."""

    @property
    def keeps_recent(self) -> bool:
        """True if the head remembers batches that left the tail."""
        ...

    def evicted(self, row: EvictedProducer) -> ProducerState | None:
        """What the row of an evicted producer says of it in this partition."""
        ...

    def starts(self, producer_id: int, state: ProducerState, *, is_there: bool) -> SequenceClause:
        """A producer's first batch of an epoch, without having read the head.

        Args:
            state: what becomes of the producer.
            is_there: whether the head is believed to have the producer already; else it must never have had it.
        """
        ...

    def follows(self, producer_id: int, epoch: int, sequence: int, after: int) -> SequenceClause:
        """The head has the producer at this sequence of its epoch; it goes on to another one."""
        ...

    def becomes(
        self, head: PartitionHead, producer_id: int, state: ProducerState, row: EvictedProducer
    ) -> SequenceClause:
        """The producer is as it was in the head, and gets this state.

        Args:
            row: what the producer's row said, where the head has nothing of it.
        """
        ...


class OwnPlaces:
    """Of a head of one partition."""

    keeps_recent = True

    def evicted(self, row: EvictedProducer) -> ProducerState | None:
        return row.alone

    def starts(self, producer_id: int, state: ProducerState, *, is_there: bool) -> SequenceClause:
        fresh = self._absent(producer_id, 0)
        earlier = Compare(("p", str(producer_id), "e"), "<", state.epoch)
        return SequenceClause(AnyOf((fresh, earlier)), self._begin(producer_id, state))

    def follows(self, producer_id: int, epoch: int, sequence: int, after: int) -> SequenceClause:
        return SequenceClause(self._at(producer_id, epoch, sequence), (Set(("p", str(producer_id), "s"), after),))

    def becomes(
        self, head: PartitionHead, producer_id: int, state: ProducerState, row: EvictedProducer
    ) -> SequenceClause:
        was = head.producers.get(producer_id)
        if was is None:
            unchanged = self._absent(producer_id, head.turnover_bound)
        else:
            unchanged = self._at(producer_id, was.epoch, was.next_sequence)
        return SequenceClause(unchanged, self._begin(producer_id, state))

    def _absent(self, producer_id: int, evictions: int) -> Condition:
        return all_of(Absent(("p", str(producer_id))), Compare(("pv",), "=", evictions))

    def _at(self, producer_id: int, epoch: int, sequence: int) -> Condition:
        path = ("p", str(producer_id))
        return all_of(Compare((*path, "e"), "=", epoch), Compare((*path, "s"), "=", sequence))

    def _begin(self, producer_id: int, state: ProducerState) -> tuple[Action, ...]:
        return (Set(("p", str(producer_id)), encode_producer(state)),)


class SharedPlaces:
    """Of a partition that shares its head."""

    keeps_recent = False

    def __init__(self, place: int) -> None:
        self._place = place_name(place)

    def evicted(self, row: EvictedProducer) -> ProducerState | None:
        return row.state(self._place)

    def starts(self, producer_id: int, state: ProducerState, *, is_there: bool) -> SequenceClause:
        if not is_there:
            never_there = all_of(Absent(self._path(producer_id)), Compare(("pv",), "=", 0))
            return SequenceClause(None, (), never_there, self._return(producer_id, state, {}))
        path = self._path(producer_id, self._place)
        fresh: Condition = Absent(path)
        if state.epoch:
            fresh = AnyOf((fresh, Compare(path, "<", stamp_of(state.epoch, 0))))
        return SequenceClause(fresh, self._set(producer_id, state), Exists(self._path(producer_id)))

    def follows(self, producer_id: int, epoch: int, sequence: int, after: int) -> SequenceClause:
        path = self._path(producer_id, self._place)
        return SequenceClause(Compare(path, "=", stamp_of(epoch, sequence)), (Set(path, stamp_of(epoch, after)),))

    def becomes(
        self, head: PartitionHead, producer_id: int, state: ProducerState, row: EvictedProducer
    ) -> SequenceClause:
        was = head.producers.get(producer_id)
        if was is not None:
            stamp = stamp_of(was.epoch, was.next_sequence)
            unchanged: Condition = Compare(self._path(producer_id, self._place), "=", stamp)
            return SequenceClause(unchanged, self._set(producer_id, state))
        if head.has(producer_id):
            is_new_here = Absent(self._path(producer_id, self._place))
            return SequenceClause(is_new_here, self._set(producer_id, state), Exists(self._path(producer_id)))
        still_out = all_of(Absent(self._path(producer_id)), Compare(("q",), "<=", head.turnover_bound))
        return SequenceClause(None, (), still_out, self._return(producer_id, state, row.stamps))

    def _set(self, producer_id: int, state: ProducerState) -> tuple[Action, ...]:
        return tuple(Set(self._path(producer_id, name), stamp) for name, stamp in self._stamps(state).items())

    def _return(self, producer_id: int, state: ProducerState, row: Mapping[str, int]) -> Return:
        return Return(self._path(producer_id), row, self._stamps(state))

    def _stamps(self, state: ProducerState) -> dict[str, int]:
        stamps = {self._place: stamp_of(state.epoch, state.next_sequence)}
        if state.first_sequence:
            stamps[first_name(self._place)] = stamp_of(state.epoch, state.first_sequence)
        return stamps

    def _path(self, producer_id: int, *names: str) -> Path:
        return "p", id_name_of(producer_id), *names


OWN_PLACES = OwnPlaces()


def places_of(partition: PartitionId) -> ProducerPlaces:
    """Where the partition's head keeps its producers."""
    return _shared_places(partition.place) if partition.shares_head else OWN_PLACES


@cache  # of a byte
def _shared_places(place: int) -> SharedPlaces:
    return SharedPlaces(place)
