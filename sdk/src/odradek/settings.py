"""The operator's settings: one frozen dataclass per process, separate from components (stores, clock).

`from_env` is pure; only a composition root hands it the environment. infra/ fills the variables from the same fields,
so that they cannot drift. Each field's `hostile` metadata is a value that the simulation draws at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.limits import (
    MESSAGE_BYTES_MAX,
    OFFSET_METADATA_BYTES_MAX,
    PRODUCERS_IN_HEAD_MAX,
    SHARE_RECORD_LOCKS_MAX,
    SPILL_ENTRIES_MAX,
    TABLE_WRITE_UNIT_BYTES,
    WAL_ITEM_BYTES_MAX,
)

ENV_PREFIX = "ODRADEK_"
_BYTES_MAX = {
    "item_bytes_max": WAL_ITEM_BYTES_MAX,
    "offset_metadata_bytes_max": OFFSET_METADATA_BYTES_MAX,
}
EVERYONE_WITHOUT_ACLS = ("until_first_acl", "true", "false")  # of allow_everyone_if_no_acl_found


def _knob(default: Any, *, hostile: Any = None) -> Any:
    return field(default=default, metadata={"hostile": default if hostile is None else hostile})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the engine. Units are in the names."""

    cluster_id: str = _knob("odradek")  # name of the installation, as clients are told it
    default_partitions: int = _knob(1)  # of a topic created without a count
    auto_create_topics: bool = _knob(False)  # a topic that is asked for is created

    head_bytes_max: int = _knob(TABLE_WRITE_UNIT_BYTES, hostile=400)  # spill when the head item would grow past this
    spill_entries: int = _knob(8, hostile=1)  # entries moved from the head's tail to one index row, or what is too much
    producers_in_head_max: int = _knob(32, hostile=1)  # the others live in producer rows
    producer_idle_ms: int = _knob(60_000, hostile=0)  # who was silent for so long leaves the head when it spills

    # Requests up to this size are stored as one item, not as an object (docs/decisions/0005).
    item_bytes_max: int = _knob(4 * 1024 - 128, hostile=0)
    fetch_object_parallelism: int = _knob(8, hostile=1)  # objects that one fetch reads at once
    fetch_join_gap_bytes: int = _knob(64 * 1024, hostile=0)  # ranges of one object closer than this are read as one
    poll_interval_ms: int = _knob(50, hostile=1)  # long poll: pause between reads of a quiet head, at first
    poll_interval_ms_max: int = _knob(250, hostile=2)  # that pause at most, as it grows

    catalog_cache_ms: int = _knob(5_000, hostile=0)  # how long a function trusts its copy of a topic row
    sequence_wait_ms: int = _knob(500, hostile=0)  # a function waits for a request that was overtaken
    append_attempts_max: int = _knob(20, hostile=3)  # conditional writes of an append before it is refused
    request_timeout_ms: int = _knob(25_000)  # how long a request is worked on, at most

    broker_session_ms: int = _knob(10_000, hostile=40)  # a gateway's silence after which others may lead in its place
    leader_cache_ms: int = _knob(1_000, hostile=0)  # how long a process trusts what it read of a gateway

    quota_produce_bytes_per_s: int = _knob(0)  # of a client in this process (engine/access/quotas.py); 0: none
    quota_fetch_bytes_per_s: int = _knob(0)  # of a client in this process; 0: none
    quota_requests_per_s: int = _knob(0)  # produce and fetch requests

    group_heartbeat_interval_ms: int = _knob(5_000, hostile=10)  # between two heartbeats of a group's member
    group_session_timeout_ms: int = _knob(45_000, hostile=30)  # silence after which a member is removed
    group_assignment_interval_ms: int = _knob(1_000, hostile=0)  # consumer.assignment.interval.ms (groups/configs.py)
    # A heartbeat reads all members of its group. Those who join at the same moment may exceed it.
    group_members_max: int = _knob(250, hostile=3)
    group_attempts_max: int = _knob(30, hostile=4)  # conditional writes of a heartbeat before COORDINATOR_NOT_AVAILABLE
    share_record_lock_duration_ms: int = _knob(30_000, hostile=40)  # of share groups (engine/groups/configs.py)
    share_delivery_count_limit: int = _knob(5, hostile=2)  # deliveries after which a record is given up
    share_partition_max_record_locks: int = _knob(2_000, hostile=7)  # window of records in flight
    group_session_timeout_ms_min: int = _knob(6_000, hostile=10)  # what a member of a classic group may ask for
    group_session_timeout_ms_max: int = _knob(1_800_000)  # what a member of a classic group may ask for, at most
    group_initial_rebalance_delay_ms: int = _knob(500, hostile=0)  # a classic group's first round waits for more
    gateway_connections_max: int = _knob(2_000)  # connections of clients that a gateway holds
    gateway_connections_per_address_max: int = _knob(1_000)  # of them, from one address
    gateway_connections_per_principal_max: int = _knob(1_000)  # of them, logged in as one user
    gateway_peer_timeout_ms: int = _knob(30_000)  # a peer logs in, sends a request, reads an answer in this time, or
    gateway_peer_bytes_per_s_min: int = _knob(16_384)  # gets on by so many bytes a second of that time
    gateway_idle_timeout_ms: int = _knob(600_000)  # a connection without traffic is closed
    gateway_buffered_bytes_max: int = _knob(512 * 1024 * 1024)  # requests that are not answered yet, all connections
    gateway_linger_ms: int = _knob(2)  # how long produce requests that meet others wait to share an upload
    connections_max_reauth_ms: int = _knob(0)  # how long a login on the Kafka port lasts; 0: as the connection
    http_connections_max: int = _knob(1_000)  # of each HTTP port: function URLs, the schema registry
    http_read_timeout_ms: int = _knob(30_000)  # a request must be sent, and an answer be read, in this time
    super_users: str = _knob("")  # "User:a;User:b": whom no ACL binds, and who administers over the Kafka port
    # until_first_acl; true: whatever no ACL covers is open, as on Kafka; false: closed from the beginning
    allow_everyone_if_no_acl_found: str = _knob("until_first_acl")
    acl_cache_ms: int = _knob(5_000, hostile=0)  # how long a process trusts its copy of the ACLs
    offset_metadata_bytes_max: int = _knob(4_096)  # of the metadata that is committed with an offset
    transaction_timeout_ms_max: int = _knob(900_000)  # how long a transaction may be open, at most
    maintenance_parallelism: int = _knob(8, hostile=1)  # partitions that one maintenance run works on at once
    maintenance_lease_ms: int = _knob(60_000, hostile=40)  # silence after which another may take over
    maintenance_interval_ms: int = _knob(60_000)  # of the embedded service; 0: never. On AWS a schedule calls
    sweep_horizon_ms: int = _knob(3_600_000, hostile=960_000)  # uploads older than this are swept if nothing needs them
    sweep_interval_ms: int = _knob(3_600_000, hostile=0)  # between two sweeps, at least
    # So long late WAL items are looked for, and a deleted topic's row waits for what is late for it.
    sweep_recheck_hours: int = _knob(6, hostile=1)
    sweep_uploads_max: int = _knob(100_000, hostile=2)  # uploads that a sweep holds in memory at once
    producer_expiry_ms: int = _knob(86_400_000)  # silence after which an evicted producer is forgotten
    merge_bytes_max: int = _knob(64 * 1024 * 1024, hostile=600)  # stored bytes that all merges of a run hold at once
    merge_rows_min: int = _knob(16, hostile=1)  # spilled rows from which a merge pays
    merge_age_ms: int = _knob(600_000, hostile=0)  # age of a spilled row at which it is merged all the same
    merge_delay_ms: int = _knob(60_000, hostile=0)  # age below which it is not: a writer may still look for its entry
    segment_bytes_max: int = _knob(64 * 1024 * 1024, hostile=500)  # caps the topic configuration segment.bytes
    compaction_map_entries_max: int = _knob(1_000_000, hostile=3)  # keys that one pass of compaction keeps in mind
    compaction_read_bytes: int = _knob(8 * 1024 * 1024, hostile=100)  # of a segment that are read at once
    producer_id_block: int = _knob(1, hostile=3)  # ids taken from the counter at once

    tracing: bool = _knob(False)  # OpenTelemetry spans of functions and store calls (odradek.tracing); the extra otel

    message_bytes_max: int = _knob(1_048_588)  # default of the topic configuration max.message.bytes

    def __post_init__(self) -> None:
        for name, limit in _BYTES_MAX.items():
            if not 0 <= getattr(self, name) <= limit:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"{name} must be between 0 and {limit}, not {getattr(self, name)}: a table's item holds no more",
                )
        if not 0 < self.message_bytes_max <= MESSAGE_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"message_bytes_max must be between 1 and {MESSAGE_BYTES_MAX}, not {self.message_bytes_max}",
            )
        for name, limit in (("spill_entries", SPILL_ENTRIES_MAX), ("producers_in_head_max", PRODUCERS_IN_HEAD_MAX)):
            if not 1 <= getattr(self, name) <= limit:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be between 1 and {limit}")
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
        if self.sweep_uploads_max < 1 or self.sweep_recheck_hours < 0:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "sweep_uploads_max must be at least 1, sweep_recheck_hours not negative"
            )

        if self.compaction_map_entries_max < 1 or self.compaction_read_bytes < 1:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "compaction_map_entries_max and compaction_read_bytes must be at least 1"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read `ODRADEK_<FIELD>` variables; the others keep their defaults.

        Raises KafkaError(INVALID_CONFIG) naming the variable whose value does not parse.
        """
        values: dict[str, Any] = {}
        for spec in fields(cls):
            name = ENV_PREFIX + spec.name.upper()
            if name in environ:
                values[spec.name] = _parse(name, environ[name], spec.type)
        return cls(**values)

    def to_env(self) -> dict[str, str]:
        """The variables that differ from the defaults: what infra/ gives a function."""
        return {
            ENV_PREFIX + spec.name.upper(): str(getattr(self, spec.name)).lower()
            if isinstance(getattr(self, spec.name), bool)
            else str(getattr(self, spec.name))
            for spec in fields(self)
            if getattr(self, spec.name) != spec.default
        }


def _parse(name: str, text: str, kind: Any) -> str | int | bool:
    if kind == "str":
        return text
    if kind == "bool":
        if text.lower() in {"true", "1", "yes"}:
            return True
        if text.lower() in {"false", "0", "no"}:
            return False
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be true or false, not {text!r}")
    try:
        return int(text)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be a whole number, not {text!r}") from None
