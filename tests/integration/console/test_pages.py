"""Every page shows what the log has, and says so where there is nothing."""

from __future__ import annotations

import asyncio
import re

import odradek
import pytest
from odradek.console.app import ROUTES
from odradek.console.pages import overview
from odradek.local.threaded import ThreadedService
from odradek.operations import metrics

from tests.integration.console.conftest import Browser, browsing
from tests.support.console import LONG_NAME

PAGES = {
    "/": ["Overview", "orders", "billing", "US dollars"],
    "/topics": ["orders", "an-empty-topic", LONG_NAME],
    "/topics?filter=ORD": ["orders"],
    "/topics?filter=/^pay.*s$/": ["payments"],
    "/topics?filter=zzz": ["No topic matches"],
    "/topics?sort=records&desc=1": ["orders", 'aria-sort="descending"'],
    "/topics?sort=size": ["orders"],
    "/topics?sort=partitions": ["orders"],
    "/topics/orders": ["Partitions", "fleet", "1 d"],
    "/topics/orders?tab=configuration": ["Differ from the default", "86400000", "default: <code>604800000</code>"],
    "/topics/orders?tab=consumers": ["billing", "analytics"],
    "/topics/orders?tab=acls": ["No ACL applies"],
    "/topics/orders?tab=delete": ["Delete topic", 'data-confirm="orders"'],
    "/topics/orders?tab=storage": [
        "Uploads in the tail",
        "<rect",
        "From offset",
        "Positions of groups",
        'class="mark"',
    ],
    "/topics/orders?tab=storage&partition=2": ["badge"],
    "/topics/orders?tab=keys": ["Read a sample"],
    "/topics/orders?tab=keys&read=1&sample=500": ["customer-", "Heaviest keys", "120"],
    "/topics/orders/records": ["Zoë Krüger", "customer-"],
    "/topics/orders/records?order=oldest&partition=1": ["order_id"],
    "/topics/orders/records?q=ada": ["data-events="],
    "/topics/orders/records?live=1": ["/tail"],
    "/topics/orders/records?from=-2&limit=50": ["order_id"],
    "/topics/orders/records?from=@2020-01-01&order=oldest": ["order_id"],
    "/topics/an-empty-topic/records": ["There are no records here"],
    "/topics/orders/records/0/0": ["order_id", "trace-id"],
    "/topics?sort=cleanup": ["accounts"],
    "/topics?sort=retention&desc=1": ["orders", "1 d"],
    "/groups?sort=lag&desc=1": ["billing", 'aria-sort="descending"'],
    "/groups?sort=members": ["mails"],
    "/groups?sort=topics": ["billing"],
    "/groups?sort=state": ["billing"],
    "/topics/orders/records/0/0?values=hex": ["hex"],
    "/topics/payments/records/0/3": ["avro", "schema", "p-3"],
    "/topics/things/records/0/2": ["a tombstone"],
    "/topics/orders/compare?a=0:0&b=0:1": ["order_id", "added", "removed"],
    "/topics/orders/produce": ["Produce"],
    "/topics/orders/produce?again=0:0": ["order_id"],
    "/topics/things/produce?again=0:1": ["00010203"],
    "/topics/orders/produce?tab=lines": ["JSON object a line"],
    "/groups": ["billing", "mails", "share"],
    "/groups?type=share": ["mails"],
    "/groups/detail?id=billing": ["orders-0", "Lag"],
    "/groups/detail?id=mails": ["payments-0", "share.auto.offset.reset"],
    "/groups/detail?id=billing&tab=members": ["no members"],
    "/groups/detail?id=billing&tab=reset": ["Show what would change"],
    "/groups/detail?id=billing&tab=lag": ["Lag over time", "/groups/lag?id=billing"],
    "/groups/detail?id=mails&tab=flight": ["payments-0", "acquired", "From offset"],
    "/groups/detail?id=mails&tab=letters": ["mails-dead", "a consumer rejected the record", "Redrive"],
    "/groups/reset?id=billing&to=earliest": ["Dry run", "Commit these offsets"],
    "/schemas": ["payments-value", "AVRO"],
    "/schemas/detail?subject=payments-value": ["Payment", "note", "BACKWARD"],
    "/schemas/detail?subject=payments-value&version=1": ["cents"],
    "/security": ["There are no ACLs"],
    "/security?tab=users": ["ada"],
    "/security?tab=quotas": ["producer_byte_rate", "4.8 MiB/s"],
    "/security?tab=explain": ["Name a resource"],
    "/security?tab=explain&principal=User:ada&name=orders": ["there are no ACLs"],
    "/security?tab=explain&name=orders": ["User:ada", "User:*", "alter configs", "yes</span>"],
    "/security?tab=explain&resource=cluster": ["idempotent write"],
    "/tables": ["accounts", "profiles", "STRING", "enabled"],
    "/tables?filter=zzz": ["No table matches"],
    "/tables/detail?name=accounts": ["account-3", "&#34;balance&#34;: 39", "Covers partition 0 below offset"],
    "/tables/detail?name=accounts&by=key&key=account-3": ["&#34;balance&#34;: 39"],
    "/tables/detail?name=accounts&by=key&key=nobody": ["No row has this key"],
    "/tables/detail?name=accounts&by=prefix&key=zzz": ["No row matches"],
    "/tables/detail?name=profiles": ["محمد", "not shown"],
    "/tables/detail?name=accounts&tab=partitions": ["Covered", "40"],
    "/tables/detail?name=accounts&tab=options": ["value_format", "JSON"],
    "/tables/detail?name=accounts&tab=drop": ['data-confirm="accounts"'],
    "/triggers": ["new-orders", "audit-payments", "paused", "http://127.0.0.1:9/new-orders"],
    "/triggers?filter=AUDIT": ["audit-payments"],
    "/triggers?filter=zzz": ["No trigger matches"],
    "/triggers/detail?name=new-orders": ["Filtered out", "orders", "trigger.new-orders"],
    "/triggers/detail?name=new-orders&tab=options": ["batch_size", "&#34;country&#34;", "topic:mails-dead"],
    "/triggers/detail?name=new-orders&tab=reset&to=latest": ["Dry run", "orders-2", "Pause the trigger"],
    "/triggers/detail?name=audit-payments&tab=reset&to=earliest": ["Dry run", "payments-0", "-30", "Set these offsets"],
    "/triggers/detail?name=new-orders&tab=delete": ['data-confirm="new-orders"'],
    "/jobs": ["odradek-test-sql_job", "running", "4.5", "never", "word_count", "No script runs beside this console"],
    "/jobs/runs?name=odradek-test-sql_job": ["paid_by_country", "1,240", "unknown column", "[hidden]", "M0.0,"],
    "/jobs/runs?name=odradek-test-word_count": ["Start a run", "It has never run"],
    "/transactions": ["nightly-import", "Ongoing", "Abort"],
    "/transactions?open=on": ["nightly-import"],
    "/sql": ["2 valid statements", "paid_by_country", "BIGINT"],
    "/connectors": ["Create a connector", "FileStreamSource"],
    "/sql?tab=query": ["One statement that reads"],
    "/sql?tab=query&text=SELECT+partition,+count(*)+n+FROM+orders+GROUP+BY+1": [
        "3 rows",
        "<meter",
        "PARQUET",
    ],
    "/sql?tab=jobs": ["No job was started here"],
    "/sql?tab=lookup": ["the latest record of a key is its row"],
    "/sql?tab=lookup&topic=accounts&key=account-3": ["&#34;balance&#34;: 39", "partition"],
    "/sql/words?text=from+payments": ["cents", "orders", "SELECT"],
    "/sql/export?text=SELECT+count(*)+AS+n+FROM+orders": ["n", "120"],
    "/costs": ["Data written"],
    "/costs?rate=1MiB/s&record_bytes=1000&producers=2&consumers=1&retention=1d&partitions=1": ["Kinesis", "Storage"],
    "/health": ["Clock", "fleet of functions"],
    "/audit": ["Nothing was changed"],
}


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_shows_what_the_log_has(browser: Browser, path: str) -> None:
    html = await browser.get(path)

    missing = [text for text in PAGES[path] if text not in html]
    assert missing == []
    assert "http://" not in re.sub(r"http://(127\.0\.0\.1|www\.w3\.org)", "", html), "nothing is loaded from elsewhere"
    assert not re.search(r"<(script(?! type=\"module\" src)|style)|<[^<>]*\s(on\w+=|style=\")", html), (
        "nothing is inline"
    )


