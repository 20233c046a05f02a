"""Scenarios: who lives in a world and how, drawn from the seed.

A *profile* is a kind of life (a log under load, topics that come and go, groups, ...); it draws the numbers of one
scenario. `everything` mixes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.ports import Fates


@dataclass(frozen=True)
class TopicPlan:
    """A topic that is there from the start."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    keys: int = 0  # different keys of what producers send; 0: no keys, no tombstones


@dataclass(frozen=True)
class Scenario:
    """One run's cast.

    Attributes:
        records_of: how many records each producer sends.
        pace_s: about how long an actor rests between two steps.
        churn: topics that an admin creates, grows and deletes.
    """

    profile: str
    topics: tuple[TopicPlan, ...]
    producers: int = 3
    idempotent_share: float = 0.7
    records_of: int = 30
    conditional: int = 0
    consumers: int = 1  # a topic
    group_members: int = 0
    group_turns: int = 40
    admins: int = 0
    admin_turns: int = 12
    churn: tuple[str, ...] = ()
    maintainers: int = 0
    maintainer_turns: int = 12
    maintainer_pace_s: float = 600.0
    pace_s: float = 0.05
    fates: Fates = field(default_factory=Fates)
    settings: Mapping[str, Any] = field(default_factory=dict)


Draw = Callable[[Random], Scenario]

# Sessions as short as the hostile value never let a group come to rest; these let members expire often enough.
_GROUP_SETTINGS = {"group_members_max": 250, "group_attempts_max": 30}


def _group_settings(rng: Random) -> dict[str, Any]:
    return {
        **_GROUP_SETTINGS,
        "group_session_timeout_ms": rng.choice((3_000, 10_000, 45_000)),
        "group_heartbeat_interval_ms": 1_000,
    }


def _log(rng: Random) -> Scenario:
    """Appends and reads under load: sequences, spills, evictions."""
    return Scenario(
        "log",
        tuple(TopicPlan(name, rng.choice((1, 2))) for name in ("alpha", "beta")),
        producers=rng.choice((2, 3, 4)),
        records_of=rng.randrange(10, 50),
        conditional=rng.choice((0, 1, 2)),
        settings=_group_settings(rng),
    )


def _topics(rng: Random) -> Scenario:
    """Topics come, grow and go under their producers and consumers."""
    return Scenario(
        "topics",
        (TopicPlan("alpha", 1), TopicPlan("beta", 2)),
        producers=4,
        records_of=20,
        admins=2,
        churn=("beta", "gamma"),
        maintainers=2,
        maintainer_pace_s=30.0,
        maintainer_turns=8,
        pace_s=1.0,
        settings=_group_settings(rng),
    )


def _groups(rng: Random) -> Scenario:
    """Members come and go, stall and crash; what they commit is theirs."""
    return Scenario(
        "groups",
        (TopicPlan("alpha", rng.choice((2, 3))),),
        producers=2,
        records_of=25,
        consumers=0,
        group_members=rng.choice((2, 3)),
        group_turns=rng.randrange(8, 24),
        pace_s=1.0,
        settings=_group_settings(rng),
    )


PROFILES: dict[str, Draw] = {"log": _log, "topics": _topics, "groups": _groups}


def draw(rng: Random, profile: str | None = None) -> Scenario:
    """The scenario of a run: of the given profile, or of one by chance."""
    return PROFILES[profile or rng.choice(sorted(PROFILES))](rng)
