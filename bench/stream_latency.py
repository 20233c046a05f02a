"""How long does a record take through a query that runs, beside Kafka Streams on our Kafka port?

    passed    records as they are
    counted   counts by key and minute, each record a key of its own

From the call that sends a record to that in which a consumer of committed records has the row that it makes: 20 records
a second, one by one, after some seconds that warm up. Stream SQL looks for records at each trigger, the default of a
query and as often as it can; Kafka Streams 4.1 commits every 100 ms, its default under exactly_once_v2. Other parts as
in bench/streams.py.

    python -m bench.stream_latency [--seconds 20] [--quick] [--keep] [--no-kafka-streams]
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.streams import JAVA, PARTITIONS, ROOT, Stopwatch

RESULTS = Path(__file__).parent / "results" / "stream_latency.json"
KEPT = Path(__file__).parent / "kept" / "stream_latency.json"
TOPOLOGIES = ("passed", "counted")
TRIGGERS = ("1 second", "0 seconds")
RATE_S = 20
WARM_UP_S = 15
LOST_S = 60.0
_KEY_BYTES = 8  # a window follows them
_ENDLESS = str(10**9)  # records that Kafka Streams would end after
SCRIPT = """
SET 'auto.offset.reset' = 'latest';
CREATE STREAM events (k VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC = 'events', VALUE_FORMAT = 'KAFKA');
CREATE STREAM passed WITH (KAFKA_TOPIC = 'passed', VALUE_FORMAT = 'KAFKA') AS SELECT k, v FROM events;
CREATE TABLE counted WITH (KAFKA_TOPIC = 'counted', VALUE_FORMAT = 'KAFKA') AS
  SELECT k, CAST(COUNT(*) AS VARCHAR) AS n FROM events WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 DAY) GROUP BY k;
