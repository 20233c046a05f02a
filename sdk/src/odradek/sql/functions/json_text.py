"""Functions of text that is JSON, over Spark's VARIANT: what cannot be parsed is NULL.

Spark reads a number such as 1.50 as a DOUBLE. So what returns parts of JSON is in Python (as_java/json_nodes.py), but
not in lambdas, nor of a text that is itself a large expression which may fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from odradek.sql.functions.bindings import may_be_error
from odradek.sql.functions.signature import ANY, Function, literal_of, template, text_of
from odradek.sql.types import BOOLEAN, INT, VARCHAR, VARCHARS, Rendered, SqlType, map_of, quote

_PATH = r"^\$(?:\.[\w:@]+|\[(?:\w+|\"(?:[^\"\\]|\\[\"\\])*\")\])*"
JSON_PATH = text_of(rf"{_PATH}\z")  # as Java's regular expression
JSON_FIELD, JSON_ITEMS = "ksql_json_field", "ksql_json_items"
JSON_RECORDS, JSON_CONCAT = "ksql_json_records", "ksql_json_concat"
_SIMPLE_PATH = re.compile(r"\$(\.[A-Za-z_]\w*|\[\d+\])+", re.ASCII)
_KIND = "schema_of_variant({0})"
# An element as JSON: `v` is it as a VARIANT, `t` its text, which of an object or an array is JSON.
_WRITTEN = "IF(schema_of_variant(v) RLIKE '^(OBJECT|ARRAY)', t, to_json(v))"


def stored_json(value: str, kind: SqlType, *, iso: bool = False) -> str:
    """Return a value in the form that to_json writes as ksqlDB does.

    Args:
        iso: times as text; else TIMESTAMP in ms, DATE in days, TIME in ms of the day.
    """
    if kind.name == "TIMESTAMP":
        return f"date_format({value}, \"yyyy-MM-dd'T'HH:mm:ss.SSS\")" if iso else f"unix_millis({value})"
    if kind.name == "DATE":
        return f"CAST({value} AS STRING)" if iso else f"unix_date({value})"
    if kind.name == "TIME":
        return time_text(value) if iso else value
    if not kind.holds_time():
        return value
    if kind.name == "ARRAY":
        return f"transform({value}, x -> {stored_json('x', kind.inner[0], iso=iso)})"
    if kind.name == "MAP":
        changed = stored_json("v", kind.inner[1], iso=iso)
        return f"transform_values({value}, (k, v) -> {changed})"
    fields = ", ".join(
        f"'{name}', {stored_json(f'{value}.{quote(name)}', each, iso=iso)}"
        for name, each in zip(kind.fields, kind.inner, strict=True)
    )
    return f"IF({value} IS NULL, NULL, named_struct({fields}))"


def restored(value: str, kind: SqlType) -> str:
    """Return a value whose times are numbers with its times."""
    if kind.name == "TIMESTAMP":
        return f"timestamp_millis({value})"
    if kind.name == "DATE":
        return f"date_from_unix_date({value})"
    if not kind.holds_time() or kind.name == "TIME":
        return value
    if kind.name == "ARRAY":
        return f"transform({value}, x -> {restored('x', kind.inner[0])})"
    if kind.name == "MAP":
        return f"transform_values({value}, (k, v) -> {restored('v', kind.inner[1])})"
    fields = ", ".join(
        f"'{name}', {restored(f'{value}.{quote(name)}', each)}"
        for name, each in zip(kind.fields, kind.inner, strict=True)
    )
    return f"IF({value} IS NULL, NULL, named_struct({fields}))"


def time_text(value: str) -> str:
    """Return a TIME as text, without seconds where they are zero, as Java's LocalTime."""
    stamp = f"timestamp_millis({value})"
    return (
        f"(CASE WHEN {value} % 60000 = 0 THEN date_format({stamp}, 'HH:mm') "
        f"WHEN {value} % 1000 = 0 THEN date_format({stamp}, 'HH:mm:ss') ELSE date_format({stamp}, 'HH:mm:ss.SSS') END)"
    )


def is_json_path(text: str) -> bool:
    return re.fullmatch(_PATH, text) is not None


def _json_field(arguments: Sequence[Rendered]) -> Rendered:
    text, path = arguments
    written = literal_of(path)
    if written is not None and not is_json_path(written):
        return Rendered("CAST(NULL AS STRING)", VARCHAR)
    return Rendered(f"{JSON_FIELD}({text.text}, {path.text})", VARCHAR)


def sparks_json_field(text: str, path: str) -> str:
    """EXTRACTJSONFIELD of Spark. A null of JSON is the text `null`, which Spark does not tell from nothing."""
    found = f"get_json_object({text}, {path})"
    if path.startswith("'") and _SIMPLE_PATH.fullmatch(path[1:-1]):
        null = f"is_variant_null(try_variant_get(try_parse_json({text}), {path}, 'VARIANT'))"
        found = f"coalesce({found}, IF({null}, 'null', NULL))"
    return found


