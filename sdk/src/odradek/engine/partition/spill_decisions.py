"""What a spill writes, decided from a head: the row, who leaves the head, and the updates by which the head forgets.

One UpdateItem has room for the entries of a row and for what `SPILL_PRODUCERS_MAX` producers need (limits.py says why).
A head with more of them forgets in several updates, each decided from the head that the one before left:

    settle, settle ...    `r` of a producer takes its batches that are about to leave, or the producer is evicted to its
                          row; the entries stay, so that a duplicate is known twice rather than not at all
    forget                the last: settles who is left and removes the row's entries

All have the condition that the tail still begins where the row does. So several spillers can be at it, and each may
stop after any update: whoever comes next finds those settled settled, and goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, PartitionHead, RecentBatch, encode_recent
from odradek.engine.partition.index_row import IndexRow
from odradek.format.tail_entry import decode_tail_entry
from odradek.limits import SPILL_EVICTIONS_MAX, SPILL_PRODUCERS_MAX
from odradek.ports.table import Action, Add, Compare, Condition, Remove, RemoveFirst, Set, all_of
from odradek.settings import Settings


@dataclass(frozen=True, slots=True)
class Forget:
    """One update of the head in a spill.

    Attributes:
        evicted: the producers that leave with it; their rows must have been written.
        is_last: the row's entries leave with it.
    """

    condition: Condition
    actions: tuple[Action, ...]
    evicted: AbstractSet[int]
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


def who_leaves(head: PartitionHead, row: IndexRow | None, settings: Settings) -> list[int]:
    """The producers that leave the head with a spill, the most idle first, `SPILL_EVICTIONS_MAX` at most.

    They wrote nothing that stays in the tail, and either nothing for a while before it (what the head carries of
    them costs units with every append), or too many are there.

    Args:
        row: what leaves the tail; None: nothing does.
    """
    end_offset = head.tail_base_offset if row is None else row.end_offset
    floor_ms = head.spill_floor_ms if row is None else row.spill_floor_ms
    newest: dict[int, int] = {}
    for offset, entry in head.entries():
        newest[entry.producer_id] = offset
    idle = []
    for producer_id, state in head.producers.items():
        last = newest.get(producer_id, state.recent[-1].base_offset if state.recent else -1)
        if last < end_offset or producer_id not in newest:
            idle.append((last, producer_id))
    idle.sort()
    too_many = max(0, len(head.producers) - settings.producers_in_head_max)
    silent_since_ms = floor_ms - settings.producer_idle_ms
    leaving = [
        producer_id
        for place, (_, producer_id) in enumerate(idle)
        if place < too_many or 0 < head.producers[producer_id].spilled_ms < silent_since_ms
    ]
    return leaving[:SPILL_EVICTIONS_MAX]


def next_forget(
    head: PartitionHead, row: IndexRow | None, evictable: Collection[int], later: Collection[int] = ()
) -> Forget | None:
    """The next update by which the head forgets, None where nothing is left to do in this round.

    Args:
        row: what leaves the tail; None: nothing but producers do.
        evictable: producers whose rows hold what this head knows of them.
        later: producers that a later round evicts; with any, the entries stay.
    """
    evicted = sorted(producer_id for producer_id in evictable if producer_id in head.producers)[:SPILL_PRODUCERS_MAX]
    kept: list[tuple[int, Sequence[RecentBatch], int]] = []
    if row is not None and not later:
        kept = _unsettled(head, row, {*evictable})
    room = SPILL_PRODUCERS_MAX - len(evicted)
    is_last = not later and len(kept) <= room and len(evicted) == len([p for p in evictable if p in head.producers])
    conditions: list[Condition] = [is_version(VERSION), Compare(("tb",), "=", head.tail_base_offset)]
    actions: list[Action] = []
    if row is not None and is_last:
        actions += [
            RemoveFirst(("t",), len(row.entries)),
            Set(("tb",), row.end_offset),
            Set(("sf",), row.spill_floor_ms),
            Set(("rm",), row.running_max_timestamp_ms),
        ]
    if kept[:room]:
        conditions.append(Compare(("pv",), "=", head.evictions))  # so they are all there still
    for producer_id, batches, committed_ms in kept[:room]:
        path = ("p", str(producer_id))
        actions += [Set((*path, "r"), encode_recent(batches)), Set((*path, "t"), committed_ms)]
    for producer_id in evicted:
        state, path = head.producers[producer_id], ("p", str(producer_id))
        conditions.append(Compare((*path, "e"), "=", state.epoch))
        conditions.append(Compare((*path, "s"), "=", state.next_sequence))
        actions.append(Remove(path))
    if evicted:
        actions.append(Add(("pv",), len(evicted)))
    return Forget(all_of(*conditions), tuple(actions), frozenset(evicted), is_last) if actions else None


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
