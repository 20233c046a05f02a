"""The contract of a table: what each condition means. See contract_table.py."""

from __future__ import annotations

from odradek.errors import ConditionFailed
from odradek.ports.table import (
    Absent,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Contains,
    Delete,
    Exists,
    Item,
    Key,
    Not,
    Put,
    Set,
    Table,
    Update,
    Value,
)
from odradek.testing.contract import failure

_ITEM: Item = {
    "n": 5,
    "s": "m",
    "b": b"\x00m",
    "yes": True,
    "list": [b"one", 2, "three", True, [1]],
    "map": {"17": {"s": 3}, "with.dot": 1, "with space": 2},
    "status": "reserved word",
}


async def _verdict(table: Table, key: Key, condition: Condition) -> bool:
    """Ask the store itself: an update of an attribute that no check looks at, under the condition."""
    try:
        await table.update(Update(key, (Set(("touched",), 1),), condition))
    except ConditionFailed:
        return False
    return True


async def _expect(table: Table, pk: str, verdicts: dict[Condition, bool]) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, _ITEM))
    for condition, expected in verdicts.items():
        verdict = await _verdict(table, key, condition)
        assert verdict is expected, f"{condition} is {verdict}, not {expected}"
        negated = await _verdict(table, key, Not(condition))
        assert negated is not expected, f"the negation of {condition} is {negated}"


async def exists_and_absent(table: Table, pk: str) -> None:
    await _expect(
        table,
        pk,
        {
            Exists(("n",)): True,
            Exists(("nothing",)): False,
            Exists(("map", "17")): True,
            Exists(("map", "17", "s")): True,
            Exists(("map", "18", "s")): False,
            Exists(("map", "with.dot")): True,
            Exists(("n", "s")): False,
            Absent(("n",)): False,
            Absent(("nothing",)): True,
            Absent(("map", "18")): True,
            Absent(("nothing", "at", "all")): True,
            Absent(("status",)): False,
            Exists(("pk",)): True,
            Absent(("sk",)): False,
        },
    )


async def comparisons_of_numbers(table: Table, pk: str) -> None:
    path = ("n",)
    await _expect(
        table,
        pk,
        {
            Compare(path, "=", 5): True,
            Compare(path, "=", 6): False,
            Compare(path, "<>", 6): True,
            Compare(path, "<>", 5): False,
            Compare(path, "<", 6): True,
            Compare(path, "<", 5): False,
            Compare(path, "<=", 5): True,
            Compare(path, "<=", 4): False,
            Compare(path, ">", 4): True,
            Compare(path, ">", 5): False,
            Compare(path, ">=", 5): True,
            Compare(path, ">=", 10): False,  # as numbers, not as text
            Compare(("map", "17", "s"), "=", 3): True,
            Compare(("map", "17", "s"), ">=", -1): True,
        },
    )


async def comparisons_of_maps(table: Table, pk: str) -> None:
    key, path = Key(pk, "maps"), ("p", "a")
    same: dict[str, Value] = {"1": 2**40, "0": 1}
    await table.put(Put(key, {"p": {"a": {"0": 1, "1": 2**40}, "b": {}}}))
    others: list[dict[str, Value]] = [{}, {"0": 1}, {**same, "1": 2**40 + 1}, {**same, "2": 0}, {**same, "0": "1"}]
    assert await _verdict(table, key, Compare(path, "=", same))
    assert not await _verdict(table, key, Compare(path, "<>", same))
    assert await _verdict(table, key, Compare(("p", "b"), "=", {}))
    assert not await _verdict(table, key, Compare(("p", "c"), "=", {}))
    for other in others:
        assert not await _verdict(table, key, Compare(path, "=", other)), other
        assert await _verdict(table, key, Compare(path, "<>", other)), other


async def comparisons_of_text_and_bytes(table: Table, pk: str) -> None:
    await _expect(
        table,
        pk,
        {
            Compare(("s",), "=", "m"): True,
            Compare(("s",), "<", "ma"): True,
            Compare(("s",), ">", "M"): True,
            Compare(("s",), "<", "é"): True,  # by the bytes of UTF-8
            Compare(("b",), "=", b"\x00m"): True,
            Compare(("b",), "<", b"\x01"): True,
            Compare(("b",), "<", b"\xff"): True,  # bytes are unsigned
            Compare(("b",), ">=", b"\x00"): True,
            Compare(("b",), "<>", b""): True,
            Compare(("yes",), "=", True): True,
            Compare(("yes",), "=", False): False,
            Compare(("yes",), "<>", False): True,
            Compare(("status",), "=", "reserved word"): True,
        },
    )


