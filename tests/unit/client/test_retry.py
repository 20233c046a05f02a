"""Retries: of which errors, when, and until when."""

from __future__ import annotations

import pytest
from odradek.client.retry import GiveUp, RetryAfter, RetryPolicy, decide, may_have_applied, retrying, telling
from odradek.client.transport.base import RequestFailed
from odradek.errors import ErrorCode, KafkaError
from odradek.testing import ManualClock, SeededRng

POLICY = RetryPolicy(backoff_ms=100, backoff_max_ms=1_000, retries=5)
RETRYABLE = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize(("attempts", "ceiling_s"), [(1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0)])
def test_the_ceiling_doubles_up_to_the_maximum(attempts: int, ceiling_s: float) -> None:
    half = decide(RETRYABLE, attempts=attempts, left_s=60, policy=POLICY, jitter=0.5)
    assert half == RetryAfter(ceiling_s / 2, seconds_max=ceiling_s)
    none = decide(RETRYABLE, attempts=attempts, left_s=60, policy=POLICY, jitter=0.0)
    assert none == RetryAfter(0.0, seconds_max=ceiling_s)


def test_a_pause_that_may_be_longer_still_ends_before_the_deadline() -> None:
    assert decide(RETRYABLE, attempts=4, left_s=0.7, policy=POLICY, jitter=0.5) == RetryAfter(0.4, seconds_max=0.4)


def test_it_stops_at_what_cannot_be_helped_at_the_limit_of_retries_and_at_the_deadline() -> None:
    fatal = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert decide(fatal, attempts=1, left_s=60, policy=POLICY, jitter=0.5) == GiveUp(timed_out=False)
    assert decide(RETRYABLE, attempts=6, left_s=60, policy=POLICY, jitter=0.5) == GiveUp(timed_out=False)
    assert decide(RETRYABLE, attempts=1, left_s=0.04, policy=POLICY, jitter=0.5) == GiveUp(timed_out=True)
    assert isinstance(decide(RETRYABLE, attempts=5_000, left_s=60, policy=RetryPolicy(), jitter=0.5), RetryAfter)


def test_a_transport_knows_better_than_the_code_what_happened() -> None:
    refused = RequestFailed(ErrorCode.BROKER_NOT_AVAILABLE, "refused", may_have_applied=False, retryable=True)
    assert isinstance(decide(refused, attempts=1, left_s=60, policy=POLICY, jitter=0.5), RetryAfter)
    assert not may_have_applied(refused)
    assert may_have_applied(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert not may_have_applied(KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED))


async def test_a_call_succeeds_at_last_or_says_what_it_met() -> None:
    clock = ManualClock(auto_advance=True)
    timeouts: list[float] = []

    async def call(timeout_s: float) -> str:
        timeouts.append(timeout_s)
        if len(timeouts) < 4:
            raise RETRYABLE
        return "done"

    async def run(timeout_ms: float) -> str:
        return await retrying(
            call,
            operation="Metadata",
            timeout_ms=timeout_ms,
            request_timeout_ms=30_000,
            policy=POLICY,
            clock=clock,
            rng=SeededRng(1),
        )

    assert await run(60_000) == "done"
    assert timeouts[0] == 30
    timeouts.clear()
    began = clock.monotonic()
    with pytest.raises(KafkaError, match="Metadata did not succeed within 50 ms; last: NOT_LEADER") as failure:
        await run(50)
    assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert clock.monotonic() - began <= 0.05
    assert all(timeout_s <= 0.05 for timeout_s in timeouts)


async def test_the_attempt_that_the_deadline_cuts_short_does_not_hide_the_cause() -> None:
    """A full disk was told as REQUEST_TIMED_OUT, since the last attempt had no time left for an answer."""
    clock = ManualClock(auto_advance=True)
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    calls = 0

    async def call(timeout_s: float) -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise full
        await clock.sleep(timeout_s)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")

    with pytest.raises(KafkaError, match="last: KAFKA_STORAGE_ERROR: the disk is full"):
        await retrying(
            call,
            operation="Metadata",
            timeout_ms=2_000,
            request_timeout_ms=30_000,
            policy=POLICY,
            clock=clock,
            rng=SeededRng(1),
        )
    assert telling(None, full) is full
    answered = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert telling(full, answered) is answered