def test_every_page_is_in_the_list_above() -> None:
    shown = {path.partition("?")[0] for path in PAGES}
    routes = {route.path for route in ROUTES if "GET" in (route.methods or ())}
    elsewhere = ("/connectors/detail", "/events", "/search", "/tail", "/lag", "/download", "/raw")
    streams = {route for route in routes if route.endswith(elsewhere)}
    patterns = [re.compile(re.sub(r"\\\{\w+(:\w+)?\\\}", "[^/]+", re.escape(route))) for route in routes - streams]

    assert [pattern.pattern for pattern in patterns if not any(pattern.fullmatch(path) for path in shown)] == []


PROBLEMS = {
    "/topics/nowhere": (404, "Create it"),
    "/topics/nowhere/records": (404, "Create it"),
    "/topics/orders/records?partition=9": (404, "partitions 0 to 2"),
    "/topics/orders/records?partition=x": (422, "partition must be numbers"),
    "/topics/orders/records?from=yesterday": (422, "from must be earliest"),
    "/topics/orders/records?cursor=x": (422, "invalid cursor"),
    "/topics/orders/records?limit=0": (422, "from 1 to 500"),
    "/topics/orders/records?where=value.": (422, "invalid expression"),
    "/topics/orders/records?where=__import__('os')": (422, "is not allowed"),
    "/topics/orders/records/0/999999": (400, "has no record at offset"),
    "/topics/orders/compare?a=0:0&b=x": (422, "partition:offset"),
    "/topics?filter=/(/": (422, "invalid pattern"),
    "/groups/detail?id=nobody": (404, "does not exist"),
    "/groups/reset?id=billing": (422, "choose where to"),
    "/groups/reset?id=billing&to=soon": (422, "to must be earliest"),
    "/schemas/detail?subject=nothing": (422, "not found"),
    "/triggers/detail?name=nobodys": (404, "nobodys"),
    "/tables/detail?name=nobodys": (404, "nobodys"),
    "/triggers/detail?name=new-orders&tab=reset&to=soon": (422, "to must be earliest"),
    "/triggers/detail?name=new-orders&tab=reset&to=7": (422, "to must be earliest"),
    "/jobs/runs?name=nobodys": (404, "no such job"),
    "/costs?rate=fast": (422, "invalid rate"),
    "/nope": (404, "There is no such page"),
}


