"""Whatever is appended, spilled, merged and deleted, in whatever order: reads and lookups by time stay as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.engine import Engine
from odradek.format.record_batch import RecordBatchBuilder, decode_batches, iter_headers
from odradek.model.log import MAX_TIMESTAMP, DeleteRecordsPartition, FetchPartition, ListOffsetsPartition
from odradek.model.record import CompressionType, Record

from tests.support.engine import Store, memory_store, produce, read_all
from tests.support.examples import examples

NOW_MS = 1_700_000_000_000
SPAN_MS = 50

Append = tuple[list[int], int, CompressionType]  # timestamps, bytes of a value, compression
appends = st.tuples(
    st.lists(st.integers(0, SPAN_MS), min_size=1, max_size=4),
    st.sampled_from([0, 10, 3_000, 30_000]),
    st.sampled_from(CompressionType),
)
steps = st.lists(
    st.one_of(*[appends] * 8, *[st.just("merge")] * 2, st.floats(0, 0.4)),  # a number: delete that share of records
    min_size=25,
    max_size=50,
)
knobs = st.fixed_dictionaries(
    {
        "head_bytes_max": st.sampled_from([300, 500]),
        "spill_entries": st.integers(1, 4),
        "item_bytes_max": st.sampled_from([0, 1_000, 8_192]),
        "merge_rows_min": st.integers(1, 4),
        "segment_bytes_max": st.sampled_from([2_000, 400_000, 64 << 20]),
        "fetch_join_gap_bytes": st.sampled_from([0, 65_536]),
    }
)


@dataclass
class Run:
    store: Store
    knobs: dict[str, int]
    records: list[Record] = field(default_factory=list)
    start: int = 0
    engines: int = 0

    def engine(self) -> Engine:
        """A new process: nothing is cached."""
        self.engines += 1
        return self.store.engine(self.engines, **self.knobs)

    @property
    def live(self) -> list[Record]:
        return [record for record in self.records if record.offset >= self.start]


async def run(taken: Sequence[Append | str | float], chosen: dict[str, int], is_log_append_time: bool) -> None:
    state = Run(memory_store(), chosen)
    warm = state.engine()
    configs = {"message.timestamp.type": "LogAppendTime"} if is_log_append_time else {}
    await warm.topics.create("t", 1, configs)
    for number, step in enumerate(taken):
        state.store.clock.advance(0.003)
        if isinstance(step, tuple):
            await append(state, number, step, is_log_append_time)
        elif isinstance(step, float):
            state.start += int(step * len(state.live))
            [deleted] = await state.engine().delete_records([DeleteRecordsPartition("t", 0, state.start)])
            assert not deleted.error
        else:
            state.store.clock.advance(120)
            report = await state.engine().maintenance.run()
            assert report.failures == []
    await check_reads(state, warm)
    await check_reads(state, state.engine())
    await check_times(state)


async def append(state: Run, number: int, step: Append, is_log_append_time: bool) -> None:
    timestamps, size, compression = step
    builder = RecordBatchBuilder(compression)
    value = bytes([number % 251]) * size
    for timestamp in timestamps:
        builder.append(NOW_MS + timestamp, b"%d" % number, value)
    result = await produce(state.engine(), "t", 0, builder.build())
    assert (result.error, result.base_offset) == (0, len(state.records))
    for timestamp in timestamps:
        at = result.log_append_time_ms if is_log_append_time else NOW_MS + timestamp
        state.records.append(Record(len(state.records), at, b"%d" % number, value))


async def check_reads(state: Run, engine: Engine) -> None:
    assert await read_all(engine, "t", 0, state.start) == state.live
    for offset in range(state.start, len(state.records)):
        [result] = await engine.fetch([FetchPartition("t", 0, offset, max_bytes=1)])
        assert not result.error, result.message
        data = b"".join(result.records)
        [(_, header)] = iter_headers(data)
        assert header.base_offset <= offset < header.next_offset
        assert list(decode_batches(data)) == state.records[header.base_offset : header.next_offset]


async def check_times(state: Run) -> None:
    live = state.live
    engine = state.engine()
    times = sorted({record.timestamp_ms for record in state.records})
    for timestamp in {NOW_MS, *times, *(time + 1 for time in times)}:
        [result] = await engine.list_offsets([ListOffsetsPartition("t", 0, timestamp)])
        first = next(((r.offset, r.timestamp_ms) for r in live if r.timestamp_ms >= timestamp), (-1, -1))
        assert (result.error, result.offset, result.timestamp_ms) == (0, *first)
    [result] = await engine.list_offsets([ListOffsetsPartition("t", 0, MAX_TIMESTAMP)])
    largest = max(live, key=lambda record: (record.timestamp_ms, -record.offset), default=None)
    assert (result.offset, result.timestamp_ms) == ((largest.offset, largest.timestamp_ms) if largest else (-1, -1))


@settings(max_examples=examples(20))
@given(steps, knobs, st.booleans())
def test_nobody_sees_a_difference(
    taken: list[Append | str | float], chosen: dict[str, int], is_log_append_time: bool
) -> None:
    asyncio.run(run(taken, chosen, is_log_append_time))