def _to_json_string(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    stored = value.text if value.type is None else stored_json(value.text, value.type, iso=True)
    text = f"to_json(named_struct('k', {stored}), map('ignoreNullFields', 'false'))"
    return Rendered(f"substring({text}, 6, length({text}) - 6)", VARCHAR)


def _contains(arguments: Sequence[Rendered]) -> Rendered:
    value, wanted = arguments
    items = f"CAST(try_parse_json({value.text}) AS ARRAY<VARIANT>)"
    is_array = f"{_KIND.format(f'try_parse_json({value.text})')} LIKE 'ARRAY%'"
    if wanted.type is None:
        test = "is_variant_null(x)"
    elif wanted.type.name == "VARCHAR":
        test = f"{_KIND.format('x')} = 'STRING' AND try_variant_get(x, '$', 'STRING') = {wanted.text}"
    elif wanted.type.name == "BOOLEAN":
        test = f"{_KIND.format('x')} = 'BOOLEAN' AND try_variant_get(x, '$', 'BOOLEAN') = {wanted.text}"
    elif wanted.type.is_integer:
        test = f"{_KIND.format('x')} = 'BIGINT' AND try_variant_get(x, '$', 'BIGINT') = {wanted.text}"
    else:
        test = (
            f"{_KIND.format('x')} NOT IN ('BIGINT', 'STRING', 'BOOLEAN') "
            f"AND try_variant_get(x, '$', 'DOUBLE') = CAST({wanted.text} AS DOUBLE)"
        )
    null = f" WHEN {wanted.text} IS NULL THEN exists({items}, x -> is_variant_null(x))" if wanted.type else ""
    return Rendered(
        f"(CASE WHEN {value.text} IS NULL THEN NULL WHEN NOT coalesce({is_array}, FALSE) THEN FALSE{null} "
        f"ELSE coalesce(exists({items}, x -> coalesce({test}, FALSE)), FALSE) END)",
        BOOLEAN,
    )


def _values_of(text: str) -> str:
    """Return the values of a JSON object by key, each as JSON, in the order in which they are written.

    A VARIANT sorts the keys of objects, so that those within values come from the text.
    """
    parsed = f"CAST(try_parse_json({text}) AS MAP<STRING, VARIANT>)"
    return f"map_zip_with(from_json({text}, 'map<string,string>'), {parsed}, (k, t, v) -> {_WRITTEN})"


def _items_of(text: str) -> str:
    """Return the elements of a JSON array, each as JSON."""
    parsed = f"CAST(try_parse_json({text}) AS ARRAY<VARIANT>)"
    return f"zip_with(from_json({text}, 'array<string>'), {parsed}, (t, v) -> {_WRITTEN})"


def _keys(arguments: Sequence[Rendered]) -> Rendered:
    return Rendered(f"json_object_keys({arguments[0].text})", VARCHARS)


def sparks_json_records(text: str) -> str:
    """JSON_RECORDS of Spark."""
    parsed = f"CAST(try_parse_json({text}) AS MAP<STRING, VARIANT>)"
    shown = f"IF({_KIND.format('v')} = 'STRING', t, {_WRITTEN})"
    values = f"map_zip_with(from_json({text}, 'map<string,string>'), {parsed}, (k, t, v) -> {shown})"
    return f"IF({_KIND.format(f'try_parse_json({text})')} LIKE 'OBJECT%', {values}, NULL)"


def sparks_json_items(text: str) -> str:
    """JSON_ITEMS of Spark."""
    is_array = f"{_KIND.format(f'try_parse_json({text})')} LIKE 'ARRAY%'"
    return f"IF({is_array}, {_items_of(text)}, NULL)"


def sparks_json_concat(texts: Sequence[str]) -> str:
    """JSON_CONCAT of Spark."""
    parsed = [f"try_parse_json({each})" for each in texts]
    kinds = [_KIND.format(each) for each in parsed]
    objects = " AND ".join(f"{each} LIKE 'OBJECT%'" for each in kinds)
    values = f"map_concat({', '.join(map(_values_of, texts))})"
    pairs = f"transform(map_entries({values}), e -> concat(to_json(CAST(e.key AS VARIANT)), ':', e.value))"
    one = "from_json(concat('[', {0}, ']'), 'array<string>')[0]"  # an object, as it is written
    lists = ", ".join(
        f"CASE WHEN {kind} LIKE 'ARRAY%' THEN {_items_of(text)} WHEN {kind} LIKE 'OBJECT%' "
        f"THEN array({one.format(text)}) ELSE array(to_json({each})) END"
        for kind, text, each in zip(kinds, texts, parsed, strict=True)
    )
    missing = " OR ".join(f"{each} IS NULL" for each in parsed)
    return (
        f"(CASE WHEN {missing} THEN NULL WHEN {objects} THEN concat('{{', array_join({pairs}, ','), '}}') "
        f"ELSE concat('[', array_join(concat({lists}), ','), ']') END)"
    )


def _records(arguments: Sequence[Rendered]) -> Rendered:
    text = arguments[0].text
    found = sparks_json_records(text) if may_be_error(text) else f"{JSON_RECORDS}({text})"
    return Rendered(found, map_of(VARCHAR, VARCHAR))


def _items(arguments: Sequence[Rendered]) -> Rendered:
    text = arguments[0].text
    return Rendered(sparks_json_items(text) if may_be_error(text) else f"{JSON_ITEMS}({text})", VARCHARS)


def _concat(arguments: Sequence[Rendered]) -> Rendered:
    texts = [each.text for each in arguments]
    is_sparks = any(map(may_be_error, texts))
    return Rendered(sparks_json_concat(texts) if is_sparks else f"{JSON_CONCAT}(array({', '.join(texts)}))", VARCHAR)


JSON_TEXT = [
    Function("EXTRACTJSONFIELD", 2, 2, _json_field, ("text",)),
    template("JSON_ARRAY_LENGTH", "json_array_length({0})", 1, 1, INT, "text"),
    Function("JSON_ARRAY_CONTAINS", 2, 2, _contains, ("text", "any")),
    Function("JSON_KEYS", 1, 1, _keys, ("text",)),
    Function("JSON_RECORDS", 1, 1, _records, ("text",)),
    Function("JSON_ITEMS", 1, 1, _items, ("text",)),
    Function("JSON_CONCAT", 1, ANY, _concat, ("text",)),
    Function("TO_JSON_STRING", 1, 1, _to_json_string),
]
