"""How fast does Spark read a topic? Our segments, the same rows as Parquet, and Kafka by Spark's own source; one run.

    odradek      format("odradek") over an embedded store's segments, no service in between
    parquet      the same columns and rows in Parquet files, lz4 as the segments
    kafka        Spark's source for Kafka on a real Apache Kafka (kafka_broker.py), the same record batches
    kafka port   the same source on our own Kafka port
    no reading   a source in Python that makes the offsets or timestamps of the same rows from nothing: what PySpark's
                 Python data sources can do at most, however fast one reads

Records are 100 bytes with an 8-byte key, an hour of event time in 4 partitions. Questions:

    count        how many rows
    window       rows by 1-minute window: the timestamp only
    parse        rows and the sum of a number in the value by window and text in the value

Each is asked of every source in turn, a few times; the best counts. Our source gets the names of its columns, as
docs/PIPELINE.md says; Parquet's is pruned by Spark. Then what a micro-batch costs besides its rows: micro-batches of a
thousand records, by Spark's defaults and with its checkpoint files written in place, which local disks allow.

    python -m bench.pipeline [--records 10000000] [--quick]

Java 17, and Maven Central for Spark's Kafka source: where either peer is missing the reason is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench.peers.kafka_broker import NoBroker, kafka_broker
from bench.peers.maven import SPARK_KAFKA, NoJars, maven_jars

if TYPE_CHECKING:
    import pyarrow as pa

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "pipeline.json"
TOPIC = "bench"
PARTITIONS = 4
VALUE_BYTES = 100
CHUNK = 250_000
START_MS = 1_700_000_000_000 // 60_000 * 60_000
SPAN_MS = 3_600_000
MERGES_MAX = 20
PLACES = (b"EWR", b"JFK", b"LGA")
TAILS = 256  # different ends of values: a segment compresses about as JSON of machines does
SPARK_S = 3_600
_NOT_LEADER, _LEADER_TRIES = 6, 100


# --- the data ---------------------------------------------------------------------------------------------------------


def make_rows(first: int, count: int, total: int) -> pa.Table:
    """Rows [first, first + count) of all: key, value, timestamp."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(first)
    values = np.empty((count, VALUE_BYTES), np.uint8)
    codes = np.frombuffer(b"".join(PLACES), np.uint8).reshape(len(PLACES), 3)
    values[:, :3] = codes[chance.integers(0, len(PLACES), count)]
    numbers = chance.integers(0, 100_000, count)
    for digit in range(5):
        values[:, 3 + digit] = 48 + numbers // 10 ** (4 - digit) % 10
    tails = np.random.default_rng(1).integers(97, 123, (TAILS, VALUE_BYTES - 8), dtype=np.uint8)
    values[:, 8:] = tails[chance.integers(0, TAILS, count)]
    at_ms = START_MS + np.arange(first, first + count, dtype=np.int64) * SPAN_MS // total
    ends = np.arange(0, (count + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32)
    value = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(values.tobytes())])
    key = pa.array(chance.integers(0, 1_000_000, count)).view(pa.binary(8)).cast(pa.binary())
    timestamp = pa.array(at_ms * 1_000, pa.timestamp("us", tz="UTC"))
    return pa.table({"key": key, "value": value, "timestamp": timestamp})


