"""Configuration of the clients: Kafka's names with underscores, checked before anything is sent.

A name that is not known or a value that cannot work is KafkaError(INVALID_CONFIG) with what to do. Where a default
differs from Kafka's, the comment of the field says why.
"""

# ruff: noqa: RUF009  (_setting makes a dataclass field: it is not shared between instances)

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self
from urllib.parse import urlsplit

from odradek.client.transport.base import Transport
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import FUNCTION_BINARY_BYTES_MAX, PRODUCER_BATCHES_REMEMBERED
from odradek.model.record import CompressionType
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng


@dataclass(frozen=True, slots=True)
class Check:
    """A rule for the values of a configuration, and the same rule in words for docs/reference.md."""

    refuse: Callable[[str, Any], str | None]
    allowed: str = ""

    def __call__(self, name: str, value: Any) -> str | None:
        """Return a message that says why the value is refused, or None if it is allowed."""
        return self.refuse(name, value)


Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes | None], Any]
ErrorHandler = Callable[[Any, Exception], Any]
"""(ConsumerRecord with bytes, the error) -> anything; poll awaits the result if it is awaitable."""
Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""topic, key, value, partition count -> partition."""

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
FRAME_OVERHEAD_BYTES = 64 * 1024  # names, headers and response fields around the records of one call
REQUEST_BYTES_MAX = FUNCTION_BINARY_BYTES_MAX - FRAME_OVERHEAD_BYTES


def _int(low: int, high: int = 2**31 - 1) -> Check:
    def check(name: str, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"{name} must be a whole number, not {value!r}"
        return None if low <= value <= high else f"{name} must be between {low} and {high}, not {value}"

    return Check(check, f"from {low}" if high >= 2**31 - 1 else f"{low} to {high}")


def _number(low: float) -> Check:
    def check(name: str, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{name} must be a number, not {value!r}"
        return None if value >= low else f"{name} must be at least {low}, not {value}"

    return Check(check, f"from {low:g}")


def _is_bool(name: str, value: Any) -> str | None:
    return None if isinstance(value, bool) else f"{name} must be True or False, not {value!r}"


def _is_text(name: str, value: Any) -> str | None:
    return None if isinstance(value, str) and value else f"{name} must be a non-empty string, not {value!r}"


def _is_callable(name: str, value: Any) -> str | None:
    return None if callable(value) else f"{name} must be a function, not {value!r}"


def _one_of(*choices: object) -> Check:
    def check(name: str, value: Any) -> str | None:
        if value in choices and not isinstance(value, bool):
            return None
        return f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}"

    return Check(check, ", ".join(map(str, choices)))


def _is_acks(name: str, value: Any) -> str | None:
    """Refuse everything but Kafka's values; numbers may be text, as in Kafka's properties files."""
    if not isinstance(value, bool) and str(value) in {"all", "-1", "0", "1"}:
        return None
    return f"{name} must be one of all, -1, 0, 1, not {value!r}"


def _is_url(name: str, value: Any) -> str | None:
    wanted = f"{name} must be the URL of the coordinator function, such as https://<id>.lambda-url.<region>.on.aws"
    if not isinstance(value, str):
        return f"{wanted}, not {value!r}"
    parts = urlsplit(value)
    if parts.scheme in {"http", "https"} and parts.hostname:
        return None
    if value.startswith("kafka://"):
        from odradek.client.transport.kafka import parse_servers

        try:
            parse_servers(value)
        except KafkaError as error:
            return error.message
        return None
    if re.fullmatch(r"[\w.-]+:\d+", value):
        return (
            f"{wanted}; {value!r} looks like a Kafka broker: use kafka://{value}, or "
            f"http://{value} if `odradek local` listens there"
        )
    return f"{wanted}, not {value!r}"


def _is_partitioner(name: str, value: Any) -> str | None:
    if callable(value) or value in {"default", "round_robin"}:
        return None
    return f"{name} must be 'default', 'round_robin' or a function, not {value!r}"


_bool = Check(_is_bool, "true, false")
_text = Check(_is_text, "text")
_callable = Check(_is_callable, "a function")
_acks = Check(_is_acks, "all, -1, 0, 1")
_url = Check(_is_url, "a URL")
_partitioner = Check(_is_partitioner, "default, round_robin, a function")


def _setting(default: Any, check: Check, *, secret: bool = False) -> Any:
    """Define a field. A default of None means "not given" and is not checked. The value of a secret is not shown."""
    return field(default=default, metadata={"check": check}, repr=not secret)


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Configuration that all clients share."""

    bootstrap_servers: str | None = _setting(None, _url)  # URL of the coordinator function or the local service
    client_id: str = _setting("odradek", _text)  # what the service knows the client by, in logs and quotas
    request_timeout_ms: int = _setting(30_000, _int(1))  # one attempt of one call
    default_api_timeout_ms: int = _setting(60_000, _int(1))  # a call with its retries
    retry_backoff_ms: int = _setting(100, _int(0))  # first pause before a call is tried again
    retry_backoff_max_ms: int = _setting(1_000, _int(0))  # longest pause
    metadata_max_age_ms: int = _setting(300_000, _int(0))  # how long partitions are known without asking again
    aws_access_key_id: str | None = _setting(None, _text)  # None: botocore's default chain
    aws_secret_access_key: str | None = _setting(None, _text, secret=True)  # given together with the id
    aws_session_token: str | None = _setting(None, _text, secret=True)  # of temporary credentials
    aws_region: str | None = _setting(None, _text)  # None: from the URL or the discovery document
    security_protocol: str = _setting("PLAINTEXT", _one_of(*SECURITY_PROTOCOLS))  # of a kafka:// address
    sasl_mechanism: str = _setting(
        "SCRAM-SHA-256", _one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    )  # of the SASL ones
    sasl_username: str | None = _setting(None, _text)  # of a kafka:// address with SASL
    sasl_password: str | None = _setting(None, _text, secret=True)  # given together with the name
    ssl_ca_location: str | None = _setting(None, _text)  # PEM file of authorities; None: the system's
    tracing: bool = _setting(False, _bool)  # OpenTelemetry spans of its calls (odradek.tracing); the extra otel
    transport: Transport | None = None  # in place of bootstrap_servers
    clock: Clock | None = None  # a test's
    rng: Rng | None = None  # a test's

    def __post_init__(self) -> None:
        problems = [
            problem
            for spec in fields(self)
            if (check := spec.metadata.get("check")) is not None
            and not ((value := getattr(self, spec.name)) is None and spec.default is None)
            and (problem := check(spec.name, value)) is not None
        ]
        problems = problems or self._relations()
        if problems:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "; ".join(problems))

    def _relations(self) -> list[str]:
        problems = []
        if self.transport is None and self.bootstrap_servers is None:
            problems.append("bootstrap_servers is required: the URL of the coordinator function")
        if self.transport is not None and self.bootstrap_servers is not None:
            problems.append("give either bootstrap_servers or transport, not both")
        if (self.aws_access_key_id is None) != (self.aws_secret_access_key is None):
            problems.append("give both aws_access_key_id and aws_secret_access_key, or neither")
        if self.security_protocol.startswith("SASL") and not (self.sasl_username and self.sasl_password):
            problems.append(f"security_protocol={self.security_protocol} needs sasl_username and sasl_password")
        if not (self.bootstrap_servers or "").startswith("kafka://") and (
            self.sasl_username or self.security_protocol != "PLAINTEXT"
        ):
            problems.append("sasl_username and security_protocol are for an address kafka://host:port")
        return problems

    @classmethod
    def of(cls, configs: Mapping[str, Any]) -> Self:
        """Check names, ours or Kafka's with dots, and values.

        Raises KafkaError(INVALID_CONFIG) that says what to change.
        """
        known_names = {spec.name for spec in fields(cls)}
        ours: dict[str, Any] = {}
        for written_name, value in configs.items():
            name = written_name.replace(".", "_")
            if name not in known_names:
                raise KafkaError(ErrorCode.INVALID_CONFIG, _unknown(cls, written_name, known_names))
            if name in ours:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is given twice, with dots and with underscores")
            ours[name] = value
        return cls(**ours)

    @classmethod
    def given(cls, config: object, configs: Mapping[str, Any]) -> Self:
        """Return the configuration of a client, given as one object or as names. Raises KafkaError(INVALID_CONFIG)."""
        if config is None:
            return cls.of(configs)
        if isinstance(config, Mapping):
            return cls.of(config) if not configs else cls.given(cls.of(config), configs)
        if not isinstance(config, cls):
            text = f"a {kind_of(cls)} takes its configuration by name, not {config!r}"
            if isinstance(config, str):
                text += "; pass topics to send() and subscribe()"
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)
        if configs:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"give either a {cls.__name__} or single configurations, not both"
            )
        return config


