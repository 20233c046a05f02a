"""Contents of index rows, at every write of one.

* a spilled row's entries are those of the true log at its offsets
* no entry below a row's end has a commit time above its spill floor: a search for a lost append trusts that
* its running maximum of timestamps is that of all records below its end: a look-up by time trusts that
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from odradek.engine.partition.index_row import IndexRow
from odradek.format.tail_entry import TailEntry, encode_tail_entry


class _Below(NamedTuple):
    """Of all entries up to and with one."""

    end_offset: int
    commit_ms: int
    timestamp_ms: int


class RowBook:
    """The entries of logs, and what rows must say of them."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self._entries: dict[str, list[TailEntry]] = defaultdict(list)
        self._below: dict[str, list[_Below]] = defaultdict(list)

    def entered(self, pk: str, base_offset: int, entry: TailEntry) -> None:
        """An entry entered the log."""
        below = self._below[pk]
        commit_ms = max(entry.commit_ms, below[-1].commit_ms if below else entry.commit_ms)
        timestamp_ms = max(entry.max_timestamp_ms, below[-1].timestamp_ms if below else entry.max_timestamp_ms)
        self._entries[pk].append(entry)
        below.append(_Below(base_offset + entry.offset_count, commit_ms, timestamp_ms))

    def stored(self, pk: str, row: IndexRow) -> None:
        """A row was written."""
        below = self._below[pk]
        last = bisect_left(below, row.end_offset, key=lambda row: row.end_offset)
        if last == len(below) or below[last].end_offset != row.end_offset:
            self._problem(f"{pk}: the row at {row.base_offset} ends at {row.end_offset}, where no entry ends")
            return
        if row.spill_floor_ms < below[last].commit_ms:
            self._problem(f"{pk}: the spill floor of the row at {row.base_offset} is below the commit time of an entry")
        if row.running_max_timestamp_ms < below[last].timestamp_ms:
            self._problem(f"{pk}: the row at {row.base_offset} denies a timestamp below its end")
        if row.is_segment:
            return
        first = last + 1 - len(row.entries)
        entries = self._entries[pk][max(0, first) : last + 1]
        begin = below[first - 1].end_offset if first > 0 else 0
        if (
            first < 0
            or begin != row.base_offset
            or [*map(encode_tail_entry, entries)] != [*map(encode_tail_entry, row.entries)]
        ):
            self._problem(f"{pk}: the row at {row.base_offset} holds other entries than entered there")
