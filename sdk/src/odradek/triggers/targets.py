"""Targets of triggers: a Lambda function, a URL (webhooks.py), or a function of this process.

A target takes the event as JSON and returns the response, or raises `CallFailed` (calls.py). Each call under way
occupies a thread; drains take slots for their calls, so that none waits for a thread while its lease runs out.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import FunctionKind
from odradek.ports.outside import Outside, OutsideFailed, OutsideRefused, PayloadTooLarge
from odradek.triggers.calls import Call, CallFailed, CallRefused, CallTooLarge, Target
from odradek.triggers.reach import Reach


@dataclass(frozen=True, slots=True)
class Context:
    """Lambda's context object, for handlers in this process."""

    function_name: str
    aws_request_id: str
    timeout_s: float
    memory_limit_in_mb: str = "1769"
    function_version: str = "$LATEST"

    @property
    def invoked_function_arn(self) -> str:
        return f"arn:aws:lambda:local:000000000000:function:{self.function_name}"

    @property
    def log_group_name(self) -> str:
        return f"/aws/lambda/{self.function_name}"

    @property
    def log_stream_name(self) -> str:
        return "local"

    def get_remaining_time_in_millis(self) -> int:
        """The whole time of the call: how much of it is left is not known here."""
        return int(1000 * self.timeout_s)


Handler = Callable[[Any, Any], Any]


class HandlerTarget:
    """Calls functions of this process in threads; coroutine functions on the loop.

    Args:
        handlers: by the name under which triggers call them.
        modules: of which `module:handler` may be imported, with what is below them; nothing else is.
        threads: in which functions run; None: those of the loop.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler] | None = None,
        modules: tuple[str, ...] = (),
        threads: Executor | None = None,
    ) -> None:
        self._handlers = dict(handlers or {})
        self._modules = modules
        self._threads = threads

    def find(self, function: str) -> Handler:
        """Return a handler. Raises KafkaError(INVALID_REQUEST): there is none, or its module is not allowed."""
        if function in self._handlers:
            return self._handlers[function]
        module, _, name = function.partition(":")
        if not any(module == allowed or module.startswith(f"{allowed}.") for allowed in self._modules):
            raise _refused(
                f"{function!r} may not be called: start the service with its module "
                f"(--trigger-modules {module.partition('.')[0]})"
            )
        try:
            target: Any = importlib.import_module(module)
            for part in name.split("."):
                target = getattr(target, part)
        except (ImportError, AttributeError) as error:
            raise _refused(f"{function!r} cannot be imported: {error}") from None
        if not callable(target):
            raise _refused(f"{function!r} is not a function")
        handler: Handler = target
        return handler

    async def call(self, call: Call) -> bytes:
        try:
            handler = self.find(call.trigger.function)
        except KafkaError as error:
            raise CallRefused(error.message) from None
        context = Context(call.trigger.function, call.call_id, call.timeout_s)
        event = json.loads(call.event)
        try:
            async with asyncio.timeout(call.timeout_s):
                if inspect.iscoroutinefunction(handler):
                    result = await handler(event, context)
                else:
                    loop = asyncio.get_running_loop()
                    result = await loop.run_in_executor(self._threads, handler, event, context)
            return b"" if result is None else json.dumps(result).encode()
        except TimeoutError:
            raise CallFailed(f"Task timed out after {call.timeout_s:.2f} seconds") from None
        except Exception as error:  # the user's code: whatever it raises is its failure
            raise CallFailed(f"{type(error).__name__}: {error}") from error


class Targets:
    """The targets of one dispatcher, by kind.

    Args:
        by_kind: those that it has.
        reach: what may be called; looked at with each call, since an operator may have changed it.
    """

    def __init__(self, by_kind: Mapping[FunctionKind, Target], reach: Reach) -> None:
        self._by_kind = by_kind
        self._reach = reach

    async def call(self, call: Call) -> bytes:
        """Return the response. Raises CallFailed, CallRefused, CallTooLarge."""
        if refusal := self._reach.refusal_of(call.trigger.function):
            raise CallRefused(refusal)
        target = self._by_kind.get(call.trigger.kind)
        if target is None:
            kinds = ", ".join(sorted(self._by_kind))
            raise CallRefused(f"this service calls {kinds}, not {call.trigger.kind.value} {call.trigger.function!r}")
        return await target.call(call)


class LambdaTarget:
    """Invokes Lambda functions and waits for their response.

    Args:
        outside: created at the first call: only who calls a function needs AWS.
    """

    def __init__(self, outside: Callable[[], Outside]) -> None:
        self._create = outside
        self._outside: Outside | None = None

    async def call(self, call: Call) -> bytes:
        if self._outside is None:
            self._outside = self._create()
        try:
            return await self._outside.invoke(call.trigger.function, call.event, call.timeout_s)
        except PayloadTooLarge as error:
            raise CallTooLarge(str(error)) from None
        except OutsideRefused as error:
            raise CallRefused(str(error)) from None
        except OutsideFailed as error:
            raise CallFailed(str(error)) from None


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
