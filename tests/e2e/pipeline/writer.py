"""Drives the sink as Spark does, without Spark, to be killed: micro-batches of two tasks each, from a checkpoint.

Run as a process: python -m tests.e2e.pipeline.writer <data dir> <bootstrap servers> <checkpoint file>
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
from odradek.spark.sink.commit import SinkStore
from odradek.spark.sink.options import SinkOptions, parse_sink_options
from odradek.spark.sink.upload import upload_rows

TASKS = 2
ROWS = 60


def rows(batch_id: int, task: int) -> list[str]:
    return [f"{batch_id}-{task}-{i}" for i in range(ROWS)]


def last_noted(checkpoint: Path) -> int:
    return int(checkpoint.read_text()) if checkpoint.exists() else -1


def run_batch(options: SinkOptions, batch_id: int) -> None:
    parts = []
    for task in range(TASKS):
        values = rows(batch_id, task)
        batches = [
            pa.RecordBatch.from_pydict({"key": values[i : i + 20], "value": values[i : i + 20]}) for i in (0, 20, 40)
        ]
        with SinkStore(options.store) as store:
            parts += upload_rows(batches, options, store, task=task)[0]
    with SinkStore(options.store, options.bootstrap_servers) as store:
        store.commit("spark/query", batch_id, parts)


def main(data_dir: str, servers: str, checkpoint: Path) -> None:
    options_given = {"store": f"embedded:{data_dir}", "bootstrapServers": servers, "topic": "out", "uploadBytes": "500"}
    options = parse_sink_options(options_given, is_streaming=True)
    batch_id = last_noted(checkpoint)
    while True:
        batch_id += 1
        run_batch(options, batch_id)
        fresh = checkpoint.with_suffix(".new")
        fresh.write_text(str(batch_id))
        os.replace(fresh, checkpoint)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
