"""The writes of a spill, decided from a head: the row, the leaving producers, and the updates of the head.

One UpdateItem has room for the most entries of a row and for what `SPILL_PRODUCERS_MAX` producers need, or for
`SPILL_FEW_ENTRIES` and `SPILL_SETTLED_MAX` producers (limits.py says why). A head with more of them forgets in several
updates, each decided from the head that the one before left:

    settle, settle ...    `r` of a producer takes its batches that are about to leave; the entries stay, so a duplicate
                          is known twice rather than not at all
    forget                settles the remaining producers and removes the row's entries
    evict, evict ...      idle producers leave for rows of their own; where few are concerned, together with the forget

Settling and forgetting have the condition that the tail still begins where the row does, evicting that the producer has
not written since its row was. So several processes may spill at once, and each may stop after any update: the next one
finds what is settled and continues.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, PartitionHead, RecentBatch, encode_recent
from odradek.engine.partition.index_row import IndexRow
from odradek.format.tail_entry import decode_tail_entry
from odradek.limits import (
    SPILL_ENTRIES_MAX,
    SPILL_EVICTIONS_MAX,
    SPILL_FEW_ENTRIES,
    SPILL_PRODUCERS_MAX,
    SPILL_SETTLED_MAX,
)
from odradek.ports.table import Action, Add, Compare, Condition, Remove, RemoveFirst, Set, all_of
from odradek.settings import Settings


@dataclass(frozen=True, slots=True)
class Forget:
    """One update of the head in a spill.

    Attributes:
        is_last: the row's entries leave with it.
    """

    condition: Condition
    actions: tuple[Action, ...]
    is_last: bool


def oldest_row(head: PartitionHead, count: int) -> IndexRow:
    """The row of the `count` oldest entries of a tail that is not empty."""
    entries = tuple(decode_tail_entry(packed) for packed in head.tail[:count])
    return IndexRow(
        base_offset=head.tail_base_offset,
        end_offset=head.tail_base_offset + sum(entry.offset_count for entry in entries),
        max_timestamp_ms=(newest_ms := max(entry.max_timestamp_ms for entry in entries)),
        size_bytes=sum(entry.length for entry in entries),
        spill_floor_ms=max(head.spill_floor_ms, *(entry.commit_ms for entry in entries)),
        entries=entries,
        running_max_timestamp_ms=max(head.running_max_timestamp_ms, newest_ms),
    )


def is_crowded(head: PartitionHead, settings: Settings) -> bool:
    """Return True if the head has more producers than a spill's rows bring in."""
    return len(head.producers) > settings.producers_in_head_max + SPILL_ENTRIES_MAX


def who_leaves(head: PartitionHead, row: IndexRow | None, settings: Settings) -> list[int]:
    """Return the producers that leave the head with a spill, the most idle first.

    They wrote nothing that stays in the tail, and either nothing for a while before it (what the head carries of
    them costs units with every append), or too many are there. Not all at once where all are at work: each of them
    comes back with its next batch, which costs more than it takes in the head.

    Args:
        row: what leaves the tail; None: nothing does.
    """
    end_offset = head.tail_base_offset if row is None else row.end_offset
    floor_ms = head.spill_floor_ms if row is None else row.spill_floor_ms
    newest = {entry.producer_id: offset for offset, entry in head.entries()}
    idle = []
    for producer_id, state in head.producers.items():
        left_offset = state.recent[-1].base_offset if state.recent else -1
        last = newest.get(producer_id, left_offset)
        if producer_id not in newest or last < end_offset:
            idle.append((last, producer_id))
    idle.sort()
    too_many = max(0, len(head.producers) - settings.producers_in_head_max)
    silent_since_ms = floor_ms - settings.producer_idle_ms
    leaving = [
        producer_id
        for place, (_, producer_id) in enumerate(idle)
        if place < too_many or 0 < head.producers[producer_id].spilled_ms < silent_since_ms
    ]
    return leaving[: SPILL_EVICTIONS_MAX if is_crowded(head, settings) else SPILL_SETTLED_MAX]


