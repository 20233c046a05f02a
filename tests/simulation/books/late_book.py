"""The effect of a write that comes again: late, or a second time, as every write that was sent may.

Faults deliver a few writes late or twice; the book asks of many more, without delivering them. It remembers what was
sent, and after a call of the store it asks the memory adapters' own evaluation of conditions which of the remembered
writes would be taken by what is stored now. What it would change must be allowed: a head that only moves forward, with
entries that are new, above both floors, in the order of their producers; a producer's row that gets newer; a lease
whose stamp rises, for its owner; rows that change under a maintenance lease; versions that count up.

So a condition that is missing shows where the state has moved on, and not only in the runs that draw the delay.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.adapters.expressions import State, after
from odradek.errors import StoreError
from odradek.ports.condition_value import holds
from odradek.ports.table import Check, Item, Key, Operation

_OF_A_KEY = 10  # calls that are remembered, by each item that they would write, and asked when it changes
_OF_ALL = 128  # calls of any items
_ASKED = 3  # of those after every call, in turn

Addressed = tuple[str, Operation]
Judge = Callable[[str, str, Key, Item | None, Item | None, bool], str]


class _Sent(NamedTuple):
    sender: str
    operations: Sequence[Addressed]


class LateBook:
    """The writes that were sent.

    Args:
        problem: takes note of what is wrong.
        state_of: an item as it is stored, by table and key.
        judge: why (sender, table, key) must not turn an item into another one (None: delete it), alone or in a
            transaction; empty where it may.
    """

    def __init__(self, problem: Callable[[str], None], state_of: Callable[[str, Key], State], judge: Judge) -> None:
        self._problem = problem
        self._state_of = state_of
        self._judge = judge
        self._by_key: dict[tuple[str, Key], deque[_Sent]] = defaultdict(lambda: deque(maxlen=_OF_A_KEY))
        self._all: deque[_Sent] = deque(maxlen=_OF_ALL)
        self._changed: dict[tuple[str, Key], None] = {}
        self._calls = 0

    def sent(self, sender: str, operations: Sequence[Addressed]) -> None:
        """A write arrived at the store, whatever became of it."""
        sent = _Sent(sender, operations)
        for table, operation in operations:
            if not isinstance(operation, Check):
                self._by_key[table, operation.key].append(sent)
        self._all.append(sent)

    def changed(self, table: str, key: Key) -> None:
        """An item was written."""
        self._changed[table, key] = None

    def settled(self) -> None:
        """A call is over."""
        if not self._changed:
            return
        self._calls += 1
        unsettled = {id(sent): sent for where in self._changed for sent in self._by_key.get(where, ())}
        for number in range(_ASKED if self._all else 0):
            sent = self._all[(self._calls * _ASKED + number) % len(self._all)]
            unsettled[id(sent)] = sent
        self._changed.clear()
        for sent in unsettled.values():
            self._ask(sent)

    def _ask(self, sent: _Sent) -> None:
        states = [self._state_of(table, operation.key) for table, operation in sent.operations]
        if not all(
            holds(operation.condition, operation.key, state.item)
            for (_, operation), state in zip(sent.operations, states, strict=True)
        ):
            return
        for (table, operation), state in zip(sent.operations, states, strict=True):
            if isinstance(operation, Check):
                continue
            try:
                new = after(operation, state).item
            except StoreError:
                return
            if new == state.item:
                continue
            reason = self._judge(sent.sender, table, operation.key, state.item, new, len(sent.operations) == 1)
            if reason:
                self._problem(
                    f"{table} {operation.key.pk} {operation.key.sk}: a write of {sent.sender} that came late "
                    f"would be taken: {reason}"
                )
