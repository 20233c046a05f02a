"""How fast does Connect move rows out of PostgreSQL and into it, beside Debezium's connectors? All in one run.

Ours is `odradek connect run` over the embedded service (SQLite and files with fsync); theirs is a distributed worker of
Apache Kafka Connect over one Apache Kafka broker, with Debezium's connectors of PostgreSQL (source) and of JDBC (sink),
all from Maven Central. Both meet the same PostgreSQL server, with the same rows of eight columns:

    snapshot    a table into a topic, as Debezium's envelope in JSON without schemas
    changes     as many changes, half updates and half inserts, written to the table while the connector was stopped
    upsert      a topic of rows in JSON with schemas into a table, by primary key; `exactly once` is ours alone
    insert      the same without a primary key

A source is done when the topic has so many records, changes also when the record of a last, later transaction is in
its topic; a sink when the table has all rows. Seconds are from the request that starts the connector, CPU seconds
those of the worker, of the service or broker, and of all processes of PostgreSQL; the JVM's compilation counts, as in a
worker that has just started. Sinks take 3,000 records a batch on both sides, other options are the defaults.
The goal is Debezium's records a second of the same run, at no more CPU seconds of the worker.

Confluent's JDBC connector is not on Maven Central.

    python -m bench.connect_databases [--quick] [--keep] [--note TEXT]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.kafka_port import cpu_seconds, create_topic
from bench.peers.connect_workers import Worker, call, ours, theirs, until
from bench.peers.kafka_broker import NoBroker
from bench.peers.maven import DEBEZIUM, NoJars
from tests.support.connect.postgres import Postgres, postgres

RESULTS = Path(__file__).parent / "results" / "connect_databases.json"
KEPT = Path(__file__).parent / "kept" / "connect_databases.json"
ROWS = 100_000
_CHANGES_PER_TRANSACTION = 1_000
_BATCH = "3000"
_MOVE_S = 900
_ORDERS = """
    CREATE TABLE orders (
        id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(12, 2) NOT NULL, quantity int NOT NULL,
        is_paid boolean NOT NULL, placed timestamp(6) NOT NULL, note text, updated timestamptz NOT NULL
    )
"""
_ROWS = """
    INSERT INTO orders SELECT i, 'customer ' || i % 1000, (i % 10000) / 100.0, i % 7, i % 2 = 0,
        timestamp '2026-01-01' + i * interval '1 second', 'a note of some forty characters, number ' || i,
        timestamptz '2026-01-01 00:00:00+00' + i * interval '1 second'
    FROM generate_series({first}, {last}) i
"""
_ROW = (
    *(("id", "int64", None), ("customer", "string", None), ("amount", "double", None), ("quantity", "int32", None)),
    *(("is_paid", "boolean", None), ("placed", "int64", "io.debezium.time.MicroTimestamp"), ("note", "string", None)),
    ("updated", "string", "io.debezium.time.ZonedTimestamp"),
)
_OURS, _THEIRS = "odradek", "Debezium"


def source_configs(server: Postgres, database: str) -> dict[str, str]:
    """Return the configuration of the source, which is the same for both."""
    return {
        **server.configs(database),
        "plugin.name": "pgoutput",
        "poll.interval.ms": "500",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.orders,public.done",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }


def sink_configs(product: str, server: Postgres, database: str, mode: str) -> dict[str, str]:
    """Return the configuration of a sink, as Confluent names its options for ours, and as Debezium does for theirs."""
    common = {
        "topics": "rows",
        "batch.size": _BATCH,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "consumer.override.auto.offset.reset": "earliest",
        "consumer.override.max.poll.records": _BATCH,
        "insert.mode": mode.partition(",")[0],
    }
    if product == _OURS:
        return {
            **common,
            "connector.class": "JdbcSink",
            "connection.url": server.url(database),
            "table.name.format": "target",
            "pk.mode": "none" if mode == "insert" else "record_key",
            "exactly.once": str("exactly once" in mode).lower(),
        }
    return {
        **common,
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/{database}?reWriteBatchedInserts=true",
        "connection.username": "postgres",
        "connection.password": "any",
        "collection.name.format": "target",
        "primary.key.mode": "none" if mode == "insert" else "record_key",
    }


# --- what is moved ----------------------------------------------------------------------------------------------------


def write_changes(server: Postgres, database: str, rows: int) -> None:
    """Update the first half of the rows and insert as many new ones, in many transactions; at last mark the end."""
    step = _CHANGES_PER_TRANSACTION
    with server.connect(database) as connection:
        for first in range(1, rows // 2 + 1, step):
            last = min(first + step - 1, rows // 2)
            connection.execute(f"UPDATE orders SET quantity = quantity + 1 WHERE id BETWEEN {first} AND {last}")
            connection.execute(_ROWS.format(first=rows + first, last=rows + last).encode())
        connection.execute("INSERT INTO done VALUES (1)")


def produce_rows(servers: str, rows: int) -> None:
    """Write the rows into a topic of one partition."""
    from confluent_kafka import Producer

    create_topic(servers, "rows")
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 10**7})
    schema = {"type": "struct", "optional": False, "name": "Row", "fields": [
        {"field": column, "type": of, "optional": column == "note", **({"name": named, "version": 1} if named else {})}
        for column, of, named in _ROW]}  # fmt: skip
    key_schema = {"type": "struct", "optional": False, "name": "Key", "fields": [schema["fields"][0]]}  # type: ignore[index]
    start = '{"schema":' + json.dumps(schema, separators=(",", ":")) + ',"payload":'
    key_start = '{"schema":' + json.dumps(key_schema, separators=(",", ":")) + ',"payload":'
    for i in range(1, rows + 1):
        row = {"id": i, "customer": f"customer {i % 1000}", "amount": (i % 10000) / 100, "quantity": i % 7,
               "is_paid": i % 2 == 0, "placed": 1_767_225_600_000_000 + i * 1_000_000,
               "note": f"a note of some forty characters, number {i}", "updated": "2026-01-01T00:00:00.5Z"}  # fmt: skip
        producer.produce("rows", f"{start}{json.dumps(row)}}}", f'{key_start}{{"id":{i}}}}}')
        if i % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def _ends(servers: str) -> Callable[[str], int]:
    """Return what returns the end of a topic, 0 if it is not there."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

    admins: list[AdminClient] = []
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]

    def end(topic: str) -> int:
        tp = TopicPartition(topic, 0)
        # A client remembers for minutes that it found no such topic: until there is one, each question has its own.
        admin = admins[0] if admins else AdminClient({"bootstrap.servers": servers, "log_level": 0})
        try:
            end_offset = int(admin.list_offsets({tp: latest})[tp].result(10).offset)
        except KafkaException:
            admins.clear()
            return 0
        admins[:] = [admin]
        return end_offset

    return end


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, of its children that live, and of those that have ended."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if path.parent.name == str(pid):
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        elif fields[1] == str(pid):
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


