"""Filter criteria as Lambda has them for Kafka: EventBridge's patterns (patterns/) over a record. Pure.

    {"value": {"city": ["Prague", {"prefix": "B"}], "price": [{"numeric": [">", 10, "<=", 20]}]}}
    {"key": [{"exists": true}]}            {"$or": [{"value": {...}}, {"headers": {"kind": ["order"]}}]}

`value` and `key` are JSON where they parse as an object or a list, white space around it or not, else text; `headers`
is an object of texts, `topic`, `partition`, `offset` and `timestamp` are themselves. All fields of a pattern must match
(and), by one rule of their list (or). A field in a list matches by one of the elements: all fields by the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.record import Record
from odradek.triggers.patterns.events import Fields, Literal, Object, fields_of, lie_together, parse
from odradek.triggers.patterns.rules import RESERVED, Rules, rules_of

_FIELDS = ("value", "key", "headers", "topic", "partition", "offset", "timestamp")
_PATTERN_BYTES_MAX = 4_096
_DEPTH_MAX = 20
_CASES_MAX = 1_000  # of a pattern whose $or are multiplied out
_OR_MIN = 2

Case = dict[str, Rules]
"""Rules by path, all of which must be fulfilled."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern as cases, of which one must hold, and the names in their paths."""

    cases: tuple[Case, ...]
    names: frozenset[str]


def check_pattern(text: str) -> None:
    """Raises KafkaError(INVALID_REQUEST) for a pattern that is malformed or too long."""
    if len(text.encode()) > _PATTERN_BYTES_MAX:
        raise _invalid(f"a filter may have at most {_PATTERN_BYTES_MAX} bytes")
    try:
        pattern = parse(text)
    except (ValueError, RecursionError):
        raise _invalid(f"a filter must be JSON: {text[:80]!r}") from None
    if not isinstance(pattern, Object) or not pattern:
        raise _invalid('a filter must be a JSON object, such as {"value": {"kind": ["order"]}}')
    unknown = [name for name, _ in pattern if name not in (*_FIELDS, "$or")]
    if unknown:
        raise _invalid(f"a filter has no {unknown[0]!r}: use {', '.join(_FIELDS)} or $or")
    try:
        _cases(pattern)
    except ValueError as error:
        raise _invalid(str(error)) from None


def matches(patterns: Sequence[str], topic: str, partition: int, record: Record) -> bool:
    """Return True if one of the patterns matches the record, or there are none. The patterns have been checked."""
    if not patterns:
        return True
    parsed = [_parsed(text) for text in patterns]
    fields = _fields(record, topic, partition, frozenset().union(*(pattern.names for pattern in parsed)))
    return any(_holds(case, fields) for pattern in parsed for case in pattern.cases)


def matches_event(pattern: str, event: str) -> bool:
    """Return True if a pattern matches an event in JSON, as EventBridge tells. Raises ValueError: one is malformed."""
    alternatives = _cases(parse(pattern))
    fields = fields_of(parse(event), _names(alternatives))
    return any(_holds(case, fields) for case in alternatives)


@lru_cache(maxsize=256)
def _parsed(text: str) -> _Pattern:
    cases = _cases(parse(text))
    return _Pattern(tuple(cases), _names(cases))


def _names(cases: Sequence[Case]) -> frozenset[str]:
    """Return the names of members below which a path may lie; one with dots may be that of a member, too."""
    parts = [path.split(".") for case in cases for path in case]
    return frozenset(
        ".".join(names[first:end])
        for names in parts
        for first in range(len(names))
        for end in range(first + 1, len(names) + 1)
    )


# --- patterns ---------------------------------------------------------------------------------------------------------


def _cases(pattern: Any) -> list[Case]:
    """Return the cases of a parsed pattern. Raises ValueError: what is wrong with it."""
    return _with_members([{}], pattern, "", 0, within_or=False)


def _with_members(cases: list[Case], pattern: Any, prefix: str, depth: int, *, within_or: bool) -> list[Case]:
    """Return cases with the fields of an object added to each."""
    if depth > _DEPTH_MAX:
        raise ValueError("a filter is nested too deeply")
    if not pattern:
        raise ValueError("an object of a filter cannot be empty")
    for name, inner in pattern:
        if name == "$or":
            cases = _alternatives(cases, inner, prefix, depth)
        elif within_or and name in RESERVED:
            raise ValueError(f"{name} is no field of a filter's $or: rules stand in a list")
        elif isinstance(inner, Object):
            cases = _with_members(cases, inner, f"{prefix}{name}.", depth + 1, within_or=within_or)
        elif isinstance(inner, list):
            rules = rules_of(inner)
            cases = [{**case, f"{prefix}{name}": rules} for case in cases]
        else:
            raise ValueError(f"in a filter, {name} must have an object, or its rules in a list")
    return cases


def _alternatives(cases: list[Case], options: Any, prefix: str, depth: int) -> list[Case]:
    is_list = isinstance(options, list) and not isinstance(options, Object) and len(options) >= _OR_MIN
    if not is_list or not all(isinstance(option, Object) for option in options):
        raise ValueError("$or of a filter must be a list of two objects or more")
    expanded = [case for option in options for case in _with_members(cases, option, prefix, depth + 1, within_or=True)]
    if len(expanded) > _CASES_MAX:
        raise ValueError(f"the $or of a filter make more than {_CASES_MAX:,} cases")
    return expanded


# --- records ----------------------------------------------------------------------------------------------------------


def _holds(case: Case, fields: Fields) -> bool:
    chains = []
    for path, rules in sorted(case.items()):  # fields of one list beside each other: fewer elements to hold in mind
        values = fields.get(path, ())
        matching = {chain for value, chain in values if rules.holds(value)}
        if matching:
            chains.append(matching)
        elif values or not rules.allows_absence:
            return False
    return lie_together(chains)


def _fields(record: Record, topic: str, partition: int, names: frozenset[str]) -> Fields:
    """Return the fields of a record that have these names; what has none of them is not decoded."""
    members = list(_members(record, topic, partition, names))
    try:
        return fields_of(members, names)
    except RecursionError:
        return fields_of([member for member in members if isinstance(member[1], str)], names)


def _members(record: Record, topic: str, partition: int, names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    plain: Mapping[str, Any] = {
        "topic": topic, "partition": Literal(partition), "offset": Literal(record.offset),
        "timestamp": Literal(record.timestamp_ms),
    }  # fmt: skip
    for name in _FIELDS:
        if name in names:
            if name in plain:
                yield name, plain[name]
            elif name != "headers":
                content = _content(getattr(record, name))
                if content is not None:
                    yield name, content
    if "headers" in names:
        yield "headers", Object((key, (value or b"").decode("utf-8", "replace")) for key, value in record.headers)


def _content(data: bytes | None) -> Any:
    if data is None:
        return None
    text = data.decode("utf-8", "replace")
    if text.lstrip(" \t\r\n")[:1] in ("{", "["):
        try:
            return parse(text)
        except (ValueError, RecursionError):
            return text
    return text


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
