"""How fast is the Python client, records and tables, and whose CPU is it? One run, client and server in two processes.

    through functions   the embedded service: HTTP function URLs with SigV4 and base64, SQLite and files with fsync
    in process          the same engine behind an in-process transport: no HTTP, one interpreter for both sides
    client alone        no engine: produce requests are acknowledged unseen, fetches answered from memory

The last is what the client by itself can do. CPU seconds a million records are told apart for client and server.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.kafka_port import cpu_seconds, service

RESULTS = Path(__file__).parent / "results" / "clients.json"
PARTITIONS = 4
CONFLUENT_RECORDS_S = 559_000  # confluent-kafka producing 100 B against a broker that drops them, on such a machine
PLACES = ("through functions", "in process", "client alone")
COUNTS = {"records": 300_000, "tables": 4_000_000}


# --- one side, in a process of its own --------------------------------------------------------------------------------


def make_table(count: int, size: int) -> Any:
    """Rows with 8-byte keys and values that do not compress to nothing."""
    import numpy as np
    import pyarrow as pa

    data = np.random.default_rng(1).integers(32, 127, count * size, dtype=np.uint8)
    ends = np.arange(0, (count + 1) * size, size, dtype=np.int64)
    values = pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    keys = pa.array(np.arange(count) % 100_000, pa.int64()).view(pa.binary(8))
    return pa.table({"key": keys, "value": values})


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
        seen = 0
        while seen < count:
            seen += sum(map(len, consumer.poll(1_000).values()))


def consume_tables(target: dict[str, Any], topic: str, count: int) -> None:
    with _consumer(target, topic) as consumer:
        seen = 0
        while seen < count:
            seen += consumer.poll_table(1_000).num_rows


WORK: dict[tuple[str, str], Callable[..., None]] = {
    ("records", "produce"): produce_records,
    ("tables", "produce"): produce_tables,
    ("records", "consume"): consume_records,
    ("tables", "consume"): consume_tables,
}


def in_process(configs: dict[str, Any]) -> tuple[dict[str, Any], Callable[[], float]]:
    """A client's configuration for an engine on a thread of this process, and that thread's CPU seconds so far."""
    import threading

    from odradek.client.transport import InProcessTransport

    from tests.support.clients import Server

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def make() -> Any:
        return Server()

    server = asyncio.run_coroutine_threadsafe(make(), loop).result()

    async def cpu_s() -> float:
        return time.thread_time()

    transport = InProcessTransport(server.dispatch, loop=loop)
    return {"transport": transport, **configs}, lambda: asyncio.run_coroutine_threadsafe(cpu_s(), loop).result()


def alone(topic: str, configs: dict[str, Any], table: Any) -> dict[str, Any]:
    """A client's configuration for a transport that answers everything itself."""
    from datetime import timedelta
    from uuid import uuid4

    from kio.schema.errors import ErrorCode
    from kio.schema.fetch.v12 import response as fetch
    from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
    from kio.schema.list_offsets.v7 import response as offsets
    from kio.schema.metadata.v12 import response as metadata
    from kio.schema.produce.v9 import response as produce
    from kio.schema.types import BrokerId, ProducerId, TopicName
    from kio.static.primitive import Records, i16, i32, i32Timedelta, i64
    from odradek.columnar import encode_from_arrow

    none, zero = ErrorCode.none, i32Timedelta.parse(timedelta(0))
    name = TopicName(topic)
    batch = encode_from_arrow(table.slice(0, 900_000 // (len(table["value"][0].as_py()) + 20)), default_timestamp_ms=0)[
        0
    ]

    class Answers:
        async def connect(self, timeout_s: float) -> None: ...

        async def close(self) -> None: ...

        async def call(
            self, message: Any, response_type: Any, timeout_s: float, *, client_id: str | None = None
        ) -> Any:
            kind = type(message).__name__
            if kind == "MetadataRequest":
                parts = tuple(
                    metadata.MetadataResponsePartition(
                        error_code=none, partition_index=i32(n), leader_id=BrokerId(1), leader_epoch=i32(0),
                        replica_nodes=(), isr_nodes=(), offline_replicas=(),
                    )
                    for n in range(PARTITIONS)
                )  # fmt: skip
                found = metadata.MetadataResponseTopic(
                    error_code=none, name=name, topic_id=uuid4(), is_internal=False, partitions=parts
                )
                return metadata.MetadataResponse(
                    throttle_time=zero, brokers=(), cluster_id="x", controller_id=BrokerId(1), topics=(found,)
                )
            if kind == "InitProducerIdRequest":
                return InitProducerIdResponse(
                    throttle_time=zero, error_code=none, producer_id=ProducerId(1), producer_epoch=i16(0)
                )
            if kind == "ProduceRequest":
                done = tuple(
                    produce.PartitionProduceResponse(
                        index=part.index, error_code=none, base_offset=i64(0), log_append_time=None,
                        log_start_offset=i64(0), record_errors=(),
                    )
                    for part in message.topic_data[0].partition_data
                )  # fmt: skip
                return produce.ProduceResponse(
                    responses=(produce.TopicProduceResponse(name=name, partition_responses=done),), throttle_time=zero
                )
            if kind == "ListOffsetsRequest":
                at = tuple(
                    offsets.ListOffsetsPartitionResponse(
                        partition_index=part.partition_index, error_code=none, offset=i64(0)
                    )
                    for part in message.topics[0].partitions
                )
                return offsets.ListOffsetsResponse(
                    throttle_time=zero, topics=(offsets.ListOffsetsTopicResponse(name=name, partitions=at),)
                )
            # A fetch: the same batch again and again, its offsets moved.
            data = []
            for part in message.topics[0].partitions:
                start = int(part.fetch_offset)
                data.append(
                    fetch.PartitionData(
                        partition_index=part.partition, error_code=none, high_watermark=i64(2**60),
                        aborted_transactions=None, records=Records(start.to_bytes(8, "big") + batch[8:]),
                        last_stable_offset=i64(2**60), log_start_offset=i64(0),
                    )
                )  # fmt: skip
            return fetch.FetchResponse(
                throttle_time=zero, error_code=none, session_id=i32(0),
                responses=(fetch.FetchableTopicResponse(topic=name, partitions=tuple(data)),),
            )  # fmt: skip

    return {"transport": Answers(), **configs}


def side(task: dict[str, Any]) -> None:
    """Run produce and consume of one kind in one place; print what each took, imports and compilation left out."""
    import odradek
    from odradek.columnar import decode_to_arrow, encode_from_arrow

    decode_to_arrow(b"", topic="", partition=0)
    table = make_table(task["count"] if task["kind"] == "tables" else 10_000, task["size"])
    encode_from_arrow(table.slice(0, 1), default_timestamp_ms=0)
    other_cpu_s: Callable[[], float] = lambda: 0.0  # noqa: E731
    consume_configs = {"max_partition_fetch_bytes": 4_000_000}
    if task["place"] == "through functions":
        produce_target, consume_target = task["target"], task["target"] | consume_configs
    elif task["place"] == "in process":
        produce_target, other_cpu_s = in_process({})
        consume_target = produce_target | consume_configs
    else:
        produce_target = alone(task["topic"], {}, table)
        consume_target = produce_target | consume_configs
    if task["place"] != "client alone":
        with odradek.Admin(**produce_target) as admin:
            admin.create_topics([odradek.NewTopic(task["topic"], PARTITIONS)])
    for what in ("produce", "consume"):
        before_other_s = other_cpu_s()
        server_s = cpu_seconds(task["pid"])
        started_s, cpu_s = time.perf_counter(), time.process_time()
        if what == "produce":
            WORK[task["kind"], what](produce_target, task["topic"], task["count"], table)
        else:
            WORK[task["kind"], what](consume_target, task["topic"], task["count"])
        other_s = other_cpu_s() - before_other_s
        print(
            json.dumps(
                {
                    "what": what,
                    "s": time.perf_counter() - started_s,
                    "client_cpu_s": time.process_time() - cpu_s - other_s,
                    "server_cpu_s": other_s + cpu_seconds(task["pid"]) - server_s,
                }
            ),
            flush=True,
        )


# --- the run ----------------------------------------------------------------------------------------------------------


def measure(place: str, kind: str, size: int, quick: bool, target: Any, pid: int | None) -> list[dict[str, Any]]:
    """Both directions of one kind in one place."""
    count = COUNTS[kind] // (10 if quick else 1) // (1 if size == 100 else 8)
    if place == "client alone" and kind == "tables":
        count *= 2
    task = {
        "place": place, "kind": kind, "size": size, "count": count, "target": target, "pid": pid,
        "topic": f"bench-{kind}-{size}",
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "bench.clients", "--side", json.dumps(task)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    if run.returncode:
        raise SystemExit(f"{place}, {kind} failed:\n{run.stderr}")
    rows = []
    for line in run.stdout.splitlines():
        took = json.loads(line)
        rows.append(
            {
                "place": place,
                "kind": kind,
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
        "client alone would make", "x 559 k/s", box=None,
    )  # fmt: skip
    for row in rows:
        by_cpu = 1e6 / row["client_cpu_s_per_million"]
        table.add_row(
            row["place"],
            row["kind"],
            str(row["size"]),
            row["what"],
            f"{row['records_s']:,.0f}",
            f"{row['mb_s']:,.1f}",
            f"{row['client_cpu_s_per_million']:.3f}",
            f"{row['server_cpu_s_per_million']:.3f}",
            f"{by_cpu:,.0f}/s",
            f"{by_cpu / CONFLUENT_RECORDS_S:.1f}" if row["size"] == 100 else "",
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
        for kind in ("records", "tables"):
            for place in PLACES:
                if place == "through functions":
                    with service() as (pid, _, config):
                        rows += measure(place, kind, size, arguments.quick, config, pid)
                else:
                    rows += measure(place, kind, size, arguments.quick, None, None)
    show(rows)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
