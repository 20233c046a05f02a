"""The handler of each API, and the API's response to a failure of the whole request.

`handle` answers a request; `refuse` builds the same response with one error code in every place that has one. The
dispatcher calls `refuse` for a KafkaError that a handler raises, and with UNKNOWN_SERVER_ERROR for any other error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from odradek.dispatcher.cluster import api_versions, coordinator, descriptions, metadata
from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.groups import classic_groups, groups, offsets
from odradek.dispatcher.records import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from odradek.dispatcher.security import acls, quotas, sasl, scram_users
from odradek.dispatcher.share import groups as share_groups
from odradek.dispatcher.share import offsets as share_offsets
from odradek.dispatcher.share import records as share_records
from odradek.dispatcher.streams import groups as streams_groups
from odradek.dispatcher.topics import configs, topics
from odradek.dispatcher.transactions import producer_ids, transactions
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey


@dataclass(frozen=True, slots=True)
class Handler:
    """The two functions that answer an API."""

    handle: Callable[[Call], Awaitable[Answer]]
    refuse: Callable[[Call, ErrorCode, str], Answer]


HANDLERS: Mapping[ApiKey, Handler] = {
    ApiKey.PRODUCE: Handler(produce.handle_produce, produce.refuse_produce),
    ApiKey.FETCH: Handler(fetch.handle_fetch, fetch.refuse_fetch),
    ApiKey.LIST_OFFSETS: Handler(list_offsets.handle_list_offsets, list_offsets.refuse_list_offsets),
    ApiKey.METADATA: Handler(metadata.handle_metadata, metadata.refuse_metadata),
    ApiKey.OFFSET_COMMIT: Handler(offsets.handle_offset_commit, offsets.refuse_offset_commit),
    ApiKey.OFFSET_FETCH: Handler(offsets.handle_offset_fetch, offsets.refuse_offset_fetch),
    ApiKey.FIND_COORDINATOR: Handler(coordinator.handle_find_coordinator, coordinator.refuse_find_coordinator),
    ApiKey.JOIN_GROUP: Handler(classic_groups.handle_join_group, classic_groups.refuse_join_group),
    ApiKey.HEARTBEAT: Handler(classic_groups.handle_heartbeat, classic_groups.refuse_heartbeat),
    ApiKey.LEAVE_GROUP: Handler(classic_groups.handle_leave_group, classic_groups.refuse_leave_group),
    ApiKey.SYNC_GROUP: Handler(classic_groups.handle_sync_group, classic_groups.refuse_sync_group),
    ApiKey.DESCRIBE_GROUPS: Handler(groups.handle_describe_groups, groups.refuse_describe_groups),
    ApiKey.LIST_GROUPS: Handler(groups.handle_list_groups, groups.refuse_list_groups),
    ApiKey.SASL_HANDSHAKE: Handler(sasl.handle_sasl_handshake, sasl.refuse_sasl_handshake),
    ApiKey.API_VERSIONS: Handler(api_versions.handle_api_versions, api_versions.refuse_api_versions),
    ApiKey.CREATE_TOPICS: Handler(topics.handle_create_topics, topics.refuse_create_topics),
    ApiKey.DELETE_TOPICS: Handler(topics.handle_delete_topics, topics.refuse_delete_topics),
    ApiKey.DELETE_RECORDS: Handler(delete_records.handle_delete_records, delete_records.refuse_delete_records),
    ApiKey.INIT_PRODUCER_ID: Handler(producer_ids.handle_init_producer_id, producer_ids.refuse_init_producer_id),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler(
        offset_for_leader_epoch.handle_offset_for_leader_epoch, offset_for_leader_epoch.refuse_offset_for_leader_epoch
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Handler(
        transactions.handle_add_partitions_to_txn, transactions.refuse_add_partitions_to_txn
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Handler(transactions.handle_add_offsets_to_txn, transactions.refuse_add_offsets_to_txn),
    ApiKey.END_TXN: Handler(transactions.handle_end_txn, transactions.refuse_end_txn),
    ApiKey.TXN_OFFSET_COMMIT: Handler(transactions.handle_txn_offset_commit, transactions.refuse_txn_offset_commit),
    ApiKey.DESCRIBE_ACLS: Handler(acls.handle_describe_acls, acls.refuse_describe_acls),
    ApiKey.CREATE_ACLS: Handler(acls.handle_create_acls, acls.refuse_create_acls),
    ApiKey.DELETE_ACLS: Handler(acls.handle_delete_acls, acls.refuse_delete_acls),
    ApiKey.DESCRIBE_CONFIGS: Handler(configs.handle_describe_configs, configs.refuse_describe_configs),
    ApiKey.ALTER_CONFIGS: Handler(configs.handle_alter_configs, configs.refuse_alter_configs),
    ApiKey.DESCRIBE_LOG_DIRS: Handler(descriptions.handle_describe_log_dirs, descriptions.refuse_describe_log_dirs),
    ApiKey.SASL_AUTHENTICATE: Handler(sasl.handle_sasl_authenticate, sasl.refuse_sasl_authenticate),
    ApiKey.CREATE_PARTITIONS: Handler(topics.handle_create_partitions, topics.refuse_create_partitions),
    ApiKey.DELETE_GROUPS: Handler(groups.handle_delete_groups, groups.refuse_delete_groups),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(configs.handle_incremental_alter_configs, configs.refuse_alter_configs),
    ApiKey.OFFSET_DELETE: Handler(offsets.handle_offset_delete, offsets.refuse_offset_delete),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Handler(quotas.handle_describe_client_quotas, quotas.refuse_describe_client_quotas),
    ApiKey.ALTER_CLIENT_QUOTAS: Handler(quotas.handle_alter_client_quotas, quotas.refuse_alter_client_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Handler(
        scram_users.handle_describe_user_scram_credentials, scram_users.refuse_describe_user_scram_credentials
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Handler(
        scram_users.handle_alter_user_scram_credentials, scram_users.refuse_alter_user_scram_credentials
    ),
    ApiKey.DESCRIBE_CLUSTER: Handler(metadata.handle_describe_cluster, metadata.refuse_describe_cluster),
    ApiKey.DESCRIBE_PRODUCERS: Handler(descriptions.handle_describe_producers, descriptions.refuse_describe_producers),
    ApiKey.DESCRIBE_TRANSACTIONS: Handler(
        transactions.handle_describe_transactions, transactions.refuse_describe_transactions
    ),
    ApiKey.LIST_TRANSACTIONS: Handler(transactions.handle_list_transactions, transactions.refuse_list_transactions),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Handler(
        groups.handle_consumer_group_heartbeat, groups.refuse_consumer_group_heartbeat
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Handler(
        groups.handle_consumer_group_describe, groups.refuse_consumer_group_describe
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Handler(configs.handle_list_config_resources, configs.refuse_list_config_resources),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler(
        descriptions.handle_describe_topic_partitions, descriptions.refuse_describe_topic_partitions
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: Handler(
        share_groups.handle_share_group_heartbeat, share_groups.refuse_share_group_heartbeat
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: Handler(
        share_groups.handle_share_group_describe, share_groups.refuse_share_group_describe
    ),
    ApiKey.SHARE_FETCH: Handler(share_records.handle_share_fetch, share_records.refuse_share_request),
    ApiKey.SHARE_ACKNOWLEDGE: Handler(share_records.handle_share_acknowledge, share_records.refuse_share_request),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Handler(
        streams_groups.handle_streams_group_heartbeat, streams_groups.refuse_streams_group_heartbeat
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: Handler(
        streams_groups.handle_streams_group_describe, streams_groups.refuse_streams_group_describe
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Handler(
        share_offsets.handle_describe_share_group_offsets, share_offsets.refuse_describe_share_group_offsets
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Handler(
        share_offsets.handle_alter_share_group_offsets, share_offsets.refuse_share_group_offsets
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Handler(
        share_offsets.handle_delete_share_group_offsets, share_offsets.refuse_share_group_offsets
    ),
}
