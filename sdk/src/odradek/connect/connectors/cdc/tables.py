"""Captured tables: which ones and which of their columns, their schemas, and rows as structs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from odradek.connect.config import ConfigValue, java_regex
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, interned, struct
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError, ConnectError, DataError


class TableId(NamedTuple):
    """A table: its schema (of MySQL, its database) and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @classmethod
    def parse(cls, text: str) -> TableId:
        """Read `schema.table`, which may be quoted. Raises ConfigError."""
        namespace, _, name = (part.strip('"`') for part in text.strip().partition("."))
        if not (namespace and name):
            raise ConfigError(f"a table must be named as schema.table, not {text!r}")
        return cls(namespace, name)


class Filters:
    """Which tables and columns are captured. Raises ConfigError.

    Args:
        given: the parsed configuration.
        namespaces: name of the configurations of schemas or databases, such as `schema`.
    """

    def __init__(self, options: Mapping[str, Any], namespaces: str) -> None:
        for list_name in (namespaces, "table", "column"):
            if options[f"{list_name}.include.list"] and options[f"{list_name}.exclude.list"]:
                raise ConfigError(f"give either {list_name}.include.list or {list_name}.exclude.list")
        self._namespaces = _Patterns(options, namespaces)
        self._tables = _Patterns(options, "table")
        self._columns = _Patterns(options, "column")
        chosen = options["snapshot.include.collection.list"]
        self._snapshot = [_compiled("snapshot.include.collection.list", pattern_text) for pattern_text in chosen]
        self._key_columns = _key_columns(options["message.key.columns"])
        signals = options["signal.data.collection"]
        self.signals = TableId.parse(signals) if signals else None
        channels = options["signal.enabled.channels"]
        self.has_signal_rows, self.has_signal_topic = "source" in channels, "kafka" in channels
        if self.has_signal_topic and self.signals is None:
            name = "signal.data.collection"
            raise ConfigError({name: [f"{name} is needed: watermarks are written to it, wherever signals come from"]})

    def has_table(self, table: TableId) -> bool:
        """Return whether changes of a table become records."""
        return self._namespaces.allow(table.namespace) and self._tables.allow(str(table)) and table != self.signals

    def has_column(self, table: TableId, column: str) -> bool:
        return self._columns.allow(f"{table}.{column}")

    def is_snapshot(self, table: TableId) -> bool:
        """Return whether a snapshot reads a table that is captured."""
        return not self._snapshot or any(pattern.fullmatch(str(table)) for pattern in self._snapshot)

    def key_of(self, table: TableId) -> tuple[str, ...]:
        """Return the columns that the configuration chose for the key; () for the primary key."""
        return next((columns for pattern, columns in self._key_columns if pattern.fullmatch(str(table))), ())


class _Patterns:
    def __init__(self, options: Mapping[str, Any], list_name: str) -> None:
        include, exclude = f"{list_name}.include.list", f"{list_name}.exclude.list"
        self._include = [_compiled(include, pattern_text) for pattern_text in options[include]]
        self._exclude = [_compiled(exclude, pattern_text) for pattern_text in options[exclude]]

    def allow(self, name: str) -> bool:
        if self._include:
            return any(pattern.fullmatch(name) for pattern in self._include)
        return not any(pattern.fullmatch(name) for pattern in self._exclude)


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(java_regex(pattern.strip()), re.IGNORECASE)
    except re.error as error:
        raise ConfigError({name: [f"{name} must have regular expressions, not {pattern!r}: {error}"]}) from None


def _key_columns(text: str) -> list[tuple[re.Pattern[str], tuple[str, ...]]]:
    keys = []
    for part in filter(None, (part_text.strip() for part_text in text.split(";"))):
        table, _, columns = part.partition(":")
        names = tuple(name.strip() for name in columns.split(",") if name.strip())
        if not names:
            raise ConfigError(f"message.key.columns must be schema.table:column,column;..., not {part!r}")
        keys.append((_compiled("message.key.columns", table), names))
    return keys


def reported(validated: Mapping[str, ConfigValue], check: Callable[[], object]) -> None:
    """Add what a check of all configurations raises to their errors."""
    try:
        check()
    except ConfigError as error:
        for name, messages in error.problems.items():
            validated[name if name in validated else "table.include.list"].errors.extend(messages)


@dataclass(frozen=True)
class Column:
    """A column of a captured table.

    Attributes:
        schema: of its values.
        decode: from what the database sends, to a value of the schema; never called with null.
        placeholder: in place of a value that the database did not send, since it did not change.
        of_null: in place of null, for a column that does not show whether it is.
    """

    name: str
    schema: Schema
    decode: Callable[[Any], Any]
    placeholder: Any = None
    of_null: Any = None


