"""The part of a topic that a filter can keep, from the filter that DuckDB pushes down. Pure.

DuckDB gives a filter as a `pyarrow.compute.Expression`, which cannot be taken apart, but is written unambiguously:

    ((((offset >= 5) and (partition == 1)) and (timestamp > 2026-11-22 10:00:00.000000Z)) and ...

Only comparisons with a literal that must all hold narrow anything: those joined by `and` from the outside. What is not
understood narrows nothing, and the filter is applied to every row that is read, so this may only leave out what the
filter rejects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from odradek.spark.source.pushdown import Condition, Narrowing

_COMPARISON = re.compile(r"\((offset|partition|timestamp) (==|>=|<=|>|<) ([^()]+)\)")
_ANY_COMPARISON = re.compile(r"\((\w+) (==|>=|<=|>|<) ([^()]+)\)")
_ONE_OF = re.compile(
    r"(?:if_else\(is_valid\((?P<valid>offset|partition)\), )?is_in\((?P<name>offset|partition), "
    r"\{value_set=int(?:32|64):\[(?P<values>[\s\d,-]*)\], null_matching_behavior=\w+\}\)(?:, null\[bool\]\))?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def narrowing_of(filter_text: str) -> Narrowing:
    """Return what a filter, written as text, can keep of a topic."""
    found = Narrowing()
    for part in _conjuncts(filter_text):
        found = _narrowed(found, part)
    return found


def conditions_of(filter_text: str) -> list[Condition]:
    """Return the comparisons with a number, a text or a time that must hold."""
    found = []
    for part in _conjuncts(filter_text):
        match = _ANY_COMPARISON.fullmatch(part)
        value = None if match is None else _literal(match[3])
        if match is not None and value is not None:
            found.append(Condition(match[1], match[2], value))
    return found


def _literal(text: str) -> Any:
    """Return a literal as Arrow writes it; None for what is not certain."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    if re.fullmatch(r'"[^"\\]*"', text):
        return text[1:-1]
    try:
        at = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def names_in(filter_text: str, names: Iterable[str]) -> list[str]:
    """Return the columns that a filter may need: those whose names it has, perhaps in a text."""
    return [name for name in names if name in filter_text]


def _conjuncts(text: str) -> list[str]:
    """Split `((a and b) and c)` into a, b and c."""
    text = text.strip()
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else ""
    depth, at, quote = 0, 0, False
    while at < len(inner):
        letter = inner[at]
        if letter == '"' and (at == 0 or inner[at - 1] != "\\"):
            quote = not quote
        elif not quote:
            depth += (letter in "([{") - (letter in ")]}")
            if depth == 0 and inner.startswith(" and ", at):
                return [*_conjuncts(inner[:at]), *_conjuncts(inner[at + 5 :])]
        at += 1
    return [text]


def _narrowed(found: Narrowing, part: str) -> Narrowing:
    comparison = _COMPARISON.fullmatch(part)
    if comparison is None:
        return _among(found, part)
    name, sign, literal = comparison.groups()
    if name == "timestamp":
        at = _milliseconds(literal)
        if at is None or sign not in ("==", ">", ">="):
            return found
        return replace(found, timestamp_ms=at if found.timestamp_ms is None else max(found.timestamp_ms, at))
    if re.fullmatch(r"-?\d+", literal) is None:
        return found
    value = int(literal)
    low = {"==": value, ">=": value, ">": value + 1}.get(sign)
    end = {"==": value + 1, "<": value, "<=": value + 1}.get(sign)
    if name == "partition":
        return _partitions(found, {value}) if sign == "==" else found
    if low is not None:
        found = replace(found, first_offset=max(found.first_offset, low))
    if end is not None:
        found = replace(found, end_offset=end if found.end_offset is None else min(found.end_offset, end))
    return found


def _among(found: Narrowing, part: str) -> Narrowing:
    """Narrow by `IN (...)`; DuckDB wraps it against nulls."""
    match = _ONE_OF.fullmatch(part)
    values = [int(each) for each in re.findall(r"-?\d+", match["values"])] if match is not None else []
    if match is None or not values:
        return found
    if match["name"] == "partition":
        return _partitions(found, set(values))
    end = max(values) + 1
    return replace(
        found,
        first_offset=max(found.first_offset, min(values)),
        end_offset=end if found.end_offset is None else min(found.end_offset, end),
    )


def _partitions(found: Narrowing, values: set[int]) -> Narrowing:
    return replace(found, partitions=frozenset(values if found.partitions is None else found.partitions & values))


def _milliseconds(literal: str) -> int | None:
    """Return a timestamp as Arrow writes it, `2026-11-22 10:00:00.000000Z`, rounded down; None for other text."""
    try:
        at = datetime.fromisoformat(literal.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return None if at.tzinfo is None else (at - _EPOCH) // timedelta(milliseconds=1)
