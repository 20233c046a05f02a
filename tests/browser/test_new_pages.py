"""axe over every page in both themes; what a person does on the pages of SQL, connectors, triggers, jobs and rights."""

from __future__ import annotations

import re
from typing import Any

import odradek
import pytest
from odradek.console.serving import RunningConsole
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import violations
from tests.browser.screenshots import PAGES, sign_in


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


# --- triggers, jobs, rights -------------------------------------------------------------------------------------------


def test_a_trigger_from_its_creation_to_its_deletion(page: Page) -> None:
    page.goto("/triggers")
    page.get_by_text("Create a trigger").click()
    page.get_by_label("Name").fill("from-a-browser")
    page.get_by_label("Topic").fill("payments")
    page.get_by_label("Function", exact=False).first.fill("http://127.0.0.1:9/hook")
    page.get_by_label("Filters", exact=False).fill('{"key": ["7"]}')
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_contain_text("not shown again: whsec_")
    expect(page.locator("main h1")).to_have_text("from-a-browser")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("link", name="Reset").click()
    page.get_by_role("button", name="Show what would change").click()
    # Other tests may have sent more.
    expect(page.locator("main")).to_contain_text(re.compile(r"-3\d"))
    page.get_by_role("button", name="Set these offsets").click()
    expect(page.get_by_role("status")).to_contain_text("still paused")
    expect(page.locator(".figures")).to_contain_text(re.compile(r"3\d"))
    page.get_by_role("link", name="Delete").click()
    delete = page.get_by_role("button", name="Delete trigger")
    expect(delete).to_be_disabled()
    page.locator("input[name=confirm]").fill("from-a-browser")
    delete.click()
    expect(page.get_by_role("status")).to_contain_text("were deleted")
    expect(page.get_by_role("link", name="from-a-browser")).to_have_count(0)


def test_a_trigger_that_is_refused_keeps_what_was_typed(page: Page) -> None:
    page.goto("/triggers")
    page.get_by_text("Create a trigger").click()
    page.get_by_label("Name").fill("wrong")
    page.get_by_label("Topic").fill("nowhere")
    page.get_by_label("Function", exact=False).first.fill("http://127.0.0.1:9/hook")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("nowhere")
    expect(page.get_by_label("Topic")).to_have_value("nowhere")
    expect(page.get_by_label("Name")).to_be_visible()


def test_triggers_are_filtered_while_typing(page: Page) -> None:
    page.goto("/triggers")
    expect(page.get_by_role("link", name="new-orders")).to_be_visible()
    page.get_by_role("searchbox").fill("audit")
    expect(page.get_by_role("link", name="new-orders")).to_have_count(0)
    expect(page).to_have_url(re.compile("filter=audit"))


def test_a_triggers_page_changes_by_itself(page: Page, service: Any) -> None:
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic("watched", 1)])
        admin.create_trigger("watching", "watched", "http://127.0.0.1:9/hook")
        admin.pause_trigger("watching")
    page.goto("/triggers/detail?name=watching")
    lag = page.locator(".figures div", has_text="Lag").locator("dd")
    expect(lag).to_have_text("0")
    with odradek.Producer(**service.client_config) as producer:
        producer.send("watched", b"x").result(30)
    expect(lag).to_have_text("1", timeout=30_000)


def test_a_run_is_started_and_stopped(page: Page) -> None:
    page.goto("/jobs")
    page.get_by_role("link", name="odradek-test-word_count").click()
    expect(page.locator("main")).to_contain_text("It has never run")
    page.get_by_text("Start a run").click()
    page.get_by_label("Arguments", exact=False).fill("input_topic=lines")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("is starting")
    expect(page.locator("#runs")).to_contain_text("input_topic=lines")
    page.get_by_role("button", name="Stop run").click()
    expect(page.locator("#runs")).to_contain_text("stopping")


def test_the_progress_of_streaming_queries_is_drawn(page: Page) -> None:
    page.goto("/jobs/runs?name=odradek-test-sql_job")
    expect(page.locator("#queries .spark .line")).to_have_attribute("d", re.compile("^M0.0,.+"))
    expect(page.locator("#runs")).to_contain_text("[hidden]")


def test_who_may_what_is_a_matrix_and_leads_to_why(page: Page) -> None:
    page.goto("/security?tab=explain")
    page.get_by_label("Name").fill("orders")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="User:ada").click()
    expect(page.locator("main")).to_contain_text("Because of")
    page.get_by_role("link", name="Everybody").click()
    expect(page.locator(".matrix tbody tr")).to_have_count(2)


def test_keys_lead_to_triggers_and_jobs(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.locator("main h1")).to_contain_text("Triggers")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("main h1")).to_contain_text("Jobs")


def test_what_is_chosen_is_in_sight_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/audit")
    expect(page.locator(".bar nav [aria-current]")).to_be_in_viewport(ratio=0.9)
    page.goto("/topics/orders?tab=delete")
    expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=0.9)


@pytest.mark.parametrize(
    "path", ["/triggers", "/triggers/detail?name=new-orders&tab=delete", "/jobs/runs?name=odradek-test-word_count"]
)
def test_a_read_only_console_offers_no_trigger_and_no_run(
    chromium: Browser, read_only: RunningConsole, path: str
) -> None:
    context = chromium.new_context(base_url=read_only.url, storage_state=sign_in(chromium, read_only))
    page = context.new_page()
    page.goto(path)
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main form[method=post]")).to_have_count(0)
    context.close()


def test_a_row_is_looked_up_by_its_key(page: Page) -> None:
    page.goto("/tables")
    page.get_by_role("link", name="accounts").first.click()
    expect(page.locator("main tbody tr").nth(8)).to_be_visible()  # other tests may have sent more than these nine
    page.get_by_label("Look for").select_option("key")
    page.get_by_label("Key", exact=True).fill("account-3")
    page.get_by_role("button", name="Look up").click()
    expect(page.locator("main tbody tr")).to_have_count(1)
    expect(page.locator("main tbody")).to_contain_text('"balance": 39')
    page.locator("main tbody a").click()
    expect(page.locator("main h1")).to_contain_text("offset")


def test_a_table_is_served_stopped_and_dropped(page: Page) -> None:
    page.goto("/tables")
    page.get_by_text("Serve a topic as a table").click()
    page.get_by_label("Name").fill("from-a-browser")
    page.get_by_label("Compacted topic").fill("orders")
    page.get_by_role("button", name="Serve").click()
    expect(page.get_by_role("alert")).to_contain_text("compact")
    page.get_by_label("Compacted topic").fill("accounts")
    page.get_by_role("button", name="Serve").click()
    expect(page.get_by_role("status")).to_contain_text("is served")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("link", name="Drop").click()
    page.locator("input[name=confirm]").fill("from-a-browser")
    page.get_by_role("button", name="Drop table").click()
    expect(page.get_by_role("status")).to_contain_text("was dropped")
