"""Records to columns and back, as expressions of Spark SQL over a record's `key` and `value`.

    JSON        an object, whose fields are found whatever their case; a key of one column is the bare value.
                TIMESTAMP is ms since the epoch, DATE days, TIME ms of the day, BYTES base64
    DELIMITED   one line of CSV, columns in order
    KAFKA       one column, in the form of Kafka's serializers: INT, BIGINT, DOUBLE big-endian, VARCHAR as UTF-8
    RAW         one column: BYTES unchanged, VARCHAR as UTF-8
    NONE        nothing is read, null is written
    AVRO, PROTOBUF, PROTOBUF_NOSR, JSON_SR      by Connect's converters, in Python (registered.py); ksql_read_... and
                ksql_write_... stand for them

A value of one column that is not wrapped (WRAP_SINGLE_VALUE = false) is the bare value, as a key is.

The key of a windowed table is the key's bytes and 8 bytes of window start, for a session 8 of its end and 8 of its
start, each big-endian ms: Kafka Streams' TimeWindowedSerializer and SessionWindowedSerializer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.sql.catalog import REGISTERED, Column, Source
from odradek.sql.conversions import as_text
from odradek.sql.functions.json_text import restored, stored_json
from odradek.sql.functions.numbers import whole_from_bytes
from odradek.sql.functions.signature import text_of as literal
from odradek.sql.plan import Codec
from odradek.sql.position import Position, SqlError
from odradek.sql.types import BIGINT, SqlType, quote

CORRUPT = "__corrupt"
EPOCH = "timestamp_millis(0L)"
_KAFKA_TYPES = ("VARCHAR", "INT", "BIGINT", "DOUBLE", "BYTES")
_AVRO_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_WINDOW_BYTES = 8
_DOUBLE_DIGITS = 15  # which a DOUBLE holds exactly
_MAP = "map<string,string>"
_FIELD = "F"  # of the object around a bare JSON value


def check_columns(source: Source, at: Position) -> None:
    """Raise SqlError if the formats cannot hold the columns."""
    _check("key", source.key_format, source.keys, at)
    _check("value", source.value_format, source.values, at)


def _check(part: str, name: str, columns: Sequence[Column], at: Position) -> None:
    if name == "NONE":
        if columns:
            raise SqlError(f"a {part} of format NONE has no columns: it has {columns[0].name}", at)
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
            if column.type.inner:
                raise SqlError(f"{column.name}: format DELIMITED does not support {column.type}: use JSON", at)
    if name == "AVRO":
        for column in columns if part == "value" or len(columns) > 1 else ():
            for each in (column.name, *_field_names(column.type)):
                if not _AVRO_NAME.fullmatch(each):
                    problem = "Avro's names have letters, digits and _, and no digit first"
                    raise SqlError(f"{each}: {problem}: use another name, or JSON", at)
    if part == "key":
        for column in columns:
            if column.type.holds("MAP"):
                raise SqlError(f"{column.name}: a MAP cannot be part of a key: its entries have no order", at)


def _field_names(kind: SqlType) -> list[str]:
    return [*kind.fields, *(name for each in kind.inner for name in _field_names(each))]


# --- reading


@dataclass(frozen=True, slots=True)
class Reading:
    """How the records of a source are read."""

    steps: str  # columns of a first step beside the record's own
    columns: dict[str, str]  # expressions over that step, by column name
    healthy: str  # the condition under which a record can be read; empty: always
    codecs: tuple[Codec, ...]


def decoders(source: Source, name: str) -> Reading:
    """Return how a source is read. Args: a name of the input, for its functions in Python."""
    steps: list[str] = []
    reads: dict[str, str] = {}
    healthy: list[str] = []
    codecs: list[Codec] = []
    key_bytes = "key"
    if source.window:
        tail = _WINDOW_BYTES * (2 if source.window == "SESSION" else 1)
        key_bytes = f"substring(key, 1, length(key) - {tail})"
    for part, raw in (("key", key_bytes), ("value", "value")):
        columns = source.values if part == "value" else tuple(each for each in source.keys if not each.in_value)
        form = source.form(part)
        if not columns:
            continue
        if form.name in ("KAFKA", "RAW"):
            reads[columns[0].name] = _from_bytes(raw, columns[0].type)
            if columns[0].type.is_number:
                size = 4 if columns[0].type.name == "INT" else 8
                healthy.append(f"({raw} IS NULL OR length({raw}) = {size})")
            continue
        data = f"{part}_data"
        if form.name in REGISTERED:
            codec = Codec(f"ksql_read_{name}_{part}", part, source.topic, form, columns)
            codecs.append(codec)
            steps.append(f"{codec.function}({raw}) AS {data}")
            reads |= {each.name: restored(f"{data}.{quote(each.name)}", each.type) for each in columns}
            healthy.append(f"({raw} IS NULL OR {data} IS NOT NULL)")
        elif form.name == "DELIMITED":
            schema = ", ".join(f"{quote(each.name)} {_stored(each.type)}" for each in columns)
            schema += f", {CORRUPT} STRING"
            options = f"map('columnNameOfCorruptRecord', '{CORRUPT}', 'sep', {literal(form.delimiter)})"
            steps.append(f"from_csv(CAST({raw} AS STRING), {literal(schema)}, {options}) AS {data}")
            reads |= {each.name: _from_stored(f"{data}.{quote(each.name)}", each.type) for each in columns}
            healthy.append(f"{data}.{CORRUPT} IS NULL")
        else:
            text = f"CAST({raw} AS STRING)"
            steps.append(f"{_object(text) if form.wrapped else _bare(text, columns[0].type)} AS {data}")
            long = [each for each in columns if form.wrapped and _is_long(each.type)]
            if long:
                steps.append(f"{_exact_numbers(text)} AS {part}_exact")
            for each in columns:
                field = f"{data}[{literal(each.name.upper() if form.wrapped else _FIELD)}]"
                if each in long:
                    field = f"coalesce({part}_exact[{literal(each.name.upper())}], {field})"
                reads[each.name] = json_value(field, each.type)
                if each.type.name != "VARCHAR":
                    healthy.append(f"(({field} IS NULL) = (({reads[each.name]}) IS NULL))")
            healthy.append(f"({raw} IS NULL OR {data} IS NOT NULL)")
    return Reading(", ".join(steps), reads, " AND ".join(healthy), tuple(codecs))


def _object(text: str) -> str:
    """Return a JSON object as a map of texts by field name in upper case; NULL for any other text."""
    entries = f"transform(map_entries(from_json({text}, '{_MAP}')), e -> struct(upper(e.key) AS k, e.value AS v))"
    return f"map_from_entries({entries})"


def _is_long(kind: SqlType) -> bool:
    return kind.name == "DECIMAL" and kind.precision > _DOUBLE_DIGITS


def _exact_numbers(text: str) -> str:
    """Return the numbers with a point in a JSON object as texts, by field name: from_json reads them as DOUBLEs."""
    fields = f"map_entries(CAST(try_parse_json({text}) AS MAP<STRING, VARIANT>))"
    decimals = f"filter({fields}, e -> schema_of_variant(e.value) LIKE 'DECIMAL%')"
    entries = f"transform({decimals}, e -> struct(upper(e.key) AS k, CAST(e.value AS STRING) AS v))"
    is_object = f"schema_of_variant(try_parse_json({text})) LIKE 'OBJECT%'"
    return f"IF({is_object}, map_from_entries({entries}), NULL)"


def _bare(text: str, kind: SqlType) -> str:
    """Return a bare JSON value as the field of an object."""
    found = f"from_json(concat('{{\"{_FIELD}\":', {text}, '}}'), '{_MAP}')"
    if kind.name == "VARCHAR":  # a text that is not JSON is used as it is
        return f"coalesce({found}, map('{_FIELD}', {text}))"
    return found


def json_value(text: str, kind: SqlType) -> str:
    """Return the text of a JSON value, without the quotes of a string, as a value of a type."""
    if kind.name in ("INT", "BIGINT"):
        return f"coalesce(try_cast({text} AS {kind.spark}), CAST(try_cast({text} AS DOUBLE) AS {kind.spark}))"
    if kind.name in ("VARCHAR", "DOUBLE", "DECIMAL", "BOOLEAN"):
        return text if kind.name == "VARCHAR" else f"try_cast({text} AS {kind.spark})"
    if kind.name == "STRUCT":
        found = _object(text)
        fields = ", ".join(
            f"{literal(name)}, {json_value(f'o[{literal(name.upper())}]', each)}"
            for name, each in zip(kind.fields, kind.inner, strict=True)
        )
        built = f"IF(o IS NULL, NULL, named_struct({fields}))"
        return f"transform(array({found}), o -> {built})[0]"
    if kind.name == "ARRAY":
        inside = kind.inner[0]
        texts = f"from_json({text}, 'array<string>')"
        return texts if inside.name == "VARCHAR" else f"transform({texts}, x -> {json_value('x', inside)})"
    if kind.name == "MAP":
        texts = f"from_json({text}, '{_MAP}')"
        if kind.inner[1].name != "VARCHAR":
            texts = f"transform_values({texts}, (k, v) -> {json_value('v', kind.inner[1])})"
        if kind.inner[0].name != "VARCHAR":
            texts = f"transform_keys({texts}, (k, v) -> {json_value('k', kind.inner[0])})"
        return texts
    return _from_stored(text, kind)


def window_bounds(source: Source) -> tuple[str, str]:
    """Return start and end of a source's windows as timestamps. Uses substring: right() would count characters."""
    last = f"substring(key, length(key) - {_WINDOW_BYTES - 1}, {_WINDOW_BYTES})"
    start = f"timestamp_millis({_from_bytes(last, BIGINT)})"
    if source.window == "SESSION":
        end = f"substring(key, length(key) - {2 * _WINDOW_BYTES - 1}, {_WINDOW_BYTES})"
        return start, f"timestamp_millis({_from_bytes(end, BIGINT)})"
    return start, f"({start} + {interval(source.window_ms)})"


