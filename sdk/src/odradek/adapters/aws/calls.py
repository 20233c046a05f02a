"""Calls to AWS: off the event loop, and with AWS's errors translated to the port's, here and nowhere else.

    error                                             a write becomes        a read becomes
    throttled, SlowDown, a conflicting transaction    StoreUnavailable       retried, then StoreUnavailable
    no connection, no credentials, not allowed        StoreUnavailable       StoreUnavailable
    timeout or connection lost after sending, 5xx     OutcomeUnknown         retried, then StoreUnavailable
    refused as malformed (ValidationException ...)    StoreRejected          StoreRejected
    item beyond 400 KB, or 4 MB in a transaction      ItemTooLarge           -

Clients make one attempt per call (store.py): a retry inside boto could meet the success of an earlier attempt, which
only the engine can resolve. Reads are retried here, a bounded number of times with jitter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    TokenRetrievalError,
)

from odradek.backoff import Backoff
from odradek.errors import ItemTooLarge, OutcomeUnknown, StoreRejected, StoreUnavailable, TransactionConflict
from odradek.system import SystemClock, SystemRng

READ_ATTEMPTS_MAX: Final = 5
BACKOFF: Final = Backoff(SystemClock(), SystemRng(), first_s=0.025, max_s=1.0)

_THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "Throttling",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "SlowDown",
        "TransactionConflictException",
        "TransactionInProgressException",
        "ReplicatedWriteConflictException",
        "ConditionalRequestConflict",
        "OperationAborted",
    }
)
_NEVER_SENT: Final = (
    EndpointConnectionError,
    ConnectTimeoutError,
    ProxyConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    TokenRetrievalError,
)

_REJECTED: Final = frozenset(
    {
        "EntityTooLarge",
        "InvalidArgument",
        "InvalidRequest",
        "KeyTooLongError",
        "MetadataTooLarge",
        "SerializationException",
        "InvalidMessageContents",
        "InvalidParameterValue",
        "AWS.SimpleQueueService.BatchRequestTooLong",
    }
)
_ANSWERS: Final = frozenset(
    {
        "ConditionalCheckFailedException",
        "TransactionCanceledException",
        "PreconditionFailed",
        "NoSuchKey",
        "404",  # of a HEAD request, whose response has no body with the error's name
        "InvalidRange",
    }
)

Call = Callable[..., dict[str, Any]]


class Refused(Exception):
    """An error of AWS that is an expected outcome: a false condition, a missing object, a range past the end.

    Attributes:
        code: AWS's error code.
        response: the parsed error response.
    """

    def __init__(self, code: str, response: dict[str, Any], message: str) -> None:
        super().__init__(message)
        self.code = code
        self.response = response


class Calls:
    """Runs a client's synchronous methods in threads.

    Args:
        pool: the threads; as many as the client has connections.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    @classmethod
    def for_client(cls, client: Any) -> Calls:
        """Return calls with a separate pool, for a client that is used alone."""
        return cls(ThreadPoolExecutor(client.meta.config.max_pool_connections, thread_name_prefix="odradek-aws"))

    async def write(self, call: Call, **parameters: Any) -> dict[str, Any]:
        """Make one attempt.

        Raises Refused if a condition was false; StoreUnavailable, OutcomeUnknown, ItemTooLarge, StoreRejected.
        """
        return await self._once(call, parameters, write=True)

    async def read(self, call: Call, **parameters: Any) -> dict[str, Any]:
        """Make several attempts. Raises Refused for a missing object or range, StoreUnavailable, StoreRejected."""
        return await retried(lambda: self._once(call, parameters, write=False))

    async def read_once(self, call: Call, **parameters: Any) -> dict[str, Any]:
        """Make one attempt, for a caller that has more to say about its refusal. Raises as `read`."""
        return await self._once(call, parameters, write=False)

    async def _once(self, call: Call, parameters: dict[str, Any], *, write: bool) -> dict[str, Any]:
        try:
            return await self._run(call, parameters)
        except (ClientError, BotoCoreError) as error:
            raise translated(error, write=write) from error

    async def _run(self, call: Call, parameters: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(call, **parameters))


async def retried(attempt: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the first response; retry after StoreUnavailable for a transient reason. Raises the last error.

    A TransactionConflict is for the caller, who knows how long transactions take.
    """
    for number in range(READ_ATTEMPTS_MAX - 1):
        try:
            return await attempt()
        except StoreUnavailable as error:
            if isinstance(error, TransactionConflict) or not _passes(error.__cause__):
                raise
        await BACKOFF.pause(number)
    return await attempt()


def error_code(error: ClientError) -> str:
    """Return AWS's code of an error, such as "SlowDown"."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_throttled(error: ClientError) -> bool:
    """Return True if AWS asks to slow down, or another request is in the way: nothing was applied."""
    return error_code(error) in _THROTTLED


def translated(error: Exception, *, write: bool) -> Exception:
    """Return the port's error for an error of botocore, or `Refused`."""
    if isinstance(error, ParamValidationError):
        return StoreRejected(str(error))
    if isinstance(error, _NEVER_SENT):
        return StoreUnavailable(f"AWS cannot be reached: {error}")
    if isinstance(error, ClientError):
        code, message = error_code(error), str(error)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _ANSWERS:
            return Refused(code, dict(error.response), message)
        if code == "ValidationException":
            return invalid(message)
        if code in _REJECTED:
            return StoreRejected(message)
        if code == "TransactionConflictException":
            return TransactionConflict(message)
        if is_throttled(error) or status < 500:
            return StoreUnavailable(message)
    return OutcomeUnknown(str(error)) if write else StoreUnavailable(str(error))


def invalid(message: str) -> Exception:
    """Translate a ValidationException: an item or a transaction is too large, or a request exceeds another limit."""
    return ItemTooLarge() if "tem size" in message or "aggregate size" in message else StoreRejected(message)


def _passes(cause: BaseException | None) -> bool:
    """Return True if the cause of an error may be gone at the next attempt."""
    if not isinstance(cause, ClientError):
        return not isinstance(cause, (NoCredentialsError, NoRegionError, PartialCredentialsError, TokenRetrievalError))
    status = cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return is_throttled(cause) or status >= 500
