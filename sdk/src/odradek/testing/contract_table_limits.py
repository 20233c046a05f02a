"""The contract of ports.table.Table: DynamoDB's limits. The largest value is accepted, a larger one StoreRejected.

The rejections are made before the call (adapters/validation.py), so they cannot show that a limit is DynamoDB's. An
emulator or DynamoDB itself shows that values up to the limit are accepted.
"""

from __future__ import annotations

from odradek.errors import ConditionFailed, ItemTooLarge, StoreRejected
from odradek.limits import (
    TABLE_ATTRIBUTE_NAME_BYTES_MAX,
    TABLE_EXPRESSION_OPERATORS_MAX,
    TABLE_NESTING_MAX,
    TABLE_PARTITION_KEY_BYTES_MAX,
    TABLE_SORT_KEY_BYTES_MAX,
    TABLE_TRANSACTION_BYTES_MAX,
)
from odradek.ports.table import (
    Absent,
    Add,
    AllOf,
    AnyOf,
    Append,
    Compare,
    Condition,
    Key,
    Not,
    Operation,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Table,
    Update,
    Value,
)
from odradek.testing.contract import failure

BIGGEST = 10**38 - 1


async def keys_of_the_largest_size(table: Table, pk: str) -> None:
    key = Key(pk + "x" * (TABLE_PARTITION_KEY_BYTES_MAX - len(pk)), "é" * (TABLE_SORT_KEY_BYTES_MAX // 2))
    await table.put(Put(key, {"n": 1}))
    assert await table.get(key) == {"n": 1}
    assert [row.key for row in await table.query(key.pk)] == [key]
    await table.transact([Update(key, (Add(("n",), 1),))])
    assert await table.get_many([key]) == [{"n": 2}]
    for bad in (Key("", "a"), Key(pk, ""), Key(key.pk + "x", "a"), Key(pk, key.sk + "x")):
        await failure(StoreRejected, table.put(Put(bad, {})))
        await failure(StoreRejected, table.update(Update(bad, (Set(("a",), 1),))))
        await failure(StoreRejected, table.transact([Put(bad, {})]))
        await failure(StoreRejected, table.get(bad))
        await failure(StoreRejected, table.get_many([bad]))
    await failure(StoreRejected, table.query(key.pk + "x"))


async def numbers_of_38_digits(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"a": BIGGEST, "b": -BIGGEST, "m": {"l": [BIGGEST]}}))
    assert await table.update(Update(key, (Add(("b",), BIGGEST),), Compare(("a",), "=", BIGGEST))) == {
        "a": BIGGEST,
        "b": 0,
        "m": {"l": [BIGGEST]},
    }
    await failure(StoreRejected, table.put(Put(key, {"a": BIGGEST + 1})))
    await failure(StoreRejected, table.update(Update(key, (Set(("m", "x"), [BIGGEST + 1]),))))
    await failure(StoreRejected, table.update(Update(key, (Add(("a",), -BIGGEST - 1),))))
    await failure(StoreRejected, table.update(Update(key, (Set(("c",), 1),), Compare(("a",), "<", BIGGEST + 1))))
    assert (await table.get(key) or {})["a"] == BIGGEST


async def values_nested_to_the_limit(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    deepest = _nested(TABLE_NESTING_MAX - 1)
    await table.put(Put(key, {"a": deepest}))
    assert await table.get(key) == {"a": deepest}
    await table.update(Update(key, (Set(("b",), deepest),)))
    await failure(StoreRejected, table.put(Put(key, {"a": [deepest]})))
    await failure(StoreRejected, table.update(Update(key, (Set(("b",), {"x": deepest}),))))
    path = tuple("x" for _ in range(TABLE_NESTING_MAX + 1))
    await failure(StoreRejected, table.update(Update(key, (Remove(path),), Absent(("c",)))))


async def a_name_of_the_largest_size(table: Table, pk: str) -> None:
    key, name = Key(pk, "item"), "n" * TABLE_ATTRIBUTE_NAME_BYTES_MAX
    await table.put(Put(key, {name: 1}))
    assert await table.update(Update(key, (Add((name,), 1),), Compare((name,), "=", 1))) == {name: 2}
    await failure(StoreRejected, table.put(Put(key, {name + "n": 1})))
    await failure(StoreRejected, table.update(Update(key, (Remove((name + "n",)),), Compare((name,), "=", 2))))


async def a_condition_of_300_operators(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"n": 1}))
    pairs = TABLE_EXPRESSION_OPERATORS_MAX // 2
    clauses: list[Condition] = [Compare(("n",), "=", 1) for _ in range(pairs - 1)]
    fits = (*clauses, Not(Absent(("n",))))  # a comparison and AND each, then NOT and a function
    await table.update(Update(key, (Add(("n",), 1),), AllOf(fits)))
    await failure(ConditionFailed, table.put(Put(key, {}, AnyOf(fits[:-1]))))
    for condition in (AllOf((*fits, clauses[0])), AnyOf((*fits, *clauses)), Not(AllOf(fits))):
        await failure(StoreRejected, table.update(Update(key, (Add(("n",), 1),), condition)))
        await failure(StoreRejected, table.put(Put(key, {}, condition)))
        await failure(StoreRejected, table.transact([Put(key, {}, condition)]))
    assert await table.get(key) == {"n": 2}


