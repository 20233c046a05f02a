"""How fast are Kafka's own clients through the Kafka port, and what do they cost in CPU? All in one run, side by side.

The service runs in a process of its own (SQLite and files); each client in another, so that its CPU seconds are its
own. The SDK speaks HTTP to the functions of the same service, with records and with Arrow tables. The same clients then
meet a real Apache Kafka broker (kafka_broker.py), where one can be had; `--servers host:port` adds any other Kafka. The
SDK has no part in those. `java tools` are Kafka's own, with their defaults (java_tools.py).

By default what the service acknowledges is on disk, and Apache Kafka leaves that to replicas and to the system. So
producers meet both once more: the service with `--no-fsync`, Apache Kafka with `flush.messages=1`.

In the end goals and figures stand side by side: at least as fast as Apache Kafka for the same client, where producers
are promised the same by both, and what the SDK is to reach. Where a goal is missed, the shares of CPU tell whether
client or server was at its limit; a sum well below the number of cores says that both waited for the disk or for each
other.

confluent-kafka's consumers may queue a million messages and 1 GiB. With librdkafka's defaults (100,000 and 64 MiB) they
stop fetching for a second (`fetch.queue.backoff.ms`) whenever the queue is full, which is what records of 100 bytes
would measure. Clients in Python send or read one record before they are timed.

    python -m bench.kafka_port [--quick] [--servers HOST:PORT] [--size BYTES ...] [--client NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers import java_tools
from bench.peers.kafka_broker import NoBroker, kafka_broker
from bench.peers.maven import APACHE_KAFKA, NoJars, maven_jars

RESULTS = Path(__file__).parent / "results" / "kafka_port.json"
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "java tools", "sdk records", "sdk tables")
OURS_IS, UNSYNCED_IS = "odradek", "odradek, unsynced"
THEIRS_IS, SYNCED_IS = "Apache Kafka", "Apache Kafka, synced"
FOR_GOALS = ("confluent-kafka", "java tools")
OURS = frozenset({"sdk records", "sdk tables"})
TABLE_BYTES = 128 * 1024 * 1024  # of one table that is sent; Arrow's binary columns end at 2 GiB
SIZES = (100, 1024, 10_240)
ACKS_OF = 1024  # bytes
ACK_BYTES_S = 5_000_000  # the steady load under which acknowledgements are timed
QUEUED_MESSAGES, QUEUED_KBYTES = 1_000_000, 1024 * 1024  # before librdkafka stops fetching
SECONDS = 6.0  # about what each measurement may take
RATES = {
    "confluent-kafka": 150_000,
    "kafka-python": 20_000,
    "aiokafka": 25_000,
    "java tools": 60_000,
    "sdk records": 150_000,
    "sdk tables": 1_000_000,
}  # first guesses


ROOM_BYTES = 16 * 10**9  # of a whole run

# --- one side of one measurement, in a process of its own -------------------------------------------------------------


def confluent_produce(servers: str, topic: str, count: int, value: bytes) -> None:
    from confluent_kafka import Producer

    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 20,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 10**7,
        }
    )

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    for number in range(count):
        producer.produce(topic, value, on_delivery=delivered)
        if not number & 1023:
            producer.poll(0)
    assert producer.flush(120) == 0
    assert not failed, failed[0]


def confluent_acks(servers: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    """At a steady rate; milliseconds from `produce` to the delivery report."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    took_s: list[float] = []

    def send() -> None:
        at = time.perf_counter()

        def delivered(error: Any, _: Any) -> None:
            assert error is None, error
            took_s.append(time.perf_counter() - at)

        producer.produce(topic, value, on_delivery=delivered)

    started_s, rate = time.perf_counter(), ACK_BYTES_S / len(value)
    for number in range(count):
        while time.perf_counter() - started_s < number / rate:
            producer.poll(0.0005)
        send()
        producer.poll(0)
    assert producer.flush(120) == 0
    took_s.sort()
    return {"p50_ms": took_s[len(took_s) // 2] * 1000, "p99_ms": took_s[len(took_s) * 99 // 100] * 1000}


def confluent_consume(servers: str, topic: str, count: int, partitions: int = 1) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": QUEUED_MESSAGES,
            "queued.max.messages.kbytes": QUEUED_KBYTES,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    received = 0
    while received < count:
        for message in consumer.consume(min(10_000, count - received), 1.0):  # it waits until it has so many
            assert message.error() is None, message.error()
            received += 1
    consumer.close()


def python_produce(servers: str, topic: str, count: int, value: bytes) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=20, batch_size=500_000, enable_idempotence=True)
    sent = None
    for _ in range(count):
        sent = producer.send(topic, value)
    producer.flush(120)
    assert sent is not None
    assert sent.get(10).offset == count - 1
    producer.close()


def python_consume(servers: str, topic: str, count: int) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=servers, group_id=None, max_poll_records=10_000, max_partition_fetch_bytes=4_000_000
    )
    tp = TopicPartition(topic, 0)
    consumer.assign([tp])
    consumer.seek_to_beginning(tp)
    received = 0
    while received < count:
        received += sum(map(len, consumer.poll(timeout_ms=1_000).values()))
    consumer.close()


