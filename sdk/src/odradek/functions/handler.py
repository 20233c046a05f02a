"""One function: event -> Kafka frame -> dispatcher -> response.

    POST /                        one request frame of an API that this function owns -> 200, one response frame
                                  (200 with an empty body for a produce request with acks=0)
    GET /.well-known/odradek      on the coordinator: the addresses of the functions
    anything else                 4xx, {"error": <Kafka error name>, "message": <what to do>}

A client's mistake is never a 5xx. An unexpected exception is a 500 with the request id; only the log has its stack
trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

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
from odradek.functions.invoked import ANSWER_MARGIN_MS, Instruments, InvokedFunction, remaining_s
from odradek.functions.telemetry import Invocation
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.model.log import Buffer
from odradek.protocol.api import OWNED, ApiKey, FunctionName
from odradek.protocol.frame import parse_request_header
from odradek.tracing import Tracing


class FunctionHandler(InvokedFunction):
    """The handler of one function.

    Args:
        name: the function's name; frames of APIs that it does not own are refused.
        dispatcher: answers the frames.
        instruments: measure the invocations; their meter is the one into which the engine's adapters count.
        discovery: the document of GET /.well-known/odradek; None if this function has none.
        tracing: creates a span for every invocation, a child of the caller's.
    """

    def __init__(
        self,
        name: FunctionName,
        dispatcher: Dispatcher,
        instruments: Instruments,
        *,
        discovery: Discovery | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(name.value, instruments)
        self.name = name
        self._dispatcher = dispatcher
        self._discovery = discovery
        self._tracing = tracing
        self._owned = OWNED[name]

    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        """Answer one event: 200, or 4xx and 504 if the request is refused."""
        try:
            response = await self._traced(event, context, invocation)
        except RequestRejected as rejected:
            invocation.error, invocation.errors = rejected.code.name, 1
            response = rejection_response(rejected, context.aws_request_id)
        invocation.status = response["statusCode"]
        return response

    def answer_to_fault(self, request_id: str) -> Response:
        return rejection_response(_fault(request_id), request_id)

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
                f"not found: GET {DISCOVERY_PATH} of the coordinator lists the functions",
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
        try:
            async with asyncio.timeout(remaining_s(context, ANSWER_MARGIN_MS)):
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
                "the function timed out, and it is unknown whether the request was applied: repeat it unchanged",
            ) from None
        except BadFrame as bad:
            raise RequestRejected(bad.http_status, bad.code, bad.message) from None


def _describe_frame(frame: bytes, invocation: Invocation) -> None:
    """Note the frame's header for the log; errors are left to the dispatcher."""
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
        f"unexpected error: see the function's log, request id {request_id}",
    )
