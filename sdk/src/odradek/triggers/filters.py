"""Filter criteria as Lambda has them for Kafka: EventBridge's patterns over a record. Pure.

    {"value": {"city": ["Prague", {"prefix": "B"}], "price": [{"numeric": [">", 10, "<=", 20]}]}}
    {"key": [{"exists": true}]}            {"$or": [{"value": {...}}, {"headers": {"kind": ["order"]}}]}

`value` and `key` are JSON where they parse as an object or a list, else text; `headers` is an object of texts, `topic`,
`partition`, `offset` and `timestamp` are themselves. All names of a pattern must match (and), one rule of a list (or).
Rules: a text, number, boolean or null for equality; prefix, suffix (with equals-ignore-case), equals-ignore-case,
anything-but (of texts, numbers, prefix, suffix, wildcard, equals-ignore-case), numeric, exists, wildcard, cidr. A list
in the record matches if one of its elements does. Source: EventBridge user guide, "Comparison operators".
"""

from __future__ import annotations

import fnmatch
import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.record import Record

_FIELDS = ("value", "key", "headers", "topic", "partition", "offset", "timestamp")
_PATTERN_BYTES_MAX = 4_096
_WILDCARDS_DEPTH = 20
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
}


class _Missing:
    """A name that the record does not have."""


_MISSING = _Missing()


def check_pattern(text: str) -> None:
    """Raises KafkaError(INVALID_REQUEST) for a pattern that is malformed or too long."""
    if len(text.encode()) > _PATTERN_BYTES_MAX:
        raise _invalid(f"a filter may have at most {_PATTERN_BYTES_MAX} bytes")
    try:
        pattern = json.loads(text)
    except (ValueError, RecursionError):
        raise _invalid(f"a filter must be JSON: {text[:80]!r}") from None
    if not isinstance(pattern, dict) or not pattern:
        raise _invalid('a filter must be a JSON object, such as {"value": {"kind": ["order"]}}')
    unknown = [name for name in pattern if name not in (*_FIELDS, "$or")]
    if unknown:
        raise _invalid(f"a filter has no {unknown[0]!r}: use {', '.join(_FIELDS)} or $or")
    _check(pattern, 0)


def _check(pattern: Any, depth: int) -> None:
    if depth > _WILDCARDS_DEPTH:
        raise _invalid("a filter is nested too deeply")
    if isinstance(pattern, list):
        if not pattern:
            raise _invalid("a filter's list of rules cannot be empty")
        for rule in pattern:
            _check_rule(rule)
        return
    if not isinstance(pattern, dict):
        raise _invalid(f"in a filter, {pattern!r} must be in a list: [{json.dumps(pattern)}]")
    for name, inner in pattern.items():
        if name == "$or":
            if not isinstance(inner, list) or not all(isinstance(each, dict) and each for each in inner) or not inner:
                raise _invalid("$or of a filter must be a list of patterns")
            for each in inner:
                _check(each, depth + 1)
        else:
            _check(inner, depth + 1)


def _check_rule(rule: Any) -> None:
    if not isinstance(rule, dict):
        if isinstance(rule, list):
            raise _invalid("a filter's list of rules cannot contain a list")
        return
    if len(rule) != 1:
        raise _invalid(f"a filter's rule has one operator: {json.dumps(rule)}")
    [(operator, operand)] = rule.items()
    if operator not in _RULES:
        raise _invalid(f"unknown operator {operator!r} in a filter: use {', '.join(_RULES)}")
    try:
        _RULES[operator]("", operand)
        _RULES[operator](0, operand)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise _invalid(f"{operator} of a filter cannot be {json.dumps(operand)}") from None


def matches(patterns: Sequence[str], topic: str, partition: int, record: Record) -> bool:
    """Return True if one of the patterns matches the record, or there are none. The patterns have been checked."""
    if not patterns:
        return True
    view = _View(topic, partition, record)
    return any(_matches(_parsed(text), view) for text in patterns)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    return json.loads(text)


