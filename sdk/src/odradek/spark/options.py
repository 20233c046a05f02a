"""The options of the source, with the names of Spark's Kafka source, and of the store.

    records            subscribe | subscribePattern | assign | ranges (exactly one; ranges is of batches)
    start              startingOffsets: earliest, latest or JSON (latest for streams, earliest for batches)
                       startingTimestamp: ms since the epoch, overrides startingOffsets
    end                endingOffsets: latest or JSON; a stream that has it ends there (available_now.py)
    how                maxOffsetsPerTrigger, minPartitions, failOnDataLoss, corruptBatches, columns, includeHeaders,
                       typedColumns, rangeBytes
    the store          store: embedded:<data dir>, or aws with logTable, catalogTable, bucket and, if necessary,
                       prefix, region, endpointUrl

An unknown option is an error: a misspelt `subscribe` must not read something else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from odradek.columnar.names import COLUMNS
from odradek.engine.catalog.topic_configs import parse_table_columns
from odradek.errors import ErrorCode, KafkaError
from odradek.model.kinds import Kind
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import EARLIEST, LATEST, Offsets, Ranges, parse_assignment, parse_offsets, parse_ranges

EMBEDDED_PREFIX = "embedded:"
AWS = "aws"
RANGE_BYTES = 64 * 1024 * 1024

FAIL, SKIP, MARK = "fail", "skip", "mark"  # of corruptBatches
CORRUPT_TIMESTAMP_TYPE = -1  # Kafka's NoTimestampType: the column of a row that stands for a corrupt batch

_SPECIAL = {"earliest": EARLIEST, "latest": LATEST}
_HINTS = {
    "path": "name topics by the option subscribe, and call load() without a path",
    "startingoffsetsbytimestamp": "use startingTimestamp, one time for all partitions",
    "endingtimestamp": "use endingOffsets, or filter on the column timestamp",
    "group.id": "positions are stored in the checkpoint",
}


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The location of the store; plain data, which executors also get."""

    store: str  # embedded:<data dir> | aws
    log_table: str = ""
    catalog_table: str = ""
    bucket: str = ""
    prefix: str = ""  # of all object keys
    region: str = ""  # empty: that of the environment
    endpoint_url: str = ""  # instead of AWS, for emulators

    @property
    def data_dir(self) -> str | None:
        """The folder of an embedded store; None on AWS."""
        return self.store.removeprefix(EMBEDDED_PREFIX) if self.store.startswith(EMBEDDED_PREFIX) else None


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions to read; exactly one field is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options, validated."""

    store: StoreOptions
    subscription: Subscription
    starting_offsets: int | Offsets | None = None  # EARLIEST, LATEST or by partition; None: not given
    starting_timestamp_ms: int | None = None
    ending_offsets: int | Offsets = LATEST
    max_offsets_per_trigger: int | None = None  # None: no limit
    fail_on_data_loss: bool = True
    corrupt_batches: str = FAIL  # FAIL, SKIP or MARK
    columns: tuple[str, ...] = COLUMNS[:-1]
    range_bytes: int = RANGE_BYTES  # approximate stored bytes per Spark task
    min_partitions: int | None = None  # minimum of Spark tasks, if there is enough to split; None: by range_bytes
    ranges: Ranges | None = None  # instead of start and end; None: not given
    typed_columns: tuple[tuple[str, Kind], ...] = ()  # names and types, as in odradek.table.schema


class Option(NamedTuple):
    """An option as in docs/reference.md."""

    default: str
    effect: str


STORE_OPTIONS: Mapping[str, Option] = {
    "store": Option("needed", "`embedded:<data dir>`, or `aws`"),
    "logTable": Option("needed on aws", "name of the log table"),
    "catalogTable": Option("needed on aws", "name of the catalog table"),
    "bucket": Option("needed on aws", "the bucket of the records"),
    "prefix": Option("", "of all object keys"),
    "region": Option("of the environment", "AWS region"),
    "endpointUrl": Option("AWS's", "endpoint of S3 and DynamoDB, for emulators"),
}
SOURCE_OPTIONS: Mapping[str, Option] = {
    "subscribe": Option("one of four", "topics, separated by commas"),
    "subscribePattern": Option("one of four", "regular expression of topic names"),
    "assign": Option("one of four", 'partitions: `{"orders": [0, 1]}`'),
    "ranges": Option(
        "one of four",
        "of a batch: exactly these offsets, the ends exclusive, in place of start and end: "
        '`{"orders": {"0": [[0, 100], [250, 300]]}}`',
    ),
    "startingOffsets": Option(
        "`latest` for streams, `earliest` for batches",
        'start of a batch or of a new checkpoint: `earliest`, `latest`, or `{"orders": {"0": 17, "1": -2}}` '
        "(-2 earliest, -1 latest). An existing checkpoint overrides it",
    ),
    "startingTimestamp": Option(
        "none", "ms since the epoch: start at the first records at or after it; overrides startingOffsets"
    ),
    "endingOffsets": Option("`latest`", "end of a batch, or of a stream that sets it: `latest` or JSON by partition"),
    "maxOffsetsPerTrigger": Option("none", "maximum number of records of a micro-batch"),
    "minPartitions": Option(
        "by rangeBytes",
        "minimum number of Spark tasks, if there is enough to split; by default, little data of partitions shares one",
    ),
    "failOnDataLoss": Option("true", "fail if retention overtook the reader, or a topic was recreated"),
    "corruptBatches": Option(
        "fail",
        "a batch that cannot be decoded: `fail` the query, `skip` it with a warning, or `mark` it with one row in its "
        "place, which has `timestampType` -1, the first offset of the batch, and neither key nor value",
    ),
    "columns": Option("all but headers", "columns to read, separated by commas: fewer are faster"),
    "includeHeaders": Option("false", "also read the column headers"),
    "typedColumns": Option(
        "none",
        "also read these columns, from values in JSON or from columnar history: `origin string, dep_delay bigint`, as "
        "`odradek.table.schema`. A value that does not fit has nulls",
    ),
    "rangeBytes": Option(str(RANGE_BYTES), "approximate stored bytes per Spark task"),
    **STORE_OPTIONS,
}


def parse_options(raw_options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a reader; names are case-insensitive, as in Spark.

    Raises KafkaError(INVALID_CONFIG) that names the option and its valid values.
    """
    options = known_options(raw_options, tuple(SOURCE_OPTIONS), _HINTS)
    return SourceOptions(
        store=parse_store(options),
        subscription=_subscription(options),
        starting_offsets=_starting_offsets(options),
        starting_timestamp_ms=parse_number(options, "startingTimestamp", low=0),
        ending_offsets=_ending_offsets(options),
        max_offsets_per_trigger=parse_number(options, "maxOffsetsPerTrigger", low=1),
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        corrupt_batches=_one_of(options, "corruptBatches", (FAIL, SKIP, MARK)),
        columns=_columns(options),
        range_bytes=parse_number(options, "rangeBytes", low=1) or RANGE_BYTES,
        min_partitions=parse_number(options, "minPartitions", low=1),
        ranges=_ranges(options),
        typed_columns=_typed_columns(options),
    )


