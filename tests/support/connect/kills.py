"""Shared by tests that kill workers and servers of a copied database: the workers, progress, and the judge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import odradek

from tests.support.connect.postgres import Postgres
from tests.support.connect.running import RunningCluster
from tests.support.connect.worker_process import WorkerProcess


@contextmanager
def workers(running: RunningCluster, folder: Path) -> Iterator[list[WorkerProcess]]:
    found = [WorkerProcess(running, number, folder) for number in range(2)]
    try:
        yield found
    finally:
        for each in found:
            each.kill()


def moved(running: RunningCluster, target: Postgres, done: int) -> int:
    """Return `progress`. Raises AssertionError if a task has failed: kills fail none."""
    for name in ("capture", "copy"):
        status = running.cluster.status(name)
        for each in (status["connector"], *status["tasks"]):
            assert each["state"] != "FAILED", f"{name}: {each}"
    return progress(target, more_than=done)


def progress(target: Postgres, *, more_than: int) -> int:
    """Return how many records of the topics are in the target, 0 if not more than that."""
    if target.execute("copy", "SELECT to_regclass('odradek_connect_offsets')")[0][0] is None:
        return 0
    found = target.execute("copy", "SELECT coalesce(sum(next_offset), 0)::int FROM odradek_connect_offsets")[0][0]
    return int(found) if found > more_than else 0


def check_transactions(running: RunningCluster, prefix: str, topics: list[str]) -> None:
    """Every transaction of the stream has one beginning, one end, and each of its events once; no row is read twice."""
    borders = [json.loads(each.value)["payload"] for each in all_of(running, f"{prefix}.transaction")]
    assert set(Counter((each["status"], each["id"]) for each in borders).values()) == {1}
    expected = {each["id"]: each["event_count"] for each in borders if each["status"] == "END"}
    seen: Counter[tuple[str, int, str]] = Counter()
    for topic in topics:
        reads: Counter[int] = Counter()
        for record in all_of(running, topic):
            value = None if record.value is None else json.loads(record.value)["payload"]
            if value is None:
                continue
            if value["op"] == "r":
                reads[value["after"]["id"]] += 1
            else:
                seen[value["transaction"]["id"], value["transaction"]["total_order"], value["op"]] += 1
        assert set(reads.values()) <= {1}, "a row was read twice"
        assert len(reads) > 0
    assert set(seen.values()) == {1}, "a change is there twice"
    events = {(id, order) for id, order, _ in seen}  # a changed key is a delete and an insert of the same event
    found = Counter(id for id, _ in events)
    assert {id: count for id, count in expected.items() if found[id] != count} == {}


def all_of(running: RunningCluster, topic: str) -> list[Any]:
    """Return all committed records of a topic."""
    found: list[Any] = []
    with odradek.Consumer(
        **running.client, auto_offset_reset="earliest", isolation_level="read_committed", max_poll_records=10_000
    ) as consumer:
        places = [odradek.TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            found += [record for records in consumer.poll(500).values() for record in records]
    return found
