"""The retry policy of all clients: which errors are retried, after which pause, and until when.

    decide       pure: an error, the attempts so far, the time left -> a pause, or give up
    retrying     the loop around one call
    telling      pure: the error that explains best why no attempt succeeded

The back-off is exponential with full jitter: a pause is uniform between 0 and the smaller of the maximum and
base x 2^attempt, so that clients that failed together do not retry together. Sources: KIP-580, AWS Architecture Blog
"Exponential Backoff And Jitter".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from odradek.backoff import bound_s
from odradek.client.log import Outages
from odradek.client.transport.base import RequestFailed
from odradek.errors import ErrorCode, KafkaError
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

T = TypeVar("T")

UNKNOWN_TOPIC_PATIENCE_MS = 3_000  # a topic just made may not be seen everywhere; a misspelt one never will be


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Back-off and number of retries of a call."""

    backoff_ms: int = 100
    backoff_max_ms: int = 1_000
    retries: int = 2**31 - 1  # attempts after the first


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Try again after this pause."""

    seconds: float
    seconds_max: float  # of the draw: a pause up to here is as good


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Report the error to the caller."""

    timed_out: bool  # because time ran out, not because of the error


def decide(
    error: KafkaError, *, attempts: int, left_s: float, policy: RetryPolicy, jitter: float
) -> RetryAfter | GiveUp:
    """Decide whether a failed attempt is repeated.

    Args:
        attempts: made so far, at least 1.
        left_s: seconds until the caller's deadline.
        jitter: in [0, 1).
    """
    if not error.is_retryable:
        return GiveUp(timed_out=False)
    if attempts > policy.retries:
        return GiveUp(timed_out=False)
    ceiling_s = bound_s(attempts - 1, first_s=policy.backoff_ms / 1000, max_s=policy.backoff_max_ms / 1000)
    pause_s = jitter * ceiling_s
    if pause_s >= left_s:
        return GiveUp(timed_out=True)
    return RetryAfter(pause_s, ceiling_s if ceiling_s < left_s else pause_s)


def may_have_applied(error: KafkaError) -> bool:
    """Return True if the failed attempt may have taken effect in spite of the error."""
    if isinstance(error, RequestFailed):
        return error.may_have_applied
    return not error.code.has_no_side_effects


SILENT = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})
"""Errors of an attempt that nobody answered."""


def telling(before: KafkaError | None, error: KafkaError) -> KafkaError:
    """Return the error that explains why a call does not succeed: the latest that came from the service.

    The attempt that the deadline cuts short ends in a timeout or a broken connection, which says nothing about the
    full disk or the missing permission that all earlier attempts met.

    Args:
        before: the error that explains the earlier attempts; None if there were none.
        error: the error of the latest attempt.
    """
    return before if before is not None and error.code in SILENT else error


async def retrying(
    call: Callable[[float], Awaitable[T]],
    *,
    operation: str,
    timeout_ms: float,
    request_timeout_ms: float,
    policy: RetryPolicy,
    clock: Clock,
    rng: Rng,
    outages: Outages | None = None,
) -> T:
    """Call until the call succeeds, fails with an error that is not retryable, or `timeout_ms` has passed.

    Args:
        call: takes the timeout of the attempt in seconds.
        operation: the name of the call in error messages.
        outages: logs retries that last; failures without an answer are logged where they happen.

    Raises:
        KafkaError: the last error; REQUEST_TIMED_OUT that names the cause (`telling`) where time ran out.
            UNKNOWN_TOPIC_OR_PARTITION is tried again for a short while only.
    """
    began = clock.monotonic()
    deadline = began + timeout_ms / 1000
    attempts = 0
    cause: KafkaError | None = None
    while True:
        left_s = deadline - clock.monotonic()
        try:
            result = await call(max(0.001, min(left_s, request_timeout_ms / 1000)))
            if outages is not None:
                outages.ended(operation, clock.monotonic())
            return result
        except KafkaError as error:
            attempts += 1
            cause = telling(cause, error)
            is_unknown_topic = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            until = min(deadline, began + UNKNOWN_TOPIC_PATIENCE_MS / 1000) if is_unknown_topic else deadline
            left_s = until - clock.monotonic()
            verdict = decide(error, attempts=attempts, left_s=left_s, policy=policy, jitter=rng.random())
            if outages is not None:
                _log(outages, operation, error, verdict, clock.monotonic(), timeout_ms / 1000)
            if isinstance(verdict, GiveUp):
                if verdict.timed_out and not is_unknown_topic:
                    raise timed_out(operation, timeout_ms, cause) from None
                raise
        await clock.sleep(verdict.seconds)


def _log(
    outages: Outages, operation: str, error: KafkaError, verdict: RetryAfter | GiveUp, now_s: float, timeout_s: float
) -> None:
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return  # logged once, where metadata is read
    if isinstance(verdict, GiveUp):
        outages.gave_up(operation, error if verdict.timed_out else None, timeout_s)
    elif not isinstance(error, RequestFailed):
        outages.failed(operation, error, now_s)


def timed_out(operation: str, timeout_ms: float, cause: KafkaError | None) -> KafkaError:
    """Return the error of a deadline that passed; its message names the cause."""
    because = f"; last: {cause}" if cause is not None else ""
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{operation} did not succeed within {timeout_ms:.0f} ms{because}")