async def a_comparison_with_nothing_or_another_type_is_false(table: Table, pk: str) -> None:
    await _expect(
        table,
        pk,
        {
            Compare(("nothing",), "=", 1): False,
            Compare(("nothing",), "<>", 1): False,
            Compare(("nothing",), "<", 1): False,
            Compare(("map", "18", "s"), "<=", 1): False,
            Compare(("n",), "=", "5"): False,
            Compare(("n",), "<>", "5"): False,
            Compare(("s",), ">", 0): False,
            Compare(("s",), "=", b"m"): False,
            Compare(("n",), "<>", True): False,
            Compare(("list",), "=", "one"): False,
        },
    )


async def contains_looks_for_an_element_of_a_list(table: Table, pk: str) -> None:
    await _expect(
        table,
        pk,
        {
            Contains(("list",), b"one"): True,
            Contains(("list",), b"on"): False,
            Contains(("list",), "one"): False,
            Contains(("list",), 2): True,
            Contains(("list",), "three"): True,
            Contains(("nothing",), b"one"): False,
            Contains(("s",), "m"): False,  # text has no elements
            Contains(("b",), b"m"): False,
            Contains(("map",), "17"): False,
        },
    )


async def true_is_not_one(table: Table, pk: str) -> None:
    await _expect(
        table,
        pk,
        {
            Compare(("yes",), "=", 1): False,
            Compare(("yes",), "<>", 1): False,
            Compare(("n",), "=", True): False,
            Contains(("list",), 1): False,
        },
    )


async def conditions_combine(table: Table, pk: str) -> None:
    yes, no = Compare(("n",), "=", 5), Compare(("n",), "=", 6)
    await _expect(
        table,
        pk,
        {
            AllOf((yes, yes)): True,
            AllOf((yes, no)): False,
            AllOf((yes,)): True,
            AnyOf((no, yes)): True,
            AnyOf((no, no)): False,
            AnyOf((no,)): False,
            AllOf((AnyOf((no, yes)), Not(AllOf((yes, no))))): True,
            AnyOf((AllOf((no, yes)), Not(yes))): False,
            Not(Not(yes)): True,
        },
    )


async def a_missing_item_has_no_attributes(table: Table, pk: str) -> None:
    key = Key(pk, "missing")
    verdicts: dict[Condition, bool] = {
        Exists(("anything",)): False,
        Compare(("n",), "<>", 1): False,
        Contains(("list",), b"one"): False,
        Exists(("pk",)): False,
        Not(Absent(("anything",))): False,
    }
    for condition, expected in verdicts.items():
        assert await _verdict(table, key, condition) is expected, condition
        assert await table.get(key) is None, "a refused update created the item"
    true_of_nothing: list[Condition] = [Absent(("anything",)), Absent(("pk",)), Not(Exists(("a", "b")))]
    for number, condition in enumerate(true_of_nothing):
        assert await _verdict(table, Key(pk, f"new-{number}"), condition), condition


async def a_refusal_shows_the_item_as_it_stands(table: Table, pk: str) -> None:
    key, condition = Key(pk, "item"), Compare(("n",), "=", 0)
    for write in (
        table.update(Update(key, (Set(("n",), 1),), condition)),
        table.put(Put(key, {"n": 1}, condition)),
        table.delete(Delete(key, condition)),
    ):
        assert (await failure(ConditionFailed, write)).current is None
    await table.put(Put(key, _ITEM))
    for write in (
        table.update(Update(key, (Set(("n",), 1),), condition)),
        table.put(Put(key, {"n": 1}, condition)),
        table.delete(Delete(key, condition)),
    ):
        assert (await failure(ConditionFailed, write)).current == _ITEM
    assert await table.get(key) == _ITEM


async def nonsense_conditions_are_a_bug_of_the_caller(table: Table, pk: str) -> None:
    nonsense: list[Condition] = [
        Exists(()),
        Exists(("",)),
        Compare(("n",), "<", True),
        Compare(("n",), "==", 5),  # type: ignore[arg-type]
        Compare(("n",), "=", 1.5),  # type: ignore[arg-type]
        Compare(("n",), "=", None),  # type: ignore[arg-type]
        Contains(("list",), [1]),  # type: ignore[arg-type]
        AllOf(()),
        AnyOf(()),
    ]
    for condition in nonsense:
        await failure(ValueError, table.update(Update(Key(pk, "item"), (Set(("n",), 1),), condition)))
    assert await table.get(Key(pk, "item")) is None


CHECKS = (
    exists_and_absent,
    comparisons_of_numbers,
    comparisons_of_maps,
    comparisons_of_text_and_bytes,
    a_comparison_with_nothing_or_another_type_is_false,
    contains_looks_for_an_element_of_a_list,
    true_is_not_one,
    conditions_combine,
    a_missing_item_has_no_attributes,
    a_refusal_shows_the_item_as_it_stands,
    nonsense_conditions_are_a_bug_of_the_caller,
)
