"""Every HTTP port: pages of a browser, peers that do not speak or do not read, bytes that are no HTTP."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.local import ThreadedService
from odradek.settings import Settings

SCHEMA = json.dumps({"schema": '"string"'}).encode()
REGISTRY = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    settings = Settings(http_connections_max=20, http_read_timeout_ms=1_000)
    with odradek.local(registry_port=0, settings=settings) as running:
        yield running


def address(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)


def ask(
    url: str, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*address(url), timeout=20)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        headers_sent = {"Host": "{}:{}".format(*address(url)), **(headers or {})}
        if body is not None:
            headers_sent["Content-Length"] = str(len(body))
        for name, value in headers_sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def register(service: ThreadedService, **headers: str) -> int:
    headers_sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(service.registry_url, "POST", "/subjects/s/versions", headers_sent, SCHEMA)[0]


def test_the_registry_takes_what_clients_send(service: ThreadedService) -> None:
    for content_type in (*REGISTRY.values(), "application/json", "application/vnd.schemaregistry+json; charset=utf-8"):
        assert register(service, Content_Type=content_type) == 200
    port = address(service.registry_url)[1]
    for host in (f"localhost:{port}", f"[::1]:{port}", "127.0.0.1", "odradek:8081", "192.0.2.7"):
        assert ask(service.registry_url, "GET", "/subjects", {"Host": host})[0] == 200, host


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "127.0.0.1.evil.example", "", "[::1"])
def test_a_name_that_may_be_anybodys_is_refused(service: ThreadedService, host: str) -> None:
    status, text = ask(service.registry_url, "GET", "/subjects", {"Host": host})
    assert status in (400, 403), text
    assert ask(service.bootstrap_servers, "GET", "/metrics", {"Host": host})[0] in (400, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_page_is_refused(service: ThreadedService, headers: dict[str, str]) -> None:
    for method, body in (("GET", None), ("POST", SCHEMA), ("DELETE", None), ("OPTIONS", None)):
        status, _ = ask(service.registry_url, method, "/subjects/s/versions", {**REGISTRY, **headers}, body)
        assert status == 403, method
    assert ask(service.bootstrap_servers, "GET", "/metrics", headers)[0] == 403


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None, ""]
)
def test_a_body_that_a_page_may_send_without_asking_is_refused(
    service: ThreadedService, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    assert ask(service.registry_url, "POST", "/subjects/page/versions", headers, SCHEMA)[0] == 415
    assert ask(service.registry_url, "GET", "/subjects/page/versions")[0] == 404


BAD = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET /subjects HTTP/9.9\r\n\r\n",
    b"GET /subjects\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a b\r\nContent-Length: x\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: [\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost:x\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Date: \xff\r\nAuthorization: AWS4-HMAC-SHA256 \xff\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: AWS4-HMAC-SHA256 Credential=\xc3\xa9/1/2/3/aws4_request, "
    b"SignedHeaders=host, Signature=\xc3\xa9\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1_000 + b"\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
]


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("port", ["registry_url", "bootstrap_servers"])
def test_bytes_of_any_kind_are_no_500_and_at_most_one_line(
    service: ThreadedService, caplog: pytest.LogCaptureFixture, port: str, data: bytes
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_connection(address(getattr(service, port)), timeout=20) as peer:
        peer.sendall(data)
        received = peer.recv(65_536)
    assert b" 500 " not in received.partition(b"\r\n")[0], received
    lines = [record for record in caplog.records if record.name.startswith(("odradek.", "aiohttp"))]
    assert len(lines) <= 1, [record.getMessage() for record in lines]
    assert all(record.exc_info is None and "\n" not in record.getMessage() for record in lines)
    if received.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")):
        assert len(lines) == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /subj",
        b"POST /subjects/s/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n",
        b"POST /produce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n123",
    ],
)
@pytest.mark.parametrize("port", ["registry_url", "bootstrap_servers"])
def test_who_does_not_end_its_request_is_closed(service: ThreadedService, port: str, sent: bytes) -> None:
    with socket.create_connection(address(getattr(service, port)), timeout=30) as peer:
        peer.sendall(sent)
        received = b""
        try:
            while data := peer.recv(65_536):
                received += data
        except ConnectionResetError:
            pass
    assert not received or received.startswith(b"HTTP/1.1 408")


def test_peers_beyond_the_limit_are_closed_and_others_served(service: ThreadedService) -> None:
    silent = [socket.create_connection(address(service.registry_url), timeout=30) for _ in range(60)]
    try:
        closed = 0
        for peer in silent[30:]:
            try:
                closed += peer.recv(1) == b""
            except ConnectionResetError:
                closed += 1
        assert closed == 30
    finally:
        for peer in silent:
            peer.close()
    deadline = time.monotonic() + 30
    while True:  # as soon as the loop has seen that they are gone
        try:
            assert ask(service.registry_url, "GET", "/subjects")[0] == 200
            break
        except (ConnectionError, http.client.HTTPException):
            assert time.monotonic() < deadline
