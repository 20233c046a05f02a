"""The local function-URL server: HTTP, SigV4, events, limits, and the functions behind it.

    GET  /.well-known/odradek           -> coordinator
    POST /produce  /fetch  /coordinator  /admin
    ANY  /registry/<path>  /triggers/<path>   -> the schema registry, triggers
    ANY  /<function>/<path>             -> that function, which sees /<path>

Lambda's refusals (403 unsigned, 413 too large, 502 an unusable response, 504 timeout) are returned here, in AWS's form,
before or instead of the function. Every request must be signed, discovery included. All functions run on one loop; a
long poll holds no thread.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from aiohttp import web

from odradek.functions.event import DISCOVERY_PATH
from odradek.functions.handler import FunctionHandler
from odradek.functions.invoked import InvokedFunction
from odradek.functions.metrics import CONTENT_TYPE
from odradek.http.browsers import from_browser, host_of
from odradek.http.port import HttpPort
from odradek.http.ports import FUNCTION_URLS
from odradek.local.context import LocalContext
from odradek.local.function_url import HttpResponse, ServiceRefused, build_event, read_response
from odradek.local.sigv4 import SignatureRefused, SignedRequest, SigningKey, verify
from odradek.ports.clock import Clock
from odradek.protocol.api import FunctionName
from odradek.settings import Settings

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_ERROR_TYPES = {408: "RequestTimeoutException", 413: "RequestTooLargeException", 500: "InternalServerErrorException"}


@dataclass(frozen=True, slots=True)
class FunctionLimits:
    """The configuration of the functions, as on Lambda."""

    memory_mb: int = 1769  # one whole vCPU
    timeout_s: float = 30.0


class FunctionUrlServer:
    """Serves the functions on one address.

    Args:
        functions: the handlers by name.
        key: verifies signatures.
        clock: for signatures, deadlines and events.
        limits: memory and time of every function.
        metrics: returns Prometheus text for GET /metrics from this machine, which need not be signed; None: not served.
        more: functions that own none of Kafka's APIs, at /<name>: the schema registry, triggers.
        settings: limits of connections and of time.
    """

    def __init__(
        self,
        functions: Mapping[FunctionName, FunctionHandler],
        *,
        key: SigningKey,
        clock: Clock,
        limits: FunctionLimits,
        metrics: Callable[[], Awaitable[str]] | None = None,
        more: Mapping[str, InvokedFunction] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._port = HttpPort(FUNCTION_URLS, self._serve, settings=settings or Settings(), clock=clock, refuse=_refusal)
        self._more = dict(more or {})
        self._metrics = metrics
        self._functions = functions
        self._key = key
        self._clock = clock
        self._limits = limits

    async def start(self, listener: socket.socket) -> None:
        """Serve on a listening socket, which is closed with the server."""
        await self._port.start(listener)

    async def stop(self) -> None:
        """Stop listening, let what runs finish for a moment, close the rest. May be repeated."""
        await self._port.stop()

    async def _serve(self, request: web.BaseRequest, _: str | None) -> web.StreamResponse:
        request_id = str(uuid.uuid4())
        try:
            if self._metrics is not None and request.method == "GET" and _is_for_metrics(request):
                return web.Response(
                    text=await self._metrics(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
                )
            answer = await self._answer(request, request_id)
        except ServiceRefused as refused:
            answer = refused.response(request_id)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def _answer(self, request: web.BaseRequest, request_id: str) -> HttpResponse:
        path, _, query = request.raw_path.partition("?")
        body = await self._port.read_body(request)
        signed = SignedRequest(request.method, path, query, list(request.headers.items()), body)
        try:
            verify(signed, self._key, self._clock.now_ms())
        except SignatureRefused as refused:
            raise ServiceRefused(403, refused.error_type, str(refused)) from None
        function, raw_path = route(path, self._more)
        handler = self._more.get(function) or self._functions[FunctionName(function)]
        event = build_event(
            signed,
            raw_path=raw_path,
            access_key_id=self._key.access_key_id,
            source_ip=request.remote or "",
            request_id=request_id,
            now_ms=self._clock.now_ms(),
        )
        context = LocalContext(
            function_name=f"odradek-{function}",
            memory_limit_in_mb=self._limits.memory_mb,
            aws_request_id=request_id,
            deadline_s=self._clock.monotonic() + self._limits.timeout_s,
            monotonic=self._clock.monotonic,
        )
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                response = await handler.handle(event, context)
        except TimeoutError:
            raise ServiceRefused(
                504, "Sandbox.Timedout", f"Task timed out after {self._limits.timeout_s:.2f} seconds"
            ) from None
        return read_response(response)


def _is_for_metrics(request: web.BaseRequest) -> bool:
    """Return True for /metrics requested from this machine by a local host name (not by a page of another site)."""
    if request.raw_path != "/metrics" or from_browser(request.headers):
        return False
    return request.remote in _LOOPBACK and host_of(request.headers.get("Host", "")) in _LOOPBACK


def route(path: str, more: Iterable[str] = ()) -> tuple[str, str]:
    """Return the function of a path, and the path within its URL. Raises ServiceRefused(404).

    Args:
        more: names of functions that own none of Kafka's APIs.
    """
    if path == DISCOVERY_PATH:
        return FunctionName.COORDINATOR.value, path
    name, _, path_rest = path.removeprefix("/").partition("/")
    names = [*(function.value for function in FunctionName), *more]
    if name not in names:
        known_paths = ", ".join(f"/{name}" for name in names)
        raise ServiceRefused(404, "ResourceNotFoundException", f"There is no function at {path!r}: use {known_paths}.")
    return name, f"/{path_rest}"


def _refusal(status: int, message: str) -> web.Response:
    refused = ServiceRefused(status, _ERROR_TYPES.get(status, "InvalidRequestContentException"), message)
    answer = refused.response(str(uuid.uuid4()))
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
