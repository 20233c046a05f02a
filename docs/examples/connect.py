"""Connect: generated orders into a topic as Avro, and from there into a database, each row exactly once."""

from __future__ import annotations

import threading

import odradek
from odradek.extras import program_needs

with program_needs("odradek[local,connect]"):
    import fastavro  # noqa: F401
    import sqlalchemy
    from odradek.connect import Cluster, Worker, WorkerSettings

ORDERS = {
    "connector.class": "io.confluent.connect.datagen.DatagenConnector",
    "kafka.topic": "orders",
    "quickstart": "orders",
    "iterations": "500",
    "max.interval": "0",
    "tasks.max": "2",
    "value.converter": "io.confluent.connect.avro.AvroConverter",  # with the schema registry of the service
}
DATABASE = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "topics": "orders",
    "connection.url": "sqlite:///orders.db",
    "auto.create": "true",
    "exactly.once": "true",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "transforms": "flat,stamp",
    "transforms.flat.type": "org.apache.kafka.connect.transforms.Flatten$Value",
    "transforms.flat.delimiter": "_",
    "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.stamp.timestamp.field": "written",
}


def rows() -> int:
    """Return the number of rows that are in the database by now."""
    engine = sqlalchemy.create_engine(DATABASE["connection.url"])
    with engine.connect() as connection:
        exists = sqlalchemy.inspect(connection).has_table("orders")
        count = connection.execute(sqlalchemy.text("SELECT count(*) FROM orders")).scalar() if exists else 0
    engine.dispose()
    return int(count or 0)


def main(**connection: str) -> None:
    settings = WorkerSettings.of({"offset.flush.interval.ms": "1000"}, connection)
    with Cluster(settings) as cluster, Worker(settings):
        cluster.create("orders", ORDERS)
        cluster.create("database", DATABASE)
        while rows() < 1000:
            threading.Event().wait(0.2)
        print(f"{rows()} rows")
        print(", ".join(f"{name}: {cluster.status(name)['connector']['state']}" for name in cluster.connectors()))


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
