"""How fast does Connect move a file into a topic, and a topic into a file, beside Apache Kafka Connect? All in one run.

Ours is `odradek connect run` over the embedded service (SQLite and files with fsync); theirs is a distributed worker of
Apache Kafka Connect over one Apache Kafka broker, both from Maven Central, with its defaults. Both are driven by the
same JSON over the same REST API: FileStreamSource reads lines of 100 bytes, FileStreamSink writes them. A source is
done when its stored offset is the end of the file, a sink when its file has all bytes. Source and sink are measured
with exactly once and without; the sinks differ in nothing. CPU seconds are those of the worker's process and of the
service or broker, from the start of the connector; the JVM's compilation counts, as in a worker that has just started.

bench/connect_databases.py compares connectors of databases.

    python -m bench.connect [--quick]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.kafka_port import cpu_seconds
from bench.peers.connect_workers import Worker, call, ours, theirs, until
from bench.peers.kafka_broker import NoBroker
from bench.peers.maven import NoJars

RESULTS = Path(__file__).parent / "results" / "connect.json"
LINE = b"x" * 99 + b"\n"
LINES = 1_000_000
_MOVE_S = 900
_CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def measure(worker: Worker, folder: Path, lines: int) -> list[dict[str, Any]]:
    """Move a file into a topic, and the topic into another file."""
    source, target = folder / "in.txt", folder / "out.txt"
    source.write_bytes(LINE * lines)
    size = source.stat().st_size
    read = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "file": str(source),
            "topic": "lines", **_CONVERTERS}  # fmt: skip
    write = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "file": str(target),
             "topics": "lines", **_CONVERTERS, "consumer.override.auto.offset.reset": "earliest"}  # fmt: skip

    def position() -> int:
        offsets = (call(f"{worker.url}/connectors/source/offsets") or {}).get("offsets") or [{}]
        return int((offsets[0].get("offset") or {}).get("position", 0))

    rows = []
    for name, config, is_done in (
        ("source", read, lambda: position() >= size),
        ("sink", write, lambda: target.exists() and target.stat().st_size >= size),
    ):
        before = cpu_seconds(worker.pid), cpu_seconds(worker.server_pid)
        begun = time.monotonic()
        made = f"{worker.url}/connectors/{name}/config"
        until(lambda made=made, config=config: call(made, "PUT", config), 60, "a new connector")  # type: ignore[misc]
        until(is_done, _MOVE_S, f"the end of the {name}")
        took_s = time.monotonic() - begun
        if name == "source":
            call(f"{worker.url}/connectors/source", "DELETE")
        rows.append(
            {
                "direction": "file to topic" if name == "source" else "topic to file",
                "lines_per_s": round(lines / took_s),
                "seconds": round(took_s, 1),
                "worker_cpu_s": round(cpu_seconds(worker.pid) - before[0], 1),
                "server_cpu_s": round(cpu_seconds(worker.server_pid) - before[1], 1),
            }
        )
    assert target.read_bytes() == source.read_bytes(), "the files differ"
    return rows


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the lines")
    lines = LINES // 10 if parser.parse_args(argv).quick else LINES
    rows: list[dict[str, Any]] = []
    for product, start in (("odradek", ours), ("Apache Kafka Connect", theirs)):
        for exactly_once in (True, False):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                try:
                    with start(folder, exactly_once=exactly_once) as worker:
                        results = measure(worker, folder, lines)
                except (NoBroker, NoJars) as reason:
                    print(f"{product}: {reason}")
                    break
            rows += [{"who": product, "exactly_once": exactly_once, **result} for result in results]
    table = Table(title=f"{lines:,} lines of {len(LINE)} bytes")
    for column in ("worker", "exactly once", "direction", "lines/s", "seconds", "CPU s worker", "CPU s server"):
        table.add_column(column, justify="left" if column in ("worker", "direction") else "right")
    for row in rows:
        table.add_row(row["who"], "yes" if row["exactly_once"] else "no", row["direction"], f"{row['lines_per_s']:,}",
                      str(row["seconds"]), str(row["worker_cpu_s"]), str(row["server_cpu_s"]))  # fmt: skip
    Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"lines": lines, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
