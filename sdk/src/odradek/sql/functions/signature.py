"""A function: the number and the types of its arguments, and the Spark SQL that it becomes.

A function is written as a template, in which {0}, {1} ... are its arguments and {*} is all of them, or as Python that
renders it. A result is a type, the number of the argument whose type it has, or a function of the arguments' types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.sql.types import Rendered, SqlType

Types = Sequence[SqlType | None]
Result = SqlType | int | Callable[[Types], SqlType | None]
Render = Callable[[Sequence[Rendered]], Rendered]

ANY = 99  # arguments: as many as one likes
_FAMILIES = {
    "text": ("VARCHAR",),
    "number": ("INT", "BIGINT", "DECIMAL", "DOUBLE"),
    "integer": ("INT", "BIGINT"),
    "time": ("DATE", "TIME", "TIMESTAMP"),
    "array": ("ARRAY",),
    "map": ("MAP",),
    "struct": ("STRUCT",),
    "bytes": ("BYTES",),
    "boolean": ("BOOLEAN",),
}


class Mismatch(Exception):
    """An argument that a function does not take. Args: the problem, and the argument's number from 0."""

    def __init__(self, problem: str, number: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.number = number


@dataclass(frozen=True, slots=True)
class Function:
    """One function under one name."""

    name: str
    least: int  # number of arguments
    most: int
    render: Render
    takes: tuple[str, ...] = ()  # families of each argument, joined by |; the last one repeats; empty: any
    kind: str = "scalar"  # scalar | aggregate | table
    lambdas: bool = False  # takes `x => ...`

    @property
    def is_aggregate(self) -> bool:
        return self.kind == "aggregate"

    def call(self, arguments: Sequence[Rendered]) -> Rendered:
        """Return the call. Raises Mismatch: an argument of another type."""
        for number, argument in enumerate(arguments):
            self._check(number, argument.type)
        return self.render(arguments)

    def _check(self, number: int, kind: SqlType | None) -> None:
        if not self.takes or kind is None:
            return
        wanted = self.takes[min(number, len(self.takes) - 1)]
        if wanted == "any":
            return
        names = [name for family in wanted.split("|") for name in _FAMILIES.get(family, (family,))]
        if kind.name not in names:
            raise Mismatch(f"{self.name} takes {' or '.join(names)} here, not {kind}", number)


def template(
    name: str, text: str, least: int, most: int, result: Result, takes: str = "", *, kind: str = "scalar"
) -> Function:
    """Return a function written as a template. `takes` lists the families of the arguments, separated by spaces."""

    def render(arguments: Sequence[Rendered]) -> Rendered:
        texts = [each.text for each in arguments]
        return Rendered(filled(text, texts), result_type(result, [each.type for each in arguments]))

    return Function(name, least, most, render, tuple(takes.split()), kind)


def filled(text: str, arguments: Sequence[str]) -> str:
    """Fill in {0}, {1} ... and {*}; inserted text is not searched again."""
    pieces = text.split("{")
    found = [pieces[0]]
    for piece in pieces[1:]:
        number, _, rest = piece.partition("}")
        found.append((", ".join(arguments) if number == "*" else arguments[int(number)]) + rest)
    return "".join(found)


def result_type(result: Result, kinds: Types) -> SqlType | None:
    if isinstance(result, SqlType):
        return result
    if isinstance(result, int):
        return kinds[result] if result < len(kinds) else None
    return result(kinds)


def text_of(value: str) -> str:
    """Return a string literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal_of(argument: Rendered) -> str | None:
    """Return the value of a string literal; None for any other expression."""
    text = argument.text
    if len(text) >= 2 and text[0] == text[-1] == "'" and argument.type is not None and argument.type.name == "VARCHAR":
        return text[1:-1].replace("\\'", "'").replace("\\\\", "\\")
    return None