def known_options(raw_options: Mapping[str, str], names: Sequence[str], hints: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their documented names.

    Args:
        names: the known options.
        hints: messages for some unknown names, in lower case.

    Raises KafkaError(INVALID_CONFIG) for an unknown option.
    """
    by_lower = {name.lower(): name for name in names}
    options: dict[str, str] = {}
    for name, value in raw_options.items():
        lower = name.lower()
        option = by_lower.get(lower)
        if option is None:
            hint = hints.get(lower) or hints.get(lower.removeprefix("kafka."), "")
            if not hint and lower.startswith("kafka."):
                hint = "Spark reads and writes the store directly, without brokers: set the option store"
            close = difflib.get_close_matches(lower, by_lower, n=1)
            if not hint and close:
                hint = f"did you mean {by_lower[close[0]]}?"
            raise _refused(f"unknown option {name}: {hint or 'use one of ' + ', '.join(names)}")
        options[option] = str(value)
    return options


def parse_store(options: Mapping[str, str]) -> StoreOptions:
    """Return the location of the store. Raises KafkaError(INVALID_CONFIG)."""
    store = options.get("store", "")
    if store.startswith(EMBEDDED_PREFIX) and len(store) > len(EMBEDDED_PREFIX):
        return StoreOptions(store)
    if store != AWS:
        raise _refused(f"option store must be embedded:<data dir> or aws, not {store!r}")
    missing = [name for name in ("logTable", "catalogTable", "bucket") if not options.get(name)]
    if missing:
        raise _refused(f"option store=aws also needs the options {', '.join(missing)}")
    values = {
        field.name: options.get(_camel(field.name), "") for field in fields(StoreOptions) if field.name != "store"
    }
    return StoreOptions(AWS, **values)


def _camel(name: str) -> str:
    first, *more_words = name.split("_")
    return first + "".join(word.capitalize() for word in more_words)


def _subscription(options: Mapping[str, str]) -> Subscription:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign", "ranges") if options.get(name)]
    if len(chosen) != 1:
        names_set = " and ".join(chosen) or "none"
        raise _refused(
            f"set exactly one of the options subscribe, subscribePattern, assign and ranges, not {names_set}"
        )
    text = options[chosen[0]]
    if chosen[0] == "ranges":
        return Subscription(partitions=tuple(parse_ranges("ranges", text)))
    if chosen[0] == "assign":
        return Subscription(partitions=tuple(parse_assignment("assign", text)))
    if chosen[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise _refused(f"option subscribePattern is not a regular expression: {error}") from None
        return Subscription(pattern=text)
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    if not topics:
        raise _refused(f"option subscribe must be topic names separated by commas, not {text!r}")
    return Subscription(topics=topics)


def _starting_offsets(options: Mapping[str, str]) -> int | Offsets | None:
    text = options.get("startingOffsets")
    if text is None:
        return None
    return _SPECIAL[text.lower()] if text.lower() in _SPECIAL else parse_offsets("startingOffsets", text)


def _ending_offsets(options: Mapping[str, str]) -> int | Offsets:
    text = options.get("endingOffsets", "latest")
    if text.lower() == "latest":
        return LATEST
    if text.lower() == "earliest":
        raise _refused("option endingOffsets must be latest or JSON, not earliest: nothing precedes it")
    offsets = parse_offsets("endingOffsets", text)
    if EARLIEST in offsets.values():
        raise _refused("option endingOffsets must not contain -2 (earliest): nothing precedes it")
    return offsets


def _ranges(options: Mapping[str, str]) -> Ranges | None:
    text = options.get("ranges")
    if not text:
        return None
    others = [name for name in ("startingOffsets", "startingTimestamp", "endingOffsets") if name in options]
    if others:
        raise _refused(f"option ranges says where to start and to end: omit the option {others[0]}")
    return parse_ranges("ranges", text)


def _typed_columns(options: Mapping[str, str]) -> tuple[tuple[str, Kind], ...]:
    text = options.get("typedColumns", "")
    try:
        return parse_table_columns(text)
    except ValueError as error:
        raise _refused(
            f"option typedColumns must be names with types, such as origin string, dep_delay bigint: {error}"
        ) from None


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    headers = _flag(options, "includeHeaders", default=False)
    text = options.get("columns")
    if text is None:
        return COLUMNS if headers else COLUMNS[:-1]
    by_lower = {name.lower(): name for name in COLUMNS}
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name.lower() not in by_lower]
    columns = tuple(dict.fromkeys(by_lower[name.lower()] for name in names if name.lower() in by_lower))
    if unknown or not columns:
        raise _refused(f"option columns must be some of {', '.join(COLUMNS)}, not {text!r}")
    return (*columns, "headers") if headers and "headers" not in columns else columns


def parse_number(options: Mapping[str, str], name: str, *, low: int) -> int | None:
    """Return a whole number, None if it is not given. Raises KafkaError(INVALID_CONFIG)."""
    text = options.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text.strip()) or int(text) < low:
        raise _refused(f"option {name} must be a whole number from {low}, not {text!r}")
    return int(text)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in {"true", "false"}:
        raise _refused(f"option {name} must be true or false, not {options[name]!r}")
    return text == "true"


def _one_of(options: Mapping[str, str], name: str, values: Sequence[str]) -> str:
    text = options.get(name, values[0]).lower()
    if text not in values:
        raise _refused(f"option {name} must be {', '.join(values[:-1])} or {values[-1]}, not {options[name]!r}")
    return text


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
