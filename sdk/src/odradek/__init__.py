"""Odradek: Apache Kafka with no servers.

    from odradek import Producer, Consumer, Admin

Names are imported when they are first used, so that a function which needs no client does not pay for one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AcknowledgeType": "odradek.model.share",
    "Admin": "odradek.client.sync_admin",
    "AdminConfig": "odradek.client.config",
    "Consumer": "odradek.client.sync_consumer",
    "ConsumerConfig": "odradek.client.config",
    "ConsumerGroupDescription": "odradek.client.admin_types",
    "ConsumerGroupMetadata": "odradek.client.offset_calls",
    "ConsumerRecord": "odradek.client.consumer_record",
    "ErrorCode": "odradek.errors",
    "InProcessTransport": "odradek.client.transport",
    "KafkaError": "odradek.errors",
    "NewTopic": "odradek.client.admin_types",
    "OffsetAndMetadata": "odradek.model.topic_partition",
    "OffsetAndTimestamp": "odradek.client.admin_types",
    "OffsetConflict": "odradek.errors",
    "Producer": "odradek.client.sync_producer",
    "ProducerConfig": "odradek.client.config",
    "RebalanceListener": "odradek.client.rebalance",
    "RecordFuture": "odradek.client.record_future",
    "RecordMetadata": "odradek.client.record_future",
    "ShareConsumer": "odradek.client.sync_share_consumer",
    "ShareConsumerConfig": "odradek.client.config",
    "ShareRecord": "odradek.client.share_consumer",
    "TopicDescription": "odradek.client.admin_types",
    "TopicPartition": "odradek.model.topic_partition",
}

if TYPE_CHECKING:
    from odradek.client.admin_types import ConsumerGroupDescription, NewTopic, OffsetAndTimestamp, TopicDescription
    from odradek.client.config import AdminConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
    from odradek.client.consumer_record import ConsumerRecord
    from odradek.client.offset_calls import ConsumerGroupMetadata
    from odradek.client.rebalance import RebalanceListener
    from odradek.client.record_future import RecordFuture, RecordMetadata
    from odradek.client.share_consumer import ShareRecord
    from odradek.client.sync_admin import Admin
    from odradek.client.sync_consumer import Consumer
    from odradek.client.sync_producer import Producer
    from odradek.client.sync_share_consumer import ShareConsumer
    from odradek.client.transport import InProcessTransport
    from odradek.errors import ErrorCode, KafkaError, OffsetConflict
    from odradek.local import start_local as local
    from odradek.model.share import AcknowledgeType
    from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

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
    "TopicDescription",
    "TopicPartition",
    "local",
]


def __getattr__(name: str) -> Any:
    if name == "local":  # a package that can be called: odradek.local() starts an embedded service
        return import_module("odradek.local")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'odradek' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
