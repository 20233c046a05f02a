"""The text of a request -> its statements, each with its own text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.sql.parse import parse, substituted
from odradek.sql.position import Position
from odradek.sql.syntax import Statement


def statements_of(text: str, variables: Mapping[str, Any], *, substitutes: bool = True) -> list[tuple[Statement, str]]:
    """Return the statements of a request.

    Args:
        variables: values of ${name}, as of the DEFINEs of the client's session.
        substitutes: False leaves ${name} as it is.

    Raises:
        SqlError: the text cannot be parsed.
    """
    if substitutes:
        text = substituted(text, {name.upper(): str(value) for name, value in variables.items()})
    found = parse(text, substitutes=False)
    starts = [_offset(text, each.at) for each in found]
    ends = [*starts[1:], len(text)] if starts else []
    return [(each, _trimmed(text[start:end])) for each, start, end in zip(found, starts, ends, strict=True)]


def _offset(text: str, at: Position) -> int:
    """Return the index of a position in a text."""
    start = 0
    for _ in range(at.line - 1):
        start = text.index("\n", start) + 1
    return start + at.column - 1


def _trimmed(text: str) -> str:
    """Return a statement that ends with a semicolon. A comment after it stays: it may contain one, too."""
    text = text.rstrip()
    return text if text.endswith(";") else f"{text}\n;" if "--" in text else f"{text};"
