"""Regular expressions over topic names, as KIP-848 has them: RE2's syntax, and the whole name must match."""

from __future__ import annotations

from functools import lru_cache

from odradek.errors import ErrorCode, KafkaError
from odradek.patterns import Pattern, PatternInvalid, compile_pattern


def topic_pattern(pattern: str) -> Pattern:
    """Return the compiled pattern. Raises KafkaError(INVALID_REGULAR_EXPRESSION) with the reason."""
    try:
        return compile_pattern(pattern)
    except PatternInvalid as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"the topic pattern {pattern[:100]!r} is not valid: {error}"
        ) from None


@lru_cache(maxsize=65_536)
def matches_pattern(pattern: str, name: str) -> bool:
    """Return True if the whole name matches; cached, since every heartbeat repeats it. Raises as `topic_pattern`."""
    return topic_pattern(pattern).matches(name)
