"""The contract of a table: reading by keys and by ranges. See contract_table.py."""

from __future__ import annotations

import asyncio

from odradek.errors import StoreRejected
from odradek.ports.table import Delete, Item, Key, Put, Row, Set, Table, Update
from odradek.testing.contract import failure


async def _fill(table: Table, pk: str, sort_keys: list[str]) -> None:
    await asyncio.gather(*(table.put(Put(Key(pk, sk), {"v": sk})) for sk in sort_keys))


async def get_answers_none_for_a_missing_item(table: Table, pk: str) -> None:
    assert await table.get(Key(pk, "missing")) is None
    assert await table.get(Key(pk, "missing"), consistent=False) is None


async def a_read_sees_the_write_before_it(table: Table, pk: str) -> None:
    for number in range(20):
        await table.put(Put(Key(pk, "item"), {"n": number}))
        assert await table.get(Key(pk, "item")) == {"n": number}
        assert await table.get_many([Key(pk, "item")]) == [{"n": number}]
        assert [row.item for row in await table.query(pk)] == [{"n": number}]


async def an_eventual_read_answers_some_committed_state(table: Table, pk: str) -> None:
    await table.put(Put(Key(pk, "item"), {"n": 1}))
    assert await table.get(Key(pk, "item"), consistent=False) in (None, {"n": 1})
    assert await table.get_many([Key(pk, "item")], consistent=False) in ([None], [{"n": 1}])
    assert len(await table.query(pk, consistent=False)) <= 1


async def get_many_keeps_the_order_of_the_keys(table: Table, pk: str) -> None:
    assert await table.get_many([]) == []
    await _fill(table, pk, [f"{number:03d}" for number in range(0, 250, 2)])
    keys = [Key(pk, f"{number:03d}") for number in reversed(range(250))]
    items = await table.get_many(keys)
    assert items == [{"v": key.sk} if int(key.sk) % 2 == 0 else None for key in keys]


async def get_many_takes_a_key_twice(table: Table, pk: str) -> None:
    await _fill(table, pk, ["a", "b"])
    keys = [Key(pk, sk) for sk in ("b", "a", "b", "c", "c")]
    items = await table.get_many(keys)
    assert items == [{"v": "b"}, {"v": "a"}, {"v": "b"}, None, None]


async def get_many_joins_large_items(table: Table, pk: str) -> None:
    """More than one answer's 16 MB would hold at once is not needed: a few items of 300 KB already split a page."""
    items: list[Item] = [{"data": bytes([number]) * 300_000} for number in range(8)]
    keys = [Key(pk, str(number)) for number in range(8)]
    for key, item in zip(keys, items, strict=True):
        await table.put(Put(key, item))
    assert await table.get_many(keys) == items


async def transact_get_answers_in_the_order_of_the_keys(table: Table, pk: str) -> None:
    await _fill(table, pk, [f"{number:03d}" for number in range(0, 25, 2)])
    keys = [Key(pk, f"{number:03d}") for number in reversed(range(25))]
    assert await table.transact_get(keys) == [{"v": key.sk} if int(key.sk) % 2 == 0 else None for key in keys]
    assert await table.transact_get([Key(pk, "000")]) == [{"v": "000"}]
    await table.put(Put(Key(pk, "empty"), {}))
    assert await table.transact_get([Key(pk, "empty"), Key(pk, "missing")]) == [{}, None]


async def transact_get_takes_one_to_25_different_keys(table: Table, pk: str) -> None:
    keys = [Key(pk, f"{number:03d}") for number in range(26)]
    await failure(ValueError, table.transact_get(keys))
    await failure(ValueError, table.transact_get([]))
    await failure(ValueError, table.transact_get([keys[0], keys[1], keys[0]]))
    await failure(StoreRejected, table.transact_get([Key(pk, "")]))


