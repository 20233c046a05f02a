"""Served tables in the console: what a form does, and what the page shows afterwards."""

from __future__ import annotations

import odradek
import pytest
from odradek.local.threaded import ThreadedService

from tests.integration.console.conftest import Browser, as_principal, browsing, problem


async def test_a_table_from_its_serving_to_its_drop(browser: Browser, service: ThreadedService) -> None:
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic("prices", 1, configs={"cleanup.policy": "compact"})])
        with odradek.Producer(**service.client_config) as producer:
            for number in range(120):
                producer.send("prices", b'{"cents": %d}' % number, b"sku-%03d" % (number % 60)).result(30)
        page = await browser.done("/tables", name="by-sku", topic="prices", key_format="STRING", value_format="JSON")
        assert "Table by-sku is served" in page
    own = await browser.state.cluster.admin.get_row("by-sku", "sku-007", min_offset={0: 119}, wait_ms=20_000)
    assert [row.value for row in own.rows] == [{"cents": 67}]

    page = await browser.get("/tables/detail?name=by-sku&by=key&key=sku-007")
    assert "&#34;cents&#34;: 67" in page
    first = await browser.get("/tables/detail?name=by-sku")
    assert (first.count("&#34;cents&#34;"), 'rel="next"' in first) == (50, True)
    ranged = await browser.get("/tables/detail?name=by-sku&by=prefix&key=sku-01")
    assert ranged.count("&#34;cents&#34;") == 10
    assert "follows its topic no more" in await browser.done("/tables/steer", name="by-sku", do="stop")
    assert ">stopped</span>" in await browser.get("/tables")
    assert "follows its topic again" in await browser.done("/tables/steer", name="by-sku", do="resume")
    unconfirmed = await browser.post("/tables/drop", name="by-sku", confirm="by")
    assert "type by-sku to confirm" in problem(unconfirmed.text)
    assert "was dropped" in await browser.done("/tables/drop", name="by-sku", confirm="by-sku")
    audit = await browser.get("/audit")
    assert all(line in audit for line in ("serve table", "stop table", "resume table", "drop table"))


@pytest.mark.parametrize(
    ("path", "fields", "text"),
    [
        ("/tables", {"name": "t", "topic": "nowhere"}, "nowhere"),
        ("/tables", {"name": "t", "topic": "orders"}, "compact"),
        ("/tables", {"name": "t", "topic": "accounts", "shards": "65"}, "from 0 to 64"),
        ("/tables/steer", {"name": "accounts", "do": "explode"}, "stopped and resumed"),
        ("/tables/steer", {"name": "nobodys", "do": "stop"}, "nobodys"),
        ("/tables/drop", {"name": "accounts", "confirm": ""}, "type accounts"),
    ],
)
async def test_a_refusal_is_shown_in_place(browser: Browser, path: str, fields: dict[str, str], text: str) -> None:
    response = await browser.post(path, **fields)

    assert 400 <= response.status_code < 500, response.status_code
    assert text in problem(response.text).replace("&#39;", "'")


async def test_a_service_without_tables_says_so(service: ThreadedService) -> None:
    configs = as_principal(service, "User:ada")
    configs["transport"]._functions = None
    async with browsing(configs) as browser:
        assert "There are no served tables here" in await browser.get("/tables")
        assert "There are no triggers here" in await browser.get("/triggers")
