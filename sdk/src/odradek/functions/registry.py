"""The schema registry as a function: function-URL events to `registry.api` and back.

Unlike the functions of Kafka's APIs it accepts any path, and JSON as text or in base64, depending on the content type.
An unexpected exception is a 500 with the request id; only the log has its stack trace.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from odradek.functions.context import LambdaContext
from odradek.functions.environment import REGISTRY
from odradek.functions.event import ANONYMOUS, Event, Response
from odradek.functions.invoked import ANSWER_MARGIN_MS, Instruments, InvokedFunction, remaining_s
from odradek.functions.telemetry import Invocation
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.registry.api import CONTENT_TYPE, RegistryApi, Request, Text


class RegistryHandler(InvokedFunction):
    """The handler of the registry function.

    Args:
        api: answers the requests.
        instruments: measure the invocations.
    """

    def __init__(self, api: RegistryApi, instruments: Instruments) -> None:
        super().__init__(REGISTRY, instruments)
        self._api = api

    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        """Answer one event; never raises for a bad one."""
        invocation.api = "REGISTRY"
        response = await self._answer(event, context, invocation)
        invocation.status, invocation.bytes_out = response["statusCode"], len(response["body"])
        return response

    def answer_to_fault(self, request_id: str) -> Response:
        message = f"unexpected error: see the function's log, request id {request_id}"
        return http_response(500, {"error_code": 500, "message": message})

    async def _answer(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        request = parse_request(event)
        if isinstance(request, str):
            invocation.errors = 1
            return http_response(400, {"error_code": 400, "message": request})
        invocation.principal, invocation.bytes_in = request.principal, len(request.body)
        try:
            async with asyncio.timeout(remaining_s(context, ANSWER_MARGIN_MS)):
                status, document = await self._api.answer(request)
        except TimeoutError:
            status, document = 500, {"error_code": 50002, "message": "The registry timed out: try again"}
        if status >= 400:
            invocation.errors, invocation.error = 1, str(document["error_code"])
        return http_response(status, document)


def parse_request(event: Event) -> Request | str:
    """Return the request of an event, or a message that says what is wrong with it."""
    context = event.get("requestContext") if isinstance(event, Mapping) else None
    http = context.get("http") if isinstance(context, Mapping) else None
    if not isinstance(context, Mapping) or not isinstance(http, Mapping):
        return "not a function-URL event (payload format 2.0): call the function's URL"
    body = event.get("body") or ""
    try:
        data = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") is True else str(body).encode()
    except (binascii.Error, ValueError):
        return "the body is declared as base64 but does not decode"
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
    """Return a response of the API as the function's response."""
    body = str(document) if isinstance(document, Text) else json.dumps(document)
    if len(body) > FUNCTION_BINARY_BYTES_MAX:
        status = 422
        body = json.dumps(
            {"error_code": 422, "message": "the response is too large for a function: request it with a limit"}
        )
    return {
        "statusCode": status,
        "headers": {"content-type": CONTENT_TYPE},
        "body": body,
        "isBase64Encoded": False,
    }
