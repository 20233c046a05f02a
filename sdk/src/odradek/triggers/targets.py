"""What a trigger calls: a Lambda function, a URL, or a function of this process.

A target takes the event as JSON and returns the response, or raises `CallFailed`. A URL is called with POST, signed as
Standard Webhooks has it: `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,<base64 of HMAC-SHA256>` over
"<id>.<timestamp>.<body>" under the trigger's secret ("whsec_" and base64). Source: standardwebhooks.com, specification.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import importlib
import inspect
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.errors import ErrorCode, KafkaError, OdradekError
from odradek.model.trigger import FunctionKind, Trigger
from odradek.ports.clock import Clock

SECRET_PREFIX = "whsec_"  # noqa: S105 (how a secret begins)
_RESPONSE_BYTES_MAX = 6 * 1024 * 1024


class CallFailed(Exception):
    """The function raised, did not answer in time, or could not be called. The text says what it said."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        call_id: the same for repetitions of a batch.
        event: as JSON.
        timeout_s: after which it counts as failed.
    """

    trigger: Trigger
    call_id: str
    event: bytes
    timeout_s: float


class Target(Protocol):
    """Something that can be called."""

    async def call(self, call: Call) -> bytes:
        """Return the response. Raises CallFailed."""
        ...


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
    """

    def __init__(self, handlers: Mapping[str, Handler] | None = None, modules: tuple[str, ...] = ()) -> None:
        self._handlers = dict(handlers or {})
        self._modules = modules

    def find(self, function: str) -> Handler:
        """Return a handler. Raises KafkaError(INVALID_REQUEST): there is none, or its module is not allowed."""
        if function in self._handlers:
            return self._handlers[function]
        module, _, name = function.partition(":")
        if not any(module == each or module.startswith(f"{each}.") for each in self._modules):
            raise _refused(
                f"{function!r} may not be called: start the service with its module "
                f"(--trigger-modules {module.partition('.')[0]})"
            )
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise _refused(f"{function!r} cannot be imported: {error}") from None
        if not callable(found):
            raise _refused(f"{function!r} is not a function")
        handler: Handler = found
        return handler

    async def call(self, call: Call) -> bytes:
        try:
            handler = self.find(call.trigger.function)
        except KafkaError as error:
            raise CallFailed(error.message) from None
        context = Context(call.trigger.function, call.call_id, call.timeout_s)
        event = json.loads(call.event)
        try:
            async with asyncio.timeout(call.timeout_s):
                if inspect.iscoroutinefunction(handler):
                    answer = await handler(event, context)
                else:
                    answer = await asyncio.to_thread(handler, event, context)
            return b"" if answer is None else json.dumps(answer).encode()
        except TimeoutError:
            raise CallFailed(f"Task timed out after {call.timeout_s:.2f} seconds") from None
        except Exception as error:  # the user's code: whatever it raises is its failure
            raise CallFailed(f"{type(error).__name__}: {error}") from error


class WebhookTarget:
    """Calls a URL with POST; an answer of 2xx is a success.

    Args:
        clock: for the signature's timestamp.
        allow_http: URLs without TLS, too.
    """

    def __init__(self, clock: Clock, *, allow_http: bool) -> None:
        self._clock = clock
        self._allow_http = allow_http

    async def call(self, call: Call) -> bytes:
        url = call.trigger.function
        if url.startswith("http://") and not self._allow_http:
            raise CallFailed(f"{url} is not called: use https")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "odradek-trigger",
            **signature(call.trigger.secret, call.call_id, self._clock.now_ms() // 1000, call.event),
        }
        request = urllib.request.Request(url, call.event, headers, method="POST")  # noqa: S310 (http or https: checked)
        return await asyncio.to_thread(_post, request, call.timeout_s)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer that is not a success: records go to the address that was given, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _post(request: urllib.request.Request, timeout_s: float) -> bytes:
    try:
        with _OPENER.open(request, timeout=timeout_s) as response:
            body: bytes = response.read(_RESPONSE_BYTES_MAX)
            return body
    except urllib.error.HTTPError as error:
        text = error.read(300).decode("utf-8", "replace")
        raise CallFailed(f"HTTP {error.code} {error.reason}: {text}") from None
    except (OSError, ValueError) as error:
        raise CallFailed(f"{type(error).__name__}: {error}") from None


def signature(secret: str, call_id: str, time_s: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a call; none without a secret."""
    if not secret:
        return {}
    signed = f"{call_id}.{time_s}.".encode() + body
    digest = hmac.new(secret_key(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": call_id,
        "webhook-timestamp": str(time_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def secret_key(secret: str) -> bytes:
    """Return the key of a secret. Raises KafkaError(INVALID_REQUEST)."""
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise _refused(f"a secret must be base64, with {SECRET_PREFIX} before it") from None


def new_secret(random_bytes: bytes) -> str:
    """Return a secret of these bytes, 24 or more."""
    return f"{SECRET_PREFIX}{base64.b64encode(random_bytes).decode()}"


class Targets:
    """The targets of one dispatcher, by kind.

    Args:
        by_kind: those that it has.
    """

    def __init__(self, by_kind: Mapping[FunctionKind, Target]) -> None:
        self._by_kind = by_kind

    async def call(self, call: Call) -> bytes:
        """Return the response. Raises CallFailed."""
        target = self._by_kind.get(call.trigger.kind)
        if target is None:
            known = ", ".join(sorted(self._by_kind))
            raise CallFailed(f"this service calls {known}, not {call.trigger.kind.value} {call.trigger.function!r}")
        return await target.call(call)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


class Invoker(Protocol):
    """Invokes Lambda functions (adapters/aws/outside.py)."""

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        """Return the response. Raises OdradekError."""
        ...


class LambdaTarget:
    """Invokes Lambda functions and waits for their response.

    Args:
        invoker: created at the first call: only who calls a function needs AWS.
    """

    def __init__(self, invoker: Callable[[], Invoker]) -> None:
        self._create = invoker
        self._invoker: Invoker | None = None

    async def call(self, call: Call) -> bytes:
        if self._invoker is None:
            self._invoker = self._create()
        try:
            return await self._invoker.invoke(call.trigger.function, call.event, call.timeout_s)
        except OdradekError as error:
            raise CallFailed(str(error)) from None
