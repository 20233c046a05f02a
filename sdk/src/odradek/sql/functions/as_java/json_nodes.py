"""JSON as text, as Jackson reads and writes it for ksqlDB's functions: numbers with all their digits, 1.50 as 1.50.

An exponent is kept in the parts of a text, 1e5 as 1E+5, but not by JSON_CONCAT, which writes 100000. Spark reads such
numbers as DOUBLEs.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

_STEP = re.compile(r"\.([\w:@]+)|\[(\w+)\]|\[\"((?:[^\"\\]|\\[\"\\])*)\"\]")
_INDEX = re.compile(r"[+-]?\d{1,9}")
_DIGITS_MAX = 1_000  # of a number that Jackson reads
_SCALE_MAX = 9_999  # of one that it writes without an exponent
_ESCAPES = {
    **{number: f"\\u{number:04X}" for number in range(0x20)}, ord('"'): '\\"', ord("\\"): "\\\\", ord("\b"): "\\b",
    ord("\t"): "\\t", ord("\n"): "\\n", ord("\f"): "\\f", ord("\r"): "\\r",
}  # fmt: skip


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


def json_items(text: str | None) -> list[str] | None:
    """Return the elements of a JSON array, each as JSON: JSON_ITEMS."""
    node = _node(text)
    return [_written(each) for each in node] if isinstance(node, list) else None


def json_records(text: str | None) -> dict[str, str] | None:
    """Return the values of a JSON object, each as JSON but for texts: JSON_RECORDS."""
    node = _node(text)
    return {name: _shown(each) for name, each in node.items()} if isinstance(node, dict) else None


def json_concat(texts: list[str | None] | None) -> str | None:
    """Return objects as one object, other values as one array: JSON_CONCAT. None if one is no JSON."""
    if not texts or any(each is None for each in texts):
        return None
    try:
        nodes = [_parsed(each) for each in texts if each is not None]
        if len(nodes) == 1:
            return _written(nodes[0], plain=True)
        if all(isinstance(each, dict) for each in nodes):
            return _written({name: value for each in nodes for name, value in each.items()}, plain=True)
        items = [item for each in nodes for item in (each if isinstance(each, list) else [each])]
        return _written(items, plain=True)
    except _Absent:
        return None


def _node(text: str | None) -> Any:
    """Return what a JSON text says; None if it is none."""
    try:
        return None if text is None else _parsed(text)
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


def _exact(number: str) -> Decimal:
    found = Decimal(_short(number))
    return found.copy_abs() if found.is_zero() else found  # Java's BigDecimal has no -0.0


def _short(number: str) -> str:
    if len(number) > _DIGITS_MAX:
        raise ValueError("the number has too many digits")
    return number


_DECODER = json.JSONDecoder(
    parse_float=_exact, parse_int=lambda number: int(_short(number)), parse_constant=_no_constant
)


def _parsed(text: str) -> Any:
    text = text.lstrip(" \t\r\n")
    try:  # what comes after the first value counts for nothing, as for Jackson's readTree
        node, end = _DECODER.raw_decode(text)
    except (ValueError, InvalidOperation, RecursionError):
        raise _Absent from None
    if isinstance(node, int | Decimal) and not text[end : end + 1].isspace() and end < len(text):
        raise _Absent
    return node


def _written(node: Any, *, plain: bool = False) -> str:
    """Return a part as JSON. What is deep enough to be read must not be too deep to be written: no recursion.

    Args:
        plain: numbers are written without an exponent.
    """
    made: list[str] = []
    left: list[tuple[bool, Any]] = [(False, node)]  # from the last on: texts, and parts to be written
    while left:
        is_text, each = left.pop()
        if is_text:
            made.append(each)
        elif isinstance(each, Decimal):
            made.append(_number(each, plain=plain))
        elif isinstance(each, list | dict):
            made.append("[" if isinstance(each, list) else "{")
            left.append((True, "]" if isinstance(each, list) else "}"))
            left += reversed(_between(each))
        elif isinstance(each, str):
            made.append(f'"{each.translate(_ESCAPES)}"')
        else:
            made.append(json.dumps(each))
    return "".join(made)


def _number(value: Decimal, *, plain: bool) -> str:
    if not plain:
        return str(value)  # both write an exponent by the same rule, that of General Decimal Arithmetic
    if abs(int(value.as_tuple().exponent)) > _SCALE_MAX:
        raise _Absent
    return f"{value:f}"


def _between(node: list[Any] | dict[str, Any]) -> list[tuple[bool, Any]]:
    """Return what stands between the brackets."""
    if isinstance(node, list):
        found = [part for each in node for part in ((True, ","), (False, each))]
    else:
        found = [
            part for name, each in node.items() for part in ((True, ","), (False, name), (True, ":"), (False, each))
        ]
    return found[1:]
