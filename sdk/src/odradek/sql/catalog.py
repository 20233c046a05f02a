"""The streams and tables defined so far by a script, and the options of WITH. Pure data: nothing is looked up.

As in ksqlDB's headless mode a script is self-contained: it declares what it reads.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from odradek.sql.functions.as_java.date_patterns import is_pattern
from odradek.sql.position import SqlError
from odradek.sql.syntax import Name, Property
from odradek.sql.types import SqlType

REGISTERED = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")  # by converters, in Python
INFERRED = ("AVRO", "PROTOBUF", "JSON_SR")  # their columns can be read from a schema registry
FORMATS = ("JSON", "DELIMITED", "KAFKA", "RAW", "NONE", *REGISTERED)
_PROPERTIES = (
    "KAFKA_TOPIC", "FORMAT", "KEY_FORMAT", "VALUE_FORMAT", "KEY", "TIMESTAMP", "TIMESTAMP_FORMAT", "PARTITIONS",
    "REPLICAS", "RETENTION_MS", "VALUE_DELIMITER", "KEY_DELIMITER", "WINDOW_TYPE", "WINDOW_SIZE", "GRACE_PERIOD",
    "WRAP_SINGLE_VALUE", "VALUE_SCHEMA_ID", "KEY_SCHEMA_ID", "VALUE_SCHEMA_FULL_NAME", "KEY_SCHEMA_FULL_NAME",
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION", "VALUE_PROTOBUF_NULLABLE_REPRESENTATION", "CLEANUP_POLICY",
    "HISTORY_RETENTION", "SERVED", "SOURCE_CONNECTOR", "SOURCED_BY_CONNECTOR",
)  # fmt: skip
_ALIASES = {
    "TOPIC": "KAFKA_TOPIC", "DELIMITER": "VALUE_DELIMITER", "VALUE_AVRO_SCHEMA_FULL_NAME": "VALUE_SCHEMA_FULL_NAME",
}  # fmt: skip
_DELIMITERS = {"SPACE": " ", "TAB": "\t"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream or table."""

    name: str
    type: SqlType
    is_key: bool = False  # contained in the record's key
    in_value: bool = True  # contained in the record's value; with WITH (KEY = ...) a key column may be, too
    header: str | None = None  # HEADERS: ""; HEADER('name'): its name; None: no header

    @property
    def is_header(self) -> bool:
        return self.header is not None


@dataclass(frozen=True, slots=True)
class Form:
    """How a key or a value is written."""

    name: str  # one of FORMATS
    delimiter: str = ","
    wrapped: bool = True  # an object with a field a column; else the bare value of one column
    schema_id: int | None = None  # of the registry, given by the script
    full_name: str = ""  # of the schema
    nullable: str = ""  # OPTIONAL | WRAPPER, of PROTOBUF


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or a table over a topic."""

    kind: str  # STREAM | TABLE
    name: str
    topic: str
    columns: tuple[Column, ...]
    key_format: str = "KAFKA"
    value_format: str = "JSON"
    key_delimiter: str = ","
    value_delimiter: str = ","
    timestamp: str = ""  # column with the event time; empty: the record's timestamp
    timestamp_format: str = ""
    window: str = ""  # TUMBLING | HOPPING | SESSION: its keys contain windows
    window_ms: int = 0  # size of a window other than a session
    partitions: int | None = None  # of the topic, if it has to be created
    retention_ms: int | None = None
    query_id: str = ""  # of the query that writes it, if one does
    wrapped: bool | None = None  # WRAP_SINGLE_VALUE; None: as the format has it
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_full_name: str = ""
    value_full_name: str = ""
    nullable: str = ""  # VALUE_PROTOBUF_NULLABLE_REPRESENTATION
    key_nullable: str = ""
    is_readonly: bool = False  # CREATE SOURCE ...
    served: str = ""  # the name under which its rows are read by key; empty: they are not
    history_ms: int = 0  # of a table: streams join it as of their records' times, so far back; 0: as it is now
    asks_kafka: bool = False  # the statement itself says KEY_FORMAT KAFKA
    same_key: tuple[str, ...] = ()  # columns that the join that made a stream made equal to its key

    def form(self, part: str) -> Form:
        """Return how the key or the value is written."""
        if part == "key":
            wrapped = len(self.keys) != 1 or self.key_format.startswith("PROTOBUF")
            return Form(
                self.key_format, self.key_delimiter, wrapped, self.key_schema_id, self.key_full_name, self.key_nullable
            )
        wrapped = self.wrapped is not False or len(self.values) != 1
        return Form(
            self.value_format, self.value_delimiter, wrapped, self.value_schema_id, self.value_full_name, self.nullable
        )

    def column(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.is_key)

    @property
    def values(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.in_value and not each.is_header)


@dataclass(slots=True)
class Catalog:
    """Sources by name, and types of CREATE TYPE."""

    sources: dict[str, Source] = field(default_factory=dict)
    types: dict[str, SqlType] = field(default_factory=dict)

    def find(self, name: Name) -> Source:
        """Return a source. Raises SqlError at the name, with the closest known name."""
        found = self.sources.get(name.text)
        if found is None:
            raise SqlError(f"unknown stream or table {name.text}{did_you_mean(name.text, self.names())}", name.at)
        return found

    def add(self, source: Source) -> None:
        self.sources[source.name] = source

    def names(self) -> list[str]:
        return [each.name for each in self.sources.values()]

    def copy(self) -> Catalog:
        return Catalog(dict(self.sources), dict(self.types))


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return `; did you mean x?`, or nothing."""
    by_fold = {each.upper(): each for each in known}
    close = difflib.get_close_matches(name.upper(), by_fold, n=1, cutoff=0.6)
    return f"; did you mean {by_fold[close[0]]}?" if close else ""


