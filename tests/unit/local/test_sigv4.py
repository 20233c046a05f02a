"""The embedded service accepts what botocore signs, and nothing that was changed afterwards."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from odradek.local.sigv4 import WINDOW_S, SignatureRefused, SignedRequest, SigningKey, sign, verify

KEY = SigningKey("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1")


def signed(
    *,
    body: bytes = b"\x00\x01frame",
    url: str = "http://127.0.0.1:9000/produce",
    method: str = "POST",
    key: SigningKey = KEY,
    service: str = "lambda",
    headers: dict[str, str] | None = None,
) -> tuple[SignedRequest, int]:
    """A request signed by botocore, and the time of the signature in ms."""
    request = AWSRequest(
        method,
        url,
        data=body,
        headers=headers or {"Content-Type": "application/octet-stream", "Host": "127.0.0.1:9000"},
    )
    SigV4Auth(Credentials(key.access_key_id, key.secret_access_key), service, key.region).add_auth(request)
    host_and_path = url.split("//", 1)[1]
    path, _, query = ("/" + host_and_path.partition("/")[2]).partition("?")
    when = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return SignedRequest(method, path, query, list(request.headers.items()), body), int(when.timestamp() * 1000)


def changed(request: SignedRequest, **headers: str | None) -> SignedRequest:
    """The request with headers replaced, added or (None) removed; `_` in a name stands for `-`."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    kept = [(name, value) for name, value in request.headers if name.lower() not in names]
    kept += [(name, value) for name, value in names.items() if value is not None]
    return SignedRequest(request.method, request.path, request.query, kept, request.body)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000/produce",
        "http://127.0.0.1:9000/.well-known/odradek",
        "http://127.0.0.1:9000/a%20b/c~d?x=1&a=%2Fb&a=A&empty",
        "http://127.0.0.1:9000/?b=2&B=1",
    ],
)
def test_accepts_what_botocore_signs(url: str) -> None:
    request, now_ms = signed(url=url)
    verify(request, KEY, now_ms)


def test_accepts_an_empty_body_and_repeated_spaces_in_headers() -> None:
    request, now_ms = signed(body=b"", method="GET", headers={"Host": "h:1", "X-Amz-Meta": "a   b "})
    verify(request, KEY, now_ms)


def test_golden_signature() -> None:
    """Request and key of `get-vanilla` in AWS's SigV4 test suite, signed by botocore for service "lambda"."""
    request = SignedRequest("GET", "/", "", [("Host", "example.com"), ("X-Amz-Date", "20150830T123600Z")], b"")
    empty_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    signature = sign(request, KEY, "20150830T123600Z", ["host", "x-amz-date"], empty_sha256)
    assert signature == "5ed46a03137353a70d14e8f9d2c0ca49b81ffbfbc104e61138c2ae3238c28b0a"


@pytest.mark.parametrize("shift_s", [-WINDOW_S, WINDOW_S])
def test_accepts_a_signature_at_the_edge_of_the_window(shift_s: int) -> None:
    request, now_ms = signed()
    verify(request, KEY, now_ms + shift_s * 1000)


@pytest.mark.parametrize("shift_s", [-WINDOW_S - 1, WINDOW_S + 1])
def test_refuses_a_signature_outside_of_the_window(shift_s: int) -> None:
    request, now_ms = signed()
    with pytest.raises(SignatureRefused, match="5 min"):
        verify(request, KEY, now_ms + shift_s * 1000)


def test_refuses_an_altered_body() -> None:
    request, now_ms = signed()
    altered = SignedRequest(request.method, request.path, request.query, request.headers, request.body + b"!")
    with pytest.raises(SignatureRefused, match="does not match"):
        verify(altered, KEY, now_ms)


@pytest.mark.parametrize("claim", ["UNSIGNED-PAYLOAD", "0" * 64])
def test_refuses_a_content_hash_that_is_not_the_bodys(claim: str) -> None:
    request, now_ms = signed(headers={"Host": "h", "X-Amz-Content-SHA256": claim})
    with pytest.raises(SignatureRefused, match="does not match"):
        verify(request, KEY, now_ms)


@pytest.mark.parametrize("field", ["method", "path", "query", "host"])
def test_refuses_an_altered_request_line_or_host(field: str) -> None:
    request, now_ms = signed()
    parts = {"method": request.method, "path": request.path, "query": request.query}
    if field == "host":
        altered = changed(request, host="evil.example")
    else:
        parts[field] += "x=1"
        altered = SignedRequest(parts["method"], parts["path"], parts["query"], request.headers, request.body)
    with pytest.raises(SignatureRefused, match="does not match"):
        verify(altered, KEY, now_ms)


def test_refuses_another_secret() -> None:
    request, now_ms = signed(key=SigningKey(KEY.access_key_id, "another", KEY.region))
    with pytest.raises(SignatureRefused, match="does not match"):
        verify(request, KEY, now_ms)


def test_refuses_another_access_key() -> None:
    request, now_ms = signed(key=SigningKey("AKIDOTHER", KEY.secret_access_key, KEY.region))
    with pytest.raises(SignatureRefused, match=r"does not know.*which `odradek local` also prints") as refused:
        verify(request, KEY, now_ms)
    assert refused.value.error_type == "UnrecognizedClientException"


def test_refuses_another_service_or_region() -> None:
    request, now_ms = signed(service="s3")
    with pytest.raises(SignatureRefused, match="scoped to service 'lambda'"):
        verify(request, KEY, now_ms)
    request, now_ms = signed(key=SigningKey(KEY.access_key_id, KEY.secret_access_key, "eu-west-1"))
    with pytest.raises(SignatureRefused, match="in region 'us-east-1'"):
        verify(request, KEY, now_ms)


def test_a_key_without_a_region_accepts_any() -> None:
    request, now_ms = signed(key=SigningKey(KEY.access_key_id, KEY.secret_access_key, "eu-west-1"))
    verify(request, SigningKey(KEY.access_key_id, KEY.secret_access_key), now_ms)


def test_refuses_an_unsigned_amz_header() -> None:
    request, now_ms = signed()
    with pytest.raises(SignatureRefused, match="must be signed: x-amz-target"):
        verify(changed(request, x_amz_target="Sneaked.In"), KEY, now_ms)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer token",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=00",
        "AWS4-HMAC-SHA256 Credential=a/20240101/r/lambda/other, SignedHeaders=host, Signature=00",
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20240101/us-east-1/lambda/aws4_request, SignedHeaders=a, Signature=0",
        "AWS4-HMAC-SHA256 Credential=é/20240101/us-east-1/lambda/aws4_request, SignedHeaders=host, Signature=é",
    ],
)
def test_refuses_a_missing_or_malformed_authorization(authorization: str | None) -> None:
    request, now_ms = signed()
    with pytest.raises(SignatureRefused):
        verify(changed(request, authorization=authorization), KEY, now_ms)


@pytest.mark.parametrize("amz_date", [None, "", "yesterday", "99999999T999999Z"])
def test_refuses_a_missing_or_malformed_date(amz_date: str | None) -> None:
    request, now_ms = signed()
    with pytest.raises(SignatureRefused):
        verify(changed(request, x_amz_date=amz_date), KEY, now_ms)
