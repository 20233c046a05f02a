"""The versions of each API that Odradek supports, as ApiVersions lists them.

The ranges are those of Apache Kafka 4.x, without versions that Kafka marks unstable (InitProducerId 6), those between
brokers (AddPartitionsToTxn 4 and 5), those whose only addition has no meaning here (ListOffsets 11, a timestamp for
remote storage), and those not implemented (ListTransactions 2, a pattern). APIs in `ApiKey` that are missing here are
not served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.protocol.api import ApiKey

SUPPORTED_VERSIONS: Mapping[ApiKey, tuple[int, int]] = {
    ApiKey.PRODUCE: (3, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),  # after 0 the login continues in bare tokens (gateway/sasl.py)
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),  # 0 was early access in Kafka 4.0, and differs
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
}

# librdkafka takes the absence of Produce 0 for a broker without compression (KAFKA-18659). Apache Kafka 4.x advertises
# it for the same reason, and like Odradek does not serve it.
PRODUCE_ADVERTISED_MIN = 0

# Cluster-wide features by name: lowest and highest level (KIP-584). transaction.version 2 is KIP-890: EndTxn bumps the
# epoch, and writes need no announcement. group.version 1 is KIP-848, share.version 1 is KIP-932, streams.version 1 is
# KIP-1071: groups of these kinds are served.
FEATURES: Mapping[str, tuple[int, int]] = {
    "group.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}


def is_supported(api_key: int, api_version: int) -> bool:
    """Return True if a request of this version can be decoded and answered."""
    versions = SUPPORTED_VERSIONS.get(api_key)  # type: ignore[call-overload]
    return versions is not None and versions[0] <= api_version <= versions[1]


def advertised(api_keys: Iterable[ApiKey]) -> list[tuple[ApiKey, int, int]]:
    """Return the entries of ApiVersions for these APIs: key, lowest and highest version, ordered by key."""
    return [
        (key, PRODUCE_ADVERTISED_MIN if key is ApiKey.PRODUCE else low, high)
        for key, (low, high) in sorted(SUPPORTED_VERSIONS.items())
        if key in api_keys
    ]
