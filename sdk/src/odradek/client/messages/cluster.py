"""DescribeCluster 1, DescribeLogDirs 4, ListTransactions 1, DescribeTransactions 0, DescribeClientQuotas 1 and
AlterClientQuotas 1 as kio messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kio.schema.alter_client_quotas.v1 import request as alter_quotas
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
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
from kio.static.primitive import f64, i32

from odradek.client.types import ClientQuota, TransactionDescription
from odradek.model.topic_partition import TopicPartition

__all__ = [
    "AlterClientQuotasResponse",
    "DescribeClientQuotasResponse",
    "DescribeClusterResponse",
    "DescribeLogDirsResponse",
    "DescribeTransactionsResponse",
    "ListTransactionsResponse",
    "alter_quota_request",
    "describe_cluster_request",
    "describe_log_dirs_request",
    "describe_quotas_request",
    "describe_transactions_request",
    "list_transactions_request",
    "quotas",
    "transaction_description",
]

_USER, _CLIENT_ID = "user", "client-id"


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


def transaction_description(found: transactions_response.TransactionState) -> TransactionDescription:
    """Convert a described transaction."""
    started: datetime | None = found.transaction_start_time  # kio decodes -1 as None
    return TransactionDescription(
        transactional_id=str(found.transactional_id),
        state=found.transaction_state,
        producer_id=int(found.producer_id),
        producer_epoch=int(found.producer_epoch),
        timeout_ms=round(found.transaction_timeout.total_seconds() * 1000),
        start_ms=None if started is None else round(started.timestamp() * 1000) or None,
        partitions=tuple(
            TopicPartition(str(topic.topic), int(number)) for topic in found.topics for number in topic.partitions
        ),
    )


def describe_quotas_request() -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(components=(), strict=False)


def quotas(response: DescribeClientQuotasResponse) -> list[ClientQuota]:
    """Convert the entries of a response."""
    found = []
    for entry in response.entries or ():
        names = {part.entity_type: part.entity_name or "" for part in entry.entity}
        values = {value.key: float(value.value) for value in entry.values}
        found.append(ClientQuota(names.get(_USER), names.get(_CLIENT_ID), values))
    return found


def alter_quota_request(
    user: str | None, client_id: str | None, values: Mapping[str, float | None]
) -> alter_quotas.AlterClientQuotasRequest:
    """Set quotas of one entity; a value of None removes its quota."""
    entity = tuple(
        alter_quotas.EntityData(entity_type=kind, entity_name=name or None)
        for kind, name in ((_USER, user), (_CLIENT_ID, client_id))
        if name is not None
    )
    operations = tuple(
        alter_quotas.OpData(key=key, value=f64(value or 0.0), remove=value is None) for key, value in values.items()
    )
    return alter_quotas.AlterClientQuotasRequest(
        entries=(alter_quotas.EntryData(entity=entity, ops=operations),), validate_only=False
    )