def interval(ms: int) -> str:
    """Return an interval in Spark SQL."""
    return f"INTERVAL '{ms // 1000}.{ms % 1000:03d}' SECOND"


def _from_bytes(raw: str, kind: SqlType) -> str:
    if kind.name == "BYTES":
        return raw
    if kind.name == "VARCHAR":
        return f"CAST({raw} AS STRING)"
    if kind.name == "DOUBLE":
        return f"ksql_double_from_bytes({raw})"
    return whole_from_bytes(raw, 8 if kind.name == "BIGINT" else 4)


def _stored(kind: SqlType) -> str:
    """Return the type to which a line of CSV is parsed: times may be numbers or text."""
    return "STRING" if kind.is_time or kind.name == "BYTES" else kind.spark


def _from_stored(raw: str, kind: SqlType) -> str:
    if kind.name == "TIMESTAMP":
        return f"coalesce(timestamp_millis(try_cast({raw} AS BIGINT)), try_cast({raw} AS TIMESTAMP))"
    if kind.name == "DATE":
        return f"coalesce(date_from_unix_date(try_cast({raw} AS INT)), try_cast({raw} AS DATE))"
    if kind.name == "TIME":
        return f"try_cast({raw} AS INT)"
    if kind.name == "BYTES":
        return f"unbase64({raw})"
    return raw


