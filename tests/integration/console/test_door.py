"""The door: who is let in, what a foreign page cannot do, and what a read-only console refuses."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from odradek.console.app import ROUTES, console_app
from odradek.console.settings import ConsoleSettings
from odradek.local.threaded import ThreadedService
from odradek.operations.cluster import Cluster
from odradek.testing.manual_clock import ManualClock

from tests.integration.console.conftest import ORIGIN, QUICK, Browser, browsing
from tests.integration.console.test_pages import PAGES as SHOWN
from tests.support.counted import at_least

FORMS = sorted(route.path.replace("{name}", "orders") for route in ROUTES if "POST" in (route.methods or ()))
PAGES = sorted(
    re.sub(r"\{\w+:\w+\}", "0", route.path).replace("{name}", "orders")
    for route in ROUTES
    if "GET" in (route.methods or ())
)


def stranger(browser: Browser, **options: Any) -> httpx.AsyncClient:
    """Return a client of the same console that has not signed in."""
    through = httpx.ASGITransport(app=browser.app, client=("127.0.0.1", 50_001))
    return httpx.AsyncClient(transport=through, base_url=ORIGIN, **options)


@pytest.mark.parametrize("path", PAGES)
async def test_no_page_is_shown_without_a_session(browser: Browser, path: str) -> None:
    async with stranger(browser) as client:
        response = await client.get(path)
    assert response.status_code == 401
    assert "Sign in" in response.text
    assert "orders" not in response.text


@pytest.mark.parametrize("path", FORMS)
async def test_no_form_is_carried_out_without_a_session(browser: Browser, path: str) -> None:
    async with stranger(browser, headers={"Origin": ORIGIN}) as client:
        assert (await client.post(path, data={"csrf": await browser.csrf()})).status_code == 401


async def test_a_token_signs_in_once(browser: Browser) -> None:
    token = browser.state.sessions.new_token()
    async with stranger(browser) as first, stranger(browser) as second:
        let_in = await first.get("/", params={"token": token})
        replayed = await second.get("/", params={"token": token})
        again = await first.get("/", params={"token": token})
        guessed = await second.get("/", params={"token": "0" * 43})
        inside, outside = await first.get("/topics"), await second.get("/topics")
    assert let_in.status_code == 200
    assert (replayed.status_code, guessed.status_code, outside.status_code) == (401, 401, 401)
    assert "used already" in replayed.text
    assert again.status_code == 200, "the same browser opens its link again"
    assert inside.status_code == 200
    cookie = let_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in let_in.text


@pytest.mark.parametrize("cookie", ["", "x", "odradek_console_0=", "odradek_console_0=guess", "odradek_console_0=%00"])
async def test_a_made_up_session_is_none(browser: Browser, cookie: str) -> None:
    async with stranger(browser, headers={"Cookie": cookie}) as client:
        assert (await client.get("/topics")).status_code == 401


async def test_a_session_ends_at_sign_out_and_when_idle(service: ThreadedService) -> None:
    clock = ManualClock()
    app = console_app(Cluster(service.client_config), ConsoleSettings(**QUICK, session_idle_s=60), clock=clock)
    sessions = app.state.console.sessions
    one, two = sessions.sign_in(sessions.new_token()), sessions.sign_in(sessions.new_token())
    sessions.sign_out(two)
    assert sessions.find(two.session_id) is None
    clock.advance(59)
    assert sessions.find(one.session_id) is one
    clock.advance(59)
    assert sessions.find(one.session_id) is one, "a request counts"
    clock.advance(61)
    assert sessions.find(one.session_id) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil", "127.0.0.1@evil", "0.0.0.0"]
)
async def test_a_foreign_host_name_is_refused(browser: Browser, host: str) -> None:
    """DNS rebinding: the page of evil.example reaches this port under its own name, with the browser's help."""
    for path in ("/topics", "/static/console.js", "/?token=x"):
        response = await browser.client.get(path, headers={"Host": host})
        assert response.status_code == 421
        assert "orders" not in response.text


async def test_only_the_port_of_the_console_counts(service: ThreadedService) -> None:
    app = console_app(Cluster(service.client_config), ConsoleSettings(**QUICK, hosts=("console.example",)), port=9293)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:9293") as client:
        for host, status in {
            "127.0.0.1:9293": 401,
            "localhost:9293": 401,
            "[::1]:9293": 401,
            "console.example": 401,
            "127.0.0.1:80": 421,
            "localhost": 421,
        }.items():
            assert (await client.get("/topics", headers={"Host": host})).status_code == status, host


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Origin": "http://127.0.0.1:81"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
async def test_a_form_from_elsewhere_is_refused(browser: Browser, headers: dict[str, str]) -> None:
    form = {"csrf": await browser.csrf(), "confirm": "orders"}
    assert (await browser.client.post("/topics/orders/delete", data=form, headers=headers)).status_code == 403
    await browser.get("/topics/orders")


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("token", ["", "guess", "another session's"])
async def test_a_form_without_the_sessions_token_is_refused(browser: Browser, path: str, token: str) -> None:
    if token == "another session's":
        sessions = browser.state.sessions
        token = sessions.sign_in(sessions.new_token()).csrf
    form = {"csrf": token, "name": "forged", "confirm": "orders", "id": "billing", "subject": "payments-value"}
    response = await browser.client.post(path, data=form, headers={"Origin": ORIGIN})
    assert response.status_code == 403
    assert "reload the page" in response.text
    assert browser.state.audit.lines() == []


