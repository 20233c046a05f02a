"""Writes that are refused and made again though nothing has changed: whoever is refused learns from what is there.

A refusal carries the item. A process that goes on sending what this very item refuses has not understood it: it would
use up its attempts, and tell its client of a store that cannot be reached. A few such refusals are right: a process has
several requests under way, and a client may ask again for what it was denied. An entry is refused by one head twice at
most: blind, and again where its answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.adapters.expressions import State
from odradek.format.item_keys import HEAD_SK, SWEEP_PK
from odradek.ports.table import Append, Key, Operation, Update

_OF_AN_ITEM_MAX = 15
_OF_AN_ENTRY_MAX = 3
_ENTRY_BYTES = 30  # which bytes an entry is, without its times


class FutileBook:
    """Refusals by one and the same state of an item.

    Args:
        problem: takes note of what is wrong.
        state_of: an item as it is stored, by table and key; the same object until the next write.
    """

    def __init__(self, problem: Callable[[str], None], state_of: Callable[[str, Key], State]) -> None:
        self._problem = problem
        self._state_of = state_of
        self._last: dict[tuple[str, str, Key, bytes], tuple[State, int]] = {}

    def refused(self, sender: str, operations: Iterable[tuple[str, Operation]]) -> None:
        """A write was refused for what the items of these operations are."""
        for table, operation in operations:
            entry = _entry(operation)
            if not entry and (operation.key.sk == HEAD_SK or operation.key.pk == SWEEP_PK):
                continue  # floors are raised without a look at what is there
            where = sender, table, operation.key, entry
            state = self._state_of(table, operation.key)
            before, count = self._last.get(where, (None, 0))
            count = count + 1 if before is state else 1
            self._last[where] = state, count
            if count == (_OF_AN_ENTRY_MAX if entry else _OF_AN_ITEM_MAX):
                write_kind = "an entry" if entry else "a write"
                at = f"{table} {operation.key.pk} {operation.key.sk}"
                self._problem(f"{at}: {write_kind} of {sender} was refused {count} times by what it saw")


def _entry(operation: Operation) -> bytes:
    """Which entry a head's update appends first; empty: it appends none."""
    if isinstance(operation, Update):
        for action in operation.actions:
            if isinstance(action, Append) and isinstance(action.values[0], bytes):
                return action.values[0][:_ENTRY_BYTES]
    return b""
