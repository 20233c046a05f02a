"""axe over every page in both themes; what a person does on the pages of SQL, storage and connectors."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.screenshots import PAGES


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_against_wcag(page: Page, name: str, theme: str) -> None:
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(PAGES[name])
    expect(page.locator("main h1")).to_be_visible()
    assert violations(page) == []


def test_words_are_completed_by_keys(page: Page) -> None:
    page.goto("/sql?tab=query")
    editor = page.locator("textarea[name=text]")
    with page.expect_response(lambda answer: "/sql/words" in answer.url):
        editor.click()
    editor.press_sequentially("SELECT count(*) FROM pay")
    expect(page.get_by_role("option").first).to_contain_text("payments")
    page.keyboard.press("Tab")
    expect(editor).to_have_value("SELECT count(*) FROM payments")
    expect(page.get_by_role("listbox")).to_be_hidden()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("main")).to_contain_text("1 rows")


def test_a_query_that_writes_is_refused_in_place(page: Page) -> None:
    page.goto("/sql?tab=query&text=DROP+TABLE+orders")
    expect(page.get_by_role("alert")).to_contain_text("not a query")


def test_a_plan_is_drawn(page: Page) -> None:
    page.goto("/sql")
    expect(page.locator(".graph g.query")).to_have_count(1)
    expect(page.locator(".graph g.topic")).to_have_count(2)


def test_lag_is_drawn_live(page: Page) -> None:
    page.goto("/groups/detail?id=billing&tab=lag")
    expect(page.locator("[data-series=lag] .line")).to_have_attribute("d", re.compile("^M0,.+"))


def test_a_configuration_of_a_connector_is_checked_while_typed(page: Page) -> None:
    page.goto("/connectors")
    page.get_by_text("Create a connector").click()
    page.locator("textarea[name=config]").fill('{"connector.class": "FileStreamSource"}')
    expect(page.locator("[data-result] .problem")).to_contain_text("topic")


def test_the_first_paint_is_soon_and_the_page_light(page: Page) -> None:
    """What a Lighthouse would say, by the browser's own Performance API; sizes, not times, are asserted."""
    page.goto("/topics")
    page.wait_for_timeout(500)  # a paint is told after it
    entries = page.evaluate(
        "() => [...performance.getEntriesByType('paint'), ...performance.getEntriesByType('resource')]"
        ".map((each) => [each.name, each.startTime, each.encodedBodySize || 0])"
    )
    paints = {name: at for name, at, _ in entries if "paint" in name}
    print({name: round(at) for name, at in paints.items()})
    assert "first-contentful-paint" in paints
    assert sum(size for _, _, size in entries) < 100_000
