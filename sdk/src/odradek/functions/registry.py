"""The schema registry as a function: function-URL events to `registry.api` and back.

Unlike the functions of Kafka's APIs it takes JSON, as text or in base64 as the content type has it, and any path. An
unexpected exception is a 500 that names the request id; its stack trace goes to the log alone.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from odradek.functions.context import LambdaContext
from odradek.functions.environment import REGISTRY
from odradek.functions.event import ANONYMOUS, Event, Response
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import Invocation, WriteLine, fault_line, invocation_line, write_stdout
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.ports.clock import Clock
from odradek.ports.meter import Usage
from odradek.registry.api import CONTENT_TYPE, RegistryApi, Request, Text

_DEADLINE_MARGIN_MS = 250


class RegistryHandler:
    """The handler of the registry function.

    Args:
        api: what answers.
        clock, meter, cluster_id, write_line, observe: as functions.handler.FunctionHandler's.
    """

    def __init__(
        self,
        api: RegistryApi,
        *,
        clock: Clock,
        meter: InvocationMeter,
        cluster_id: str = "odradek",
        write_line: WriteLine = write_stdout,
        observe: Callable[[Invocation, Usage], None] | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._meter = meter
        self._cluster_id = cluster_id
        self._write_line = write_line
        self._observe = observe
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
        invocation = Invocation(self._cluster_id, REGISTRY, request_id, cold_start=self._is_cold, api="REGISTRY")
        self._is_cold = False
        with self._meter.invocation() as tally:
            try:
                response = await self._answer(event, context, invocation)
            except Exception:
                invocation.error, invocation.faults = "UNKNOWN_SERVER_ERROR", 1
                self._write_line(fault_line(request_id, REGISTRY, traceback.format_exc()))
                message = f"an unexpected error; its cause is in the function's log under request id {request_id}"
                response = http_response(500, {"error_code": 500, "message": message})
            invocation.status = response["statusCode"]
            invocation.bytes_out = len(response["body"])
            invocation.duration_ms = (self._clock.monotonic() - started) * 1000
            gb_seconds = -(-invocation.duration_ms // 1) / 1000 * int(context.memory_limit_in_mb) / 1024
            self._meter.add("Invoke", Usage(function_requests=1, function_gb_seconds=gb_seconds))
        self._write_line(invocation_line(invocation, tally.usage, self._clock.now_ms()))
        if self._observe is not None:
            self._observe(invocation, tally.usage)
        return response

    async def _answer(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        request = parse_request(event)
        if isinstance(request, str):
            invocation.errors = 1
            return http_response(400, {"error_code": 400, "message": request})
        invocation.principal, invocation.bytes_in = request.principal, len(request.body)
        deadline_ms = context.get_remaining_time_in_millis() - _DEADLINE_MARGIN_MS
        try:
            async with asyncio.timeout(max(0.0, deadline_ms / 1000)):
                status, document = await self._api.answer(request)
        except TimeoutError:
            status, document = 500, {"error_code": 50002, "message": "The registry ran out of time: try again"}
        if status >= 400:
            invocation.errors, invocation.error = 1, str(document["error_code"])
        return http_response(status, document)


def parse_request(event: Event) -> Request | str:
    """The request of an event, or what is wrong with it."""
    context = event.get("requestContext") if isinstance(event, Mapping) else None
    http = context.get("http") if isinstance(context, Mapping) else None
    if not isinstance(context, Mapping) or not isinstance(http, Mapping):
        return "not a function-URL event (payload format 2.0): call the function's URL"
    body = event.get("body") or ""
    try:
        data = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") is True else str(body).encode()
    except (binascii.Error, ValueError):
        return "the body is marked as base64 but does not decode"
    return Request(
        method=str(http.get("method", "")).upper(),
        path=str(event.get("rawPath") or "/"),
        query=str(event.get("rawQueryString") or ""),
        body=data,
        principal=_principal(context),
        client_host=str(http.get("sourceIp", "")),
    )


def _principal(context: Mapping[str, Any]) -> str:
    authorizer = context.get("authorizer")
    iam = authorizer.get("iam") if isinstance(authorizer, Mapping) else None
    arn = iam.get("userArn") if isinstance(iam, Mapping) else None
    return f"User:{arn}" if arn else ANONYMOUS


def http_response(status: int, document: Any) -> Response:
    """An answer of the API as a function's response."""
    body = str(document) if isinstance(document, Text) else json.dumps(document)
    if len(body) > FUNCTION_BINARY_BYTES_MAX:
        status = 422
        body = json.dumps({"error_code": 422, "message": "the answer is too large for a function: ask with a limit"})
    return {
        "statusCode": status,
        "headers": {"content-type": CONTENT_TYPE},
        "body": body,
        "isBase64Encoded": False,
    }
