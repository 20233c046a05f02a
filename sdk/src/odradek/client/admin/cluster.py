"""Calls of the admin client about the cluster as a whole: brokers, sizes, transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.client.admin.change import names_of, raise_for
from odradek.client.connection import Connection
from odradek.client.messages import cluster as calls
from odradek.client.messages.transactions import InitProducerIdResponse, init_request
from odradek.client.types import (
    BrokerDescription,
    ClusterDescription,
    TransactionDescription,
    TransactionListing,
)
from odradek.model.topic_partition import TopicPartition

_FENCE_TIMEOUT_MS = 60_000  # transaction.timeout.ms that the fenced id keeps until its producer starts again


class ClusterAdmin:
    """The part of Admin that is about no single topic or group."""

    _connection: Connection

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id, controller and brokers: the fleet of functions, or a gateway and its peers."""

        def check(response: calls.DescribeClusterResponse) -> None:
            raise_for("cluster", response.error_code, response.error_message)

        response = await self._connection.call(
            calls.describe_cluster_request(), calls.DescribeClusterResponse, "DescribeCluster", check=check
        )
        brokers = [
            BrokerDescription(int(broker.broker_id), broker.host, int(broker.port)) for broker in response.brokers
        ]
        return ClusterDescription(response.cluster_id, int(response.controller_id), tuple(brokers))

    async def describe_log_dirs(self, partition_counts: Mapping[str, int]) -> dict[TopicPartition, int]:
        """Return the bytes of each partition's live batches, as they are stored; unknown partitions are left out.

        Args:
            partition_counts: topic -> number of partitions.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED.
        """

        def check(response: calls.DescribeLogDirsResponse) -> None:
            raise_for("sizes", response.error_code, None)
            for result in response.results:
                raise_for("sizes", result.error_code, None)

        response = await self._connection.call(
            calls.describe_log_dirs_request(partition_counts),
            calls.DescribeLogDirsResponse,
            "DescribeLogDirs",
            check=check,
        )
        return {
            TopicPartition(str(topic.name), int(partition.partition_index)): int(partition.partition_size)
            for result in response.results
            for topic in result.topics
            for partition in topic.partitions
        }

    # --- transactions ---------------------------------------------------------------------------------------------

    async def list_transactions(self, states: Iterable[str] = ()) -> list[TransactionListing]:
        """Return the transactional ids that the caller may describe, all or those in the given states."""

        def check(response: calls.ListTransactionsResponse) -> None:
            raise_for("transactions", response.error_code, None)

        response = await self._connection.call(
            calls.list_transactions_request(names_of(states)),
            calls.ListTransactionsResponse,
            "ListTransactions",
            check=check,
        )
        return [
            TransactionListing(
                str(transaction.transactional_id), int(transaction.producer_id), transaction.transaction_state
            )
            for transaction in response.transaction_states
        ]

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return descriptions of transactional ids.

        Raises:
            KafkaError: TRANSACTIONAL_ID_NOT_FOUND, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
        """

        def check(response: calls.DescribeTransactionsResponse) -> None:
            for transaction in response.transaction_states:
                raise_for(f"transactional id {transaction.transactional_id!r}", transaction.error_code, None)

        response = await self._connection.call(
            calls.describe_transactions_request(names_of(transactional_ids)),
            calls.DescribeTransactionsResponse,
            "DescribeTransactions",
            check=check,
        )
        return {
            str(transaction.transactional_id): calls.transaction_description(transaction)
            for transaction in response.transaction_states
        }

    async def fence_producers(self, transactional_ids: Iterable[str]) -> None:
        """Abort the open transactions of transactional ids and fence their producers, which fail at their next call.

        Raises:
            KafkaError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CONCURRENT_TRANSACTIONS.
        """
        for transactional_id in names_of(transactional_ids):
            name = f"transactional id {transactional_id!r}"

            def check(response: InitProducerIdResponse, name: str = name) -> None:
                raise_for(name, response.error_code, None)

            await self._connection.call(
                init_request(transactional_id, _FENCE_TIMEOUT_MS, -1, -1),
                InitProducerIdResponse,
                "InitProducerId",
                check=check,
            )
