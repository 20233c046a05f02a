"""The store's witness: the memory adapters, telling the ledger of every change at the moment it is applied.

It sits below the faults, so it knows what truly happened however the caller was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore, MemoryTable
from odradek.model.log import Buffer
from odradek.ports.clock import Clock
from odradek.ports.table import Key
from odradek.ports.tables import TableName

from tests.simulation.books.ledger import Ledger
from tests.simulation.store.visibility import Visibility


class WitnessedStore(MemoryStore):
    """The three tables."""

    def __init__(self, ledger: Ledger, visibility: Visibility) -> None:
        super().__init__()
        self.log = _WitnessedTable("log", ledger, visibility, self._lock)
        self.groups = _WitnessedTable("groups", ledger, visibility, self._lock)
        self.catalog = _WitnessedTable("catalog", ledger, visibility, self._lock)
        ledger.state_of = lambda table, key: getattr(self, table)._find(key)
        ledger.seen_rows = lambda pk: _seen(self.log, visibility, pk)
        ledger.log_rows = lambda pk: {sk: state.item for sk, state in self.log._partitions.get(pk, {}).items()}


class _WitnessedTable(MemoryTable):
    def __init__(self, name: TableName, ledger: Ledger, visibility: Visibility, lock: Any) -> None:
        super().__init__(lock=lock)
        self._name: TableName = name
        self._ledger = ledger
        self._visibility = visibility

    def _store(self, key: Key, state: Any) -> None:
        old = self._find(key).item
        super()._store(key, state)
        self._visibility.changed(self._name, Key(*key), old)
        self._ledger.stored(self._name, Key(*key), old, state.item)


def _seen(table: MemoryTable, visibility: Visibility, pk: str) -> tuple[dict[str, Any], bool]:
    """The items of a `pk` as a consistent read sees them now, and whether that is as they are."""
    images = visibility.seen("log", pk, consistent=True)
    items = {sk: state.item for sk, state in table._partitions.get(pk, {}).items()} | images
    return {sk: item for sk, item in items.items() if item is not None}, not images


class WitnessedObjects(MemoryObjectStore):
    """The objects."""

    def __init__(self, clock: Clock, ledger: Ledger) -> None:
        super().__init__(clock)
        self._ledger = ledger
        ledger.has_object = lambda key: key in self._objects

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        await super().put(key, [content])
        self._ledger.object_put(key, content)

    async def delete(self, keys: Sequence[str]) -> None:
        there = [key for key in keys if key in self._objects]
        await super().delete(keys)
        self._ledger.objects_deleted(there)

    def keys(self) -> list[str]:
        """Every object that is there."""
        return sorted(self._objects)
