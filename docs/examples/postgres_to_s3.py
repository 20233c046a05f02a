"""A PostgreSQL table in S3 as Parquet, and a function that is called with each order: two sinks behind one capture."""

from __future__ import annotations

import os
import threading

from odradek.connect import Cluster, Worker, WorkerSettings

CAPTURE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname": "db.example",
    "database.user": "odradek",
    "database.dbname": "shop",
    "table.include.list": "public.orders",
    "topic.prefix": "shop",
    "decimal.handling.mode": "double",
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
}
PARQUET = {"connector.class": "S3Sink", "topics": "shop.public.orders", "format.class": "parquet"}
FUNCTION = {"connector.class": "LambdaSink", "topics": "shop.public.orders", "aws.lambda.function.name": "on-order"}


def main(place: dict[str, str], aws: dict[str, str], stop: threading.Event, **connection: str) -> None:
    settings = WorkerSettings.of({"value.converter.schemas.enable": "true"}, connection)
    with Cluster(settings) as cluster, Worker(settings):
        cluster.create("capture", {**CAPTURE, **place})
        cluster.create("parquet", {**PARQUET, **aws, "s3.bucket.name": "lake", "flush.size": "2"})
        cluster.create("function", {**FUNCTION, **aws})
        stop.wait()


if __name__ == "__main__":
    main({"database.password": os.environ["PGPASSWORD"]}, {}, threading.Event())