def leave_together(row: IndexRow, idle: Collection[int]) -> bool:
    """Return True if idle producers and the row's entries leave with one update."""
    return len({*idle} | {entry.producer_id for entry in row.entries if entry.producer_id >= 0}) <= _room(row)


def _room(row: IndexRow) -> int:
    """For how many producers the update has room with which the row's entries leave."""
    return SPILL_SETTLED_MAX if len(row.entries) <= SPILL_FEW_ENTRIES else SPILL_PRODUCERS_MAX


def next_forget(head: PartitionHead, row: IndexRow, evictable: Collection[int] = ()) -> Forget:
    """The next update by which the head forgets the row's entries.

    Args:
        evictable: producers whose rows hold what this head knows of them; they leave with the last update.
    """
    kept = _unsettled(head, row, {*evictable})
    conditions: list[Condition] = [is_version(VERSION), Compare(("tb",), "=", row.base_offset)]
    if kept:
        conditions.append(Compare(("pv",), "=", head.evictions))  # so they are all there still
    if len(kept) + len(evictable) > _room(row):
        return Forget(all_of(*conditions), tuple(_notes(kept[:SPILL_SETTLED_MAX])), is_last=False)
    actions: list[Action] = [
        RemoveFirst(("t",), len(row.entries)),
        Set(("tb",), row.end_offset),
        Set(("sf",), row.spill_floor_ms),
        Set(("rm",), row.running_max_timestamp_ms),
        *_notes(kept),
    ]
    if evictable:
        left, leave = _leave(head, evictable)
        conditions += left
        actions += leave
    return Forget(all_of(*conditions), tuple(actions), is_last=True)


def eviction(head: PartitionHead, evictable: Collection[int]) -> tuple[Condition, tuple[Action, ...]]:
    """The update by which producers leave the head, `SPILL_SETTLED_MAX` at most; their rows have been written."""
    conditions, actions = _leave(head, evictable)
    return all_of(is_version(VERSION), *conditions), tuple(actions)


def _leave(head: PartitionHead, producer_ids: Collection[int]) -> tuple[list[Condition], list[Action]]:
    conditions: list[Condition] = []
    actions: list[Action] = []
    for producer_id in sorted(producer_ids):
        state, path = head.producers[producer_id], ("p", str(producer_id))
        conditions.append(Compare((*path, "e"), "=", state.epoch))
        conditions.append(Compare((*path, "s"), "=", state.next_sequence))
        actions.append(Remove(path))
    return conditions, [*actions, Add(("pv",), len(producer_ids))]


def _notes(kept: Sequence[tuple[int, Sequence[RecentBatch], int]]) -> list[Action]:
    actions: list[Action] = []
    for producer_id, batches, committed_ms in kept:
        path = ("p", str(producer_id))
        actions += [Set((*path, "r"), encode_recent(batches)), Set((*path, "t"), committed_ms)]
    return actions


def _unsettled(
    head: PartitionHead, row: IndexRow, leaving: AbstractSet[int]
) -> list[tuple[int, Sequence[RecentBatch], int]]:
    """The producers of the row's entries that stay in the head and whose `r` lacks something: id, `r`, `t`."""
    committed: dict[int, int] = {}
    for entry in row.entries:
        if entry.producer_id in head.producers and entry.producer_id not in leaving:
            committed[entry.producer_id] = max(entry.commit_ms, committed.get(entry.producer_id, 0))
    recent = head.all_recent_batches(committed)
    found: list[tuple[int, Sequence[RecentBatch], int]] = []
    for producer_id in sorted(committed):
        batches = [batch for batch in recent[producer_id] if batch.base_offset < row.end_offset]
        state = head.producers[producer_id]
        if state.spilled_ms < committed[producer_id] or not {*batches} <= {*state.recent}:
            found.append((producer_id, batches, committed[producer_id]))
    return found
