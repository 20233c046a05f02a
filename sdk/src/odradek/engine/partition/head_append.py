"""The update of a head that appends batches: the condition that every guarantee rests on, and what it changes.

    the version is ours                          a newer release's head stays as it is
    the claim holds                              the leader and its epoch are those that the writer appends by
    wf <= object id                              the sweep has not deleted the object
    sf < commit time                             no earlier attempt may have been applied and spilled
    the entry is not in the tail                 no earlier attempt was applied
    each producer is where its batch continues   producer_places.py
    the next offset is the expected one          of a conditional produce
    the topic has not grown                      below

A topic that grows puts up a fence in its heads (docs/decisions/0062):

    g   how many partitions the topic has, or will have in a moment; absent: it has not grown

A producer that says by how many partitions it chose the partitions of keyed records is refused once the fence says
more. So what is below the next offset that the fence's own update returns is all that such producers will ever have
written by fewer partitions, and no later append joins it.

As expressions the append is DynamoDB's to evaluate; `decide` is the same for a store that has the head in memory. Both
say the same of every head (tests/property/engine/test_head_append.py, and each append of the simulation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from odradek.engine.partition.claims import FLEET_CLAIM, Claim
from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import FENCE, MARK, VERSION, head_key
from odradek.engine.partition.packed_entries import PlacedEntry, encode_packed_entries
from odradek.engine.partition.producer_places import SequenceClause, joined
from odradek.engine.partition.shared_head import HeadImage, decode_image, is_at, next_offset_path, place_name
from odradek.errors import ConditionFailed
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.model.topic_partition import PartitionId
from odradek.ports.condition_value import holds
from odradek.ports.table import (
    Absent,
    Action,
    Add,
    AnyOf,
    Append,
    Compare,
    Condition,
    Contains,
    Item,
    LiveUpdate,
    Not,
    Path,
    Set,
    Table,
    Undecided,
    Update,
    Value,
    all_of,
)

_FENCE_PATH = (FENCE,)
_NUMBER_MAX = 10**37  # far below the limit of the table's numbers


@dataclass(frozen=True, slots=True)
class PartitionAppend:
    """What one update appends to one partition: entries that share a commit time."""

    partition: PartitionId
    entries: Sequence[TailEntry]
    clauses: Sequence[SequenceClause] = ()
    expected_offset: int | None = None
    chosen_by: int | None = None  # by how many partitions the keys chose this one


class HeadAppend(LiveUpdate):
    """Appends entries of one commit time to partitions of one head.

    Args:
        is_unmarked: refuse it where somebody waits at the head (engine/marks.py): a transaction returns no image.
    """

    _shares_head: bool
    _parts: Sequence[PartitionAppend]
    _claim: Claim
    _packed: tuple[bytes, ...]
    _object_id: bytes
    _commit_ms: int
    _bytes: int
    _advances: Sequence[Action]
    _clauses: Sequence[Condition]

    def __init__(
        self,
        head_id: PartitionId,
        parts: Sequence[PartitionAppend],
        claim: Claim = FLEET_CLAIM,
        *,
        is_unmarked: bool = False,
    ) -> None:
        entries = [entry for part in parts for entry in part.entries]
        if head_id.shares_head:
            placed = [PlacedEntry(part.partition.place, entry) for part in parts for entry in part.entries]
            packed: tuple[bytes, ...] = (encode_packed_entries(placed),)
        else:
            packed = tuple([encode_tail_entry(entry) for entry in entries])
        sequences, advances = joined(clause for part in parts for clause in part.clauses)
        fields = {
            "_shares_head": head_id.shares_head,
            "_parts": parts,
            "_claim": claim,
            "_packed": packed,
            "_object_id": min([entry.object_id for entry in entries]),
            "_commit_ms": entries[0].commit_ms,
            "_bytes": sum([entry.length for entry in entries]),
            "_advances": advances,
            "_clauses": [  # what not every append has
                *sequences,
                *((Absent((MARK,)),) if is_unmarked else ()),
                *_fences([part.chosen_by for part in parts if part.chosen_by is not None]),
                *_expectations(parts, shares_head=head_id.shares_head),
            ],
        }
        object.__setattr__(self, "key", head_key(head_id))
        vars(self).update(fields)

    # --- as expressions -------------------------------------------------------------------------------------------

    @cached_property
    def condition(self) -> Condition:
        return all_of(
            is_version(VERSION),
            self._claim.condition,
            Compare(("wf",), "<=", self._object_id),
            Compare(("sf",), "<", self._commit_ms),
            Not(Contains(("t",), self._packed[0])),
            *self._clauses,
        )

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return (
            *(Add(next_offset_path(part.partition), _offset_count(part)) for part in self._parts),
            Add(("by",), self._bytes),
            Append(("t",), self._packed),
            *self._advances,
        )

    # --- as a decision --------------------------------------------------------------------------------------------

    def decide(self, item: Item | None) -> Item | None:
        """See LiveUpdate.decide."""
        if item is None:
            return None
        floor_ms, floor, tail = item.get("sf"), item.get("wf"), item.get("t")
        if type(floor_ms) is not int or type(floor) is not bytes or type(tail) is not list:
            raise Undecided
        if (
            item.get("v") != VERSION
            or not self._claim.is_of(item)
            or floor > self._object_id
            or floor_ms >= self._commit_ms
            or self._packed[0] in tail
        ):
            return None
        for clause in self._clauses:
            if not holds(clause, self.key, item):
                return None
        return self._appended(item, tail)

    def _appended(self, item: Item, tail: list[Value]) -> Item:
        after = dict(item)
        after["by"] = _sum(item.get("by", 0), self._bytes)
        after["t"] = [*tail, *self._packed]
        if self._shares_head:
            offsets = _map(item.get("n"))
            for part in self._parts:
                name = place_name(part.partition.place)
                offsets[name] = _sum(offsets.get(name, 0), _offset_count(part))
            after["n"] = offsets
        else:
            for part in self._parts:
                after["no"] = _sum(after.get("no", 0), _offset_count(part))
        _set_all(after, self._advances)
        return after


async def raise_fence(log: Table, head_id: PartitionId, partition_count: int) -> HeadImage | None:
    """Raise the fence of a head, which only rises; return what the head says with it, or None: it does not exist.

    Raises StoreUnavailable, OutcomeUnknown (repeat it); FormatError: the head is damaged, or of a later release.
    """
    item: Item | None
    is_lower = AnyOf((Absent(_FENCE_PATH), Compare(_FENCE_PATH, "<", partition_count)))
    update = Update(head_key(head_id), (Set(_FENCE_PATH, partition_count),), all_of(is_version(VERSION), is_lower))
    try:
        item = await log.update(update)
    except ConditionFailed as refused:
        item = refused.current
    return None if item is None else decode_image(head_id, item)


def _fences(chosen_by: Sequence[int]) -> tuple[Condition, ...]:
    """Return the condition of batches whose partitions were chosen by so many partitions of their topic."""
    if not chosen_by:
        return ()
    return (AnyOf((Absent(_FENCE_PATH), Compare(_FENCE_PATH, "<=", min(chosen_by)))),)


def _expectations(parts: Sequence[PartitionAppend], *, shares_head: bool) -> list[Condition]:
    return [
        is_at(next_offset_path(part.partition), part.expected_offset, may_be_absent=shares_head)
        for part in parts
        if part.expected_offset is not None
    ]


def _offset_count(part: PartitionAppend) -> int:
    return sum([entry.offset_count for entry in part.entries])


def _set_all(item: Item, actions: Sequence[Action]) -> None:
    """Set values at paths, whose maps are copied at their first change."""
    copies: dict[Path, dict[str, Any]] = {(): item}
    for action in actions:
        if not isinstance(action, Set):
            raise Undecided
        path = action.path
        for length in range(1, len(path)):
            begin = path[:length]
            if begin not in copies:
                above = copies[begin[:-1]]
                copies[begin] = above[begin[-1]] = _map(above.get(begin[-1]))
        copies[path[:-1]][path[-1]] = action.value


def _map(value: object) -> dict[str, Any]:
    """Return a copy of a map of the head. Raises Undecided: it is none."""
    if type(value) is not dict:
        raise Undecided
    return dict(value)


def _sum(number: object, amount: int) -> int:
    if type(number) is not int or number > _NUMBER_MAX:
        raise Undecided
    return number + amount
