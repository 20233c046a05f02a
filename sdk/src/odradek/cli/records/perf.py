"""`odradek perf`: throughput of this client and this service."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, TopicName, client_configs
from odradek.cli.output import Output, OutputOption, show_data
from odradek.cli.screen import progress
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition

perf = typer.Typer(cls=CommandGroup, help="Measure producing and consuming.", no_args_is_help=True)

Tables = Annotated[bool, typer.Option("--tables", help="Use Arrow tables instead of single records.")]
_TABLE_ROWS = 500_000
_STEP = 1_000  # records between two updates of the progress bar


@perf.command()
def produce(
    topic: TopicName,
    records: Annotated[int, typer.Option("--records", "-n", min=1, help="Number of records.")] = 100_000,
    size: Annotated[int, typer.Option("--size", "-s", min=1, help="Bytes of each value.")] = 100,
    tables: Tables = False,
    compression: Annotated[str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")] = "none",
    linger_ms: Annotated[int, typer.Option("--linger-ms", min=0)] = 20,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write records of random bytes, and print the throughput."""
    from odradek import Producer

    values = [os.urandom(size) for _ in range(64)]
    configs = client_configs(bootstrap_servers, data_dir)
    with Producer(**configs, compression_type=compression, linger_ms=linger_ms) as producer:
        producer.partitions_for(topic)
        if tables:
            with extra("table"):
                import pyarrow as pa

            table = pa.table({"value": (values * (_TABLE_ROWS // 64 + 1))[: min(records, _TABLE_ROWS)]})
            watch = _Watch()
            with progress("sending", records) as advance:
                sizes = [min(_TABLE_ROWS, records - start) for start in range(0, records, _TABLE_ROWS)]
                for size_rows, future in [(rows, producer.send_table(topic, table.slice(0, rows))) for rows in sizes]:
                    future.result()
                    advance(size_rows)
        else:
            watch = _Watch()
            with progress("sending", records) as advance:
                for first in range(0, records, _STEP):
                    step = min(_STEP, records - first)
                    for number in range(step):
                        producer.send(topic, values[number & 63])
                    advance(step)
                producer.flush()
        measured = watch.measured(records, records * size)
        measured["request_latency_avg_ms"] = producer.metrics()["request_latency_avg"]
    _show(measured, output)


@perf.command()
def consume(
    topic: TopicName,
    records: Annotated[int, typer.Option("--records", "-n", min=0, help="Number of records; 0: all.")] = 0,
    tables: Tables = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read records from the start, and print the throughput."""
    from odradek import Consumer

    configs = client_configs(bootstrap_servers, data_dir)
    with Consumer(**configs, auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for(topic))]
        begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        consumer.assign(places)
        watch = _Watch()
        record_count = size = 0
        wanted = records or sum(ends.values()) - sum(begins.values())
        with progress("reading", wanted) as advance:
            while record_count < wanted and any(consumer.position(tp) < ends[tp] for tp in places):
                rows, read = _poll(consumer, tables)
                record_count, size = record_count + rows, size + read
                advance(rows)
        measured = watch.measured(record_count, size)
    _show(measured, output)


def _poll(consumer: Any, tables: bool) -> tuple[int, int]:
    """Return the number of records of one poll, and the bytes of their values."""
    if tables:
        column = consumer.poll_table(1_000, ["value"])["value"]
        return len(column), sum(int(chunk.nbytes) - 4 * len(chunk) for chunk in column.chunks)
    values = [record.value for part in consumer.poll(1_000).values() for record in part]
    return len(values), sum(len(value or b"") for value in values)


class _Watch:
    """Measures time and CPU time since its creation."""

    def __init__(self) -> None:
        self._start_s, self._start_cpu_s = time.perf_counter(), time.process_time()

    def measured(self, records: int, size: int) -> dict[str, float]:
        """Return the measurements by name."""
        seconds = max(time.perf_counter() - self._start_s, 1e-9)
        cpu_s = time.process_time() - self._start_cpu_s
        return {
            "records": records,
            "seconds": seconds,
            "records_per_s": records / seconds,
            "mb_per_s": size / seconds / 1e6,
            "cpu_s_per_million": cpu_s / records * 1e6 if records else 0.0,
        }


def _show(measured: dict[str, float], output: Output) -> None:
    if show_data(measured, output):
        return
    per_million = f", {measured['cpu_s_per_million']:.2f} CPU s per million" if measured["records"] else ""
    typer.echo(
        f"{measured['records']:,} records in {measured['seconds']:.2f} s: {measured['records_per_s']:,.0f} records/s, "
        f"{measured['mb_per_s']:,.1f} MB/s{per_million}"
    )
    if "request_latency_avg_ms" in measured:
        typer.echo(f"{measured['request_latency_avg_ms']:.1f} ms per request on average")
