"""HTTP to function-URL events and back, as between a client and a Lambda function. Pure.

    HTTP request  -> event (payload format 2.0)   binary body in base64, header names in lower case
    response dict -> HTTP response

Sizes are those of the JSON that Lambda would pass, computed without writing it: base64 needs no escapes, so the JSON of
an event is the JSON of the event with an empty body, plus the body's characters. Lambda's refusals (403, 413, 502, 504)
have AWS's form: `{"Message": ...}` and the header x-amzn-ErrorType.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pybase64

from odradek.limits import FUNCTION_PAYLOAD_BYTES_MAX
from odradek.local.sigv4 import SignedRequest

ACCOUNT_ID = "000000000000"
USER_ARN = f"arn:aws:iam::{ACCOUNT_ID}:user/local"
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response to the client."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class ServiceRefused(Exception):
    """A refusal by Lambda instead of a response of the function.

    Attributes:
        status: HTTP status.
        error_type: AWS's name of the error.
    """

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type

    def response(self, request_id: str) -> HttpResponse:
        return HttpResponse(
            self.status,
            json.dumps({"Message": str(self)}).encode(),
            {
                "content-type": "application/json",
                "x-amzn-errortype": self.error_type,
                "x-amzn-requestid": request_id,
            },
        )


def build_event(
    request: SignedRequest, *, raw_path: str, access_key_id: str, source_ip: str, request_id: str, now_ms: int
) -> dict[str, Any]:
    """Return the event of a request. Raises ServiceRefused(413) if it exceeds Lambda's payload limit.

    Args:
        request: as received, with a verified signature.
        raw_path: path within the function's URL.
        access_key_id: of the signer.
    """
    host = request.header("host") or ""
    when = datetime.fromtimestamp(now_ms / 1000, UTC)
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": raw_path,
        "rawQueryString": request.query,
        "headers": {
            name.lower(): request.header(name.lower())
            for name, _ in request.headers
            if name.lower() not in {"authorization", "cookie"}
        },
        "requestContext": {
            "accountId": ACCOUNT_ID,
            "apiId": "local",
            "authentication": None,
            "authorizer": {
                "iam": {
                    "accessKey": access_key_id,
                    "accountId": ACCOUNT_ID,
                    "callerId": access_key_id,
                    "cognitoIdentity": None,
                    "principalOrgId": None,
                    "userArn": USER_ARN,
                    "userId": access_key_id,
                }
            },
            "domainName": host,
            "domainPrefix": host.partition(".")[0],
            "http": {
                "method": request.method,
                "path": raw_path,
                "protocol": "HTTP/1.1",
                "sourceIp": source_ip,
                "userAgent": request.header("user-agent") or "",
            },
            "requestId": request_id,
            "routeKey": "$default",
            "stage": "$default",
            "time": f"{when:%d/%b/%Y:%H:%M:%S +0000}",
            "timeEpoch": now_ms,
        },
        "isBase64Encoded": False,
    }
    envelope_bytes = len(json.dumps(event))
    if request.body:
        event["body"], event["isBase64Encoded"] = _encode_body(request)
        envelope_bytes += len(',"body":""')
    size = envelope_bytes + _json_characters(event.get("body", ""), event["isBase64Encoded"])
    if size > FUNCTION_PAYLOAD_BYTES_MAX:
        raise ServiceRefused(
            413,
            "RequestTooLargeException",
            f"{size} byte payload is too large for the function ({FUNCTION_PAYLOAD_BYTES_MAX} bytes with base64).",
        )
    return event


def read_response(response: Any) -> HttpResponse:
    """Convert a handler's return value. Raises ServiceRefused(502) for one that Lambda cannot use."""
    if not isinstance(response, Mapping) or not isinstance(response.get("statusCode"), int):
        raise ServiceRefused(502, "InternalServerErrorException", "Internal Server Error")
    body, is_base64 = response.get("body") or "", response.get("isBase64Encoded") is True
    size = len(json.dumps({**response, "body": ""})) + _json_characters(body, is_base64)
    if size > FUNCTION_PAYLOAD_BYTES_MAX:
        raise ServiceRefused(
            502,
            "Function.ResponseSizeTooLarge",
            f"Response payload size exceeded maximum allowed payload size ({FUNCTION_PAYLOAD_BYTES_MAX} bytes).",
        )
    try:
        content = pybase64.b64decode(body, validate=True) if is_base64 else body.encode()
    except (binascii.Error, ValueError):
        raise ServiceRefused(502, "InternalServerErrorException", "Internal Server Error") from None
    headers = {str(name).lower(): str(value) for name, value in (response.get("headers") or {}).items()}
    return HttpResponse(response["statusCode"], content, {"content-type": "application/json", **headers})


def _encode_body(request: SignedRequest) -> tuple[str, bool]:
    """Encode the body; text stays text, as on AWS, so that a forgotten content type shows here too."""
    content_type = (request.header("content-type") or "").lower()
    if content_type.startswith(_TEXT_TYPES):
        try:
            return request.body.decode(), False
        except UnicodeDecodeError:
            pass
    return pybase64.b64encode_as_string(request.body), True


def _json_characters(body: str, is_base64: bool) -> int:
    return len(body) if is_base64 else len(json.dumps(body)) - 2
