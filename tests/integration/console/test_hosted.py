"""A console for many: sign-in by OpenID Connect at a small provider, and ACLs for each principal."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import odradek
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from odradek.console.accounts import Hosted
from odradek.console.app import console_app
from odradek.console.hosted import oidc_settings, secret_of
from odradek.console.oidc import Oidc, OidcSettings
from odradek.console.sealing import Sealer
from odradek.console.settings import ConsoleSettings
from odradek.errors import KafkaError
from odradek.local.threaded import ThreadedService
from odradek.model.acl import AclOperation
from odradek.operations.cluster import Cluster
from odradek.system import SystemClock

from tests.integration.console.conftest import QUICK, Browser, as_principal, problem
from tests.support.console import acl

ISSUER, URL, CLIENT = "https://provider.example", "https://console.example", "the-console"
SECRET = b"s" * 32


class Provider:
    """An OpenID provider: one signing key, codes that are good once, PKCE checked."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.codes: dict[str, dict[str, Any]] = {}
        self.changes: dict[str, Any] = {}  # of the claims, to break them
        self.signs_with = self.key

    def authorize(self, location: str, user: str, groups: list[str]) -> dict[str, str]:
        """Return the query with which the provider leads back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert query["redirect_uri"] == f"{URL}/callback"
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = {"user": user, "groups": groups, **query}
        return {"code": code, "state": query["state"]}

    async def ask(self, url: str, form: Mapping[str, str] | None) -> Any:
        if url.endswith("/.well-known/openid-configuration"):
            return {
                "issuer": ISSUER,
                "authorization_endpoint": f"{ISSUER}/authorize",
                "token_endpoint": f"{ISSUER}/token",
                "jwks_uri": f"{ISSUER}/keys",
            }
        if url.endswith("/keys"):
            return KeySet([self.key]).as_dict(private=False)
        assert form is not None
        begun = self.codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if begun is None or challenge.decode() != begun["code_challenge"] or form["client_id"] != CLIENT:
            raise ValueError("invalid_grant")
        now_s = SystemClock().now_ms() // 1000
        claims = {
            "iss": ISSUER,
            "aud": CLIENT,
            "sub": f"id-of-{begun['user']}",
            "exp": now_s + 300,
            "iat": now_s,
            "nonce": begun["nonce"],
            "cognito:username": begun["user"],
            "cognito:groups": begun["groups"],
            **self.changes,
        }
        return {"id_token": jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signs_with)}


@asynccontextmanager
async def hosted(
    service: ThreadedService, provider: Provider, **settings: Any
) -> AsyncIterator[tuple[Any, httpx.AsyncClient]]:
    clock = SystemClock()
    sealer = Sealer(SECRET, clock)
    how = OidcSettings(ISSUER, CLIENT, URL, **settings)
    made = Hosted(Oidc(how, clock, sealer, provider.ask), sealer, lambda user: Cluster(as_principal(service, user)))
    cluster = Cluster(as_principal(service, "User:console"))
    app = console_app(cluster, ConsoleSettings(**QUICK, sql_jobs=False), hosted=made)
    through = httpx.ASGITransport(app=app, client=("127.0.0.1", 50_000))
    async with cluster, httpx.AsyncClient(transport=through, base_url=URL, timeout=60) as client:
        yield app, client


async def sign_in(client: httpx.AsyncClient, provider: Provider, user: str, groups: list[str]) -> httpx.Response:
    begun = await client.get("/sign-in")
    assert begun.status_code == 303
    return await client.get("/callback", params=provider.authorize(begun.headers["location"], user, groups))


class Person(Browser):
    """A browser of a console for many."""

    async def post(self, path: str, **fields: str) -> httpx.Response:
        form = {**fields, "csrf": await self.csrf()}
        return await self.client.post(path, data=form, headers={"Origin": URL})


async def test_a_person_signs_in_and_acts_as_a_principal_with_acls(service: ThreadedService) -> None:
    provider = Provider()
    with odradek.Admin(**service.client_config) as admin:
        admin.create_acls([acl("User:ada", "orders", AclOperation.DESCRIBE), acl("User:ada", "orders")])
    try:
        async with hosted(service, provider) as (app, client):
            assert (await client.get("/topics")).status_code == 401
            response = await sign_in(client, provider, "ada", [])
            assert response.status_code == 200
            cookie = response.headers.get_list("set-cookie")[0]
            assert {"HttpOnly", "SameSite=strict", "Secure", "Path=/"} <= set(cookie.split("; "))
            cookies = response.headers.get_list("set-cookie")
            assert all(cookie.startswith("__Host-") and "Domain" not in cookie for cookie in cookies)
            assert response.headers["strict-transport-security"] == "max-age=31536000"
            person = Person(app, client)
            page = await person.get("/topics")
            assert "orders" in page
            assert "payments" not in page, "what ACLs hide is hidden"
            assert "ada" in page
            refused = await person.post("/topics", name="ada-made")
            assert refused.status_code == 403
            refused = await person.post("/topics/orders/delete", confirm="orders")
            assert "AUTHORIZATION" in refused.text.upper()
            assert "create topic" in await person.get("/audit")
            lines = app.state.console.audit.lines()
            assert {line.principal for line in lines} == {"User:ada"}
            await person.post("/sign-out")
            assert (await client.get("/topics")).status_code == 401
    finally:
        with odradek.Admin(**service.client_config) as admin:
            from odradek.model.acl import AclFilter

            admin.delete_acls(AclFilter())


async def test_groups_are_principals_readers_and_tickets(service: ThreadedService) -> None:
    provider = Provider()
    how = {"principals": {"ops": "User:operator"}, "groups_required": ("ops", "staff"), "readers": ("staff",)}
    async with hosted(service, provider, **how) as (app, client):
        assert "in none of the groups" in (await sign_in(client, provider, "eve", ["others"])).text
        assert (await client.get("/topics")).status_code == 401
        await sign_in(client, provider, "bob", ["staff"])
        person = Person(app, client)
        page = await person.get("/topics/orders")
        assert "read-only" in page
        assert "Produce" not in page
        assert (await person.post("/topics", name="never")).status_code == 403
        await sign_in(client, provider, "cy", ["ops"])
        assert "read-only" not in await person.get("/topics/orders")
        await person.done("/topics", name="by-an-operator", partitions="1")
        assert {line.principal for line in app.state.console.audit.lines()} == {"User:operator"}


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"nonce": "another"}, "another sign-in"),
    ({"aud": "another-client"}, "another application"),
    ({"iss": "https://evil.example"}, "not valid"),
    ({"exp": 1_000}, "not valid"),
    ({"exp": None}, "not valid"),
    ({"cognito:username": "", "sub": ""}, ""),
]


@pytest.mark.parametrize(("changes", "text"), BROKEN)
async def test_a_token_that_is_not_for_this_sign_in_is_refused(
    service: ThreadedService, changes: dict[str, Any], text: str
) -> None:
    provider = Provider()
    provider.changes = changes
    async with hosted(service, provider) as (_, client):
        response = await sign_in(client, provider, "ada", [])
        assert response.status_code == 401
        assert text in problem(response.text)
        assert (await client.get("/topics")).status_code == 401


async def test_a_token_of_another_key_or_of_none_is_refused(service: ThreadedService) -> None:
    provider = Provider()
    provider.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
    async with hosted(service, provider) as (_, client):
        assert (await sign_in(client, provider, "ada", [])).status_code == 401

    async def unsigned(url: str, form: Mapping[str, str] | None) -> Any:
        if form is None:
            return await provider.ask(url, form)
        head = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
        body = base64.urlsafe_b64encode(b'{"sub":"ada"}').rstrip(b"=").decode()
        return {"id_token": f"{head}.{body}."}

    other = Provider()
    other.authorize = provider.authorize  # type: ignore[method-assign]
    other.ask = unsigned  # type: ignore[method-assign]
    async with hosted(service, other) as (_, client):
        assert (await sign_in(client, other, "ada", [])).status_code == 401


async def test_state_cookie_and_code_are_good_for_one_browser_and_once(service: ThreadedService) -> None:
    provider = Provider()
    async with hosted(service, provider) as (_, client):
        begun = await client.get("/sign-in")
        back = provider.authorize(begun.headers["location"], "ada", [])
        victim = httpx.AsyncClient(transport=client._transport, base_url=URL)  # login CSRF: another browser
        assert (await victim.get("/callback", params=back)).status_code == 401
        wrong = await client.get("/callback", params={**back, "state": "guessed"})
        assert wrong.status_code == 401
        assert (await client.get("/callback", params=back)).status_code == 200
        assert (await client.get("/callback", params=back)).status_code == 401, "replayed"
        refused = await client.get("/sign-in")
        response = await client.get(
            "/callback",
            params={"error": "access_denied", "error_description": "<b>no</b>",
                    "state": parse_qs(urlsplit(refused.headers["location"]).query)["state"][0]},
        )  # fmt: skip
        assert "<b>" not in response.text


async def test_another_process_knows_the_session_and_a_changed_one_is_refused(service: ThreadedService) -> None:
    provider = Provider()
    async with hosted(service, provider) as (_, client), hosted(service, provider) as (_, other):
        await sign_in(client, provider, "ada", [])
        [(name, value)] = [(cookie.name, cookie.value) for cookie in client.cookies.jar if "sign_in" not in cookie.name]
        other.cookies.set(name, value or "")
        assert (await other.get("/topics")).status_code == 200
        body, _, mac = (value or "").partition(".")
        for forged in (f"{body}.{mac[::-1]}", f"x{body}.{mac}", body, "a.b", f"{body}."):
            fresh = httpx.AsyncClient(transport=other._transport, base_url=URL, cookies={name: forged})
            assert (await fresh.get("/topics")).status_code == 401
        sealed = Sealer(SECRET, SystemClock()).seal({"for": "sign-in", "csrf": "x", "user": "u", "principal": "User:u"})
        third = httpx.AsyncClient(transport=other._transport, base_url=URL, cookies={name: sealed})
        assert (await third.get("/topics")).status_code == 401, "sealed for something else"


async def test_links_with_tokens_and_foreign_hosts_do_not_work_there(service: ThreadedService) -> None:
    async with hosted(service, Provider()) as (app, client):
        token = app.state.console.sessions.new_token()
        assert (await client.get("/", params={"token": token})).status_code == 401
        assert (await client.get("/topics", headers={"Host": "127.0.0.1"})).status_code == 421


def test_what_is_missing_is_named() -> None:
    for wrong in ({"issuer": "http://provider.example"}, {"url": "ftp://x"}, {"client_id": ""}):
        with pytest.raises(KafkaError):
            OidcSettings(**{"issuer": ISSUER, "client_id": CLIENT, "url": URL, **wrong})
    with pytest.raises(KafkaError, match="32 bytes"):
        Sealer(b"short", SystemClock())
    with pytest.raises(KafkaError, match="ODRADEK_CONSOLE_SECRET"):
        secret_of({}, lambda name: name)
    with pytest.raises(KafkaError, match="JSON of a sign-in"):
        oidc_settings({"ODRADEK_CONSOLE_OIDC": '{"issuer": 1, "nonsense": 2}'}, lambda name: name)
    settings = oidc_settings(
        {"ODRADEK_CONSOLE_OIDC_PARAMETER": "p"},
        lambda name: f'{{"issuer": "{ISSUER}", "client_id": "c", "url": "{URL}", "readers": ["r"]}}',
    )
    assert settings.readers == ("r",)
