"""From one type to another, as Spark SQL: CAST, and what happens by itself in comparisons, CASE and constructors.

What cannot be converted is NULL: in ksqlDB it is NULL with a line in the processing log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time

from odradek.sql.functions.bindings import once
from odradek.sql.functions.json_text import time_text
from odradek.sql.functions.raising import is_no_number
from odradek.sql.functions.sameness import distinguishable
from odradek.sql.functions.signature import literal_of, text_of
from odradek.sql.functions.times import text_as_timestamp, time_of
from odradek.sql.position import START, Position, SqlError
from odradek.sql.types import (
    BIGINT,
    DATE,
    DOUBLE,
    NEVER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Rendered,
    SqlType,
    decimal_of,
    quote,
    wider,
)

_LITERAL = re.compile(r"\(?-? ?[\d.]+(?:[eE][+-]?\d+)?D?\)?")
_DAY_MS = 86_400_000
_PLAIN_SCALE_MAX = 6  # beyond it Spark may write a DECIMAL with an exponent
_TRUE = "'t', 'tr', 'tru', 'true', 'y', 'ye', 'yes'"  # ksqlDB takes the first letters
_IMPOSSIBLE = ("BOOLEAN", "BYTES")


def cast(value: Rendered, kind: SqlType, at: Position) -> Rendered:
    """Return CAST(value AS kind). Raises SqlError if no value of the type can be converted."""
    from_ = value.type
    if from_ == kind:
        return value
    if from_ is not None and not _possible(from_, kind):
        raise SqlError(f"{from_} cannot be CAST to {kind}", at)
    return Rendered(converted(value.text, from_, kind), kind)


def converted(text: str, from_: SqlType | None, kind: SqlType) -> str:
    """Return a value of one type as another."""
    return text if from_ == kind else once([text], lambda given: _converted(given[0], from_, kind))


def _converted(text: str, from_: SqlType | None, kind: SqlType) -> str:
    if from_ is None:
        return f"CAST({text} AS {kind.spark})"
    if kind == VARCHAR:
        return as_text(text, from_)
    if from_ == VARCHAR:
        return from_text(text, kind)
    if kind.inner and from_.name == kind.name:
        return _inside(text, from_, kind)
    if from_ == TIMESTAMP and kind == TIME:
        return f"CAST(pmod(unix_millis({text}), {_DAY_MS}) AS INT)"
    if from_ == TIMESTAMP and kind == BIGINT:
        return f"unix_millis({text})"
    return f"CAST({text} AS {kind.spark})"


def _possible(from_: SqlType, kind: SqlType) -> bool:
    if kind == VARCHAR:
        return from_.name != "BYTES"
    if from_ == VARCHAR:
        return not kind.inner and kind.name != "BYTES"
    if from_.is_number and kind.is_number:
        return True
    if from_.inner and from_.name == kind.name:
        if from_.name != "STRUCT":
            return all(
                _possible(one, other) or one == other for one, other in zip(from_.inner, kind.inner, strict=True)
            )
        return True
    return (from_.name, kind.name) in {
        ("TIMESTAMP", "DATE"), ("TIMESTAMP", "TIME"), ("DATE", "TIMESTAMP"), ("TIMESTAMP", "BIGINT"),
    }  # fmt: skip


def as_text(text: str, kind: SqlType) -> str:
    """Return a value as ksqlDB shows it."""
    if kind == TIMESTAMP:
        return f"date_format({text}, \"yyyy-MM-dd'T'HH:mm:ss.SSS\")"
    if kind == TIME:
        return time_text(text)
    if kind.name == "ARRAY":
        shown = as_text("x", kind.inner[0])
        return f"concat('[', array_join(transform({text}, x -> coalesce({shown}, 'null')), ', '), ']')"
    if kind.name == "MAP":
        shown = as_text("e.value", kind.inner[1])
        pairs = f"transform(map_entries({text}), e -> concat(CAST(e.key AS STRING), '=', coalesce({shown}, 'null')))"
        return f"concat('{{', array_join({pairs}, ', '), '}}')"
    if kind.name == "STRUCT":
        fields = ", ".join(
            f"concat('{name}=', coalesce({as_text(f'{text}.{quote(name)}', each)}, 'null'))"
            for name, each in zip(kind.fields, kind.inner, strict=True)
        )
        return f"IF({text} IS NULL, NULL, concat('Struct{{', concat_ws(',', {fields}), '}}'))"
    if kind.name == "DECIMAL" and kind.scale > _PLAIN_SCALE_MAX:
        return f"replace(format_number({text}, {kind.scale}), ',', '')"
    return f"CAST({text} AS STRING)"


def from_text(text: str, kind: SqlType) -> str:
    """Return text as a value; NULL for what it does not say."""
    if kind.name == "BOOLEAN":
        return f"(lower(trim({text})) IN ({_TRUE}))"
    if kind.is_time:
        return time_of(text, kind)
    return f"try_cast({text} AS {kind.spark})"


def _inside(text: str, from_: SqlType, kind: SqlType) -> str:
    """Return a collection as another type. One part that cannot be converted makes all of it NULL, as in ksqlDB."""
    if from_.name == "STRUCT":
        return _struct(text, from_, kind)
    if from_.name == "ARRAY":
        each = converted("x", from_.inner[0], kind.inner[0])
        if not _may_fail(from_.inner[0], kind.inner[0]):
            return f"transform({text}, x -> {each})"
        pairs = f"transform({text}, x -> struct({each} AS v, x IS NULL AS n))"
        found = "IF(exists(p, e -> e.v IS NULL AND NOT e.n), NULL, transform(p, e -> e.v))"
        return f"transform(array({pairs}), p -> {found})[0]"
    values = converted("v", from_.inner[1], kind.inner[1])
    if not _may_fail(from_, kind):
        changed = f"transform_values({text}, (k, v) -> {values})"
        if from_.inner[0] == kind.inner[0]:
            return changed
        return f"transform_keys({changed}, (k, v) -> {converted('k', from_.inner[0], kind.inner[0])})"
    key, value = converted("x.key", from_.inner[0], kind.inner[0]), converted("x.value", from_.inner[1], kind.inner[1])
    pairs = f"transform(map_entries({text}), x -> struct({key} AS k, {value} AS v, x.value IS NULL AS n))"
    entries = "map_from_entries(transform(p, e -> struct(e.k AS k, e.v AS v)))"
    found = f"IF(exists(p, e -> e.k IS NULL OR (e.v IS NULL AND NOT e.n)), NULL, {entries})"
    return f"transform(array({pairs}), p -> {found})[0]"


def _struct(text: str, from_: SqlType, kind: SqlType) -> str:
    there = dict(zip(from_.fields, from_.inner, strict=True))
    fields, wrong = [], [f"{text} IS NULL"]
    for name, each in zip(kind.fields, kind.inner, strict=True):
        found = f"CAST(NULL AS {each.spark})"
        if name in there:
            given = f"{text}.{quote(name)}"
            found = converted(given, there[name], each)
            if _may_fail(there[name], each):
                wrong.append(f"(s.{quote(name)} IS NULL AND {given} IS NOT NULL)")
        fields.append(f"{text_of(name)}, {found}")
    found = f"named_struct({', '.join(fields)})"
    if len(wrong) == 1:
        return f"IF({wrong[0]}, NULL, {found})"
    return f"transform(array({found}), s -> IF({' OR '.join(wrong)}, NULL, s))[0]"


def _may_fail(from_: SqlType, kind: SqlType) -> bool:
    """Return True if a value of a type may be none of the other."""
    if from_ == kind or kind == VARCHAR:
        return False
    if kind.inner and from_.name == "STRUCT":
        there = dict(zip(from_.fields, from_.inner, strict=True))
        return any(name in there and _may_fail(there[name], each)
                   for name, each in zip(kind.fields, kind.inner, strict=True))  # fmt: skip
    if kind.inner:
        return any(_may_fail(one, other) for one, other in zip(from_.inner, kind.inner, strict=True))
    return kind.name == "DECIMAL" or (from_ == VARCHAR and kind.name != "BOOLEAN")


# --- what happens by itself


def common(values: Sequence[Rendered], at: Position, what: str) -> SqlType | None:
    """Return the type that holds all values; texts written among numbers are read as numbers. Raises SqlError."""
    found: SqlType | None = None
    texts = [each for each in values if literal_of(each) is not None]
    others = [each for each in values if each.type is not None and each not in texts]
    if texts and others and all(each.type != VARCHAR for each in others):
        for each in others:
            found = _wider(found, each.type, at, what)
        if found is not None and found.is_number:
            for each in texts:
                found = _wider(found, _number_in(literal_of(each) or "", at, what), at, what)
        return found
    for each in values:
        found = _wider(found, each.type, at, what)
    return found


def _wider(one: SqlType | None, other: SqlType | None, at: Position, what: str) -> SqlType | None:
    found = wider(one, other)
    if found is None and one is not None and other is not None:
        raise SqlError(f"{what} of different types: {one} and {other}", at)
    return found


def _number_in(text: str, at: Position, what: str) -> SqlType:
    try:
        float(text)
    except ValueError:
        raise SqlError(f"{what} of different types: {text!r} is not a number", at) from None
    digits = text.strip().lstrip("+-")
    if digits.isdigit():
        return SqlType("INT") if int(digits) < 2**31 else BIGINT
    whole, _, rest = digits.partition(".")
    return (
        SqlType("DOUBLE")
        if "e" in digits.lower()
        else decimal_of(max(1, len(whole.lstrip("0")) + len(rest)), len(rest))
    )


def aligned(values: Sequence[Rendered], at: Position, what: str) -> tuple[list[str], SqlType | None]:
    """Return values brought to their common type, and the type."""
    kind = common(values, at, what)
    if kind is None:
        return [each.text for each in values], None
    return [each.text if each.type == kind else converted(each.text, each.type, kind) for each in values], kind


def comparable(left: Rendered, right: Rendered, operator: str, at: Position) -> tuple[str, str]:
    """Return two values that Spark compares as ksqlDB does. Raises SqlError for types that cannot be compared."""
    one, other = left.type, right.type
    if one is not None and other is not None and one.name == other.name and one.inner:
        kind = wider(one, other) or one
        pair = (converted(left.text, one, kind), converted(right.text, other, kind))
        first, second = (once([each], lambda given: distinguishable(given[0], kind)) for each in pair)
        return first, second
    if one is None or other is None or one.name == other.name or (one.is_number and other.is_number):
        return left.text, right.text
    for value, text, swapped in ((left, right, False), (right, left, True)):
        read = _read(value, text, operator, at)
        if read is not None:
            return (read, value.text) if swapped else (value.text, read)
    if {one, other} == {DATE, TIMESTAMP}:
        return f"CAST({left.text} AS TIMESTAMP)", f"CAST({right.text} AS TIMESTAMP)"
    raise SqlError(f"{operator} cannot compare {one} with {other}", at)


def compared(left: Rendered, right: Rendered, operator: str, at: Position) -> tuple[str, str]:
    """Return two values to compare by =, <>, <, <=, > or >=; what Java compares with nothing is NULL.

    NaN is not equal, not larger and not smaller; a DOUBLE that no DECIMAL is cannot be compared with one.
    """
    one, other = comparable(left, right, operator, at)
    is_exact = any(each.type is not None and each.type.name == "DECIMAL" for each in (left, right))
    return _number(one, left, is_exact=is_exact), _number(other, right, is_exact=is_exact)


def _number(text: str, value: Rendered, *, is_exact: bool) -> str:
    if value.type != DOUBLE or text != value.text or _LITERAL.fullmatch(text):
        return text
    found = f"nanvl({text}, NULL)"
    return f"nullif(nullif({found}, double('Infinity')), double('-Infinity'))" if is_exact else found


def distinct_numbers(one: Rendered, other: Rendered) -> str:
    """Return IS DISTINCT FROM of DOUBLEs, in which NaN is distinct from NULL only."""

    def found(given: Sequence[str]) -> str:
        left, right = given
        may_be = [text for text, each in zip(given, (one, other), strict=True)
                  if each.type == DOUBLE and not _LITERAL.fullmatch(each.text)]  # fmt: skip
        if not may_be:
            return f"({left} IS DISTINCT FROM {right})"
        is_null = " OR ".join(f"{each} IS NULL" for each in given if [each] != may_be)
        is_nan = " OR ".join(f"isnan({each})" for each in may_be)
        return f"IF({is_nan}, {is_null}, {left} IS DISTINCT FROM {right})"

    return once([one.text, other.text], found)


def incomparable(left: Rendered, right: Rendered) -> str:
    """Return where two values that are there cannot be compared: a text that is no time, NaN with a DECIMAL."""
    for value, other in ((left, right), (right, left)):
        if value.type is None or other.type is None:
            continue
        given = " AND ".join(f"{each.text} IS NOT NULL" for each in (value, other) if literal_of(each) is None)
        if value.type.is_time and other.type == VARCHAR and not _says(literal_of(other), value.type):
            return f"({given} AND {from_text(other.text, value.type)} IS NULL)"
        if value.type.name == "DECIMAL" and other.type == DOUBLE and not _LITERAL.fullmatch(other.text):
            return f"({given} AND {is_no_number(other.text)})"
    return NEVER


def _says(written: str | None, kind: SqlType) -> bool:
    """Return True for a text that is known to be a time: others are read as a query runs."""
    if written is None:
        return False
    try:
        if kind == TIME:
            time.fromisoformat(written)
        else:
            date.fromisoformat(f"{written}-01-01"[:10] if len(written) in (4, 7) else written[:10])
            if len(written) > 10:
                datetime.fromisoformat(written)
    except ValueError:
        return False
    return True


def _read(value: Rendered, text: Rendered, operator: str, at: Position) -> str | None:
    """Return a text in the type of the value that it is compared with; None if it is not compared as such."""
    kind = value.type
    if text.type != VARCHAR or kind is None:
        return None
    if kind.is_time:
        return from_text(text.text, kind)
    written = literal_of(text)
    if written is None:
        return None
    if kind == BIGINT and "unix_millis(" in value.text:  # ROWTIME and the bounds of windows
        return f"unix_millis({text_as_timestamp(text.text)})"
    if not is_text_of(written, kind):
        kinds = "number" if kind.is_number else "truth value"
        raise SqlError(f"{operator} cannot compare {kind} with {written!r}, which is no {kinds}", at)
    if kind.name == "BOOLEAN":
        return _boolean_in(written)
    if kind.is_number:
        return from_text(text.text, wider(kind, _number_in(written, at, "")) or kind)
    return None


def is_text_of(written: str, kind: SqlType) -> bool:
    """Return False for a text that is no number, or no truth value, where one of the type is compared with it."""
    if kind.is_number:
        try:
            _number_in(written, START, "")
        except SqlError:
            return False
    return kind.name != "BOOLEAN" or bool(_boolean_in(written))


def _boolean_in(written: str) -> str:
    """Return a text among BOOLEANs, of which ksqlDB takes the first letters, as one; empty for any other text."""
    low = written.strip().lower()
    for found, words in (("TRUE", ("true", "yes")), ("FALSE", ("false", "no"))):
        if low and any(each.startswith(low) for each in words):
            return found
    return ""
