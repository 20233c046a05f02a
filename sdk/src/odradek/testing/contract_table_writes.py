"""The contract of a table: what each write does, alone and against others. See contract_table.py."""

from __future__ import annotations

import asyncio
import threading

from odradek.errors import ConditionFailed, ItemTooLarge, StoreRejected
from odradek.limits import TABLE_ITEM_BYTES_MAX
from odradek.ports.table import (
    Absent,
    Action,
    Add,
    Append,
    Compare,
    Contains,
    Copy,
    Delete,
    Item,
    Key,
    Not,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Table,
    Update,
)
from odradek.testing.contract import failure

_WRITERS = 16


async def values_come_back_as_they_were(table: Table, pk: str) -> None:
    item: Item = {
        "text": "größer ☃ 😀",
        "empty text": "",
        "zero": 0,
        "negative": -1,
        "64 bits": 2**63 - 1,
        "beyond": 2**64 + 1,
        "38 digits": 10**38 - 1,
        "minus 38 digits": -(10**38) + 1,
        "bytes": bytes(range(256)),
        "empty bytes": b"",
        "yes": True,
        "no": False,
        "list": [b"a", "b", 3, True, [], {}],
        "empty list": [],
        "map": {"deep": {"deeper": [{"deepest": b"x"}]}},
        "empty map": {},
        "order": "a reserved word",
        "#odd:name": 1,
    }
    await table.put(Put(Key(pk, "item"), item))
    stored = await table.get(Key(pk, "item"))
    assert stored == item
    assert stored["yes"] is True
    assert stored["no"] is False
    assert type(stored["zero"]) is int
    await table.update(Update(Key(pk, "copy"), tuple(Set((name,), value) for name, value in item.items())))
    assert await table.get(Key(pk, "copy")) == item


async def put_replaces_the_whole_item(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"a": 1, "b": 2}))
    await table.put(Put(key, {"c": 3}, Compare(("a",), "=", 1)))
    assert await table.get(key) == {"c": 3}
    await failure(ConditionFailed, table.put(Put(key, {"d": 4}, Absent(("c",)))))
    assert await table.get(key) == {"c": 3}
    await table.put(Put(key, {}))
    assert await table.get(key) == {}


async def delete_removes_and_forgives_a_missing_item(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.delete(Delete(key))
    await table.put(Put(key, {"n": 1}))
    await failure(ConditionFailed, table.delete(Delete(key, Compare(("n",), "=", 2))))
    await table.delete(Delete(key, Compare(("n",), "=", 1)))
    assert await table.get(key) is None
    assert await table.query(pk) == []


async def update_creates_a_missing_item(table: Table, pk: str) -> None:
    new = await table.update(Update(Key(pk, "item"), (Set(("s",), "x"), Add(("n",), 2), Set(("m",), {}))))
    assert new == {"s": "x", "n": 2, "m": {}}
    assert await table.get(Key(pk, "item")) == new


async def update_answers_the_new_image(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"n": 40, "tail": [b"a", b"b", b"c"], "m": {"x": 1, "y": 2}, "old": "gone", "same": b"s"}))
    new = await table.update(
        Update(
            key,
            (
                Add(("n",), 2),
                Set(("other",), [b"d"]),
                RemoveFirst(("tail",), 2),
                Remove(("old",)),
                Set(("m", "x"), {"z": [1]}),
                Remove(("m", "y")),
                Add(("m", "count"), 7),
            ),
        )
    )
    expected: Item = {
        "n": 42,
        "tail": [b"c"],
        "m": {"x": {"z": [1]}, "count": 7},
        "same": b"s",
        "other": [b"d"],
    }
    assert new == expected
    assert await table.get(key) == expected


async def set_writes_nested_paths(table: Table, pk: str) -> None:
    key = Key(pk, "head")
    await table.put(Put(key, {"producers": {}}))
    await table.update(Update(key, (Set(("producers", "17"), {"e": 0, "s": 9}),)))
    await table.update(Update(key, (Set(("producers", "17", "s"), 10), Set(("producers", "18"), {"s": b"\xff"}))))
    await table.update(Update(key, (Set(("producers", "a.b c#:"), 1),), Compare(("producers", "17", "s"), "=", 10)))
    assert await table.get(key) == {"producers": {"17": {"e": 0, "s": 10}, "18": {"s": b"\xff"}, "a.b c#:": 1}}


