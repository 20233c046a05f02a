"""Regular expressions over topic names, as KIP-848 has them: RE2's syntax, and the whole name must match.

One name costs at most a millisecond or two (odradek/patterns.py), so ten thousand names take up to half a minute.
Therefore a pattern meets each name once: the matches are kept, and a later listing costs its new names only. Matching
gives way to other requests after each slice of bounded work, and only one pattern is matched at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping

from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic import Topic
from odradek.patterns import Pattern, PatternInvalid, compile_pattern

SLICE_WORK = 500_000  # characters times instructions: some milliseconds at worst
_REMEMBERED_MAX = 64  # patterns


def topic_pattern(pattern: str) -> Pattern:
    """Return the compiled pattern. Raises KafkaError(INVALID_REGULAR_EXPRESSION) with the reason."""
    try:
        return compile_pattern(pattern)
    except PatternInvalid as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"the topic pattern {pattern[:100]!r} is not valid: {error}"
        ) from None


class MatchedTopics(dict[str, Topic]):
    """A listing of topics by name, with the names that match each of the patterns that were asked for."""

    def __init__(self, topics: Iterable[Topic]) -> None:
        super().__init__((topic.name, topic) for topic in topics)
        self.matches: dict[str, Collection[str]] = {}


def matching(pattern: str, topics: Mapping[str, Topic]) -> Collection[str]:
    """Return the names that match: those that were found before, if there are any. Raises as `topic_pattern`."""
    if isinstance(topics, MatchedTopics) and pattern in topics.matches:
        return topics.matches[pattern]
    compiled = topic_pattern(pattern)
    return [name for name in topics if compiled.matches(name)]


class PatternMatches:
    """The names that match each of the patterns that were asked for last."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[set[str], set[str]]] = OrderedDict()  # names that were tried; that match
        self._turn = asyncio.Lock()

    async def of(self, pattern: str, names: Collection[str]) -> Collection[str]:
        """Return those of the names that match. Raises as `topic_pattern`."""
        compiled = topic_pattern(pattern)
        async with self._turn:
            tried, found = self._known.setdefault(pattern, (set(), set()))
            self._known.move_to_end(pattern)
            if len(self._known) > _REMEMBERED_MAX:
                self._known.popitem(last=False)
            if len(tried) > 2 * len(names):  # most of them have been deleted
                tried.intersection_update(names)
                found.intersection_update(names)
            work = 0
            for name in sorted(set(names) - tried):
                cost = len(name) * compiled.program_size
                if work + cost > SLICE_WORK:
                    work = 0
                    await asyncio.sleep(0)
                work += cost
                if compiled.matches(name):
                    found.add(name)
                tried.add(name)
            return found.intersection(names)
