"""Triggers and jobs in the console: what a form does, what a page shows afterwards, and the trail it leaves."""

from __future__ import annotations

import asyncio

import odradek
import pytest
from odradek.local.threaded import ThreadedService
from odradek.model.trigger import Trigger

from tests.integration.console.conftest import Browser, browsing, problem

URL = "http://127.0.0.1:9/hook"


def known(service: ThreadedService) -> dict[str, Trigger]:
    with odradek.Admin(**service.client_config) as admin:
        return {trigger.name: trigger for trigger in admin.list_triggers()}


async def test_a_trigger_from_its_creation_to_its_deletion(browser: Browser, service: ThreadedService) -> None:
    where = {"name": "life-of-one"}
    with odradek.Admin(**service.client_config) as admin, odradek.Producer(**service.client_config) as producer:
        admin.create_topics([odradek.NewTopic("mails-sent", 1)])  # its own: other tests add to those that are there
        for number in range(30):
            producer.send("mails-sent", b"%d" % number)
    page = await browser.done(
        "/triggers",
        **where,
        topic="mails-sent",
        function=URL,
        starting_position="LATEST",
        batch_size="7",
        filters='{"key": [{"exists": true}]}\n\n{"key": ["a"]}',
        bisect="on",
        on_failure="topic:mails-dead",
    )
    assert "Trigger life-of-one was created." in page
    assert "whsec_" in page, "the secret is shown here"
    assert "whsec_" not in await browser.get("/triggers/detail?name=life-of-one&tab=options"), "and not again"
    made = known(service)["life-of-one"]
    assert (made.batch_size, made.bisect, made.on_failure) == (7, True, "topic:mails-dead")
    assert made.filters == ('{"key": [{"exists": true}]}', '{"key": ["a"]}')

    enabled = await browser.post("/triggers/reset", **where, to="earliest")
    assert enabled.status_code == 400
    assert "pause it before you reset it" in problem(enabled.text).replace("&#39;", "'")
    assert "127.0.0.1:" not in problem(enabled.text), "a refusal in the service's own words"
    async with asyncio.timeout(90):  # until the dispatcher has looked where the log ends
        while "-30" not in await browser.get("/triggers/detail?name=life-of-one&tab=reset&to=earliest"):
            await asyncio.sleep(0.05)
    assert "is paused" in await browser.done("/triggers/steer", **where, do="pause")
    assert known(service)["life-of-one"].state == "PAUSED"
    planned = await browser.get("/triggers/detail?name=life-of-one&tab=reset&to=earliest")
    assert "-30" in planned
    assert "Set these offsets" in planned
    described = await browser.get("/triggers/detail?name=life-of-one")
    assert '<td class="n">30</td><td class="n">30</td><td class="n">0</td>' in described, "a dry run changes nothing"
    assert "still paused" in await browser.done("/triggers/reset", **where, to="earliest")
    described = await browser.get("/triggers/detail?name=life-of-one")
    assert '<td class="n">0</td><td class="n">30</td><td class="n">30</td>' in described
    assert "enabled again" in await browser.done("/triggers/steer", **where, do="resume")
    unconfirmed = await browser.post("/triggers/delete", **where, confirm="life")
    assert "type life-of-one to confirm" in problem(unconfirmed.text)
    assert "were deleted" in await browser.done("/triggers/delete", **where, confirm="life-of-one")
    assert "life-of-one" not in known(service)
    audit = await browser.get("/audit")
    for line in ("create trigger", "pause trigger", "resume trigger", "reset trigger", "delete trigger"):
        assert line in audit
    assert "whsec_" not in audit


@pytest.mark.parametrize(
    ("path", "fields", "text"),
    [
        ("/triggers", {"name": "t", "topic": "nowhere", "function": URL}, "nowhere"),
        ("/triggers", {"name": "t", "topic": "orders", "function": "not-a-function"}, "function"),
        ("/triggers", {"name": "t", "topic": "orders", "function": URL, "batch_size": "0"}, "from 1 to 10000"),
        ("/triggers", {"name": "t", "topic": "orders", "function": URL, "filters": "{"}, "filter"),
        ("/triggers", {"name": "new-orders", "topic": "orders", "function": URL}, "exists"),
        (
            "/triggers",
            {"name": "t", "topic": "orders", "function": URL, "starting_position": "AT_TIMESTAMP",
             "starting_timestamp": "soon"},
            "invalid time",
        ),
        ("/triggers/steer", {"name": "new-orders", "do": "explode"}, "paused and resumed"),
        ("/triggers/steer", {"name": "nobodys", "do": "pause"}, "nobodys"),
        ("/triggers/reset", {"name": "audit-payments", "to": "7"}, "choose where to"),
        ("/triggers/reset", {"name": "audit-payments", "to": "time", "time": "soon"}, "invalid time"),
        ("/triggers/delete", {"name": "new-orders", "confirm": "orders"}, "type new-orders"),
        ("/jobs/start", {"name": "odradek-test-sql_job"}, "runs already"),
        ("/jobs/start", {"name": "odradek-test-word_count", "arguments": "no equals sign"}, "NAME=VALUE"),
        ("/jobs/start", {"name": "nobodys"}, "no such job"),
        ("/jobs/stop", {"name": "odradek-test-word_count"}, "is under way"),
    ],
)  # fmt: skip
async def test_a_refusal_is_shown_in_place(browser: Browser, path: str, fields: dict[str, str], text: str) -> None:
    response = await browser.post(path, **fields)

    assert 400 <= response.status_code < 500, response.status_code
    assert text in problem(response.text).replace("&#39;", "'")
    assert "Traceback" not in response.text


async def test_a_run_is_started_watched_and_stopped(browser: Browser) -> None:
    where = {"name": "odradek-test-word_count"}
    page = await browser.done("/jobs/start", **where, arguments="input_topic=lines\n--sasl_password=hush\n")
    assert "is starting" in page
    assert "input_topic=lines" in page
    assert "hush" not in page
    assert "Stop the run" in page
    page = await browser.done("/jobs/stop", **where)
    assert ">stopping</span>" in page
    assert "Stop the run" not in page
    assert "Start a run" not in page, "one run at a time"
    audit = await browser.get("/audit")
    assert "start job" in audit
    assert "stop job" in audit
    assert "hush" not in audit


async def test_without_triggers_and_glue_the_pages_say_so(service: ThreadedService) -> None:
    async with browsing(service.client_config, jobs=False) as browser:
        page = await browser.get("/jobs")
        assert "Jobs run on Glue" in page
        assert "word_count" in page, "what is installed"
        assert "has no jobs on Glue" in await browser.get("/jobs/runs?name=x", 404)
