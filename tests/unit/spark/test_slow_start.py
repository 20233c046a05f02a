"""A slow start is tried again, a number of times; any other failure is not."""

from __future__ import annotations

import pytest
from odradek.spark.slow_start import START_ATTEMPTS, SlowStarts

SLOW = RuntimeError("[STREAM_FAILED] ... Python worker failed to connect back.")


def test_starts_are_bounded_until_one_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    starts = SlowStarts("q")
    assert [starts.may_start_again(SLOW) for _ in range(START_ATTEMPTS)] == [True] * 4 + [False]
    assert len(caplog.records) == 4
    assert caplog.records[-1].getMessage().endswith("start 5 of 5")
    starts.started()
    assert starts.may_start_again(SLOW)


def test_another_failure_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    assert not SlowStarts("q").may_start_again(RuntimeError("topic t does not exist"))
    assert not SlowStarts("q").may_start_again("")
    assert not caplog.records
