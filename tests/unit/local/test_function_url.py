"""Events as Lambda builds them, and Lambda's limits to the byte."""

from __future__ import annotations

import base64
import json

import pytest
from odradek.functions.event import parse_event
from odradek.limits import FUNCTION_BINARY_BYTES_MAX, FUNCTION_PAYLOAD_BYTES_MAX
from odradek.local.function_url import ServiceRefused, build_event, read_response
from odradek.local.server import route
from odradek.local.sigv4 import SignedRequest
from odradek.protocol.api import FunctionName


def event(body: bytes, content_type: str = "application/octet-stream") -> dict[str, object]:
    headers = [("Host", "127.0.0.1:9"), ("Content-Type", content_type), ("Authorization", "secret"), ("X-Two", "a")]
    request = SignedRequest("POST", "/produce", "a=b", [*headers, ("x-two", "b")], body)
    return build_event(
        request, raw_path="/", access_key_id="AK", source_ip="192.0.2.7", request_id="r1", now_ms=1_583_348_638_390
    )


def test_the_shape_of_payload_format_2() -> None:
    made = event(b"\x00\xff")
    assert made["version"] == "2.0"
    assert made["rawPath"] == "/"
    assert made["rawQueryString"] == "a=b"
    assert made["isBase64Encoded"] is True
    assert made["body"] == base64.b64encode(b"\x00\xff").decode()
    assert made["headers"] == {"host": "127.0.0.1:9", "content-type": "application/octet-stream", "x-two": "a,b"}
    context = made["requestContext"]
    assert isinstance(context, dict)
    assert context["http"]["method"] == "POST"
    assert context["time"] == "04/Mar/2020:19:03:58 +0000"
    assert context["timeEpoch"] == 1_583_348_638_390
    assert context["authorizer"]["iam"]["accessKey"] == "AK"
    assert parse_event(made).body == b"\x00\xff"


def test_text_stays_text_as_at_aws() -> None:
    made = event(b'{"a": 1}', "application/json")
    assert (made["body"], made["isBase64Encoded"]) == ('{"a": 1}', False)


def test_no_body_is_no_key() -> None:
    made = event(b"")
    assert "body" not in made
    assert parse_event(made).body == b""


def test_the_limit_is_that_of_the_json_event() -> None:
    envelope_bytes = len(json.dumps(event(bytes(3)))) - 4
    largest = (FUNCTION_PAYLOAD_BYTES_MAX - envelope_bytes) // 4 * 3
    assert largest > FUNCTION_BINARY_BYTES_MAX  # the frame limit leaves room for the envelope
    assert len(json.dumps(event(bytes(largest)))) <= FUNCTION_PAYLOAD_BYTES_MAX
    with pytest.raises(ServiceRefused) as refused:
        event(bytes(largest + 6))
    assert (refused.value.status, refused.value.error_type) == (413, "RequestTooLargeException")


def response(body_bytes: int) -> dict[str, object]:
    body = base64.b64encode(bytes(body_bytes)).decode()
    return {"statusCode": 200, "headers": {"Content-Type": "x/y"}, "body": body, "isBase64Encoded": True}


def test_a_response_is_decoded() -> None:
    decoded = read_response(response(5))
    assert (decoded.status, decoded.body, decoded.headers["content-type"]) == (200, bytes(5), "x/y")


def test_a_response_over_the_limit_is_lambdas_error() -> None:
    with pytest.raises(ServiceRefused, match="Response payload size exceeded") as refused:
        read_response(response(FUNCTION_PAYLOAD_BYTES_MAX * 3 // 4))
    assert (refused.value.status, refused.value.error_type) == (502, "Function.ResponseSizeTooLarge")


@pytest.mark.parametrize("value", [None, [], {}, {"statusCode": "200"}, {**response(3), "body": "?"}])
def test_a_response_that_lambda_cannot_use_is_a_502(value: object) -> None:
    with pytest.raises(ServiceRefused) as refused:
        read_response(value)
    assert refused.value.status == 502


def test_routes() -> None:
    assert route("/produce") == (FunctionName.PRODUCE, "/")
    assert route("/produce/") == (FunctionName.PRODUCE, "/")
    assert route("/coordinator/.well-known/odradek") == (FunctionName.COORDINATOR, "/.well-known/odradek")
    assert route("/.well-known/odradek") == (FunctionName.COORDINATOR, "/.well-known/odradek")
    for path in ("/", "/maintenance", "/producer", "//produce", ""):
        with pytest.raises(ServiceRefused) as refused:
            route(path)
        assert refused.value.status == 404