def aio_produce(servers: str, topic: str, count: int, value: bytes) -> None:
    from aiokafka import AIOKafkaProducer

    async def work() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, linger_ms=20, max_batch_size=500_000, enable_idempotence=True
        )
        await producer.start()
        sent = None
        for _ in range(count):
            sent = await producer.send(topic, value)
        await producer.flush()
        assert sent is not None
        assert (await sent).offset == count - 1
        await producer.stop()

    asyncio.run(work())


def aio_consume(servers: str, topic: str, count: int) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def work() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", max_partition_fetch_bytes=4_000_000
        )
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        received = 0
        while received < count:
            received += sum(map(len, (await consumer.getmany(timeout_ms=1_000, max_records=10_000)).values()))
        await consumer.stop()

    asyncio.run(work())


def sdk_produce(config: dict[str, Any], topic: str, count: int, value: bytes) -> None:
    import odradek

    with odradek.Producer(**config, linger_ms=20) as producer:
        for _ in range(count):
            producer.send(topic, value)


def sdk_consume(config: dict[str, Any], topic: str, count: int) -> None:
    import odradek

    with odradek.Consumer(**config, auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
        consumer.assign([odradek.TopicPartition(topic, 0)])
        received = 0
        while received < count:
            received += sum(map(len, consumer.poll(timeout_ms=1_000).values()))


def sdk_send_table(config: dict[str, Any], topic: str, count: int, value: bytes) -> None:
    import odradek
    import pyarrow as pa

    rows = min(count, TABLE_BYTES // len(value))
    table = pa.table({"value": pa.repeat(pa.scalar(value, pa.binary()), rows)})
    with odradek.Producer(**config, linger_ms=20) as producer:
        sent = [producer.send_table(topic, table.slice(0, min(rows, count - start))) for start in range(0, count, rows)]
        assert sum(future.result(120).row_count for future in sent) == count


def sdk_poll_table(config: dict[str, Any], topic: str, count: int) -> None:
    import odradek

    with odradek.Consumer(**config, auto_offset_reset="earliest", max_partition_fetch_bytes=4_000_000) as consumer:
        consumer.assign([odradek.TopicPartition(topic, 0)])
        received = 0
        while received < count:
            received += consumer.poll_table(1_000).num_rows


SIDES: dict[tuple[str, str], Callable[..., Any]] = {
    ("confluent-kafka", "acks"): confluent_acks,
    ("confluent-kafka", "produce"): confluent_produce,
    ("confluent-kafka", "consume"): confluent_consume,
    ("kafka-python", "produce"): python_produce,
    ("kafka-python", "consume"): python_consume,
    ("aiokafka", "produce"): aio_produce,
    ("aiokafka", "consume"): aio_consume,
    ("sdk records", "produce"): sdk_produce,
    ("sdk records", "consume"): sdk_consume,
    ("sdk tables", "produce"): sdk_send_table,
    ("sdk tables", "consume"): sdk_poll_table,
}


def side(task: dict[str, Any]) -> None:
    """Run one side and print what it took, imports, first connections and the loading of compiled loops left out."""
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # kio imports it where it is; users do not have it
    if task["client"] == "java tools":
        target_topic_count = task["target"], task["topic"], task["count"]
        is_produce = task["what"] == "produce"
        print(
            json.dumps(
                java_tools.produce(*target_topic_count, task["size"])
                if is_produce
                else java_tools.consume(*target_topic_count)
            )
        )
        return
    work = SIDES[task["client"], task["what"]]
    arguments = [task["target"], task["topic"], task["count"]]
    if task["what"] != "consume":
        arguments.append(os.urandom(task["size"]))
    if task["client"] in OURS:
        from odradek.columnar.decode import decode_to_arrow
        from odradek.columnar.rows import ROWS

        decode_to_arrow(b"", topic="", partition=0)
        ROWS.load()
    work(task["target"], task["warm_topic"], 1, *arguments[3:])
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    more = work(*arguments) or {}
    print(json.dumps({"s": time.perf_counter() - started_s, "cpu_s": time.process_time() - started_cpu_s, **more}))


# --- the run ----------------------------------------------------------------------------------------------------------


@contextmanager
def service(*, fsync: bool = True) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Process id, address of the Kafka port and the SDK's configuration of a new service."""
    from odradek.local import load_credentials

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "odradek.local", "--data-dir", folder, "--kafka-port", "0"]
        command += [] if fsync else ["--synchronous", "NORMAL"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            key = load_credentials(Path(folder))
            config = {
                "bootstrap_servers": ready["bootstrap_servers"],
                "aws_access_key_id": key.access_key_id,
                "aws_secret_access_key": key.secret_access_key,
                "aws_region": key.region,
            }
            yield process.pid, ready["kafka"], config
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def cpu_seconds(pid: int | None) -> float:
    """CPU time of a process of ours so far; 0 for a server that is not ours, or where /proc is not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create_topic(servers: str, topic: str, configs: Mapping[str, str] | None = None) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, config=dict(configs or {}))])[topic].result(20)


def run_side(task: dict[str, Any], pid: int | None) -> dict[str, Any]:
    """One side in its own process: rates, and CPU seconds a million records of client and server."""
    before_s = cpu_seconds(pid)
    process = subprocess.run(
        [sys.executable, "-m", "bench.kafka_port", "--side", json.dumps(task)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"{task['client']} {task['what']} failed:\n{process.stderr}")
    took = json.loads(process.stdout)
    millions = task["count"] / 1e6
    return {
        "records_s": task["count"] / took["s"],
        "mb_s": task["count"] * task["size"] / took["s"] / 1e6,
        "client_cpu_s_per_million": took["cpu_s"] / millions,
        "server_cpu_s_per_million": (cpu_seconds(pid) - before_s) / millions,
        **{name: took[name] for name in ("p50_ms", "p99_ms") if name in took},
    }


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of the matrix that is measured."""

    sizes: Sequence[int] = SIZES
    clients: Sequence[str] = CLIENTS
    quick: bool = False


def measure(
    server_name: str,
    servers: str,
    config: dict[str, Any] | None,
    pid: int | None,
    wanted: Wanted,
    *,
    steps: Sequence[str] = ("produce", "consume", "acks"),
    topic_configs: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Every client at every size against one server."""
    rows = []
    for size in wanted.sizes:
        for client in wanted.clients:
            if client in OURS and config is None:
                continue
            smaller = {100: 1, 1024: 4}.get(size, 16) * (10 if wanted.quick else 1)
            count = int(RATES[client] * SECONDS / smaller)
            topic = f"bench-{client.replace(' ', '-')}-{size}-{time.time_ns()}"
            warm_topic = f"{topic}-warm"  # each client sends and reads a record there before it is timed
            create_topic(servers, topic, topic_configs)
            create_topic(servers, warm_topic, topic_configs)
            target = config if client in OURS else servers
            for step in steps:
                if step == "acks":
                    if (client, step) not in SIDES or size != ACKS_OF:
                        continue
                    count = int(ACK_BYTES_S / size * SECONDS / (4 if wanted.quick else 1))
                task: dict[str, Any] = {"client": client, "what": step, "target": target, "topic": topic}
                task |= {"warm_topic": warm_topic, "count": count, "size": size}
                figures = run_side(task, pid)
                rows.append(
                    {"server": server_name, "client": client, "what": step, "size": size, "count": count, **figures}
                )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    heads = (
        "server",
        "client",
        "bytes",
        "",
        "records/s",
        "MB/s",
        "client CPU s/M",
        "server CPU s/M",
        "p50 ms",
        "p99 ms",
    )
    table = Table(*heads, box=None)
    for row in rows:
        table.add_row(
            row["server"],
            row["client"],
            str(row["size"]),
            row["what"],
            f"{row['records_s']:,.0f}",
            f"{row['mb_s']:,.1f}",
            f"{row['client_cpu_s_per_million']:.2f}",
            f"{row['server_cpu_s_per_million']:.2f}",
            *(f"{row[name]:,.1f}" if name in row else "" for name in ("p50_ms", "p99_ms")),
        )
    Console(width=150).print(table)


def goals(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float, float, str]]:
    """Yield each goal: its name, the figure to reach, the one measured, and the cores that client and server used."""
    by = {(row["server"], row["client"], row["what"], row["size"]): row for row in rows}

    def busy(row: Mapping[str, Any]) -> str:
        client, server = (row[f"{side}_cpu_s_per_million"] * row["records_s"] / 1e6 for side in ("client", "server"))
        return f"client {client:.2f}, server {server:.2f} cores"

    pairs = (
        ("produce", UNSYNCED_IS, THEIRS_IS, "produce"),
        ("produce", OURS_IS, SYNCED_IS, "produce, synced"),
        ("consume", OURS_IS, THEIRS_IS, "consume"),
    )
    for size in SIZES:
        for client in FOR_GOALS:
            for step, our_name, their_name, name in pairs:
                ours, theirs = by.get((our_name, client, step, size)), by.get((their_name, client, step, size))
                if ours and theirs:
                    yield f"{client}, {name}, {size} B", theirs["records_s"], ours["records_s"], busy(ours)
    for size in (100, 1024):
        for step in ("produce", "consume"):
            ours, theirs = by.get((OURS_IS, "sdk records", step, size)), by.get((THEIRS_IS, "aiokafka", step, size))
            if ours and theirs:
                yield (
                    f"SDK records, {step}, {size} B: 2 aiokafka",
                    2 * theirs["records_s"],
                    ours["records_s"],
                    busy(ours),
                )
    for step, mb_s in (("produce", 100), ("consume", 400)):
        tables = by.get((OURS_IS, "sdk tables", step, 1024))
        if tables:
            yield f"SDK tables, {step}, 1024 B, MB/s", mb_s, tables["mb_s"], busy(tables)


def show_goals(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table("goal", "at least", "figure", "met", "busy meanwhile", box=None)
    for name, goal, figure, busy in goals(rows):
        is_met = figure >= goal
        table.add_row(name, f"{goal:,.0f}", f"{figure:,.0f}", "yes" if is_met else "no", busy)
    if table.row_count:
        Console(width=150).print(table)


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--servers", help="another Kafka to measure beside ours, host:port without TLS or login")
    parser.add_argument("--size", type=int, action="append", choices=SIZES, help="only records of these bytes")
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only these clients")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.side:
        side(json.loads(arguments.side))
        return 0
    is_whole = not (arguments.size or arguments.client or arguments.quick)
    if is_whole and shutil.disk_usage(tempfile.gettempdir()).free < ROOM_BYTES:
        print(
            f"cannot run: a service stores up to 12 GB in {tempfile.gettempdir()}, and where the disk is full "
            "producers wait: set TMPDIR to a folder with 16 GB, or choose with --size and --client"
        )
        return 1
    wanted = Wanted(arguments.size or SIZES, arguments.client or CLIENTS, arguments.quick)
    if "java tools" in wanted.clients:
        try:
            maven_jars(APACHE_KAFKA)
        except NoJars as reason:
            print(f"without Kafka's own tools: {reason}")
            wanted = replace(wanted, clients=[client for client in wanted.clients if client != "java tools"])
    otherwise = replace(wanted, clients=[client for client in wanted.clients if client in FOR_GOALS])
    with service() as (pid, servers, config):
        rows = measure(OURS_IS, servers, config, pid, wanted)
    with service(fsync=False) as (pid, servers, _):
        rows += measure(UNSYNCED_IS, servers, None, pid, otherwise, steps=["produce"])
    try:
        with kafka_broker() as broker:
            rows += measure(THEIRS_IS, broker.servers, None, broker.pid, wanted)
            rows += measure(
                SYNCED_IS,
                broker.servers,
                None,
                broker.pid,
                otherwise,
                steps=["produce"],
                topic_configs={"flush.messages": "1"},
            )
    except NoBroker as reason:
        print(reason)
    if arguments.servers:
        rows += measure(arguments.servers, arguments.servers, None, None, wanted)
    show(rows)
    show_goals(rows)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
