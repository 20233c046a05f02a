"""Served tables as a function: function-URL events to `served.api` and back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pybase64

from odradek.functions.context import LambdaContext
from odradek.functions.environment import TABLES
from odradek.functions.event import Event, Response, json_response
from odradek.functions.invoked import ANSWER_MARGIN_MS, Instruments, InvokedFunction, remaining_s
from odradek.functions.registry import parse_request
from odradek.functions.telemetry import Invocation
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.served.api import Request, TablesApi

_BASE64_FROM = 1 << 20
_TOO_LARGE = "the answer is larger than a function may return: ask for fewer rows with limit, or for fewer keys"


class TablesHandler(InvokedFunction):
    """The handler of the tables function.

    Args:
        api: answers the requests.
        instruments: measure the invocations.
    """

    def __init__(self, api: TablesApi, instruments: Instruments) -> None:
        super().__init__(TABLES, instruments)
        self._api = api

    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        """Answer one event; never raises for a bad one."""
        invocation.api = "TABLES"
        parsed = parse_request(event)
        if isinstance(parsed, str):
            invocation.errors = 1
            return json_response(400, {"error": "INVALID_REQUEST", "message": parsed})
        invocation.principal, invocation.bytes_in = parsed.principal, len(parsed.body)
        raw_headers = event.get("headers")
        headers = (
            {str(name).lower(): str(value) for name, value in raw_headers.items()}
            if isinstance(raw_headers, Mapping)
            else {}
        )
        request = Request(
            parsed.method, parsed.path, parsed.query, parsed.body, parsed.principal, parsed.client_host, headers
        )
        try:
            async with asyncio.timeout(remaining_s(context, ANSWER_MARGIN_MS)):
                answer = await self._api.answer(request)
        except TimeoutError:
            invocation.errors, invocation.error = 1, "REQUEST_TIMED_OUT"
            return json_response(504, {"error": "REQUEST_TIMED_OUT", "message": "the store did not answer: try again"})
        if answer.status >= 400:
            invocation.errors, invocation.error = 1, str(answer.status)
        body = answer.body
        if len(body) > FUNCTION_BINARY_BYTES_MAX:
            invocation.errors, invocation.error = 1, "RECORD_LIST_TOO_LARGE"
            return json_response(413, {"error": "RECORD_LIST_TOO_LARGE", "message": _TOO_LARGE})
        invocation.status, invocation.bytes_out = answer.status, len(body)
        sent = {"content-type": answer.content_type, "cache-control": "no-store"}
        # A text is escaped in the function's payload, and may double; base64 grows by a third.
        is_large = len(body) > _BASE64_FROM
        content = pybase64.b64encode_as_string(body.encode()) if is_large else body
        return {"statusCode": answer.status, "headers": sent, "body": content, "isBase64Encoded": is_large}

    def answer_to_fault(self, request_id: str) -> Response:
        message = f"unexpected error: see the function's log, request id {request_id}"
        return json_response(500, {"error": "UNKNOWN_SERVER_ERROR", "message": message})