async def copy_takes_the_value_of_before(table: Table, pk: str) -> None:
    key = Key(pk, "head")
    await table.put(Put(key, {"n": 5, "start": 0, "m": {"deep": [b"x"]}}))
    update = Update(key, (Copy(("start",), ("n",)), Add(("n",), 3), Copy(("twin",), ("m", "deep"))))
    assert await table.update(update) == {"n": 8, "start": 5, "m": {"deep": [b"x"]}, "twin": [b"x"]}
    new = await table.update(Update(key, (Copy(("m", "n"), ("n",)), Append(("twin",), (b"y",)))))
    assert new["m"] == {"deep": [b"x"], "n": 8}, "the copy is a value of its own"
    swapped = await table.update(Update(key, (Copy(("n",), ("start",)), Copy(("start",), ("n",)))))
    assert (swapped["n"], swapped["start"]) == (5, 8)


async def copy_of_what_is_not_there_is_rejected(table: Table, pk: str) -> None:
    key = Key(pk, "head")
    await table.put(Put(key, {"n": 5, "m": {}}))
    for bad in (Copy(("a",), ("nothing",)), Copy(("a",), ("m", "nothing")), Copy(("nothing", "a"), ("n",))):
        await failure(StoreRejected, table.update(Update(key, (bad,))))
    for nonsense in (Copy(("n",), ("n",)), Copy(("a",), ("pk",)), Copy(("a",), ())):
        await failure(ValueError, table.update(Update(key, (nonsense,))))
    await failure(StoreRejected, table.update(Update(Key(pk, "missing"), (Copy(("a",), ("n",)),))))
    assert await table.get(key) == {"n": 5, "m": {}}


async def add_counts_a_missing_number_as_zero(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"m": {}}))
    assert await table.update(Update(key, (Add(("n",), 5), Add(("m", "n"), -3)))) == {"n": 5, "m": {"n": -3}}
    big = 2**63 - 1
    assert (await table.update(Update(key, (Add(("n",), big),))))["n"] == big + 5


async def append_keeps_the_order(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"tail": [], "m": {"tail": ["x"]}}))
    await table.update(Update(key, (Append(("tail",), (b"1", b"2")), Append(("m", "tail"), (1, [], {"k": True})))))
    new = await table.update(Update(key, (Append(("tail",), (b"2",)), Append(("m", "tail"), ()))))
    assert new == {"tail": [b"1", b"2", b"2"], "m": {"tail": ["x", 1, [], {"k": True}]}}


async def remove_first_takes_what_is_there(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"tail": list(range(20)), "m": {"l": [1, 2]}}))
    assert (await table.update(Update(key, (RemoveFirst(("tail",), 12),))))["tail"] == list(range(12, 20))
    new = await table.update(Update(key, (RemoveFirst(("tail",), 0), RemoveFirst(("m", "l"), 1))))
    assert new == {"tail": list(range(12, 20)), "m": {"l": [2]}}
    assert (await table.update(Update(key, (RemoveFirst(("tail",), 50),))))["tail"] == []


