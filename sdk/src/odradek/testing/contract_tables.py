"""The contract of transactions, within a table and across a store's tables. See contract_table.py."""

from __future__ import annotations

import asyncio

from odradek.errors import ConditionFailed, StoreUnavailable, TransactionCanceled
from odradek.ports.table import (
    Absent,
    Add,
    Append,
    Check,
    Compare,
    Delete,
    Exists,
    Item,
    Key,
    Operation,
    Put,
    Set,
    Table,
    Update,
)
from odradek.ports.tables import TableOperation, Tables
from odradek.testing.contract import failure


async def _transact_until_applied(table: Table, operations: list[Operation]) -> None:
    """Contention may make a backend refuse whole; that is promised to be without effect."""
    for attempt in range(200):
        try:
            return await table.transact(operations)
        except StoreUnavailable:
            await asyncio.sleep(0.002 * attempt)
    raise AssertionError("the transaction was refused 200 times")


async def a_transaction_applies_all(tables: Tables, pk: str) -> None:
    table = tables.log
    await table.put(Put(Key(pk, "update"), {"n": 1, "tail": [b"a"]}))
    await table.put(Put(Key(pk, "delete"), {}))
    await table.put(Put(Key(pk, "check"), {"epoch": 3}))
    await table.transact(
        [
            Update(Key(pk, "update"), (Add(("n",), 1), Append(("tail",), (b"b",))), Compare(("n",), "=", 1)),
            Update(Key(pk, "created"), (Set(("x",), {}),), Absent(("x",))),
            Put(Key(pk, "put"), {"p": 1}),
            Delete(Key(pk, "delete"), Exists(("pk",))),
            Check(Key(pk, "check"), Compare(("epoch",), "=", 3)),
            Check(Key(pk, "nothing"), Absent(("epoch",))),
        ]
    )
    assert {row.key.sk: row.item for row in await table.query(pk)} == {
        "update": {"n": 2, "tail": [b"a", b"b"]},
        "created": {"x": {}},
        "put": {"p": 1},
        "check": {"epoch": 3},
    }


async def a_transaction_is_refused_whole(tables: Tables, pk: str) -> None:
    table = tables.log
    before: Item = {"epoch": 3}
    await table.put(Put(Key(pk, "lease"), before))
    stale = Compare(("epoch",), "=", 2)
    for refused in (
        Check(Key(pk, "lease"), stale),
        Update(Key(pk, "lease"), (Set(("epoch",), 9),), stale),
        Put(Key(pk, "lease"), {"epoch": 9}, stale),
        Delete(Key(pk, "lease"), stale),
    ):
        operations = [Put(Key(pk, "first"), {}), refused, Check(Key(pk, "absent"), Exists(("x",)))]
        error = await failure(TransactionCanceled, table.transact(operations))
        first, second, third = error.failures
        assert first is None
        assert isinstance(second, ConditionFailed)
        assert second.current == before
        assert isinstance(third, ConditionFailed)
        assert third.current is None
        assert [row.item for row in await table.query(pk)] == [before]


async def a_transaction_has_one_to_100_operations_on_different_items(tables: Tables, pk: str) -> None:
    table = tables.log
    many: list[Operation] = [Put(Key(pk, f"{number:03d}"), {"n": number}) for number in range(101)]
    await failure(ValueError, table.transact(many))
    await failure(ValueError, table.transact([]))
    await failure(ValueError, table.transact([many[0], Delete(Key(pk, "000"))]))
    await failure(ValueError, table.transact([Put(Key(pk, "a"), {"x": 1.0})]))  # type: ignore[dict-item]
    assert await table.query(pk) == []
    await table.transact(many[:100])
    assert len(await table.query(pk)) == 100


async def a_transaction_spans_the_tables(tables: Tables, pk: str) -> None:
    key = Key(pk, "item")
    both = [
        TableOperation("log", Update(key, (Add(("next_offset",), 3),), Absent(("pk",)))),
        TableOperation("groups", Put(key, {"offset": 7})),
        TableOperation("catalog", Put(key, {"state": "done"})),
    ]
    await tables.transact(both)
    everything = await tables.log.get(key), await tables.groups.get(key), await tables.catalog.get(key)
    assert everything == ({"next_offset": 3}, {"offset": 7}, {"state": "done"})
    again = [both[1]._replace(operation=Put(key, {"offset": 8})), both[0]]
    error = await failure(TransactionCanceled, tables.transact(again))
    assert error.failures[0] is None
    assert error.failures[1] is not None
    assert error.failures[1].current == {"next_offset": 3}
    assert await tables.groups.get(key) == {"offset": 7}
    await failure(ValueError, tables.transact([both[1], both[1]]))
    await failure(ValueError, tables.transact([]))


