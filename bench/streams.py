"""How fast does stream SQL process a topic that is there, beside the same topology in Kafka Streams on our Kafka port?

    windows    counts by key and minute, tumbling windows
    final      the same, EMIT FINAL: each window once, when the next minute has come
    sessions   counts by key and session, which ends after half a minute without a record
    join       a stream, left joined with a table of a thousand rows by its key
    near       the stream joined with another of a tenth of its records, by key and within ten seconds

Keys and values are texts on both sides, records of 100 bytes in four partitions, ten minutes of them with a minute's
pause after each, results in a topic, exactly once. An embedded service with its Kafka port in a process of its own;
Kafka Streams 4.1 with two threads and RocksDB; stream SQL on a Spark with two cores, warmed up by a first query, in one
micro-batch. Time is that from Streams' state RUNNING to its end, with the last commit, and from the start of the query
to its end. CPU is that of the processing processes meanwhile, with its parts (bench/_processor.py), and the service's
beside it. `again` is a second, equal query of the same Spark: what a process that has run for a while needs.

    python -m bench.streams [TOPOLOGY ...] [--records 200000] [--quick] [--keep] [--no-kafka-streams]

Java 17, Maven and Maven Central for Kafka Streams (tools/java_clients.sh).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench._processor import PARTS, parts_s

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "streams.json"
KEPT = Path(__file__).parent / "kept" / "streams.json"
JAVA = ROOT / "build" / "java"
PARTITIONS, KEYS = 4, 1_000
VALUE = "v" * 90
START_MS = 1_700_000_000_000 // 60_000 * 60_000
WAIT_S = 900.0
KINDS = ("windows", "final", "sessions", "join", "near")
PAUSED_MS = 60_000  # after each minute of records
LIKES = 10  # one record of the other stream for as many of the first
SCRIPT = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM plays (k VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC = 'plays', VALUE_FORMAT = 'KAFKA');
CREATE TABLE users (k VARCHAR PRIMARY KEY, v VARCHAR) WITH (KAFKA_TOPIC = 'users', VALUE_FORMAT = 'KAFKA');
CREATE STREAM rows (k VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC = 'users', VALUE_FORMAT = 'KAFKA');
CREATE STREAM likes (k VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC = 'likes', VALUE_FORMAT = 'KAFKA');
CREATE STREAM warm WITH (VALUE_FORMAT = 'KAFKA') AS SELECT k, v FROM rows;
CREATE TABLE windows WITH (KAFKA_TOPIC = 'windows', VALUE_FORMAT = 'KAFKA') AS
  SELECT k, CAST(COUNT(*) AS VARCHAR) AS n FROM plays WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 DAY) GROUP BY k;
CREATE TABLE finals WITH (KAFKA_TOPIC = 'final', VALUE_FORMAT = 'KAFKA') AS
  SELECT k, CAST(COUNT(*) AS VARCHAR) AS n FROM plays WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS)
  GROUP BY k EMIT FINAL;
CREATE TABLE sessions WITH (KAFKA_TOPIC = 'sessions', VALUE_FORMAT = 'KAFKA') AS
  SELECT k, CAST(COUNT(*) AS VARCHAR) AS n FROM plays WINDOW SESSION (30 SECONDS, GRACE PERIOD 1 DAY) GROUP BY k;
CREATE STREAM joined WITH (KAFKA_TOPIC = 'join', VALUE_FORMAT = 'KAFKA') AS
  SELECT p.k AS k, p.v + u.v AS v FROM plays p LEFT JOIN users u ON p.k = u.k;
CREATE STREAM near WITH (KAFKA_TOPIC = 'near', VALUE_FORMAT = 'KAFKA') AS
  SELECT p.k AS k, p.v + l.v AS v FROM plays p JOIN likes l WITHIN 10 SECONDS GRACE PERIOD 1 DAY ON p.k = l.k;
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Duration and CPU time of a topology."""

    seconds: float
    cpu_s: Mapping[str, float]  # by part


