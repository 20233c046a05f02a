"""How soon does a query of a warm SQL server start, and how much memory does it take?

A service, a Spark driver and a server of stream SQL in this process. After a first query, which warms Spark up, each
further one is timed:

    answered   from the request CREATE ... AS SELECT to its answer: the query is in the log, and started
    first      from the request to the end of the query's first micro-batch, which writes what was there
    push       from the request SELECT ... EMIT CHANGES LIMIT 1 to its row
    pull       SELECT ... WHERE key
    MB         memory of the driver, its JVM and all Python processes below them, shared pages divided among those that
               share them (PSS), over the number of queries

The goals: a query's first output, and a push query's row, within 2 s.

    python -m bench.sql [--queries N] [--quick] [--keep]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odradek.spark.admin import client_configs
from odradek.spark.local import local_environment, warm_workers
from odradek.sql.server.app import ServerInfo, make_app
from odradek.sql.server.command_log import TopicCommandLog
from odradek.sql.server.service import SqlService
from odradek.sql.server.transient import Transients
from rich.console import Console
from rich.table import Table
from starlette.testclient import TestClient

from tests.support.spark.sink import ServedLog

RESULTS = Path(__file__).parent / "results" / "sql.json"
KEPT = Path(__file__).parent / "kept" / "sql.json"
RECORDS = 1_000
MB = 1024 * 1024
GOALS = {"stream_first_s": 2.0, "table_first_s": 2.0, "push_s": 2.0}


def memory_mb() -> float:
    """Return the PSS of this process and all below it."""
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    ours = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in ours} | ours
        if more == ours:
            break
        ours = more
    total = 0
    for pid in ours:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total / MB


class Measured:
    """A server to measure."""

    def __init__(self, client: TestClient, engine: Any) -> None:
        self.client = client
        self.engine = engine

    def ksql(self, text: str) -> list[Any]:
        request = {"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}}
        response = self.client.post("/ksql", json=request)
        assert response.status_code == 200, response.text
        entities: list[Any] = response.json()
        return entities

    def started(self, text: str) -> tuple[float, float]:
        """Run a statement that starts a query; return seconds to its answer and to the end of its first micro-batch."""
        begin = time.perf_counter()
        query_id = self.ksql(text)[0]["commandStatus"]["queryId"]
        answered = time.perf_counter() - begin
        [query] = [query for query in self.engine.running() if query.name == query_id]
        while not (query.lastProgress and query.lastProgress["numInputRows"]):
            time.sleep(0.01)
        return answered, time.perf_counter() - begin

    def rows(self, text: str) -> float:
        begin = time.perf_counter()
        response = self.client.post(
            "/query-stream", json={"sql": text, "properties": {"auto.offset.reset": "earliest"}}
        )
        assert len(response.text.splitlines()) == 2, response.text
        return time.perf_counter() - begin


def measure(queries: int) -> dict[str, Any]:
    """Return the figures of one run."""
    environment = local_environment(Path(tempfile.gettempdir(), "odradek-bench-spark"), os.environ)
    os.environ.update(warm_workers(environment))
    from odradek.spark.jobs.arguments import StoreArguments
    from odradek.spark.jobs.run import make_session
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.topics import OpenTopics

    begin = time.perf_counter()
    spark = make_session(StoreArguments(JOB_NAME="bench", shuffle_partitions=2), "bench")
    spark_s = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder, ServedLog(Path(folder, "store")) as log:
        store = {"store": log.source["store"]}
        engine = SparkEngine(
            spark, store=store, sink=log.sink, checkpoints=f"{folder}/checkpoints", stop=threading.Event(),
            trigger="500 milliseconds",
        )  # fmt: skip
        with OpenTopics(store, log.bootstrap_servers) as topics:
            service = SqlService(engine, topics, TopicCommandLog("bench", client_configs(store, log.bootstrap_servers)))
            service.open()
            app = make_app(service, Transients(engine, push_max=9, pull_max=2), ServerInfo("", "", "bench", "", 0))
            with TestClient(app) as client:
                figures = _figures(Measured(client, engine), queries)
            service.close()
    spark.stop()
    return {"spark_start_s": spark_s, "queries": queries, "cpus": os.cpu_count(), **figures}


def _figures(it: Measured, queries: int) -> dict[str, Any]:
    it.ksql("CREATE STREAM s (k VARCHAR KEY, n INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);")
    rows = [{"target": "s"}, *({"k": f"k{number % 10}", "n": number} for number in range(RECORDS))]
    it.client.post("/inserts-stream", content="\n".join(map(json.dumps, rows)))
    first = it.started("CREATE STREAM warm AS SELECT k, n + 1 AS n FROM s;")
    it.started("CREATE TABLE warmer AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;")
    it.rows("SELECT k, n FROM s EMIT CHANGES LIMIT 1;")
    it.rows("SELECT * FROM warmer WHERE k = 'k1';")
    before = memory_mb()
    streams = [it.started(f"CREATE STREAM s{n} AS SELECT k, n + {n} AS n FROM s;") for n in range(queries // 2)]
    tables = [
        it.started(f"CREATE TABLE t{n} AS SELECT k, SUM(n + {n}) AS s FROM s GROUP BY k;") for n in range(queries // 2)
    ]
    after = memory_mb()
    push = [it.rows("SELECT k, n FROM s EMIT CHANGES LIMIT 1;") for _ in range(3)]
    pull = [it.rows("SELECT * FROM warmer WHERE k = 'k1';") for _ in range(3)]

    def middle(values: Sequence[float]) -> float:
        return round(statistics.median(values), 2)

    return {
        "cold_answered_s": round(first[0], 2), "cold_first_s": round(first[1], 2),
        "stream_answered_s": middle([s[0] for s in streams]), "stream_first_s": middle([s[1] for s in streams]),
        "table_answered_s": middle([t[0] for t in tables]), "table_first_s": middle([t[1] for t in tables]),
        "push_s": middle(push), "pull_s": middle(pull),
        "base_mb": round(before), "mb_each": round((after - before) / (2 * (queries // 2))),
        "load_1_min": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="start and memory of queries of a SQL server")
    parser.add_argument("--queries", type=int, default=8, help="queries after those that warm up, an even number")
    parser.add_argument("--quick", action="store_true", help="two queries")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, too")
    arguments = parser.parse_args(argv)
    figures = measure(2 if arguments.quick else max(2, arguments.queries))
    table = Table("figure", "value", "goal")
    for name, value in figures.items():
        goal = f"< {GOALS[name]:.0f}" if name in GOALS else ""
        table.add_row(name, f"{value:.2f}" if isinstance(value, float) else str(value), goal)
    Console().print(table)
    for path in (RESULTS, *([KEPT] if arguments.keep else [])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
