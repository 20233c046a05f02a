"""Patterns of Java's DateTimeFormatter: what they are made of, and which of them Spark has as well.

    yyyy-MM-dd'T'HH:mm[:ss]    letters with their number; texts in quotes; sections in brackets, which are optional

Spark refuses week-based fields and some others, and ends the query. Source: the documentation of
java.time.format.DateTimeFormatterBuilder.appendPattern, of Java 17.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_WRITTEN_MAX = 1_000  # patterns that are kept parsed
_SECTIONS_MAX = 50  # within each other: a pattern from a column may open any number, and they are walked one in another
_TEXTS = "MLQqEecG"  # letters that are a text from three on, G always
_ONE_OR_TWO = "dhHkKmsw"
# How often a letter may stand; letters that are not here may stand as often as one likes, up to 19.
_COUNTS: dict[str, frozenset[int]] = {
    **dict.fromkeys(_ONE_OR_TWO, frozenset({1, 2})), **dict.fromkeys("aFW", frozenset({1})),
    **dict.fromkeys("MLQqEeG", frozenset(range(1, 6))), "c": frozenset({1, 3, 4, 5}), "D": frozenset({1, 2, 3}),
    "S": frozenset(range(1, 10)), "V": frozenset({2}), "v": frozenset({1, 4}), "z": frozenset(range(1, 5)),
    "O": frozenset({1, 4}), "X": frozenset(range(1, 6)), "x": frozenset(range(1, 6)), "Z": frozenset(range(1, 6)),
    "B": frozenset({1, 4, 5}), **dict.fromkeys("uyYAnN", frozenset(range(1, 20))),
}  # fmt: skip
_SPARK_SHOWS: dict[str, int] = {  # the largest number of letters that Spark takes
    **dict.fromkeys("GMLQqE", 4), **dict.fromkeys("dHhKkms", 2), "y": 6, "D": 3, "F": 1, "a": 1, "S": 9, "V": 2, "z": 4,
    "O": 4, "X": 5, "x": 5, "Z": 5,
}  # fmt: skip
_SPARK_READS = {name: count for name, count in _SPARK_SHOWS.items() if name not in "QqEFG"}
OF_SIMPLE_FORMATS = frozenset("GyYMLwWdDFEuaHkKhmsSzZX")  # the letters of java.text.SimpleDateFormat
DATES, TIMES, ZONES = "GuyYQqMLwWdDFEec", "aBhKkHmsSAnN", "VvzOXxZ"


class WrongPattern(ValueError):
    """Java cannot make a formatter of the text."""


@dataclass(frozen=True, slots=True)
class Part:
    """A field with the number of its letters; a text, if there is no letter; or an optional section."""

    letter: str = ""
    count: int = 0
    text: str = ""
    width: int = 0  # it is filled with spaces up to that
    optional: tuple[Part, ...] | None = None


@lru_cache(maxsize=_WRITTEN_MAX)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """Return what a pattern is made of. Raises WrongPattern."""
    open_: list[list[Part]] = [[]]
    at, width = 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char.isascii() and char.isalpha():
            count = len(pattern) - at - len(pattern[at:].lstrip(char))
            at += count
            if char == "p":
                if width or not re.match("[A-Za-oq-z]", pattern[at:]):
                    raise WrongPattern(pattern)
                width = count
                continue
            if count not in _COUNTS.get(char, ()):
                raise WrongPattern(pattern)
            open_[-1].append(Part(char, count, width=width))
            width = 0
            continue
        at += 1
        if char == "'":
            found = re.match("((?:[^']|'')*)'", pattern[at:], re.DOTALL)
            if found is None:
                raise WrongPattern(pattern)
            at += found.end()
            open_[-1].append(Part(text=found[1].replace("''", "'") or "'"))
        elif char == "[":
            if len(open_) > _SECTIONS_MAX:
                raise WrongPattern(pattern)
            open_.append([])
        elif char == "]":
            _close(open_, pattern)
        elif char in "{}#":
            raise WrongPattern(pattern)
        else:
            open_[-1].append(Part(text=char))
    while len(open_) > 1:
        _close(open_, pattern)
    return tuple(open_[0])


def _close(open_: list[list[Part]], pattern: str) -> None:
    if len(open_) == 1:
        raise WrongPattern(pattern)
    inner = tuple(open_.pop())
    open_[-1].append(Part(optional=inner))


def letters_of(pattern: str) -> dict[str, int]:
    """Return the letters of a pattern, each with its largest number. Raises WrongPattern."""
    found: dict[str, int] = {}

    def collect(parts: tuple[Part, ...]) -> None:
        for each in parts:
            if each.optional is not None:
                collect(each.optional)
            elif each.letter:
                found[each.letter] = max(each.count, found.get(each.letter, 0))
                if each.width:
                    found["p"] = each.width

    collect(parts_of(pattern))
    return found


def needed_letters(pattern: str) -> set[str]:
    """Return the letters of a pattern that are in no optional section. Raises WrongPattern."""
    return {each.letter for each in parts_of(pattern) if each.letter}


def is_pattern(text: str) -> bool:
    """Return True if Java can make a formatter of a text."""
    try:
        return bool(parts_of(text)) or not text
    except WrongPattern:
        return False


def is_text(part: Part) -> bool:
    """Return True for a field that is shown as a word."""
    return part.letter in _TEXTS and (part.count > 2 or part.letter in "GE")


def spark_shows(pattern: str) -> bool:
    """Return True if Spark's date_format takes a pattern that Java takes."""
    return all(count <= _SPARK_SHOWS.get(letter, 0) for letter, count in letters_of(pattern).items())


def spark_reads(pattern: str) -> bool:
    """Return True if Spark's to_timestamp takes a pattern that Java takes."""
    return all(count <= _SPARK_READS.get(letter, 0) for letter, count in letters_of(pattern).items())
