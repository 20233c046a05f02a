"""Connectors in the console: what a page shows is what the workers do, and looking creates nothing."""

from __future__ import annotations

import asyncio

import pytest
from odradek.local.threaded import ThreadedService
from odradek.operations.connectors import HIDDEN, groups_of

from tests.integration.console.conftest import Browser, problem
from tests.support.connect.plugins import COUNTER
from tests.support.connect.running import RunningCluster

# One of its own may have options that it does not define, such as the password.
SOURCE = {"connector.class": COUNTER, "topic": "from-a-counter", "count": "5", "tasks.max": "1"}


def test_a_connect_cluster_is_known_by_its_topics() -> None:
    names = ["a-configs", "a-status", "a-offsets", "b-configs", "b-status", "configs", "-configs"]
    assert groups_of(names) == ["a"]


async def test_looking_at_a_cluster_that_is_not_there_creates_no_topics(
    browser: Browser, service: ThreadedService
) -> None:
    before = await browser.state.cluster.admin.list_topics()
    await browser.get("/connectors?group=nobodys")
    assert "no Connect cluster" in problem(await browser.get("/connectors/detail?group=nobodys&name=x", 404))
    await browser.post("/connectors/steer", group="nobodys", name="x", do="pause")
    assert await browser.state.cluster.admin.list_topics() == before


async def test_a_configuration_is_checked_as_it_is_typed(browser: Browser) -> None:
    response = await browser.post(
        "/connectors/check", group="g", name="x", config='{"connector.class": "FileStreamSource"}', fragment="1"
    )
    assert "topic" in response.text
    assert "problem" in response.text
    response = await browser.post("/connectors/check", group="g", name="x", config="{", fragment="1")
    assert "not JSON" in response.text


async def test_a_connector_from_its_creation_to_its_deletion(browser: Browser, service: ThreadedService) -> None:
    import json

    opened = await asyncio.to_thread(RunningCluster(service, **{"group.id": "visible"}).__enter__)
    try:
        config = json.dumps({**SOURCE, "some.password": "hush"})
        where = {"group": "visible", "name": "lines"}
        page = await browser.done("/connectors/save", **where, is_new="1", config=config)
        assert "Connector lines was created." in page
        await asyncio.to_thread(opened.wait_running, "lines", 1)
        assert "running" in await browser.get("/connectors/detail?group=visible&name=lines")
        assert "CounterSource" in await browser.get("/connectors?group=visible")

        shown = await browser.get("/connectors/detail?group=visible&name=lines&tab=configuration")
        assert HIDDEN in shown
        assert "hush" not in shown
        changed = json.dumps({**SOURCE, "some.password": HIDDEN, "batch.size": "7"})
        await browser.done("/connectors/save", **where, config=changed)
        kept = opened.cluster.config("lines")
        assert (kept["some.password"], kept["batch.size"]) == ("hush", "7")

        refused = await browser.post("/connectors/offsets", **where, offsets="[]")
        assert refused.status_code == 422
        assert "/stop" in problem(refused.text)
        await browser.done("/connectors/steer", **where, do="restart", task="0")
        await browser.done("/connectors/steer", **where, do="pause")
        await asyncio.to_thread(opened.wait_states, "lines", "PAUSED", "PAUSED")
        await browser.done("/connectors/steer", **where, do="stop")
        await asyncio.to_thread(opened.wait_states, "lines", "STOPPED")
        assert "Change offsets" in await browser.get("/connectors/detail?group=visible&name=lines&tab=offsets")
        await browser.done("/connectors/offsets", **where, do="reset", confirm="lines")
        assert opened.cluster.offsets("lines") == {"offsets": []}

        unconfirmed = await browser.post("/connectors/delete", **where, confirm="line")
        assert "type lines to confirm" in problem(unconfirmed.text)
        assert "was deleted" in await browser.done("/connectors/delete", **where, confirm="lines")
        assert opened.cluster.connectors() == []
        audit = await browser.get("/audit")
        for line in ("save connector", "stop connector", "reset offsets of connector", "delete connector"):
            assert line in audit
        assert "hush" not in audit
    finally:
        await asyncio.to_thread(opened.__exit__)


@pytest.mark.parametrize("do", ["", "explode"])
async def test_an_unknown_order_is_refused(browser: Browser, do: str) -> None:
    response = await browser.post("/connectors/steer", group="visible", name="lines", do=do)
    assert 400 <= response.status_code < 500