async def test_a_form_of_another_type_or_size_is_refused(service: ThreadedService) -> None:
    async with browsing(service.client_config, body_bytes_max=1_000) as browser:
        as_json = await browser.client.post("/topics", json={"csrf": await browser.csrf()}, headers={"Origin": ORIGIN})
        large = await browser.post("/topics/orders/produce", value="x" * 2_000)
    assert (as_json.status_code, large.status_code) == (400, 400)
    assert "more than 1,000 bytes" in large.text


async def test_every_answer_has_the_headers_of_a_locked_page(browser: Browser) -> None:
    for path in ("/", "/topics", "/nope", "/static/console.js", "/static/nope", "/topics/orders/records/0/0/raw"):
        headers = (await browser.client.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert ("immutable" if path.endswith(".js") else "no-store") in headers["cache-control"]


@pytest.mark.parametrize(
    "path", ["/static/../settings.py", "/static/%2e%2e/settings.py", "/static/..%2fapp.py", "/static//etc/passwd"]
)
async def test_static_files_are_those_of_the_folder(browser: Browser, path: str) -> None:
    response = await browser.client.get(path)
    assert response.status_code == 404
    assert "import" not in response.text


async def test_rates_are_limited_for_each_address(service: ThreadedService) -> None:
    limits = {"requests_per_s": 2.0, "changes_per_s": 1.0, "sign_ins_per_min": 3.0}
    app = console_app(Cluster(service.client_config), ConsoleSettings(**limits), clock=ManualClock())

    def client(host: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, client=(host, 1)), base_url=ORIGIN)

    async with client("127.0.0.1") as one, client("127.0.0.2") as another:
        signing_in = [(await one.get("/", params={"token": "guess"})).status_code for _ in range(5)]
        pages = [(await one.get("/topics")).status_code for _ in range(3)]
        other = (await another.get("/topics")).status_code
        changes = [(await another.post("/topics", headers={"Origin": ORIGIN})).status_code for _ in range(4)]
    assert signing_in == [401, 401, 401, 429, 429]
    assert pages == [401, 429, 429]
    assert other == 401
    assert changes == [401, 401, 401, 429]


@pytest.mark.parametrize(
    "path",
    [form for form in FORMS if form not in ("/sign-out", "/theme", "/schemas/check", "/connectors/check", "/sql")],
)
async def test_a_read_only_console_changes_nothing(service: ThreadedService, path: str) -> None:
    async with browsing(service.client_config, read_only=True) as browser:
        response = await browser.post(path, name="made", confirm="orders", id="billing", subject="payments-value")
        assert response.status_code == 403
        assert "read-only" in response.text
        assert browser.state.audit.lines() == []


async def test_a_read_only_console_offers_no_change(service: ThreadedService) -> None:
    shown = [path for path in SHOWN if not path.startswith(("/sql/words", "/sql/export"))]
    async with browsing(service.client_config, data_dir=service.data_dir, read_only=True) as browser:
        for path in at_least(20, shown):
            if "/produce" in path:
                assert "it produces nothing" in await browser.get(path, 403)
                continue
            html = await browser.get(path)
            forms = set(re.findall(r'<form method="post" action="([^"]+)"', html))
            offered = {form for form in forms if form not in ("/theme", "/sign-out", "/sql")}
            disabled = {"/topics/orders/configuration"}  # the configuration is shown in disabled fields
            assert offered <= disabled, path
            assert "read-only" in html
            buttons = r"<button class=\"(primary|danger)\">(Create|Save|Delete|Register|Add|Set|Abort|Start|Stop)"
            assert not re.search(buttons, html), path


async def test_the_choice_of_colours_is_kept_and_leads_back_here_alone(browser: Browser) -> None:
    response = await browser.post("/theme", theme="dark", back="/topics?filter=a")
    assert response.headers["location"] == "/topics?filter=a"
    assert 'data-theme="dark"' in await browser.get("/topics")
    for foreign in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", ""):
        assert (await browser.post("/theme", theme="light", back=foreign)).headers["location"] == "/"


async def test_signing_out_ends_the_session(service: ThreadedService) -> None:
    async with browsing(service.client_config) as browser:
        assert (await browser.post("/sign-out")).status_code == 303
        assert (await browser.client.get("/topics")).status_code == 401