async def remove_forgives_a_missing_attribute(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    await table.put(Put(key, {"a": 1, "m": {"x": 1}}))
    assert await table.update(Update(key, (Remove(("b",)), Remove(("m", "y"))))) == {"a": 1, "m": {"x": 1}}


async def a_path_without_its_parent_is_rejected(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    before: Item = {"n": 1, "s": "x", "list": [1], "m": {}}
    await table.put(Put(key, before))
    bugs: list[Action] = [
        Set(("nothing", "x"), 1),
        Set(("m", "nothing", "x"), 1),
        Add(("nothing", "x"), 1),
        Add(("s",), 1),
        Add(("list",), 1),
        Append(("nothing",), (1,)),
        Append(("n",), (1,)),
        Append(("m", "nothing"), (1,)),
        RemoveFirst(("nothing", "list"), 1),
        Remove(("nothing", "x")),
    ]
    for bug in bugs:
        await failure(StoreRejected, table.update(Update(key, (Set(("other",), 1), Set(("m", "other"), 1), bug))))
        assert await table.get(key) == before, f"{bug} left something behind"
        await failure(StoreRejected, table.transact([Put(Key(pk, "second"), {}), Update(key, (bug,))]))
        assert await table.get(key) == before, f"{bug} left something behind"
    assert await table.get(Key(pk, "second")) is None
    await failure(StoreRejected, table.update(Update(Key(pk, "missing"), (Append(("tail",), (b"x",)),))))
    assert await table.get(Key(pk, "missing")) is None


async def a_path_through_something_else_is_rejected(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    before: Item = {"n": 1, "list": [1]}
    await table.put(Put(key, before))
    for path in (("n", "x"), ("list", "x")):
        await failure(StoreRejected, table.update(Update(key, (Set(("other",), 1), Set(path, 1)))))
        await failure(StoreRejected, table.update(Update(key, (Set(("other",), 1), Add(path, 1)))))
        assert await table.get(key) == before


async def a_refusal_comes_before_a_bad_path(table: Table, pk: str) -> None:
    key = Key(pk, "missing")
    update = Update(key, (Append(("tail",), (b"x",)),), Compare(("n",), "=", 1))
    assert (await failure(ConditionFailed, table.update(update))).current is None


async def nonsense_writes_are_a_bug_of_the_caller(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    nonsense: list[tuple[Action, ...]] = [
        (),
        (RemoveFirst(("a",), 0),),
        (Set(("a",), 1), Set(("a",), 2)),
        (Set(("a",), {}), Set(("a", "b"), 2)),
        (Append(("a",), (1,)), RemoveFirst(("a",), 1)),
        (Add(("a", "b"), 1), Remove(("a",))),
        (Set(("pk",), "other"),),
        (Remove(("sk",)),),
        (Set((), 1),),
        (Set(("",), 1),),
        (Set(("a",), 1.5),),  # type: ignore[arg-type]
        (Set(("a",), None),),  # type: ignore[arg-type]
        (Set(("a",), {"b": [None]}),),  # type: ignore[list-item]
        (Set(("a",), (1, 2)),),  # type: ignore[arg-type]
        (Set(("a",), bytearray(b"x")),),  # type: ignore[arg-type]
        (Set(("a",), "\ud800"),),
        (Add(("a",), 1.0),),  # type: ignore[arg-type]
        (Append(("a",), (None,)),),  # type: ignore[arg-type]
        (RemoveFirst(("a",), -1),),
    ]
    for actions in nonsense:
        await failure(ValueError, table.update(Update(key, actions)))
    await failure(ValueError, table.put(Put(key, {"pk": "x"})))
    await failure(ValueError, table.put(Put(key, {"a": 0.5})))  # type: ignore[dict-item]
    assert await table.query(pk) == []


async def an_item_has_at_most_400_kb(table: Table, pk: str) -> None:
    key = Key(pk, "item")
    fits = b"x" * (TABLE_ITEM_BYTES_MAX - 10_000)
    grow = Update(key, (Set(("more",), b"x" * 10_000),))
    await table.put(Put(key, {"data": fits}))
    await failure(ItemTooLarge, table.put(Put(key, {"data": b"x" * TABLE_ITEM_BYTES_MAX})))
    await failure(ItemTooLarge, table.update(grow))
    await failure(ItemTooLarge, table.transact([Put(Key(pk, "second"), {}), grow]))
    assert await table.get(Key(pk, "second")) is None
    assert await table.get(key) == {"data": fits}


async def given_values_are_copied(table: Table, pk: str) -> None:
    key, put_item = Key(pk, "item"), {"tail": [b"a"], "m": {"x": [1]}}
    expected: Item = {"tail": [b"a"], "m": {"x": [1]}}
    await table.put(Put(key, put_item))  # type: ignore[arg-type]
    put_item["tail"].append(b"mine")  # type: ignore[attr-defined]
    put_item["m"]["x"] = 2  # type: ignore[index]
    assert await table.get(key) == expected
    value: list[bytes] = [b"v"]
    await table.update(Update(key, (Set(("set",), value),)))  # type: ignore[arg-type]
    value.append(b"mine")
    assert await table.get(key) == expected | {"set": [b"v"]}


async def returned_items_stay_as_they_were(table: Table, pk: str) -> None:
    """Whatever a store shares with its callers, a later write does not show in what they have got."""
    key = Key(pk, "item")
    await table.put(Put(key, {"n": 1, "tail": [b"a"], "m": {"x": {"y": 1}, "z": 1}}))
    first = await table.get(key)
    [row] = await table.query(pk)
    second = await table.update(
        Update(key, (Add(("n",), 1), Append(("tail",), (b"b",)), Set(("m", "x", "y"), 2), Remove(("m", "z"))))
    )
    [third] = await table.get_many([key])
    await table.update(Update(key, (RemoveFirst(("tail",), 1), Add(("m", "x", "y"), 1), Remove(("n",)))))
    assert first == row.item == {"n": 1, "tail": [b"a"], "m": {"x": {"y": 1}, "z": 1}}
    assert second == third == {"n": 2, "tail": [b"a", b"b"], "m": {"x": {"y": 2}}}
    assert await table.get(key) == {"tail": [b"b"], "m": {"x": {"y": 3}}}


async def racing_increments_lose_nothing(table: Table, pk: str) -> None:
    key, rounds = Key(pk, "counter"), 8

    async def writer() -> list[int]:
        return [(await table.update(Update(key, (Add(("n",), 1),))))["n"] for _ in range(rounds)]  # type: ignore[misc]

    numbers_seen = [
        number for numbers in await asyncio.gather(*(writer() for _ in range(_WRITERS))) for number in numbers
    ]
    assert sorted(numbers_seen) == list(range(1, _WRITERS * rounds + 1)), "every writer sees its own image"


async def racing_appends_are_applied_once_each(table: Table, pk: str) -> None:
    """The engine's append: count, entry and condition in one update; each is tried twice, as after a lost answer."""
    key, rounds = Key(pk, "head"), 4
    await table.put(Put(key, {"next_offset": 0, "tail": []}))

    async def append(entry: bytes) -> int | None:
        update = Update(key, (Add(("next_offset",), 1), Append(("tail",), (entry,))), Not(Contains(("tail",), entry)))
        try:
            new = await table.update(update)
        except ConditionFailed as refused:
            if refused.current is None or entry not in refused.current["tail"]:  # type: ignore[operator]
                raise AssertionError("refused, but the entry is not there") from refused
            return None
        assert new["tail"][-1] == entry  # type: ignore[index]
        return new["next_offset"]  # type: ignore[return-value]

    entries = [b"%d-%d" % (writer, number) for writer in range(_WRITERS) for number in range(rounds)]
    offsets = await asyncio.gather(*(append(entry) for entry in entries for _ in range(2)))
    applied = sorted(offset for offset in offsets if offset is not None)
    assert applied == list(range(1, len(entries) + 1))
    final = await table.get(key)
    assert final is not None
    assert final["next_offset"] == len(entries)
    assert sorted(final["tail"]) == sorted(entries)  # type: ignore[arg-type, type-var]


async def racing_creators_have_one_winner(table: Table, pk: str) -> None:
    async def create(name: str) -> bool:
        try:
            await table.put(Put(Key(pk, "lease"), {"owner": name}, Absent(("owner",))))
        except ConditionFailed:
            return False
        return True

    won = await asyncio.gather(*(create(f"w{number}") for number in range(_WRITERS)))
    assert won.count(True) == 1
    assert await table.get(Key(pk, "lease")) == {"owner": f"w{won.index(True)}"}


async def several_event_loops_share_a_table(table: Table, pk: str) -> None:
    """Functions run in one process each have a loop of their own."""
    key, errors = Key(pk, "counter"), list[BaseException]()

    async def work() -> None:
        await asyncio.gather(*(table.update(Update(key, (Add(("n",), 1),))) for _ in range(8)))
        assert await table.get(key) is not None

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
    assert not errors, errors
    assert await table.get(key) == {"n": 32}


CHECKS = (
    values_come_back_as_they_were,
    put_replaces_the_whole_item,
    delete_removes_and_forgives_a_missing_item,
    update_creates_a_missing_item,
    update_answers_the_new_image,
    set_writes_nested_paths,
    copy_takes_the_value_of_before,
    copy_of_what_is_not_there_is_rejected,
    add_counts_a_missing_number_as_zero,
    append_keeps_the_order,
    remove_first_takes_what_is_there,
    remove_forgives_a_missing_attribute,
    a_path_without_its_parent_is_rejected,
    a_path_through_something_else_is_rejected,
    a_refusal_comes_before_a_bad_path,
    nonsense_writes_are_a_bug_of_the_caller,
    an_item_has_at_most_400_kb,
    given_values_are_copied,
    returned_items_stay_as_they_were,
    racing_increments_lose_nothing,
    racing_appends_are_applied_once_each,
    racing_creators_have_one_winner,
    several_event_loops_share_a_table,
)
