"""Decisions after a call."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.model.record import Record
from odradek.model.trigger import Trigger
from odradek.triggers.progress import (
    Kind,
    Lane,
    LaneBatch,
    Progress,
    Window,
    after_failure,
    after_success,
    committed_after,
    decode_progress,
    encode_progress,
    lane_of,
    plan_wave,
)

TRIGGER = Trigger(name="t", topic="orders", function="https://example.org")


def records(*offsets: int, timestamp_ms: int = 1_000_000) -> list[Record]:
    return [Record(offset, timestamp_ms, b"k%d" % (offset % 3), b"v") for offset in offsets]


def test_a_bad_record_is_isolated_in_log_n_calls_and_the_others_are_done_once_more_at_most() -> None:
    trigger = replace(TRIGGER, bisect=True, retry_attempts=0, batch_size=16)
    left, progress, committed, calls, given_up = records(*range(16)), Progress(), 0, 0, []
    while committed < 16:
        ahead = [record for record in left if record.offset >= committed]
        [batch] = plan_wave(trigger, ahead, progress, committed, 0).batches
        calls += 1
        lane = progress.lane(0, committed)
        if any(record.offset == 11 for record in batch.records):
            lane, given_up_now = after_failure(trigger, lane, batch, 0, 0)
            if given_up_now:
                given_up += [record.offset for record in given_up_now]
                lane = after_success(lane, batch)
        else:
            lane = after_success(lane, batch)
        progress = progress.with_lane(0, lane)
        committed, progress = committed_after(trigger, left, 16, progress, committed)
    assert given_up == [11]
    assert calls <= 16


def test_attempts_are_counted_and_then_the_batch_is_given_up() -> None:
    trigger = replace(TRIGGER, retry_attempts=2)
    lane, batch = Lane(), LaneBatch(0, records(0, 1))
    for attempt in (1, 2):
        lane, given_up = after_failure(trigger, lane, batch, 0, 99)
        assert (lane.attempts, lane.retry_ms, given_up) == (attempt, 99, ())
    assert after_failure(trigger, lane, batch, 0, 99)[1] == batch.records


@pytest.mark.parametrize(("retries", "on_failure", "attempts"), [(-1, "", None), (-1, "topic:f", 11), (0, "", 1)])
def test_retries_without_limit_end_where_there_is_a_destination(
    retries: int, on_failure: str, attempts: int | None
) -> None:
    assert replace(TRIGGER, retry_attempts=retries, on_failure=on_failure).attempts_max == attempts


def test_records_of_a_lane_that_failed_hold_the_offset_back_and_nothing_else_is_repeated() -> None:
    trigger, some = replace(TRIGGER, parallelization_factor=3), records(*range(9))
    lanes = {lane_number: lane_of(record, 3) for lane_number, record in enumerate(some)}
    wave = plan_wave(trigger, some, Progress(), 0, 0)
    slow = lanes[0]
    progress = Progress()
    for batch in wave.batches:
        lane = progress.lane(batch.lane, 0)
        done = after_success(lane, batch) if batch.lane != slow else after_failure(trigger, lane, batch, 0, 500)[0]
        progress = progress.with_lane(batch.lane, done)
    committed, progress = committed_after(trigger, some, 9, progress, 0)
    assert committed == 0
    again = plan_wave(trigger, some, progress, committed, 0)
    assert (list(again.batches), again.retry_ms) == ([], 500)
    [batch] = plan_wave(trigger, some, progress, committed, 500).batches
    assert batch.lane == slow


def test_records_that_are_too_old_are_given_up_without_a_call() -> None:
    trigger = replace(TRIGGER, maximum_record_age_s=60)
    some = [*records(0, 1, timestamp_ms=0), *records(2, timestamp_ms=100_000)]
    [batch] = plan_wave(trigger, some, Progress(), 0, 100_000).batches
    assert (batch.kind, [record.offset for record in batch.records]) == (Kind.EXPIRED, [0, 1])


def test_progress_is_read_back_unless_somebody_has_set_the_offset() -> None:
    progress = Progress(
        lanes={0: Lane(7, 2, 1, 9, 55)}, window=Window(0, 60, '{"a":1}'), due_ms=4, invocations=3, error="no"
    )
    text = encode_progress(progress, 5)
    assert decode_progress(text, 5) == progress
    reset = decode_progress(text, 6)
    assert (reset.lanes, reset.window, reset.due_ms, reset.invocations) == ({}, None, 0, 3)
