"""Parts of JSON as text, as Jackson writes them: numbers with all their digits, 1.50 as 1.50 and 1e5 as 1E+5.

Spark reads such numbers as DOUBLEs.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

_STEP = re.compile(r"\.([\w:@]+)|\[(\w+)\]|\[\"((?:[^\"\\]|\\[\"\\])*)\"\]")
_INDEX = re.compile(r"[+-]?\d{1,9}")


class _Absent(Exception):
    """There is no such part, or the text is no JSON."""


def json_field(text: str | None, path: str | None) -> str | None:
    """Return the part of a JSON text at a path such as `$.a[1]["b c"]`: EXTRACTJSONFIELD."""
    if text is None or path is None or not path.startswith("$"):
        return None
    try:
        node, at = _parsed(text), 1
        while at < len(path):
            step = _STEP.match(path, at)
            if step is None:
                return None
            node = _part(node, _name(step))
            at = step.end()
        return _shown(node)
    except _Absent:
        return None


def _name(step: re.Match[str]) -> str:
    quoted = step[3]
    return step[1] or step[2] or "" if quoted is None else re.sub(r"\\(.)", r"\1", quoted)


def _part(node: Any, name: str) -> Any:
    if isinstance(node, list):
        if not _INDEX.fullmatch(name) or not 0 <= int(name) < len(node):
            raise _Absent
        return node[int(name)]
    if not isinstance(node, dict) or name not in node:
        raise _Absent
    return node[name]


def _shown(node: Any) -> str:
    return node if isinstance(node, str) else _written(node)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)


def _parsed(text: str) -> Any:
    text = text.lstrip(" \t\r\n")
    try:  # what comes after the first value counts for nothing, as for Jackson's readTree
        node, end = _DECODER.raw_decode(text)
    except (ValueError, InvalidOperation, RecursionError):
        raise _Absent from None
    if isinstance(node, int | Decimal) and not text[end : end + 1].isspace() and end < len(text):
        raise _Absent
    return node


def _written(node: Any) -> str:
    """Return a part as JSON. What is deep enough to be read must not be too deep to be written: no recursion."""
    made: list[str] = []
    left: list[tuple[bool, Any]] = [(False, node)]  # from the last on: texts, and parts to be written
    while left:
        is_text, each = left.pop()
        if is_text:
            made.append(each)
        elif isinstance(each, Decimal):
            made.append(str(each))  # both write an exponent by the same rule, that of General Decimal Arithmetic
        elif isinstance(each, list | dict):
            made.append("[" if isinstance(each, list) else "{")
            left.append((True, "]" if isinstance(each, list) else "}"))
            left += reversed(_between(each))
        else:
            made.append(json.dumps(each, ensure_ascii=False))
    return "".join(made)


def _between(node: list[Any] | dict[str, Any]) -> list[tuple[bool, Any]]:
    """Return what stands between the brackets."""
    if isinstance(node, list):
        found = [part for each in node for part in ((True, ","), (False, each))]
    else:
        found = [
            part for name, each in node.items() for part in ((True, ","), (False, name), (True, ":"), (False, each))
        ]
    return found[1:]
