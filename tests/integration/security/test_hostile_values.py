"""Harmless values that a port may trip over, in every place of every route: never a 500, and always a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from odradek.connect.rest import app as connect_app
from odradek.console.app import ROUTES
from odradek.registry.api import RegistryApi
from odradek.settings import Settings

from tests.support.all_ports import AllPorts, all_ports, ask

TEXTS = [
    "a/b",
    "a b",
    " a",
    "100%",
    "%2e%2e",
    "..",
    "a\nb",
    "\x00",
    "\x7f",
    "ä\u2028",
    "x" * 1_100,
    "9" * 4_400,
    "-1",
    "1e999",
]
NUMBERS = [str(2**63), "9" * 20, "9" * 4_400, "-1", "0x1", "١"]
VALUES: list[bytes] = [
    b'"\\ud800"',
    b"9" * 4_400,
    str(2**63).encode(),
    b"-1",
    b"NaN",
    b"[" * 50_000 + b"]" * 50_000,
    b'{"a":' * 150 + b"1" + b"}" * 150,
    b"null",
    b"[]",
    b"{}",
    b"true",
    b'"a/b"',
    b'" "',
    b'"\\u0000"',
    json.dumps("x" * 1_100).encode(),
    b"\xff\xfe",
    b"",
]
FIELDS = {
    "Connect REST API": ["name", "config", "initial_state", "offsets", "level", "connector.class", "topics"],
    "stream SQL server": ["ksql", "sql", "streamsProperties", "sessionVariables", "properties", "queryId", "target",
                          "deleteTopicList", "commandSequenceNumber"],
    "schema registry": ["schema", "schemaType", "references", "metadata", "ruleSet", "compatibility", "mode", "id"],
    "triggers": ["name", "topic", "function", "batch_size", "filters", "on_failure", "position", "timestamp_ms"],
    "tables": ["name", "topic", "keys", "partitions", "windowed", "key_format"],
}  # fmt: skip
SQL = ["/ksql", "/query", "/query-stream", "/close-query", "/inserts-stream", "/status/stream/{}/create",
       "/is_valid_property/{}", "/ws/query?request={}"]  # fmt: skip


@pytest.fixture(scope="module")
def ports() -> Iterator[AllPorts]:
    with all_ports(Settings()) as running:
        yield running


def connect_routes(ports: AllPorts) -> list[tuple[str, str]]:
    return [(route.method, route.path) for route in connect_app.routes_of(ports.cluster)]


def registry_routes() -> list[tuple[str, str]]:
    routes_found = []
    for method, pattern, _ in RegistryApi(None, None, "c")._routes:  # type: ignore[arg-type]
        path = re.sub(r"\(\?:/.*?\)\?|\([^)]*\)", "{}", pattern.pattern.replace("\\", "")).rstrip("/")
        routes_found.append((method, path))
    return routes_found


def bodies(fields: list[str]) -> Iterator[bytes]:
    yield from VALUES
    for field in fields:
        for value in VALUES:
            yield b"{%s: %s}" % (json.dumps(field).encode(), value)


def check(response: tuple[int, str, Mapping[str, str]], request_text: str) -> None:
    status, text, _ = response
    assert status < 500, f"{request_text}: {status} {text[:300]}"
    assert "Traceback" not in text
    if status >= 400 and status not in (401, 405, 404):
        assert len(text) > 10, request_text


def sweep(url: str, name: str, routes: list[tuple[str, str]], headers: Mapping[str, str]) -> int:
    count = 0
    for method, path in routes:
        places = re.findall(r"\{\w*\}", path)
        for text in TEXTS + NUMBERS if places else [""]:
            path_asked = re.sub(r"\{\w*\}", lambda _: quote(text, safe=""), path)  # noqa: B023
            check(ask(url, method, path_asked, headers), f"{method} {path} {text[:40]!r}")
            count += 1
        if method in ("POST", "PUT", "PATCH"):
            path_asked = re.sub(r"\{\w*\}", "none", path)
            for body in bodies(FIELDS[name]):
                check(ask(url, method, path_asked, headers, body), f"{method} {path} {body[:60]!r}")
                count += 1
    return count


def test_connect(ports: AllPorts) -> None:
    url = ports.urls["Connect REST API"]
    json_type = {"Content-Type": "application/json"}
    assert sweep(url, "Connect REST API", connect_routes(ports), json_type) > 1_000
    config = {"connector.class": "DatagenConnector", "kafka.topic": "t", "quickstart": "users"}
    for text in [*TEXTS, "\ud800", "a?b", "a#b", ""]:
        body = json.dumps({"name": text, "config": config}).encode()
        status, response_text, headers = ask(url, "POST", "/connectors", json_type, body)
        assert status in (201, 400), response_text
        if status == 201:  # what can be created can be asked for and deleted
            assert ask(url, "GET", headers["location"])[0] == 200
            assert ask(url, "DELETE", headers["location"])[0] == 204
    assert json.loads(ask(url, "GET", "/connectors")[1]) == []


def test_registry(ports: AllPorts) -> None:
    json_type = {"Content-Type": "application/json"}
    assert sweep(ports.urls["schema registry"], "schema registry", registry_routes(), json_type) > 1_000


def test_sql(ports: AllPorts) -> None:
    json_type = {"Content-Type": "application/json"}
    routes = [("GET" if "{" in path else "POST", path) for path in SQL]
    assert sweep(ports.urls["stream SQL server"], "stream SQL server", routes, json_type) > 500


class Signing:
    """Sends requests to the function port as their signer does."""

    def __init__(self, ports: AllPorts) -> None:
        self._url = ports.urls["function URLs"]
        self._keys = ports.service.credentials

    def headers(self, method: str, path: str, body: bytes | None) -> dict[str, str]:
        request = AWSRequest(method, self._url + path, data=body or b"", headers={"Content-Type": "application/json"})
        keys = Credentials(self._keys.access_key_id, self._keys.secret_access_key)
        SigV4Auth(keys, "lambda", self._keys.region).add_auth(request)
        return {name: str(value) for name, value in request.headers.items()}

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str, Mapping[str, str]]:
        return ask(self._url, method, path, self.headers(method, path, body), body)


@pytest.mark.parametrize("name", ["triggers", "tables"])
def test_triggers_and_served_tables(ports: AllPorts, name: str) -> None:
    signing = Signing(ports)
    routes = {
        "triggers": ["GET /{}", "DELETE /{}", "POST /", "POST /{}/pause", "POST /{}/resume", "POST /{}/reset"],
        "tables": ["GET /{}", "GET /{}/k", "GET /{}?key=1&from=1", "DELETE /{}", "POST /", "POST /{}", "POST /{}/stop"],
    }[name]
    for route in routes:
        method, _, path = route.partition(" ")
        for text in TEXTS + NUMBERS:
            check(signing.ask(method, f"/{name}{path.replace('{}', quote(text, safe=''))}"), f"{route} {text[:40]!r}")
        if method == "POST":
            for body in bodies(FIELDS[name]):
                check(signing.ask(method, f"/{name}{path.replace('{}', 'none')}", body), f"{route} {body[:60]!r}")
    if name == "tables":
        for parameter in (
            "limit",
            "cursor",
            "window",
            "from",
            "to",
            "min_offset",
            "wait_ms",
            "after",
            "changes",
            "prefix",
        ):
            for text in TEXTS + NUMBERS:
                query = f"?{parameter}={quote(text, safe='')}"
                check(signing.ask("GET", f"/tables/none{query}"), query[:60])


def test_console(ports: AllPorts) -> None:
    url = ports.urls["console"]
    cookie = ports.console_cookie()
    for route in ROUTES:
        if "GET" not in (route.methods or ()) or "events" in route.path:
            continue
        for text in TEXTS + NUMBERS if "{" in route.path else [""]:
            path_asked = re.sub(r"\{[\w:]+\}", lambda _: quote(text, safe=""), route.path)  # noqa: B023
            check(ask(url, "GET", path_asked, {"Cookie": cookie}), f"{route.path} {text[:40]!r}")
        for parameter in ("name", "id", "q", "partition", "limit", "cursor", "from", "a", "again", "subject"):
            for text in (str(2**63), "9" * 4_400, "0:" + "9" * 25, "a\x00b"):
                path_asked = re.sub(r"\{[\w:]+\}", "none", route.path)
                check(
                    ask(url, "GET", f"{path_asked}?{parameter}={quote(text, safe='')}", {"Cookie": cookie}), path_asked
                )
