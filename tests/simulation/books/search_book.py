"""Results of a search for a lost append, in more states than those in which it is made.

After an update whose answer was lost, an append reads the head and then the newest rows (engine/append/row_search.py).
The book asks the same of what such a writer could have read by now: a head of some moments ago, and rows as they are
seen, for entries that entered the log, and for some that never did. It must find what is there at its offset, never
say that it is absent, and, once everything is visible, not ask for the same again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from odradek.engine.append.row_search import Search, find_entry
from odradek.engine.partition.head import decode_head
from odradek.engine.partition.index_row import decode_index_row
from odradek.format.item_keys import INDEX_PREFIX, index_base_offset
from odradek.format.tail_entry import TailEntry, decode_tail_entry

_HEADS_KEPT = 4  # of each partition, the newest last
_ROWS = 8
_EVERY = 3  # changes of a head or a row
_ENTRIES = 4  # of each question

Rows = dict[str, Any]


class SearchBook:
    """The heads that a writer may have read, and what it would find.

    Args:
        problem: takes note of what is wrong.
        rows: the partition's items by sort key as a read sees them now, and whether that is all as it is.
    """

    def __init__(self, problem: Callable[[str], None], rows: Callable[[str], tuple[Rows, bool]]) -> None:
        self._problem = problem
        self._rows = rows
        self._heads: dict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=_HEADS_KEPT))
        self._changes = 0

    def head_stored(self, pk: str, head: Any) -> None:
        """A head was written."""
        self._heads[pk].append(head)

    def changed(self, pk: str, truth: Sequence[Any]) -> None:
        """A call is over that changed the head or a row; the truth is all that entered, in order."""
        self._changes += 1
        if self._changes % _EVERY or not truth or not self._heads[pk]:
            return
        rows, is_whole = self._rows(pk)
        names = sorted((name for name in rows if name.startswith(INDEX_PREFIX)), reverse=True)
        rows_read = [decode_index_row(index_base_offset(name), rows[name]) for name in names[:_ROWS]]
        for age, item in enumerate(reversed(self._heads[pk])):
            head = decode_head(item)
            spilled = [entry for entry in truth if entry.base_offset < head.tail_base_offset]
            if not spilled:
                continue
            for step in range(_ENTRIES):
                true = spilled[-1 - (self._changes * step) % min(len(spilled), 3 * _ROWS)]
                entry = decode_tail_entry(true.packed)
                search = find_entry(entry, head, rows_read, is_all=len(names) <= _ROWS)
                self._judge(pk, entry, search, true.base_offset)
                if is_whole and age == 0 and search is Search.AGAIN:
                    self._problem(f"{pk}: a search for the entry at {true.base_offset} never comes to an end")
                other = entry._replace(object_id=bytes(len(entry.object_id)))
                search = find_entry(other, head, rows_read, is_all=len(names) <= _ROWS)
                if isinstance(search, int):
                    self._problem(f"{pk}: a search finds at {search} what never entered")

    def _judge(self, pk: str, entry: TailEntry, search: int | Search, offset: int) -> None:
        if search is Search.ABSENT:
            self._problem(f"{pk}: a search for the entry at {offset} says that it never entered")
        elif isinstance(search, int) and search != offset:
            self._problem(f"{pk}: a search for the entry at {offset} finds it at {search}")
