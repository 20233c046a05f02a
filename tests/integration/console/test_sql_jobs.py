"""A script of stream SQL that is started, watched and stopped in the console."""

from __future__ import annotations

import asyncio
import json

import odradek
import pytest
from odradek.local.threaded import ThreadedService

from tests.integration.console.conftest import Browser

SCRIPT = """
CREATE STREAM clicks (page STRING, ms INT) WITH (kafka_topic='clicks', value_format='json');
CREATE TABLE by_page AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
"""


@pytest.mark.slow
async def test_a_job_is_started_counts_and_is_stopped(browser: Browser, service: ThreadedService) -> None:
    """Slow: Spark starts in a process of its own."""
    await browser.state.cluster.admin.create_topics([odradek.NewTopic("clicks", 1)])
    async with browser.state.cluster.producer() as producer:
        for number in range(30):
            await producer.send("clicks", json.dumps({"page": f"p{number % 3}", "ms": number}).encode(), b"k")
        await producer.flush()
    await browser.done("/sql/start", name="pages", text=SCRIPT)
    jobs = browser.state.sql_jobs
    [job] = jobs.rows()
    while job.state == "running" and not any(query.total_rows == 30 for query in job.queries):
        await asyncio.sleep(0.5)  # however long Spark takes: the test's own time-out is for what hangs
        [job] = jobs.rows()
    assert job.state == "running", job.log
    [query] = job.queries
    assert query.state_rows == 3
    assert query.state_bytes > 0
    page = await browser.get("/sql?tab=jobs")
    assert "state " in page
    assert query.query in page
    again = await browser.post("/sql/start", name="pages", text=SCRIPT)
    assert "runs already" in again.text
    await browser.done("/sql/stop", name="pages")
    while job.exit_code is None:
        await asyncio.sleep(0.5)
        [job] = jobs.rows()
    assert job.state == "finished", job.log
    assert "by_page".upper() in {topic.upper() for topic in await browser.state.cluster.admin.list_topics()}
