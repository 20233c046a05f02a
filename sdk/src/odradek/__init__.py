"""Odradek: Apache Kafka with no servers.

    from odradek import Producer, Consumer, Admin

Names are imported on first use, so that a function without a client does not pay for one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AcknowledgeType": "odradek.model.share",
    "Admin": "odradek.client.admin.sync",
    "AdminConfig": "odradek.client.config",
    "Consumer": "odradek.client.consumer.sync",
    "ConsumerConfig": "odradek.client.config",
    "ConsumerGroupDescription": "odradek.client.types",
    "ConsumerGroupMetadata": "odradek.client.messages.offsets",
    "ConsumerRecord": "odradek.client.consumer.record",
    "ErrorCode": "odradek.errors",
    "InProcessTransport": "odradek.client.transport.base",
    "JsonFormatter": "odradek.client.log",
    "KafkaError": "odradek.errors",
    "NewTopic": "odradek.client.types",
    "OffsetAndMetadata": "odradek.model.topic_partition",
    "OffsetAndTimestamp": "odradek.client.types",
    "OffsetConflict": "odradek.errors",
    "Producer": "odradek.client.producer.sync",
    "ProducerConfig": "odradek.client.config",
    "RebalanceListener": "odradek.client.consumer.rebalance",
    "RecordFuture": "odradek.client.producer.record_future",
    "RecordMetadata": "odradek.client.producer.record_future",
    "ShareConsumer": "odradek.client.share.sync",
    "ShareConsumerConfig": "odradek.client.config",
    "ShareRecord": "odradek.client.share.consumer",
    "Table": "odradek.client.tables",
    "TableRow": "odradek.model.table",
    "TopicDescription": "odradek.client.types",
    "TopicPartition": "odradek.model.topic_partition",
    "WakeupError": "odradek.errors",
    "query": "odradek.operations.query.run",
}

if TYPE_CHECKING:
    from odradek.client.admin.sync import Admin
    from odradek.client.config import AdminConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
    from odradek.client.consumer.rebalance import RebalanceListener
    from odradek.client.consumer.record import ConsumerRecord
    from odradek.client.consumer.sync import Consumer
    from odradek.client.log import JsonFormatter
    from odradek.client.messages.offsets import ConsumerGroupMetadata
    from odradek.client.producer.record_future import RecordFuture, RecordMetadata
    from odradek.client.producer.sync import Producer
    from odradek.client.share.consumer import ShareRecord
    from odradek.client.share.sync import ShareConsumer
    from odradek.client.tables import Table
    from odradek.client.transport.base import InProcessTransport
    from odradek.client.types import ConsumerGroupDescription, NewTopic, OffsetAndTimestamp, TopicDescription
    from odradek.errors import ErrorCode, KafkaError, OffsetConflict, WakeupError
    from odradek.local import start_local as local
    from odradek.model.share import AcknowledgeType
    from odradek.model.table import TableRow
    from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
    from odradek.operations.query import query

__all__ = [
    "AcknowledgeType",
    "Admin",
    "AdminConfig",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupDescription",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ErrorCode",
    "InProcessTransport",
    "JsonFormatter",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetConflict",
    "Producer",
    "ProducerConfig",
    "RebalanceListener",
    "RecordFuture",
    "RecordMetadata",
    "ShareConsumer",
    "ShareConsumerConfig",
    "ShareRecord",
    "Table",
    "TableRow",
    "TopicDescription",
    "TopicPartition",
    "WakeupError",
    "local",
    "query",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("odradek")
    if name == "local":  # a package that can be called: odradek.local() starts an embedded service
        return _import_part("odradek.local")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'odradek' has no attribute {name!r}")
    value = getattr(_import_part(home), name)
    globals()[name] = value
    return value


def _import_part(name: str) -> Any:
    """Import a module that another distribution may contain. Raises MissingExtra."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        from odradek.extras import MissingExtra, extra_of

        missing = extra_of(error.name)
        if missing is None:
            raise
        raise MissingExtra(missing) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
