"""Configurations that the connectors of change capture share; names, values and defaults are Debezium's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.connect.config import Allowed, ConfigDef, Kind, between, non_empty, one_of

_MODES = ("initial", "initial_only", "always", "no_data", "never", "schema_only", "recovery", "schema_only_recovery",
          "when_needed", "configuration_based")  # fmt: skip
_BASED = "snapshot.mode.configuration.based."


class SnapshotMode(NamedTuple):
    """Values of snapshot.mode.

    Attributes:
        reads: whether the tables are read at the first start; `is_always`: at each one.
        streams: whether changes follow.
        reads_lost: whether the tables are read again if changes are lost.
    """

    reads: bool
    streams: bool
    reads_lost: bool = False
    is_always: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SnapshotMode:
        """Return that of a parsed configuration."""
        mode = options["snapshot.mode"]
        if mode == "configuration_based":
            reads, streams, reads_lost = (
                options[_BASED + name] for name in ("snapshot.data", "start.stream", "snapshot.on.data.error")
            )
            return cls(reads, streams, reads_lost)
        if mode in ("initial", "initial_only", "when_needed", "always"):
            return cls(True, mode != "initial_only", mode == "when_needed", mode == "always")
        return cls(False, True)


def _channels() -> Allowed:
    def refuse(value: Any) -> str | None:
        unknown = set(value) - {"source", "kafka"}
        return f"must be source, kafka or both, not {', '.join(sorted(unknown))}" if unknown else None

    return Allowed("source, kafka", refuse)


COMMON = (
    ConfigDef()
    .define("topic.prefix", Kind.STRING, documentation="Before the names of all topics; also the name of the server "
            "in source offsets, which must not change.", importance="HIGH", allowed=non_empty(),
            also=("database.server.name",))
    .define("topic.delimiter", Kind.STRING, ".", "Between the parts of a topic's name.", allowed=non_empty())
    .define("table.include.list", Kind.LIST, [], "Regular expressions of the tables, as schema.table; by default all.",
            importance="HIGH", also=("table.whitelist",))
    .define("table.exclude.list", Kind.LIST, [], "Regular expressions of tables to leave out.",
            also=("table.blacklist",))
    .define("column.include.list", Kind.LIST, [], "Regular expressions of the columns, as schema.table.column; by "
            "default all.", also=("column.whitelist",))
    .define("column.exclude.list", Kind.LIST, [], "Regular expressions of columns to leave out.",
            also=("column.blacklist",))
    .define("message.key.columns", Kind.STRING, "", "Columns of the key of tables, as "
            "`schema.table:column,column;...`; by default the primary key.")
    .define("snapshot.mode", Kind.STRING, "initial", "initial: the tables are read once, then changes. initial_only: "
            "no changes. always: at each start. no_data (never, schema_only, recovery, schema_only_recovery): changes "
            "only. when_needed: also if changes are lost. configuration_based: as the options of that name say.",
            importance="HIGH", allowed=one_of(*_MODES))
    .define(_BASED + "snapshot.data", Kind.BOOLEAN, False, "With configuration_based: whether the tables are read "
            "once.")
    .define(_BASED + "start.stream", Kind.BOOLEAN, False, "With configuration_based: whether changes follow.")
    .define(_BASED + "snapshot.on.data.error", Kind.BOOLEAN, False, "With configuration_based: whether the tables "
            "are read again if changes are lost.")
    .define("snapshot.include.collection.list", Kind.LIST, [], "Regular expressions of the tables that a snapshot "
            "reads; by default all that are captured.")
    .define("snapshot.fetch.size", Kind.INT, 2_000, "Rows of one batch of a snapshot.", allowed=between(1))
    .define("incremental.snapshot.chunk.size", Kind.INT, 1_024, "Rows of one chunk of an incremental snapshot.",
            allowed=between(1))
    .define("signal.data.collection", Kind.STRING, "", "The table of signals, as schema.table: columns id, type and "
            "data, all text.")
    .define("signal.enabled.channels", Kind.LIST, ["source"], "Where signals come from: source, the table; kafka, a "
            "topic, beside which the table is needed for watermarks.", allowed=_channels())
    .define("signal.kafka.topic", Kind.STRING, "", "The topic of signals; by default <topic.prefix>-signal. Its "
            "records have topic.prefix as the key, and JSON with type and data as the value.")
    .define("incremental.snapshot.watermarking.strategy", Kind.STRING, "insert_insert", "Whether the second "
            "watermark of a chunk is a row too, or the deletion of the first one.",
            allowed=one_of("insert_insert", "insert_delete"))
    .define("max.batch.size", Kind.INT, 2_048, "The largest number of changes of one poll.", allowed=between(1))
    .define("poll.interval.ms", Kind.LONG, 500, "The longest wait for changes, in ms.", allowed=between(1))
    .define("tombstones.on.delete", Kind.BOOLEAN, True, "Whether a tombstone follows the record of a delete.")
    .define("skipped.operations", Kind.LIST, ["t"], "Operations without records: c, u, d, t (truncate), or none.")
    .define("decimal.handling.mode", Kind.STRING, "precise", "Exact numbers: precise is Connect's Decimal, or "
            "VariableScaleDecimal where the column has no scale; double; string.",
            allowed=one_of("precise", "double", "string"))
    .define("time.precision.mode", Kind.STRING, "adaptive", "adaptive: as precise as the column, in Debezium's types; "
            "adaptive_time_microseconds: times always in microseconds; connect: Connect's types, in milliseconds.",
            allowed=one_of("adaptive", "adaptive_time_microseconds", "connect"))
    .define("binary.handling.mode", Kind.STRING, "bytes", "Form of binary columns.",
            allowed=one_of("bytes", "base64", "base64-url-safe", "hex"))
    .define("event.converting.failure.handling.mode", Kind.STRING, "warn", "Values that no record can have, such as "
            "NaN in an exact number: fail ends the task; warn writes null, and names table, column and row in the "
            "log; skip writes null. A value of the key always ends the task.", allowed=one_of("fail", "warn", "skip"))
    .define("provide.transaction.metadata", Kind.BOOLEAN, False, "Whether records say their transaction, and "
            "beginnings and ends of transactions are written to <topic.prefix>.transaction.")
    .define("heartbeat.interval.ms", Kind.LONG, 0, "Time between heartbeat records, in ms; 0: none.",
            allowed=between(0))
    .define("heartbeat.action.query", Kind.STRING, "", "A statement that is executed with each heartbeat.")
    .define("topic.heartbeat.prefix", Kind.STRING, "__debezium-heartbeat", "Before <topic.prefix> in the name of "
            "the topic of heartbeats.", allowed=non_empty())
    .define("errors.max.retries", Kind.INT, -1, "Attempts to reach the database again before the task fails; -1: "
            "no limit.", allowed=between(-1))
    .define("retriable.restart.connector.wait.ms", Kind.LONG, 10_000, "Pause before such an attempt, in ms.",
            allowed=between(1))
)  # fmt: skip