# --- writing


def encode(
    target: Source, part: str, columns: Sequence[tuple[str, SqlType]], *, is_always: bool = False
) -> tuple[str, tuple[Codec, ...]]:
    """Return columns of a row, by name, as one BINARY expression, and its functions in Python.

    Args:
        is_always: a key of several columns is written even if all are NULL; else it is NULL then.
    """
    form = target.form(part)
    if form.name == "NONE" or not columns:
        return "CAST(NULL AS BINARY)", ()
    names = [quote(name) for name, _ in columns]
    if form.name in ("KAFKA", "RAW"):
        return _to_bytes(names[0], columns[0][1]), ()
    fields = ", ".join(f"{literal(name)}, {stored_json(quote(name), kind)}" for name, kind in columns)
    if form.name in REGISTERED:
        made = tuple(Column(name, kind) for name, kind in columns)
        codec = Codec(f"ksql_write_{part}", part, target.topic, form, made)
        return _unless_missing(
            [] if part == "value" or is_always else names, f"{codec.function}(named_struct({fields}))"
        ), (codec,)
    if form.name == "DELIMITED":
        texts = [_csv_field(number, name, kind, form.delimiter) for number, (name, kind) in enumerate(columns)]
        line = f"CAST(concat_ws({literal(form.delimiter)}, {', '.join(texts)}) AS BINARY)"
        return _unless_missing([] if part == "value" or is_always else names, line), ()
    if not form.wrapped:
        name, kind = columns[0]
        value = f"to_json(named_struct('k', {stored_json(quote(name), kind)}), map('ignoreNullFields', 'false'))"
        bare = f"CAST(substring({value}, 6, length({value}) - 6) AS BINARY)"
        return f"IF({quote(name)} IS NULL, NULL, {bare})", ()
    written = f"CAST(to_json(named_struct({fields}), map('ignoreNullFields', 'false')) AS BINARY)"
    return _unless_missing([] if part == "value" or is_always else names, written), ()