def read_properties(properties: Sequence[Property]) -> dict[str, Property]:
    """Return the properties of WITH by ksqlDB's names. Raises SqlError for an unknown or repeated one."""
    found: dict[str, Property] = {}
    for each in properties:
        name = _ALIASES.get(each.name.folded, each.name.folded)
        if name not in _PROPERTIES:
            hint = did_you_mean(each.name.text, [*_PROPERTIES, *_ALIASES])
            raise SqlError(f"unknown property {each.name.text}{hint or ': ' + ', '.join(_PROPERTIES)}", each.name.at)
        if name in found:
            raise SqlError(f"{name} appears twice", each.name.at)
        found[name] = each
    if "FORMAT" in found and {"KEY_FORMAT", "VALUE_FORMAT"} & set(found):
        raise SqlError("FORMAT sets both KEY_FORMAT and VALUE_FORMAT: use it alone", found["FORMAT"].name.at)
    return found


def apply_properties(source: Source, given: dict[str, Property]) -> Source:
    """Return the source with the properties of WITH. Raises SqlError at an invalid value."""
    changed = source
    if "KAFKA_TOPIC" in given:
        changed = replace(changed, topic=given["KAFKA_TOPIC"].value)
    if "FORMAT" in given:
        both = _format(given["FORMAT"])
        changed = replace(changed, key_format=both, value_format=both, asks_kafka=both == "KAFKA")
    if "KEY_FORMAT" in given:
        key = _format(given["KEY_FORMAT"])
        changed = replace(changed, key_format=key, asks_kafka=key == "KAFKA")
    if "VALUE_FORMAT" in given:
        changed = replace(changed, value_format=_format(given["VALUE_FORMAT"]))
    for name in ("KEY_DELIMITER", "VALUE_DELIMITER"):
        if name in given:
            text = _DELIMITERS.get(given[name].value.upper(), given[name].value)
            if len(text) != 1:
                raise SqlError("a delimiter must be one character, SPACE or TAB", given[name].at)
            is_key = name == "KEY_DELIMITER"
            changed = replace(changed, key_delimiter=text) if is_key else replace(changed, value_delimiter=text)
    if "PARTITIONS" in given:
        changed = replace(changed, partitions=_number(given["PARTITIONS"], 1))
    if "RETENTION_MS" in given:
        changed = replace(changed, retention_ms=_number(given["RETENTION_MS"], 1))
    if "WRAP_SINGLE_VALUE" in given:
        changed = replace(changed, wrapped=_truth(given["WRAP_SINGLE_VALUE"]))
    if "SERVED" in given:
        changed = replace(changed, served=served_name(changed, given["SERVED"]))
    changed = _registered(changed, given)
    if "REPLICAS" in given:
        _number(given["REPLICAS"], 1)  # the store replicates
    return changed


