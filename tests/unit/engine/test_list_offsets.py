"""ListOffsets: exact to the record, over tail and index rows."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode
from odradek.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, ListOffsetsPartition

from tests.support.engine import Store, batch, memory_store, produce

T0 = 1_700_000_000_000


@pytest.fixture
async def store() -> Store:
    """40 batches of two records, 1 ms apart inside a batch, 10 ms between batches; the fifth is from the future."""
    store = memory_store()
    engine = store.engine(head_bytes_max=600, spill_entries=4)
    await engine.topics.create("t", 2)
    for i in range(40):
        await produce(engine, "t", 0, batch([b"a", b"b"], timestamp_ms=T0 + 10 * i if i != 4 else T0 + 205))
    return store


async def ask(store: Store, timestamp_ms: int, partition: int = 0) -> tuple[int, int]:
    [result] = await store.engine().list_offsets([ListOffsetsPartition("t", partition, timestamp_ms)])
    assert not result.error, result.message
    return result.offset, result.timestamp_ms


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (LATEST_TIMESTAMP, (80, -1)),
        (EARLIEST_TIMESTAMP, (0, -1)),
        (MAX_TIMESTAMP, (79, T0 + 391)),
        (0, (0, T0)),
        (T0, (0, T0)),
        (T0 + 1, (1, T0 + 1)),
        (T0 + 2, (2, T0 + 10)),
        (T0 + 100, (8, T0 + 205)),  # the first in offset order, though a later one is nearer
        (T0 + 206, (9, T0 + 206)),
        (T0 + 207, (42, T0 + 210)),
        (T0 + 391, (79, T0 + 391)),
        (T0 + 392, (-1, -1)),
    ],
)
async def test_lookups(store: Store, timestamp_ms: int, expected: tuple[int, int]) -> None:
    assert await ask(store, timestamp_ms) == expected


async def test_an_empty_partition(store: Store) -> None:
    assert await ask(store, LATEST_TIMESTAMP, 1) == (0, -1)
    assert await ask(store, EARLIEST_TIMESTAMP, 1) == (0, -1)
    assert await ask(store, MAX_TIMESTAMP, 1) == (-1, -1)
    assert await ask(store, T0, 1) == (-1, -1)


async def test_unknown_partitions_are_refused(store: Store) -> None:
    asked = [ListOffsetsPartition("t", 2, -1), ListOffsetsPartition("x", 0, -1), ListOffsetsPartition("t", 0, -99)]
    results = await store.engine().list_offsets(asked)
    assert [r.error for r in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_VERSION,
    ]
