"""The table of ports, and each HTTP and WebSocket port under it: pages of browsers, slow peers, logins, audit lines."""

from __future__ import annotations

import base64
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.connect import Cluster, WorkerSettings
from odradek.connect.rest.access import Users
from odradek.connect.rest.server import RestServer
from odradek.http.ports import NOT_HTTP, OWN_PAGES, PORTS, SIGNATURE, Port
from odradek.settings import Settings
from odradek.sql.server.app import ServerInfo
from odradek.sql.server.serving import Listening, serve_sql

from tests.support.all_ports import AllPorts, address, all_ports, ask, in_thread
from tests.support.connect.running import FAST

HTTP = [port for port in PORTS if port.browsers != NOT_HTTP]
PAGE = {"Origin": "https://page.example", "Sec-Fetch-Site": "cross-site"}
REQUESTS = [
    ("GET", "/", None),
    ("GET", "/connectors", None),
    ("GET", "/metrics", None),
    ("POST", "/connectors", b'{"name": "p", "config": {"connector.class": "DatagenConnector"}}'),
    ("POST", "/ksql", b'{"ksql": "SHOW STREAMS;"}'),
    ("POST", "/query-stream", b'{"sql": "SELECT * FROM n;"}'),
    ("POST", "/inserts-stream", b'{"target": "s"}\n{"a": 1}'),
    ("POST", "/subjects/s/versions", b'{"schema": "\\"string\\""}'),
    ("POST", "/topics/create", b"name=t"),
    ("DELETE", "/connectors/p", None),
]


@pytest.fixture(scope="module")
def ports() -> Iterator[AllPorts]:
    with all_ports(Settings(http_connections_max=20, http_read_timeout_ms=1_000)) as running:
        yield running


def test_a_port_of_each_row_runs(ports: AllPorts) -> None:
    assert set(ports.urls) == {port.name for port in HTTP}


@pytest.mark.parametrize("port", HTTP, ids=lambda port: port.name)
@pytest.mark.parametrize("headers", [PAGE, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}], ids=str)
def test_no_page_of_a_browser_is_answered(ports: AllPorts, port: Port, headers: dict[str, str]) -> None:
    for method, path, body in REQUESTS:
        for content_type in ("text/plain", "application/json"):
            status, text, _ = ask(ports.urls[port.name], method, path, {**headers, "Content-Type": content_type}, body)
            if port.name == "health port" and path != "/metrics":
                assert (status, text) == (200, "")
            else:
                assert status in ((403, 401) if port.browsers == OWN_PAGES else (403,)), f"{method} {path}: {text}"
    assert ports.cluster.connectors() == []
    assert ports.world.engine.documents == []


@pytest.mark.parametrize("port", HTTP, ids=lambda port: port.name)
@pytest.mark.parametrize("host", ["page.example", "127.0.0.1.page.example:80", "[::1"])
def test_a_host_name_of_somebody_else_is_refused(ports: AllPorts, port: Port, host: str) -> None:
    for path in port.guarded or ("/", "/connectors", "/info", "/subjects"):
        assert ask(ports.urls[port.name], "GET", path, {"Host": host})[0] in (400, 403, 421), path


def test_a_websocket_of_a_page_is_refused_before_it_is_accepted(ports: AllPorts) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
    }
    path = "/ws/query?request=%7B%22ksql%22%3A%22SELECT+*+FROM+n%3B%22%7D"
    for name in ("stream SQL server", "console"):
        status, text, _ = ask(ports.urls[name], "GET", path, {**upgrade, "Origin": "https://page.example"})
        assert (status, text) == (403, "")
        status, text, _ = ask(ports.urls[name], "GET", path, {**upgrade, "Host": "page.example"})
        assert (status, text) == (403, "")