_ELSEWHERE = {  # Kafka's configurations that do not exist here, with the reason
    "session_timeout_ms": "the server's, as in KIP-848",
    "heartbeat_interval_ms": "the server's, as in KIP-848",
    "group_protocol": "always consumer (KIP-848)",
    "partition_assignment_strategy": "group_remote_assignor here",
    "interceptor_classes": "not there",
    "client_rack": "not needed: there are no brokers",
    "sasl_jaas_config": "given as sasl_username and sasl_password, for an address kafka://host:port",
    "allow_auto_create_topics": "the service's setting",
}


def kind_of(config: type[ClientConfig]) -> str:
    """Return the kind of a client with this configuration, as a user calls it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", config.__name__.removesuffix("Config")).lower()


def _unknown(config: type[ClientConfig], name: str, known_names: set[str]) -> str:
    client_kind = kind_of(config)
    ours = name.replace(".", "_")
    if ours in _ELSEWHERE:
        return f"a {client_kind} has no configuration {name!r}: it is {_ELSEWHERE[ours]}"
    close = difflib.get_close_matches(ours, sorted(known_names), n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"a {client_kind} has no configuration {name!r}{hint or '; see docs/CLIENTS.md'}"


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Configuration of a producer."""

    acks: str | int = _setting("all", _acks)  # all, 1 or 0; 1 and all are the same: durable in the store
    enable_idempotence: bool = _setting(True, _bool)  # a batch that is sent again is written once
    # How long a batch waits for more records. None: while another request is in flight, and else not at all.
    linger_ms: float | None = _setting(None, _number(0))
    # In place of linger_ms: a batch waits as long as its acknowledgement can be expected within this time of `send`.
    latency_budget_ms: float | None = _setting(None, _number(0))
    batch_size: int = _setting(1_000_000, _int(1))  # Kafka's is 16 KiB; here each call costs money
    max_request_size: int = _setting(4_000_000, _int(1024, REQUEST_BYTES_MAX))  # batches of several partitions
    buffer_memory: int = _setting(
        64 * 1024 * 1024, _int(1024, 2**63 - 1)
    )  # bytes of records that wait; send blocks above that
    max_block_ms: int = _setting(60_000, _int(0))  # how long send waits for room or for metadata
    compression_type: str = _setting("none", _one_of("none", "gzip", "snappy", "lz4", "zstd"))  # of batches
    compression_level: int | None = _setting(None, _int(-(2**17), 22))  # of gzip, lz4 and zstd; None: the codec's own
    max_in_flight_requests_per_connection: int = _setting(
        5, _int(1, 64)
    )  # requests without an answer, for each partition
    delivery_timeout_ms: int = _setting(120_000, _int(1))  # how long a record is tried for, from send on
    retries: int = _setting(2**31 - 1, _int(0))  # attempts after the first; delivery_timeout_ms ends them sooner
    transactional_id: str | None = _setting(None, _text)  # names the producer over its restarts; transactions need it
    transaction_timeout_ms: int = _setting(60_000, _int(1))  # how long a transaction may stay open
    tracing_headers: bool = _setting(False, _bool)  # each record carries the sender's trace context as headers
    partitioner: str | Partitioner = _setting(
        "default", _partitioner
    )  # default, round_robin, or a function (topic, key, value, count) -> partition
    key_serializer: Serializer | None = _setting(None, _callable)  # object -> bytes; None: keys are bytes
    value_serializer: Serializer | None = _setting(None, _callable)  # the same for values

    @property
    def compression(self) -> CompressionType:
        """`compression_type` as the record format knows it."""
        return CompressionType[self.compression_type.upper()]

    @property
    def awaits_acks(self) -> bool:
        """Return True unless `acks` is 0. The values 1 and all mean the same here."""
        return str(self.acks) != "0"

    def _relations(self) -> list[str]:
        problems = super()._relations()
        if self.enable_idempotence:
            if not self.awaits_acks:
                problems.append("acks=0 cannot be idempotent: set enable_idempotence=False or acks='all'")
            if self.max_in_flight_requests_per_connection > PRODUCER_BATCHES_REMEMBERED:
                problems.append(
                    "an idempotent producer may have at most "
                    f"max_in_flight_requests_per_connection={PRODUCER_BATCHES_REMEMBERED}"
                )
        if self.transactional_id is not None and not self.enable_idempotence:
            problems.append("a transactional_id needs enable_idempotence=True and acks='all'")
        if self.linger_ms is not None and self.latency_budget_ms is not None:
            problems.append("give either linger_ms or latency_budget_ms, not both")
        waiting = "linger_ms" if self.latency_budget_ms is None else "latency_budget_ms"
        if self.delivery_timeout_ms < (getattr(self, waiting) or 0) + self.request_timeout_ms:
            problems.append(f"delivery_timeout_ms must be at least {waiting} + request_timeout_ms")
        return problems


