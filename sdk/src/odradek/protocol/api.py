"""The APIs that Odradek serves, and the function that owns each.

Over HTTPS one request frame is the body of one POST to its owner; one TCP connection carries all of them. Every
function answers ApiVersions for the APIs that it owns.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ApiKey(IntEnum):
    """Kafka API keys (protocol guide, "Api Keys")."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class FunctionName(StrEnum):
    """The Lambda functions that clients call (maintenance has no URL)."""

    PRODUCE = "produce"
    FETCH = "fetch"
    COORDINATOR = "coordinator"
    ADMIN = "admin"


OWNED: dict[FunctionName, frozenset[ApiKey]] = {
    FunctionName.PRODUCE: frozenset({ApiKey.PRODUCE}),
    FunctionName.FETCH: frozenset({ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH}),
    FunctionName.COORDINATOR: frozenset(
        {
            ApiKey.METADATA,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            ApiKey.DESCRIBE_PRODUCERS,
            ApiKey.DESCRIBE_LOG_DIRS,  # it reads heads and rows of the log
            ApiKey.LIST_CONFIG_RESOURCES,  # it lists topics: the admin function may not
            ApiKey.FIND_COORDINATOR,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_DELETE,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.LIST_GROUPS,
            ApiKey.DELETE_GROUPS,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_DESCRIBE,
            ApiKey.SHARE_FETCH,  # it writes to the store, which the fetch function may not
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.LIST_TRANSACTIONS,
        }
    ),
    FunctionName.ADMIN: frozenset(
        {
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.DELETE_RECORDS,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.DESCRIBE_CLUSTER,
        }
    ),
}

TCP_ONLY = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)
"""APIs without a function: they wait longer than a function may, or belong to a connection."""

_OWNER = {key: function for function, keys in OWNED.items() for key in keys}


def owner_of(api_key: ApiKey) -> FunctionName:
    """Return the function that serves this API; for ApiVersions the coordinator."""
    return _OWNER.get(api_key, FunctionName.COORDINATOR)