class Stopwatch:
    """Measures a process from here on."""

    def __init__(self, pid: int) -> None:
        self._pid, self._began, self._before = pid, time.perf_counter(), parts_s(pid)

    def read(self) -> Run:
        after = parts_s(self._pid)
        used = {part: after[part] - self._before[part] for part in PARTS}
        return Run(time.perf_counter() - self._began, used)


def fill(configs: Mapping[str, Any], records: int) -> None:
    """Write the topics: a key's records, and its row, are in one partition."""
    import odradek

    with odradek.Admin(**configs) as admin:
        for name, more in (("plays", {}), ("likes", {}), ("users", {"cleanup.policy": "compact"})):
            admin.create_topics([odradek.NewTopic(name, PARTITIONS, configs={"retention.ms": "-1", **more})])
        admin.create_topics([odradek.NewTopic(f"streams-{kind}", PARTITIONS) for kind in KINDS])
    with odradek.Producer(**configs, linger_ms=50) as producer:
        for number in range(KEYS):
            producer.send("users", b"row", key=b"%d" % number, partition=number % PARTITIONS, timestamp_ms=START_MS)
        producer.flush()
        for number in range(records):
            key = number * 7919 % KEYS
            at_ms = START_MS + number * 600_000 // records
            at_ms += (at_ms - START_MS) // 60_000 * PAUSED_MS
            placement: dict[str, Any] = {"key": b"%d" % key, "partition": key % PARTITIONS, "timestamp_ms": at_ms}
            producer.send("plays", VALUE.encode(), **placement)
            if is_liked(number):
                producer.send("likes", b"like", **placement)
        producer.flush()


def is_liked(number: int) -> bool:
    """Return True if the other stream has a record of the key and time of a record: of all keys in turn."""
    return number // KEYS % LIKES == 0


def read_by(kind: str, records: int) -> int:
    """Return how many records of streams a topology reads."""
    return records + (sum(map(is_liked, range(records))) if kind == "near" else 0)


