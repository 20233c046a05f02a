"""The store's witness: the memory adapters, telling the ledger of every change at the moment it is applied.

It sits below the faults, so it knows what truly happened however the caller was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from odradek.adapters.expressions import State, after, after_live
from odradek.adapters.memory import MemoryObjectStore, MemoryStore, MemoryTable, MemoryTableCatalog
from odradek.errors import StoreError
from odradek.model.log import Buffer
from odradek.ports.clock import Clock
from odradek.ports.table import Key, LiveUpdate, Operation
from odradek.ports.table_catalog import LoadedTable, TableChange
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
        self._contents: dict[Key, str] = {}

    def _write(self, name: str, operation: Operation) -> State:
        if isinstance(operation, LiveUpdate):
            old = self._find(operation.key)
            if _outcome(after_live, operation, old) != _outcome(after, operation, old):
                self._ledger.problem(f"an append to {operation.key.pk} decides otherwise than its expressions")
        return super()._write(name, operation)

    def _store(self, key: Key, state: Any) -> None:
        old = self._find(key).item
        if old is not None and self._contents.pop(key) != repr(old):
            self._ledger.problem(f"somebody has changed the item {key} that a read returned")
        if state.item is not None:
            self._contents[key] = repr(state.item)
        super()._store(key, state)
        self._visibility.changed(self._name, Key(*key), old)
        self._ledger.stored(self._name, Key(*key), old, state.item)


def _outcome(apply: Callable[[Any, State], State], update: LiveUpdate, old: State) -> State | str:
    try:
        return apply(update, old)
    except StoreError as error:
        return repr(error)


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
        self._lake: WitnessedLake | None = None
        ledger.has_object = lambda key: key in self._objects

    def watched_by(self, lake: WitnessedLake) -> None:
        """Let it see what is deleted."""
        self._lake = lake

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        await super().put(key, [content])
        self._ledger.object_put(key, content)

    async def delete(self, keys: Sequence[str]) -> None:
        existing = [key for key in keys if key in self._objects]
        if self._lake is not None:
            self._lake.deleted(existing)
        await super().delete(keys)
        self._ledger.objects_deleted(existing)

    def keys(self) -> list[str]:
        """Every object that is there."""
        return sorted(self._objects)


class WitnessedLake(MemoryTableCatalog):
    """The catalog of Iceberg tables: no snapshot ever has a file that no row named, or that is gone."""

    def __init__(self, clock: Clock, ledger: Ledger) -> None:
        super().__init__(clock)
        self._ledger = ledger

    async def commit(self, table: LoadedTable, change: TableChange) -> Sequence[str]:
        before = await self.load(table.name)
        left_out = await super().commit(table, change)
        for key in change.add:
            if key not in self._ledger.named_files:
                self._ledger.problem(f"the table {table.name} has {key}, which no row has named")
            if not self._ledger.has_object(key):
                self._ledger.problem(f"the table {table.name} has {key}, which is gone")
        if before is not None and (twice := before.files.intersection(change.add)):
            self._ledger.problem(f"the table {table.name} has {sorted(twice)} twice")
        return left_out

    def deleted(self, keys: Sequence[str]) -> None:
        """Objects are about to be deleted."""
        deleted_keys = set(keys)
        for name, table in self.tables.items():
            for snapshot in table.snapshots:
                for key in sorted(snapshot.files & deleted_keys):
                    self._ledger.problem(f"{key} is deleted, and a snapshot of the table {name} has it")
