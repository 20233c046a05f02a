"""The topics that a group's members subscribe to, at most `catalog_cache_ms` old unless asked for afresh.

A heartbeat compares them with the digest behind the group's target. A stale copy must never make a target, or two
functions with different copies would undo each other's: what changes a group is always decided on fresh topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.state import MemberState
from odradek.engine.groups.topic_pattern import MatchedTopics, PatternMatches
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import GROUP_PATTERNS_MAX
from odradek.model.group import GroupHeartbeat
from odradek.model.topic import Topic
from odradek.ports.clock import Clock
from odradek.settings import Settings

_LIST_FROM_NAMES = 50  # from so many names on, one listing is cheaper than a read each
_PARALLEL_READS = 25


class SubscribedTopics:
    """Topics by name, with a short-lived copy of what was not there and of the whole listing."""

    def __init__(self, topics: Topics, clock: Clock, settings: Settings) -> None:
        self._topics = topics
        self._clock = clock
        self._settings = settings
        self._by_name: dict[str, tuple[float, Topic | None]] = {}
        self._matches = PatternMatches()
        self._all = (float("-inf"), MatchedTopics([]))

    async def of(
        self, members: Iterable[MemberState], request: GroupHeartbeat | None = None, *, fresh: bool = False
    ) -> dict[str, Topic]:
        """Return the topics that members and request may mean, by name: all topics, matched, if any has a pattern.

        Raises KafkaError: INVALID_REGULAR_EXPRESSION for one more pattern than a group may have, and as `Topics`.
        """
        names: set[str] = set(request.subscribed_topic_names or ()) if request is not None else set()
        patterns: set[str] = set()
        for member in members:
            names.update(member.subscribed_topic_names)
            if member.subscribed_topic_regex is not None:
                patterns.add(member.subscribed_topic_regex)
        asked = request.subscribed_topic_regex if request is not None else None
        if asked and asked not in patterns:
            if len(patterns) >= GROUP_PATTERNS_MAX:
                raise KafkaError(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"the members of a group may have {GROUP_PATTERNS_MAX} different topic patterns: join them by |",
                )
            patterns.add(asked)
        if patterns:
            topics = await self._list(fresh=fresh)
            for each in sorted(patterns - topics.matches.keys()):
                topics.matches[each] = await self._matches.of(each, topics)
            return topics
        return await self.named(names, fresh=fresh)

    async def named(self, names: Collection[str], *, fresh: bool = False) -> dict[str, Topic]:
        """Those of the topics that exist, by name, perhaps among others. Raises KafkaError."""
        if len(names) >= _LIST_FROM_NAMES:
            return await self._list(fresh=fresh)
        now = self._clock.monotonic()
        missing = [name for name in sorted(names) if fresh or self._by_name.get(name, (now, None))[0] <= now]
        for start in range(0, len(missing), _PARALLEL_READS):
            await asyncio.gather(*(self._read(name, fresh=fresh) for name in missing[start : start + _PARALLEL_READS]))
        found = {name: self._by_name[name][1] for name in names}
        return {name: topic for name, topic in found.items() if topic is not None}

    async def _read(self, name: str, *, fresh: bool) -> None:
        topic = await self._topics.get(name)
        if fresh and topic is not None:
            self._topics.forget(topic)
            topic = await self._topics.get(name)
        self._by_name[name] = (self._expires(), topic)

    async def _list(self, *, fresh: bool) -> MatchedTopics:
        if fresh or self._all[0] <= self._clock.monotonic():
            self._all = (self._expires(), MatchedTopics(await self._topics.list()))
        return self._all[1]

    def _expires(self) -> float:
        return self._clock.monotonic() + self._settings.catalog_cache_ms / 1000
