"""A record as a line of JSON: what `consume --json` prints, `produce --json` reads, and the console exports. Pure."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from odradek.errors import ErrorCode, KafkaError

_FIELDS = frozenset(
    {"topic", "partition", "offset", "timestamp_ms", "key", "key_base64", "value", "value_base64", "headers"}
)


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
