"""The partition that a request names: every call answers UNKNOWN_TOPIC_OR_PARTITION alike, and forgets what is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.log import (
    LATEST_TIMESTAMP,
    DeleteRecordsPartition,
    EpochEndPartition,
    FetchPartition,
    ListOffsetsPartition,
)

from tests.support.engine import Store, batch, memory_store, produce

Ask = Callable[[Engine, int], Awaitable[Sequence[Any]]]
ASKS: dict[str, Ask] = {
    "fetch": lambda engine, number: engine.fetch([FetchPartition("t", number, 0)]),
    "list_offsets": lambda engine, number: engine.list_offsets([ListOffsetsPartition("t", number, LATEST_TIMESTAMP)]),
    "epoch_end_offsets": lambda engine, number: engine.epoch_end_offsets([EpochEndPartition("t", number, 0)]),
    "delete_records": lambda engine, number: engine.delete_records([DeleteRecordsPartition("t", number, 0)]),
}


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.mark.parametrize("name", list(ASKS))
async def test_a_topic_that_was_recreated_is_found_by_the_next_request(store: Store, name: str) -> None:
    engine, other = store.engine(), store.engine(1)
    await engine.topics.create("t")
    await produce(engine, "t", 0, batch([b"old"]))
    await other.topics.delete("t")
    await other.topics.create("t", 3)
    [deleted] = await ASKS[name](engine, 0)
    assert (deleted.error, deleted.message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic t has been deleted")
    [result] = await ASKS[name](engine, 0)
    assert result.error is ErrorCode.NONE


@pytest.mark.parametrize("number", [-1, 2])
@pytest.mark.parametrize("name", list(ASKS))
async def test_a_number_that_the_topic_does_not_have(store: Store, name: str, number: int) -> None:
    engine = store.engine()
    await engine.topics.create("t", 2)
    [refused] = await ASKS[name](engine, number)
    assert refused.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused.message == f"topic t has partitions 0 to 1, not {number}"
