"""Calls of an HTTP API: authentication, and which failures are worth another attempt."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from odradek.connect.config import ConfigDef, Kind, between, one_of
from odradek.connect.errors import ConnectError, DataError, RetriableError
from odradek.extras import extra
from odradek.ports.clock import Clock

with extra("connect-http"):
    import urllib3

HTTP = (
    ConfigDef()
    .define("headers", Kind.STRING, "", "Headers of requests: name:value, separated by |.", also=("http.headers",))
    .define("request.timeout.ms", Kind.INT, 30_000, "Time for one request.", allowed=between(1))
    .define(
        "auth.type", Kind.STRING, "none", "none; basic; bearer; oauth2: a token by client credentials.",
        allowed=one_of("none", "basic", "bearer", "oauth2", ignore_case=True),
    )
    .define("connection.user", Kind.STRING, "", "The user of basic.")
    .define("connection.password", Kind.PASSWORD, "", "The password of basic.")
    .define("bearer.token", Kind.PASSWORD, "", "The token of bearer.")
    .define("oauth2.token.url", Kind.STRING, "", "Where oauth2 gets its token.")
    .define("oauth2.client.id", Kind.STRING, "", "The client id of oauth2.")
    .define("oauth2.client.secret", Kind.PASSWORD, "", "The client secret of oauth2.")
    .define("oauth2.client.scope", Kind.STRING, "", "The scope of oauth2.")
)  # fmt: skip
_EARLY_S = 30.0  # a token is renewed so long before it expires
_TOKEN_S = 300.0  # for a token that does not say how long it is valid
_TEXT_MAX = 300


class HttpClient:
    """Makes the calls of one task. Raises ConfigError by way of the definitions."""

    def __init__(self, options: Mapping[str, Any], clock: Clock) -> None:
        self._options, self._clock = options, clock
        timeout = urllib3.Timeout(total=options["request.timeout.ms"] / 1000)
        self._pool = urllib3.PoolManager(timeout=timeout, retries=False)
        pairs = [header.partition(":") for header in options["headers"].split("|") if header.strip()]
        self._headers = {name.strip(): value.strip() for name, _, value in pairs}
        self._token = ""
        self._token_until_s = 0.0

    def call(self, method: str, url: str, body: bytes | None = None, content_type: str = "") -> bytes:
        """Return the body of a response.

        Raises:
            RetriableError: no answer, 408, 429 or 5xx.
            DataError: another 4xx, which the same request will get again.
        """
        headers = {**({"Content-Type": content_type} if content_type else {}), **self._headers, **self._authorization()}
        return self._request(method, url, body, headers)

    def _request(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        try:
            response = self._pool.request(method, url, body=body, headers=dict(headers))
        except urllib3.exceptions.LocationValueError as error:
            raise ConnectError(f"invalid URL {url!r}: {error}") from error
        except urllib3.exceptions.HTTPError as error:
            raise RetriableError(f"{method} {url}: {error}") from error
        if response.status < 300:
            return bytes(response.data)
        text = bytes(response.data).decode(errors="replace")[:_TEXT_MAX]
        if response.status == 401:
            self._token = ""  # it may have been revoked
        error_type: type[ConnectError] = DataError
        if response.status in (401, 408, 429) or response.status >= 500:
            error_type = RetriableError
        if response.status == 401 and self._options["auth.type"].lower() != "oauth2":
            error_type = ConnectError
        raise error_type(f"{method} {url} answered {response.status}: {text}")

    def _authorization(self) -> dict[str, str]:
        options, auth_type = self._options, self._options["auth.type"].lower()
        if auth_type == "basic":
            pair = f"{options['connection.user']}:{options['connection.password']}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        if auth_type == "bearer":
            return {"Authorization": f"Bearer {options['bearer.token']}"}
        if auth_type == "oauth2":
            return {"Authorization": f"Bearer {self._oauth2()}"}
        return {}

    def _oauth2(self) -> str:
        """Return a token by the client credentials grant (RFC 6749, 4.4)."""
        if not self._token or self._clock.monotonic() >= self._token_until_s:
            options = self._options
            form = {
                "grant_type": "client_credentials",
                "client_id": options["oauth2.client.id"],
                "client_secret": options["oauth2.client.secret"],
                **({"scope": options["oauth2.client.scope"]} if options["oauth2.client.scope"] else {}),
            }
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
            data = self._request("POST", options["oauth2.token.url"], urlencode(form).encode(), headers)
            try:
                document = json.loads(data)
                self._token, valid_s = str(document["access_token"]), float(document.get("expires_in") or _TOKEN_S)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ConnectError(f"{options['oauth2.token.url']} answered without an access_token") from error
            self._token_until_s = self._clock.monotonic() + max(valid_s - _EARLY_S, valid_s / 2)
        return self._token

    def close(self) -> None:
        self._pool.clear()