def chunk_rows(total: int) -> int:
    """Rows of a piece."""
    return min(CHUNK, -(-total // PARTITIONS))


def chunks(total: int) -> Iterator[tuple[int, pa.Table]]:
    """Pieces of the data and the partition of each."""
    size = chunk_rows(total)
    for number, first in enumerate(range(0, total, size)):
        yield number % PARTITIONS, make_rows(first, min(size, total - first), total)


def encode(rows: pa.Table) -> list[bytes]:
    from odradek.columnar.encode import encode_from_arrow
    from odradek.model.record import CompressionType

    return encode_from_arrow(rows, default_timestamp_ms=0, compression_type=CompressionType.LZ4)


async def fill_store(folder: Path, total: int) -> dict[str, Any]:
    """Write the topic and merge it into segments."""
    from odradek.adapters.embedded import open_embedded
    from odradek.engine.engine import Engine
    from odradek.engine.maintenance.maintenance import MaintenanceReport
    from odradek.model.log import ProducePartition
    from odradek.settings import Settings
    from odradek.system import SystemClock, SystemRng

    store = open_embedded(folder, synchronous="NORMAL")
    settings = Settings(merge_rows_min=1, merge_delay_ms=0, spill_entries=1, head_bytes_max=400)  # segments at once
    engine = Engine(
        tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=settings
    )  # fmt: skip
    topic = await engine.topics.create(TOPIC, PARTITIONS, {"retention.ms": "-1"})
    stored = 0
    for partition, rows in chunks(total):
        for records in encode(rows):
            stored += len(records)
            [result] = await engine.produce([ProducePartition(TOPIC, partition, records)])
            assert not result.error, result
    report = MaintenanceReport()
    for _ in range(MERGES_MAX):
        before = report.done["segments_merged"]
        for partition in range(PARTITIONS):
            await engine.maintenance.run_partition(topic, partition, report)
        if report.done["segments_merged"] == before:
            break
    assert not report.failures, report.failures
    await store.aclose()
    return {"stored_bytes": stored, "segments_merged": report.done["segments_merged"]}


def fill_parquet(folder: Path, total: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    writers: dict[int, pq.ParquetWriter] = {}
    offsets = [0] * PARTITIONS
    for partition, rows in chunks(total):
        count = rows.num_rows
        first, offsets[partition] = offsets[partition], offsets[partition] + count
        rows = rows.append_column("topic", pa.array([TOPIC] * count).dictionary_encode().cast(pa.string()))
        rows = rows.append_column("partition", pa.array([partition] * count, pa.int32()))
        rows = rows.append_column("offset", pa.array(range(first, first + count), pa.int64()))
        if partition not in writers:
            writers[partition] = pq.ParquetWriter(folder / f"{partition}.parquet", rows.schema, compression="lz4")
        writers[partition].write_table(rows)
    for writer in writers.values():
        writer.close()


def fill_kafka(servers: str, total: int) -> None:
    """The same record batches, sent as they are."""
    import socket
    import struct

    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic
    from kio.schema.produce.v9 import request as produce
    from kio.schema.produce.v9.response import ProduceResponse
    from kio.schema.types import TopicName
    from kio.static.primitive import Records, i16, i32, i32Timedelta
    from odradek.protocol.frame import decode_response, encode_request

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, config={"retention.ms": "-1"})])[TOPIC].result(60)
    host, _, port = servers.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        for partition, rows in chunks(total):
            for records in encode(rows):
                data = produce.PartitionProduceData(index=i32(partition), records=Records(records))
                message = produce.ProduceRequest(
                    transactional_id=None, acks=i16(1), timeout=i32Timedelta.parse(_timedelta(30)),
                    topic_data=(produce.TopicProduceData(name=TopicName(TOPIC), partition_data=(data,)),),
                )  # fmt: skip
                frame = encode_request(message, correlation_id=1, client_id="bench")
                for _ in range(_LEADER_TRIES):
                    connection.sendall(struct.pack(">i", len(frame)) + frame)
                    (size,) = struct.unpack(">i", _receive(connection, 4))
                    response: Any = decode_response(_receive(connection, size), ProduceResponse, correlation_id=1)
                    code = response.responses[0].partition_responses[0].error_code
                    if int(code) != _NOT_LEADER:
                        break
                    time.sleep(0.1)  # the topic is new
                assert not int(code), code


def _timedelta(seconds: int) -> Any:
    from datetime import timedelta

    return timedelta(seconds=seconds)