# --- measuring --------------------------------------------------------------------------------------------------------


class Measured:
    """The figures of one worker, one after the other."""

    def __init__(self, product: str, exactly_once: bool, worker: Worker, server: Postgres, rows: int) -> None:
        self._who, self._exactly_once, self._worker, self._server, self._count = (
            product,
            exactly_once,
            worker,
            server,
            rows,
        )
        self.rows: list[dict[str, Any]] = []
        self._asked_s = 0.0

    def take(self, step: str, begin: Callable[[], Any], is_done: Callable[[], Any]) -> None:
        before, begun = self._cpu(), time.monotonic()
        until(begin, 60, f"the start of {step}")
        until(lambda: is_done() or self._has_failed(), _MOVE_S, f"the end of {step}")
        took_s = time.monotonic() - begun
        names = ("worker_cpu_s", "server_cpu_s", "database_cpu_s")
        self.rows.append(
            {
                "who": self._who,
                "exactly_once": self._exactly_once or "exactly once" in step,
                "what": step.partition(",")[0],
                "records_per_s": round(self._count / took_s),
                "seconds": round(took_s, 1),
                **{name: round(a - b, 1) for name, a, b in zip(names, self._cpu(), before, strict=True)},
            }
        )

    def _has_failed(self) -> bool:
        """Return False; raise SystemExit with the reason if a task has failed. Asks once in two seconds."""
        now_s = time.monotonic()
        if now_s > self._asked_s + 2:
            self._asked_s = now_s
            for status in (call(f"{self._worker.url}/connectors?expand=status") or {}).values():
                for task in status["status"]["tasks"]:
                    if task["state"] == "FAILED":
                        raise SystemExit(f"bench: a task has failed: {task.get('trace')}")
        return False

    def _cpu(self) -> tuple[float, float, float]:
        worker = self._worker
        return cpu_seconds(worker.pid), cpu_seconds(worker.server_pid), tree_cpu_seconds(self._server.pid)


def measure_source(measured: Measured, worker: Worker, server: Postgres, database: str, rows: int) -> None:
    """Read a table, then its changes."""
    server.execute(database, _ORDERS, "CREATE TABLE done (id int PRIMARY KEY)", _ROWS.format(first=1, last=rows))
    url = f"{worker.url}/connectors/source"
    end = _ends(worker.servers)
    config = source_configs(server, database)
    measured.take("snapshot", lambda: call(f"{url}/config", "PUT", config),
                  lambda: end(f"{database}.public.orders") >= rows)  # fmt: skip
    time.sleep(3)  # the snapshot's end is stored, and the stream has begun
    until(lambda: (call(f"{url}/status") or {}).get("connector", {}).get("state") == "RUNNING", 60, "a status")
    call(f"{url}/stop", "PUT")
    until(lambda: (call(f"{url}/status") or {}).get("tasks") == [], 60, "the stop of the source")
    write_changes(server, database, rows)
    orders, done = f"{database}.public.orders", f"{database}.public.done"
    measured.take("changes", lambda: _is_put(f"{url}/resume"), lambda: end(orders) >= 2 * rows and end(done) > 0)
    call(url, "DELETE")


