"""OAuth2 of the HTTP connectors: a token by client credentials, renewed when it expires or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest
from odradek.connect.connectors.http.client import HTTP, HttpClient
from odradek.connect.errors import ConnectError, RetriableError
from odradek.testing.manual_clock import ManualClock

from tests.support.connect.http_server import Answer, Request, serving


class Api:
    """An API behind a server of tokens, of which only the newest is valid."""

    def __init__(self) -> None:
        self.forms: list[dict[str, list[str]]] = []
        self.answer: object = None  # of the server of tokens, in place of a token
        self.revoked = False

    def __call__(self, request: Request) -> Answer:
        if request.path == "/token":
            self.forms.append(parse_qs(request.body.decode()))
            self.revoked = False
            token = {"access_token": f"token {len(self.forms)}", "expires_in": 100}
            return 200, json.dumps(token if self.answer is None else self.answer).encode()
        is_known = request.headers.get("Authorization") == f"Bearer token {len(self.forms)}" and not self.revoked
        return (200, b"found") if is_known else (401, b"")


@pytest.fixture
def api() -> Iterator[tuple[Api, HttpClient, ManualClock, str]]:
    api, clock = Api(), ManualClock()
    with serving(api) as url:
        given = {
            "auth.type": "OAUTH2",
            "oauth2.token.url": f"{url}/token",
            "oauth2.client.id": "me",
            "oauth2.client.secret": "secret",
            "oauth2.client.scope": "read",
        }
        client = HttpClient(HTTP.parse(given), clock)
        yield api, client, clock, url
        client.close()


def test_a_token_is_asked_for_once_while_it_is_valid(api: tuple[Api, HttpClient, ManualClock, str]) -> None:
    server, client, clock, url = api
    for _ in range(3):
        assert client.call("GET", url) == b"found"
        clock.advance(20)
    form = {"grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["secret"], "scope": ["read"]}
    assert server.forms == [form]
    clock.advance(20)  # of 100 seconds, and some are kept in reserve
    assert client.call("GET", url) == b"found"
    assert len(server.forms) == 2


def test_a_token_that_is_refused_is_replaced(api: tuple[Api, HttpClient, ManualClock, str]) -> None:
    server, client, _, url = api
    client.call("GET", url)
    server.revoked = True
    with pytest.raises(RetriableError, match="401"):
        client.call("GET", url)
    assert client.call("GET", url) == b"found"
    assert len(server.forms) == 2


@pytest.mark.parametrize("answer", [[], {}, {"access_token": "t", "expires_in": "soon"}, "no"])
def test_an_answer_without_a_token_fails_the_task(
    api: tuple[Api, HttpClient, ManualClock, str], answer: object
) -> None:
    server, client, _, url = api
    server.answer = answer
    with pytest.raises(ConnectError, match="without an access_token"):
        client.call("GET", url)
