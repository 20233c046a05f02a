"""Functions of text that is JSON, over Spark's VARIANT: what cannot be parsed is NULL."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.signature import ANY, Function, template
from odradek.sql.types import BOOLEAN, INT, VARCHAR, VARCHARS, Rendered, SqlType, map_of, quote

_KIND = "schema_of_variant({0})"


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
        f"(CASE WHEN NOT coalesce({is_array}, FALSE) THEN FALSE{null} "
        f"ELSE coalesce(exists({items}, x -> coalesce({test}, FALSE)), FALSE) END)",
        BOOLEAN,
    )


def _of_object(text: str, then: str) -> str:
    """Return an expression over the JSON object `o`, NULL for any other value."""
    parsed = f"try_parse_json({text})"
    map_ = f"CAST({parsed} AS MAP<STRING, VARIANT>)"
    return f"IF({_KIND.format(parsed)} LIKE 'OBJECT%', {then.replace('{o}', map_)}, NULL)"


def _keys(arguments: Sequence[Rendered]) -> Rendered:
    return Rendered(f"json_object_keys({arguments[0].text})", VARCHARS)


def _records(arguments: Sequence[Rendered]) -> Rendered:
    kind = map_of(VARCHAR, VARCHAR)
    shown = f"IF({_KIND.format('v')} = 'STRING', try_variant_get(v, '$', 'STRING'), to_json(v))"
    return Rendered(_of_object(arguments[0].text, f"transform_values({{o}}, (k, v) -> {shown})"), kind)


def _items(arguments: Sequence[Rendered]) -> Rendered:
    parsed = f"try_parse_json({arguments[0].text})"
    items = f"transform(CAST({parsed} AS ARRAY<VARIANT>), x -> to_json(x))"
    return Rendered(f"IF({_KIND.format(parsed)} LIKE 'ARRAY%', {items}, NULL)", VARCHARS)


def _concat(arguments: Sequence[Rendered]) -> Rendered:
    parsed = [f"try_parse_json({each.text})" for each in arguments]
    kinds = [_KIND.format(each) for each in parsed]
    objects = " AND ".join(f"{each} LIKE 'OBJECT%'" for each in kinds)
    maps = ", ".join(f"CAST({each} AS MAP<STRING, VARIANT>)" for each in parsed)
    lists = ", ".join(
        f"IF({kind} LIKE 'ARRAY%', CAST({each} AS ARRAY<VARIANT>), array({each}))"
        for kind, each in zip(kinds, parsed, strict=True)
    )
    missing = " OR ".join(f"{each} IS NULL" for each in parsed)
    return Rendered(
        f"(CASE WHEN {missing} THEN NULL WHEN {objects} THEN to_json(map_concat({maps})) "
        f"ELSE to_json(concat({lists})) END)",
        VARCHAR,
    )


JSON_TEXT = [
    template("EXTRACTJSONFIELD", "get_json_object({0}, {1})", 2, 2, VARCHAR, "text"),
    template("JSON_ARRAY_LENGTH", "json_array_length({0})", 1, 1, INT, "text"),
    Function("JSON_ARRAY_CONTAINS", 2, 2, _contains, ("text", "any")),
    Function("JSON_KEYS", 1, 1, _keys, ("text",)),
    Function("JSON_RECORDS", 1, 1, _records, ("text",)),
    Function("JSON_ITEMS", 1, 1, _items, ("text",)),
    Function("JSON_CONCAT", 1, ANY, _concat, ("text",)),
    Function("TO_JSON_STRING", 1, 1, _to_json_string),
]
