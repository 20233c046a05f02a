"""Formats of records on the command line, and names of offsets: pure.

Formats are kcat's:

    %s value   %k key   %h headers (name=value,...)   %t topic   %p partition   %o offset   %T timestamp in ms
    %S length of the value, %K of the key: -1 for null      %% a percent sign      \\n \\r \\t \\\\ \\xHH

Offsets: `earliest`, `latest`, a number, -N (N before the end), @TIME (ms since the epoch, or ISO 8601, in UTC unless
the time has a zone).
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from odradek.errors import ErrorCode, KafkaError

_TOKEN = re.compile(rb"%(.)|\\(x[0-9a-fA-F]{2}|.)|[^%\\]+|%$|\\$", re.DOTALL)
_FIELDS = frozenset(
    {"topic", "partition", "offset", "timestamp_ms", "key", "key_base64", "value", "value_base64", "headers"}
)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}
_PARTS: dict[bytes, Callable[[Any], bytes]] = {
    b"s": lambda record: record.value or b"",
    b"k": lambda record: record.key or b"",
    b"h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
    b"t": lambda record: record.topic.encode(),
    b"p": lambda record: b"%d" % record.partition,
    b"o": lambda record: b"%d" % record.offset,
    b"T": lambda record: b"%d" % record.timestamp_ms,
    b"S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
    b"K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
    b"%": lambda record: b"%",
}


def formatter(text: str) -> Callable[[Any], bytes]:
    """Return a function that formats a record. Raises KafkaError(INVALID_CONFIG) for an unknown token."""
    parts: list[Callable[[Any], bytes]] = []
    for match in _TOKEN.finditer(text.encode()):
        token, escape = match.groups()
        if token is not None and token in _PARTS:
            parts.append(_PARTS[token])
        elif escape is not None and escape in _ESCAPES:
            parts.append(_constant(_ESCAPES[escape]))
        elif escape is not None and escape[:1] == b"x" and len(escape) == 3:
            parts.append(_constant(bytes([int(escape[1:], 16)])))
        elif token is None and escape is None and match[0] not in (b"%", b"\\"):
            parts.append(_constant(match[0]))
        else:
            known = " ".join(f"%{name.decode()}" for name in _PARTS)
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown token {match[0].decode()!r} in --format; use {known}")
    return lambda record: b"".join([part(record) for part in parts])


def _constant(data: bytes) -> Callable[[Any], bytes]:
    return lambda record: data


def as_json(record: Any) -> bytes:
    """Return a record as a line that `produce --json` reads back, byte for byte."""
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_shown("key", record.key),
        **_shown("value", record.value),
    }
    if record.headers:
        shown["headers"] = [_shown_header(name, value) for name, value in record.headers]
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _shown(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def _shown_header(name: str, data: bytes | None) -> list[str | None]:
    (field, text), *_ = _shown("value", data).items()
    return [name, text] if field == "value" else [name, text, "base64"]


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """A record read from a line of JSON."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int | None


def from_json(line: bytes) -> JsonRecord:
    """Read `{"key": ..., "value": ..., "headers": [[name, value], ...], "timestamp_ms": ...}`; all fields are optional.

    A value that is not a string is written as JSON. Bytes that are not UTF-8 are in `key_base64`, `value_base64`, and
    in headers `[name, value, "base64"]`. The fields `topic`, `partition` and `offset` are ignored.

    Raises KafkaError(INVALID_RECORD), also for an unknown field: a value under a wrong name would become a tombstone.
    """
    try:
        given = json.loads(line)
        if not isinstance(given, dict):
            raise ValueError("it is not an object")
        if unknown := sorted(given.keys() - _FIELDS):
            raise ValueError(f"unknown field {unknown[0]!r}: use {', '.join(sorted(_FIELDS))}")
        pairs = given.get("headers") or []
        pairs = pairs.items() if isinstance(pairs, dict) else pairs
        timestamp_ms = given.get("timestamp_ms")
        return JsonRecord(
            _field(given, "key"),
            _field(given, "value"),
            [_header(*pair) for pair in pairs],
            None if timestamp_ms is None else int(timestamp_ms),
        )
    except (ValueError, TypeError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"invalid record in JSON ({error}): {line[:60]!r}") from error


def _field(given: dict[str, Any], name: str) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    if encoded is None:
        return _bytes(given.get(name))
    if given.get(name) is not None:
        raise ValueError(f"it has both {name} and {name}_base64")
    return b64decode(encoded, validate=True)


def _header(name: Any, value: Any = None, encoding: str | None = None) -> tuple[str, bytes | None]:
    if encoding is None:
        return str(name), _bytes(value)
    if encoding != "base64":
        raise ValueError(f"a header may have the encoding base64 or none, not {encoding!r}")
    return str(name), b64decode(value, validate=True)


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()


def parse_header(text: str) -> tuple[str, bytes | None]:
    """Parse `name=value`; `name` alone is null. Raises KafkaError(INVALID_CONFIG)."""
    name, found, value = text.partition("=")
    if not name:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid header {text!r}: use name=value")
    return name, value.encode() if found else None


@dataclass(frozen=True, slots=True)
class Place:
    """An offset in each partition of a topic, by name."""

    kind: str  # earliest | latest | offset | from_end | time
    number: int = 0  # the offset, the records before the end, or ms since the epoch


def parse_place(text: str, option: str) -> Place:
    """Parse the name of an offset. Raises KafkaError(INVALID_CONFIG) that names the option."""
    if text in ("earliest", "beginning"):
        return Place("earliest")
    if text in ("latest", "end"):
        return Place("latest")
    if re.fullmatch(r"-?\d+", text):
        number = int(text)
        return Place("from_end", -number) if number < 0 else Place("offset", number)
    if text.startswith("@"):
        return Place("time", parse_time(text[1:], option))
    raise KafkaError(
        ErrorCode.INVALID_CONFIG, f"{option} must be earliest, latest, an offset, -N or @TIME, not {text!r}"
    )


def parse_time(text: str, option: str) -> int:
    """Return milliseconds since the epoch, given as a number or in ISO 8601. Raises KafkaError(INVALID_CONFIG)."""
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{option}: invalid time {text!r}: use ms since the epoch, or 2026-11-21T09:30:00"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def resolve(
    place: Place, begins: dict[Any, int], ends: dict[Any, int], at_time: dict[Any, int | None]
) -> dict[Any, int]:
    """Return the offset of a place in each partition, within the bounds of the log.

    Args:
        at_time: for a place by time: the first offset at or after it, None if there is none.
    """
    found = {}
    for partition, end in ends.items():
        if place.kind == "earliest":
            offset = begins[partition]
        elif place.kind == "latest":
            offset = end
        elif place.kind == "offset":
            offset = place.number
        elif place.kind == "from_end":
            offset = end - place.number
        else:
            by_time = at_time.get(partition)
            offset = end if by_time is None else by_time
        found[partition] = max(begins[partition], min(offset, end))
    return found
