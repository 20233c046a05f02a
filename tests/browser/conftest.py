"""One service, one console and one browser for all flows; each test has a page of its own, signed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.console.serving import RunningConsole
from odradek.console.settings import ConsoleSettings
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.browser.screenshots import browser, served, sign_in
from tests.support.console import OPEN, fill

PATIENCE_MS = 45_000  # of actions and of what is expected: a busy machine takes long, and a wrong page never gets there
QUICK = {"requests_per_s": 1e6, "changes_per_s": 1e6, "sign_ins_per_min": 1e6}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def service() -> Iterator[Any]:
    with odradek.local() as found:
        fill(found.client_config, orders=300)
        yield found
        while OPEN:
            OPEN.pop().close()


@pytest.fixture(scope="session")
def console(service: Any) -> Iterator[RunningConsole]:
    with served(service.client_config, ConsoleSettings(**QUICK), service.data_dir) as running:
        yield running


@pytest.fixture(scope="session")
def read_only(service: Any) -> Iterator[RunningConsole]:
    with served(service.client_config, ConsoleSettings(**QUICK, read_only=True), service.data_dir) as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def session(chromium: Browser, console: RunningConsole) -> Any:
    return sign_in(chromium, console)


@pytest.fixture
def page(chromium: Browser, console: RunningConsole, session: Any) -> Iterator[Page]:
    """A page of the console. The test fails if the page reports an error: of a script, or of the policy."""
    context = chromium.new_context(base_url=console.url, storage_state=session, viewport={"width": 1440, "height": 900})
    found = context.new_page()
    errors: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error" and "status of 4" not in message.text:  # a refusal that the test asks for
            errors.append(message.text)

    found.on("console", heard)
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.set_default_timeout(PATIENCE_MS)
    yield found
    context.close()
    assert errors == []
