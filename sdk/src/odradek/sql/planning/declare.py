"""What CREATE STREAM | TABLE declares: columns as written or of a schema registry, the key, windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from odradek.errors import KafkaError
from odradek.sql.catalog import INFERRED, Column, Form, Source, column_name, did_you_mean
from odradek.sql.position import Position, SqlError
from odradek.sql.syntax import Create, Property
from odradek.sql.types import UNIT_MS, VARCHAR, SqlType, array_of, resolve_type, struct_of

RESERVED = ("ROWTIME", "ROWPARTITION", "ROWOFFSET", "WINDOWSTART", "WINDOWEND")
HEADERS = array_of(struct_of({"KEY": VARCHAR, "VALUE": SqlType("BYTES")}))
Schemas = Callable[[Form, str, str], SqlType]  # the columns of a topic's key or value, as a STRUCT, or a bare type


def declared_columns(statement: Create, types: Mapping[str, SqlType]) -> tuple[Column, ...]:
    """Return the columns that a statement declares. Raises SqlError."""
    columns: list[Column] = []
    for each in statement.columns or ():
        if any(column.name == each.name.text for column in columns):
            raise SqlError(f"column {each.name.text} appears twice", each.name.at)
        if each.name.text.startswith("__") or each.name.text in RESERVED:
            raise SqlError(f"the name {each.name.text} is reserved", each.name.at)
        kind = resolve_type(each.type, types)
        if each.role.startswith("HEADER"):
            wanted = HEADERS if each.role == "HEADERS" else SqlType("BYTES")
            if kind != wanted:
                raise SqlError(f"a column of {each.role} is {wanted}, not {kind}", each.name.at)
            same = [column for column in columns if column.header is not None
                    and (not each.header or column.header in ("", each.header))]  # fmt: skip
            if same:
                raise SqlError(f"the headers are in {same[0].name} already: declare them once", each.name.at)
            columns.append(Column(each.name.text, kind, header=each.header))
            continue
        wanted_role = "PRIMARY KEY" if statement.kind == "TABLE" else "KEY"
        if each.role and each.role != wanted_role:
            raise SqlError(f"the key of a {statement.kind.lower()} is {wanted_role}, not {each.role}", each.name.at)
        columns.append(Column(each.name.text, kind, bool(each.role), not each.role))
    return tuple(columns)


def inferred(source: Source, schemas: Schemas | None, at: Position, *, is_unwrapped: bool = False) -> Source:
    """Return the source with the columns that a schema registry has, of a part that declares none.

    Args:
        is_unwrapped: the statement says that the value is that of one column, also if it is a record.

    Raises:
        SqlError: there is no schema, or one that cannot be used.
    """
    changed = source
    if source.value_format in INFERRED and not source.values:
        found = _ask(source, "value", schemas, at)
        if found is None and not source.keys:
            raise SqlError(
                "columns are required: CREATE STREAM name (a INT, ...); --schema-registry URL reads them from there", at
            )
        if found is not None:
            is_bare = found.name != "STRUCT" or is_unwrapped
            named = (("ROWVAL", found),) if is_bare else zip(found.fields, found.inner, strict=True)
            columns = tuple(Column(name, kind) for name, kind in named)
            changed = replace(changed, columns=(*changed.columns, *columns))
            if is_bare:
                changed = replace(changed, wrapped=False)
    elif not source.columns:
        raise SqlError("columns are required: CREATE STREAM name (a INT, ...)", at)
    if source.key_format in INFERRED and not source.keys:
        key = _ask(source, "key", schemas, at)
        if key is not None:  # a message of Protobuf is a key of as many columns as it has fields
            is_message = source.key_format == "PROTOBUF" and key.name == "STRUCT"
            named = zip(key.fields, key.inner, strict=True) if is_message else (("ROWKEY", key),)
            keys = tuple(Column(name, kind, True, False) for name, kind in named)
            changed = replace(changed, columns=(*keys, *changed.columns))
    return changed


def check_registered(source: Source, schemas: Schemas | None, given: Mapping[str, Property]) -> None:
    """Raise SqlError unless the schemas that KEY_SCHEMA_ID and VALUE_SCHEMA_ID name exist, with all columns."""
    for part, columns in (("key", source.keys), ("value", source.values)):
        wanted = given.get(f"{part.upper()}_SCHEMA_ID")
        found = None if wanted is None else _ask(source, part, schemas, wanted.at)
        if wanted is None or found is None or found.name != "STRUCT" or not source.form(part).wrapped:
            continue
        fields = {name.upper() for name in found.fields}
        missing = [each.name for each in columns if each.name.upper() not in fields]
        if missing:
            raise SqlError(f"the schema with id {wanted.value} has no field for {', '.join(missing)}", wanted.at)


def check_wrapping(source: Source, given: Mapping[str, Property]) -> None:
    """Raise SqlError for WRAP_SINGLE_VALUE where it says nothing, or what the format cannot do."""
    wanted = given.get("WRAP_SINGLE_VALUE")
    if wanted is None:
        return
    if len(source.values) != 1:
        raise SqlError(f"WRAP_SINGLE_VALUE is for one column, the value has {len(source.values)}", wanted.name.at)
    only = {"DELIMITED": False, "KAFKA": False, "RAW": False, "NONE": False, "PROTOBUF": True, "PROTOBUF_NOSR": True}
    if only.get(source.value_format, source.wrapped) is not source.wrapped:
        text = "bare" if source.wrapped else "wrapped"
        raise SqlError(f"a value of {source.value_format} is always {text}: omit WRAP_SINGLE_VALUE", wanted.name.at)


def check_held(source: Source, first: Source, given: Mapping[str, Property], at: Position) -> None:
    """Raise SqlError if a result would silently leave the format KAFKA that its first source asks for.

    Args:
        given: properties of the result, which may name another format.
    """
    for part, before, now in (
        ("KEY", first.asks_kafka and first.key_format, source.key_format),
        ("VALUE", first.value_format, source.value_format),
    ):
        if before == "KAFKA" and now != "KAFKA" and source.form(part.lower()).name != "NONE" and not (
            {"FORMAT", f"{part}_FORMAT"} & set(given)
        ):  # fmt: skip
            problem = f"the {part.lower()} of {first.name} has format KAFKA, which holds one column of a simple type"
            raise SqlError(f"{problem}: WITH ({part}_FORMAT = '{now}') writes it in another one", at)


def check_no_headers(target: Source, at: Position) -> None:
    """Raise SqlError for a target of INSERT INTO ... SELECT with columns of headers."""
    found = [each.name for each in target.columns if each.is_header]
    if found:
        raise SqlError(f"{target.name} has the headers in {', '.join(found)}, which no statement writes", at)


def _ask(source: Source, part: str, schemas: Schemas | None, at: Position) -> SqlType | None:
    if schemas is None:
        return None
    try:
        return schemas(source.form(part), source.topic, part)
    except KafkaError as error:
        raise SqlError(error.message, at, code=error.code) from None


def key_in_value(source: Source, given: dict[str, Property]) -> Source:
    """Apply WITH (KEY = column): the value contains the key too, or only the record's key has it."""
    wanted = given.get("KEY")
    if wanted is None:
        return source
    if source.keys:
        raise SqlError("the key is defined twice: by WITH (KEY = ...) and in the columns", wanted.at)
    column = source.column(column_name(wanted.value))
    if column is None:
        raise SqlError(
            f"unknown column {wanted.value}{did_you_mean(wanted.value, [c.name for c in source.columns])}",
            wanted.at,
        )
    columns = tuple(replace(each, is_key=True) if each is column else each for each in source.columns)
    return replace(source, columns=columns)


