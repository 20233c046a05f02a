"""The functions that Spark SQL cannot say, in Python. on_spark.py registers those that a plan names.

Spark sends their arguments as Arrow batches. Each takes and returns plain values; None in is None out, and a value
that cannot be computed is None.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from odradek.sql.functions.as_java.date_read import read_date, read_time
from odradek.sql.functions.as_java.date_shown import show_time
from odradek.sql.functions.as_java.json_nodes import json_concat, json_field, json_items, json_records
from odradek.sql.functions.patterns import can_replace, groups_of
from odradek.sql.functions.times import is_zone

PREFIX = "ksql_"


def instr(text: str | None, wanted: str | None, position: int | None, occurrence: int | None) -> int | None:
    """Return where `wanted` is, from 1; a negative position searches backwards from the end; 0: nowhere."""
    if position is None or occurrence is None:
        return None
    if text is None or wanted is None:
        return 0
    step = 1 if position >= 0 else -1
    at = position - 1 if position > 0 else len(text) + position if position < 0 else -1
    if at < 0:
        return 0
    for number in range(occurrence):
        at = text.find(wanted, at) if step > 0 else text.rfind(wanted, 0, at + len(wanted))
        if at < 0:
            return 0
        if number + 1 < occurrence:
            at += step
            if at < 0:
                return 0
    return at + 1 if occurrence > 0 else 0


def chr_(code: int | None) -> str | None:
    if code is None or not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return None
    return chr(code)


def chr_of_text(text: str | None) -> str | None:
    r"""Return a text that begins with \uXXXX, with all such codes as characters; two may be halves of one."""
    if text is None or not re.match(r"\\u.{4}", text, re.DOTALL) or re.search(r"\\u(?![0-9A-Fa-f]{4})", text):
        return None
    found = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda code: chr(int(code[1], 16)), text)
    try:
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:  # half of a character
        return None


def has_group(given: Mapping[str, Any]) -> bool | None:
    pattern, number = given["pattern"], given["group"]
    if pattern is None or number is None:
        return None
    groups = groups_of(pattern)
    return groups is not None and 0 <= number <= groups


def no_pattern(pattern: str | None) -> bool | None:
    return None if pattern is None else groups_of(pattern) is None


def no_replacement(given: Mapping[str, str | None]) -> bool | None:
    new, pattern = given["new"], given["pattern"]
    return None if new is None or pattern is None else not can_replace(new, pattern)


def no_zone(name: str | None) -> bool | None:
    return None if name is None else not is_zone(name)


def double_from_bytes(data: bytes | None) -> float | None:
    return struct.unpack(">d", data)[0] if data is not None and len(data) == 8 else None


def double_to_bytes(value: float | None) -> bytes | None:
    return None if value is None else struct.pack(">d", value)


def split_bytes(data: bytes | None, delimiter: bytes | None) -> list[bytes] | None:
    if data is None or delimiter is None:
        return None
    data, delimiter = bytes(data), bytes(delimiter)
    return data.split(delimiter) if delimiter else [bytes([each]) for each in data] or [b""]


# name: the function, and its result in Spark's DDL
IN_PYTHON: dict[str, tuple[Callable[..., object], str]] = {
    "ksql_instr": (instr, "INT"),
    "ksql_chr": (chr_, "STRING"),
    "ksql_chr_of_text": (chr_of_text, "STRING"),
    "ksql_read_date": (read_date, "INT"),
    "ksql_read_time": (read_time, "BIGINT"),
    "ksql_show_time": (show_time, "STRING"),
    "ksql_json_field": (json_field, "STRING"),
    "ksql_json_items": (json_items, "ARRAY<STRING>"),
    "ksql_json_records": (json_records, "MAP<STRING, STRING>"),
    "ksql_json_concat": (json_concat, "STRING"),
    "ksql_has_group": (has_group, "BOOLEAN"),
    "ksql_no_pattern": (no_pattern, "BOOLEAN"),
    "ksql_no_replacement": (no_replacement, "BOOLEAN"),
    "ksql_no_zone": (no_zone, "BOOLEAN"),
    "ksql_double_from_bytes": (double_from_bytes, "DOUBLE"),
    "ksql_double_to_bytes": (double_to_bytes, "BINARY"),
    "ksql_split_bytes": (split_bytes, "ARRAY<BINARY>"),
}
