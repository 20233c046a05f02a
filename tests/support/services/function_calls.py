"""Call functions as Lambda does: events in payload format 2.0, a context object, frames by fields."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from odradek.dispatcher.answer import build
from odradek.local.function_url import build_event
from odradek.local.sigv4 import SignedRequest
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema

CORRELATION_ID = 4711
TIMESTAMP_MS = 1_700_000_000_000


class FakeContext:
    """Lambda's context, with a fixed time left."""

    aws_request_id = "request-1"
    function_name = "odradek-test"
    memory_limit_in_mb = "1024"

    def __init__(self, remaining_ms: int = 30_000) -> None:
        self._remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining_ms


def function_event(
    body: bytes = b"",
    *,
    method: str = "POST",
    path: str = "/",
    content_type: str = "application/octet-stream",
    host: str = "abc.lambda-url.eu-west-1.on.aws",
) -> dict[str, Any]:
    """The event of one HTTP request."""
    request = SignedRequest(method, path, "", [("Host", host), ("Content-Type", content_type)], body)
    return build_event(
        request, raw_path=path, access_key_id="AKID", source_ip="192.0.2.1", request_id="r-1", now_ms=TIMESTAMP_MS
    )


def frame(api_key: ApiKey, version: int, fields: Mapping[str, Any]) -> bytes:
    """A request frame from fields."""
    message = build(request_schema(api_key, version), fields)
    return encode_request(message, correlation_id=CORRELATION_ID, client_id="tests")


def decode(body: bytes, api_key: ApiKey, version: int) -> Any:
    """The response message in a frame."""
    return decode_response(body, response_schema(api_key, version), correlation_id=CORRELATION_ID)


def body_of(response: Mapping[str, Any]) -> bytes:
    """A function's response body, decoded."""
    body = response["body"]
    return base64.b64decode(body, validate=True) if response["isBase64Encoded"] else body.encode()


def refusal_of(response: Mapping[str, Any]) -> tuple[int, str]:
    """Status and Kafka error name of a refused request."""
    assert response["headers"]["content-type"] == "application/json"
    document = json.loads(response["body"])
    assert document["message"]
    assert "Traceback" not in response["body"]
    return response["statusCode"], document["error"]