def _unless_missing(names: Sequence[str], written: str) -> str:
    """Return what is written, or NULL where none of the columns has a value."""
    if not names:
        return written
    return f"IF({' AND '.join(f'{each} IS NULL' for each in names)}, NULL, {written})"


def _csv_field(number: int, name: str, kind: SqlType, delimiter: str) -> str:
    """Return a field of a line as Commons CSV writes it: in quotes where they may be needed; NULL is nothing."""
    value = quote(name)
    if kind.name == "BYTES":
        text = f"base64({value})"
    else:
        text = value if kind.name == "VARCHAR" else as_text(*_numbers_of_time(value, kind))
    if number and (kind.is_number or kind.is_time or kind.name == "BOOLEAN"):
        return f"coalesce({text}, '')"
    special = f'["\\r\\n{re.escape(delimiter)}]|[\\x00-\\x20]$|'
    special += "^[\\x00-#]" if number else "^[^0-9A-Za-z]"
    quoted = f"concat('\"', replace({text}, '\"', '\"\"'), '\"')"
    empty = "''" if number else "'\"\"'"  # a first field that is empty has quotes: the line is not empty
    shown = f"WHEN {text} RLIKE {literal(special)} THEN {quoted} ELSE {text}"
    return f"(CASE WHEN {text} IS NULL THEN '' WHEN {text} = '' THEN {empty} {shown} END)"


def _numbers_of_time(value: str, kind: SqlType) -> tuple[str, SqlType]:
    return (stored_json(value, kind), BIGINT) if kind.is_time else (value, kind)


def with_window(key: str, window: str, start: str, end: str) -> str:
    """Return the key of a windowed table."""
    bounds = [end, start] if window == "SESSION" else [start]
    return f"concat({', '.join([key, *(_to_bytes(each, BIGINT) for each in bounds)])})"


def _to_bytes(value: str, kind: SqlType) -> str:
    if kind.name == "BYTES":
        return value
    if kind.name == "VARCHAR":
        return f"CAST({value} AS BINARY)"
    if kind.name == "DOUBLE":
        return f"ksql_double_to_bytes({value})"
    digits = f"lpad(hex(CAST({value} AS BIGINT)), 16, '0')"
    return f"unhex({digits})" if kind.name == "BIGINT" else f"unhex(right({digits}, 8))"