def _is_put(url: str) -> bool:
    call(url, "PUT")
    return True


def measure_sink(measured: Measured, worker: Worker, server: Postgres, database: str, rows: int, product: str) -> None:
    """Write the rows of a topic into a table, in each mode."""
    produce_rows(worker.servers, rows)
    modes = ("upsert", "upsert, exactly once", "insert") if product == _OURS else ("upsert", "insert")
    for number, mode in enumerate(modes):
        server.execute(database, "DROP TABLE IF EXISTS orders, target", _ORDERS.replace("orders", "target"))
        if mode == "insert":
            server.execute(database, "ALTER TABLE target DROP CONSTRAINT target_pkey")
        url, config = f"{worker.url}/connectors/sink{number}", sink_configs(product, server, database, mode)
        if product == _OURS:
            config["name"] = f"sink{number}"
        with server.connect(database) as connection:
            count = partial(connection.execute, "SELECT count(*) FROM target")
            measured.take(mode, partial(call, f"{url}/config", "PUT", config), partial(_has, count, rows))
        call(url, "DELETE")


def _has(count: Callable[[], Any], rows: int) -> bool:
    return int(count().fetchone()[0]) >= rows


def measure(product: str, exactly_once: bool, server: Postgres, rows: int) -> list[dict[str, Any]]:
    """Measure a worker. Raises NoBroker, NoJars."""
    database = server.database(f"bench_{product.lower()}_{int(exactly_once)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = ours(folder, exactly_once=exactly_once) if product == _OURS else theirs(
            folder, exactly_once=exactly_once, peer=DEBEZIUM
        )  # fmt: skip
        try:
            with started as worker:
                measured = Measured(product, exactly_once, worker, server, rows)
                measure_source(measured, worker, server, database, rows)
                if not exactly_once:  # sinks do not depend on it
                    measure_sink(measured, worker, server, database, rows, product)
        except (SystemExit, AssertionError):
            print((folder / "worker.log").read_text()[-4000:])
            raise
    return measured.rows


def show(rows: list[dict[str, Any]], count: int) -> None:
    """Print a line a measurement, ours beside theirs."""
    table = Table(title=f"{count:,} records; goal: Debezium's records/s at no more CPU of the worker")
    for column in ("", "exactly once", "worker", "records/s", "goal", "CPU s worker", "service, broker", "PostgreSQL"):
        table.add_column(column, justify="left" if column in ("", "worker") else "right")
    for row in sorted(rows, key=lambda row: (_order(row), row["exactly_once"], row["who"] == _THEIRS)):
        goal = goal_of(row, rows)
        table.add_row(row["what"], "yes" if row["exactly_once"] else "no", row["who"], f"{row['records_per_s']:,}",
                      "" if goal is None else f"{goal:,}", str(row["worker_cpu_s"]), str(row["server_cpu_s"]),
                      str(row["database_cpu_s"]))  # fmt: skip
    Console(width=120).print(table)


def _order(row: Mapping[str, Any]) -> int:
    return ("snapshot", "changes", "upsert", "insert").index(row["what"])


def goal_of(row: Mapping[str, Any], rows: list[dict[str, Any]]) -> int | None:
    """Return Debezium's figure for one of ours; a sink with exactly once has that without."""
    peers = [peer for peer in rows if peer["who"] == _THEIRS and peer["what"] == row["what"]]
    same = [peer for peer in peers if peer["exactly_once"] == row["exactly_once"]] or peers
    return None if row["who"] == _THEIRS or not same else int(same[0]["records_per_s"])


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    parser.add_argument("--note", default="", help="what to say of the machine, kept with the figures")
    parser.add_argument("--ours", action="store_true", help="without Debezium")
    arguments = parser.parse_args(argv)
    count = ROWS // 10 if arguments.quick else ROWS
    rows: list[dict[str, Any]] = []
    with postgres() as server:
        for product in (_OURS,) if arguments.ours else (_OURS, _THEIRS):
            for exactly_once in (False, True):
                try:
                    rows += measure(product, exactly_once, server, count)
                except (NoBroker, NoJars) as reason:
                    print(f"{product}: {reason}")
                    break
    show(rows, count)
    document = json.dumps({"rows": count, "note": arguments.note, "results": rows}, indent=1) + "\n"
    RESULTS.parent.mkdir(exist_ok=True)
    for path in (RESULTS, KEPT) if arguments.keep else (RESULTS,):
        path.write_text(document)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