async def query_orders_by_sort_key(table: Table, pk: str) -> None:
    sort_keys = ["i#00000000000000000010", "head", "i#00000000000000000002", "é", "z", "Z", "p#17", "p#2"]
    await _fill(table, pk, sort_keys)
    await _fill(table, pk + "-other", ["head"])
    rows = await table.query(pk)
    assert rows == [Row(Key(pk, sk), {"v": sk}) for sk in sorted(sort_keys, key=str.encode)]
    assert all(isinstance(row, Row) and isinstance(row.key, Key) for row in rows)
    assert await table.query(pk + "-nothing") == []


async def query_ranges_are_half_open(table: Table, pk: str) -> None:
    await _fill(table, pk, list("abcdef"))

    async def found(**bounds: object) -> str:
        return "".join(row.key.sk for row in await table.query(pk, **bounds))  # type: ignore[arg-type]

    assert await found(sk_from="b") == "bcdef"
    assert await found(sk_to="c") == "ab"
    assert await found(sk_from="b", sk_to="e") == "bcd"
    assert await found(sk_from="bb", sk_to="dd") == "cd"
    assert await found(sk_from="c", sk_to="c") == ""
    assert await found(sk_from="d", sk_to="b") == ""
    assert await found(sk_from="g") == ""
    assert await found(sk_to="a") == ""
    assert await found(sk_to="") == ""


async def query_descends_over_the_same_range(table: Table, pk: str) -> None:
    await _fill(table, pk, list("abcdef"))
    rows = await table.query(pk, sk_from="b", sk_to="e", descending=True)
    assert [row.key.sk for row in rows] == ["d", "c", "b"]
    rows = await table.query(pk, sk_to="e", descending=True, limit=1)
    assert [row.key.sk for row in rows] == ["d"]


async def query_limits(table: Table, pk: str) -> None:
    await _fill(table, pk, list("abcdef"))
    assert [row.key.sk for row in await table.query(pk, sk_from="c", sk_to="f", limit=2)] == ["c", "d"]
    assert len(await table.query(pk, sk_from="c", sk_to="f", limit=3)) == 3
    assert len(await table.query(pk, sk_from="c", sk_to="f", limit=100)) == 3
    assert await table.query(pk, limit=0) == []
    await failure(ValueError, table.query(pk, limit=-1))
    await failure(StoreRejected, table.query(""))


async def query_joins_pages(table: Table, pk: str) -> None:
    """DynamoDB answers at most 1 MB at once."""
    data = b"x" * 300_000
    for number in range(9):
        await table.put(Put(Key(pk, f"{number}"), {"n": number, "data": data}))
    rows = await table.query(pk)
    assert [row.item["n"] for row in rows] == list(range(9))
    assert all(row.item["data"] == data for row in rows)
    assert [row.item["n"] for row in await table.query(pk, limit=7, descending=True)] == [8, 7, 6, 5, 4, 3, 2]
    assert [row.key.sk for row in await table.query(pk, sk_from="1", sk_to="6")] == list("12345")


async def query_sees_changes(table: Table, pk: str) -> None:
    await _fill(table, pk, list("abc"))
    await table.update(Update(Key(pk, "b"), (Set(("v",), "new"),)))
    await table.delete(Delete(Key(pk, "a")))
    await table.put(Put(Key(pk, "aa"), {}))
    assert await table.query(pk) == [
        Row(Key(pk, "aa"), {}),
        Row(Key(pk, "b"), {"v": "new"}),
        Row(Key(pk, "c"), {"v": "c"}),
    ]


CHECKS = (
    get_answers_none_for_a_missing_item,
    a_read_sees_the_write_before_it,
    an_eventual_read_answers_some_committed_state,
    get_many_keeps_the_order_of_the_keys,
    get_many_takes_a_key_twice,
    get_many_joins_large_items,
    transact_get_answers_in_the_order_of_the_keys,
    transact_get_takes_one_to_25_different_keys,
    query_orders_by_sort_key,
    query_ranges_are_half_open,
    query_descends_over_the_same_range,
    query_limits,
    query_joins_pages,
    query_sees_changes,
)
