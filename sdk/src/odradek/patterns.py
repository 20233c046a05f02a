"""Regular expressions that come from others, in linear time: RE2's syntax, as Kafka takes it for topic patterns.

A backtracking matcher needs exponential time for `(a+)+b`; RE2 follows all alternatives at once and knows no expression
for which it cannot: look-around and back references are refused. What remains is bounded by the sizes below: an
expression that is large when its repetitions are written out is refused, and a text costs at most its length times the
size of the program, a millisecond or two for the longest name of a topic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

PATTERN_LENGTH_MAX = 1_000
PROGRAM_SIZE_MAX = 2_000  # instructions; an expression of PATTERN_LENGTH_MAX letters has about so many
_MEMORY_BYTES = 256 * 1024  # of one expression, with the states that matching keeps


class PatternInvalid(ValueError):
    """The expression is not one, or is too large; the message says why."""


class Pattern:
    """A compiled expression. Raises PatternInvalid."""

    def __init__(self, text: str) -> None:
        import re2  # nearly no function ever meets a pattern

        if len(text) > PATTERN_LENGTH_MAX:
            raise PatternInvalid(f"it has more than {PATTERN_LENGTH_MAX} characters")
        options = re2.Options()
        options.max_mem = _MEMORY_BYTES
        options.never_capture = True
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(text, options)
        except UnicodeEncodeError:
            raise PatternInvalid("it has half of a surrogate pair") from None
        except re2.error as error:
            (reason,) = error.args
            raise PatternInvalid(
                reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            ) from None
        if self.program_size > PROGRAM_SIZE_MAX:
            raise PatternInvalid("it is too large when its repetitions are written out")

    @property
    def program_size(self) -> int:
        """The number of instructions: the maximum cost of one character of a text."""
        return int(self._compiled.programsize)

    def matches(self, text: str) -> bool:
        """Return True if the whole text matches; one with half of a surrogate pair never does."""
        return self._ask(self._compiled.fullmatch, text)

    def occurs_in(self, text: str) -> bool:
        """Return True if a part of the text matches."""
        return self._ask(self._compiled.search, text)

    def _ask(self, question: Any, text: str) -> bool:
        try:
            return question(text) is not None
        except UnicodeEncodeError:
            return False


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """The compiled expression, remembered. Raises PatternInvalid."""
    return Pattern(text)
