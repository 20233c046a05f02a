"""HTTP answers and the errors that they become."""

from __future__ import annotations

import json

import pytest
from odradek.client.transport.http import http_failure, parse_discovery
from odradek.errors import ErrorCode, KafkaError
from odradek.protocol.api import FunctionName

URL = "https://abc.lambda-url.eu-west-1.on.aws/"
FUNCTIONS = {name.value: f"https://{name.value}.example/" for name in FunctionName}


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable", "applied"),
    [
        (400, {"error": "INVALID_REQUEST", "message": "malformed"}, ErrorCode.INVALID_REQUEST, False, False),
        (413, {"error": "MESSAGE_TOO_LARGE", "message": "too big"}, ErrorCode.MESSAGE_TOO_LARGE, False, False),
        (413, None, ErrorCode.RECORD_LIST_TOO_LARGE, False, False),
        (401, None, ErrorCode.SASL_AUTHENTICATION_FAILED, False, False),
        (403, {"Message": "Forbidden"}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, False, False),
        (404, None, ErrorCode.INVALID_CONFIG, False, False),
        (418, None, ErrorCode.INVALID_REQUEST, False, False),
        (429, {"Reason": "ReservedFunctionConcurrentInvocationLimitExceeded"}, None, True, False),
        (500, None, ErrorCode.NETWORK_EXCEPTION, True, True),
        (502, {"Message": "Internal Server Error"}, ErrorCode.NETWORK_EXCEPTION, True, True),
        (503, {"error": "THROTTLING_QUOTA_EXCEEDED"}, ErrorCode.THROTTLING_QUOTA_EXCEEDED, True, False),
        (504, None, ErrorCode.REQUEST_TIMED_OUT, True, True),
        (500, {"error": "NO_SUCH_NAME"}, ErrorCode.NETWORK_EXCEPTION, True, True),
    ],
)
def test_a_status_says_whether_to_retry_and_whether_it_may_have_happened(
    status: int, body: dict[str, str] | None, code: ErrorCode | None, retryable: bool, applied: bool
) -> None:
    raw = b"<html>" if body is None else json.dumps(body).encode()
    failure = http_failure(status, raw, URL)
    assert failure.code is (code or ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert (failure.is_retryable, failure.may_have_applied) == (retryable, applied)
    assert URL in failure.message


def test_a_refused_unsigned_request_says_that_credentials_are_missing() -> None:
    failure = http_failure(403, b"", URL, signed=False)
    assert failure.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "no AWS credentials" in failure.message


def test_the_discovery_document_names_the_functions() -> None:
    document = {"cluster_id": "c", "region": "eu-west-1", "functions": FUNCTIONS}
    cluster = parse_discovery(json.dumps(document).encode(), URL)
    assert cluster.cluster_id == "c"
    assert cluster.region == "eu-west-1"
    assert cluster.functions[FunctionName.FETCH] == "https://fetch.example/"


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"cluster_id": "c", "functions": {}}',
        json.dumps({"cluster_id": "c", "functions": {**FUNCTIONS, "fetch": "not a url"}}).encode(),
    ],
)
def test_any_other_page_is_no_coordinator(body: bytes) -> None:
    with pytest.raises(KafkaError, match=r"abc\.lambda-url.*is not an Odradek coordinator") as failure:
        parse_discovery(body, URL)
    assert failure.value.code is ErrorCode.INVALID_CONFIG
