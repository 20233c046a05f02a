"""What an operator does all day: several topics at a time, times of here, copies, saved searches, a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import odradek
import pytest
from odradek.console.serving import RunningConsole
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import violations
from tests.browser.screenshots import PAGES


@contextmanager
def context_of(chromium: Browser, console: RunningConsole, session: Any, **options: Any) -> Iterator[BrowserContext]:
    context = chromium.new_context(base_url=console.url, storage_state=session, **options)
    yield context
    context.close()


def topics_of(service: Any, *names: str) -> None:
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic(name, 1) for name in names], if_not_exists=True)
    with odradek.Producer(**service.client_config) as producer:
        for name in names:
            producer.send(name, b"value").result(30)


# --- several topics ---------------------------------------------------------------------------------------------------


def test_ticked_topics_are_purged_then_deleted_after_one_confirmation_each(page: Page, service: Any) -> None:
    topics_of(service, "spare-1", "spare-2", "spare-3")
    for _ in range(60):  # the console keeps its list of topics for some seconds
        page.goto("/topics?filter=spare-")
        if page.get_by_label("Choose spare-3").count():
            break
        page.wait_for_timeout(250)
    delete = page.get_by_role("button", name="Delete topics…")
    expect(delete).to_be_disabled()
    page.get_by_label("Choose all topics of this page").check()
    expect(page.locator("[data-count]")).to_have_text("3 topics are ticked.")
    page.get_by_label("Choose spare-3").uncheck()
    expect(page.locator("[data-count]")).to_have_text("2 topics are ticked.")

    page.get_by_role("button", name="Delete records…").click()
    expect(page.locator("main h1")).to_contain_text("Delete all records of 2 topics")
    assert violations(page) == []
    confirm = page.get_by_role("button", name="Delete records")
    expect(confirm).to_be_disabled()
    page.locator("input[name=confirm]").fill("purge 2 topics")
    confirm.click()
    expect(page.get_by_role("status").first).to_contain_text("2 of 2 topics have no records any more")

    page.goto("/topics?filter=spare-")
    records = page.locator("#list tbody td:nth-child(4)")
    assert records.all_inner_texts() == ["0", "0", "1"]
    page.get_by_label("Choose spare-1").check()
    page.get_by_label("Choose spare-2").check()
    page.get_by_role("button", name="Delete topics…").click()
    page.locator("input[name=confirm]").fill("delete 2 topics")
    page.get_by_role("button", name="Delete topics").click()
    expect(page.get_by_role("status").first).to_contain_text("2 of 2 topics were deleted")
    page.goto("/topics?filter=spare-")
    expect(page.locator("#list tbody tr")).to_have_count(1)


def test_a_choice_is_counted_after_the_list_was_filtered(page: Page) -> None:
    page.goto("/topics")
    page.get_by_label("Choose orders").check()
    page.get_by_role("searchbox").fill("pay")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Delete topics…")).to_be_disabled()
    page.get_by_label("Choose payments").check()
    expect(page.locator("[data-count]")).to_have_text("1 topic is ticked.")


def test_a_missing_topic_is_created_from_its_page(page: Page) -> None:
    page.goto("/topics/wished-for/records")
    expect(page.locator("main h1")).to_contain_text("There is no topic")
    page.get_by_role("button", name="Create it").click()
    expect(page.locator("main h1")).to_have_text("wished-for")


# --- times, copies, searches ------------------------------------------------------------------------------------------


def test_local_time_stands_beside_utc(chromium: Browser, console: RunningConsole, session: Any) -> None:
    with context_of(chromium, console, session, timezone_id="Asia/Tokyo") as context:
        page = context.new_page()
        page.goto("/topics/orders/records/0/3")
        time = page.locator("main time").first
        utc, local = re.fullmatch(
            r"[\d-]{10} (\d\d):\d\d:\d\d\.\d{3} UTC local (?:[\d-]{10} )?(\d\d):\d\d:\d\d", time.inner_text()
        ).groups()  # type: ignore[union-attr]
        assert (int(utc) + 9) % 24 == int(local)
        page.goto("/topics/orders/records")
        expect(page.locator("#records .local")).to_have_count(50)


def test_where_local_time_is_utc_it_is_said_once(chromium: Browser, console: RunningConsole, session: Any) -> None:
    with context_of(chromium, console, session, timezone_id="UTC") as context:
        page = context.new_page()
        page.goto("/topics/orders/records/0/3")
        expect(page.locator("main time[datetime]").first).to_be_visible()
        expect(page.locator(".local")).to_have_count(0)


@pytest.mark.parametrize(
    ("path", "label", "text"),
    [
        ("/topics/orders", "Copy the name", "orders"),
        ("/topics/orders/records/0/3", "Copy the key", "customer-"),
        ("/topics/orders/records/0/3", "Copy the value", '"order_id"'),
        ("/topics/orders/records/0/3", "Copy the header trace-id", "0000"),
        ("/groups/detail?id=billing", "Copy the id", "billing"),
    ],
)
def test_a_button_copies(
    chromium: Browser, console: RunningConsole, session: Any, path: str, label: str, text: str
) -> None:
    with context_of(chromium, console, session, permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(path)
        page.get_by_label(label, exact=True).click()
        expect(page.locator(".copy", has_text="Copied")).to_have_count(1)
        assert text in page.evaluate("navigator.clipboard.readText()")


def test_a_search_is_saved_used_and_forgotten(page: Page) -> None:
    page.goto("/topics/orders/records")
    expect(page.locator(".saved")).to_be_hidden()
    page.goto("/topics/orders/records?q=lovelace&limit=100")
    page.get_by_label("Name of this search").fill("Ada's <b>orders</b>")
    page.get_by_role("button", name="Save search").click()
    page.goto("/topics/payments/records")
    expect(page.locator(".saved")).to_be_hidden()  # of another topic
    page.goto("/topics/orders/records")
    page.get_by_role("link", name="Ada's <b>orders</b>").click()
    expect(page).to_have_url(re.compile(r"\?q=lovelace&limit=100$"))
    page.get_by_label("Forget Ada's <b>orders</b>").click()
    page.goto("/topics/orders/records")
    expect(page.locator(".saved")).to_be_hidden()


# --- live pages -------------------------------------------------------------------------------------------------------

LIVE = [
    "/",
    "/groups/detail?id=billing&tab=lag",
    "/topics/orders/records?live=1",
    "/topics/orders/records?q=no-such-text",
]


def _until(page: Page, condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("the streams of the console did not come to what is expected")


@pytest.mark.parametrize("path", LIVE)
def test_a_page_that_is_left_leaves_no_stream_on_the_server(page: Page, console: RunningConsole, path: str) -> None:
    streams = console.app.state.console.streams
    _until(page, lambda: streams.count == 0)
    with page.expect_response(lambda response: "text/event-stream" in response.headers.get("content-type", "")):
        page.goto(path)
    page.goto("/audit")
    _until(page, lambda: streams.count == 0)


def test_a_hidden_page_watches_nothing_and_goes_on_when_it_is_seen(page: Page, console: RunningConsole) -> None:
    streams = console.app.state.console.streams
    page.goto("/")
    _until(page, lambda: streams.count == 1)
    hide = "(is) => { Object.defineProperty(document, 'hidden', {value: is, configurable: true}); "
    hide += "document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    _until(page, lambda: streams.count == 0)
    page.evaluate(hide, False)
    _until(page, lambda: streams.count == 1)


# --- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["topics", "topic", "storage", "consumers", "groups", "group", "schemas", "tables", "triggers", "trigger", "jobs",
     "transactions", "health", "acls", "users", "quotas", "audit"],
)  # fmt: skip
def test_no_table_is_cut_on_a_phone(page: Page, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(PAGES[name])
    expect(page.locator("main h1")).to_be_visible()
    cut = "() => [...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth + 1)"
    assert page.evaluate(f"({cut})().map((each) => each.textContent.slice(0, 80))") == []


def test_lists_are_sorted_on_a_phone_too(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/groups")
    page.get_by_role("link", name="Lag", exact=True).click()
    expect(page).to_have_url(re.compile("sort=lag&desc=1"))
    expect(page.get_by_role("cell", name=re.compile("^Lag: ")).first).to_be_visible()


def test_the_overview_fills_its_rows_and_each_card_leads_on(page: Page) -> None:
    page.goto("/")
    for selector in (".figures.fill > div", "#charts > figure"):
        boxes = page.locator(selector).evaluate_all(
            "all => all.map((each) => each.getBoundingClientRect()).map((box) => [box.top, box.right])"
        )
        last = dict(boxes)  # the rightmost of each row
        assert len(set(map(round, last.values()))) == 1, f"{selector}: every row ends at the same edge"
        assert page.locator(f"{selector} a").count() == len(boxes)
        assert page.locator(f"{selector} .hint").count() == len(boxes)
    page.locator(".figures a", has_text="Stored").click()
    expect(page.locator("th[aria-sort]")).to_contain_text("Size")


def test_positions_of_groups_are_drawn_on_the_pieces(page: Page) -> None:
    page.goto("/topics/orders?tab=storage")
    marks = page.locator(".map .mark line")
    assert marks.count() >= 1
    picture = page.locator(".map svg").bounding_box()
    assert picture is not None
    for index in range(marks.count()):
        box = marks.nth(index).bounding_box()
        assert box is not None
        assert picture["x"] - 2 <= box["x"] <= picture["x"] + picture["width"] + 2
    expect(page.locator("main")).to_contain_text("billing")
