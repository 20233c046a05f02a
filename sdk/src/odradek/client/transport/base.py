"""Transports carry a request message to the function that owns its API, and the response back.

A transport makes one attempt under a deadline; retry.py decides about another. Failures on the way are `RequestFailed`,
which says whether the request may have taken effect: not after a refused connection, possibly after a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.protocol.api import ApiKey, FunctionName, owner_of
from odradek.protocol.frame import decode_response, encode_request

R = TypeVar("R")

Dispatch = Callable[[FunctionName, bytes], Awaitable[bytes]]
"""A request frame for a function -> its response frame."""

Functions = Callable[[str, str, str, bytes], Awaitable[tuple[int, Mapping[str, Any]]]]
"""A function that owns none of Kafka's APIs, HTTP's method, path and body -> its status and its JSON document."""

_CORRELATION_ID_MAX = 2**31 - 1


class RequestFailed(KafkaError):
    """No answer frame came back.

    Attributes:
        may_have_applied: False if the request certainly did not reach the engine.
        retryable: overrides the code's value if the transport knows better.
    """

    def __init__(self, code: ErrorCode, message: str, *, may_have_applied: bool, retryable: bool | None = None) -> None:
        super().__init__(code, message)
        self.may_have_applied = may_have_applied
        self.retryable = retryable

    @property
    def is_retryable(self) -> bool:
        return self.code.is_retryable if self.retryable is None else self.retryable


class Transport(Protocol):
    """One attempt of one call."""

    async def connect(self, timeout_s: float) -> None:
        """Find the functions. Raises KafkaError that names a wrong address."""
        ...

    async def call(self, message: Any, response_type: type[R], timeout_s: float, *, client_id: str | None = None) -> R:
        """Send a kio request message to the function that owns it and return its answer.

        Raises:
            RequestFailed: no answer, or an HTTP error outside the dispatcher.
        """
        ...

    async def close(self) -> None:
        """Release connections; may be called twice."""
        ...


class FrameTransport:
    """Base of transports: frames and correlation ids. Subclasses carry the bytes."""

    def __init__(self) -> None:
        self._correlation_id = 0

    async def exchange(self, function: FunctionName, frame: bytes, timeout_s: float) -> bytes:
        """Carry one frame to the function and return its response. Raises RequestFailed."""
        raise NotImplementedError

    async def call(self, message: Any, response_type: type[R], timeout_s: float, *, client_id: str | None = None) -> R:
        """Implement Transport.call."""
        self._correlation_id = correlation_id = self._correlation_id % _CORRELATION_ID_MAX + 1
        try:
            frame = encode_request(message, correlation_id=correlation_id, client_id=client_id)
        except FormatError as error:
            raise RequestFailed(error.code, str(error), may_have_applied=False) from None
        response = await self.exchange(owner_of(ApiKey(message.__api_key__)), frame, timeout_s)
        try:
            return decode_response(response, response_type, correlation_id=correlation_id)
        except FormatError as error:
            # The function ran, but its response cannot be read.
            raise RequestFailed(
                ErrorCode.NETWORK_EXCEPTION, f"the response is not a Kafka response: {error}", may_have_applied=True
            ) from None


class InProcessTransport(FrameTransport):
    """Passes frames straight to a dispatcher in this process.

    Args:
        dispatch: answers a frame for a function.
        loop: the event loop that owns the dispatcher, if the client runs on another (as the synchronous faces do).
        functions: answers calls of other functions, such as `triggers`; None: there are none.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        functions: Functions | None = None,
    ) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._loop = loop
        self._functions = functions

    async def connect(self, timeout_s: float) -> None:
        """Do nothing: there is no connection in this process."""
        return

    async def exchange(self, function: FunctionName, frame: bytes, timeout_s: float) -> bytes:
        """Pass one frame to a function and return its response. Raises RequestFailed if there is none in time."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._loop is None or self._loop is asyncio.get_running_loop():
                    return await self._dispatch(function, frame)
                return await asyncio.wrap_future(
                    asyncio.run_coroutine_threadsafe(self._run(function, frame), self._loop)
                )
        except TimeoutError:
            raise RequestFailed(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the {function} function did not answer within {timeout_s * 1000:.0f} ms",
                may_have_applied=True,
            ) from None

    async def _run(self, function: FunctionName, frame: bytes) -> bytes:
        return await self._dispatch(function, frame)

    async def call_function(self, name: str, method: str, path: str, body: bytes, timeout_s: float) -> dict[str, Any]:
        """Call a function that owns none of Kafka's APIs; return its JSON document.

        Raises RequestFailed: INVALID_CONFIG if there is no such function here; what the function refuses with.
        """
        if self._functions is None:
            raise RequestFailed(
                ErrorCode.INVALID_CONFIG, f"there is no function {name!r} in this process", may_have_applied=False
            )
        functions = self._functions

        async def called() -> tuple[int, Mapping[str, Any]]:
            return await functions(name, method, path, body)

        try:
            async with asyncio.timeout(timeout_s):
                if self._loop is None or self._loop is asyncio.get_running_loop():
                    status, document = await called()
                else:
                    status, document = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called(), self._loop))
        except TimeoutError:
            raise RequestFailed(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the {name} function did not answer within {timeout_s * 1000:.0f} ms",
                may_have_applied=True,
            ) from None
        if status != 200:
            raise RequestFailed(ErrorCode[document["error"]], str(document["message"]), may_have_applied=False)
        return dict(document)

    async def close(self) -> None:
        """Do nothing: the dispatcher belongs to the caller."""
        return
