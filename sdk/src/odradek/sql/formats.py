"""Records to columns and back, as expressions of Spark SQL over a record's `key` and `value`.

    JSON        an object; as a key of one column the bare value. TIMESTAMP is ms since the epoch, DATE days (ksqlDB's)
    DELIMITED   one line of CSV, columns in order
    KAFKA       one column, in the form of Kafka's serializers: INT, BIGINT big-endian, VARCHAR as UTF-8
    RAW         one column: BYTES unchanged, VARCHAR as UTF-8
    NONE        nothing is read, null is written (keys only)

The key of a windowed table is the key's bytes and 8 bytes of window start, for a session 8 of its end and 8 of its
start, each big-endian ms: Kafka Streams' TimeWindowedSerializer and SessionWindowedSerializer.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.catalog import Column, Source
from odradek.sql.position import Position, SqlError
from odradek.sql.types import SqlType, quote

CORRUPT = "__corrupt"
_TEXT = ("VARCHAR",)
_KAFKA_TYPES = ("VARCHAR", "INT", "BIGINT", "BYTES")
_WINDOW_BYTES = 8


def literal(text: str) -> str:
    """Return a string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_columns(source: Source, at: Position) -> None:
    """Raise SqlError if the formats cannot hold the columns."""
    _check("key", source.key_format, source.keys, at)
    _check("value", source.value_format, source.values, at)
    for column in source.columns:
        if column.type.inner and any(each.holds_time() for each in column.type.inner):
            raise SqlError(
                f"{column.name}: DATE and TIMESTAMP within {column.type.name} are not supported: use BIGINT", at
            )


def _check(part: str, name: str, columns: Sequence[Column], at: Position) -> None:
    if name == "NONE":
        if part == "value":
            raise SqlError("NONE is only a format of keys", at)
        if columns:
            raise SqlError("a key of format NONE has no columns", at)
        return
    if name in ("KAFKA", "RAW"):
        if len(columns) > 1:
            raise SqlError(
                f"the {part} has {len(columns)} columns, format {name} supports one: use JSON or DELIMITED", at
            )
        allowed = _KAFKA_TYPES if name == "KAFKA" else ("VARCHAR", "BYTES")
        for column in columns:
            if column.type.name not in allowed:
                raise SqlError(
                    f"{column.name}: format {name} supports {', '.join(allowed)}, not {column.type}: use JSON", at
                )
    if name == "DELIMITED":
        for column in columns:
            if column.type.inner or column.type.name == "BYTES":
                raise SqlError(f"{column.name}: format DELIMITED does not support {column.type}: use JSON", at)


# --- reading


def decoders(source: Source) -> tuple[str, dict[str, str], str]:
    """Return the expressions that read a source.

    Returns:
        columns of a first step beside the record's own (key_data, value_data), expressions over that step by column
        name, and the condition under which a record can be read.
    """
    steps: list[str] = []
    reads: dict[str, str] = {}
    healthy: list[str] = []
    key_bytes = "key"
    if source.window:
        tail = _WINDOW_BYTES * (2 if source.window == "SESSION" else 1)
        key_bytes = f"substring(key, 1, length(key) - {tail})"
    for part, raw, name, delimiter, columns in (
        ("key", key_bytes, source.key_format, source.key_delimiter, source.keys),
        ("value", "value", source.value_format, source.value_delimiter, source.values),
    ):
        if part == "key":
            columns = tuple(each for each in columns if not each.in_value)
        if not columns:
            continue
        if name in ("KAFKA", "RAW"):
            reads[columns[0].name] = _from_bytes(raw, columns[0].type)
        elif name == "JSON" and part == "key" and len(columns) == 1 and not columns[0].type.inner:
            reads[columns[0].name] = _from_bare_json(f"CAST({raw} AS STRING)", columns[0].type)
        else:
            data = f"{part}_data"
            schema = ", ".join(f"{quote(each.name)} {_stored(each.type, name)}" for each in columns)
            schema += f", {CORRUPT} STRING"
            options = f"map('columnNameOfCorruptRecord', '{CORRUPT}'"
            options += f", 'sep', {literal(delimiter)})" if name == "DELIMITED" else ")"
            function = "from_csv" if name == "DELIMITED" else "from_json"
            steps.append(f"{function}(CAST({raw} AS STRING), {literal(schema)}, {options}) AS {data}")
            for each in columns:
                reads[each.name] = _from_stored(f"{data}.{quote(each.name)}", each.type, name)
            healthy.append(f"{data}.{CORRUPT} IS NULL")
    return ", ".join(steps), reads, " AND ".join(healthy)


