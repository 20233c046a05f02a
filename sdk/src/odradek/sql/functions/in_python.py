"""The functions that Spark SQL cannot say, in Python. on_spark.py registers those that a plan names.

Spark sends their arguments as Arrow batches. Each takes and returns plain values; None in is None out, and a value
that cannot be computed is None.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote_plus, urlsplit

PREFIX = "ksql_"


def instr(text: str | None, wanted: str | None, position: int | None, occurrence: int | None) -> int | None:
    """Return where `wanted` is, from 1; a negative position searches backwards from the end; 0: nowhere."""
    if text is None or wanted is None or position is None or occurrence is None:
        return None
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


def group(text: str | None, pattern: str | None, number: int | None) -> str | None:
    """Return a group of the first match; None without a match or without such a group."""
    if text is None or pattern is None or number is None:
        return None
    found = re.search(pattern, text)
    return found.group(number) if found is not None and 0 <= number <= found.re.groups else None


def double_from_bytes(data: bytes | None) -> float | None:
    return struct.unpack(">d", data)[0] if data is not None and len(data) == 8 else None


def double_to_bytes(value: float | None) -> bytes | None:
    return None if value is None else struct.pack(">d", value)


def split_bytes(data: bytes | None, delimiter: bytes | None) -> list[bytes] | None:
    if data is None or delimiter is None:
        return None
    data, delimiter = bytes(data), bytes(delimiter)
    return data.split(delimiter) if delimiter else [bytes([each]) for each in data] or [b""]


def _url(part: Callable[[str, str | None], str | None]) -> Callable[[str | None, str | None], str | None]:
    def read(url: str | None, more: str | None) -> str | None:
        if url is None or re.search(r"[\s<>\"{}|\\^`]", url):
            return None
        try:
            return part(url, more)
        except ValueError:
            return None

    return read


def _fragment(url: str, _: str | None) -> str | None:
    return unquote_plus(urlsplit(url).fragment) if "#" in url else None


def _query(url: str, _: str | None) -> str | None:
    return unquote_plus(urlsplit(url).query) if "?" in url else None


def _parameter(url: str, name: str | None) -> str | None:
    found = [v for k, v in parse_qsl(urlsplit(url).query, keep_blank_values=True) if k == name]
    return found[0] if found else None


def _path(url: str, _: str | None) -> str | None:
    return unquote_plus(urlsplit(url).path)


def _host(url: str, _: str | None) -> str | None:
    host = urlsplit(url).netloc.rpartition("@")[2]
    return re.sub(r":\d*$", "", host) or None


def _protocol(url: str, _: str | None) -> str | None:
    return urlsplit(url).scheme or None


def url_port(url: str | None, _: str | None) -> int | None:
    try:
        return None if url is None or re.search(r"[\s<>\"{}|\\^`]", url) else urlsplit(url).port
    except ValueError:
        return None


# name: the function, and its result in Spark's DDL
IN_PYTHON: dict[str, tuple[Callable[..., object], str]] = {
    "ksql_instr": (instr, "INT"),
    "ksql_chr": (chr_, "STRING"),
    "ksql_chr_of_text": (chr_of_text, "STRING"),
    "ksql_group": (group, "STRING"),
    "ksql_double_from_bytes": (double_from_bytes, "DOUBLE"),
    "ksql_double_to_bytes": (double_to_bytes, "BINARY"),
    "ksql_split_bytes": (split_bytes, "ARRAY<BINARY>"),
    "ksql_url_fragment": (_url(_fragment), "STRING"),
    "ksql_url_query": (_url(_query), "STRING"),
    "ksql_url_parameter": (_url(_parameter), "STRING"),
    "ksql_url_path": (_url(_path), "STRING"),
    "ksql_url_host": (_url(_host), "STRING"),
    "ksql_url_protocol": (_url(_protocol), "STRING"),
    "ksql_url_port": (url_port, "INT"),
}
