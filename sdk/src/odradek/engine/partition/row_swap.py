"""The transaction that replaces index rows of a partition by others, under the maintenance lease."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, head_key
from odradek.engine.partition.index_row import IndexRow, encode_index_row
from odradek.engine.partition.maintenance_lease import MaintenanceLease
from odradek.engine.partition.shared_head import is_below, merged_offset_path
from odradek.format.item_keys import index_sk, partition_pk
from odradek.ports.table import Absent, Compare, Condition, Delete, Key, Operation, Put, Set, Update, all_of


def covers(old: Sequence[IndexRow], new: Sequence[IndexRow]) -> bool:
    """Return True if both sets of rows are contiguous, and the new ones cover the offsets up to the same end.

    The new ones may begin later: rows below the log start need not be written again.
    """

    def span(rows: Sequence[IndexRow]) -> tuple[int, int] | None:
        if any(after.base_offset != before.end_offset for before, after in pairwise(rows)):
            return None
        return rows[0].base_offset, rows[-1].end_offset

    def by_base(rows: Sequence[IndexRow]) -> list[IndexRow]:
        return sorted(rows, key=lambda row: row.base_offset)

    before, after = span(by_base(old)), span(by_base(new))
    return before is not None and after is not None and before[0] <= after[0] and before[1] == after[1]


def row_swap(
    lease: MaintenanceLease, old: Sequence[IndexRow], new: Sequence[IndexRow], merged_offset: int | None
) -> list[Operation]:
    """The operations of one swap: the lease's check first."""
    pk = partition_pk(lease.partition)
    before = {row.base_offset: row for row in old}
    operations: list[Operation] = [lease.swap({row.base_offset for row in (*old, *new)})]
    for row in new:
        there = before.pop(row.base_offset, None)
        condition = Absent(("v",)) if there is None else _is_row(there)
        operations.append(Put(Key(pk, index_sk(row.base_offset)), encode_index_row(row), condition))
    operations += [Delete(Key(pk, index_sk(base)), _is_row(row)) for base, row in before.items()]
    if merged_offset is not None:
        path = merged_offset_path(lease.partition)
        raise_it = (Set(path, merged_offset),)
        condition = all_of(is_version(VERSION), is_below(path, merged_offset))
        operations.append(Update(head_key(lease.partition), raise_it, condition))
    return operations


def _is_row(row: IndexRow) -> Condition:
    """True of the item of this row: a row never changes under the same kind, end and segment."""
    same = [Compare(("k",), "=", row.kind), Compare(("n",), "=", row.end_offset)]
    if row.segment_id is not None:
        same.append(Compare(("o",), "=", row.segment_id))
    return all_of(*same)
