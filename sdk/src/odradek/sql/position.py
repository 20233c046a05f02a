"""Positions in a script, and the error of this package.

    INVALID_REQUEST: orders.sql: line 3, column 8: orders has no column totl; did you mean total?
      3 | SELECT totl FROM orders EMIT CHANGES;
        |        ^^^^

Lines and columns count from 1. A tab counts as one column and is shown as one blank, so that the caret is aligned.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError

_SHOWN_MAX = 110  # characters of a line, around the position


@dataclass(frozen=True, slots=True)
class Position:
    """A piece of a script."""

    line: int  # from 1
    column: int  # from 1, in characters
    width: int = 1  # how many characters the caret underlines, at most to the end of the line


START = Position(1, 1)


class SqlError(KafkaError):
    """A statement that cannot be parsed, planned or run.

    Attributes:
        problem: the error and what to do, without the position.
        at: the position; None while it is unknown, and for errors without a position.
    """

    def __init__(
        self, problem: str, at: Position | None = None, *, code: ErrorCode = ErrorCode.INVALID_REQUEST
    ) -> None:
        super().__init__(code, problem)
        self.problem = problem
        self.at = at
        self._shown = problem

    def __str__(self) -> str:
        return f"{self.code.name}: {self._shown}"

    def located(self, source: str, name: str = "") -> SqlError:
        """Return the error with the line and a caret. Args: the script, and its file's name if any."""
        prefix = f"{name}: " if name else ""
        if self.at is None:
            self._shown = f"{prefix}{self.problem}"
        else:
            excerpt = _excerpt(source, self.at)
            self._shown = f"{prefix}line {self.at.line}, column {self.at.column}: {self.problem}{excerpt}"
        return self

    def __reduce__(self) -> tuple[type[SqlError], tuple[str, Position | None]]:
        return SqlError, (self.problem, self.at)


def _excerpt(source: str, at: Position) -> str:
    lines = source.split("\n")
    if not 1 <= at.line <= len(lines):
        return ""
    line = lines[at.line - 1].rstrip("\r").replace("\t", " ")
    start = max(0, at.column - 1 - _SHOWN_MAX * 2 // 3)
    shown = "".join(char if char.isprintable() else "?" for char in line[start : start + _SHOWN_MAX])
    column = min(at.column - 1 - start, len(shown))
    width = max(1, min(at.width, len(shown) - column))
    gutter = f"  {at.line} | "
    return f"\n{gutter}{shown}\n{' ' * (len(gutter) - 2)}| {' ' * column}{'^' * width}"
