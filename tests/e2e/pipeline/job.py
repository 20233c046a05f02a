"""A driver to be killed: two streaming queries from one topic, until all is processed or until it dies.

    counts    count and sum per key, every update    -> Parquet, a folder a micro-batch, and topic `out`: foreachBatch
    windows   count per key and minute, once closed  -> topic `closed`, by the streaming sink

Run as a process: python -m tests.e2e.pipeline.job <data dir> <bootstrap servers> <work dir> <seconds | done>
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import odradek.spark
from odradek.spark.available_now import latest_offsets
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

KEEP = "100000"  # micro-batches in the checkpoint, all: what should have been written is computed from it
EVENT = "id LONG, amount LONG"


def session() -> SparkSession:
    spark = (
        SparkSession.builder.appName("killed")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.minBatchesToRetain", KEEP)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    odradek.spark.register(spark)
    return spark


def counts(events: DataFrame) -> DataFrame:
    """Running totals by key."""
    return events.groupBy("key").agg(F.count(F.lit(1)).alias("n"), F.sum("amount").alias("total"))


def write_counts(sink: dict[str, str], updates: str) -> Callable[[DataFrame, int], None]:
    def write(totals: DataFrame, batch_id: int) -> None:
        totals = totals.persist()
        try:
            totals.write.mode("overwrite").parquet(f"{updates}/{batch_id}")
            records = totals.select("key", F.to_json(F.struct("n", "total")).alias("value"))
            odradek.spark.write_once(records, batch_id, {**sink, "topic": "out"})
        finally:
            totals.unpersist()

    return write


def windows(events: DataFrame) -> DataFrame:
    """Counts by key and minute, as records."""
    return (
        events.withWatermark("timestamp", "1 minute")
        .groupBy(F.window("timestamp", "1 minute"), "key")
        .agg(F.count(F.lit(1)).alias("n"), F.sum("amount").alias("total"))
        .select("key", F.to_json(F.struct(F.unix_seconds("window.start").alias("start"), "n", "total")).alias("value"))
    )


def start(spark: SparkSession, data_dir: str, servers: str, work: Path) -> tuple[dict[str, str], list[Any]]:
    source = {"store": f"embedded:{data_dir}", "subscribe": "in", "startingOffsets": "earliest"}
    reading = spark.readStream.format("odradek").options(**source, maxOffsetsPerTrigger="60")
    event = F.from_json(F.col("value").cast("string"), EVENT)
    events = reading.load().select("key", "timestamp", event.getField("amount").alias("amount"))
    sink = {"store": f"embedded:{data_dir}", "bootstrapServers": servers}
    updates = counts(events).writeStream.outputMode("update").foreachBatch(write_counts(sink, str(work / "updates")))
    closed = windows(events).writeStream.outputMode("append").format("odradek").options(**sink, topic="closed")
    queries = [
        query.queryName(name).option("checkpointLocation", str(work / f"checkpoint-{name}")).start()
        for name, query in (("counts", updates), ("windows", closed))
    ]
    return source, queries


def is_done(query: Any, goal: dict[str, Any]) -> bool:
    """Return True once the query has read all records and then one empty batch, which closes windows."""
    last = query.lastProgress
    if last is None or last["numInputRows"]:
        return False
    end = json.loads(last.json)["sources"][0]["endOffset"]  # in the object itself it is Python's text of a dict
    offsets = (json.loads(end) if isinstance(end, str) else end)["offsets"]
    return bool(offsets == goal) and not query.status["isTriggerActive"]


def main(data_dir: str, servers: str, work: Path, until: str) -> int:
    spark = session()
    source, queries = start(spark, data_dir, servers, work)
    print("started", flush=True)
    goal = json.loads(latest_offsets(source)) if until == "done" else {}
    quiet = 0
    while True:
        time.sleep(0.3)
        for query in queries:
            if not query.isActive:
                print(f"failed: {query.exception()}", file=sys.stderr, flush=True)
                return 1
        quiet = quiet + 1 if goal and all(is_done(query, goal) for query in queries) else 0
        if quiet > 5:
            for query in queries:
                query.stop()
            spark.stop()
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
