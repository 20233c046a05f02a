"""Tables that throttle like DynamoDB: 1,000 write units per second for each partition key.

    budget of a partition key    fills by `units_per_s`, up to one second's worth
    a write                      refused with StoreUnavailable if nothing is left; otherwise its units are taken, into
                                 debt if it costs more than is left

Units are those of the item after the write, or of the item that a false condition showed; a transaction pays double
for each. Reads pass. Source: DynamoDB developer guide, "Designing partition keys to distribute your workload".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.errors import ConditionFailed, StoreUnavailable, TransactionCanceled
from odradek.format.item_size import item_size
from odradek.limits import TABLE_PARTITION_KEY_WRITE_UNITS_MAX, TABLE_WRITE_UNIT_BYTES
from odradek.ports.clock import Clock
from odradek.ports.table import Delete, Item, Key, Operation, Put, Table, Update
from odradek.ports.tables import TableName, TableOperation, Tables


class Throttle:
    """The budgets of all partition keys.

    Attributes:
        units_per_s: the rate at which each budget fills; may be changed.
        refused: the number of refused writes.
        taken: the number of units taken.
    """

    def __init__(self, clock: Clock, units_per_s: int = TABLE_PARTITION_KEY_WRITE_UNITS_MAX) -> None:
        self._clock = clock
        self.units_per_s = units_per_s
        self._left: dict[tuple[TableName, str], tuple[float, float]] = {}  # units, and when
        self.refused = 0
        self.taken = 0

    def admit(self, table: TableName, pk: str) -> None:
        """Raise StoreUnavailable if the budget of the partition key is empty."""
        left, now = self._now(table, pk)
        if left <= 0:
            self.refused += 1
            raise StoreUnavailable(f"{table}: partition key {pk!r:.60} is throttled")
        self._left[table, pk] = (left, now)

    def take(self, table: TableName, pk: str, units: int) -> None:
        """Charge the cost of a write."""
        left, now = self._now(table, pk)
        self._left[table, pk] = (left - units, now)
        self.taken += units

    def _now(self, table: TableName, pk: str) -> tuple[float, float]:
        now = self._clock.monotonic()
        left, then = self._left.get((table, pk), (float(self.units_per_s), now))
        return min(self.units_per_s, left + (now - then) * self.units_per_s), now


class ThrottledTable:
    """ports.table.Table that throttles another; only writes are throttled."""

    def __init__(self, table: Table, name: TableName, throttle: Throttle) -> None:
        self._table = table
        self._name: TableName = name
        self._throttle = throttle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def update(self, update: Update) -> Item:
        item: Item = await self._write(update, self._table.update(update))
        return item

    async def put(self, put: Put) -> None:
        await self._write(put, self._table.put(put))

    async def delete(self, delete: Delete) -> None:
        await self._write(delete, self._table.delete(delete))

    async def transact(self, operations: Sequence[Operation]) -> None:
        named = [TableOperation(self._name, operation) for operation in operations]
        await _transact(named, self._table.transact(operations), self._throttle)

    async def _write(self, operation: Update | Put | Delete, call: Any) -> Any:
        try:
            self._throttle.admit(self._name, operation.key.pk)
        except StoreUnavailable:
            call.close()
            raise
        try:
            image = await call
        except ConditionFailed as refused:
            self._throttle.take(self._name, operation.key.pk, write_units(operation.key, refused.current))
            raise
        item = operation.item if isinstance(operation, Put) else image
        self._throttle.take(self._name, operation.key.pk, write_units(operation.key, item))
        return image


class ThrottledTables:
    """ports.tables.Tables whose partition keys are throttled."""

    def __init__(self, tables: Tables, throttle: Throttle) -> None:
        self._tables = tables
        self.throttle = throttle
        self.log: Any = ThrottledTable(tables.log, "log", throttle)
        self.groups: Any = ThrottledTable(tables.groups, "groups", throttle)
        self.catalog: Any = ThrottledTable(tables.catalog, "catalog", throttle)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        await _transact(operations, self._tables.transact(operations), self.throttle)


async def _transact(operations: Sequence[TableOperation], call: Any, throttle: Throttle) -> None:
    try:
        for operation in operations:
            throttle.admit(operation.table, operation.operation.key.pk)
    except StoreUnavailable:
        call.close()
        raise
    shown: Sequence[ConditionFailed | None] = [None] * len(operations)
    try:
        await call
    except TransactionCanceled as canceled:
        shown = canceled.failures
        raise
    finally:
        for operation, failure in zip(operations, shown, strict=False):
            item = operation.operation.item if isinstance(operation.operation, Put) else failure and failure.current
            throttle.take(
                operation.table, operation.operation.key.pk, 2 * write_units(operation.operation.key, item or None)
            )


def write_units(key: Key, item: Item | None) -> int:
    """Return the units of a write of the item, one for no item."""
    return 1 if item is None else max(1, -(-item_size(key.pk, key.sk, item) // TABLE_WRITE_UNIT_BYTES))
