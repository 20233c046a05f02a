"""One function: event -> Kafka frame -> dispatcher -> response.

    POST /                        one request frame of an API that this function owns -> 200, one response frame
                                  (200 with an empty body for a produce request with acks=0)
    GET /.well-known/odradek      on the coordinator: where the functions are
    anything else                 4xx, {"error": <Kafka error name>, "message": <what to do>}

The core is async (`handle`): the embedded service awaits it on its own loop, so that a long poll holds no thread.
Lambda calls the object itself; that runs the core on one loop a process, kept over warm invocations. A client's mistake
is never a 5xx; an unexpected exception is a 500 that names the request id, and its stack trace goes to the log alone.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping

from odradek.dispatcher import BadFrame, Dispatcher, RequestContext
from odradek.errors import ErrorCode, FormatError
from odradek.functions.context import LambdaContext
from odradek.functions.discovery import Discovery
from odradek.functions.event import (
    DISCOVERY_PATH,
    Event,
    FunctionRequest,
    RequestRejected,
    Response,
    frame_response,
    json_response,
    parse_event,
    rejection_response,
)
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import Invocation, WriteLine, fault_line, invocation_line, write_stdout
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.model.log import Buffer
from odradek.ports.clock import Clock
from odradek.ports.meter import Usage
from odradek.protocol.api import OWNED, ApiKey, FunctionName
from odradek.protocol.frame import parse_request_header
from odradek.tracing import Tracing

# Answer this long before Lambda would end the invocation: a 504 that says what happened beats a cut connection.
_DEADLINE_MARGIN_MS = 250


class FunctionHandler:
    """The handler of one function.

    Args:
        name: which function this is; frames of APIs that it does not own are refused.
        dispatcher: answers the frames.
        clock: for durations and the log's timestamps.
        meter: the meter that the engine's adapters count into.
        discovery: what GET /.well-known/odradek answers; None where this function does not answer it.
        cluster_id: dimension of the metrics.
        write_line: where the log goes, one JSON object a line.
        observe: is told of every invocation as well (functions/metrics.py).
        tracing: makes a span of every invocation, a child of the caller's.
    """

    def __init__(
        self,
        name: FunctionName,
        dispatcher: Dispatcher,
        *,
        clock: Clock,
        meter: InvocationMeter,
        discovery: Discovery | None = None,
        cluster_id: str = "odradek",
        write_line: WriteLine = write_stdout,
        observe: Callable[[Invocation, Usage], None] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._observe = observe
        self._tracing = tracing
        self.name = name
        self._dispatcher = dispatcher
        self._clock = clock
        self._meter = meter
        self._discovery = discovery
        self._cluster_id = cluster_id
        self._write_line = write_line
        self._owned = OWNED[name]
        self._runner: asyncio.Runner | None = None
        self._is_cold = True

    def __call__(self, event: Event, context: LambdaContext) -> Response:
        """What Lambda calls."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self.handle(event, context))

    async def handle(self, event: Event, context: LambdaContext) -> Response:
        """Answer one event. Raises nothing for any event."""
        started = self._clock.monotonic()
        request_id = context.aws_request_id
        invocation = Invocation(self._cluster_id, self.name.value, request_id, cold_start=self._is_cold)
        self._is_cold = False
        with self._meter.invocation() as tally:
            try:
                response = await self._traced(event, context, invocation)
            except RequestRejected as rejected:
                invocation.error, invocation.errors = rejected.code.name, 1
                response = rejection_response(rejected, request_id)
            except Exception:
                invocation.error, invocation.faults = ErrorCode.UNKNOWN_SERVER_ERROR.name, 1
                self._write_line(fault_line(request_id, self.name.value, traceback.format_exc()))
                response = rejection_response(_fault(request_id), request_id)
            invocation.status = response["statusCode"]
            invocation.duration_ms = (self._clock.monotonic() - started) * 1000
            self._count(invocation, context)
        self._write_line(invocation_line(invocation, tally.usage, self._clock.now_ms()))
        if self._observe is not None:
            self._observe(invocation, tally.usage)
        return response

    async def _traced(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        if self._tracing is None:
            return await self._answer(event, context, invocation)
        attributes = {
            "faas.trigger": "http",
            "faas.invocation_id": context.aws_request_id,
            "faas.name": self.name.value,
        }
        headers = event.get("headers") if isinstance(event, Mapping) else None
        parent = self._tracing.extract(headers if isinstance(headers, Mapping) else {})
        with self._tracing.span(self.name.value, "SERVER", attributes, parent) as span:
            response = await self._answer(event, context, invocation)
            span.update_name(invocation.api or self.name.value)
            span.set_attribute("messaging.system", "kafka")
            span.set_attribute("odradek.bytes_in", invocation.bytes_in)
            span.set_attribute("odradek.bytes_out", invocation.bytes_out)
            return response

    async def _answer(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        request = parse_event(event)
        invocation.principal, invocation.bytes_in = request.principal, len(request.body)
        if request.method == "GET":
            return self._discover(request)
        self._check_post(request)
        _describe_frame(request.body, invocation)
        parts = await self._dispatch(request, context) or []
        invocation.bytes_out = sum(map(len, parts))
        return frame_response(parts)

    def _discover(self, request: FunctionRequest) -> Response:
        if request.path != DISCOVERY_PATH or self._discovery is None:
            raise RequestRejected(
                404,
                ErrorCode.INVALID_REQUEST,
                f"nothing is here: GET {DISCOVERY_PATH} on the coordinator tells where the functions are",
            )
        return json_response(200, self._discovery.document(request.domain_name))

    def _check_post(self, request: FunctionRequest) -> None:
        if request.method != "POST":
            raise RequestRejected(405, ErrorCode.INVALID_REQUEST, "POST one Kafka request frame")
        if request.path != "/":
            raise RequestRejected(404, ErrorCode.INVALID_REQUEST, "POST to the root of the function's URL")
        if not request.body:
            raise RequestRejected(400, ErrorCode.INVALID_REQUEST, "the body is empty: it must be a Kafka request frame")

    async def _dispatch(self, request: FunctionRequest, context: LambdaContext) -> list[Buffer] | None:
        deadline_ms = context.get_remaining_time_in_millis() - _DEADLINE_MARGIN_MS
        try:
            async with asyncio.timeout(max(0.0, deadline_ms / 1000)):
                return await self._dispatcher.dispatch(
                    request.body,
                    RequestContext(
                        principal=request.principal,
                        client_host=request.source_ip,
                        transport="https",
                        allowed=self._owned,
                        max_response_bytes=FUNCTION_BINARY_BYTES_MAX,
                    ),
                )
        except TimeoutError:
            raise RequestRejected(
                504,
                ErrorCode.REQUEST_TIMED_OUT,
                "the function ran out of time; whether the request took effect is unknown: repeat it unchanged",
            ) from None
        except BadFrame as bad:
            raise RequestRejected(bad.http_status, bad.code, bad.message) from None

    def _count(self, invocation: Invocation, context: LambdaContext) -> None:
        """What Lambda bills: requests, and duration rounded up to a millisecond times memory."""
        gb_seconds = -(-invocation.duration_ms // 1) / 1000 * int(context.memory_limit_in_mb) / 1024
        self._meter.add(
            "Invoke",
            Usage(
                function_requests=1,
                function_gb_seconds=gb_seconds,
                payload_bytes_in=invocation.bytes_in,
                payload_bytes_out=invocation.bytes_out,
            ),
        )


def _describe_frame(frame: bytes, invocation: Invocation) -> None:
    """For the log; the dispatcher is the one that refuses."""
    try:
        header = parse_request_header(frame)
        invocation.api, invocation.api_version = ApiKey(header.api_key).name, header.api_version
        invocation.client_id = header.client_id
    except (FormatError, ValueError):
        return


def _fault(request_id: str) -> RequestRejected:
    return RequestRejected(
        500,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"an unexpected error; its cause is in the function's log under request id {request_id}",
    )
