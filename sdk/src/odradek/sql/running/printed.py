"""Records of a topic as PRINT shows them: keys and values as what they look like, a line each. Pure.

    JSON             an object or an array
    KAFKA_STRING     UTF-8; characters that a terminal obeys are written as \\uXXXX
    KAFKA_INT, KAFKA_BIGINT     4 or 8 bytes that are no text
    SCHEMA_REGISTRY  a zero, the id of a schema, and what only its format can read, in hexadecimal
    BYTES            anything else, in hexadecimal

The formats are told before the first record, from those that come with it, as in ksqlDB.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

_NUMBERS = {4: "KAFKA_INT", 8: "KAFKA_BIGINT"}
_SCHEMA_BYTES = 5  # a zero and the id
_NONE = "<null>"
Printed = tuple[str, str, str, int]  # time, key, value, partition


def format_of(data: bytes | None) -> str:
    """Return what a key or a value looks like; empty for none."""
    if data is None:
        return ""
    text = _text(data)
    if text is not None and text[:1] in ("{", "[") and _is_json(text):
        return "JSON"
    if text is not None and (len(data) not in _NUMBERS or text.isprintable()):
        return "KAFKA_STRING"
    if len(data) in _NUMBERS:
        return _NUMBERS[len(data)]
    return "SCHEMA_REGISTRY" if data[:1] == b"\0" and len(data) > _SCHEMA_BYTES else "BYTES"


def shown(data: bytes | None) -> str:
    """Return a key or a value as one line without control characters."""
    if data is None:
        return _NONE
    form = format_of(data)
    if form in _NUMBERS.values():
        return str(int.from_bytes(data, "big", signed=True))
    if form in ("JSON", "KAFKA_STRING"):
        return "".join(each if each.isprintable() else _escaped(each) for each in data.decode())
    if form == "SCHEMA_REGISTRY":
        return f"(schema {int.from_bytes(data[1:_SCHEMA_BYTES], 'big')}) 0x{data[_SCHEMA_BYTES:].hex()}"
    return f"0x{data.hex()}"


class Printer:
    """Turns rows of a PRINT plan (time, key and value in base64, partition) into what is shown."""

    def __init__(self) -> None:
        self._has_told = False

    def formats(self, rows: Sequence[Sequence[Any]]) -> list[str]:
        """Return what keys and values look like, before the first rows; nothing later."""
        if self._has_told or not rows:
            return []
        self._has_told = True
        return [f"{part} format: {_formats([_bytes(row[place]) for row in rows])}"
                for part, place in (("Key", 1), ("Value", 2))]  # fmt: skip

    def rows(self, rows: Sequence[Sequence[Any]]) -> list[Printed]:
        """Return rows with keys and values as texts."""
        return [(str(row[0]), shown(_bytes(row[1])), shown(_bytes(row[2])), int(row[3])) for row in rows]

    def lines(self, rows: Sequence[Sequence[Any]]) -> list[str]:
        """Return rows as ksqlDB's lines, with those of the formats before the first ones."""
        found = self.formats(rows)
        for time, key, value, partition in self.rows(rows):
            at = time.replace("-", "/").replace("T", " ").removesuffix("Z")
            found.append(f"rowtime: {at} Z, key: {key}, value: {value}, partition: {partition}")
        return found


def _formats(parts: Sequence[bytes | None]) -> str:
    found = sorted({format_of(each) for each in parts} - {""})
    return " or ".join(found) or "no data"


def _bytes(encoded: str | None) -> bytes | None:
    return None if encoded is None else base64.b64decode(encoded)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"
