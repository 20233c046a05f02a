"""Served tables as people define and see them: the latest row of each key of a compacted topic, read by key.

Names of formats are ksqlDB's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from odradek.errors import ErrorCode, KafkaError

FOREVER = -1
LIMIT_DEFAULT = 100  # rows of an answer
LIMIT_MAX = 1_000
KEYS_MAX = 100  # of one get_many
WAIT_MS_MAX = 20_000  # for an offset, or for changes


class TableState(StrEnum):
    """The state of a table: an enabled one follows its topic."""

    ENABLED = "ENABLED"
    STOPPED = "STOPPED"


class Format(StrEnum):
    """How keys and values are stored in the topic."""

    STRING = "STRING"
    JSON = "JSON"
    AVRO = "AVRO"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    BYTES = "BYTES"


class WindowType(StrEnum):
    """Windows in keys, as Kafka Streams' serializers write them."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTable:
    """A table that is served.

    Attributes:
        name: 1 to 100 letters, digits, and ._-
        topic: a compacted topic.
        key_format, value_format: of `Format`. A JSON value may have the five bytes of a schema id before it.
        window: of `WindowType`; empty: keys have no windows.
        window_size_ms: of TUMBLING and HOPPING windows.
        retention_ms: how long a row is served after its record's time, or after its window's end; -1: without limit.
        shards: how many parts its rows are spread over, 1 to 64; a range of keys reads each. 0: as the topic has
            partitions, at most 32.
        state: whether it follows its topic.
        created_ms: when it was created.
    """

    name: str
    topic: str
    key_format: str = Format.STRING
    value_format: str = Format.JSON
    window: str = ""
    window_size_ms: int = 0
    retention_ms: int = FOREVER
    shards: int = 0
    state: str = TableState.ENABLED
    created_ms: int = 0

    @property
    def is_enabled(self) -> bool:
        return self.state == TableState.ENABLED


@dataclass(frozen=True, slots=True)
class TablePartition:
    """How far a table follows a partition.

    Attributes:
        covered: the table contains every record below this offset.
        end_offset, lag: the end of the log, and the offsets between.
        changes: records that were applied; of several of one key in one step the last one counts.
        too_large: records whose row exceeds what a table stores (400 KB, keys of some 900 bytes).
        unusable: records without a key, or without a window where the table has windows.
        lost: offsets that retention had deleted before the table came to them.
        timestamp_ms: the newest time of a record that is covered; 0: none.
        error, error_ms: why the last attempt to go on failed; empty: it did not.
    """

    partition: int
    covered: int = 0
    end_offset: int = 0
    lag: int = 0
    changes: int = 0
    too_large: int = 0
    unusable: int = 0
    lost: int = 0
    timestamp_ms: int = 0
    error: str = ""
    error_ms: int = 0


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table and its partitions; none where its topic does not exist."""

    table: ServedTable
    topic_exists: bool
    partitions: Sequence[TablePartition]

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    @property
    def state(self) -> str:
        """ENABLED, STOPPED, or NO_TOPIC."""
        return str(self.table.state) if self.topic_exists else "NO_TOPIC"

    @property
    def last_error(self) -> str:
        """The newest failure of any partition; empty: there is none."""
        newest = max(self.partitions, key=lambda partition: partition.error_ms, default=None)
        return "" if newest is None else newest.error


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row.

    Attributes:
        key, value: as their formats have them: JSON; bytes in base64.
        partition, offset, timestamp_ms: of the record that it is.
        window_start_ms, window_end_ms: None without windows.
        error: why `value` is None: it cannot be decoded, or is too large for a table.
    """

    key: Any
    value: Any
    partition: int
    offset: int
    timestamp_ms: int
    window_start_ms: int | None = None
    window_end_ms: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """Rows, and how fresh they are.

    Attributes:
        covered: per partition, the offset below which every record is in these rows.
        cursor: where the next page begins; empty: there is none.
    """

    rows: Sequence[TableRow]
    covered: Mapping[int, int] = field(default_factory=dict)
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class TableChange:
    """A change of a table's topic: a row, or the deletion of one."""

    key: Any
    value: Any
    is_deleted: bool
    partition: int
    offset: int
    timestamp_ms: int
    window_start_ms: int | None = None
    window_end_ms: int | None = None
    error: str = ""


def plain(value: Any) -> dict[str, Any]:
    """A row, change, partition or table as JSON has it; what is not set is left out of rows and changes."""
    document = {spec.name: getattr(value, spec.name) for spec in fields(value)}
    if isinstance(value, TableRow | TableChange):
        for name in ("window_start_ms", "window_end_ms"):
            if document[name] is None:
                del document[name]
        if not document["error"]:
            del document["error"]
    return document


def answer_document(table_answer: TableAnswer) -> dict[str, Any]:
    """An answer as JSON has it."""
    covered = {str(number): offset for number, offset in sorted(table_answer.covered.items())}
    document: dict[str, Any] = {"rows": [plain(row) for row in table_answer.rows], "covered": covered}
    return document | ({"cursor": table_answer.cursor} if table_answer.cursor else {})


def answer_of(document: Mapping[str, Any]) -> TableAnswer:
    """The answer of a document. Raises KeyError, TypeError: it is none."""
    covered = {int(number): offset for number, offset in document["covered"].items()}
    return TableAnswer([TableRow(**row) for row in document["rows"]], covered, document.get("cursor", ""))


def status_document(status: TableStatus) -> dict[str, Any]:
    """A description as JSON has it."""
    partitions = [plain(partition) for partition in status.partitions]
    return {"table": plain(status.table), "topic_exists": status.topic_exists, "partitions": partitions}


def status_of(document: Mapping[str, Any]) -> TableStatus:
    """The description of a document. Raises KeyError, TypeError: it is none."""
    partitions = [TablePartition(**partition) for partition in document["partitions"]]
    return TableStatus(table_of(document["table"]), document["topic_exists"], partitions)


def table_of(document: Mapping[str, Any]) -> ServedTable:
    """The table of a document. Raises KafkaError(INVALID_REQUEST) for unknown names and wrong types."""
    option_types = {spec.name: spec.type for spec in fields(ServedTable)}
    for name, value in document.items():
        if name not in option_types:
            raise _invalid(f"unknown option {name!r}: use {', '.join(sorted(option_types))}")
        option_type = int if option_types[name] == "int" else str
        if type(value) is not option_type and not (option_type is str and isinstance(value, str)):
            raise _invalid(f"{name} must be {'a number' if option_type is int else 'a text'}, not {value!r}")
    missing = [name for name in ("name", "topic") if not document.get(name)]
    if missing:
        raise _invalid(f"a table needs {', '.join(missing)}")
    return ServedTable(**document)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
