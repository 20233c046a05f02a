"""A process that uploads and reads keeps its newest uploads: who reads at the end of a log needs no request."""

from __future__ import annotations

import pytest

from tests.support.engine import Store, batch, memory_store, produce, read_all


async def reads_of(store: Store, kept_bytes: int, values: list[bytes]) -> tuple[int, int]:
    """How often objects and items of uploads are read after values have been written."""
    engine = store.engine(uploads_kept_bytes=kept_bytes)
    await engine.topics.create("t", 1)
    for value in values:
        await produce(engine, "t", 0, batch([value]))
    gets = store.log.count("get")
    assert [record.value for record in await read_all(engine, "t", 0)] == values
    return store.objects.count("get_range"), store.log.count("get") - gets


@pytest.mark.parametrize("size", [100, 20_000], ids=["items", "objects"])
async def test_what_was_just_uploaded_is_read_without_a_request(size: int) -> None:
    values = [b"%d" % i * size for i in range(4)]
    without = await reads_of(memory_store(), 0, values)
    assert sum(without) >= 4
    objects, items = await reads_of(memory_store(), 1_000_000, values)
    assert objects == 0
    assert items == without[1] - 4 * (size == 100)


async def test_the_newest_are_kept_within_the_limit_and_the_others_are_read() -> None:
    objects, _ = await reads_of(memory_store(), 45_000, [b"%d" % i * 20_000 for i in range(4)])
    assert objects == 2