def _receive(connection: Any, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        got = connection.recv(size - len(parts))
        assert got, "the broker closed the connection"
        parts += got
    return parts


# --- Spark, in a process of its own -----------------------------------------------------------------------------------


def no_reading(total: int) -> type[Any]:
    """A data source of the same rows, less key and value, that reads nothing."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, column: str) -> None:
            self._column = column

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(PARTITIONS)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            size = chunk_rows(total)
            for first in range(partition.value * size, total, PARTITIONS * size):
                numbers = np.arange(first, min(first + size, total), dtype=np.int64)
                if self._column == "timestamp":
                    times = pa.array((START_MS + numbers * SPAN_MS // total) * 1_000)
                    yield pa.record_batch({"timestamp": times.view(pa.timestamp("us", tz="UTC"))})
                else:
                    yield pa.record_batch({"offset": pa.array(numbers)})

    class NoReading(DataSource):
        @classmethod
        def name(cls) -> str:
            return "no reading"

        def schema(self) -> str:
            return "timestamp timestamp" if self.options["column"] == "timestamp" else "offset bigint"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options["column"])

    return NoReading


def side(task: dict[str, Any]) -> None:
    """Ask every source every question; print the answers as JSON, a line each."""
    import odradek.spark
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.appName("bench")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    odradek.spark.register(spark)
    spark.dataSource.register(no_reading(task["total"]))
    try:
        answers: dict[str, Any] = {}
        for repeat in range(task["repeats"] + 1):  # the first warms up: imports, compiled kernels, the JVM's own
            for question in QUESTIONS:
                for source in task["sources"]:
                    if source == "no reading" and question not in ("count", "window"):
                        continue
                    frame = _frame(spark, source, task, question, bounded=repeat == 0)
                    started_s = time.perf_counter()
                    answer = sorted(map(tuple, _ask(frame, question).collect()), key=str)
                    took_s = time.perf_counter() - started_s
                    if repeat == 0:
                        continue
                    assert answers.setdefault(question, answer) == answer, f"{source} says something else"
                    print(json.dumps({"question": question, "source": source, "s": took_s}), flush=True)
        # The JVM becomes faster on the way: each source is asked first once and last once, after a round for nobody.
        streamed = [source for source in task["sources"] if source in ("odradek", "kafka")]
        for question_kind, files in product(("stateless", "windowed"), ("atomic", "in place")):
            times_s: dict[str, list[float]] = {source: [] for source in streamed}
            for number, sources in enumerate((streamed, streamed, streamed[::-1])):
                for source in sources:
                    measured_s = _micro_batches(spark, source, task, question_kind, files)
                    times_s[source] += measured_s if number else []
            for source, found_s in times_s.items():
                print(
                    json.dumps({"source": source, "kind": question_kind, "files": files, "times_s": found_s}),
                    flush=True,
                )
    finally:
        spark.stop()


QUESTIONS = ("count", "window", "parse")
_COLUMNS = {"count": "offset", "window": "timestamp", "parse": "value,timestamp"}
_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_IN_PLACE = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_BATCHES, _BATCH_RECORDS = 25, 1_000
_WARM_BATCHES = 8


def _frame(spark: Any, source: str, task: dict[str, Any], question: str, *, bounded: bool) -> Any:
    if source == "parquet":
        return spark.read.parquet(task["parquet"])
    if source == "no reading":
        return spark.read.format(source).option("column", _COLUMNS[question]).load()
    options = dict(_options(source, task), startingOffsets="earliest")
    if bounded:
        first_offsets = {TOPIC: {str(partition): 1_000 for partition in range(PARTITIONS)}}
        options["endingOffsets"] = json.dumps(first_offsets)
    if source == "odradek":
        options["columns"] = _COLUMNS[question]
    return spark.read.format("odradek" if source == "odradek" else "kafka").options(**options).load()


def _options(source: str, task: dict[str, Any]) -> dict[str, str]:
    where = {"store": task["store"]} if source == "odradek" else {"kafka.bootstrap.servers": task[source]}
    return {**where, "subscribe": TOPIC}


def _ask(frame: Any, question: str) -> Any:
    from pyspark.sql import functions as F

    window = F.window("timestamp", "1 minute").getField("start").alias("minute")
    if question == "count":
        return frame.agg(F.count(F.lit(1)))
    if question == "window":
        return frame.groupBy(window).agg(F.count(F.lit(1)))
    prefix = F.substring("value", 1, 3).cast("string").alias("place")
    number = F.substring("value", 4, 5).cast("string").cast("int")
    return frame.groupBy(window, prefix).agg(F.count(F.lit(1)), F.sum(number))


def _micro_batches(spark: Any, source: str, task: dict[str, Any], question_kind: str, files: str) -> list[float]:
    """How long micro-batches of a thousand records take, from one's start to its end."""
    from pyspark.sql import functions as F

    if files == "in place":
        spark.conf.set(_CHECKPOINT_FILES, _IN_PLACE)
    else:
        spark.conf.unset(_CHECKPOINT_FILES)
    options = dict(_options(source, task), startingOffsets="earliest", maxOffsetsPerTrigger=str(_BATCH_RECORDS))
    stream = spark.readStream.format("odradek" if source == "odradek" else "kafka").options(**options).load()
    if question_kind == "windowed":
        stream = stream.groupBy(F.window("timestamp", "1 minute")).agg(F.count(F.lit(1)))
    with tempfile.TemporaryDirectory() as folder:
        writer = stream.writeStream.format("noop").outputMode("update" if question_kind == "windowed" else "append")
        query = writer.option("checkpointLocation", folder).start()
        try:
            give_up = time.monotonic() + 180
            while (query.lastProgress is None or query.lastProgress["batchId"] < _BATCHES) and query.isActive:
                assert time.monotonic() < give_up, "micro-batches take too long"
                time.sleep(0.1)
            progress = [json.loads(batch_progress.json) for batch_progress in query.recentProgress]
        finally:
            query.stop()
    full = [batch_progress for batch_progress in progress if batch_progress["numInputRows"]][_WARM_BATCHES:]
    return [batch_progress["durationMs"]["triggerExecution"] / 1_000 for batch_progress in full]


# --- the run ----------------------------------------------------------------------------------------------------------


@contextmanager
def kafka_port(data_dir: Path) -> Iterator[str]:
    """The address of the Kafka port of a service over a store."""
    command = [sys.executable, "-m", "odradek.local", "--data-dir", str(data_dir), "--kafka-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["kafka"]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def kafka_jars(environment: dict[str, str]) -> str | None:
    """Have Spark load its Kafka source, from now on; why not where it cannot."""
    try:
        jars = maven_jars(SPARK_KAFKA)
    except NoJars as reason:
        return f"no Kafka source for Spark: {reason}"
    environment["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, jars))} {environment['PYSPARK_SUBMIT_ARGS']}"
    return None


def run(total: int, repeats: int) -> dict[str, Any]:
    """Fill everything, ask everything."""
    from odradek.spark.local import local_environment, warm_workers

    console = Console()
    missing: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = local_environment(folder / "spark", os.environ, driver_memory="2g")
        environment["PYTHONPATH"] = str(ROOT)
        console.print(f"{total:,} records of {VALUE_BYTES} bytes ...")
        stored = asyncio.run(fill_store(folder / "store", total))
        fill_parquet(folder / "parquet", total)
        sources = ["odradek", "no reading", "parquet"]
        task: dict[str, Any] = {"store": f"embedded:{folder / 'store'}", "parquet": str(folder / "parquet")}
        reason = kafka_jars(environment)
        if reason is None:
            try:
                task["kafka"] = stack.enter_context(kafka_broker()).servers
                fill_kafka(task["kafka"], total)
                sources.append("kafka")
            except NoBroker as error:
                missing.append(str(error))
            task["kafka port"] = stack.enter_context(kafka_port(folder / "store"))
            sources.append("kafka port")
        else:
            missing.append(reason)
        environment = warm_workers(environment)
        task |= {"sources": sources, "repeats": repeats, "total": total}
        command = [sys.executable, "-m", "bench.pipeline", "--side", json.dumps(task)]
        spark = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=SPARK_S, check=False
        )
        if spark.returncode:
            raise SystemExit(f"Spark failed:\n{spark.stderr[-4_000:]}")
        lines = [json.loads(line) for line in spark.stdout.splitlines() if line.startswith("{")]
    for note in missing:
        console.print(note)
    return {"records": total, **stored, "missing": missing, **summary(lines, total)}


def summary(lines: list[dict[str, Any]], total: int) -> dict[str, Any]:
    """Of all measurements: the best rate of each question and source, and what micro-batches cost."""
    rates: dict[str, dict[str, float]] = {question: {} for question in QUESTIONS}
    micro_batches = []
    for line in lines:
        if "question" in line:
            best_rates = rates[line["question"]]
            best_rates[line["source"]] = max(best_rates.get(line["source"], 0.0), total / line["s"])
        else:
            times = sorted(line.pop("times_s"))
            p95_s = times[math.ceil(len(times) * 0.95) - 1]
            # A trigger below what a micro-batch takes by itself only makes it late.
            trigger_s = math.ceil(p95_s * 20) / 20
            micro_batches.append({**line, "p50_s": times[len(times) // 2], "p95_s": p95_s, "trigger_s": trigger_s})
    return {"records_s": rates, "micro_batches": micro_batches}


def show(result: dict[str, Any]) -> None:
    console = Console(width=150)
    sources = list(next(iter(result["records_s"].values())))
    table = Table("records/s", *sources, "of no reading", "of parquet", "x kafka", box=None)
    for question, rates in result["records_s"].items():
        ours = rates["odradek"]
        table.add_row(
            question,
            *(f"{rates[source]:,.0f}" if source in rates else "" for source in sources),
            f"{ours / rates['no reading']:.2f}" if "no reading" in rates else "",
            f"{ours / rates['parquet']:.2f}",
            f"{ours / rates['kafka']:.1f}" if "kafka" in rates else "",
        )
    console.print(table)
    table = Table("micro-batches of 1,000", "query", "checkpoint", "p50 ms", "p95 ms", "smallest trigger ms", box=None)
    for row in result["micro_batches"]:
        times = (f"{row[name] * 1_000:,.0f}" for name in ("p50_s", "p95_s", "trigger_s"))
        table.add_row(row["source"], row["kind"], row["files"], *times)
    console.print(table)


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, once")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.side:
        side(json.loads(arguments.side))
        return 0
    total = arguments.records // (10 if arguments.quick else 1)
    if total <= (_BATCHES + 1) * _BATCH_RECORDS:
        parser.error(f"too few records for {_BATCHES} micro-batches of {_BATCH_RECORDS:,}: at least 30,000")
    result = run(total, 1 if arguments.quick else 3)
    show(result)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