@pytest.mark.parametrize("port", HTTP, ids=lambda port: port.name)
def test_every_answer_has_the_headers(ports: AllPorts, port: Port) -> None:
    for method, path in (("GET", "/"), ("GET", "/nothing/there"), ("POST", "/")):
        _, _, headers = ask(ports.urls[port.name], method, path)
        assert headers["x-content-type-options"] == "nosniff"
        assert "no-store" in headers["cache-control"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "uvicorn" not in headers.get("server", "")


SLOW = [
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /ksql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n123",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("port", HTTP, ids=lambda port: port.name)
@pytest.mark.parametrize("sent", SLOW, ids=range(len(SLOW)))
def test_who_does_not_end_its_request_is_closed(ports: AllPorts, port: Port, sent: bytes) -> None:
    if port.name == "health port" and sent.startswith(b"POST"):
        pytest.skip("the health port answers without reading a body")
    with socket.create_connection(address(ports.urls[port.name]), timeout=30) as peer:
        peer.sendall(sent)
        received = b""
        try:
            while data := peer.recv(65_536):
                received += data
        except ConnectionResetError:
            pass
    assert b" 200 " not in received.partition(b"\r\n")[0]


@pytest.mark.parametrize("port", HTTP, ids=lambda port: port.name)
def test_peers_beyond_the_limit_are_closed(ports: AllPorts, port: Port) -> None:
    silent = [socket.create_connection(address(ports.urls[port.name]), timeout=30) for _ in range(40)]
    try:
        closed = 0
        for peer in silent[20:]:
            try:
                closed += peer.recv(1) == b""
            except ConnectionResetError:
                closed += 1
        assert closed == 20
    finally:
        for peer in silent:
            peer.close()


@pytest.mark.parametrize("port", [port for port in HTTP if port.body_bytes_max], ids=lambda port: port.name)
def test_a_larger_body_is_refused(ports: AllPorts, port: Port) -> None:
    path = {"schema registry": "/subjects/s/versions", "stream SQL server": "/ksql"}.get(port.name, "/connectors")
    with socket.create_connection(address(ports.urls[port.name]), timeout=30) as peer:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost:{address(ports.urls[port.name])[1]}\r\n"
        head += f"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{port.body_bytes_max + 9:x}\r\n"
        received = b""
        try:
            peer.sendall(head.encode() + b" " * (port.body_bytes_max + 9) + b"\r\n0\r\n\r\n")
        except (ConnectionResetError, BrokenPipeError):
            pass
        try:
            received = peer.recv(65_536)
        except ConnectionResetError:
            pass
    assert not received or b" 413 " in received.partition(b"\r\n")[0], received


def test_failed_logins_are_delayed_and_audited_and_changes_have_a_name(
    ports: AllPorts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    file = tmp_path / "users"
    file.write_text("ada=secret\n")
    settings = WorkerSettings.of(
        {**FAST, "group.id": "logins", "rest.basic.auth.users.file": str(file)}, dict(ports.service.client_config)
    )
    right, wrong = ({"Authorization": f"Basic {base64.b64encode(pair).decode()}"} for pair in (b"ada:secret", b"ada:x"))
    listening = Listening(users=Users(str(file)))
    with (
        Cluster(settings) as cluster,
        RestServer(cluster, "http://127.0.0.1:0") as rest_server,
        in_thread(lambda: serve_sql(ports.world.service, ServerInfo("1", "c", "d", "", 1), listening)) as sql,
    ):
        json_type = {"Content-Type": "application/json"}
        for url, method, path, body in (
            (rest_server.url, "DELETE", "/connectors/none", None),
            (sql, "POST", "/ksql", b'{"ksql": "SHOW STREAMS;"}'),
        ):
            caplog.clear()
            assert ask(url, method, path, {**json_type, **wrong}, body)[0] == 401
            assert ask(url, method, path, json_type, body)[2]["www-authenticate"].startswith("Basic")
            assert ask(url, method, path, {**json_type, **right}, body)[0] in (200, 404)
            assert ask(url, method, path, {**json_type, **right, **PAGE}, body)[0] == 403
            lines = [record.args for record in caplog.records if isinstance(record.args, dict)]
            assert [line["audit"] for line in lines if "LOGIN" in line["audit"]] == [lines[0]["audit"]] * 2
            [done] = [line for line in lines if line["principal"] == "User:ada"]
            assert done["audit"].endswith(f"{method} {path}")
            assert "secret" not in str(lines)
        caplog.clear()
        assert ask(sql, "POST", "/query-stream", {**json_type, **right}, b'{"sql": "SELECT * FROM n;"}')[0] == 200
        assert caplog.records == []


def test_what_signs_is_the_function_port_alone() -> None:
    assert [port.name for port in PORTS if port.browsers == SIGNATURE] == ["function URLs"]
