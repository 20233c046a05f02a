"""The tables of one store and the transaction that spans three of them.

Heads (log), leases with committed offsets (groups) and transactional ids (catalog) commit together, so a transaction
names the table of each of its operations. Everything else uses the single tables. The fourth, `rows`, has what can be
computed again: the rows of served tables (served/), which no transaction writes together with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from odradek.ports.table import Operation, Table

TableName = Literal["log", "groups", "catalog", "rows"]


class TableOperation(NamedTuple):
    """An operation and its table."""

    table: TableName
    operation: Operation


class Tables(Protocol):
    """The tables of one store."""

    @property
    def log(self) -> Table: ...

    @property
    def groups(self) -> Table: ...

    @property
    def catalog(self) -> Table: ...

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        """Apply all operations or none, across the tables; otherwise as `Table.transact`, with the same errors."""
        ...
