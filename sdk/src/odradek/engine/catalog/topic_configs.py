"""Topic configurations: which exist, their types, defaults and bounds (Kafka's names and meanings).

A topic's row holds overrides only. Every configuration of Kafka 4 is accepted with the values that Kafka accepts. One
that Odradek has no use for is kept and shown, and its documentation says that it has no effect; an unknown name is
INVALID_CONFIG.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from odradek.engine.catalog.broker_configs import BROKER_CONFIGS
from odradek.engine.catalog.config_values import (
    INT_MAX,
    LONG_MAX,
    Check,
    ConfigType,
    boolean,
    canonical,
    one_of,
    split_list,
    whole_number,
)
from odradek.errors import ErrorCode, KafkaError
from odradek.format.validation.batches import TimestampBounds
from odradek.limits import MESSAGE_BYTES_MAX, PARTITIONS_PER_HEAD_MAX, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from odradek.model.topic import ConfigEntry, Topic
from odradek.model.topic_partition import partitions_per_head
from odradek.settings import Settings

if TYPE_CHECKING:
    from odradek.model.kinds import Kind

_ARRAY_BYTES_MAX = INT_MAX - 8  # the largest array of Java
TABLE_SCHEMA_MAX = 4_000  # characters
VALUE_CHARACTERS_MAX = 300  # a number takes any blanks and zeros before it
BEFORE_MAX, AFTER_MAX = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
CLEANUP_POLICY = "cleanup.policy"
MIN_LAG, MAX_LAG = "min.compaction.lag.ms", "max.compaction.lag.ms"
RECORD_VALIDATION = "record.validation"  # Odradek's own
FULL_VALIDATION = "full"
PARTITIONS_PER_HEAD = "odradek.partitions.per.head"
GROWTH_HOLD_MS = "odradek.growth.hold.ms"
TRANSACTION_OFFSETS = "transaction.offsets"  # Odradek's own
TABLE_ENABLE = "odradek.table.enable"
TABLE_SEGMENT_BYTES = "odradek.table.segment.bytes"
TABLE_COMMIT_INTERVAL = "odradek.table.commit.interval.ms"
TABLE_FLUSH = "odradek.table.flush.ms"
TABLE_SCHEMA = "odradek.table.schema"
TABLE_VALUE_SCHEMA = "odradek.table.value.schema"
TABLE_VALUE_BYTES = "odradek.table.value.bytes"
VALUE_SCHEMA_REGISTRY, VALUE_SCHEMA_NONE = "registry", "none"
ICEBERG_ENABLE = "odradek.table.iceberg.enable"
ICEBERG_NAMESPACE = "odradek.table.iceberg.namespace"
ICEBERG_TABLE = "odradek.table.iceberg.table"
_UNKNOWN_OFFSETS, _PREDICTED_OFFSETS = "unknown", "predicted"


@dataclass(frozen=True, slots=True)
class _Definition:
    type: ConfigType
    default: str
    documentation: str
    check: Check


def _is_ratio(text: str) -> bool:
    try:
        return "_" not in text and 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def _is_cleanup_policy(text: str) -> bool:
    policies = split_list(text)
    return set(policies) <= {"delete", "compact"} and len(set(policies)) == len(policies)


def _any_of(*checks: Check) -> Check:
    return Check(lambda text: any(check(text) for check in checks), " or ".join(check.allowed for check in checks))


def _is_throttled(text: str) -> bool:
    return text in ("", "*") or all(_REPLICA.fullmatch(part.strip()) for part in text.split(","))


_REPLICA = re.compile(r"\d+:\d+")
_NO_COMPRESSION = "No effect: as compression.type."
_NO_REPLICAS = "No effect: there are no replicas to move."
_NO_FILES = "No effect: logs are objects, not files."
_NO_TIERS = "No effect: all data is in the object store."
_throttled = Check(_is_throttled, "*, or partition:broker with commas")
_ratio = Check(_is_ratio, "0.0 to 1.0")


def parse_table_columns(text: str) -> tuple[tuple[str, Kind], ...]:
    """Return names and types of `odradek.table.schema`. Raises ValueError for other text, or a name that is taken."""
    if not text:  # types cost a function's cold start, which has none of these topics
        return ()
    from odradek.model.kinds import RECORD_COLUMNS, columns_of

    found = columns_of(text)
    taken = [name for name, _ in found if name.lower() in RECORD_COLUMNS]
    if taken:
        raise ValueError(f"{taken[0]} is a column of the record")
    return found


def check_change(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) if values contradict each other, or a typed column of an Iceberg table would get
    a type that it cannot become.

    Args:
        before, after: overrides of a topic.
    """
    check_together(after)
    if not all(each.get(ICEBERG_ENABLE) == "true" for each in (before, after)):
        return
    from odradek.model.kinds import can_become

    known = dict(parse_table_columns(before.get(TABLE_SCHEMA, "")))
    for name, kind in parse_table_columns(after.get(TABLE_SCHEMA, "")):
        if not can_become(known.get(name, kind), kind):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{TABLE_SCHEMA}: the column {name} of the topic's Iceberg table is {known[name]} and cannot become "
                f"{kind}: give the field another name, or disable {ICEBERG_ENABLE} first, which drops the table",
            )


