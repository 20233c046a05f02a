"""Records in pages, searches, files and tails: each once, none missing, as the log has them."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import odradek
import pyarrow.parquet as pq
import pytest
from odradek.local.threaded import ThreadedService
from odradek.operations.cluster import Cluster
from odradek.operations.places import parse_place
from odradek.operations.records import search as searching
from odradek.operations.records.browse import browse
from odradek.operations.records.export import export
from odradek.operations.records.filters import Filter
from odradek.operations.records.lines import from_json
from odradek.operations.records.produce import RecordForm, encoded, produce
from odradek.operations.records.search import Progress, search
from odradek.operations.records.tail import tail

COUNT = 1_000


@pytest.fixture(scope="module")
def log() -> Any:
    """A thousand records in four partitions: unevenly, with timestamps that do not always grow, one partition empty."""
    chance = random.Random(7)
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 4), odradek.NewTopic("live", 2)])
        with odradek.Producer(**service.client_config, compression_type="gzip") as producer:
            for number in range(COUNT):
                key = None if number % 10 == 0 else b"Key-%d" % (number % 50)
                value = json.dumps({"n": number, "word": chance.choice(["Alpha", "beta", "ζῆτα"])}, ensure_ascii=False)
                producer.send(
                    "t",
                    None if number % 97 == 0 else value.encode(),
                    key,
                    headers=[("even", b"%d" % number)] if number % 2 == 0 else None,
                    partition=chance.choice([0, 1, 1, 1, 3]),
                    timestamp_ms=1_700_000_000_000 + number * 10 + chance.randint(-200, 200),
                )
            producer.flush()
        yield service


@pytest.fixture
async def cluster(log: ThreadedService) -> AsyncIterator[Cluster]:
    async with Cluster(log.client_config) as opened:
        yield opened


async def everything(cluster: Cluster) -> dict[tuple[int, int], Any]:
    records: dict[tuple[int, int], Any] = {}
    async with aclosing(export(cluster, "t", "json", Filter())) as chunks:
        async for chunk in chunks:
            for line in chunk.splitlines():
                record = json.loads(line)
                records[record["partition"], record["offset"]] = record
    return records


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("limit", [7, 100, 500])
async def test_pages_have_each_record_once(cluster: Cluster, newest_first: bool, limit: int) -> None:
    seen_places: list[tuple[int, int]] = []
    cursor, pages = "", 0
    while True:
        page = await browse(cluster, "t", newest_first=newest_first, limit=limit, cursor=cursor)
        assert 0 < len(page.records) <= limit
        seen_places += [(record.partition, record.offset) for record in page.records]
        cursor = page.older if newest_first else page.newer
        pages += 1
        if not cursor or (limit == 7 and pages == 12):
            break

    assert len(seen_places) == len(set(seen_places))
    if limit > 7:
        assert len(seen_places) == COUNT
    for number in range(4):
        offsets = [offset for partition, offset in seen_places if partition == number]
        assert offsets == sorted(offsets, reverse=newest_first), "a partition keeps its order"


@pytest.mark.parametrize("newest_first", [True, False])
async def test_pages_of_many_partitions_are_in_the_order_of_time(newest_first: bool) -> None:
    """Of 30 partitions a page reads a part of each; where that is used up, the page ends rather than skip ahead."""
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("wide", 30)])
        with odradek.Producer(**service.client_config) as producer:
            for number in range(600):
                producer.send("wide", b"x", partition=3 if number % 2 else number % 30, timestamp_ms=1_000 + number)
            producer.flush()
        times: list[int] = []
        cursor = ""
        async with Cluster(service.client_config) as cluster:
            while True:
                page = await browse(cluster, "wide", newest_first=newest_first, limit=50, cursor=cursor)
                times += [record.timestamp_ms for record in page.records]
                cursor = page.older if newest_first else page.newer
                if not cursor:
                    break
    assert times == sorted(range(1_000, 1_600), reverse=newest_first)


async def test_a_page_begins_where_it_is_asked_to(cluster: Cluster) -> None:
    from_offset = await browse(cluster, "t", newest_first=False, place=parse_place("20", "from"), partitions=[1])
    last = await browse(cluster, "t", newest_first=False, place=parse_place("-3", "from"))
    at = await browse(cluster, "t", newest_first=False, place=parse_place("@1700000005000", "from"))
    empty = await browse(cluster, "t", partitions=[2])

    assert from_offset.records[0].offset == 20
    assert sorted({record.partition for record in last.records}) == [0, 1, 3]
    assert len(last.records) == 9
    assert at.records[0].timestamp_ms >= 1_700_000_005_000
    assert (empty.records, empty.older, empty.newer) == ((), "", "")


FILTERS = [
    (Filter(text="alpha"), lambda r: "Alpha" in (r["value"] or "")),
    (Filter(text="ζῆτα"), lambda r: "ζῆτα" in (r["value"] or "")),
    (Filter(text="key-4"), lambda r: "Key-4" in (r["key"] or "")),
    (Filter(key="Key-1"), lambda r: "Key-1" in (r["key"] or "")),
    (Filter(key="key-1"), lambda r: False),
    (Filter(header="even"), lambda r: "headers" in r),
    (Filter(header="even=99"), lambda r: any("99" in value for _, value in r.get("headers", []))),
    (Filter(where="value == null"), lambda r: r["value"] is None),
    (Filter(where="key == null"), lambda r: r["key"] is None),
    (Filter(where="$.n >= 990"), lambda r: r["value"] is not None and json.loads(r["value"])["n"] >= 990),
    (Filter(where='partition == 1 and header("even") != null'), lambda r: r["partition"] == 1 and "headers" in r),
    (
        Filter(text="beta", key="Key", where="value.n % 2 == 1"),
        lambda r: "beta" in (r["value"] or "") and r["key"] and json.loads(r["value"])["n"] % 2,
    ),
]  # fmt: skip


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize(("wanted", "holds"), FILTERS, ids=[str(wanted) for wanted, _ in FILTERS])
async def test_a_search_finds_what_matches_and_nothing_else(
    cluster: Cluster, newest_first: bool, wanted: Filter, holds: Any
) -> None:
    records = await everything(cluster)
    assert len(records) == COUNT
    expected = {position for position, record in records.items() if holds(record)}
    positions: list[tuple[int, int]] = []
    last = None

    async for part in search(cluster, "t", wanted, newest_first=newest_first, limit=COUNT):
        if isinstance(part, Progress):
            last = part
        else:
            positions += [(record.partition, record.offset) for record in part]

    assert len(positions) == len(set(positions))
    assert set(positions) == expected
    assert last == Progress(COUNT, COUNT, len(expected), is_finished=True)


async def test_a_search_in_many_windows_has_each_record_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_WINDOW_MIN", 7)
    monkeypatch.setattr(searching, "_FIRST_ROUND", 1)
    positions: list[tuple[int, int]] = []
    scanned: list[int] = []

    async for part in search(cluster, "t", Filter(where="offset >= 0"), limit=COUNT):
        if isinstance(part, Progress):
            scanned.append(part.scanned)
        else:
            positions += [(record.partition, record.offset) for record in part]

    assert len(positions) == len(set(positions)) == COUNT
    assert scanned == sorted(scanned)
    assert scanned[-1] == COUNT


async def test_a_search_stops_at_its_limit_and_when_it_is_closed(cluster: Cluster) -> None:
    parts = [part async for part in search(cluster, "t", Filter(text="alpha"), limit=5)]
    assert sum(len(part) for part in parts if not isinstance(part, Progress)) == 5

    searching = search(cluster, "t", Filter(text="alpha"))
    await anext(searching)
    await searching.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(searching)


@pytest.mark.parametrize("file_type", ["csv", "json", "parquet"])
async def test_a_file_has_the_matching_records(cluster: Cluster, file_type: str) -> None:
    records = await everything(cluster)
    expected = {position for position, record in records.items() if "Key-7" in (record["key"] or "")}

    data = b"".join([chunk async for chunk in export(cluster, "t", file_type, Filter(key="Key-7"))])

    if file_type == "csv":
        rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
        positions = {(int(row["partition"]), int(row["offset"])) for row in rows}
        assert all(row["timestamp"].startswith("2023-11-14T22:") for row in rows)
    elif file_type == "json":
        rows = [json.loads(line) for line in data.splitlines()]
        positions = {(row["partition"], row["offset"]) for row in rows}
        assert all(from_json(line).key for line in data.splitlines()), "produce --json reads it back"
    else:
        table = pq.read_table(io.BytesIO(data))
        positions = set(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
        assert table.schema.names == ["partition", "offset", "timestamp", "key", "value", "headers"]
    assert positions == expected


async def test_a_file_ends_at_its_limit_and_an_empty_one_is_whole(cluster: Cluster) -> None:
    lines = b"".join([chunk async for chunk in export(cluster, "t", "json", Filter(), rows_max=17)]).splitlines()
    assert len(lines) == 17
    empty = b"".join([chunk async for chunk in export(cluster, "t", "parquet", Filter(key="nothing"))])
    assert pq.read_table(io.BytesIO(empty)).num_rows == 0


async def test_a_tail_shows_what_arrives_and_matches(cluster: Cluster) -> None:
    async with aclosing(tail(cluster, "live", Filter(text="WANTED"))) as arriving:
        await anext(arriving)
        for text in ("wanted 1", "other", "wanted 2"):
            await produce(cluster, "live", [await encoded(cluster, "live", RecordForm(None, text))])
        seen_count, shown = 0, []
        async with asyncio.timeout(60):
            async for part in arriving:
                seen_count += part.seen
                shown += [record.value.text for record in part.records]
                if seen_count == 3:
                    break
    assert shown == ["wanted 1", "wanted 2"]