def windowed(source: Source, given: dict[str, Property]) -> Source:
    kind = given.get("WINDOW_TYPE")
    size = given.get("WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise SqlError("WINDOW_SIZE needs WINDOW_TYPE", size.name.at)
        return source
    name = kind.value.upper()
    if name not in ("TUMBLING", "HOPPING", "SESSION"):
        raise SqlError(f"a window must be TUMBLING, HOPPING or SESSION, not {kind.value}", kind.at)
    if (size is None) != (name == "SESSION"):
        raise SqlError("WINDOW_SIZE is required for TUMBLING and HOPPING, and not allowed for SESSION", kind.at)
    return replace(source, window=name, window_ms=0 if size is None else _duration(size))


def versioned(source: Source, given: dict[str, Property]) -> Source:
    """Apply HISTORY_RETENTION: a table that is joined as of a record's time. Raises SqlError."""
    wanted = given.get("HISTORY_RETENTION")
    if wanted is None:
        return source
    if source.kind != "TABLE" or source.window:
        raise SqlError("HISTORY_RETENTION applies only to tables without windows", wanted.name.at)
    if "TIMESTAMP" in given:
        raise SqlError("HISTORY_RETENTION goes by the records' timestamps: omit TIMESTAMP", wanted.name.at)
    return replace(source, history_ms=_duration(wanted))


def _duration(given: Property) -> int:
    words = given.value.split()
    unit = words[1].upper().removesuffix("S") if len(words) == 2 else ""
    if unit not in UNIT_MS or not words[0].isdigit() or not 0 < int(words[0]) < 10**12:
        raise SqlError(f"a duration is written as '1 HOURS', not {given.value!r}", given.at)
    return int(words[0]) * UNIT_MS[unit]
