"""A PostgreSQL table in S3 as Parquet, and a function that is called with each order: a sink and a trigger.

Needs `odradek[local,connect]`, a database whose password is in PGPASSWORD, and the ARN of a function in ON_ORDER_ARN.
"""

from __future__ import annotations

import os
import threading

import odradek
from odradek.extras import program_needs

with program_needs("odradek[local,connect]"):
    import psycopg  # noqa: F401
    from odradek.connect import Cluster, Worker, WorkerSettings

ORDERS = "shop.public.orders"
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
PARQUET = {"connector.class": "S3Sink", "topics": ORDERS, "format.class": "parquet", "s3.bucket.name": "lake"}


def main(place: dict[str, str], aws: dict[str, str], function: str, stop: threading.Event, **connection: str) -> None:
    settings = WorkerSettings.of({"value.converter.schemas.enable": "true"}, connection)
    with odradek.Admin(**connection) as admin, Cluster(settings) as cluster, Worker(settings):
        admin.create_topics([odradek.NewTopic(ORDERS, 1)])
        admin.create_trigger("on-order", ORDERS, function, starting_position="TRIM_HORIZON")
        cluster.create("capture", {**CAPTURE, **place})
        cluster.create("parquet", {**PARQUET, **aws, "flush.size": "2"})
        stop.wait()


if __name__ == "__main__":
    if missing := {"PGPASSWORD", "ON_ORDER_ARN"} - os.environ.keys():
        raise SystemExit(f"set {' and '.join(sorted(missing))}: the database's password, and the function to call")
    main({"database.password": os.environ["PGPASSWORD"]}, {}, os.environ["ON_ORDER_ARN"], threading.Event())