async def the_tables_of_a_store_are_apart(tables: Tables, pk: str) -> None:
    key = Key(pk, "item")
    await tables.log.put(Put(key, {"n": 1}))
    assert await tables.groups.get(key) is None
    assert await tables.catalog.query(pk) == []
    await tables.groups.delete(Delete(key))
    assert await tables.log.get(key) == {"n": 1}


async def racing_transfers_keep_the_sum(tables: Tables, pk: str) -> None:
    """Money moves between accounts in transactions; a half-applied or lost one changes the sum."""
    table, accounts = tables.log, [Key(pk, f"account-{number}") for number in range(4)]
    for account in accounts:
        await table.put(Put(account, {"balance": 100, "moves": 0}))

    async def move(number: int) -> int:
        source, target = accounts[number % 4], accounts[(number * 7 + 1) % 4]
        if source == target:
            return 0
        amount = number % 9 + 1
        debit = (Add(("balance",), -amount), Add(("moves",), 1))
        credit = (Add(("balance",), amount), Add(("moves",), 1))
        enough = Compare(("balance",), ">=", amount)
        try:
            await _transact_until_applied(table, [Update(source, debit, enough), Update(target, credit)])
        except TransactionCanceled:
            return 0
        return 2

    moves = await asyncio.gather(*(move(number) for number in range(32)))
    items = await table.get_many(accounts)
    assert sum(item["balance"] for item in items if item) == 400  # type: ignore[misc]
    assert sum(item["moves"] for item in items if item) == sum(moves)  # type: ignore[misc]


async def racing_transactions_and_updates_lose_nothing(tables: Tables, pk: str) -> None:
    table, left, right = tables.log, Key(pk, "left"), Key(pk, "right")

    async def together() -> None:
        await _transact_until_applied(table, [Update(left, (Add(("n",), 1),)), Update(right, (Add(("n",), 1),))])

    async def alone(key: Key) -> None:
        for attempt in range(200):
            try:
                await table.update(Update(key, (Add(("n",), 1),)))
                return
            except StoreUnavailable:
                await asyncio.sleep(0.002 * attempt)
        raise AssertionError("the update was refused 200 times")

    await asyncio.gather(*(together() if number % 2 else alone(left) for number in range(64)))
    assert await table.get_many([left, right]) == [{"n": 64}, {"n": 32}]


async def transact_get_sees_transactions_whole(tables: Tables, pk: str) -> None:
    """Two items that only change together are never seen apart, whoever writes meanwhile."""
    table, keys = tables.log, [Key(pk, "left"), Key(pk, "right")]
    await table.transact([Put(key, {"n": 0}) for key in keys])
    numbers: list[int] = []

    async def write() -> None:
        for _ in range(24):
            await _transact_until_applied(table, [Update(key, (Add(("n",), 1),)) for key in keys])

    async def read() -> None:
        while not numbers or numbers[-1] < 24:
            try:
                left, right = await table.transact_get(keys)
            except StoreUnavailable:
                await asyncio.sleep(0.002)
                continue
            assert left == right
            assert left is not None
            numbers.append(int(left["n"]))  # type: ignore[arg-type]
            await asyncio.sleep(0)

    await asyncio.gather(write(), read(), read())
    assert numbers[-1] == 24


async def racing_transactions_on_one_lease_have_one_winner(tables: Tables, pk: str) -> None:
    async def commit(number: int) -> bool:
        lease = Update(Key(pk, "lease"), (Set(("owner",), number),), Absent(("owner",)))
        try:
            await _transact_until_applied(tables.log, [Put(Key(pk, f"by-{number}"), {}), lease])
        except TransactionCanceled:
            return False
        return True

    won = await asyncio.gather(*(commit(number) for number in range(16)))
    assert won.count(True) == 1
    assert [row.key.sk for row in await tables.log.query(pk)] == [f"by-{won.index(True)}", "lease"]


CHECKS = (
    a_transaction_applies_all,
    a_transaction_is_refused_whole,
    a_transaction_has_one_to_100_operations_on_different_items,
    a_transaction_spans_the_tables,
    the_tables_of_a_store_are_apart,
    racing_transfers_keep_the_sum,
    racing_transactions_and_updates_lose_nothing,
    transact_get_sees_transactions_whole,
    racing_transactions_on_one_lease_have_one_winner,
)
