"""The handler of each API, and the API's response to a failure of the whole request.

`handle` answers a request; `refuse` builds the same response with one error code in every place that has one. The
dispatcher calls `refuse` for a KafkaError that a handler raises, and with UNKNOWN_SERVER_ERROR for any other error.

A handler's module is imported when its API is first called, since a function serves a few of them: `load` does it while
Lambda initializes the function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey


@dataclass(frozen=True, slots=True)
class Handler:
    """The home of the two functions that answer an API: a module below odradek.dispatcher, and their names."""

    module: str
    handle_name: str
    refuse_name: str

    @property
    def handle(self) -> Callable[[Call], Awaitable[Answer]]:
        handle: Callable[[Call], Awaitable[Answer]] = self._found(self.handle_name)
        return handle

    @property
    def refuse(self) -> Callable[[Call, ErrorCode, str], Answer]:
        refuse: Callable[[Call, ErrorCode, str], Answer] = self._found(self.refuse_name)
        return refuse

    def _found(self, name: str) -> Any:
        return getattr(import_module(f"odradek.dispatcher.{self.module}"), name)


def load(api_keys: Iterable[ApiKey]) -> None:
    """Import the handlers of these APIs."""
    for api_key in api_keys:
        _ = HANDLERS[api_key].handle


HANDLERS: Mapping[ApiKey, Handler] = {
    ApiKey.PRODUCE: Handler("records.produce", "handle_produce", "refuse_produce"),
    ApiKey.FETCH: Handler("records.fetch", "handle_fetch", "refuse_fetch"),
    ApiKey.LIST_OFFSETS: Handler("records.list_offsets", "handle_list_offsets", "refuse_list_offsets"),
    ApiKey.METADATA: Handler("cluster.metadata", "handle_metadata", "refuse_metadata"),
    ApiKey.OFFSET_COMMIT: Handler("groups.offsets", "handle_offset_commit", "refuse_offset_commit"),
    ApiKey.OFFSET_FETCH: Handler("groups.offsets", "handle_offset_fetch", "refuse_offset_fetch"),
    ApiKey.FIND_COORDINATOR: Handler("cluster.coordinator", "handle_find_coordinator", "refuse_find_coordinator"),
    ApiKey.JOIN_GROUP: Handler("groups.classic_groups", "handle_join_group", "refuse_join_group"),
    ApiKey.HEARTBEAT: Handler("groups.classic_groups", "handle_heartbeat", "refuse_heartbeat"),
    ApiKey.LEAVE_GROUP: Handler("groups.classic_groups", "handle_leave_group", "refuse_leave_group"),
    ApiKey.SYNC_GROUP: Handler("groups.classic_groups", "handle_sync_group", "refuse_sync_group"),
    ApiKey.DESCRIBE_GROUPS: Handler("groups.groups", "handle_describe_groups", "refuse_describe_groups"),
    ApiKey.LIST_GROUPS: Handler("groups.groups", "handle_list_groups", "refuse_list_groups"),
    ApiKey.SASL_HANDSHAKE: Handler("security.sasl", "handle_sasl_handshake", "refuse_sasl_handshake"),
    ApiKey.API_VERSIONS: Handler("cluster.api_versions", "handle_api_versions", "refuse_api_versions"),
    ApiKey.CREATE_TOPICS: Handler("topics.topics", "handle_create_topics", "refuse_create_topics"),
    ApiKey.DELETE_TOPICS: Handler("topics.topics", "handle_delete_topics", "refuse_delete_topics"),
    ApiKey.DELETE_RECORDS: Handler("records.delete_records", "handle_delete_records", "refuse_delete_records"),
    ApiKey.INIT_PRODUCER_ID: Handler("transactions.producer_ids", "handle_init_producer_id", "refuse_init_producer_id"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler(
        "records.offset_for_leader_epoch", "handle_offset_for_leader_epoch", "refuse_offset_for_leader_epoch"
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Handler(
        "transactions.transactions", "handle_add_partitions_to_txn", "refuse_add_partitions_to_txn"
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Handler(
        "transactions.transactions", "handle_add_offsets_to_txn", "refuse_add_offsets_to_txn"
    ),
    ApiKey.END_TXN: Handler("transactions.transactions", "handle_end_txn", "refuse_end_txn"),
    ApiKey.TXN_OFFSET_COMMIT: Handler(
        "transactions.transactions", "handle_txn_offset_commit", "refuse_txn_offset_commit"
    ),
    ApiKey.DESCRIBE_ACLS: Handler("security.acls", "handle_describe_acls", "refuse_describe_acls"),
    ApiKey.CREATE_ACLS: Handler("security.acls", "handle_create_acls", "refuse_create_acls"),
    ApiKey.DELETE_ACLS: Handler("security.acls", "handle_delete_acls", "refuse_delete_acls"),
    ApiKey.DESCRIBE_CONFIGS: Handler("topics.configs", "handle_describe_configs", "refuse_describe_configs"),
    ApiKey.ALTER_CONFIGS: Handler("topics.configs", "handle_alter_configs", "refuse_alter_configs"),
    ApiKey.DESCRIBE_LOG_DIRS: Handler("cluster.descriptions", "handle_describe_log_dirs", "refuse_describe_log_dirs"),
    ApiKey.SASL_AUTHENTICATE: Handler("security.sasl", "handle_sasl_authenticate", "refuse_sasl_authenticate"),
    ApiKey.CREATE_PARTITIONS: Handler("topics.topics", "handle_create_partitions", "refuse_create_partitions"),
    ApiKey.DELETE_GROUPS: Handler("groups.groups", "handle_delete_groups", "refuse_delete_groups"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(
        "topics.configs", "handle_incremental_alter_configs", "refuse_alter_configs"
    ),
    ApiKey.OFFSET_DELETE: Handler("groups.offsets", "handle_offset_delete", "refuse_offset_delete"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Handler(
        "security.quotas", "handle_describe_client_quotas", "refuse_describe_client_quotas"
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Handler("security.quotas", "handle_alter_client_quotas", "refuse_alter_client_quotas"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Handler(
        "security.scram_users", "handle_describe_user_scram_credentials", "refuse_describe_user_scram_credentials"
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Handler(
        "security.scram_users", "handle_alter_user_scram_credentials", "refuse_alter_user_scram_credentials"
    ),
    ApiKey.DESCRIBE_CLUSTER: Handler("cluster.metadata", "handle_describe_cluster", "refuse_describe_cluster"),
    ApiKey.DESCRIBE_PRODUCERS: Handler(
        "cluster.descriptions", "handle_describe_producers", "refuse_describe_producers"
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Handler(
        "transactions.transactions", "handle_describe_transactions", "refuse_describe_transactions"
    ),
    ApiKey.LIST_TRANSACTIONS: Handler(
        "transactions.transactions", "handle_list_transactions", "refuse_list_transactions"
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Handler(
        "groups.groups", "handle_consumer_group_heartbeat", "refuse_consumer_group_heartbeat"
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Handler(
        "groups.groups", "handle_consumer_group_describe", "refuse_consumer_group_describe"
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Handler(
        "topics.configs", "handle_list_config_resources", "refuse_list_config_resources"
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler(
        "cluster.descriptions", "handle_describe_topic_partitions", "refuse_describe_topic_partitions"
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: Handler(
        "share.groups", "handle_share_group_heartbeat", "refuse_share_group_heartbeat"
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: Handler("share.groups", "handle_share_group_describe", "refuse_share_group_describe"),
    ApiKey.SHARE_FETCH: Handler("share.records", "handle_share_fetch", "refuse_share_request"),
    ApiKey.SHARE_ACKNOWLEDGE: Handler("share.records", "handle_share_acknowledge", "refuse_share_request"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Handler(
        "streams.groups", "handle_streams_group_heartbeat", "refuse_streams_group_heartbeat"
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: Handler(
        "streams.groups", "handle_streams_group_describe", "refuse_streams_group_describe"
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Handler(
        "share.offsets", "handle_describe_share_group_offsets", "refuse_describe_share_group_offsets"
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Handler(
        "share.offsets", "handle_alter_share_group_offsets", "refuse_share_group_offsets"
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Handler(
        "share.offsets", "handle_delete_share_group_offsets", "refuse_share_group_offsets"
    ),
}