"""


class Arrivals:
    """Consumes a topic and notes when each key came."""

    def __init__(self, configs: Mapping[str, Any], topic: str) -> None:
        self.at: dict[bytes, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(dict(configs), topic))
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self, configs: dict[str, Any], topic: str) -> None:
        import odradek

        more = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        with odradek.Consumer(**configs, **more) as consumer:
            consumer.assign([odradek.TopicPartition(topic, number) for number in range(PARTITIONS)])
            while not self._stop.is_set():
                for records in consumer.poll(200).values():
                    now = time.perf_counter()
                    for row in records:
                        self.at.setdefault(bytes(row.key)[:_KEY_BYTES], now)


def latencies(configs: Mapping[str, Any], topic: str, prefix: str, seconds: int) -> list[float]:
    """Send records for some seconds after the warm-up; return the seconds of each, least first."""
    import odradek

    arrivals = Arrivals(configs, topic)
    sent: dict[bytes, float] = {}
    try:
        with odradek.Producer(**configs, linger_ms=0) as producer:
            begin = time.perf_counter()
            for number in range((WARM_UP_S + seconds) * RATE_S):
                time.sleep(max(0.0, begin + number / RATE_S - time.perf_counter()))
                key = f"{prefix}{number:0{_KEY_BYTES - len(prefix)}d}".encode()
                sent[key] = time.perf_counter()
                producer.send("events", b"v", key=key)
        measured = list(sent)[WARM_UP_S * RATE_S :]
        deadline = time.perf_counter() + LOST_S
        while not arrivals.at.keys() >= set(measured):
            if time.perf_counter() > deadline:
                raise SystemExit(f"{topic}: {len(set(measured) - arrivals.at.keys())} records did not come")
            time.sleep(0.1)
    finally:
        arrivals.close()
    return sorted(arrivals.at[key] - sent[key] for key in measured)


@contextmanager
def kafka_streams(kafka: str, topology: str, folder: Path) -> Iterator[int]:
    """Run the topology; yield its process id once it runs."""
    command = ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", f"{JAVA}/classes:{JAVA}/jars/*", "odradek.StreamsThroughput", kafka, f"latency-{topology}"]
    name = {"counted": "windows"}.get(topology, topology)
    command += [name, "events", "none", f"streams-{topology}", str(folder / "state"), _ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while (line := process.stdout.readline()) and line.strip() != "running":
                pass
            yield process.pid
        finally:
            process.kill()


def measure(seconds: int, *, has_kafka_streams: bool = True) -> dict[str, Any]:
    """Return the figures of one run."""
    if has_kafka_streams and subprocess.run([ROOT / "tools" / "java_clients.sh"], cwd=ROOT, check=False).returncode:
        raise SystemExit("Kafka Streams cannot be had here: --no-kafka-streams")
    import odradek
    from odradek.spark.admin import client_configs
    from odradek.spark.local import local_environment, warm_workers

    runs = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = [sys.executable, "-m", "odradek.local", "--data-dir", str(folder / "store"), "--kafka-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
            assert service.stdout is not None
            try:
                address = json.loads(service.stdout.readline())
                store = f"embedded:{folder / 'store'}"
                configs = client_configs({"store": store}, address["bootstrap_servers"])
                with odradek.Admin(**configs) as admin:
                    topics = ["events", *TOPOLOGIES, *(f"streams-{topology}" for topology in TOPOLOGIES)]
                    admin.create_topics([odradek.NewTopic(name, PARTITIONS) for name in topics])

                def noted(topology: str, engine: str, prefix: str, topic: str, pid: int) -> None:
                    watch = Stopwatch(pid)
                    times = latencies(configs, topic, prefix, seconds)
                    used = sum(watch.read().cpu_s.values())
                    quantile = {f"p{n}_ms": round(times[len(times) * n // 100] * 1000) for n in (50, 99)}
                    runs.append({"topology": topology, "engine": engine, **quantile, "cpu_s": round(used, 1)})

                if has_kafka_streams:
                    for number, topology in enumerate(TOPOLOGIES):
                        with kafka_streams(address["kafka"], topology, folder) as pid:
                            engine = "Kafka Streams, commits every 100 ms"
                            noted(topology, engine, f"j{number}", f"streams-{topology}", pid)
                os.environ.update(warm_workers(local_environment(folder / "spark", os.environ)))
                for number, trigger in enumerate(TRIGGERS):
                    with queries(store, address["bootstrap_servers"], folder / f"{number}", trigger) as start:
                        for topology in TOPOLOGIES:
                            start(topology)
                            noted(
                                topology,
                                f"stream SQL, trigger {trigger}",
                                f"s{number}{topology[0]}",
                                topology,
                                os.getpid(),
                            )
            finally:
                service.terminate()
    return {"seconds": seconds, "cpus": os.cpu_count(), "load_1_min": round(os.getloadavg()[0], 1), "runs": runs}


@contextmanager
def queries(store: str, servers: str, folder: Path, trigger: str) -> Iterator[Any]:
    """Yield a function that starts a query of SCRIPT, and stops the one before."""
    from odradek.spark.jobs.arguments import StoreArguments
    from odradek.spark.jobs.run import make_session
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.plan import Started
    from odradek.sql.session import check

    spark = make_session(StoreArguments(JOB_NAME="bench", shuffle_partitions=2), "bench")
    options = {"store": store}
    engine = SparkEngine(
        spark, store=options, sink={**options, "bootstrapServers": servers},
        checkpoints=str(folder), stop=threading.Event(), trigger=trigger,
    )  # fmt: skip
    plans = [step.action.plan for step in check([("", SCRIPT)]) if isinstance(step.action, Started)]
    by_topic = {plan.sink.topic.name.lower(): plan for plan in plans if plan.sink is not None}
    running: list[str] = []

    def start(topology: str) -> None:
        while running:
            engine.stop(running.pop())
        engine.start(by_topic[topology])
        running.append(by_topic[topology].query_id)

    try:
        yield start
    finally:
        engine.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="a quarter of the seconds")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, too")
    parser.add_argument("--no-kafka-streams", action="store_true", help="stream SQL alone, without Java's clients")
    arguments = parser.parse_args(argv)
    seconds = max(1, arguments.seconds // (4 if arguments.quick else 1))
    figures = measure(seconds, has_kafka_streams=not arguments.no_kafka_streams)
    table = Table("topology", "engine", "p50 ms", "p99 ms", "CPU s")
    for row in figures["runs"]:
        table.add_row(*(str(row[name]) for name in ("topology", "engine", "p50_ms", "p99_ms", "cpu_s")))
    Console().print(table)
    for path in (RESULTS, *([KEPT] if arguments.keep else [])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
