"""A conditional produce of several batches: the condition is that of the first, the others follow it in one step."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode
from odradek.testing.faults import Fault

from tests.support.engine import batch, memory_store, produce, read_all


@pytest.mark.parametrize("is_idempotent", [False, True])
@pytest.mark.parametrize("per_head", [1, 32])
@pytest.mark.parametrize("fault", [None, Fault.UNAVAILABLE, Fault.LOST_ANSWER, Fault.LOST_REQUEST])
@pytest.mark.parametrize("before", [0, 3])
async def test_all_batches_are_at_the_expected_offset_once(
    is_idempotent: bool, per_head: int, fault: Fault | None, before: int
) -> None:
    store = memory_store(per_head=per_head)
    engine = store.engine()
    await engine.topics.create("t", 1)
    for n in range(before):
        assert not (await produce(engine, "t", 0, batch([b"before %d" % n]))).error
    producers = [(7, 0, 0), (7, 0, 2)] if is_idempotent else [(-1, -1, -1)] * 2
    pair = b"".join(batch([b"%d a" % n, b"%d b" % n], producer=producer) for n, producer in enumerate(producers))
    if fault is not None:
        store.log.script[("update", store.log.count("update") + 1)] = fault
    result = await produce(store.engine(2), "t", 0, pair, expected_offset=before)
    stored = [record.value for record in await read_all(store.engine(3), "t", 0)][before:]
    if result.error and fault is not None and not is_idempotent:
        assert result.error is ErrorCode.REQUEST_TIMED_OUT, "it may have been appended"
        assert stored in ([], [b"0 a", b"0 b", b"1 a", b"1 b"])
        return
    assert (result.error, result.base_offset) == (ErrorCode.NONE, before)
    assert stored == [b"0 a", b"0 b", b"1 a", b"1 b"]
    again = await produce(store.engine(4), "t", 0, pair, expected_offset=before)
    if is_idempotent:
        assert (again.error, again.base_offset) == (ErrorCode.NONE, before), "a duplicate of both"
    else:
        assert again.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(await read_all(store.engine(5), "t", 0)) == before + 4


@pytest.mark.parametrize("expected", [0, 1, 3, 4, 5])
async def test_another_offset_refuses_all_of_them(expected: int) -> None:
    store = memory_store(per_head=1)
    engine = store.engine()
    await engine.topics.create("t", 1)
    await produce(engine, "t", 0, batch([b"a", b"b"]))
    pair = batch([b"c", b"d"]) + batch([b"e"])
    result = await produce(engine, "t", 0, pair, expected_offset=expected)
    assert result.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert [record.value for record in await read_all(store.engine(5), "t", 0)] == [b"a", b"b"]
