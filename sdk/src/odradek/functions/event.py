"""Function-URL events (payload format 2.0) to requests, results to responses. Pure.

    event                                            FunctionRequest
    requestContext.http.method, .path                method, path
    body, isBase64Encoded: true                      body (decoded)
    requestContext.authorizer.iam.userArn            principal "User:<arn>"
    requestContext.requestId                         request_id

A client's mistake becomes a `RequestRejected`, answered as 4xx with `{"error": <Kafka error name>, "message": <what to
do>}`, never an exception of the function. Source: AWS Lambda developer guide, "Function URL request and response
payloads".

base64 is decoded with pybase64: for a large frame the standard library needs half of a function's time.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pybase64

from odradek.errors import ErrorCode
from odradek.limits import FUNCTION_BINARY_BYTES_MAX, FUNCTION_PAYLOAD_BYTES_MAX
from odradek.model.log import Buffer

Event = Mapping[str, Any]
Response = dict[str, Any]

DISCOVERY_PATH = "/.well-known/odradek"
FRAME_CONTENT_TYPE = "application/octet-stream"
JSON_CONTENT_TYPE = "application/json"
ANONYMOUS = "User:ANONYMOUS"

# The bytes around the body in a response: status, headers, quotes. Measured 118; the bound is generous.
_RESPONSE_ENVELOPE_BYTES = 1024
_BODY_CHARACTERS_MAX = (FUNCTION_BINARY_BYTES_MAX + 2) // 3 * 4


class RequestRejected(Exception):
    """The request is answered with an HTTP error before it reaches the dispatcher.

    Attributes:
        status: HTTP status, 4xx (5xx only if the caller is not at fault).
        code: the Kafka error code whose name is shown.
        message: one sentence that says what to do.
    """

    def __init__(self, status: int, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class FunctionRequest:
    """One HTTP request to a function URL."""

    method: str
    path: str
    body: bytes
    principal: str  # Kafka's form "User:<name>"; the name is the caller's ARN
    request_id: str
    domain_name: str  # host that the client called
    source_ip: str


def parse_event(event: Event) -> FunctionRequest:
    """Parse an event. Raises RequestRejected for an event that is not a valid request."""
    context = event.get("requestContext") if isinstance(event, Mapping) else None
    http = context.get("http") if isinstance(context, Mapping) else None
    if not isinstance(context, Mapping) or not isinstance(http, Mapping):
        raise RequestRejected(
            400, ErrorCode.INVALID_REQUEST, "not a function-URL event (payload format 2.0): call the function's URL"
        )
    return FunctionRequest(
        method=str(http.get("method", "")).upper(),
        path=str(event.get("rawPath") or http.get("path") or "/"),
        body=_parse_body(event),
        principal=_parse_principal(context),
        request_id=str(context.get("requestId", "")),
        domain_name=str(context.get("domainName", "")),
        source_ip=str(http.get("sourceIp", "")),
    )


def _parse_body(event: Event) -> bytes:
    body = event.get("body")
    if body is None or body == "":
        return b""
    if not isinstance(body, str) or event.get("isBase64Encoded") is not True:
        raise RequestRejected(
            400, ErrorCode.INVALID_REQUEST, f"the body must be binary: send Content-Type: {FRAME_CONTENT_TYPE}"
        )
    if len(body) > _BODY_CHARACTERS_MAX:
        raise RequestRejected(
            413,
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a request may have at most {FUNCTION_BINARY_BYTES_MAX} bytes: lower max_request_size or batch_size",
        )
    try:
        return pybase64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise RequestRejected(
            400, ErrorCode.INVALID_REQUEST, "the body is declared as base64 but does not decode"
        ) from None


def _parse_principal(context: Mapping[str, Any]) -> str:
    authorizer = context.get("authorizer")
    iam = authorizer.get("iam") if isinstance(authorizer, Mapping) else None
    arn = iam.get("userArn") if isinstance(iam, Mapping) else None
    return f"User:{arn}" if arn else ANONYMOUS


def frame_response(parts: Sequence[Buffer]) -> Response:
    """Return a response with one Kafka frame. Raises RequestRejected if it does not fit a function's payload."""
    body = b"".join(parts)
    encoded_bytes = (len(body) + 2) // 3 * 4
    if encoded_bytes + _RESPONSE_ENVELOPE_BYTES > FUNCTION_PAYLOAD_BYTES_MAX:
        raise RequestRejected(
            413,
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the response has {len(body)} bytes, more than a function can return: request fewer partitions or bytes",
        )
    return {
        "statusCode": 200,
        "headers": {"content-type": FRAME_CONTENT_TYPE},
        "body": pybase64.b64encode_as_string(body),
        "isBase64Encoded": True,
    }


def json_response(status: int, document: Mapping[str, Any]) -> Response:
    """Return a JSON response."""
    return {
        "statusCode": status,
        "headers": {"content-type": JSON_CONTENT_TYPE},
        "body": json.dumps(document),
        "isBase64Encoded": False,
    }


def rejection_response(rejected: RequestRejected, request_id: str) -> Response:
    """Return the response to a rejected request."""
    response = json_response(
        rejected.status, {"error": rejected.code.name, "message": rejected.message, "requestId": request_id}
    )
    if rejected.status == 405:
        response["headers"]["allow"] = "POST"
    return response
