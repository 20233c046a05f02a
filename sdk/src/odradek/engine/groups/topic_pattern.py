"""Regular expressions over topic names, matched in linear time (what Kafka takes RE2 for).

A client's pattern runs on the server, so a backtracking matcher would let one heartbeat burn a function's whole time.
This one knows the regular part of RE2's syntax and follows all alternatives at once:

    x  .  [a-z]  [^0-9]  \\d \\w \\s \\D \\W \\S  \\.      one character
    ab   a|b   (a)   (?:a)   (?P<n>a)                   sequence, alternative, groups
    a*  a+  a?  a{2}  a{2,}  a{2,5}  and lazy forms      repetition
    ^  $                                                the ends

A name matches when the whole of it does. An atom is the set of topic-name characters that it accepts, so a pattern
compiles to a small automaton over 65 characters. Look-around and back references are refused, as by RE2.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from string import ascii_letters, digits

from odradek.errors import ErrorCode, KafkaError

ALPHABET = frozenset(ascii_letters + digits + "._-")
PATTERN_LENGTH_MAX = 1_000
REPETITION_MAX = 1_000  # RE2's limit
STATES_MAX = 5_000

_REPETITION = re.compile(r"\{(\d+)(,(\d*))?\}")
_GROUP_NAME = re.compile(r"\?P?<[A-Za-z_]\w*>")


@dataclass(slots=True)
class _State:
    """A state: `accepts` leads to `after` by one character; `free` leads on without one; `at` is "^" or "$" or ""."""

    accepts: frozenset[str] = frozenset()
    after: int = -1
    free: list[int] = field(default_factory=list)
    at: str = ""


class TopicPattern:
    """A compiled pattern. Raises KafkaError(INVALID_REGULAR_EXPRESSION) saying what is wrong and where."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise _invalid(pattern[:40] + "...", f"it has more than {PATTERN_LENGTH_MAX} characters")
        self._pattern = pattern
        self._position = 0
        self._states: list[_State] = []
        self._start, self._end = self._alternatives(depth=0)
        if self._position < len(pattern):
            raise self._error("a ) has no (")

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        current = self._closure({self._start}, at_start=True, at_end=not name)
        for position, character in enumerate(name):
            reached = {self._states[state].after for state in current if character in self._states[state].accepts}
            current = self._closure(reached, at_start=False, at_end=position == len(name) - 1)
            if not current:
                return False
        return self._end in current

    def _closure(self, states: set[int], *, at_start: bool, at_end: bool) -> set[int]:
        seen = set(states)
        waiting = list(states)
        while waiting:
            state = self._states[waiting.pop()]
            if (state.at == "^" and not at_start) or (state.at == "$" and not at_end):
                continue
            for following in state.free:
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return seen

    # --- the parser: each method returns (first state, last state) of its part ----------------------------------------

    def _alternatives(self, depth: int) -> tuple[int, int]:
        if depth > 50:
            raise self._error("groups are nested too deeply")
        start, end = self._new(), self._new()
        while True:
            first, last = self._sequence(depth)
            self._states[start].free.append(first)
            self._states[last].free.append(end)
            if not self._take("|"):
                return start, end

    def _sequence(self, depth: int) -> tuple[int, int]:
        start = end = self._new()
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)":
            first, last = self._repeated(depth)
            self._states[end].free.append(first)
            end = last
        return start, end

    def _repeated(self, depth: int) -> tuple[int, int]:
        begins = self._position
        part = self._atom(depth)
        ends = self._position
        least, most = self._repetition()
        if (least, most) == (1, 1):
            return part
        after = self._position
        start = end = self._new()
        for _ in range(least):
            end = self._append_copy(begins, end, depth)
        if most is None:
            first, last = self._copy(begins, depth)
            loop = self._new()
            self._states[end].free.append(loop)
            self._states[loop].free.append(first)
            self._states[last].free.append(loop)
            end = loop
        else:
            out = self._new()
            for _ in range(most - least):
                self._states[end].free.append(out)
                end = self._append_copy(begins, end, depth)
            self._states[end].free.append(out)
            end = out
        assert ends <= after
        self._position = after
        return start, end

    def _append_copy(self, begins: int, end: int, depth: int) -> int:
        first, last = self._copy(begins, depth)
        self._states[end].free.append(first)
        return last

    def _copy(self, begins: int, depth: int) -> tuple[int, int]:
        self._position = begins
        return self._atom(depth)

    def _repetition(self) -> tuple[int, int | None]:
        """The bounds of the repetition at the position, (1, 1) where there is none."""
        least, most = 1, 1
        bounds: tuple[int, int | None] = (least, most)
        if self._take("*"):
            bounds = (0, None)
        elif self._take("+"):
            bounds = (1, None)
        elif self._take("?"):
            bounds = (0, 1)
        elif found := _REPETITION.match(self._pattern, self._position):
            self._position = found.end()
            least = int(found[1])
            bounds = (least, least if found[2] is None else int(found[3]) if found[3] else None)
            if least > REPETITION_MAX or (bounds[1] is not None and not least <= bounds[1] <= REPETITION_MAX):
                raise self._error(f"a repetition must be ascending and at most {REPETITION_MAX}")
        else:
            return bounds
        self._take("?")  # lazy: the same names match
        if self._position < len(self._pattern) and self._pattern[self._position] in "*+?":
            raise self._error("a repetition of a repetition")
        return bounds

    def _atom(self, depth: int) -> tuple[int, int]:
        character = self._pattern[self._position]
        if character == "(":
            self._position += 1
            self._group_kind()
            part = self._alternatives(depth + 1)
            if not self._take(")"):
                raise self._error("a ( is not closed")
            return part
        if character in "*+?":
            raise self._error("nothing to repeat")
        start, end = self._new(), self._new()
        if character in "^$":
            self._position += 1
            self._states[start].at = character
            self._states[start].free.append(end)
        else:
            self._states[start].accepts = self._characters()
            self._states[start].after = end
        return start, end

    def _group_kind(self) -> None:
        if self._pattern.startswith("?", self._position):
            name = _GROUP_NAME.match(self._pattern, self._position)
            if name:
                self._position = name.end()
            elif self._pattern.startswith("?:", self._position):
                self._position += 2
            else:
                raise self._error("look-around and flags are not supported")

    def _characters(self) -> frozenset[str]:
        """The topic-name characters that the character, escape or class at the position accepts."""
        begins = self._position
        first = self._pattern[begins]
        self._position += 1
        if first == "\\":
            if self._position == len(self._pattern):
                raise self._error("a pattern ends in \\")
            escaped = self._pattern[self._position]
            self._position += 1
            if escaped.isalnum() and escaped not in "dDwWsS":
                raise self._error(f"the escape \\{escaped} is not supported")
        elif first == "[":
            self._position += self._pattern.startswith("^", self._position)
            self._position += self._pattern.startswith("]", self._position)  # a ] in first place stands for itself
            while self._position < len(self._pattern) and self._pattern[self._position] != "]":
                self._position += 2 if self._pattern[self._position] == "\\" else 1
            if not self._take("]"):
                raise self._error("a [ is not closed")
            if "[:" in self._pattern[begins + 1 : self._position]:
                raise self._error("named classes are not supported")
        text = self._pattern[begins : self._position]
        if first in "{}]":
            text = re.escape(text)
        try:
            one = _one_character(text)
        except re.error as error:
            raise self._error(str(error)) from error
        return one

    def _take(self, character: str) -> bool:
        is_there = self._pattern.startswith(character, self._position)
        self._position += is_there
        return is_there

    def _new(self) -> int:
        if len(self._states) >= STATES_MAX:
            raise self._error("it is too large when its repetitions are written out")
        self._states.append(_State())
        return len(self._states) - 1

    def _error(self, what: str) -> KafkaError:
        return _invalid(self._pattern, f"{what} (at {self._position})")


@lru_cache(maxsize=1_000)
def _one_character(text: str) -> frozenset[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Python's plans for [[ and && in classes
        compiled = re.compile(text, re.ASCII)
    return frozenset(character for character in ALPHABET if compiled.fullmatch(character))


def _invalid(pattern: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the topic pattern {pattern!r} is not valid: {why}")


@lru_cache(maxsize=65_536)
def matches_pattern(pattern: str, name: str) -> bool:
    """Whether the whole name matches, remembered: every heartbeat asks again. Raises as `topic_pattern`."""
    return topic_pattern(pattern).matches(name)


@lru_cache(maxsize=256)
def topic_pattern(pattern: str) -> TopicPattern:
    """The compiled pattern, remembered. Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    return TopicPattern(pattern)
