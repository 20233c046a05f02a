"""How fast is the console? Pages of a log with 10,000 topics, paints, and filters over ten million records.

The service is a process of its own, the console another part of this one; pages are asked for over HTTP as a browser
does. The weight of a page is that of its HTML, style sheet, script and icon, compressed by gzip as a proxy would.

    python -m bench.console [--quick] [--keep] [--browser PATH] [--lighthouse PATH]

--browser names a Chromium, by default that of the browser tests if it is there: the paints are what it reports. With
--lighthouse, Lighthouse's command (`npm install lighthouse`), its scores for a desktop are added; it works offline.
The speed of the columnar reader is that of the same records read to Arrow with no filter.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import odradek
import pyarrow as pa
from odradek.console.serving import RunningConsole, serve_console
from odradek.console.settings import ConsoleSettings
from odradek.operations.cluster import Cluster
from odradek.operations.places import Place
from odradek.operations.records.filters import Filter
from odradek.operations.records.reading import bounds, reader, starts, tables
from odradek.operations.records.search import Progress, search
from rich.console import Console
from rich.table import Table

from bench.throughput import Service, started

RESULTS = Path(__file__).parent / "results" / "console.json"
KEPT = Path(__file__).parent / "kept" / "console.json"
PARTITIONS = 4
PAGES = {
    "overview": "/",
    "topics, first page": "/topics",
    "topics, filtered": "/topics?filter=topic-0099",
    "a topic": "/topics/records",
    "newest 50 records": "/topics/records/records",
    "a record": "/topics/records/records/0/7",
    "groups": "/groups",
}
SEARCHES = {
    "text, no match": Filter(text="there is no such text"),
    "key, no match": Filter(key="there is no such key"),
    "expression on a text, no match": Filter(where='$.country == "DE" and $.n > 10'),
    "expression on a number, no match": Filter(where="$.n == -1"),
    "text, newest 100": Filter(text="customer 77"),
}
PAINTED = ("overview", "topics, first page", "newest 50 records")
AUDITED = ("topics, first page", "newest 50 records")
_PAINTED_AT = "performance.getEntriesByName('first-contentful-paint').map((each) => each.startTime)"
_REPEATS = 7
_BROWSER = Path(__file__).parents[1] / "build" / "browser"
_VALUE = b'{"n":%d,"name":"Customer %d","country":"CH","items":[{"sku":"%05d"}]}'


def fill(service: Service, topics: int, records: int) -> None:
    """Create topics, and one with records of about 100 bytes of JSON."""
    with odradek.Admin(**service.client_config) as admin:
        names = [f"topic-{number:05d}" for number in range(topics)]
        for at in range(0, topics, 500):
            admin.create_topics([odradek.NewTopic(name, 1) for name in names[at : at + 500]])
        admin.create_topics([odradek.NewTopic("records", PARTITIONS)])
    with odradek.Producer(**service.client_config, compression_type="zstd") as producer:
        for at in range(0, records, 100_000):
            numbers = range(at, min(at + 100_000, records))
            values = [_VALUE % (n, n % 997, n % 10_000) for n in numbers]
            keys = [b"customer-%d" % (n % 997) for n in numbers]
            producer.send_table("records", pa.table({"key": keys, "value": values})).result()


async def pages(running: RunningConsole) -> list[dict[str, Any]]:
    """Return the time and the weight of each page: the first request, then the median of some."""
    rows = []
    async with httpx.AsyncClient(base_url=running.url, timeout=120) as client:
        await client.get(running.sign_in_url().removeprefix(running.url))
        for name, path in PAGES.items():
            times = []
            for _ in range(1 + _REPEATS):
                began = time.perf_counter()
                response = await client.get(path)
                times.append(time.perf_counter() - began)
                assert response.status_code == 200, f"{path}: {response.status_code}"
            rows.append(
                {
                    "page": name,
                    "first_ms": round(1000 * times[0], 1),
                    "median_ms": round(1000 * statistics.median(times[1:]), 1),
                    "html_kb": round(len(gzip.compress(response.content)) / 1000, 1),
                    "all_kb": round(await _weight(client, response.text) / 1000, 1),
                }
            )
    return rows


async def _weight(client: httpx.AsyncClient, html: str) -> int:
    assets = sorted(set(re.findall(r'"(/static/[^"]+)"', html)))
    parts = [html.encode(), *[(await client.get(path)).content for path in assets]]
    return sum(len(gzip.compress(part)) for part in parts)


async def searches(cluster: Cluster, records: int) -> list[dict[str, Any]]:
    """Return the time of each search, and the records that it looked at a second."""
    rows = []
    async for _ in search(cluster, "records", Filter(text="warm up"), limit=1):
        pass
    for name, wanted in SEARCHES.items():
        began, spent = time.perf_counter(), time.process_time()
        last = Progress(0, 0, 0)
        async for event in search(cluster, "records", wanted, limit=100):
            last = event if isinstance(event, Progress) else last
        seconds = time.perf_counter() - began
        rows.append(
            {
                "search": name,
                "records": records,
                "scanned": last.scanned,
                "matched": last.matched,
                "seconds": round(seconds, 2),
                "records_per_s": round(last.scanned / seconds),
                "records_per_cpu_s": round(last.scanned / max(time.process_time() - spent, 1e-3)),
            }
        )
    return rows


async def columns(cluster: Cluster) -> dict[str, Any]:
    """Return how fast the columnar reader hands over the records, with no filter."""
    began, spent, rows = time.perf_counter(), time.process_time(), 0
    begins, ends = await bounds(cluster, "records", ())
    first = await starts(cluster, Place("earliest"), begins, ends)
    async with reader(cluster, fetch_max_wait_ms=100) as consumer:
        async for table in tables(
            consumer, {partition: (first[partition], ends[partition]) for partition in ends}, headers=False
        ):
            rows += table.num_rows
    seconds = time.perf_counter() - began
    return {
        "search": "no filter: the columnar reader",
        "records": rows,
        "scanned": rows,
        "matched": rows,
        "seconds": round(seconds, 2),
        "records_per_s": round(rows / seconds),
        "records_per_cpu_s": round(rows / max(time.process_time() - spent, 1e-3)),
    }


async def paints(running: RunningConsole, browser: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return when a browser paints first, in ms after the navigation, by its own Performance API."""
    from playwright.async_api import async_playwright

    rows = []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=str(browser), env={**environment}, args=["--no-sandbox", "--disable-gpu", "--no-zygote"]
        )
        page = await chromium.new_page(viewport={"width": 1440, "height": 900})
        await page.goto(running.sign_in_url())
        for name in PAINTED:
            times = []
            for _ in range(1 + _REPEATS):
                await page.goto(running.url + PAGES[name], wait_until="load")
                while not (painted := await page.evaluate(_PAINTED_AT)):  # it is told after it
                    await asyncio.sleep(0.02)
                times.append(painted[0])
            rows.append(
                {"page": name, "first_ms": round(times[0], 1), "median_ms": round(statistics.median(times[1:]), 1)}
            )
        await chromium.close()
    return rows


