"""Tables in dicts. Every call runs to its end without yielding and under one lock, so it is atomic for
tasks and threads alike.

The items in the dicts are never changed in place: an update stores a new one. Callers get copies.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Sequence

from odradek.adapters import capacity
from odradek.adapters.expressions import (
    check_item_size,
    check_key,
    check_operation,
    check_query,
    check_transaction,
    copied,
    holds,
    updated,
)
from odradek.errors import ConditionFailed, TransactionCanceled
from odradek.format.item_size import item_size
from odradek.ports.meter import Meter, NullMeter
from odradek.ports.table import Check, Delete, Item, Key, Operation, Put, Row, Update
from odradek.ports.tables import TableOperation


class MemoryTable:
    """ports.table.Table in this process's memory."""

    def __init__(self, meter: Meter | None = None, *, lock: threading.Lock | None = None) -> None:
        self._meter = meter or NullMeter()
        self._lock = lock or threading.Lock()
        self._partitions: dict[str, dict[str, Item]] = {}
        self._order: dict[str, list[str]] = {}  # the sort keys of each partition in order

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        check_key(key)
        with self._lock:
            item = self._find(key)
        self._meter.add("GetItem", capacity.get_usage(_size(key, item), consistent=consistent))
        return copied(item)

    async def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> list[Item | None]:
        for key in keys:
            check_key(key)
        if not keys:
            return []
        with self._lock:
            items = [self._find(key) for key in keys]
        sizes = [_size(key, item) for key, item in dict(zip(keys, items, strict=True)).items()]
        self._meter.add("BatchGetItem", capacity.get_many_usage(sizes, consistent=consistent))
        return [copied(item) for item in items]

    async def query(
        self,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str | None = None,
        descending: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> list[Row]:
        check_query(pk, sk_from, sk_to, limit)
        with self._lock:
            order = self._order.get(pk, [])
            found = order[bisect_left(order, sk_from) : None if sk_to is None else bisect_left(order, sk_to)]
            if descending:
                found.reverse()
            rows = [Row(Key(pk, sk), self._partitions[pk][sk]) for sk in found[:limit]]
        usage = capacity.query_usage((_size(row.key, row.item) for row in rows), consistent=consistent)
        self._meter.add("Query", usage)
        return [Row(row.key, copied(row.item)) for row in rows]

    async def update(self, update: Update) -> Item:
        new = self._write("UpdateItem", update)
        assert new is not None
        return new

    async def put(self, put: Put) -> None:
        self._write("PutItem", put)

    async def delete(self, delete: Delete) -> None:
        self._write("DeleteItem", delete)

    async def transact(self, operations: Sequence[Operation]) -> None:
        transact([(self, operation) for operation in operations], self._lock, self._meter)

    def _write(self, name: str, operation: Operation) -> Item | None:
        check_operation(operation)
        key = operation.key
        with self._lock:
            old = self._find(key)
            if not holds(operation.condition, key, old):
                self._meter.add(name, capacity.write_usage(_size(key, old)))
                raise ConditionFailed(copied(old))
            new = after(operation, old)
            self._store(key, new)
        self._meter.add(name, capacity.write_usage(_size(key, old), _size(key, new)))
        return copied(new)

    def _find(self, key: Key) -> Item | None:
        partition = self._partitions.get(key[0])
        return None if partition is None else partition.get(key[1])

    def _store(self, key: Key, item: Item | None) -> None:
        pk, sk = key
        partition, order = self._partitions.setdefault(pk, {}), self._order.setdefault(pk, [])
        if item is None:
            if partition.pop(sk, None) is not None:
                del order[bisect_left(order, sk)]
        else:
            if sk not in partition:
                insort(order, sk)
            partition[sk] = item


class MemoryStore:
    """ports.tables.Tables in this process's memory: the three tables and transactions across them."""

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter = meter or NullMeter()
        self._lock = threading.Lock()
        self.log = MemoryTable(meter, lock=self._lock)
        self.groups = MemoryTable(meter, lock=self._lock)
        self.catalog = MemoryTable(meter, lock=self._lock)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        tables = {"log": self.log, "groups": self.groups, "catalog": self.catalog}
        transact([(tables[each.table], each.operation) for each in operations], self._lock, self._meter)


def after(operation: Operation, old: Item | None) -> Item | None:
    """The item as the operation leaves it, its condition being true; None where there is none afterwards.

    Raises ValueError, ItemTooLarge.
    """
    match operation:
        case Update():
            return updated(operation, old)
        case Put(key, item):
            new: Item = copied(item)
            check_item_size(key, new)
            return new
        case Delete():
            return None
        case Check():
            return old


def transact(operations: Sequence[tuple[MemoryTable, Operation]], lock: threading.Lock, meter: Meter) -> None:
    """Apply all operations to their tables, or none; the tables share the lock."""
    check_transaction([(id(table), operation.key) for table, operation in operations])
    for _, operation in operations:
        check_operation(operation)
    with lock:
        olds = [table._find(operation.key) for table, operation in operations]
        failures = [
            None if holds(operation.condition, operation.key, old) else ConditionFailed(copied(old))
            for (_, operation), old in zip(operations, olds, strict=True)
        ]
        news = olds
        if not any(failures):
            news = [after(operation, old) for (_, operation), old in zip(operations, olds, strict=True)]
            for (table, operation), new in zip(operations, news, strict=True):
                table._store(operation.key, new)
    keys = [operation.key for _, operation in operations]
    sizes = ((_size(key, old), _size(key, new)) for key, old, new in zip(keys, olds, news, strict=True))
    meter.add("TransactWriteItems", capacity.transact_usage(sizes))
    if any(failures):
        raise TransactionCanceled(failures)


def _size(key: Key, item: Item | None) -> int:
    return 0 if item is None else item_size(key[0], key[1], item)
