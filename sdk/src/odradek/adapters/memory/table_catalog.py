"""A catalog of tables in memory, for tests and the simulation: snapshots, and commits on condition of the newest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.errors import ConditionFailed, ErrorCode, KafkaError
from odradek.model.kinds import Kind, joined
from odradek.ports.clock import Clock
from odradek.ports.table_catalog import LoadedTable, TableChange, TableName


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """A snapshot; `columns` are those of the table when it was made."""

    number: int
    made_ms: int
    files: frozenset[str]
    summary: Mapping[str, str]


@dataclass
class MemoryTableOf:
    """A table: its topic, columns and snapshots, oldest first."""

    topic_id: UUID | None
    columns: dict[str, Kind]
    snapshots: list[MemorySnapshot] = field(default_factory=list)
    incarnation: int = 0


class MemoryTableCatalog:
    """ports.table_catalog.TableCatalog over a dict.

    Args:
        committed: called with each table after its commit.
    """

    def __init__(self, clock: Clock, committed: Callable[[MemoryTableOf], None] | None = None) -> None:
        self._clock = clock
        self._committed = committed
        self._number = 0
        self.tables: dict[TableName, MemoryTableOf] = {}

    async def load(self, name: TableName) -> LoadedTable | None:
        table = self.tables.get(name)
        if table is None:
            return None
        newest = table.snapshots[-1] if table.snapshots else None
        handle = (table.incarnation, 0 if newest is None else newest.number)
        if newest is None:
            return LoadedTable(name, table.topic_id, frozenset(), {}, handle)
        return LoadedTable(name, table.topic_id, newest.files, newest.summary, handle)

    async def create(self, name: TableName, topic_id: UUID, columns: Sequence[tuple[str, Kind]]) -> None:
        if name not in self.tables:
            self._number += 1
            self.tables[name] = MemoryTableOf(topic_id, dict(columns), incarnation=self._number)

    async def commit(self, table: LoadedTable, change: TableChange) -> Sequence[str]:
        stored = self.tables.get(table.name)
        newest = 0 if stored is None or not stored.snapshots else stored.snapshots[-1].number
        if stored is None or (stored.incarnation, newest) != table.handle:
            raise ConditionFailed(None)
        for name, column_kind in change.columns or ():
            both = joined(stored.columns.get(name, column_kind), column_kind)
            if both is None:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"the column {name} is {stored.columns[name]} and cannot become {column_kind}",
                )
            stored.columns[name] = both
        self._number += 1
        files = table.files.union(change.add).difference(change.remove)
        stored.snapshots.append(MemorySnapshot(self._number, self._clock.now_ms(), files, dict(change.summary)))
        if self._committed is not None:
            self._committed(stored)
        return ()

    async def expire(self, name: TableName, *, before_ms: int | None) -> int:
        table = self.tables.get(name)
        if table is None:
            return 0
        kept = [
            snapshot
            for snapshot in table.snapshots
            if snapshot is table.snapshots[-1] or (before_ms is not None and snapshot.made_ms >= before_ms)
        ]
        expired = len(table.snapshots) - len(kept)
        table.snapshots = kept
        return expired

    async def drop(self, name: TableName) -> None:
        self.tables.pop(name, None)
