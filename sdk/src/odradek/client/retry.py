"""The one place that decides what is tried again, when, and when to stop.

    decide       pure: an error, the attempts so far, the time left -> wait that long, or give up
    retrying     the procedure around one call
    telling      pure: which of the errors so far says why nothing succeeds

Back-off is exponential with full jitter: a pause is uniform between 0 and the smaller of the maximum and
base x 2^attempt, so that many clients that failed together do not come back together. Source: KIP-580, AWS
Architecture Blog "Exponential Backoff And Jitter".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from odradek.backoff import bound_s
from odradek.client.transport.base import RequestFailed
from odradek.errors import ErrorCode, KafkaError
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

T = TypeVar("T")

UNKNOWN_TOPIC_PATIENCE_MS = 3_000  # a topic just made may not be seen everywhere; a misspelt one never will be


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patiently a call is tried again."""

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
    """Tell the caller."""

    timed_out: bool  # because time ran out, not because of the error


def decide(
    error: KafkaError, *, attempts: int, left_s: float, policy: RetryPolicy, jitter: float
) -> RetryAfter | GiveUp:
    """What to do after a failed attempt.

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
    """Whether the failed attempt could have taken effect all the same."""
    if isinstance(error, RequestFailed):
        return error.may_have_applied
    return not error.code.has_no_side_effects


SILENT = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})
"""Errors of an attempt that nobody answered."""


def telling(before: KafkaError | None, error: KafkaError) -> KafkaError:
    """The error that says why a call does not succeed: the newest that the service answered.

    The attempt that the deadline cuts short ends in a timeout or a broken connection, which says nothing of the full
    disk or the missing right that all attempts before it met.

    Args:
        before: that of the attempts before; None: there were none.
        error: of the newest attempt.
    """
    return before if before is not None and error.code in SILENT else error


async def retrying(
    call: Callable[[float], Awaitable[T]],
    *,
    what: str,
    timeout_ms: float,
    request_timeout_ms: float,
    policy: RetryPolicy,
    clock: Clock,
    rng: Rng,
) -> T:
    """Call until it succeeds, fails for good, or `timeout_ms` is over.

    Args:
        call: takes the timeout of the attempt in seconds.
        what: the call as the user knows it, for the message.

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
            return await call(max(0.001, min(left_s, request_timeout_ms / 1000)))
        except KafkaError as error:
            attempts += 1
            cause = telling(cause, error)
            is_unknown_topic = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            until = min(deadline, began + UNKNOWN_TOPIC_PATIENCE_MS / 1000) if is_unknown_topic else deadline
            left_s = until - clock.monotonic()
            verdict = decide(error, attempts=attempts, left_s=left_s, policy=policy, jitter=rng.random())
            if isinstance(verdict, GiveUp):
                if verdict.timed_out and not is_unknown_topic:
                    raise timed_out(what, timeout_ms, cause) from error
                raise
        await clock.sleep(verdict.seconds)


def timed_out(what: str, timeout_ms: float, cause: KafkaError | None) -> KafkaError:
    """The error of a deadline that passed, with what the attempts before it met."""
    because = f"; last: {cause}" if cause is not None else ""
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{what} did not succeed within {timeout_ms:.0f} ms{because}")
