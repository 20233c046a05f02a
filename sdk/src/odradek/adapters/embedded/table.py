"""Tables in one SQLite file: database.py writes, reads run directly in the caller's thread.

A read of an item takes microseconds from the page cache, less than a switch to another thread, and in WAL mode it never
waits for the writer. It sees every write that was answered before it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, cast

from odradek.adapters import capacity
from odradek.adapters.embedded.database import Database
from odradek.adapters.embedded.item_codec import decode_item
from odradek.adapters.embedded.kept_states import Place
from odradek.adapters.expressions import State, after, after_all, after_live
from odradek.adapters.rejections import RejectionsTold
from odradek.adapters.validation import (
    check_key,
    check_operation,
    check_query,
    check_transact_get,
    check_transaction,
)
from odradek.errors import ConditionFailed, TransactionCanceled
from odradek.format.item_size import item_size
from odradek.ports.meter import Meter
from odradek.ports.table import Delete, Item, Key, LiveUpdate, Operation, Put, Row, Update
from odradek.ports.tables import TableName, TableOperation

TABLE_NUMBERS: Final[dict[TableName, int]] = {"log": 0, "groups": 1, "catalog": 2, "rows": 3}
_SELECT: Final = "SELECT data FROM item WHERE tbl = ? AND pk = ? AND sk = ?"


class SqliteTable:
    """ports.table.Table over a database file."""

    def __init__(self, database: Database, name: TableName, meter: Meter) -> None:
        self._database = database
        self._name: TableName = name
        self._number = TABLE_NUMBERS[name]
        self._meter = meter

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        place = Place(self._number, key)
        state = self._database.kept(place)
        if state is None:
            with RejectionsTold(self._meter, "GetItem", key):
                check_key(key)
            state = self._database.find(place)
        self._meter.add("GetItem", capacity.get_usage(state.size_bytes, consistent=consistent))
        return state.item

    async def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> list[Item | None]:
        with RejectionsTold(self._meter, "BatchGetItem", keys):
            for key in keys:
                check_key(key)
        if not keys:
            return []
        found = {key: self._database.find(Place(self._number, key)) for key in keys}
        usage = capacity.get_many_usage([state.size_bytes for state in found.values()], consistent=consistent)
        self._meter.add("BatchGetItem", usage)
        return [found[key].item for key in keys]

    async def transact_get(self, keys: Sequence[Key]) -> list[Item | None]:
        with RejectionsTold(self._meter, "TransactGetItems", keys):
            check_transact_get(keys)
        with self._database.reading() as connection:
            # One read transaction: a concurrent commit is seen completely or not at all.
            connection.execute("BEGIN")
            try:
                found = [self._find(connection, key) for key in keys]
            finally:
                connection.execute("ROLLBACK")
        sizes = [_size(key, item) for key, item in zip(keys, found, strict=True)]
        self._meter.add("TransactGetItems", capacity.transact_get_usage(sizes))
        return found

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
        below, bounds = ("", ()) if sk_to is None else (" AND sk < ?", (sk_to,))
        statement = (
            f"SELECT sk, data FROM item WHERE tbl = ? AND pk = ? AND sk >= ?{below}"
            f" ORDER BY sk {'DESC' if descending else 'ASC'} LIMIT ?"
        )
        with self._database.reading() as connection:
            found = connection.execute(
                statement, (self._number, pk, sk_from, *bounds, -1 if limit is None else limit)
            ).fetchall()
        rows = [Row(Key(pk, sk), decode_item(data)) for sk, data in found]
        usage = capacity.query_usage((_size(row.key, row.item) for row in rows), consistent=consistent)
        self._meter.add("Query", usage)
        return rows

    async def update(self, update: Update) -> Item:
        item = await self._write("UpdateItem", update)
        assert item is not None
        return item

    async def put(self, put: Put) -> None:
        await self._write("PutItem", put)

    async def delete(self, delete: Delete) -> None:
        await self._write("DeleteItem", delete)

    async def transact(self, operations: Sequence[Operation]) -> None:
        await transact(self._database, [TableOperation(self._name, each) for each in operations], self._meter)

    async def _write(self, name: str, operation: Operation) -> Item | None:
        def evaluate(olds: list[State]) -> tuple[Item | None, Sequence[State]]:
            (old,) = olds
            try:
                new = after_live(operation, old) if isinstance(operation, LiveUpdate) else after(operation, old)
            except ConditionFailed:
                self._meter.add(name, capacity.write_usage(old.size_bytes))
                raise
            self._meter.add(name, capacity.write_usage(old.size_bytes, new.size_bytes))
            return new.item, (new,)

        with RejectionsTold(self._meter, name, operation.key):
            if not isinstance(operation, LiveUpdate):  # which nobody sends as text
                check_operation(operation)
            place = Place(self._number, operation.key)
            return cast("Item | None", await self._database.write((place,), evaluate))

    def _find(self, connection: sqlite3.Connection, key: Key) -> Item | None:
        row = connection.execute(_SELECT, (self._number, *key)).fetchone()
        return None if row is None else decode_item(row[0])


async def transact(database: Database, addressed: Sequence[TableOperation], meter: Meter) -> None:
    """Apply all operations to their tables, or none: one request to the writer."""
    places = [Place(TABLE_NUMBERS[each.table], each.operation.key) for each in addressed]
    operations = [each.operation for each in addressed]

    def evaluate(olds: list[State]) -> tuple[None, Sequence[State]]:
        try:
            news = after_all(operations, olds)
        except TransactionCanceled:
            meter.add("TransactWriteItems", capacity.transact_usage(olds, olds))
            raise
        meter.add("TransactWriteItems", capacity.transact_usage(olds, news))
        return None, news

    with RejectionsTold(meter, "TransactWriteItems", [operation.key for operation in operations]):
        check_transaction(addressed)
        await database.write(places, evaluate)


def _size(key: Key, item: Item | None) -> int:
    return 0 if item is None else item_size(key[0], key[1], item)
