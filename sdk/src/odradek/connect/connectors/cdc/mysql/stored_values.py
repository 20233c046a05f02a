"""Values that the binary log has in the form in which they are stored, as the text that a query gives.

UUID      16 bytes, of versions 1 to 5 with the parts in reverse order, the node first: so are they sorted by time
INET4     4 bytes      INET6    16 bytes      JSON    parsed by rows.py
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

_PARTS = 12, 10, 8, 6, 0  # where time_low, time_mid, time_hi, the clock and the node begin in the stored form
_SIZES = 4, 2, 2, 2, 6
_VARIANT = 0x80
_NEW_VERSIONS = 0x60
_MAPPED = b"\0" * 10 + b"\xff\xff"
_COMPATIBLE = b"\0" * 12


def uuid_text(data: bytes) -> str:
    """Return MariaDB's text of a stored UUID."""
    is_reversed = bool(data[6] & _VARIANT) and 0 < data[8] < _NEW_VERSIONS
    if is_reversed:
        data = b"".join(data[at : at + size] for at, size in zip(_PARTS, _SIZES, strict=True))
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def inet4_text(data: bytes) -> str:
    """Return the text of an address of four bytes."""
    return ".".join(map(str, data))


def inet6_text(data: bytes) -> str:
    """Return MariaDB's text of an address of 16 bytes: its longest run of zeros is left out."""
    tail = ""
    if data.startswith(_MAPPED) or (data.startswith(_COMPATIBLE) and data[12:14] != b"\0\0"):
        tail = inet4_text(data[12:])
        data = data[:12]
    words = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
    begin, end = _longest_zeros(words)
    shown = [format(word, "x") for word in words]
    parts = [*shown, *([tail] if tail else [])]
    if begin == end:
        return ":".join(parts)
    return ":".join(parts[:begin]) + "::" + ":".join(parts[end:])


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    best = (0, 0)
    begin = 0
    while begin < len(words):
        end = begin
        while end < len(words) and words[end] == 0:
            end += 1
        if end - begin > best[1] - best[0]:
            best = (begin, end)
        begin = max(end, begin + 1)
    return best


def json_text(value: Any) -> str:
    """Return MySQL's text of a stored JSON document."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json_text(key)}: {json_text(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(json_text(element) for element in value) + "]"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float):
        return repr(value).replace("e+", "e")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        value = value.isoformat(" ", "microseconds")
    return json.dumps(value, ensure_ascii=False, default=str)