def _is_table_schema(text: str) -> bool:
    try:
        parse_table_columns(text)
    except ValueError:
        return False
    return True


def _is_value_schema(text: str) -> bool:
    """Return True for a word, the text of a .proto file, or a JSON object; whether it is a schema, maintenance says."""
    if text in (VALUE_SCHEMA_REGISTRY, VALUE_SCHEMA_NONE) or re.search(r"\bmessage\s+\w+\s*\{", text):
        return True
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_ICEBERG_NAME = re.compile(r"[a-z0-9_]{1,200}")
_iceberg_name = Check(
    lambda text: _ICEBERG_NAME.fullmatch(text) is not None, "up to 200 lower-case letters, digits and underscores"
)
_iceberg_name_or_none = Check(lambda text: text == "" or _iceberg_name(text), f"empty, or {_iceberg_name.allowed}")
_table_columns = Check(_is_table_schema, "name and type with commas; no name of a column of the record, none twice")
_value_schema = Check(_is_value_schema, "registry, none, a schema of Avro or JSON Schema, or a .proto file")
_cleanup_policy = Check(_is_cleanup_policy, "delete, compact, both with a comma, or empty: keep everything")

DEFINITIONS: Mapping[str, _Definition] = {
    CLEANUP_POLICY: _Definition(
        ConfigType.LIST,
        "delete",
        "delete, compact, or both: what retention does with old records. Empty: they are kept.",
        _cleanup_policy,
    ),
    "retention.ms": _Definition(
        ConfigType.LONG,
        "604800000",
        "Age after which records are deleted, by their own timestamps; -1: never.",
        whole_number(-1, LONG_MAX),
    ),
    "retention.bytes": _Definition(
        ConfigType.LONG,
        "-1",
        "Size of a partition above which old segments go; negative: none.",
        whole_number(-LONG_MAX - 1, LONG_MAX),
    ),
    "segment.bytes": _Definition(
        ConfigType.INT, "1073741824", "Size at which a merged segment is closed.", whole_number(1024 * 1024, 2**31 - 1)
    ),
    "segment.ms": _Definition(
        ConfigType.LONG,
        "604800000",
        "Age at which a segment is closed, full or not.",
        whole_number(1, LONG_MAX),
    ),
    "max.message.bytes": _Definition(
        ConfigType.INT, "1048588", "Largest record batch, after compression.", whole_number(0, MESSAGE_BYTES_MAX)
    ),
    "message.timestamp.type": _Definition(
        ConfigType.STRING,
        "CreateTime",
        "CreateTime: the producer's; LogAppendTime: the time of the append.",
        one_of("CreateTime", "LogAppendTime"),
    ),
    BEFORE_MAX: _Definition(
        ConfigType.LONG,
        str(LONG_MAX),
        "How far a timestamp may be in the past under CreateTime: an older one is INVALID_TIMESTAMP.",
        whole_number(0, LONG_MAX),
    ),
    AFTER_MAX: _Definition(
        ConfigType.LONG,
        "3600000",
        "How far a timestamp may be in the future under CreateTime: a later one is INVALID_TIMESTAMP.",
        whole_number(0, LONG_MAX),
    ),
    RECORD_VALIDATION: _Definition(
        ConfigType.STRING,
        FULL_VALIDATION,
        "What is checked of a produced batch beside header and CRC. full: every record, as Apache Kafka's broker does; "
        "header: nothing, so that a malformed record reaches its readers. Compacted topics are always checked in full.",
        one_of(FULL_VALIDATION, "header"),
    ),
    PARTITIONS_PER_HEAD: _Definition(
        ConfigType.INT,
        "1",
        "How many partitions keep their state in one item. A produce request pays for one update an item, so more are "
        "cheaper where producers write to many partitions; but an item takes at most some hundred updates a second. "
        "Chosen when a topic is created. A topic of one partition has 1.",
        whole_number(1, PARTITIONS_PER_HEAD_MAX),
    ),
    GROWTH_HOLD_MS: _Definition(
        ConfigType.LONG,
        "600000",
        "When a topic grows to a multiple of its partitions, a consumer group gets a new partition when it has "
        "consumed the one whose keys it takes over, so that each key keeps its order. A group that has committed no "
        "offset there gets it after so long. 0: at once, as in Apache Kafka.",
        whole_number(0, LONG_MAX),
    ),
    TRANSACTION_OFFSETS: _Definition(
        ConfigType.STRING,
        _UNKNOWN_OFFSETS,
        "What Produce answers for a record in a transaction. unknown: offset -1, as the commit assigns offsets; "
        "predicted: the record's offset, and a commit that cannot keep it, because another writer has appended to the "
        "partition, fails with TRANSACTION_ABORTABLE. For partitions with one writer, such as those that MirrorMaker 2 "
        "writes. ODRADEK_TRANSACTION_OFFSETS_PREDICTED sets the default of topics by name.",
        one_of(_UNKNOWN_OFFSETS, _PREDICTED_OFFSETS),
    ),
    "compression.type": _Definition(
        ConfigType.STRING,
        "producer",
        "No effect: batches are stored as the producer compressed them.",
        one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    "compression.gzip.level": _Definition(
        ConfigType.INT, "-1", _NO_COMPRESSION, _any_of(whole_number(-1, -1), whole_number(1, 9))
    ),
    "compression.lz4.level": _Definition(ConfigType.INT, "9", _NO_COMPRESSION, whole_number(1, 17)),
    "compression.zstd.level": _Definition(ConfigType.INT, "3", _NO_COMPRESSION, whole_number(-131072, 22)),
    "delete.retention.ms": _Definition(
        ConfigType.LONG, "86400000", "How long a tombstone outlives its compaction.", whole_number(0, LONG_MAX)
    ),
    "max.decompressed.message.bytes": _Definition(
        ConfigType.INT,
        str(_ARRAY_BYTES_MAX),
        "No effect: a batch may decompress to 256 MiB.",
        whole_number(1, _ARRAY_BYTES_MAX),
    ),
    MIN_LAG: _Definition(ConfigType.LONG, "0", "Age below which a record is not compacted.", whole_number(0, LONG_MAX)),
    MAX_LAG: _Definition(
        ConfigType.LONG,
        str(LONG_MAX),
        "Age above which a record has to be compacted.",
        whole_number(1, LONG_MAX),
    ),
    "min.cleanable.dirty.ratio": _Definition(
        ConfigType.DOUBLE, "0.5", "Share of uncompacted bytes from which a compaction pays.", _ratio
    ),
    "min.insync.replicas": _Definition(
        ConfigType.INT,
        "1",
        "No effect: what is acknowledged is durable in the store, whatever acks says.",
        whole_number(1, INT_MAX),
    ),
    "unclean.leader.election.enable": _Definition(
        ConfigType.BOOLEAN, "false", "No effect: any broker can lead, and nothing is lost.", boolean
    ),
    "leader.replication.throttled.replicas": _Definition(ConfigType.LIST, "", _NO_REPLICAS, _throttled),
    "follower.replication.throttled.replicas": _Definition(ConfigType.LIST, "", _NO_REPLICAS, _throttled),
    "flush.messages": _Definition(ConfigType.LONG, str(LONG_MAX), _NO_FILES, whole_number(1, LONG_MAX)),
    "flush.ms": _Definition(ConfigType.LONG, str(LONG_MAX), _NO_FILES, whole_number(0, LONG_MAX)),
    "file.delete.delay.ms": _Definition(ConfigType.LONG, "60000", _NO_FILES, whole_number(0, LONG_MAX)),
    "index.interval.bytes": _Definition(ConfigType.INT, "4096", _NO_FILES, whole_number(0, INT_MAX)),
    TABLE_ENABLE: _Definition(
        ConfigType.BOOLEAN,
        "false",
        "Merges write closed segments as Parquet files, which fetches read, too. Needs pyarrow where maintenance runs.",
        boolean,
    ),
    TABLE_SEGMENT_BYTES: _Definition(
        ConfigType.INT,
        "67108864",
        "Of a table topic, in place of a larger segment.bytes; a segment is closed from half of it on.",
        whole_number(1024, INT_MAX),
    ),
    TABLE_COMMIT_INTERVAL: _Definition(
        ConfigType.LONG,
        "-1",
        "Of a table topic: records that are older than this are written as a Parquet file, and so are in the Iceberg "
        "table, although their segment is not full. -1: a segment is written once it is closed.",
        whole_number(-1, LONG_MAX),
    ),
    TABLE_FLUSH: _Definition(
        ConfigType.LONG,
        "-1",
        "Of a table topic: a time, in ms since the epoch. Records that were appended before it are written as Parquet "
        "files, although their segment is not full. `odradek tables flush` sets it.",
        whole_number(-1, LONG_MAX),
    ),
    TABLE_SCHEMA: _Definition(
        ConfigType.STRING,
        "",
        "Typed columns beside the bytes of values: names and types, as `origin string, delay bigint, tags "
        "array<string>`. They come before those of the schema of odradek.table.value.schema.",
        _table_columns,
    ),
    TABLE_VALUE_SCHEMA: _Definition(
        ConfigType.STRING,
        VALUE_SCHEMA_REGISTRY,
        "The schema that gives a table topic typed columns. registry: of the subject <topic>-value, if there is one; "
        "none; or a schema of Avro, JSON Schema or Protobuf, for values without the id of a schema.",
        _value_schema,
    ),
    TABLE_VALUE_BYTES: _Definition(
        ConfigType.BOOLEAN,
        "true",
        "Of a table topic with typed columns. false: its Parquet files keep no bytes of values that typed columns make "
        "again, byte for byte. Engines that read the files themselves then see null in `value`.",
        boolean,
    ),
    ICEBERG_ENABLE: _Definition(
        ConfigType.BOOLEAN,
        "false",
        "Of a table topic: its Parquet files are an Apache Iceberg table in the catalog of maintenance, "
        "`table_catalog`. false drops the table, not the files.",
        boolean,
    ),
    ICEBERG_NAMESPACE: _Definition(
        ConfigType.STRING, "odradek", "Namespace (Glue: database) of the Iceberg table.", _iceberg_name
    ),
    ICEBERG_TABLE: _Definition(
        ConfigType.STRING,
        "",
        "Name of the Iceberg table; empty: the topic's, in lower case, with an underscore for what is no letter or "
        "digit.",
        _iceberg_name_or_none,
    ),
    "preallocate": _Definition(ConfigType.BOOLEAN, "false", _NO_FILES, boolean),
    "segment.index.bytes": _Definition(ConfigType.INT, "10485760", _NO_FILES, whole_number(4, INT_MAX)),
    "segment.jitter.ms": _Definition(ConfigType.LONG, "0", _NO_FILES, whole_number(0, LONG_MAX)),
    "remote.storage.enable": _Definition(ConfigType.BOOLEAN, "false", _NO_TIERS, boolean),
    "remote.log.copy.disable": _Definition(ConfigType.BOOLEAN, "false", _NO_TIERS, boolean),
    "remote.log.delete.on.disable": _Definition(ConfigType.BOOLEAN, "false", _NO_TIERS, boolean),
    "remote.copy.lag.bytes": _Definition(ConfigType.LONG, "-1", _NO_TIERS, whole_number(-1, LONG_MAX)),
    "remote.copy.lag.ms": _Definition(ConfigType.LONG, "0", _NO_TIERS, whole_number(-1, LONG_MAX)),
    "local.retention.bytes": _Definition(ConfigType.LONG, "-2", _NO_TIERS, whole_number(-2, LONG_MAX)),
    "local.retention.ms": _Definition(ConfigType.LONG, "-2", _NO_TIERS, whole_number(-2, LONG_MAX)),
    "errors.deadletterqueue.group.enable": _Definition(
        ConfigType.BOOLEAN,
        "false",
        "No effect: a group names its topic, and may if its administrator may write there.",
        boolean,
    ),
}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The configuration of a topic that the engine acts on, overrides over defaults."""

    max_message_bytes: int
    is_compacted: bool
    is_deleting: bool
    is_log_append_time: bool
    before_max_ms: int
    after_max_ms: int
    validates_records: bool
    predicts_offsets: bool  # of records in transactions
    retention_ms: int  # -1: no limit
    retention_bytes: int  # negative: no limit
    segment_bytes: int
    segment_ms: int
    active_ms_max: int  # age at which the active segment is rolled
    is_table: bool = False  # closed segments are columnar; never those of a compacted topic
    table_segment_bytes: int = 67_108_864
    table_commit_interval_ms: int = -1  # -1: none
    table_flush_ms: int = -1  # -1: never
    table_columns: tuple[tuple[str, Kind], ...] = ()  # of the configuration alone
    table_keeps_values: bool = True
    is_iceberg: bool = False
    iceberg_namespace: str = "odradek"
    iceberg_table: str = ""  # empty: after the topic

    @classmethod
    def of(cls, topic: Topic, settings: Settings) -> TopicConfig:
        """The effective configuration of a topic. Computed once: each produce request asks for it."""
        return _config_of(topic.name, frozenset(topic.configs.items()), _These(settings))

    @classmethod
    def computed(cls, topic: str, configs: Mapping[str, str], settings: Settings) -> TopicConfig:
        """The effective configuration of a topic with these overrides."""

        def value(name: str) -> str:
            return configs.get(name, default_of(name, settings, topic))

        policies = split_list(value("cleanup.policy"))
        segment_ms, max_lag_ms = int(value("segment.ms")), int(value("max.compaction.lag.ms"))
        is_table = value(TABLE_ENABLE) == "true" and "compact" not in policies
        return cls(
            max_message_bytes=int(value("max.message.bytes")),
            is_compacted="compact" in policies,
            is_deleting="delete" in policies,
            is_log_append_time=value("message.timestamp.type") == "LogAppendTime",
            before_max_ms=int(value(BEFORE_MAX)),
            after_max_ms=int(value(AFTER_MAX)),
            validates_records=value(RECORD_VALIDATION) == FULL_VALIDATION,
            predicts_offsets=value(TRANSACTION_OFFSETS) == _PREDICTED_OFFSETS,
            retention_ms=int(value("retention.ms")),
            retention_bytes=int(value("retention.bytes")),
            segment_bytes=int(value("segment.bytes")),
            segment_ms=segment_ms,
            active_ms_max=min(segment_ms, max_lag_ms) if "compact" in policies else segment_ms,
            is_table=is_table,
            table_segment_bytes=int(value(TABLE_SEGMENT_BYTES)),
            table_commit_interval_ms=int(value(TABLE_COMMIT_INTERVAL)),
            table_flush_ms=int(value(TABLE_FLUSH)),
            table_columns=parse_table_columns(value(TABLE_SCHEMA)),
            table_keeps_values=value(TABLE_VALUE_BYTES) == "true",
            is_iceberg=is_table and value(ICEBERG_ENABLE) == "true",
            iceberg_namespace=value(ICEBERG_NAMESPACE),
            iceberg_table=value(ICEBERG_TABLE),
        )

    def table_due_ms(self, now_ms: int) -> int:
        """Return the time before which appended records are to be in a Parquet file, in a full segment or not.

        -1: there is none.
        """
        interval_ms = self.table_commit_interval_ms
        return max(self.table_flush_ms, now_ms - interval_ms if interval_ms >= 0 else -1) if self.is_table else -1

    def timestamp_bounds(self, now_ms: int) -> TimestampBounds:
        """The timestamps that producers may give now; under LogAppendTime any that readers can represent."""
        if self.is_log_append_time:
            return TimestampBounds()
        return TimestampBounds(
            max(TIMESTAMP_MS_MIN, now_ms - self.before_max_ms), min(now_ms + self.after_max_ms, TIMESTAMP_MS_MAX)
        )


class _These:
    """Settings that are told apart by identity: to hash the hundred of them takes longer than all else of a look-up."""

    __slots__ = ("settings",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __hash__(self) -> int:
        return id(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _These) and self.settings is other.settings


@lru_cache(maxsize=1024)
def _config_of(topic: str, configs: frozenset[tuple[str, str]], these: _These) -> TopicConfig:
    return TopicConfig.computed(topic, dict(configs), these.settings)


def growth_hold_ms(topic: Topic, settings: Settings) -> int:
    """`odradek.growth.hold.ms` of a topic."""
    return int(topic.configs.get(GROWTH_HOLD_MS, default_of(GROWTH_HOLD_MS, settings)))


def default_of(name: str, settings: Settings, topic: str = "") -> str:
    """A configuration's default for a topic: the settings' where they have one."""
    if name == "max.message.bytes":
        return str(settings.message_bytes_max)
    if name == PARTITIONS_PER_HEAD:
        return str(settings.default_partitions_per_head)
    if name == TRANSACTION_OFFSETS and _is_named(topic, settings.transaction_offsets_predicted):
        return _PREDICTED_OFFSETS
    return DEFINITIONS[name].default


def _is_named(topic: str, names: str) -> bool:
    """Return True if a list of names, and of prefixes with an asterisk, has the topic.

    A prefix leaves out internal topics, by the names that MirrorMaker 2 takes for internal: several tasks write to
    `primary.checkpoints.internal` and `mm2-offsets.primary.internal`.
    """
    is_internal = topic.startswith(("__", ".")) or topic.endswith((".internal", "-internal"))
    return any(
        topic.startswith(name[:-1]) and not is_internal if name.endswith("*") else topic == name
        for name in map(str.strip, names.split(","))
        if name
    )


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configurations with canonical values. Raises KafkaError(INVALID_CONFIG) naming the first that is wrong."""
    policy = configs.get(CLEANUP_POLICY)
    if policy is not None:  # Kafka stores a policy that is named twice once
        configs = {**configs, CLEANUP_POLICY: ",".join(dict.fromkeys(split_list(policy)))}
    for name, value in configs.items():
        definition = DEFINITIONS.get(name)
        if definition is None:
            known = ", ".join(sorted(DEFINITIONS))
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown topic configuration {name!r}; known are: {known}")
        most = TABLE_SCHEMA_MAX if name in (TABLE_SCHEMA, TABLE_VALUE_SCHEMA) else VALUE_CHARACTERS_MAX
        if value is None or len(value) > most or not definition.check(value):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} cannot be {value!r:.99}. {definition.documentation}")
    return {name: canonical(DEFINITIONS[name].type, value) for name, value in configs.items() if value is not None}


def check_together(configs: Mapping[str, str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) if values that are right by themselves contradict each other.

    Args:
        configs: overrides of a topic.
    """
    low, high = (int(configs.get(name, DEFINITIONS[name].default)) for name in (MIN_LAG, MAX_LAG))
    if low > high:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_LAG} ({low}) must not exceed {MAX_LAG} ({high}): a record would be due before it may be compacted",
        )


def describe(topic: Topic, settings: Settings) -> list[ConfigEntry]:
    """Every configuration of a topic, in the order of names."""
    # What a topic's id says holds, whatever its row or the settings say.
    configs = {**topic.configs, PARTITIONS_PER_HEAD: str(partitions_per_head(topic.topic_id))}
    return [
        ConfigEntry(
            name,
            configs.get(name, default_of(name, settings, topic.name)),
            is_default=name not in topic.configs,
            config_type=int(definition.type),
            documentation=definition.documentation,
            default=default_of(name, settings, topic.name),
            broker_config=BROKER_CONFIGS.get(name, ""),
        )
        for name, definition in sorted(DEFINITIONS.items())
    ]