@dataclass(frozen=True)
class Table:
    """A captured table as of some moment.

    Attributes:
        prefix: of the topics; also of the schemas' names.
        columns: those that are captured, in their order; None stands for one that is not.
        key: names of the columns of the key; () for records without a key.
    """

    id: TableId
    prefix: str
    delimiter: str
    columns: tuple[Column | None, ...]
    key: tuple[str, ...]

    @cached_property
    def topic(self) -> str:
        parts = (self.prefix, self.id.namespace, self.id.name)
        return re.sub(r"[^a-zA-Z0-9._-]", "_", self.delimiter.join(parts))

    @cached_property
    def row_schema(self) -> Schema:
        fields = [(column.name, column.schema) for column in self.columns if column is not None]
        return interned(struct(fields, name=f"{self._name}.Value", optional=True))

    @cached_property
    def key_schema(self) -> Schema | None:
        if not self.key:
            return None
        schemas = {column.name: column.schema for column in self.columns if column is not None}
        return interned(struct([(name, schemas[name]) for name in self.key], name=f"{self._name}.Key"))

    @property
    def _name(self) -> str:
        return re.sub(r"[^a-zA-Z0-9_.]", "_", f"{self.prefix}.{self.id.namespace}.{self.id.name}")

    @cached_property
    def envelope_name(self) -> str:
        return f"{self._name}.Envelope"

    def decoded(
        self, values: Sequence[Any], other: Struct | None = None
    ) -> tuple[dict[str, Any], dict[str, Exception]]:
        """Return the fields of a row of what the database sent for all columns, and errors of those it cannot have.

        Args:
            values: None is null, `UNCHANGED` a value that was not sent, `MISSING` one that is not known.
            other: the row before the change, for values that were not sent.
        """
        made: dict[str, Any] = {}
        failed: dict[str, Exception] = {}
        for column, value in zip(self.columns, values, strict=True):
            if value is None or column is None or value is MISSING:
                if value is None and column is not None and column.of_null is not None:
                    made[column.name] = column.of_null
            elif value is UNCHANGED:
                other_value = None if other is None else other.get(column.name)
                made[column.name] = column.placeholder if other_value is None else other_value
            else:
                try:
                    made[column.name] = column.decode(value)
                except (DataError, ValueError, ArithmeticError, LookupError) as error:
                    failed[column.name] = error
        return made, failed

    def key_of(self, row: Struct) -> Struct | None:
        """Return the key of a row. Raises ConnectError if a column of it is not known."""
        if self.key_schema is None:
            return None
        get = row.present.get
        values = {name: get(name) for name in self.key}
        if None in values.values() and not all(
            field.schema.optional or values[field.name] is not None for field in self.key_schema.fields
        ):
            raise ConnectError(
                f"the key of a row of {self.id} is not known: {', '.join(self.key)} must not be null. Choose columns "
                "in message.key.columns that are never null, or set REPLICA IDENTITY FULL"
            )
        return Struct.of_checked(self.key_schema, values)

    def with_nullable(self, names: Iterable[str]) -> Table:
        """Return the table with columns in which null is allowed."""
        chosen = set(names)
        if all(column is None or column.schema.optional or column.name not in chosen for column in self.columns):
            return self
        columns = tuple(
            replace(column, schema=column.schema.as_optional())
            if column is not None and column.name in chosen
            else column
            for column in self.columns
        )
        return replace(self, columns=columns)

    def nulls(self, values: Sequence[Any]) -> list[str]:
        """Return the columns of a row that are null although their schema does not allow it."""
        if None not in values:
            return []
        return [
            column.name
            for column, value in zip(self.columns, values, strict=True)
            if value is None and column is not None and not column.schema.optional
        ]


class _Absent:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNCHANGED = _Absent("UNCHANGED")
MISSING = _Absent("MISSING")
BLOCK = struct(
    {
        "id": schemas.STRING,
        "total_order": schemas.INT64,
        "data_collection_order": schemas.INT64,
    },
    name="event.block",
    version=1,
    optional=True,
)


def envelope_schema(table: Table, source: Schema) -> Schema:
    """Return the schema of the values of a table's topic."""
    envelope = struct(
        [
            ("before", table.row_schema),
            ("after", table.row_schema),
            ("source", source),
            ("transaction", BLOCK),
            ("op", schemas.STRING),
            ("ts_ms", schemas.OPTIONAL_INT64),
            ("ts_us", schemas.OPTIONAL_INT64),
            ("ts_ns", schemas.OPTIONAL_INT64),
        ],
        name=table.envelope_name,
        version=2,
    )
    return interned(envelope)
