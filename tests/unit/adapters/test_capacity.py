"""Memory and SQLite count what DynamoDB and S3 would bill, call for call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from odradek.adapters.embedded import open_embedded
from odradek.adapters.memory import MemoryObjectStore, MemoryTable
from odradek.cost.metering import UsageMeter
from odradek.errors import ConditionFailed, ObjectExists, ObjectMissing, TransactionCanceled
from odradek.ports.meter import Usage
from odradek.ports.object_store import ObjectStore
from odradek.ports.table import Absent, Add, Check, Delete, Exists, Key, Put, Remove, Set, Table, Update
from odradek.testing import ManualClock

KEY = Key("t", "item")
KB = b"x" * 1024


@pytest.fixture(params=["memory", "embedded"])
async def metered(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Table, ObjectStore, UsageMeter]]:
    meter = UsageMeter()
    if request.param == "memory":
        yield MemoryTable(meter), MemoryObjectStore(ManualClock(), meter), meter
    else:
        async with open_embedded(tmp_path, meter=meter, synchronous="NORMAL") as store:
            yield store.log, store.objects, meter


Metered = tuple[Table, ObjectStore, UsageMeter]


async def test_a_write_is_billed_by_the_larger_image(metered: Metered) -> None:
    table, _, meter = metered
    await table.put(Put(KEY, {"n": 1}))
    assert meter.total() == Usage(table_write_units=1, table_requests=1)
    before = meter.snapshot()
    await table.update(Update(KEY, (Set(("data",), KB * 2),)))
    assert meter.since(before) == {"UpdateItem": Usage(table_write_units=3, table_requests=1)}
    before = meter.snapshot()
    await table.update(Update(KEY, (Remove(("data",)),)))
    assert meter.since(before) == {"UpdateItem": Usage(table_write_units=3, table_requests=1)}
    before = meter.snapshot()
    await table.delete(Delete(KEY))
    await table.delete(Delete(KEY))
    assert meter.since(before) == {"DeleteItem": Usage(table_write_units=2, table_requests=2)}


async def test_a_refused_write_is_billed_too(metered: Metered) -> None:
    table, _, meter = metered
    with pytest.raises(ConditionFailed):
        await table.update(Update(KEY, (Add(("n",), 1),), Exists(("n",))))
    assert meter.total().table_write_units == 1
    await table.put(Put(KEY, {"data": KB * 4}))
    before = meter.snapshot()
    with pytest.raises(ConditionFailed):
        await table.put(Put(KEY, {}, Absent(("data",))))
    assert meter.since(before) == {"PutItem": Usage(table_write_units=5, table_requests=1)}


async def test_a_transaction_costs_twice(metered: Metered) -> None:
    table, _, meter = metered
    await table.put(Put(KEY, {"data": KB}))
    before = meter.snapshot()
    await table.transact([Put(Key("t", "new"), {"data": KB}), Check(KEY, Exists(("data",)))])
    assert meter.since(before) == {"TransactWriteItems": Usage(table_write_units=8, table_requests=1)}
    before = meter.snapshot()
    with pytest.raises(TransactionCanceled):
        await table.transact([Put(Key("t", "newer"), {}), Check(KEY, Absent(("data",)))])
    assert meter.since(before) == {"TransactWriteItems": Usage(table_write_units=6, table_requests=1)}


async def test_reads_are_billed_by_4_kb(metered: Metered) -> None:
    table, _, meter = metered
    await table.put(Put(KEY, {"data": KB * 4}))
    for consistent, units in ((True, 2.0), (False, 1.0)):
        before = meter.snapshot()
        await table.get(KEY, consistent=consistent)
        assert meter.since(before) == {"GetItem": Usage(table_read_units=units, table_requests=1)}
    before = meter.snapshot()
    await table.get(Key("t", "missing"))
    await table.get(Key("t", "missing"), consistent=False)
    assert meter.since(before) == {"GetItem": Usage(table_read_units=1.5, table_requests=2)}


async def test_a_batch_rounds_each_item_and_a_query_the_sum(metered: Metered) -> None:
    table, _, meter = metered
    keys = [Key("t", f"{number:03d}") for number in range(150)]
    for key in keys[:8]:
        await table.put(Put(key, {"data": KB}))
    before = meter.snapshot()
    await table.get_many([*keys, keys[0]])
    assert meter.since(before) == {"BatchGetItem": Usage(table_read_units=150, table_requests=2)}
    before = meter.snapshot()
    await table.query("t")
    assert meter.since(before) == {"Query": Usage(table_read_units=3, table_requests=1)}  # a bit over 8 KB
    before = meter.snapshot()
    await table.query("nothing")
    assert meter.since(before) == {"Query": Usage(table_read_units=1, table_requests=1)}
    await table.get_many([])
    assert "BatchGetItem" not in meter.since(before)


async def test_objects_are_billed_by_request(metered: Metered) -> None:
    _, objects, meter = metered
    await objects.put("a/b", [b"0123", b"456789"])
    with pytest.raises(ObjectExists):
        await objects.put("a/b", [b"x"])
    await objects.get("a/b")
    await objects.get_range("a/b", 2, 3)
    with pytest.raises(ObjectMissing):
        await objects.get("a/c")
    await objects.head("a/b")
    await objects.list("a/")
    await objects.delete(["a/b", "a/c"])
    assert meter.total() == Usage(
        object_put_requests=3,
        object_get_requests=4,
        object_delete_requests=1,
        object_bytes_written=11,
        object_bytes_read=13,
    )


@pytest.mark.parametrize("count", [0, 3])
async def test_a_list_of_one_page_is_one_request(metered: Metered, count: int) -> None:
    _, objects, meter = metered
    for number in range(count):
        await objects.put(f"a/{number}", [b""])
    before = meter.snapshot()
    assert len(await objects.list("a/")) == count
    assert meter.since(before) == {"ListObjectsV2": Usage(object_put_requests=1)}
