"""How fast is the Python client, records and tables, and whose CPU is it? One run, client and server in two processes.

    through functions   the embedded service: HTTP function URLs with SigV4 and base64, SQLite and files with fsync
    in process          the same engine behind an in-process transport: no HTTP, one interpreter for both sides
    client alone        no engine: trivial_broker.py acknowledges unseen and answers fetches from memory

The last is what the client by itself can do; confluent-kafka meets the same broker behind a socket, in a process of its
own, and every rate is shown as a multiple of its own there. CPU seconds a million records are shown apart for
client and server.

    python -m bench.clients [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.kafka_port import confluent_consume, confluent_produce, cpu_seconds, service
from bench.peers.trivial_broker import PARTITIONS, Answers, make_table

RESULTS = Path(__file__).parent / "results" / "clients.json"
CONFLUENT = "confluent-kafka"
PLACES = ("through functions", "in process", "client alone")
COUNTS = {"records": 1_000_000, "tables": 4_000_000, CONFLUENT: 2_000_000}


# --- one side, in a process of its own --------------------------------------------------------------------------------


def produce_records(target: dict[str, Any], topic: str, count: int, table: Any) -> None:
    import odradek

    values = table["value"].slice(0, 64).to_pylist()
    with odradek.Producer(**target, linger_ms=20) as producer:
        for number in range(count):
            producer.send(topic, values[number & 63], key=b"%08d" % (number & 1023))


def produce_tables(target: dict[str, Any], topic: str, count: int, table: Any) -> None:
    import odradek

    with odradek.Producer(**target, linger_ms=20) as producer:
        assert producer.send_table(topic, table).result(120).row_count == count


def _consumer(target: dict[str, Any], topic: str) -> Any:
    import odradek

    consumer = odradek.Consumer(**target, auto_offset_reset="earliest", max_poll_records=10_000)
    consumer.assign([odradek.TopicPartition(topic, number) for number in range(PARTITIONS)])
    return consumer


def consume_records(target: dict[str, Any], topic: str, count: int) -> None:
    with _consumer(target, topic) as consumer:
        received = 0
        while received < count:
            received += sum(map(len, consumer.poll(1_000).values()))


def consume_tables(target: dict[str, Any], topic: str, count: int) -> None:
    with _consumer(target, topic) as consumer:
        received = 0
        while received < count:
            received += consumer.poll_table(1_000).num_rows


def produce_confluent(target: str, topic: str, count: int, table: Any) -> None:
    confluent_produce(target, topic, count, table["value"][0].as_py())


def consume_confluent(target: str, topic: str, count: int) -> None:
    confluent_consume(target, topic, count, PARTITIONS)


WORK: dict[tuple[str, str], Callable[..., None]] = {
    (CONFLUENT, "produce"): produce_confluent,
    (CONFLUENT, "consume"): consume_confluent,
    ("records", "produce"): produce_records,
    ("tables", "produce"): produce_tables,
    ("records", "consume"): consume_records,
    ("tables", "consume"): consume_tables,
}


def in_process(configs: dict[str, Any]) -> tuple[dict[str, Any], Callable[[], float]]:
    """A client's configuration for an engine on a thread of this process, and that thread's CPU seconds so far."""
    import threading

    from odradek.client.transport.base import InProcessTransport

    from tests.support.clients.in_process import Server

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def make() -> Any:
        return Server()

    server = asyncio.run_coroutine_threadsafe(make(), loop).result()

    async def cpu_s() -> float:
        return time.thread_time()

    transport = InProcessTransport(server.dispatch, loop=loop)
    return {"transport": transport, **configs}, lambda: asyncio.run_coroutine_threadsafe(cpu_s(), loop).result()


@contextmanager
def trivial_broker(topic: str, size: int) -> Iterator[tuple[int, str]]:
    """Process id and address of a broker that does nothing."""
    command = [sys.executable, "-m", "bench.peers.trivial_broker", topic, str(size)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def side(task: dict[str, Any]) -> None:
    """Run produce and consume of one kind in one place; print what each took, imports and compilation left out."""
    import odradek
    from odradek.columnar.decode import decode_to_arrow
    from odradek.columnar.encode import encode_from_arrow
    from odradek.columnar.rows import ROWS

    ROWS.load()
    decode_to_arrow(b"", topic="", partition=0)
    table = make_table(task["count"] if task["kind"] == "tables" else 10_000, task["size"])
    encode_from_arrow(table.slice(0, 1), default_timestamp_ms=0)
    other_cpu_s: Callable[[], float] = lambda: 0.0  # noqa: E731
    consume_configs = {"max_partition_fetch_bytes": 4_000_000}
    produce_target: Any
    if task["kind"] == CONFLUENT:
        __import__("confluent_kafka")
        produce_target = consume_target = task["target"]
    elif task["place"] == "through functions":
        produce_target, consume_target = task["target"], task["target"] | consume_configs
    elif task["place"] == "in process":
        produce_target, other_cpu_s = in_process({})
        consume_target = produce_target | consume_configs
    else:
        produce_target = {"transport": Answers(task["topic"], task["size"])}
        consume_target = produce_target | consume_configs
    if task["place"] != "client alone":
        with odradek.Admin(**produce_target) as admin:
            admin.create_topics([odradek.NewTopic(task["topic"], PARTITIONS)])
    for step in ("produce", "consume"):
        before_other_s = other_cpu_s()
        server_s = cpu_seconds(task["pid"])
        started_s, cpu_s = time.perf_counter(), time.process_time()
        if step == "produce":
            WORK[task["kind"], step](produce_target, task["topic"], task["count"], table)
        else:
            WORK[task["kind"], step](consume_target, task["topic"], task["count"])
        other_s = other_cpu_s() - before_other_s
        print(
            json.dumps(
                {
                    "what": step,
                    "s": time.perf_counter() - started_s,
                    "client_cpu_s": time.process_time() - cpu_s - other_s,
                    "server_cpu_s": other_s + cpu_seconds(task["pid"]) - server_s,
                }
            ),
            flush=True,
        )


# --- the run ----------------------------------------------------------------------------------------------------------


def measure(
    target_name: str, record_form: str, size: int, quick: bool, target: Any, pid: int | None
) -> list[dict[str, Any]]:
    """Both directions of one kind in one place."""
    count = COUNTS[record_form] // (10 if quick else 1) // (1 if size == 100 else 8)
    task = {
        "place": target_name, "kind": record_form, "size": size, "count": count, "target": target, "pid": pid,
        "topic": f"bench-{record_form}-{size}",
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "bench.clients", "--side", json.dumps(task)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    if run.returncode:
        raise SystemExit(f"{target_name}, {record_form} failed:\n{run.stderr}")
    rows = []
    for line in run.stdout.splitlines():
        took = json.loads(line)
        rows.append(
            {
                "place": target_name,
                "kind": record_form,
                "what": took["what"],
                "size": size,
                "count": count,
                "records_s": count / took["s"],
                "mb_s": count * size / took["s"] / 1e6,
                "client_cpu_s_per_million": took["client_cpu_s"] / count * 1e6,
                "server_cpu_s_per_million": took["server_cpu_s"] / count * 1e6,
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(
        "", "", "bytes", "", "records/s", "MB/s", "client CPU s/M", "server CPU s/M",
        "client alone would make", f"x {CONFLUENT}", box=None,
    )  # fmt: skip
    peers = {(row["size"], row["what"]): row["records_s"] for row in rows if row["kind"] == CONFLUENT}
    for row in rows:
        table.add_row(
            row["place"],
            row["kind"],
            str(row["size"]),
            row["what"],
            f"{row['records_s']:,.0f}",
            f"{row['mb_s']:,.1f}",
            f"{row['client_cpu_s_per_million']:.3f}",
            f"{row['server_cpu_s_per_million']:.3f}",
            f"{1e6 / row['client_cpu_s_per_million']:,.0f}/s",
            f"{row['records_s'] / peers[row['size'], row['what']]:.1f}",
        )
    Console(width=150).print(table)


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.side:
        side(json.loads(arguments.side))
        return 0
    rows = []
    for size in (100, 1024):
        for record_form in ("records", "tables"):
            for target_name in PLACES:
                if target_name == "through functions":
                    with service() as (pid, _, config):
                        rows += measure(target_name, record_form, size, arguments.quick, config, pid)
                else:
                    rows += measure(target_name, record_form, size, arguments.quick, None, None)
        with trivial_broker(f"bench-{CONFLUENT}-{size}", size) as (pid, servers):
            rows += measure("client alone", CONFLUENT, size, arguments.quick, servers, pid)
    show(rows)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