def served_name(source: Source, given: Property) -> str:
    """The name of a served table: that of the source for TRUE, none for FALSE, else the text."""
    if source.kind != "TABLE":
        raise SqlError("SERVED is a property of tables: a stream has no rows by key", given.name.at)
    name = given.value
    if name.upper() in ("TRUE", "FALSE"):
        return source.name if name.upper() == "TRUE" else ""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
        raise SqlError(f"SERVED is true, false, or a name of letters, digits, and ._-, not {name}", given.at)
    return name


def _registered(source: Source, given: dict[str, Property]) -> Source:
    """Apply the properties of formats with schemas."""

    def number(name: str) -> int | None:
        return _number(given[name], 1) if name in given else None

    def text(name: str) -> str:
        if name in given and not given[name].value.strip():
            raise SqlError(f"{name} is empty: name the schema, or omit it", given[name].at)
        part = source.key_format if name.startswith("KEY_") else source.value_format
        if name in given and name.endswith("FULL_NAME") and part not in REGISTERED:
            raise SqlError(f"{name} is for formats with schemas, not {part}: omit it", given[name].name.at)
        return given[name].value if name in given else ""

    def nullable(name: str) -> str:
        if name in given and given[name].value.upper() not in ("OPTIONAL", "WRAPPER"):
            raise SqlError(f"{name} is OPTIONAL or WRAPPER, not {given[name].value}", given[name].at)
        return text(name).upper()

    return replace(
        source,
        key_schema_id=number("KEY_SCHEMA_ID"),
        value_schema_id=number("VALUE_SCHEMA_ID"),
        key_full_name=text("KEY_SCHEMA_FULL_NAME"),
        value_full_name=text("VALUE_SCHEMA_FULL_NAME"),
        key_nullable=nullable("KEY_PROTOBUF_NULLABLE_REPRESENTATION"),
        nullable=nullable("VALUE_PROTOBUF_NULLABLE_REPRESENTATION"),
    )


def timestamp_of(source: Source, given: dict[str, Property]) -> Source:
    """Apply TIMESTAMP and TIMESTAMP_FORMAT, once the columns are known."""
    wanted = given.get("TIMESTAMP")
    if wanted is None:
        if "TIMESTAMP_FORMAT" in given:
            raise SqlError("TIMESTAMP_FORMAT needs TIMESTAMP", given["TIMESTAMP_FORMAT"].name.at)
        return source
    column = source.column(column_name(wanted.value))
    if column is None:
        hint = did_you_mean(wanted.value, [each.name for each in source.columns])
        raise SqlError(f"{source.name} has no column {wanted.value}{hint}", wanted.at)
    pattern = given.get("TIMESTAMP_FORMAT")
    if column.type.name == "VARCHAR" and pattern is None:
        raise SqlError(
            f"{column.name} is a VARCHAR: TIMESTAMP_FORMAT is needed, such as 'yyyy-MM-dd HH:mm:ss'", wanted.at
        )
    if column.type.name != "VARCHAR" and pattern is not None:
        raise SqlError(f"{column.name} is not a VARCHAR: TIMESTAMP_FORMAT does not apply", pattern.name.at)
    if pattern is not None and not is_pattern(pattern.value):
        raise SqlError(f"{pattern.value} is no pattern of Java's DateTimeFormatter", pattern.at)
    if column.type.name not in ("BIGINT", "TIMESTAMP", "VARCHAR"):
        raise SqlError(f"an event time must be a BIGINT (ms), TIMESTAMP or VARCHAR, not {column.type}", wanted.at)
    return replace(source, timestamp=column.name, timestamp_format="" if pattern is None else pattern.value)


def _format(given: Property) -> str:
    name = given.value.upper()
    if name not in FORMATS:
        raise SqlError(f"a format must be one of {', '.join(FORMATS)}, not {given.value}", given.at)
    return name


def _truth(given: Property) -> bool:
    if given.value.upper() not in ("TRUE", "FALSE"):
        raise SqlError(f"{given.name.text} must be true or false, not {given.value}", given.at)
    return given.value.upper() == "TRUE"


def column_name(written: str) -> str:
    """Return the column that a property names: in upper case unless it is quoted."""
    quoted = len(written) > 2 and written[0] == written[-1] and written[0] in '`"'
    return written[1:-1] if quoted else written.upper()


def _number(given: Property, low: int) -> int:
    if not given.value.isdigit() or len(given.value) > 18 or int(given.value) < low:
        raise SqlError(f"{given.name.text} must be a whole number from {low}, not {given.value}", given.at)
    return int(given.value)
