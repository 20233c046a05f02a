"""Tables in dicts. Every call runs to its end without yielding, under one lock, so it is atomic for tasks and threads.

The items in the dicts are never changed in place: an update stores a new one, and callers get them as they are.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Sequence

from odradek.adapters import capacity
from odradek.adapters.expressions import NOTHING, State, after, after_all
from odradek.adapters.rejections import RejectionsTold
from odradek.adapters.validation import (
    check_key,
    check_operation,
    check_query,
    check_transact_get,
    check_transaction,
)
from odradek.errors import ConditionFailed, TransactionCanceled
from odradek.ports.meter import Meter, NullMeter
from odradek.ports.table import Delete, Item, Key, Operation, Put, Row, Update
from odradek.ports.tables import TableOperation


class MemoryTable:
    """ports.table.Table in this process's memory."""

    def __init__(self, meter: Meter | None = None, *, lock: threading.Lock | None = None) -> None:
        self._meter = meter or NullMeter()
        self._lock = lock or threading.Lock()
        self._partitions: dict[str, dict[str, State]] = {}
        self._order: dict[str, list[str]] = {}  # the sort keys of each partition in order

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        with RejectionsTold(self._meter, "GetItem", key):
            check_key(key)
        with self._lock:
            state = self._find(key)
        self._meter.add("GetItem", capacity.get_usage(state.size_bytes, consistent=consistent))
        return state.item

    async def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> list[Item | None]:
        with RejectionsTold(self._meter, "BatchGetItem", keys):
            for key in keys:
                check_key(key)
        if not keys:
            return []
        with self._lock:
            states = {key: self._find(key) for key in keys}
        usage = capacity.get_many_usage([state.size_bytes for state in states.values()], consistent=consistent)
        self._meter.add("BatchGetItem", usage)
        return [states[key].item for key in keys]

    async def transact_get(self, keys: Sequence[Key]) -> list[Item | None]:
        with RejectionsTold(self._meter, "TransactGetItems", keys):
            check_transact_get(keys)
        with self._lock:
            states = [self._find(key) for key in keys]
        self._meter.add("TransactGetItems", capacity.transact_get_usage(state.size_bytes for state in states))
        return [state.item for state in states]

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
        with RejectionsTold(self._meter, "Query", pk):
            check_query(pk, sk_from, sk_to, limit)
        with self._lock:
            order = self._order.get(pk, [])
            sort_keys = order[bisect_left(order, sk_from) : None if sk_to is None else bisect_left(order, sk_to)]
            if descending:
                sort_keys.reverse()
            states = [(Key(pk, sk), self._partitions[pk][sk]) for sk in sort_keys[:limit]]
        usage = capacity.query_usage((state.size_bytes for _, state in states), consistent=consistent)
        self._meter.add("Query", usage)
        return [Row(key, state.item) for key, state in states if state.item is not None]

    async def update(self, update: Update) -> Item:
        new = self._write("UpdateItem", update).item
        assert new is not None
        return new

    async def put(self, put: Put) -> None:
        self._write("PutItem", put)

    async def delete(self, delete: Delete) -> None:
        self._write("DeleteItem", delete)

    async def transact(self, operations: Sequence[Operation]) -> None:
        _transact([(self, operation) for operation in operations], self._lock, self._meter)

    def _write(self, name: str, operation: Operation) -> State:
        with RejectionsTold(self._meter, name, operation.key):
            check_operation(operation)
            with self._lock:
                old = self._find(operation.key)
                try:
                    new = after(operation, old)
                except ConditionFailed:
                    self._meter.add(name, capacity.write_usage(old.size_bytes))
                    raise
                self._store(operation.key, new)
        self._meter.add(name, capacity.write_usage(old.size_bytes, new.size_bytes))
        return new

    def _find(self, key: Key) -> State:
        partition = self._partitions.get(key[0])
        return NOTHING if partition is None else partition.get(key[1], NOTHING)

    def _store(self, key: Key, state: State) -> None:
        pk, sk = key
        if state.item is not None:
            partition = self._partitions.setdefault(pk, {})
            if sk not in partition:
                insort(self._order.setdefault(pk, []), sk)
            partition[sk] = state
        elif self._find(key) is not NOTHING:
            del self._partitions[pk][sk]
            order = self._order[pk]
            del order[bisect_left(order, sk)]
            if not order:
                del self._partitions[pk], self._order[pk]


class MemoryStore:
    """ports.tables.Tables in this process's memory: the tables and transactions across them."""

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter = meter or NullMeter()
        self._lock = threading.Lock()
        self.log = MemoryTable(meter, lock=self._lock)
        self.groups = MemoryTable(meter, lock=self._lock)
        self.catalog = MemoryTable(meter, lock=self._lock)
        self.rows = MemoryTable(meter, lock=self._lock)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        tables = {"log": self.log, "groups": self.groups, "catalog": self.catalog, "rows": self.rows}
        _transact([(tables[operation.table], operation.operation) for operation in operations], self._lock, self._meter)


def _transact(addressed: Sequence[tuple[MemoryTable, Operation]], lock: threading.Lock, meter: Meter) -> None:
    """Apply all operations to their tables, or none; the tables share the lock."""
    operations = [operation for _, operation in addressed]
    with RejectionsTold(meter, "TransactWriteItems", [operation.key for operation in operations]):
        check_transaction([(id(table), operation) for table, operation in addressed])
        with lock:
            news = olds = [table._find(operation.key) for table, operation in addressed]
            try:
                news = after_all(operations, olds)
            except TransactionCanceled:
                meter.add("TransactWriteItems", capacity.transact_usage(olds, news))
                raise
            for (table, operation), new in zip(addressed, news, strict=True):
                table._store(operation.key, new)
    meter.add("TransactWriteItems", capacity.transact_usage(olds, news))
