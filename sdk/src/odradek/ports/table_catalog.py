"""A catalog of tables whose data files are objects of the log: Apache Iceberg's, or a twin in memory.

A table is a chain of snapshots. A commit names the snapshot that it was decided on, and is refused if there is a newer
one; so two maintainers never repeat or undo each other's work (engine/iceberg/follower.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from odradek.model.kinds import Kind


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The name of a table in a catalog."""

    namespace: str
    table: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as it was at one of its snapshots.

    Attributes:
        topic_id: of the topic whose table it is; None: it was not made by Odradek.
        files: object keys of its data files; a file elsewhere by its whole path.
        summary: what the last commit said.
        handle: the adapter's own.
    """

    name: TableName
    topic_id: UUID | None
    files: frozenset[str]
    summary: Mapping[str, str]
    handle: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TableChange:
    """One commit: files are added and removed, columns added or widened, in one snapshot.

    Attributes:
        columns: names and types (model/kinds.py) of the typed columns that the table must have; it
            may have others. None: as they are.
        add, remove: object keys of data files.
        summary: of the new snapshot.
    """

    columns: Sequence[tuple[str, Kind]] | None
    add: Sequence[str]
    remove: Sequence[str]
    summary: Mapping[str, str]


class TableCatalog(Protocol):
    """The tables of a store."""

    async def load(self, name: TableName) -> LoadedTable | None:
        """Return the table as it is now, or None. Raises StoreUnavailable."""
        ...

    async def create(self, name: TableName, topic_id: UUID, columns: Sequence[tuple[str, Kind]]) -> None:
        """Create the table of a topic, and its namespace; one that exists stays as it is.

        Raises StoreUnavailable; OutcomeUnknown: load it; KafkaError(INVALID_CONFIG): the catalog refuses the name.
        """
        ...

    async def commit(self, table: LoadedTable, change: TableChange) -> Sequence[str]:
        """Commit a snapshot on top of the loaded one, also without any change of files.

        Returns: why files were left out, one text for each: they do not fit the table's columns.

        Raises:
            ConditionFailed: there is a newer snapshot: certainly not applied.
            KafkaError: INVALID_CONFIG: the table cannot have these columns. Nothing was changed.
            StoreUnavailable: certainly not applied.
            OutcomeUnknown: it may have been applied: load again.
        """
        ...

    async def expire(self, name: TableName, *, before_ms: int | None) -> int:
        """Expire snapshots other than the current one, with tags and branches on them; return how many.

        Args:
            before_ms: those of before this time alone; None: all.

        Raises StoreUnavailable, ConditionFailed, OutcomeUnknown: do it again.
        """
        ...

    async def drop(self, name: TableName) -> None:
        """Remove the table from the catalog and its metadata; data files stay. One that is missing is no error.

        Raises StoreUnavailable, OutcomeUnknown.
        """
        ...
