"""What a person does in the console, in a real browser: what is typed, clicked, pressed and seen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.console.serving import RunningConsole
from playwright.sync_api import Browser, Page, expect

from tests.browser.screenshots import PAGES, sign_in
from tests.support.console import FIRST, HOSTILE


def heading(page: Page, text: str) -> None:
    expect(page.locator("main h1")).to_contain_text(text)


# --- the door ---------------------------------------------------------------------------------------------------------


def test_a_link_signs_in_once(chromium: Browser, console: RunningConsole) -> None:
    link = console.sign_in_url()
    first, second = chromium.new_context(), chromium.new_context()
    one, two = first.new_page(), second.new_page()
    one.goto(link)
    heading(one, "Overview")
    assert "token" not in one.url
    two.goto(link)
    heading(two, "used already")
    two.goto(console.url + "/topics")
    heading(two, "Sign in")
    first.close()
    second.close()


def test_signing_out_ends_the_session(chromium: Browser, console: RunningConsole) -> None:
    context = chromium.new_context(storage_state=sign_in(chromium, console), base_url=console.url)
    page = context.new_page()
    page.goto("/topics")
    page.get_by_role("button", name="Sign out").click()
    heading(page, "Sign in")
    context.close()


def test_a_page_of_another_origin_cannot_change_anything(
    chromium: Browser, console: RunningConsole, session: Any
) -> None:
    context = chromium.new_context(storage_state=session)
    page = context.new_page()
    foreign = f'<form id=f method=post action="{console.url}/topics"><input name=name value=forged></form>'
    page.route("http://evil.example/", lambda route: route.fulfill(body=foreign, content_type="text/html"))
    page.goto("http://evil.example/")
    with page.expect_response(lambda response: response.request.method == "POST") as answered:
        page.evaluate("document.getElementById('f').submit()")
    assert answered.value.status in (401, 403)
    context.close()


def test_a_page_of_another_origin_cannot_frame_or_read_the_console(page: Page, console: RunningConsole) -> None:
    answer = page.request.get("/topics")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


# --- every page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_without_errors_and_fits_the_window(page: Page, name: str) -> None:
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(PAGES[name])
        expect(page.locator("main h1")).to_be_visible()
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), f"wider than {width}"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["overview", "topics", "topic", "records", "record", "produce", "group", "schema", "acls", "costs"]
)
def test_texts_have_contrast_and_fields_have_names(page: Page, name: str, theme: str) -> None:
    """WCAG AA: 4.5:1 for text; every field, button and link has a name; headings begin with one h1."""
    page.emulate_media(color_scheme=theme)
    page.goto(PAGES[name])
    found = page.evaluate((Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8"))
    assert found == []


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_from_its_creation_to_its_deletion(page: Page) -> None:
    page.goto("/topics")
    page.get_by_text("Create a topic").click()
    page.get_by_label("Name", exact=True).fill("browser-made")
    page.get_by_label("Partitions").fill("2")
    page.get_by_role("button", name="Create").click()
    heading(page, "browser-made")
    expect(page.get_by_role("status")).to_have_text("Topic browser-made was created.")

    page.get_by_role("link", name="Configuration").click()
    page.get_by_label("Filter settings").fill("retention.ms")
    page.get_by_label("retention.ms", exact=True).first.fill("3600000")
    page.get_by_role("button", name="Save changes").click()
    expect(page.locator("main")).to_contain_text("Changed retention.ms.")
    expect(page.locator("dl.figures")).to_contain_text("1 h")

    page.get_by_role("link", name="Partitions", exact=True).click()
    page.get_by_text("Add partitions").click()
    page.get_by_label("New number of partitions").fill("5")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("tbody tr")).to_have_count(5)

    page.get_by_role("link", name="Delete", exact=True).click()
    button = page.get_by_role("button", name="Delete topic")
    expect(button).to_be_disabled()
    confirm = page.locator("form[action$='/delete'] input[name=confirm]")
    confirm.fill("browser-mad")
    expect(button).to_be_disabled()
    confirm.fill("browser-made")
    button.click()
    expect(page.get_by_role("status").first).to_have_text("Topic browser-made was deleted.")


def test_a_refusal_keeps_what_was_typed(page: Page) -> None:
    page.goto("/topics")
    page.get_by_text("Create a topic").click()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_label("Partitions").fill("7")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("already exists")
    expect(page.get_by_label("Name", exact=True)).to_have_value("orders")
    expect(page.get_by_label("Partitions")).to_have_value("7")


def test_the_list_is_filtered_while_typing_and_sorted_by_a_click(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    expect(page.locator("#list")).to_contain_text("orders")
    assert "filter=ord" in page.url
    page.get_by_role("searchbox").fill("nothing like it")
    expect(page.locator("#list")).to_contain_text("No topic matches")
    page.get_by_role("searchbox").fill("")
    page.get_by_role("link", name="Records", exact=True).first.click()
    expect(page.locator("th[aria-sort]")).to_contain_text("Records")


def test_keys_lead_through_the_console(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    heading(page, "Topics")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    name = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    heading(page, name)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()


# --- records ----------------------------------------------------------------------------------------------------------


def test_older_pages_are_reached_and_no_record_twice(page: Page) -> None:
    page.goto("/topics/orders/records?limit=100")
    seen: list[str] = []
    for _ in range(10):
        seen += page.locator("input[name=pick]").evaluate_all("all => all.map((each) => each.value)")
        older = page.get_by_role("link", name="Older")
        if not older.count():
            break
        older.click()
    assert len(seen) == len(set(seen)) == 300


def test_a_text_is_searched_with_progress(page: Page) -> None:
    page.goto("/topics/orders/records")
    page.get_by_label("Text in key or value").fill("lovelace")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#records tbody tr").first).to_be_visible()
    rows = page.locator("#records tbody tr td.value")
    assert all("Lovelace" in text for text in rows.all_inner_texts())
    assert "q=lovelace" in page.url, "the view can be shared"


def test_an_expression_is_searched_and_a_wrong_one_explained(page: Page) -> None:
    page.goto("/topics/orders/records")
    page.get_by_label("Expression").fill('value.customer.country == "JP" and $.items[0].price > 90')
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#records tbody tr").first).to_be_visible()
    assert all('"JP"' in text for text in page.locator("#records tbody tr td.value").all_inner_texts())
    page.goto("/topics/orders/records?where=value.")
    expect(page.get_by_role("alert")).to_contain_text("invalid expression")


def test_a_search_without_a_match_says_so(page: Page) -> None:
    page.goto("/topics/orders/records?q=there-is-no-such-text")
    expect(page.locator("#nothing")).to_have_text("No record matches.")


def test_the_tail_shows_what_arrives_and_pauses(page: Page, service: Any) -> None:
    page.goto("/topics/things/records?live=1")
    expect(page.locator("#stream output")).to_contain_text("0 arrived")
    page.wait_for_timeout(1_500)
    with odradek.Producer(**service.client_config) as producer:
        producer.send("things", b"fresh off the press").result(30)
        expect(page.locator("#records")).to_contain_text("fresh off the press")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#stream output")).to_contain_text("paused")


def test_a_record_is_opened_decoded_otherwise_and_produced_again(page: Page) -> None:
    page.goto("/topics/payments/records")
    page.locator("#records tbody a").first.click()
    expect(page.locator("main")).to_contain_text("avro, schema 2")
    page.get_by_label("Value as").select_option("hex")
    page.get_by_role("button", name="Decode").click()
    expect(page.locator("main")).to_contain_text("00000000  00 00 00 00 02")
    page.get_by_role("link", name="Produce again").click()
    heading(page, "Produce again")
    page.get_by_role("button", name="Produce").click()
    expect(page.get_by_role("status")).to_contain_text("was written to payments-0")


def test_two_records_are_compared(page: Page) -> None:
    page.goto("/topics/orders/records?order=oldest&partition=0")
    boxes = page.locator("input[name=pick]")
    boxes.nth(0).check()
    expect(page.locator("#compare")).to_be_hidden()
    boxes.nth(1).check()
    boxes.nth(2).click()
    expect(boxes.nth(2)).not_to_be_checked()
    page.get_by_role("link", name="Compare two").click()
    heading(page, "Compare")
    expect(page.locator(".diff .added").first).to_be_visible()


def test_a_record_is_produced_from_a_form_and_many_from_a_file(page: Page, tmp_path: Path) -> None:
    page.goto("/topics/things/produce")
    page.get_by_label("null").first.uncheck()
    page.locator("textarea[name=key]").fill("typed-key")
    page.locator("select[name=value_form]").select_option("json")
    page.locator("textarea[name=value]").fill('{"typed": [1, 2')
    page.get_by_role("button", name="Produce").click()
    expect(page.get_by_role("alert")).to_contain_text("not json")
    page.locator("textarea[name=value]").fill('{"typed": [1, 2]}')
    page.get_by_role("button", name="Produce").click()
    expect(page.locator("main")).to_contain_text('"typed"')

    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(json.dumps({"key": f"k{n}", "value": {"n": n}}) for n in range(20)))
    page.goto("/topics/things/produce?tab=lines")
    page.locator("input[type=file]").set_input_files(path)
    expect(page.locator("textarea[name=lines]")).not_to_be_empty()
    page.get_by_role("button", name="Produce").click()
    expect(page.get_by_role("status")).to_have_text("20 records were written to things.")


@pytest.mark.parametrize(
    ("kind", "begins"), [("CSV", b"partition,offset"), ("JSON lines", b'{"topic"'), ("Parquet", b"PAR1")]
)
def test_records_are_downloaded(page: Page, kind: str, begins: bytes) -> None:
    page.goto("/topics/orders/records?q=lovelace")
    with page.expect_download() as downloading:
        page.get_by_role("link", name=kind).click()
    assert Path(downloading.value.path()).read_bytes().startswith(begins)


def test_hostile_records_run_nothing(page: Page) -> None:
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    for path in ("/topics/things/records", "/topics/things/records/0/3", "/topics/things/records?q=alert", "/groups"):
        page.goto(path)
        page.wait_for_timeout(300)
    page.goto("/topics/things/records/0/3")
    assert page.locator("pre").first.inner_text() == HOSTILE
    assert asked == []


# --- groups, schemas, security ----------------------------------------------------------------------------------------


def test_offsets_are_reset_after_a_dry_run(page: Page, service: Any) -> None:
    page.goto("/groups/detail?id=analytics&tab=reset")
    page.get_by_label("To", exact=True).fill("latest")
    page.get_by_role("button", name="Show what would change").click()
    expect(page.locator("main")).to_contain_text("Dry run")
    page.get_by_role("button", name="Commit these offsets").click()
    expect(page.get_by_role("status")).to_contain_text("continues at new offsets")
    expect(page.locator("dl.figures")).to_contain_text("Lag0")


def test_a_group_is_deleted_by_its_name(page: Page, service: Any) -> None:
    with odradek.Admin(**service.client_config) as admin:
        admin.alter_consumer_group_offsets("to-delete", {odradek.TopicPartition("orders", 0): 1})
    page.goto("/groups/detail?id=to-delete&tab=delete")
    page.get_by_label("to confirm").fill("to-delete")
    page.get_by_role("button", name="Delete group").click()
    expect(page.get_by_role("status")).to_have_text("Group to-delete was deleted.")


def test_a_schema_is_checked_while_it_is_typed_and_refused(page: Page) -> None:
    page.goto("/schemas/detail?subject=payments-value")
    page.get_by_text("Register a new version").click()
    wrong = {**FIRST, "fields": [{"name": "must", "type": "string"}]}
    page.locator("textarea[name=text]").fill(json.dumps(wrong))
    expect(page.locator("[data-result]")).to_contain_text("It would be refused")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("textarea[name=text]")).to_have_value(json.dumps(wrong))


def test_a_schema_is_registered_and_deleted(page: Page) -> None:
    page.goto("/schemas")
    page.get_by_text("Register a schema").click()
    page.locator("input[name=subject]").fill("typed-value")
    page.locator("textarea[name=text]").fill(json.dumps(FIRST))
    expect(page.locator("[data-result]")).to_contain_text("Compatible")
    page.get_by_role("button", name="Register").click()
    heading(page, "typed-value")
    page.locator("summary", has_text="Delete").click()
    page.get_by_label("to confirm").fill("typed-value")
    page.get_by_role("button", name="Delete the subject").click()
    expect(page.get_by_role("status")).to_have_text("Subject typed-value was deleted.")


def test_a_script_is_checked_while_it_is_typed(page: Page) -> None:
    page.goto("/sql")
    expect(page.locator("[data-result]")).to_contain_text("2 valid statements")
    page.locator("textarea[name=text]").fill("SELECT nothing FROM nowhere;")
    expect(page.locator("[data-result] .problem")).to_contain_text("line 1")


def test_a_user_is_made_and_two_passwords_must_agree(page: Page) -> None:
    page.goto("/security?tab=users")
    page.get_by_text("Create a user").click()
    page.get_by_label("Name").fill("browser-user")
    page.get_by_label("Password", exact=True).fill("one")
    page.get_by_label("Password again").fill("two")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("passwords differ")
    expect(page.get_by_label("Password", exact=True)).to_have_value("")
    page.get_by_label("Password", exact=True).fill("one")
    page.get_by_label("Password again").fill("one")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("tbody")).to_contain_text("browser-user")
    page.get_by_role("button", name="Delete user browser-user").click()
    expect(page.locator("tbody")).not_to_contain_text("browser-user")


def test_a_quota_is_set_and_removed(page: Page) -> None:
    page.goto("/security?tab=quotas")
    page.get_by_text("Set a quota").click()
    page.get_by_label("Name").fill("browser-client")
    page.locator("select[name=kind]").select_option("client-id")
    page.get_by_label("Value", exact=True).fill("1024")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("tbody")).to_contain_text("1.0 KiB/s")
    page.get_by_role("button", name="browser-client").click()
    expect(page.get_by_role("status")).to_have_text("The quota was removed.")


def test_a_transaction_is_aborted(page: Page, service: Any) -> None:
    producer = odradek.Producer(**service.client_config, transactional_id="browser-stuck")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("accounts", b"never", b"a key").result(30)
    page.goto("/transactions?open=on")
    page.get_by_role("button", name="Abort the transaction of browser-stuck").click()
    expect(page.get_by_role("status")).to_contain_text("was aborted")
    producer.close()


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_charts_are_drawn_live(page: Page, service: Any) -> None:
    page.goto("/")
    with odradek.Producer(**service.client_config) as producer:
        for _ in range(20):
            producer.send("accounts", b"tick", b"k").result(30)
    expect(page.locator("[data-series=requests] .line")).to_have_attribute("d", re.compile("^M.{5}"))
    expect(page.locator("[data-series=bytes_in] output")).to_contain_text("B/s")


def test_an_estimate_is_made_and_shared_by_its_url(page: Page) -> None:
    page.goto("/costs")
    page.get_by_label("Data written").fill("1MiB/s")
    page.get_by_role("button", name="Estimate").click()
    expect(page.locator("tr.total")).to_contain_text("Odradek")
    assert "rate=1MiB" in page.url


def test_the_choice_of_colours_is_kept(page: Page) -> None:
    page.goto("/topics")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/groups")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"


def test_a_read_only_console_offers_no_change(chromium: Browser, read_only: RunningConsole) -> None:
    context = chromium.new_context(storage_state=sign_in(chromium, read_only), base_url=read_only.url)
    page = context.new_page()
    page.goto("/topics/orders")
    expect(page.locator("header")).to_contain_text("read-only")
    assert page.get_by_role("link", name="Produce").count() == 0
    assert page.get_by_role("link", name="Delete").count() == 0
    page.goto("/topics/orders?tab=configuration")
    expect(page.get_by_label("retention.ms", exact=True).first).to_be_disabled()
    context.close()


def test_the_console_works_without_scripts(chromium: Browser, console: RunningConsole, session: Any) -> None:
    context = chromium.new_context(storage_state=session, base_url=console.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/topics?filter=ord")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="orders", exact=True).click()
    heading(page, "orders")
    page.goto("/topics/orders/records")
    expect(page.locator("#records tbody tr").first).to_be_visible()
    context.close()


def test_the_whole_console_loads_from_one_origin_and_is_light(page: Page, console: RunningConsole) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/topics/orders/records")
    assert all(url.startswith(console.url) for url in asked)
    sizes = [len(page.request.get(url).body()) for url in asked]
    assert sum(sizes) < 300_000, dict(zip(asked, sizes, strict=True))
