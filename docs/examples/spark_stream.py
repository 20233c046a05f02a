"""Spark: a stream of orders becomes totals per customer, added to a topic exactly once.

Needs `odradek[local,spark]` and Java 17. On AWS the same code takes `store="aws"` with the names of tables and bucket,
and no bootstrapServers: docs/PIPELINE.md.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import odradek
from odradek.extras import program_needs

with program_needs("odradek[local,spark]"):
    import pyspark  # noqa: F401
    from odradek.spark.local import local_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def totals(orders: DataFrame) -> DataFrame:
    """Orders (key: customer, value: pieces) to one record a customer: key, value. A pure function of DataFrames."""
    return (
        orders.selectExpr("CAST(key AS STRING) AS customer", "CAST(CAST(value AS STRING) AS INT) AS pieces")
        .groupBy("customer")
        .sum("pieces")
        .selectExpr("customer AS key", "CAST(`sum(pieces)` AS STRING) AS value")
    )


def session(scratch: Path) -> SparkSession:
    os.environ.update(local_environment(scratch / "spark", os.environ))  # two cores of this machine
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("totals").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    odradek.spark.register(spark)
    return spark


def main(data_dir: str, **connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        compacted = {"cleanup.policy": "compact"}
        admin.create_topics([odradek.NewTopic("orders", 2), odradek.NewTopic("totals", configs=compacted)])
    with odradek.Producer(**connection) as producer:
        for number in range(60):
            producer.send("orders", key=b"customer-%d" % (number % 3), value=b"%d" % (number % 5))

    store = {"store": f"embedded:{data_dir}"}
    with tempfile.TemporaryDirectory() as scratch:
        spark = session(Path(scratch))
        orders = spark.readStream.format("odradek").options(**store, subscribe="orders", startingOffsets="earliest")
        sink = {**store, "bootstrapServers": connection["bootstrap_servers"], "topic": "totals"}
        query = (
            totals(orders.load())
            .writeStream.outputMode("complete")
            .format("odradek")
            .options(**sink)
            .option("checkpointLocation", f"{scratch}/checkpoint")
            .trigger(availableNow=True)  # process what is there, then end
            .start()
        )
        query.awaitTermination()
        spark.stop()

    with odradek.Consumer(**connection, auto_offset_reset="earliest") as consumer:
        consumer.assign([odradek.TopicPartition("totals", 0)])
        table: dict[bytes | None, bytes | None] = {}
        while len(table) < 3:
            for records in consumer.poll(timeout_ms=1000).values():
                table.update((record.key, record.value) for record in records)
        for customer, pieces in sorted(table.items(), key=lambda row: row[0] or b""):
            print(f"{(customer or b'').decode()}: {(pieces or b'').decode()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, odradek.local(folder) as service:
        main(data_dir=folder, **service.client_config)
