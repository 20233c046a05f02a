"""Requests are signed as AWS documents it."""

from __future__ import annotations

import hashlib
import hmac
import re

import pytest
from odradek.client.transport.signer import Signer, region_of

URL = "https://abc123.lambda-url.eu-west-1.on.aws/"
BODY = b"\x00\x00\x00\x09frame"


def _expected(secret: str, region: str, headers: dict[str, str], signed: str) -> str:
    """Signature version 4 written down from its documentation."""
    canonical = "\n".join(
        [
            "POST",
            "/",
            "",
            *(f"{name}:{headers[name]}" for name in signed.split(";")),
            "",
            signed,
            hashlib.sha256(BODY).hexdigest(),
        ]
    )
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{region}/lambda/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize("token", [None, "session-token"])
def test_the_signature_covers_method_host_body_and_token(token: str | None) -> None:
    signer = Signer("AKIDEXAMPLE", "secret", token)
    sent = signer.headers("POST", URL, BODY, {"content-type": "application/octet-stream"}, "eu-west-1")
    headers = {name.lower(): value for name, value in sent.items()} | {"host": "abc123.lambda-url.eu-west-1.on.aws"}
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-west-1/lambda/aws4_request, "
        r"SignedHeaders=(?P<signed>[^,]+), Signature=(?P<signature>[0-9a-f]{64})",
        headers["authorization"],
    )
    assert match is not None
    signed = set(match["signed"].split(";"))
    assert {"host", "x-amz-date", "content-type", "x-amz-content-sha256"} <= signed
    assert ("x-amz-security-token" in signed) == (token is not None)
    assert headers["x-amz-content-sha256"] == hashlib.sha256(BODY).hexdigest()
    assert match["signature"] == _expected("secret", "eu-west-1", headers, match["signed"])


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("abc123.lambda-url.eu-west-1.on.aws", "eu-west-1"),
        ("abc123.lambda-url.us-gov-east-1.on.aws", "us-gov-east-1"),
        ("localhost", None),
        ("lambda-url.evil.example", None),
    ],
)
def test_the_region_is_in_the_host_name(host: str, region: str | None) -> None:
    assert region_of(host) == region


def test_the_default_chain_is_asked_without_explicit_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    signer = Signer()
    assert signer.has_credentials
    assert signer.default_region == "eu-north-1"
    assert "Credential=AKIDENV/" in signer.headers("GET", URL, b"", {}, "eu-north-1")["Authorization"]
