"""The operator's settings: one frozen dataclass per process, separate from components (stores, clock).

`from_env` is pure; only a composition root hands it the environment. infra/ fills the variables from the same fields,
so that they cannot drift. Each field's `hostile` metadata is a value that the simulation draws at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from types import MappingProxyType
from typing import Any, Final

from odradek.errors import ErrorCode, KafkaError
from odradek.limits import (
    HEAD_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    OFFSET_METADATA_BYTES_MAX,
    PAGED_APPENDS_MAX,
    PARTITIONS_PER_HEAD_MAX,
    PRODUCERS_IN_HEAD_MAX,
    SHARE_RECORD_LOCKS_MAX,
    SPILL_ENTRIES_MAX,
    TABLE_WRITE_UNIT_BYTES,
    WAL_ITEM_BYTES_MAX,
)

ENV_PREFIX = "ODRADEK_"
# Of a process that stays and has memory, a gateway or the embedded service; a function keeps nothing.
SERVER_MEMORY: Final[Mapping[str, int]] = MappingProxyType(
    {"uploads_kept_bytes": 64 * 1024 * 1024, "read_ahead_bytes": 64 * 1024 * 1024}
)
_BYTES_MAX = {
    "item_bytes_max": WAL_ITEM_BYTES_MAX,
    "offset_metadata_bytes_max": OFFSET_METADATA_BYTES_MAX,
}
UPLOAD_INTERVAL_MS_MAX = 10_000
UPLOAD_BYTES_MAX = 64 * 1024 * 1024
EVERYONE_WITHOUT_ACLS = ("until_first_acl", "true", "false")  # of allow_everyone_if_no_acl_found


def _knob(default: Any, *, hostile: Any = None) -> Any:
    return field(default=default, metadata={"hostile": default if hostile is None else hostile})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the engine. Units are in the names."""

    cluster_id: str = _knob("odradek")  # name of the installation, as clients see it
    default_partitions: int = _knob(1)  # partitions of a topic that is created without a count
    default_partitions_per_head: int = _knob(32, hostile=3)  # odradek.partitions.per.head of a topic created without it
    auto_create_topics: bool = _knob(False)  # create a missing topic when a client asks for its metadata

    head_bytes_max: int = _knob(TABLE_WRITE_UNIT_BYTES, hostile=400)  # size of the head item above which it is spilled
    # Tail entries that one spill moves to an index row; more if the head is too large.
    spill_entries: int = _knob(8, hostile=1)
    # Appends to a shared head that are kept in pages before they become index rows.
    paged_appends: int = _knob(128, hostile=3)
    producers_in_head_max: int = _knob(32, hostile=1)  # producers in a head of one partition; others are in rows
    # Sequences of producers that a shared head keeps once they have left its tail; others are in rows of their own.
    producers_bytes_max: int = _knob(1_024, hostile=40)
    producer_idle_ms: int = _knob(60_000, hostile=0)  # silence after which a spill evicts a producer

    # Requests up to this size are stored as one item, not as an object (docs/decisions/0005).
    item_bytes_max: int = _knob(4 * 1024 - 128, hostile=0)
    # Uploads of 100, the slowest, that may be sent once more while they run (engine/append/hedge.py); 0: none.
    upload_hedge_percent: int = _knob(0, hostile=50)
    fetch_object_parallelism: int = _knob(8, hostile=1)  # objects that one fetch reads at once
    fetch_join_gap_bytes: int = _knob(64 * 1024, hostile=0)  # ranges of one object closer than this are read as one
    poll_interval_ms: int = _knob(50, hostile=1)  # long poll: pause between reads of a quiet head, at first
    poll_interval_ms_max: int = _knob(250, hostile=2)  # that pause at most, as it grows

    catalog_cache_ms: int = _knob(5_000, hostile=0)  # age at which a cached topic row is read again
    sequence_wait_ms: int = _knob(500, hostile=0)  # a function's wait for the preceding batch of a producer
    append_attempts_max: int = _knob(20, hostile=3)  # conditional writes of an append before it is refused
    request_timeout_ms: int = _knob(25_000)  # limit on the time spent on one request

    broker_session_ms: int = _knob(10_000, hostile=40)  # silence after which a gateway loses leadership
    leader_cache_ms: int = _knob(1_000, hostile=0)  # age at which a gateway's cached row is read again

    quota_produce_bytes_per_s: int = _knob(0)  # per client and process (engine/access/quotas.py); 0: none
    quota_fetch_bytes_per_s: int = _knob(0)  # per client and process; 0: none
    quota_requests_per_s: int = _knob(0)  # produce and fetch requests, per client and process; 0: none

    group_heartbeat_interval_ms: int = _knob(5_000, hostile=10)  # between two heartbeats of a group member
    group_session_timeout_ms: int = _knob(45_000, hostile=30)  # silence after which a member is removed
    group_assignment_interval_ms: int = _knob(1_000, hostile=0)  # consumer.assignment.interval.ms (groups/configs.py)
    # Members of a group; each heartbeat reads them all. Members that join concurrently may exceed it.
    group_members_max: int = _knob(250, hostile=3)
    group_attempts_max: int = _knob(30, hostile=4)  # conditional writes of a heartbeat before COORDINATOR_NOT_AVAILABLE
    share_record_lock_duration_ms: int = _knob(30_000, hostile=40)  # lock of a record in a share group
    share_delivery_count_limit: int = _knob(5, hostile=2)  # deliveries after which a record is rejected
    share_partition_max_record_locks: int = _knob(2_000, hostile=7)  # records in flight per partition of a share group
    group_session_timeout_ms_min: int = _knob(6_000, hostile=10)  # shortest session timeout of a classic group member
    group_session_timeout_ms_max: int = _knob(1_800_000)  # longest session timeout of a classic group member
    group_initial_rebalance_delay_ms: int = _knob(500, hostile=0)  # wait for more members before a first rebalance
    gateway_connections_max: int = _knob(2_000)  # client connections of one gateway
    gateway_connections_per_address_max: int = _knob(1_000)  # connections from one address
    gateway_connections_per_principal_max: int = _knob(1_000)  # connections of one authenticated user
    gateway_peer_timeout_ms: int = _knob(30_000)  # time to log in, to send a request, or to read a response
    gateway_peer_bytes_per_s_min: int = _knob(16_384)  # rate at which a peer may exceed gateway_peer_timeout_ms
    gateway_idle_timeout_ms: int = _knob(600_000)  # a connection without traffic is closed
    gateway_drain_ms: int = _knob(5_000)  # time in which a gateway that stops closes its connections
    gateway_buffered_bytes_max: int = _knob(512 * 1024 * 1024)  # requests in memory, all connections together
    # Newest uploads that a process keeps in memory for readers at the end of a log. Gateways and the embedded service
    # keep 64 MiB; a function that uploads is not the one that reads.
    uploads_kept_bytes: int = _knob(0, hostile=2_000)
    # What a process has read ahead for consumers that catch up (engine/read/read_ahead.py). Gateways and the embedded
    # service keep 64 MiB; a function is frozen between two requests.
    read_ahead_bytes: int = _knob(0, hostile=3_000)
    # Shortest time between two uploads of a gateway: what comes meanwhile shares one; 0: none.
    gateway_upload_interval_ms: int = _knob(0)
    gateway_upload_bytes: int = _knob(4 * 1024 * 1024)  # what no such interval holds back any longer
    gateway_linger_ms: int = _knob(100)  # longest wait of a produce request for the one in flight, to share an upload
    connections_max_reauth_ms: int = _knob(0)  # lifetime of a login on the Kafka port; 0: unlimited
    http_connections_max: int = _knob(1_000)  # connections of each HTTP port: function URLs, schema registry
    http_read_timeout_ms: int = _knob(30_000)  # time to send a request, and to read a response
    super_users: str = _knob("")  # "User:a;User:b": exempt from ACLs; administrators over the Kafka port
    # true: what no ACL covers is allowed, as in Kafka; false: denied; until_first_acl: allowed until an ACL exists
    allow_everyone_if_no_acl_found: str = _knob("until_first_acl")
    # What triggers may call and leave records at: names with *, separated by ";"; empty: everything.
    trigger_targets: str = _knob("")
    # Networks that URLs of triggers may reach beside the internet: "10.0.0.0/8;fd00::/8" (triggers/reach.py).
    trigger_networks: str = _knob("")
    acl_cache_ms: int = _knob(5_000, hostile=0)  # age at which cached ACLs are read again
    offset_metadata_bytes_max: int = _knob(4_096)  # size of the metadata of a committed offset
    transaction_timeout_ms_max: int = _knob(900_000)  # longest timeout of a transaction
    maintenance_parallelism: int = _knob(8, hostile=1)  # partitions that a maintenance run processes concurrently
    maintenance_lease_ms: int = _knob(60_000, hostile=40)  # silence after which another run may take over a partition
    maintenance_interval_ms: int = _knob(60_000)  # of the embedded service; 0: never. On AWS a schedule runs it
    sweep_horizon_ms: int = _knob(3_600_000, hostile=960_000)  # age of unreferenced uploads that are swept
    sweep_interval_ms: int = _knob(3_600_000, hostile=0)  # shortest time between two sweeps
    # How long late WAL items are searched for, and the row of a deleted topic is kept for late writes.
    sweep_recheck_hours: int = _knob(6, hostile=1)
    sweep_uploads_max: int = _knob(100_000, hostile=2)  # uploads that a sweep keeps in memory
    producer_expiry_ms: int = _knob(86_400_000)  # silence after which an evicted producer's row is deleted
    # Age below which a record stays, whatever its timestamp and retention.ms; as log.retention.check.interval.ms.
    retention_delay_ms: int = _knob(300_000, hostile=0)
    merge_bytes_max: int = _knob(64 * 1024 * 1024, hostile=600)  # stored bytes that a run's merges keep in memory
    merge_rows_min: int = _knob(16, hostile=1)  # spilled rows that cause a merge
    merge_age_ms: int = _knob(600_000, hostile=0)  # age of a spilled row that causes a merge of fewer
    merge_delay_ms: int = _knob(60_000, hostile=0)  # age below which a row is not merged: its writer may read it
    segment_bytes_max: int = _knob(64 * 1024 * 1024, hostile=500)  # caps the topic configuration segment.bytes
    table_group_bytes: int = _knob(2 * 1024 * 1024, hostile=300)  # stored bytes of a columnar segment's row group
    # Iceberg catalog of topics' tables, PyIceberg's properties: "type=rest,uri=https://..."; embedded: SQLite if empty
    table_catalog: str = _knob("")
    compaction_map_entries_max: int = _knob(1_000_000, hostile=3)  # keys that one compaction pass keeps in memory
    compaction_read_bytes: int = _knob(8 * 1024 * 1024, hostile=100)  # bytes of a segment per read
    producer_id_block: int = _knob(1, hostile=3)  # producer ids reserved per write of the counter

    log_interval_ms: int = _knob(5_000)  # shortest time between two log lines about invocations; 0: a line for each
    detailed_metrics: bool = _knob(False)  # the functions' bytes, errors and units as CloudWatch metrics: $0.30 each
    attention_tail_entries: int = _knob(2_000)  # of one head, above which an alarm tells; at about 6,000 it is full
    attention_sweep_backlog_s: int = _knob(6 * 3600)  # age of unswept uploads above which an alarm tells
    attention_group_lag_records: int = _knob(10_000_000)  # lag of a group above which an alarm tells

    tracing: bool = _knob(False)  # OpenTelemetry spans of functions and store calls (odradek.tracing); the extra otel

    message_bytes_max: int = _knob(1_048_588)  # default of the topic configuration max.message.bytes
    # Topics whose transaction.offsets is predicted by default, with commas: names, or prefixes with * ("primary.*"),
    # which leave out internal topics.
    transaction_offsets_predicted: str = _knob("")

    def __post_init__(self) -> None:
        for name, limit in _BYTES_MAX.items():
            if not 0 <= getattr(self, name) <= limit:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"{name} must be between 0 and {limit}, not {getattr(self, name)}: a table item cannot hold more",
                )
        if not 0 < self.message_bytes_max <= MESSAGE_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"message_bytes_max must be between 1 and {MESSAGE_BYTES_MAX}, not {self.message_bytes_max}",
            )
        for name, limit in (
            ("default_partitions_per_head", PARTITIONS_PER_HEAD_MAX),
            ("spill_entries", SPILL_ENTRIES_MAX),
            ("paged_appends", PAGED_APPENDS_MAX),
            ("producers_in_head_max", PRODUCERS_IN_HEAD_MAX),
        ):
            if not 1 <= getattr(self, name) <= limit:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be between 1 and {limit}")
        if not 0 <= self.upload_hedge_percent <= 50:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"upload_hedge_percent must be 0 to 50, not {self.upload_hedge_percent}"
            )
        if not 0 <= self.gateway_upload_interval_ms <= UPLOAD_INTERVAL_MS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"gateway_upload_interval_ms must be 0 to {UPLOAD_INTERVAL_MS_MAX}, not "
                f"{self.gateway_upload_interval_ms}: producers wait for it, and give up after request.timeout.ms",
            )
        if not 0 < self.gateway_upload_bytes <= UPLOAD_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"gateway_upload_bytes must be 1 to {UPLOAD_BYTES_MAX}, not {self.gateway_upload_bytes}",
            )
        if not 1 <= self.head_bytes_max <= HEAD_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"head_bytes_max must be between 1 and {HEAD_BYTES_MAX}, not {self.head_bytes_max}: "
                "the rest of a table item is for what one request adds",
            )
        if not 1 <= self.share_partition_max_record_locks <= SHARE_RECORD_LOCKS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"share_partition_max_record_locks must be between 1 and {SHARE_RECORD_LOCKS_MAX}",
            )
        if self.sweep_horizon_ms <= self.transaction_timeout_ms_max + self.request_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "sweep_horizon_ms must exceed transaction_timeout_ms_max and request_timeout_ms together: "
                "otherwise the uploads of a slow request or of an open transaction are swept before they commit",
            )
        if self.allow_everyone_if_no_acl_found not in EVERYONE_WITHOUT_ACLS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"allow_everyone_if_no_acl_found must be one of {', '.join(EVERYONE_WITHOUT_ACLS)}, "
                f"not {self.allow_everyone_if_no_acl_found!r}",
            )
        for network in filter(None, (network.strip() for network in self.trigger_networks.split(";"))):
            try:
                ip_network(network)
            except ValueError as error:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, f"trigger_networks must be networks like 10.0.0.0/8: {error}"
                ) from None
        if self.sweep_uploads_max < 1 or self.sweep_recheck_hours < 0:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "sweep_uploads_max must be at least 1, sweep_recheck_hours not negative"
            )

        if self.table_catalog and not all(
            part.partition("=")[0].strip() and "=" in part for part in self.table_catalog.split(",")
        ):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "table_catalog must be properties of PyIceberg's catalog with commas, such as type=glue,warehouse=s3://"
                f"bucket/tables, not {self.table_catalog!r}",
            )
        if self.compaction_map_entries_max < 1 or self.compaction_read_bytes < 1:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "compaction_map_entries_max and compaction_read_bytes must be at least 1"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **defaults: Any) -> Settings:
        """Read `ODRADEK_<FIELD>` variables; the others keep their defaults.

        Args:
            defaults: of this kind of process, by field, where they are others.

        Raises KafkaError(INVALID_CONFIG) naming the variable whose value does not parse.
        """
        values = defaults
        for spec in fields(cls):
            name = ENV_PREFIX + spec.name.upper()
            if name in environ:
                values[spec.name] = _parse(name, environ[name], spec.type)
        return cls(**values)

    def to_env(self) -> dict[str, str]:
        """Return the variables of all settings that differ from their defaults; infra/ sets them on a function."""
        return {
            ENV_PREFIX + spec.name.upper(): str(getattr(self, spec.name)).lower()
            if isinstance(getattr(self, spec.name), bool)
            else str(getattr(self, spec.name))
            for spec in fields(self)
            if getattr(self, spec.name) != spec.default
        }


def _parse(name: str, text: str, type_name: Any) -> str | int | bool:
    if type_name == "str":
        return text
    if type_name == "bool":
        if text.lower() in {"true", "1", "yes"}:
            return True
        if text.lower() in {"false", "0", "no"}:
            return False
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be true or false, not {text!r}")
    try:
        return int(text)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be a whole number, not {text!r}") from None