async def lighthouse(
    running: RunningConsole, command: Path, browser: Path, environment: dict[str, str]
) -> list[dict[str, Any]]:
    """Return Lighthouse's scores and times for a desktop. The session is a cookie that it sends."""
    async with httpx.AsyncClient(base_url=running.url) as client:
        await client.get(running.sign_in_url().removeprefix(running.url))
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    rows = []
    for name in AUDITED:
        with tempfile.TemporaryDirectory() as folder:
            report_path = Path(folder) / "report.json"
            headers = Path(folder) / "headers.json"
            headers.write_text(json.dumps({"Cookie": cookie}))
            await asyncio.to_thread(
                subprocess.run,
                [str(command), running.url + PAGES[name], "--quiet", "--output=json", f"--output-path={report_path}",
                 "--preset=desktop", f"--extra-headers={headers}",
                 "--only-categories=performance,accessibility,best-practices",
                 "--chrome-flags=--headless --no-sandbox --disable-gpu --no-zygote"],
                env={**environment, "CHROME_PATH": str(browser)},
                check=True,
                timeout=600,
            )  # fmt: skip
            report = json.loads(report_path.read_text())
        audits = report["audits"]
        rows.append(
            {
                "page": name,
                "lighthouse": report["lighthouseVersion"],
                "scores": {
                    key: round(100 * (category["score"] or 0)) for key, category in report["categories"].items()
                },
                "first_contentful_paint_ms": round(audits["first-contentful-paint"]["numericValue"]),
                "largest_contentful_paint_ms": round(audits["largest-contentful-paint"]["numericValue"]),
                "total_blocking_time_ms": round(audits["total-blocking-time"]["numericValue"]),
                "cumulative_layout_shift": round(audits["cumulative-layout-shift"]["numericValue"], 3),
                "failed": sorted(
                    key
                    for key, audit in audits.items()
                    if audit["score"] is not None and audit["score"] < 0.9 and audit["scoreDisplayMode"] == "binary"
                ),
            }
        )
    return rows


