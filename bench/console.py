"""How fast is the console? Pages of a log with 10,000 topics, and searches over millions of records.

The service is a process of its own, the console another part of this one; pages are asked for over HTTP as a browser
does. The weight of a page is that of its HTML, style sheet, script and icon, compressed by gzip as a proxy would.

    python -m bench.console [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import statistics
import time
from pathlib import Path
from typing import Any

import httpx
import odradek
import pyarrow as pa
from odradek.console.serving import RunningConsole, serve_console
from odradek.console.settings import ConsoleSettings
from odradek.operations.cluster import Cluster
from odradek.operations.records.filters import Filter
from odradek.operations.records.search import Progress, search
from rich.console import Console
from rich.table import Table

from bench.throughput import Service, started

RESULTS = Path(__file__).parent / "results" / "console.json"
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
    "expression, no match": Filter(where="$.n == -1"),
    "text, newest 100": Filter(text="customer 77"),
}
_REPEATS = 7
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
                answer = await client.get(path)
                times.append(time.perf_counter() - began)
                assert answer.status_code == 200, f"{path}: {answer.status_code}"
            rows.append(
                {
                    "page": name,
                    "first_ms": round(1000 * times[0], 1),
                    "median_ms": round(1000 * statistics.median(times[1:]), 1),
                    "html_kb": round(len(gzip.compress(answer.content)) / 1000, 1),
                    "all_kb": round(await _weight(client, answer.text) / 1000, 1),
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
        async for each in search(cluster, "records", wanted, limit=100):
            last = each if isinstance(each, Progress) else last
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


async def measure(service: Service, records: int) -> dict[str, Any]:
    cluster = Cluster(service.client_config)
    settings = ConsoleSettings(requests_per_s=1e6)
    began = time.perf_counter()
    async with serve_console(cluster, settings) as running:
        started_s = time.perf_counter() - began
        return {
            "started_s": round(started_s, 3),
            "pages": await pages(running),
            "searches": await searches(cluster, records),
        }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(argv).quick
    topics, records = (1_000, 200_000) if quick else (10_000, 5_000_000)
    with started() as service:
        fill(service, topics, records)
        found = asyncio.run(measure(service, records))
    found |= {"topics": topics, "records": records}
    _print(found)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def _print(found: dict[str, Any]) -> None:
    table = Table("page", "first", "median", "HTML", "with all parts", title=f"{found['topics']:,} topics")
    for row in found["pages"]:
        table.add_row(
            row["page"],
            f"{row['first_ms']:,.0f} ms",
            f"{row['median_ms']:,.0f} ms",
            f"{row['html_kb']} kB",
            f"{row['all_kb']} kB",
        )
    console = Console(width=120)
    console.print(table)
    table = Table(
        "search",
        "scanned",
        "matched",
        "time",
        "records/s",
        "records per CPU second",
        title=f"{found['records']:,} records of JSON",
    )
    for row in found["searches"]:
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
