"""Windows of partitions, read through one consumer without a group: nothing is committed, nobody is disturbed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.record import ConsumerRecord
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster import Cluster
from odradek.operations.places import Place, resolve
from odradek.operations.topics import offsets_of

if TYPE_CHECKING:
    import pyarrow as pa

Window = tuple[int, int]
"""Offsets of a partition: from, inclusive, and to, exclusive."""

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
_POLL_MS = 500
_BROWSE_BYTES = 1024 * 1024  # of a fetch that fills a page
_IDLE_POLLS_MAX = 20  # polls in a row without progress


async def bounds(
    cluster: Cluster, topic: str, partitions: Sequence[int] = ()
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return first and next offset of the partitions of a topic; of all if none are named.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
    """
    count = (await cluster.admin.describe_topics([topic]))[topic].partition_count
    if unknown := [number for number in partitions if not 0 <= number < count]:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has partitions 0 to {count - 1}, not {unknown[0]}",
        )
    places = [TopicPartition(topic, number) for number in sorted(set(partitions) or range(count))]
    return await offsets_of(cluster.admin, places)


async def starts(
    cluster: Cluster, place: Place, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition."""
    at_time: dict[TopicPartition, int | None] = {}
    if place.kind == "time":
        found = await cluster.admin.list_offsets(dict.fromkeys(ends, place.number))
        at_time = {each: at.offset if at.offset >= 0 else None for each, at in found.items()}
    return resolve(place, begins, ends, at_time)


@asynccontextmanager
async def reader(cluster: Cluster, **configs: Any) -> AsyncIterator[Consumer]:
    """Open a consumer that commits nothing, and close it afterwards."""
    consumer = cluster.consumer(auto_offset_reset="earliest", enable_auto_commit=False, **configs)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.close(commit=False)


async def read_windows(cluster: Cluster, windows: Mapping[TopicPartition, Window]) -> list[ConsumerRecord]:
    """Return the records of windows, in the order of each partition. Raises KafkaError."""
    wanted = {place: window for place, window in windows.items() if window[0] < window[1]}
    found: list[ConsumerRecord] = []
    if not wanted:
        return found
    async with reader(cluster, fetch_max_bytes=_BROWSE_BYTES, max_poll_records=10_000) as consumer:
        seek(consumer, wanted)
        idle = 0
        while consumer.assignment() and idle < _IDLE_POLLS_MAX:
            polled = await consumer.poll(_POLL_MS)
            idle = 0 if polled else idle + 1
            for place, records in polled.items():
                found += [record for record in records if record.offset < wanted[place][1]]
            await drop_finished(consumer, wanted)
    return found


async def tables(
    consumer: Consumer, windows: Mapping[TopicPartition, Window], *, headers: bool
) -> AsyncGenerator[pa.Table]:
    """Yield the rows of windows as tables with COLUMNS (without headers, if they are not needed)."""
    wanted = {place: window for place, window in windows.items() if window[0] < window[1]}
    if not wanted:
        return
    columns = COLUMNS if headers else COLUMNS[:-1]
    seek(consumer, wanted)
    idle = 0
    while consumer.assignment() and idle < _IDLE_POLLS_MAX:
        table = await consumer.poll_table(_POLL_MS, columns)
        idle = 0 if table.num_rows else idle + 1
        if table.num_rows:
            yield _within(table, wanted)
        await drop_finished(consumer, wanted)


def seek(consumer: Consumer, windows: Mapping[TopicPartition, Window]) -> None:
    """Assign partitions and continue at the start of each window."""
    consumer.assign(windows)
    for place, (first, _) in windows.items():
        consumer.seek(place, first)


async def drop_finished(consumer: Consumer, windows: Mapping[TopicPartition, Window]) -> None:
    """Read no further in partitions whose window is finished."""
    left = [place for place in consumer.assignment() if await consumer.position(place) < windows[place][1]]
    if len(left) < len(consumer.assignment()):
        consumer.assign(left)


def _within(table: pa.Table, windows: Mapping[TopicPartition, Window]) -> pa.Table:
    """Return the rows of a table below the end of their window."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = {place.partition: end for place, (_, end) in windows.items()}
    if len(ends) == 1:
        (end,) = ends.values()
        return table.filter(pc.less(table["offset"], end))
    numbers = pa.array(list(ends), pa.int32())
    limits = pa.array(list(ends.values()), pa.int64())
    limit = pc.take(limits, pc.index_in(table["partition"], numbers))
    return table.filter(pc.less(table["offset"], limit))
