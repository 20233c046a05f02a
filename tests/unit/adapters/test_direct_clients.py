"""The direct clients: when they are used, what they sign and send, and which errors they make of what comes back.

The contract suite (tests/contract/test_aws_contract.py) runs over them, too; here is what an emulator does not show.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import subprocess
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from botocore.exceptions import ClientError, EndpointConnectionError, ResponseStreamingError
from odradek.adapters.aws.direct import connections as connections_module
from odradek.adapters.aws.direct import trust
from odradek.adapters.aws.direct.access import Access, access_of
from odradek.adapters.aws.direct.connections import Connections
from odradek.adapters.aws.direct.dynamodb import DirectDynamoDb
from odradek.adapters.aws.direct.s3 import DirectS3
from odradek.adapters.aws.direct.signature import Credentials, Signer
from odradek.testing.manual_clock import ManualClock

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
CREDENTIALS = Credentials("AKIDEXAMPLE", "secret", "token")
NOW_MS = 1_796_000_000_123
REGION = "eu-central-1"


# --- when ------------------------------------------------------------------------------------------------------------


def test_a_plain_environment_is_called_directly() -> None:
    assert access_of({**KEYS, "AWS_SESSION_TOKEN": "token"}, REGION, None) == Access(CREDENTIALS, REGION, None)
    assert access_of({**KEYS, "HTTPS_PROXY": ""}, REGION, None) is not None
    assert access_of({**KEYS, "AWS_CA_BUNDLE": "/ca.pem"}, REGION, "http://127.0.0.1:4566") is not None


@pytest.mark.parametrize(
    ("environ", "region", "endpoint_url"),
    [
        ({}, REGION, None),  # a profile, a role, or SnapStart's address of credentials
        ({"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE"}, REGION, None),
        (KEYS, None, None),
        (KEYS, "us-gov-west-1", None),
        (KEYS, "cn-north-1", None),
        (KEYS, "us-iso-east-1", None),
        (KEYS | {"AWS_PROFILE": "work"}, REGION, None),
        (KEYS | {"https_proxy": "http://proxy:3128"}, REGION, None),
        (KEYS | {"AWS_CA_BUNDLE": "/ca.pem"}, REGION, None),
        (KEYS | {"AWS_CA_BUNDLE": "/ca.pem"}, REGION, "https://emulator"),
        (KEYS | {"AWS_USE_FIPS_ENDPOINT": "true"}, REGION, None),
        (KEYS | {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1"}, REGION, None),
    ],
)
def test_every_other_environment_is_left_to_botocore(
    environ: dict[str, str], region: str | None, endpoint_url: str | None
) -> None:
    assert access_of(environ, region, endpoint_url) is None


def test_addresses() -> None:
    aws, emulator = Access(CREDENTIALS, REGION, None), Access(CREDENTIALS, REGION, "http://127.0.0.1:1/")
    assert aws.dynamodb_url() == "https://dynamodb.eu-central-1.amazonaws.com"
    assert aws.bucket_url("log") == "https://log.s3.eu-central-1.amazonaws.com"
    assert aws.bucket_url("my.log") == "https://s3.eu-central-1.amazonaws.com/my.log"
    assert emulator.bucket_url("log") == "http://127.0.0.1:1/log"


# --- what is signed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "token"])
@pytest.mark.parametrize(
    ("service", "method", "path", "headers"),
    [
        ("dynamodb", "POST", "/", {"x-amz-target": "DynamoDB_20120810.Query", "content-type": "application/x"}),
        ("s3", "PUT", "/log/wal/00/a~b%20c", {"if-none-match": "*", "x-amz-checksum-crc32c": "AAAAAA=="}),
        ("s3", "GET", "/segments/a", {"range": "bytes=0-99"}),
    ],
)
def test_the_signature_is_botocores(
    service: str, method: str, path: str, headers: dict[str, str], token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"{}" if method != "GET" else b""
    sha256 = hashlib.sha256(body).hexdigest()
    headers = {**headers, "host": "host.example"}
    if service == "s3":
        headers["x-amz-content-sha256"] = sha256
    theirs = AWSRequest(method=method, url=f"http://host.example{path}", data=body, headers=headers)
    auth = (S3SigV4Auth if service == "s3" else SigV4Auth)(
        BotocoreCredentials("AKIDEXAMPLE", "secret", token), service, REGION
    )
    moment = datetime.fromtimestamp(NOW_MS // 1000, UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment)
    auth.add_auth(theirs)
    ours = Signer(Credentials("AKIDEXAMPLE", "secret", token), REGION, service).signed(
        method, path, headers, sha256, NOW_MS
    )
    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"]
    assert ours["authorization"] == theirs.headers["Authorization"]


def test_the_key_of_a_day_is_for_that_day() -> None:
    signer = Signer(CREDENTIALS, REGION, "dynamodb")
    for now_ms in (NOW_MS, NOW_MS + 86_400_000, NOW_MS):
        fresh = Signer(CREDENTIALS, REGION, "dynamodb").signed("POST", "/", {"host": "h"}, "0", now_ms)
        assert signer.signed("POST", "/", {"host": "h"}, "0", now_ms) == fresh


# --- what is trusted -------------------------------------------------------------------------------------------------


def test_amazons_authorities_are_found_in_botocores_bundle() -> None:
    """An empty choice would be harmless and slow."""
    subjects = [
        dict(pair[0] for pair in certificate["subject"])["commonName"]
        for certificate in trust.amazon_tls().get_ca_certs()
    ]
    assert {f"Amazon Root CA {number}" for number in (1, 2, 3, 4)} <= set(subjects)
    assert len(subjects) < 10
    for context in (trust.amazon_tls(), trust.full_tls()):
        assert context.check_hostname
        assert context.verify_mode is ssl.CERT_REQUIRED
    assert trust.of_amazon("no comments here") == ""


# --- what comes back -------------------------------------------------------------------------------------------------


class Service:
    """A server that plays answers: (status, headers, body), and keeps the requests."""

    def __init__(self, *, tls: tuple[Path, Path] | None = None) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                service.connections += 1
                super().setup()

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                service.requests.append((self.command, self.path, headers, body))
                status, extra, content = service.answers.pop(0)
                self.send_response(status)
                for name, value in {"content-length": str(len(content)), **extra}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = answer

            def log_message(self, format: str, *args: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


def _connections(url: str) -> Connections:
    return Connections(url, connect_timeout_s=5, read_timeout_s=5)


def _dynamodb(url: str) -> tuple[DirectDynamoDb, list[str | None]]:
    dates: list[str | None] = []
    signer = Signer(CREDENTIALS, REGION, "dynamodb")
    return DirectDynamoDb(_connections(url), signer, ManualClock(NOW_MS), dates.append), dates


def _s3(url: str) -> DirectS3:
    def none() -> Any:
        raise AssertionError("botocore is not needed for one object")

    signer = Signer(CREDENTIALS, REGION, "s3")
    return DirectS3("log", f"{url}/log", _connections(url), signer, ManualClock(NOW_MS), lambda _: None, none)


def test_bytes_are_base64_and_nothing_else_is_touched(service: Service) -> None:
    client, dates = _dynamodb(service.url)
    item = {
        "pk": {"S": "B"},
        "data": {"B": b"\x00\xff"},
        "inner": {"M": {"B": {"S": "text"}, "l": {"L": [{"B": b""}]}}},
    }
    stored = json.dumps(item, default=lambda value: base64.b64encode(value).decode()).encode()
    document = b'{"Item":' + stored + b"}"
    service.answers = [(200, {"x-amz-crc32": str(zlib.crc32(document))}, document)]
    assert client.put_item(TableName="log", Item=item) == {"Item": item}
    method, path, headers, body = service.requests[0]
    assert (method, path, json.loads(body)["Item"]) == ("POST", "/", json.loads(stored))
    assert headers["x-amz-target"] == "DynamoDB_20120810.PutItem"
    assert headers["x-amz-security-token"] == "token"
    assert dates[0] is not None
    with pytest.raises(TypeError, match="complex"):
        client.put_item(TableName="log", Item={"n": {"B": 1j}})


def test_a_refusal_has_the_code_and_the_item(service: Service) -> None:
    client, dates = _dynamodb(service.url)
    refusal = {
        "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
        "message": "The conditional request failed",
        "Item": {"pk": {"S": "t"}, "b": {"B": "AAE="}},
    }
    service.answers = [(400, {}, json.dumps(refusal).encode()), (503, {}, b"<html>busy</html>"), (400, {}, b"[]")]
    with pytest.raises(ClientError) as refused:
        client.update_item(TableName="log")
    assert refused.value.response["Error"] == {
        "Code": "ConditionalCheckFailedException",
        "Message": "The conditional request failed",
    }
    response: Any = refused.value.response
    assert response["Item"]["b"] == {"B": b"\x00\x01"}
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    for code in ("503", "400"):
        with pytest.raises(ClientError) as refused:
            client.update_item(TableName="log")
        assert refused.value.response["Error"]["Code"] == code
    assert len(dates) == 3, "a refusal tells the time, too"


def test_an_altered_response_is_not_believed(service: Service) -> None:
    client, _ = _dynamodb(service.url)
    service.answers = [(200, {"x-amz-crc32": "1"}, b"{}"), (200, {}, b"<html>")]
    for _answer in range(2):
        with pytest.raises(ResponseStreamingError):
            client.get_item(TableName="log")


def test_objects(service: Service) -> None:
    client = _s3(service.url)
    service.answers = [
        (200, {}, b""),
        (206, {}, b"part"),
        (200, {"content-length": "17", "last-modified": "Thu, 26 Nov 2026 11:00:00 GMT"}, b""),
        (412, {}, b"<Error><Code>PreconditionFailed</Code><Message>exists</Message></Error>"),
        (404, {"content-length": "0"}, b""),
    ]
    client.put_object(Bucket="log", Key="wal/a b~+", Body=b"x", IfNoneMatch="*", ChecksumCRC32C="AAAAAA==")
    assert client.get_object(Bucket="log", Key="k", Range="bytes=0-3")["Body"].read() == b"part"
    metadata = client.head_object(Bucket="log", Key="k")
    assert (metadata["ContentLength"], metadata["LastModified"].timestamp()) == (17, 1_795_690_800)
    with pytest.raises(ClientError) as refused:
        client.put_object(Bucket="log", Key="k", Body=b"x", IfNoneMatch="*", ChecksumCRC32C="AAAAAA==")
    assert refused.value.response["Error"] == {"Code": "PreconditionFailed", "Message": "exists"}
    with pytest.raises(ClientError) as refused:
        client.head_object(Bucket="log", Key="k")
    assert refused.value.response["Error"]["Code"] == "404"
    method, path, headers, body = service.requests[0]
    assert (method, path, body) == ("PUT", "/log/wal/a%20b~%2B", b"x")
    assert (headers["if-none-match"], headers["x-amz-checksum-crc32c"]) == ("*", "AAAAAA==")
    assert service.requests[1][2]["range"] == "bytes=0-3"
    assert service.connections == 1, "a connection is kept, also after a refusal"
    with pytest.raises(ValueError, match="not other"):
        client.get_object(Bucket="other", Key="k")


def test_a_connection_that_was_closed_meanwhile_is_replaced(service: Service) -> None:
    """A function is frozen between requests, and AWS closes what is idle: the next write must not become unknown."""
    client, _ = _dynamodb(service.url)
    service.answers = [(200, {"connection": "close"}, b"{}"), (200, {}, b"{}"), (200, {}, b"{}")]
    client.get_item(TableName="log")
    client.get_item(TableName="log")
    kept = client._connections._idle[0]
    kept.sock.shutdown(socket.SHUT_RD)  # as the end of the other side arrives
    client.get_item(TableName="log")
    assert service.connections == 3
    client.close()
    assert not client._connections._idle


# --- TLS -------------------------------------------------------------------------------------------------------------


def _self_signed(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_every_authority_is_tried_before_a_server_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = _self_signed(tmp_path)
    service = Service(tls=(certificate, key))
    try:
        client, _ = _dynamodb(service.url)
        with pytest.raises(EndpointConnectionError):
            client.get_item(TableName="log")
        assert not service.requests
        everyone = ssl.create_default_context(cafile=str(certificate))
        monkeypatch.setattr(connections_module, "full_tls", lambda: everyone)
        client, _ = _dynamodb(service.url)
        service.answers = [(200, {}, b"{}"), (200, {}, b"")]
        assert client.get_item(TableName="log") == {}
        _s3(service.url).put_object(Bucket="log", Key="k", Body=b"x", IfNoneMatch="*", ChecksumCRC32C="AAAAAA==")
        assert service.requests[1][2]["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    finally:
        service.close()