def window_bounds(source: Source) -> tuple[str, str]:
    """Return start and end of a source's windows as timestamps. Uses substring: right() would count characters."""
    last = f"substring(key, length(key) - {_WINDOW_BYTES - 1}, {_WINDOW_BYTES})"
    start = f"timestamp_millis({_from_bytes(last, SqlType('BIGINT'))})"
    if source.window == "SESSION":
        end = f"substring(key, length(key) - {2 * _WINDOW_BYTES - 1}, {_WINDOW_BYTES})"
        return start, f"timestamp_millis({_from_bytes(end, SqlType('BIGINT'))})"
    return start, f"({start} + {interval(source.window_ms)})"


def interval(ms: int) -> str:
    """Return an interval in Spark SQL."""
    return f"INTERVAL '{ms // 1000}.{ms % 1000:03d}' SECOND"


def _from_bytes(raw: str, kind: SqlType) -> str:
    if kind.name == "BYTES":
        return raw
    if kind.name == "VARCHAR":
        return f"CAST({raw} AS STRING)"
    number = f"CAST(conv(hex({raw}), 16, -10) AS BIGINT)"
    if kind.name == "BIGINT":
        return number
    return f"CAST(IF({number} > 2147483647, {number} - 4294967296, {number}) AS INT)"


def _stored(kind: SqlType, name: str) -> str:
    """Return the type to which a format is parsed: times may be numbers or text."""
    return "STRING" if kind.name in ("TIMESTAMP", "DATE", "BYTES") else kind.spark


def _from_stored(raw: str, kind: SqlType, name: str) -> str:
    if kind.name == "TIMESTAMP":
        return f"coalesce(timestamp_millis(try_cast({raw} AS BIGINT)), try_cast({raw} AS TIMESTAMP))"
    if kind.name == "DATE":
        return f"coalesce(date_from_unix_date(try_cast({raw} AS INT)), try_cast({raw} AS DATE))"
    if kind.name == "BYTES":
        return f"unbase64({raw})"
    return raw


def _from_bare_json(text: str, kind: SqlType) -> str:
    if kind.name == "VARCHAR":  # a key that is not JSON is used as it is
        return f"coalesce(get_json_object(concat('{{\"k\":', {text}, '}}'), '$.k'), {text})"
    if kind.name in ("TIMESTAMP", "DATE", "BYTES"):
        return _from_stored(f"trim(BOTH '\"' FROM {text})", kind, "JSON")
    return f"try_cast({text} AS {kind.spark})"


# --- writing


def encode(part: str, name: str, delimiter: str, columns: Sequence[tuple[str, SqlType]]) -> str:
    """Return columns of a row, by name, as one BINARY expression."""
    if name == "NONE" or not columns:
        return "CAST(NULL AS BINARY)"
    if name in ("KAFKA", "RAW"):
        return _to_bytes(quote(columns[0][0]), columns[0][1])
    fields = ", ".join(f"{literal(column)}, {_to_stored(quote(column), kind)}" for column, kind in columns)
    if name == "DELIMITED":
        return f"CAST(to_csv(named_struct({fields}), map('sep', {literal(delimiter)})) AS BINARY)"
    if part == "key" and len(columns) == 1 and not columns[0][1].inner:
        column, kind = columns[0]
        value = f"to_json(named_struct('k', {_to_stored(quote(column), kind)}))"
        bare = f"substring({value}, 6, length({value}) - 6)"
        return f"CAST(IF({quote(column)} IS NULL, NULL, {bare}) AS BINARY)"
    return f"CAST(to_json(named_struct({fields}), map('ignoreNullFields', 'false')) AS BINARY)"


def with_window(key: str, window: str, start: str, end: str) -> str:
    """Return the key of a windowed table."""
    bounds = [end, start] if window == "SESSION" else [start]
    return f"concat({', '.join([key, *(_to_bytes(each, SqlType('BIGINT')) for each in bounds)])})"


def _to_bytes(value: str, kind: SqlType) -> str:
    if kind.name == "BYTES":
        return value
    if kind.name == "VARCHAR":
        return f"CAST({value} AS BINARY)"
    digits = f"lpad(hex(CAST({value} AS BIGINT)), 16, '0')"
    return f"unhex({digits})" if kind.name == "BIGINT" else f"unhex(right({digits}, 8))"


def _to_stored(value: str, kind: SqlType) -> str:
    if kind.name == "TIMESTAMP":
        return f"unix_millis({value})"
    if kind.name == "DATE":
        return f"unix_date({value})"
    if kind.name == "BYTES":
        return f"base64({value})"
    return value