def _environment() -> dict[str, str]:
    """Return the environment of the packed Chromium: it brings libraries and fonts."""
    environment = dict(os.environ)
    libraries = [str(_BROWSER / "al2023" / "lib"), str(_BROWSER), environment.get("LD_LIBRARY_PATH", "")]
    return environment | {
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        "FONTCONFIG_FILE": str(_BROWSER / "fonts.conf"),
    }


async def measure(service: Service, browser: Path | None, command: Path | None, records: int) -> dict[str, Any]:
    cluster = Cluster(service.client_config)
    settings = ConsoleSettings(requests_per_s=1e6)
    began = time.perf_counter()
    async with serve_console(cluster, settings) as running:
        figures: dict[str, Any] = {"started_s": round(time.perf_counter() - began, 3), "pages": await pages(running)}
        if browser is not None:
            figures["paints"] = await paints(running, browser, _environment())
        if browser is not None and command is not None:
            figures["lighthouse"] = await lighthouse(running, command, browser, _environment())
        figures["searches"] = [await columns(cluster), *await searches(cluster, records)]
        return figures


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    parser.add_argument("--browser", type=Path, default=_BROWSER / "chromium", help="a Chromium")
    parser.add_argument("--lighthouse", type=Path, help="Lighthouse's command")
    parser.add_argument("--note", default="", help="what to say of the machine, kept with the figures")
    arguments = parser.parse_args(argv)
    topics, records = (1_000, 200_000) if arguments.quick else (10_000, 10_000_000)
    browser = arguments.browser if arguments.browser.exists() else None
    with started() as service:
        fill(service, topics, records)
        figures = asyncio.run(measure(service, browser, arguments.lighthouse, records))
    load = os.getloadavg()[1]
    figures |= {"topics": topics, "records": records, "cores": os.cpu_count(), "load_of_5_minutes": round(load, 1)}
    figures |= {"note": arguments.note} if arguments.note else {}
    _print(figures)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
    if arguments.keep:
        KEPT.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _print(figures: dict[str, Any]) -> None:
    table = Table("page", "first", "median", "HTML", "with all parts", title=f"{figures['topics']:,} topics")
    for row in figures["pages"]:
        table.add_row(
            row["page"],
            f"{row['first_ms']:,.0f} ms",
            f"{row['median_ms']:,.0f} ms",
            f"{row['html_kb']} kB",
            f"{row['all_kb']} kB",
        )
    console = Console(width=120)
    console.print(table)
    if figures.get("paints"):
        table = Table("page", "first", "median", title="First contentful paint, loopback")
        for row in figures["paints"]:
            table.add_row(row["page"], f"{row['first_ms']:,.0f} ms", f"{row['median_ms']:,.0f} ms")
        console.print(table)
    for row in figures.get("lighthouse", ()):
        console.print(f"Lighthouse {row['lighthouse']}, {row['page']}: {row['scores']}")
    table = Table(
        "search",
        "scanned",
        "matched",
        "time",
        "records/s",
        "records per CPU second",
        title=f"{figures['records']:,} records of JSON",
    )
    for row in figures["searches"]:
        table.add_row(
            row["search"],
            f"{row['scanned']:,}",
            str(row["matched"]),
            f"{row['seconds']:.2f} s",
            f"{row['records_per_s']:,}",
            f"{row['records_per_cpu_s']:,}",
        )
    console.print(table)


if __name__ == "__main__":
    raise SystemExit(main())