def kafka_streams(kafka: str, kind: str, records: int, folder: Path) -> Run:
    """Run the topology in Kafka Streams."""
    command = [
        "java",
        "-Xmx1g",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        f"{JAVA}/classes:{JAVA}/jars/*",
    ]
    other = "likes" if kind == "near" else "users"
    command += ["odradek.StreamsThroughput", kafka, f"bench-{kind}", kind, "plays", other, f"streams-{kind}"]
    with subprocess.Popen(
        [*command, str(folder / "state"), str(read_by(kind, records))], stdout=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        timer = threading.Timer(WAIT_S, process.kill)
        timer.start()
        assert process.stdout is not None
        watch: Stopwatch | None = None
        for line in process.stdout:
            if line.strip() == "running" and watch is None:
                watch = Stopwatch(process.pid)
            if line.strip() == "done":
                break
        figures = None if watch is None else watch.read()
        timer.cancel()
        if process.wait(60) or figures is None:
            raise SystemExit(f"Kafka Streams ended with {process.returncode}")
    return figures


class StreamSql:
    """Queries on a Spark of this process."""

    def __init__(self, store: str, servers: str, folder: Path) -> None:
        from odradek.spark.jobs.arguments import StoreArguments
        from odradek.spark.jobs.run import make_session
        from odradek.sql.on_spark import SparkEngine
        from odradek.sql.plan import Declared, Started
        from odradek.sql.session import Session, check
        from odradek.sql.topics import OpenTopics

        self.spark = make_session(StoreArguments(JOB_NAME="bench", shuffle_partitions=2), "bench")
        options = {"store": store}
        self.engine = SparkEngine(
            self.spark, store=options, sink={**options, "bootstrapServers": servers},
            checkpoints=str(folder / "checkpoints"), stop=threading.Event(),
        )  # fmt: skip
        self._plans = {}
        with OpenTopics(options, servers) as topics:
            for step in check([("", SCRIPT)]):
                if isinstance(step.action, Started):
                    assert step.action.plan.sink is not None
                    Session(self.engine, topics, None, once=True).ensure(step.action.plan.sink.topic)  # type: ignore[arg-type]
                    self._plans[step.action.plan.sink.topic.name.lower()] = step.action.plan
                else:
                    assert not isinstance(step.action, Declared) or step.action.topic.name in topics.partitions()
        self.run("warm")

    def run(self, kind: str, name: str = "") -> Run:
        """Process all of a query. Args: name: of an equal query of its own."""
        plan = self._plans[kind]
        watch = Stopwatch(os.getpid())
        self.engine.process(replace(plan, query_id=plan.query_id + name))
        return watch.read()


def measure(records: int, kinds: Sequence[str] = KINDS, *, has_kafka_streams: bool = True) -> dict[str, Any]:
    """Return the figures of one run."""
    if (
        has_kafka_streams
        and (failed := subprocess.run([ROOT / "tools" / "java_clients.sh"], cwd=ROOT, check=False).returncode) != 0
    ):
        raise SystemExit(f"Kafka Streams cannot be had here ({failed})")
    from odradek.spark.admin import client_configs
    from odradek.spark.local import local_environment, warm_workers

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = [sys.executable, "-m", "odradek.local", "--data-dir", str(folder / "store"), "--kafka-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
            assert service.stdout is not None
            try:
                service_info = json.loads(service.stdout.readline())
                fill(
                    client_configs({"store": f"embedded:{folder / 'store'}"}, service_info["bootstrap_servers"]),
                    records,
                )
                environment = local_environment(folder / "spark", os.environ, driver_memory="2g")
                os.environ.update(warm_workers(environment))
                sql = StreamSql(f"embedded:{folder / 'store'}", service_info["bootstrap_servers"], folder)
                figures = []
                for kind in kinds:
                    runs: dict[str, Callable[[], Run]] = {
                        "stream SQL": partial(sql.run, kind),
                        "stream SQL again": partial(sql.run, kind, "_again"),
                    }
                    if has_kafka_streams:
                        runs["Kafka Streams"] = partial(kafka_streams, service_info["kafka"], kind, records, folder)
                    for name, run in runs.items():
                        watch = Stopwatch(service.pid)
                        done = run()
                        figures.append(
                            {
                                "topology": kind,
                                "engine": name,
                                "records_s": round(read_by(kind, records) / done.seconds),
                                "s": round(done.seconds, 2),
                                "cpu_s": round(sum(done.cpu_s.values()), 2),
                                "cpu_s_of": {part: round(used, 2) for part, used in done.cpu_s.items()},
                                "service_cpu_s": round(sum(watch.read().cpu_s.values()), 2),
                            }
                        )
                sql.spark.stop()
            finally:
                service.terminate()
    return {"records": records, "cpus": os.cpu_count(), "load_1_min": round(os.getloadavg()[0], 1), "runs": figures}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topologies", nargs="*", metavar="TOPOLOGY", help=f"some of: {', '.join(KINDS)}")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, too")
    parser.add_argument("--no-kafka-streams", action="store_true", help="stream SQL alone, without Java's clients")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.topologies) - set(KINDS):
        parser.error(f"no topology {min(unknown)}: there are {', '.join(KINDS)}")
    records = arguments.records // (4 if arguments.quick else 1)
    figures = measure(records, arguments.topologies or KINDS, has_kafka_streams=not arguments.no_kafka_streams)
    table = Table("topology", "engine", "records/s", "s", "CPU s", *PARTS, "service's CPU s")
    for run in figures["runs"]:
        used = [run["s"], run["cpu_s"], *run["cpu_s_of"].values(), run["service_cpu_s"]]
        table.add_row(run["topology"], run["engine"], f"{run['records_s']:,}", *(f"{value:.1f}" for value in used))
    Console().print(table)
    for path in (RESULTS, *([KEPT] if arguments.keep else [])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