@pytest.mark.parametrize("path", PROBLEMS)
async def test_a_problem_is_shown_in_its_place_and_in_words(browser: Browser, path: str) -> None:
    status, text = PROBLEMS[path]

    html = await browser.get(path, status)

    assert text in html
    assert "<nav" in html, "within the frame"
    assert "Traceback" not in html


async def test_an_empty_log_says_what_to_do_first() -> None:
    with odradek.local() as empty:
        async with browsing(empty.client_config) as browser:
            for path, text in {
                "/": "There are no topics yet",
                "/topics": "There are no topics yet",
                "/groups": "There are no groups yet",
                "/schemas": "There are no schemas yet",
                "/transactions": "No producer has used a transactional id",
                "/security?tab=users": "There are no users",
                "/security?tab=quotas": "There are no quotas",
            }.items():
                assert text in await browser.get(path), path


async def test_a_list_of_many_topics_has_pages(service: ThreadedService) -> None:
    with odradek.local() as many:
        with odradek.Admin(**many.client_config) as admin:
            admin.create_topics([odradek.NewTopic(f"topic-{number:03d}", 1) for number in range(120)])
        async with browsing(many.client_config) as browser:
            first, last = await browser.get("/topics"), await browser.get("/topics?page=3")
            beyond = await browser.get("/topics?page=99")
    assert "topic-000" in first
    assert "topic-050" not in first
    assert "Page 1 of 3" in first
    assert "topic-119" in last
    assert "topic-119" in beyond, "a page beyond the end is the last one"


async def test_the_overview_does_not_wait_for_a_look_that_takes_long(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = asyncio.Event()

    async def never(*_: object) -> None:
        looking.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(metrics, "look", never)
    monkeypatch.setattr(overview, "_PATIENCE_S", 0.01)

    html = await browser.get("/")

    assert looking.is_set()
    assert "being read" in html
    assert "There are no topics yet" not in html


async def test_metrics_that_come_too_late_take_no_chart_away(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    async def too_late(_: str) -> None:
        return None

    monkeypatch.setattr(metrics, "read_numbers", too_late)
    monkeypatch.setattr(browser.state.sampler, "_looks", [])

    html = await browser.get("/")

    assert all(f'data-series="{name}"' in html for name, *_ in overview.CHARTS)
    assert "did not say its metrics in time" in html
    assert "has no /metrics here" not in html