class _View(Mapping[str, Any]):
    """A record as patterns see it; what they do not name is not decoded."""

    def __init__(self, topic: str, partition: int, record: Record) -> None:
        self._topic, self._partition, self._record = topic, partition, record
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            self._found[name] = self._look(name)
        return self._found[name]

    def _look(self, name: str) -> Any:
        record = self._record
        match name:
            case "value" | "key":
                return _content(getattr(record, name))
            case "headers":
                return {key: (value or b"").decode("utf-8", "replace") for key, value in record.headers}
            case "topic":
                return self._topic
            case "partition":
                return self._partition
            case "offset":
                return record.offset
            case "timestamp":
                return record.timestamp_ms
        raise KeyError(name)

    def __iter__(self) -> Any:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)


def _content(data: bytes | None) -> Any:
    if data is None:
        return _MISSING
    text = data.decode("utf-8", "replace")
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _matches(pattern: Any, found: Any) -> bool:
    if isinstance(pattern, dict):
        return all(
            any(_matches(each, found) for each in inner) if name == "$or" else _matches(inner, _step(found, name))
            for name, inner in pattern.items()
        )
    values = found if isinstance(found, list) else [found]
    if not values:
        values = [_MISSING]
    return any(_holds(rule, value) for rule in pattern for value in values)


def _step(found: Any, name: str) -> Any:
    if isinstance(found, Mapping):
        return found.get(name, _MISSING)
    if isinstance(found, list):
        inner = [value for each in found if not isinstance(value := _step(each, name), _Missing)]
        return inner or _MISSING
    return _MISSING


def _holds(rule: Any, value: Any) -> bool:
    if isinstance(rule, dict):
        [(operator, operand)] = rule.items()
        try:
            return _RULES[operator](value, operand)
        except (TypeError, ValueError, AttributeError):
            return False
    return _equal(rule, value)


def _equal(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(value, bool):
        return wanted is value
    return (type(wanted) is type(value) and wanted == value) or (_both_numbers(wanted, value) and wanted == value)


def _both_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _affix(value: Any, operand: Any, test: Callable[[str, str], bool]) -> bool:
    if isinstance(operand, dict):
        return isinstance(value, str) and test(value.casefold(), operand["equals-ignore-case"].casefold())
    return isinstance(value, str) and test(value, operand + "")


def _numeric(value: Any, operand: list[Any]) -> bool:
    if len(operand) not in (2, 4):
        raise ValueError(operand)
    pairs = list(zip(operand[::2], operand[1::2], strict=True))
    if not all(sign in _COMPARE and _both_numbers(bound) for sign, bound in pairs):
        raise ValueError(operand)
    return _both_numbers(value) and all(_COMPARE[sign](value, bound) for sign, bound in pairs)


def _anything_but(value: Any, operand: Any) -> bool:
    if isinstance(value, _Missing):
        return False
    if isinstance(operand, dict):
        [(operator, inner)] = operand.items()
        if operator not in ("prefix", "suffix", "wildcard", "equals-ignore-case"):
            raise ValueError(operand)
        options = inner if isinstance(inner, list) else [inner]
        return isinstance(value, str) and not any(_RULES[operator](value, each) for each in options)
    options = operand if isinstance(operand, list) else [operand]
    if any(isinstance(each, dict | list) for each in options):
        raise ValueError(operand)
    return not any(_equal(each, value) for each in options)


def _exists(value: Any, operand: bool) -> bool:
    if not isinstance(operand, bool):
        raise TypeError(operand)
    return isinstance(value, _Missing) is not operand


@lru_cache(maxsize=256)
def _wildcard(pattern: str) -> re.Pattern[str]:
    """`*` stands for any text; nothing else is special."""
    if "**" in pattern:
        raise ValueError(pattern)
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]").replace("?", "[?]")))


def _cidr(value: Any, operand: str) -> bool:
    network = ipaddress.ip_network(operand, strict=False)
    try:
        return isinstance(value, str) and ipaddress.ip_address(value) in network
    except ValueError:
        return False


_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "prefix": lambda value, operand: _affix(value, operand, str.startswith),
    "suffix": lambda value, operand: _affix(value, operand, str.endswith),
    "equals-ignore-case": lambda value, operand: isinstance(value, str) and value.casefold() == operand.casefold(),
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
    "wildcard": lambda value, operand: bool(_wildcard(operand).match(value)) if isinstance(value, str) else False,
    "cidr": _cidr,
}


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
