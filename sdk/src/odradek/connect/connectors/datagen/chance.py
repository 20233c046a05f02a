"""Choices that repeat: each follows from the seed, the number of the record and the name of what is chosen."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Callable, Sequence
from typing import Any

from odradek.connect.errors import ConfigError

_REPEATS_MAX = 8  # of `*` and `+`, which have no bound
_DEPTH_MAX = 20
_LENGTH_MAX = 1_000  # of a repetition
_CLASSES = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": " "}
_ANY = string.ascii_letters + string.digits


class Chance:
    """Repeatable choices for one record."""

    def __init__(self, seed: str, number: int) -> None:
        self._key, self.number = hashlib.sha256(f"{seed}/{number}".encode()).digest(), number

    def below(self, bound: int, name: str) -> int:
        """Return a number from 0 up to a bound, which is at least 1."""
        digest = hashlib.blake2b(name.encode(), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") % bound

    def fraction(self, name: str) -> float:
        """Return a number from 0 up to 1."""
        return self.below(2**53, name) / 2**53

    def of(self, choices: Sequence[Any], name: str) -> Any:
        """Return one of the choices."""
        return choices[self.below(len(choices), name)]


Text = Callable[[Chance, str], str]
"""Chance and a name for its choices -> a text."""


def texts_like(pattern: str) -> Text:
    """Return what makes texts that match a regular expression.

    It may have letters, classes (`[A-Z_]`, `\\d`, `\\w`, `\\s`, `.`), groups, alternatives and repetitions. Raises
    ConfigError for anything else.
    """
    parser = _Parser(pattern)
    made = parser.alternatives(0)
    if parser.rest:
        raise parser.refused("an unmatched ')'")
    return made


class _Parser:
    """Reads a pattern from left to right; each method returns what makes the part that it has read."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self.rest = pattern, pattern.removeprefix("^").removesuffix("$")

    def refused(self, why: str) -> ConfigError:
        return ConfigError(f"the pattern {self._pattern!r} has {why}: use letters, classes, groups, | and repetitions")

    def alternatives(self, depth: int) -> Text:
        if depth > _DEPTH_MAX:
            raise self.refused("too many groups in groups")
        branches = [self._sequence(depth)]
        while self.rest.startswith("|"):
            self.rest = self.rest[1:]
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        return lambda chance, name: chance.of(branches, f"{name}|")(chance, f"{name}/")

    def _sequence(self, depth: int) -> Text:
        parts: list[Text] = []
        while self.rest and self.rest[0] not in "|)":
            parts.append(self._repeated(self._atom(depth)))
        return lambda chance, name: "".join(part(chance, f"{name}.{at}") for at, part in enumerate(parts))

    def _take(self) -> str:
        taken, self.rest = self.rest[:1], self.rest[1:]
        if not taken:
            raise self.refused("no end")
        return taken

    def _atom(self, depth: int) -> Text:
        taken = self._take()
        if taken == "(":
            self.rest = self.rest.removeprefix("?:")
            if self.rest.startswith("?"):
                raise self.refused("a group of a kind that cannot be made")
            inner = self.alternatives(depth + 1)
            if self._take() != ")":
                raise self.refused("a group without an end")
            return inner
        if taken in "*+?{":
            raise self.refused(f"a {taken!r} after nothing")
        if taken in "^$":
            raise self.refused(f"a {taken!r} within")
        letters = (
            self._class() if taken == "[" else self._escaped() if taken == "\\" else _ANY if taken == "." else taken
        )
        return lambda chance, name: chance.of(letters, name)

    def _escaped(self) -> str:
        letter = self._take()
        if letter.isalnum() and letter not in _CLASSES:
            raise self.refused(f"an unknown \\{letter}")
        return _CLASSES.get(letter, letter)

    def _class(self) -> str:
        letters = ""
        if self.rest.startswith("^"):
            raise self.refused("a class of what is not in it")
        while (taken := self._take()) != "]":
            if taken == "\\":
                letters += self._escaped()
            elif taken == "-" and letters and self.rest[:1] not in ("]", ""):
                last = self._take()
                if last < letters[-1]:
                    raise self.refused(f"the empty range {letters[-1]}-{last}")
                letters += "".join(map(chr, range(ord(letters[-1]) + 1, ord(last) + 1)))
            else:
                letters += taken
        if not letters:
            raise self.refused("an empty class")
        return letters

    def _repeated(self, atom: Text) -> Text:
        bounds = {"*": (0, _REPEATS_MAX), "+": (1, _REPEATS_MAX), "?": (0, 1)}.get(self.rest[:1])
        if bounds is not None:
            self.rest = self.rest[1:]
        elif self.rest.startswith("{"):
            inside, closed, self.rest = self.rest[1:].partition("}")
            low, comma, high = inside.partition(",")
            if not closed or not low.isdecimal() or (high and not high.isdecimal()):
                raise self.refused(f"the repetition {{{inside}")
            bounds = (int(low), int(high) if high else int(low) + (_REPEATS_MAX if comma else 0))
        if bounds is None:
            return atom
        low_count, high_count = bounds
        if not low_count <= high_count <= _LENGTH_MAX:
            raise self.refused(f"a repetition of {low_count} to {high_count}")

        def repeat(chance: Chance, name: str) -> str:
            count = low_count + chance.below(high_count - low_count + 1, f"{name}#")
            return "".join(atom(chance, f"{name}*{at}") for at in range(count))

        return repeat