async def expressions_of_4096_bytes(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"t": [0] * 900, "m": {"x": 1}}))
    assert len((await table.update(Update(key, (RemoveFirst(("t",), 440),))))["t"]) == 460  # type: ignore[arg-type]
    await failure(StoreRejected, table.update(Update(key, (RemoveFirst(("t",), 500),))))
    fits = tuple(Set(("m", f"n{number}"), number) for number in range(200))
    await table.update(Update(key, fits))
    far_too_long = tuple(Set(("m", f"n{number}"), number) for number in range(300))
    await failure(StoreRejected, table.update(Update(key, far_too_long)))
    deep: Condition = Compare(tuple("x" for _ in range(TABLE_NESTING_MAX)), "=", 1)
    await failure(ConditionFailed, table.put(Put(key, {}, AllOf((deep,) * 20))))
    await failure(StoreRejected, table.put(Put(key, {}, AllOf((deep,) * 60))))
    item = await table.get(key)
    assert item is not None
    assert len(item["t"]) == 460  # type: ignore[arg-type]
    assert len(item["m"]) == 201  # type: ignore[arg-type]


async def parentheses_are_never_redundant(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"n": 1}))
    ordered: Condition = Compare(("n",), "<", 2)
    nested: Condition = ordered
    for _ in range(3):
        nested = AllOf((AnyOf((nested,)),))
    for condition in (ordered, nested, Not(Not(nested)), AnyOf((nested, AllOf((nested, ordered))))):
        await table.update(Update(key, (Set(("seen",), True),), condition))
        await failure(ConditionFailed, table.update(Update(key, (Set(("seen",), True),), Not(condition))))


async def what_placeholders_stand_for_has_2_mb(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"n": 1}))
    clauses = tuple(Compare(("n",), "<>", bytes(100_000)) for _ in range(22))
    await failure(ConditionFailed, table.update(Update(key, (Set(("n",), 2),), AllOf(clauses[:20]))))
    await failure(StoreRejected, table.update(Update(key, (Set(("n",), 2),), AllOf(clauses))))


async def a_transaction_has_4_mb(table: Table, pk: str) -> None:
    data = bytes(390_000)
    count = TABLE_TRANSACTION_BYTES_MAX // len(data)
    operations: list[Operation] = [Put(Key(pk, f"{number:02d}"), {"d": data}) for number in range(count + 1)]
    await failure(ItemTooLarge, table.transact(operations))
    assert await table.query(pk) == []
    await table.transact(operations[:count])
    assert len(await table.query(pk)) == count


async def a_large_append(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    values: tuple[Value, ...] = tuple(bytes([n % 256]) * 60 for n in range(5_000))
    await table.put(Put(key, {"t": []}))
    assert len((await table.update(Update(key, (Append(("t",), values),))))["t"]) == 5_000  # type: ignore[arg-type]
    await failure(ItemTooLarge, table.update(Update(key, (Append(("t",), values),))))


def _nested(levels: int) -> Value:
    value: Value = 1
    for level in range(levels):
        value = [value] if level % 2 else {"x": value}
    return value


CHECKS = (
    keys_of_the_largest_size,
    numbers_of_38_digits,
    values_nested_to_the_limit,
    a_name_of_the_largest_size,
    a_condition_of_300_operators,
    expressions_of_4096_bytes,
    parentheses_are_never_redundant,
    what_placeholders_stand_for_has_2_mb,
    a_transaction_has_4_mb,
    a_large_append,
)
