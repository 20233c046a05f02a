"""Items in memory of the one process that writes the database: what it read or wrote last, within a number of bytes.

    a read      of a kept item asks no database; another one asks, and keeps what it got
    a commit    takes the items that it changes out before it begins, and puts them in again when it has ended

While a commit is under way its items are in nobody's hands: a reader asks the database, which shows them as before or
as after. So no reader sees an older state than a reader before it, be it by a query of the database. What a reader got
is kept only if no commit began or ended meanwhile.

Memory: an item takes a small multiple of its size by DynamoDB's rules.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.adapters.expressions import State
from odradek.ports.table import Key

KEPT_BYTES_MAX = 32 * 1024 * 1024


class Place(NamedTuple):
    """The location of an item in the file."""

    table: int
    key: Key


class KeptStates:
    """The states of items by their places, those used last.

    Args:
        bytes_max: of all items; 0 keeps none.
    """

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._states: OrderedDict[Place, State] = OrderedDict()
        self._bytes = 0
        self._commits = 0  # begun and ended ones: odd while one is under way
        self._lock = threading.Lock()

    @property
    def moment(self) -> int:
        """A number that changes with every beginning and end of a commit: see `read`."""
        return self._commits

    def find(self, place: Place) -> State | None:
        """Return the state of an item, or None: it is not kept, and may or may not exist."""
        with self._lock:
            state = self._states.get(place)
            if state is not None:
                self._states.move_to_end(place)
            return state

    def read(self, place: Place, state: State, moment: int) -> None:
        """Keep what was read from the database, if it was read after this moment, and nothing began or ended since."""
        with self._lock:
            if moment == self._commits and not moment % 2:
                self._keep(place, state)

    def begin(self, places: Iterable[Place]) -> None:
        """A commit begins that writes these items."""
        with self._lock:
            self._commits += 1
            for place in places:
                state = self._states.pop(place, None)
                if state is not None:
                    self._bytes -= state.size_bytes

    def end(self, states: Mapping[Place, State]) -> None:
        """The commit has ended; these states are now in the database, and worth to be kept."""
        with self._lock:
            self._commits += 1
            for place, state in states.items():
                self._keep(place, state)

    def _keep(self, place: Place, state: State) -> None:
        if state.item is None or state.size_bytes > self._bytes_max:
            return
        before = self._states.pop(place, None)
        self._bytes += state.size_bytes - (0 if before is None else before.size_bytes)
        self._states[place] = state
        while self._bytes > self._bytes_max:
            _, oldest = self._states.popitem(last=False)
            self._bytes -= oldest.size_bytes