def idle_pause_max_s(chosen_ms: int | None, bootstrap_servers: str | None) -> float:
    """Return the longest pause in seconds: as configured, else 1 over HTTPS (waiting is billed) and 0 elsewhere."""
    if chosen_ms is not None:
        return chosen_ms / 1000
    return 1.0 if (bootstrap_servers or "").startswith("https:") else 0.0


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Configuration of a consumer."""

    group_id: str | None = _setting(None, _text)  # the consumer group; None: partitions are assigned by hand
    group_instance_id: str | None = _setting(None, _text)  # a static member: it keeps its partitions over a restart
    group_remote_assignor: str | None = _setting(None, _text)  # uniform or range; None: the server's choice
    auto_offset_reset: str = _setting(
        "latest", _one_of("latest", "earliest", "none")
    )  # where to begin without a committed offset
    enable_auto_commit: bool = _setting(True, _bool)  # without a group_id nothing is committed
    auto_commit_interval_ms: int = _setting(5_000, _int(0))  # between two commits
    fetch_min_bytes: int = _setting(1, _int(0))  # a fetch waits for this number
    fetch_max_wait_ms: int = _setting(500, _int(0))  # and so long at most
    fetch_idle_pause_max_ms: int | None = _setting(None, _int(0))  # longest rest; None: 1000 over HTTPS, else 0
    fetch_max_bytes: int = _setting(4 * 1024 * 1024, _int(1, REQUEST_BYTES_MAX))  # Kafka's 50 MB fit no function
    max_partition_fetch_bytes: int = _setting(4 * 1024 * 1024, _int(1))  # Kafka's is 1 MiB; here each call costs money
    max_poll_records: int = _setting(500, _int(1))  # records of one poll
    max_poll_interval_ms: int = _setting(300_000, _int(1))  # a member that polls less often leaves the group
    check_crcs: bool = _setting(True, _bool)  # checksums of batches are compared
    isolation_level: str = _setting(
        "read_uncommitted", _one_of("read_uncommitted", "read_committed")
    )  # both are the same: nothing uncommitted is in a log
    key_deserializer: Deserializer | None = _setting(None, _callable)  # bytes -> object; None: keys are bytes
    value_deserializer: Deserializer | None = _setting(None, _callable)  # the same for values
    deserialization_error_handler: ErrorHandler | None = _setting(None, _callable)  # None: poll raises

    @property
    def idle_pause_max_s(self) -> float:
        """The longest pause of an idle consumer between two fetches, in seconds."""
        return idle_pause_max_s(self.fetch_idle_pause_max_ms, self.bootstrap_servers)

    def _relations(self) -> list[str]:
        problems = super()._relations()
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            problems.append("request_timeout_ms must be above fetch_max_wait_ms")
        if self.group_id is None and self.group_instance_id is not None:
            problems.append("group_instance_id needs a group_id")
        return problems


@dataclass(frozen=True, kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """Configuration of a share consumer. Start offset, lock duration and dead letters are configured for the group."""

    group_id: str | None = _setting(None, _text)  # the share group
    share_acknowledgement_mode: str = _setting(
        "implicit", _one_of("implicit", "explicit")
    )  # implicit: the next poll accepts what the last one handed out
    share_acquire_mode: str = _setting(
        "batch_optimized", _one_of("batch_optimized", "record_limit")
    )  # record_limit: never more than max_poll_records
    fetch_min_bytes: int = _setting(1, _int(0))  # a fetch waits for this number
    fetch_max_wait_ms: int = _setting(500, _int(0))  # and so long at most
    fetch_idle_pause_max_ms: int | None = _setting(None, _int(0))  # as a consumer's
    fetch_max_bytes: int = _setting(4 * 1024 * 1024 - 256 * 1024, _int(1, REQUEST_BYTES_MAX))  # less the lists of locks
    max_poll_records: int = _setting(500, _int(1))  # records of one poll
    check_crcs: bool = _setting(True, _bool)  # checksums of batches are compared
    key_deserializer: Deserializer | None = _setting(None, _callable)  # bytes -> object; None: keys are bytes
    value_deserializer: Deserializer | None = _setting(None, _callable)  # the same for values

    @property
    def is_implicit(self) -> bool:
        """Return True if the next poll accepts the records that the last one returned (KIP-932)."""
        return self.share_acknowledgement_mode == "implicit"

    @property
    def idle_pause_max_s(self) -> float:
        """The longest pause of an idle consumer between two fetches, in seconds."""
        return idle_pause_max_s(self.fetch_idle_pause_max_ms, self.bootstrap_servers)

    def _relations(self) -> list[str]:
        problems = super()._relations()
        if self.group_id is None:
            problems.append("group_id is required: the share group")
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            problems.append("request_timeout_ms must be above fetch_max_wait_ms")
        return problems


@dataclass(frozen=True, kw_only=True)
class AdminConfig(ClientConfig):
    """Configuration of an admin client."""


def defaults(config: type[ClientConfig]) -> dict[str, Any]:
    """The defaults of a configuration, for documentation and tests."""
    return {spec.name: spec.default for spec in fields(config) if spec.default is not MISSING}
