"""`make screenshots`: every page of the console, light and dark, at 1440 and 390 pixels.

    python -m tests.browser.screenshots [--all] [--into FOLDER]

Without --all it writes the few that the documentation shows, to docs/images/console.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import odradek
from odradek.console.serving import RunningConsole, serve_console
from odradek.console.settings import ConsoleSettings
from odradek.operations.cluster import Cluster
from odradek.operations.storage import StorePlace
from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import ARGUMENTS, executable
from tests.support.console import OPEN, fill, glue_jobs

INTO = Path(__file__).resolve().parents[2] / "docs" / "images" / "console"
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "storage": "/topics/orders?tab=storage",
    "keys": "/topics/orders?tab=keys&read=1",
    "configuration": "/topics/orders?tab=configuration",
    "consumers": "/topics/orders?tab=consumers",
    "delete": "/topics/orders?tab=delete",
    "records": "/topics/orders/records",
    "things": "/topics/things/records?order=oldest",
    "search": '/topics/orders/records?where=value.customer.country+==+"CH"+and+value.paid',
    "tail": "/topics/orders/records?live=1",
    "record": "/topics/orders/records/0/3",
    "avro": "/topics/payments/records/0/7",
    "compare": "/topics/orders/compare?a=0:3&b=0:4",
    "produce": "/topics/orders/produce?again=0:3",
    "groups": "/groups",
    "group": "/groups/detail?id=billing",
    "lag": "/groups/detail?id=billing&tab=lag",
    "flight": "/groups/detail?id=mails&tab=flight",
    "letters": "/groups/detail?id=mails&tab=letters",
    "reset": "/groups/reset?id=billing&to=earliest",
    "schemas": "/schemas",
    "schema": "/schemas/detail?subject=payments-value",
    "sql": "/sql",
    "connectors": "/connectors",
    "tables": "/tables",
    "table": "/tables/detail?name=accounts",
    "table-key": "/tables/detail?name=accounts&by=key&key=account-3",
    "table-partitions": "/tables/detail?name=accounts&tab=partitions",
    "table-drop": "/tables/detail?name=accounts&tab=drop",
    "triggers": "/triggers",
    "trigger": "/triggers/detail?name=new-orders",
    "trigger-options": "/triggers/detail?name=new-orders&tab=options",
    "trigger-reset": "/triggers/detail?name=audit-payments&tab=reset&to=earliest",
    "trigger-delete": "/triggers/detail?name=new-orders&tab=delete",
    "jobs": "/jobs",
    "job": "/jobs/runs?name=odradek-test-sql_job",
    "job-never": "/jobs/runs?name=odradek-test-word_count",
    "acls": "/security",
    "users": "/security?tab=users",
    "quotas": "/security?tab=quotas",
    "explain": "/security?tab=explain&principal=User:ada&name=orders",
    "matrix": "/security?tab=explain&name=orders",
    "transactions": "/transactions",
    "costs": "/costs?rate=5MiB/s&record_bytes=1024&producers=20&consumers=3&retention=7d&partitions=16",
    "health": "/health",
    "audit": "/audit",
    "problem": "/topics/nowhere",
    "long-name": "/topics?filter=very-long",
}
DOCUMENTED = (
    ("overview", "dark", 1440),
    ("records", "light", 1440),
    ("topic", "light", 1440),
    ("schema", "light", 1440),
    ("records", "dark", 390),
    ("table", "light", 1440),
)
_CHARTS_MS = 7_000


@contextmanager
def served(
    configs: dict[str, Any], settings: ConsoleSettings | None = None, data_dir: Path | None = None
) -> Iterator[RunningConsole]:
    """Serve a console in a thread of its own."""
    store = None if data_dir is None else StorePlace.of_folder(data_dir)
    ready, stopping = threading.Event(), asyncio.Event()
    found: list[Any] = []

    async def serve() -> None:
        try:
            cluster = Cluster(configs, store, job_runs=glue_jobs())
            async with serve_console(cluster, settings or ConsoleSettings()) as running:
                found.extend((running, asyncio.get_running_loop()))
                ready.set()
                await stopping.wait()
        except BaseException as error:
            found.append(error)
            ready.set()
            raise

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    ready.wait()
    if isinstance(found[0], BaseException):
        raise found[0]
    running, loop = found
    try:
        yield running
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser."""
    path, environment = executable()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(path), env=environment, args=list(ARGUMENTS))
        try:
            yield found
        finally:
            found.close()


def main(arguments: list[str] | None = None) -> int:
    """Write the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every page in every form")
    parser.add_argument("--into", type=Path, default=INTO)
    parser.add_argument("names", nargs="*", metavar="PAGE", help=f"with --all, some of: {', '.join(PAGES)}")
    options = parser.parse_args(arguments)
    wanted = [(name, theme, width) for name in PAGES for theme in ("light", "dark") for width in (1440, 390)]
    wanted = [each for each in wanted if not options.names or each[0] in options.names]
    options.into.mkdir(parents=True, exist_ok=True)
    with odradek.local() as service:
        fill(service.client_config)
        with served(service.client_config, data_dir=service.data_dir) as running, browser() as chromium:
            session = sign_in(chromium, running)
            for name, theme, width in wanted if options.all else DOCUMENTED:
                _shoot(chromium, running.url, session, name, theme, width, options.into)
        for producer in OPEN:
            producer.close()
    return 0


def sign_in(chromium: Browser, running: RunningConsole) -> Any:
    """Sign in, and return the cookies of the session."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(running.sign_in_url())
    page.wait_for_selector("main h1 >> text=Overview")
    session = context.storage_state()
    context.close()
    return session


def _shoot(chromium: Browser, url: str, session: Any, name: str, theme: str, width: int, into: Path) -> None:
    size = {"width": width, "height": 900 if width > 600 else 844}
    context = chromium.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce", storage_state=session)
    page = context.new_page()
    page.goto(url + PAGES[name], wait_until="load", timeout=180_000)  # an estimate of cost computes for seconds
    page.wait_for_timeout(_CHARTS_MS if name == "overview" else 1_500 if name in ("search", "tail") else 100)
    page.screenshot(path=str(into / f"{name}-{theme}-{width}.png"))
    wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    print(f"{name} {theme} {width}{': wider than the window' if wide else ''}", flush=True)
    context.close()


if __name__ == "__main__":
    raise SystemExit(main())
