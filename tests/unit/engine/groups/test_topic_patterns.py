"""Topic patterns over many topics: each name is matched once, and others run meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest
from odradek.engine.groups import topic_pattern
from odradek.engine.groups.state import MemberState
from odradek.engine.groups.topics import SubscribedTopics
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import GROUP_PATTERNS_MAX
from odradek.model.group import GroupHeartbeat
from odradek.model.topic import Topic
from odradek.patterns import Pattern
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock

HOSTILE = "(a|b)*a(a|b){480}c"
"""RE2 keeps 487 instructions busy with it."""


class Listing:
    """Stands for the catalog."""

    def __init__(self, count: int) -> None:
        self.topics = [topic(number) for number in range(count)]

    async def list(self) -> list[Topic]:
        return self.topics


def topic(number: int) -> Topic:
    return Topic(f"t{number:05d}.{'ab' * 120}", UUID(int=number), 1)


def member(number: int, pattern: str | None) -> MemberState:
    return MemberState(f"m{number}", subscribed_topic_regex=pattern)


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each name was matched."""
    counts: Counter[str] = Counter()
    matches = Pattern.matches

    def counted(self: Pattern, text: str) -> bool:
        counts[text] += 1
        return matches(self, text)

    monkeypatch.setattr(Pattern, "matches", counted)
    return counts


async def test_others_run_while_a_hostile_pattern_meets_ten_thousand_topics() -> None:
    listing = Listing(10_000)
    topics = SubscribedTopics(listing, ManualClock(), Settings())  # type: ignore[arg-type]
    asking = asyncio.ensure_future(topics.of([member(1, HOSTILE)]))
    turns = 0
    while not asking.done():
        turns += 1
        await asyncio.sleep(0)
    assert (await asking).matches[HOSTILE] == set()  # type: ignore[attr-defined]
    work = sum(len(topic.name) for topic in listing.topics) * topic_pattern.topic_pattern(HOSTILE).program_size
    assert turns >= work / topic_pattern.SLICE_WORK > 1_000


async def test_a_name_is_matched_once_whatever_is_listed_again(matched: Counter[str]) -> None:
    clock, listing = ManualClock(), Listing(100)
    topics = SubscribedTopics(listing, clock, Settings(catalog_cache_ms=1_000))  # type: ignore[arg-type]
    for _ in range(3):
        clock.advance(2)
        topics_found = await topics.of([member(1, "t000[0-4].*"), member(2, "t000[0-4].*")], fresh=True)
    assert len(topics_found.matches["t000[0-4].*"]) == 50  # type: ignore[attr-defined]
    assert set(matched.values()) == {1}
    listing.topics = [*listing.topics[1:], topic(100_000)]
    topics_found = await topics.of([member(1, "t000[0-4].*|t1.*")], fresh=True)
    topics_found = await topics.of([member(1, "t000[0-4].*")], fresh=True)
    assert len(topics_found.matches["t000[0-4].*"]) == 49, "a deleted topic matches no more"  # type: ignore[attr-defined]
    assert matched[listing.topics[-1].name] == 2


async def test_a_group_has_so_many_patterns_and_no_more() -> None:
    topics = SubscribedTopics(Listing(1), ManualClock(), Settings())  # type: ignore[arg-type]
    members = [member(number, f"t{number}.*") for number in range(GROUP_PATTERNS_MAX)]
    request = GroupHeartbeat("g", "m", 0, subscribed_topic_regex="t0.*")
    await topics.of(members, request)
    with pytest.raises(KafkaError, match="join them by") as refused:
        await topics.of(members, GroupHeartbeat("g", "m", 0, subscribed_topic_regex="x.*"))
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
