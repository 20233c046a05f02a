"""DescribeCluster 1, DescribeLogDirs 4, ListTransactions 1 and DescribeTransactions 0 as kio messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterResponse
from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse
from kio.schema.describe_transactions.v0 import response as transactions_response
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from kio.schema.list_transactions.v1.response import ListTransactionsResponse
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import i32

from odradek.client.types import TransactionDescription
from odradek.model.topic_partition import TopicPartition

__all__ = [
    "DescribeClusterResponse",
    "DescribeLogDirsResponse",
    "DescribeTransactionsResponse",
    "ListTransactionsResponse",
    "describe_cluster_request",
    "describe_log_dirs_request",
    "describe_transactions_request",
    "list_transactions_request",
    "transaction_description",
]


def describe_cluster_request() -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=False)


def describe_log_dirs_request(partitions: Mapping[str, int]) -> DescribeLogDirsRequest:
    """Build a request for topics with their numbers of partitions."""
    return DescribeLogDirsRequest(
        topics=tuple(
            DescribableLogDirTopic(topic=TopicName(name), partitions=tuple(map(i32, range(count))))
            for name, count in partitions.items()
        )
    )


def list_transactions_request(states: Iterable[str]) -> ListTransactionsRequest:
    return ListTransactionsRequest(state_filters=tuple(states))


def describe_transactions_request(transactional_ids: Iterable[str]) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=tuple(map(TransactionalId, transactional_ids)))


def transaction_description(transaction: transactions_response.TransactionState) -> TransactionDescription:
    """Convert a described transaction."""
    started: datetime | None = transaction.transaction_start_time  # kio decodes -1 as None
    return TransactionDescription(
        transactional_id=str(transaction.transactional_id),
        state=transaction.transaction_state,
        producer_id=int(transaction.producer_id),
        producer_epoch=int(transaction.producer_epoch),
        timeout_ms=round(transaction.transaction_timeout.total_seconds() * 1000),
        start_ms=None if started is None else round(started.timestamp() * 1000) or None,
        partitions=tuple(
            TopicPartition(str(topic.topic), int(number)) for topic in transaction.topics for number in topic.partitions
        ),
    )
