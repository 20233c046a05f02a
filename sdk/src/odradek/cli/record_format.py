"""Formats of records on the command line: pure. They are kcat's:

%s value   %k key   %h headers (name=value,...)   %t topic   %p partition   %o offset   %T timestamp in ms
%S length of the value, %K of the key: -1 for null      %% a percent sign      \\n \\r \\t \\\\ \\xHH
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from odradek.errors import ErrorCode, KafkaError

_TOKEN = re.compile(rb"%(.)|\\(x[0-9a-fA-F]{2}|.)|[^%\\]+|%$|\\$", re.DOTALL)
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
            tokens = " ".join(f"%{name.decode()}" for name in _PARTS)
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown token {match[0].decode()!r} in --format; use {tokens}")
    return lambda record: b"".join([part(record) for part in parts])


def _constant(data: bytes) -> Callable[[Any], bytes]:
    return lambda record: data
