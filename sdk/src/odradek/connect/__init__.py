"""Kafka Connect without servers: connectors bring data into topics and out of them.

    with odradek.local() as service:
        settings = WorkerSettings.of({}, service.client_config)
        with Worker(settings), Cluster(settings) as cluster:
            cluster.create("numbers", {"connector.class": "DatagenConnector", "kafka.topic": "orders"})

`odradek connect run` is a worker with Kafka Connect's REST API. Connectors are described by the JSON that Kafka Connect
takes. docs/connect describes workers, connectors, transforms and how to write connectors of one's own.
"""

from __future__ import annotations

from odradek.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from odradek.connect.plugin import (
    Predicate,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    Transformation,
)
from odradek.connect.record import Header, SinkRecord, SourceRecord
from odradek.connect.runtime.cluster import Cluster
from odradek.connect.runtime.worker import Worker
from odradek.connect.settings import WorkerSettings

__all__ = [
    "Cluster",
    "ConfigError",
    "ConnectError",
    "DataError",
    "Header",
    "Predicate",
    "RetriableError",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "Transformation",
    "Worker",
    "WorkerSettings",
]
