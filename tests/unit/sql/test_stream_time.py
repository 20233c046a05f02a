"""Stream time of partitions, and the time up to which windows are closed."""

from __future__ import annotations

import pyarrow as pa
from odradek.sql.running.stream_time import IDLE_MS, Progress, advanced, clock, decode, encode, running


def stream_times(partitions: list[int], times: list[int], newest: dict[int, int]) -> list[int]:
    found: list[int] = running(pa.array(partitions, pa.int32()), pa.array(times, pa.int64()), newest).to_pylist()
    return found


def test_stream_time_is_the_largest_so_far_the_record_included() -> None:
    newest: dict[int, int] = {}
    assert stream_times([0] * 5, [10, 40, 20, 50, 30], newest) == [10, 40, 40, 50, 50]
    assert newest == {0: 50}


def test_stream_time_continues_from_the_records_before() -> None:
    newest = {0: 45}
    assert stream_times([0, 0, 0], [10, 40, 60], newest) == [45, 45, 60]
    assert newest == {0: 60}


def test_each_partition_has_its_own_stream_time() -> None:
    newest = {1: 7}
    assert stream_times([0, 1, 0, 1, 2, 0], [5, 1, 3, 9, 2, 8], newest) == [5, 7, 5, 9, 2, 8]
    assert newest == {0: 8, 1: 9, 2: 2}


def test_where_records_are_cut_does_not_matter() -> None:
    partitions, times = [0, 1, 1, 0, 0, 1, 0], [3, 9, 4, 1, 7, 2, 5]
    whole = stream_times(partitions, times, {})
    for cut in range(len(times) + 1):
        newest: dict[int, int] = {}
        first = stream_times(partitions[:cut], times[:cut], newest) if cut else []
        rest = stream_times(partitions[cut:], times[cut:], newest) if cut < len(times) else []
        assert first + rest == whole


def test_progress_keeps_what_other_micro_batches_had() -> None:
    before = {0: Progress(50, 1), 1: Progress(20, 1)}
    assert advanced(before, {1: 30, 2: 5}, 9) == {0: Progress(50, 1), 1: Progress(30, 9), 2: Progress(5, 9)}
    assert advanced(before, {0: 40}, 9)[0] == Progress(50, 9)


def test_windows_are_closed_up_to_the_partition_that_is_behind() -> None:
    assert clock({}, 0) is None
    assert clock({0: Progress(50, 0), 1: Progress(20, 0)}, 0) == 20


def test_an_idle_partition_is_not_awaited() -> None:
    partitions = {0: Progress(50, IDLE_MS + 1), 1: Progress(20, 0)}
    assert clock(partitions, IDLE_MS) == 20
    assert clock(partitions, IDLE_MS + 1) == 50
    assert clock(partitions, 3 * IDLE_MS) == 50, "all are idle: nothing is awaited"


def test_progress_is_read_as_it_was_written() -> None:
    inputs = {0: {3: Progress(50, 7), 10: Progress(-1, 8)}, 1: {}}
    assert decode(encode(inputs)) == inputs
