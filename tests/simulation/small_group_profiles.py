"""Small worlds of groups, leaders and transactions: two or three members, and most of what may go wrong goes wrong
together (small_profiles.py has those of a log)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.fates import TROUBLE, merge_settings
from tests.simulation.plan import Scenario, TopicPlan

# Members wait for each other, so none is away for minutes; sessions of seconds end all the same.
_RESTLESS = replace(TROUBLE, crash=0.003, stalls_s=(1.0, 5.0, 15.0), lates_s=(0.3, 5.0, 20.0), freezes_s=(5.0, 15.0))


def _settings(rng: Random) -> dict[str, Any]:
    return {
        **merge_settings(rng),
        "group_members_max": 250,
        "group_attempts_max": 30,
        "group_session_timeout_ms": rng.choice((3_000, 10_000)),
        "group_session_timeout_ms_min": 1_000,
        "group_heartbeat_interval_ms": 1_000,
        "group_initial_rebalance_delay_ms": rng.choice((0, 500)),
        "poll_interval_ms": 100,
        "poll_interval_ms_max": 500,
        "transaction_timeout_ms_max": 60_000,
        "sweep_horizon_ms": 100_000,
        "sweep_interval_ms": 0,
        "sweep_recheck_hours": 1,
    }


def rebalance(rng: Random) -> Scenario:
    """Two or three members of a consumer group, of which one is always coming, going or late; offsets set from outside;
    the topic grows under them, or when they are at rest."""
    grows = rng.random() < 0.5
    return Scenario(
        "rebalance",
        (TopicPlan("alpha", rng.choice((1, 2, 3))),),
        producers=1,
        records_of=16,
        consumers=0,
        group_members=rng.choice((2, 3)),
        group_turns=rng.randrange(6, 16),
        group_assignor=rng.choice((None, "range")),
        grows=grows,
        grows_at_rest=not grows,
        pace_s=rng.choice((0.2, 1.0)),
        fates=_RESTLESS,
        settings=_settings(rng),
    )


def growth(rng: Random) -> Scenario:
    """A topic is multiplied under producers of ours and a group, while functions die and answers are lost."""
    return Scenario(
        "growth",
        (TopicPlan("alpha", rng.choice((1, 2, 3)), {"odradek.growth.hold.ms": "1000000000"}),),
        producers=0,
        keyed_clients=rng.choice((1, 2, 3)),
        growths=rng.choice((1, 2, 3)),
        records_of=rng.randrange(20, 60),
        consumers=0,
        group_members=rng.choice((1, 2, 3)),
        group_turns=rng.randrange(8, 30),
        group_assignor=rng.choice((None, "range")),
        pace_s=rng.choice((0.05, 0.2, 1.0)),
        fates=_RESTLESS,
        settings={**_settings(rng), "catalog_cache_ms": rng.choice((0, 2_000))},  # a client waits so long and longer
    )


def roll_call(rng: Random) -> Scenario:
    """The same for the classic protocol: rounds shorter than a request, some of which a member stays away from."""
    return Scenario(
        "roll_call",
        (TopicPlan("alpha", rng.choice((1, 2))),),
        producers=1,
        records_of=10,
        consumers=0,
        classic_members=rng.choice((2, 3)),
        classic_rebalance_ms=rng.choice((2_000, 6_000)),
        group_turns=rng.randrange(5, 14),
        pace_s=rng.choice((0.2, 0.5)),
        fates=replace(_RESTLESS, stall=0.01, cluster=0.2),  # who waits for a round looks again and again
        settings=_settings(rng),
    )


def standbys(rng: Random) -> Scenario:
    """The same for a streams group: two or three members in two processes, and copies of what they run."""
    return Scenario(
        "standbys",
        (TopicPlan("alpha", rng.choice((1, 2))),),
        producers=1,
        records_of=12,
        consumers=0,
        streams_members=rng.choice((2, 3, 4)),
        streams_standbys=rng.choice((0, 1, 1)),
        group_turns=rng.randrange(5, 12),
        pace_s=rng.choice((0.2, 1.0)),
        fates=_RESTLESS,
        settings={**_settings(rng), "group_assignment_interval_ms": rng.choice((0, 1_000))},
    )


def poison(rng: Random) -> Scenario:
    """Two workers of a share group that reject much, and a third process that deletes the group when they are gone; a
    topic that comes and goes."""
    churn = rng.choice(((), ("gamma",)))
    deletions = rng.choice((0, 8))
    return Scenario(
        "poison",
        (TopicPlan("alpha", 1), TopicPlan("dead-letters", 1)),
        producers=1 + len(churn),
        records_of=8,
        admins=len(churn),
        admin_turns=6,
        churn=churn,
        consumers=0,
        maintainers=len(churn),
        maintainer_turns=4,
        maintainer_pace_s=5.0,
        share_workers=rng.choice((2, 3)),
        share_turns=rng.randrange(6, 16),
        share_leaves=rng.choice((0.03, 0.25)) if deletions else 0.03,
        share_rejects=rng.choice((0.1, 0.4)),
        share_deletions=deletions,
        group_configs={
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": "2000",
            "share.delivery.count.limit": "2",
            "errors.deadletterqueue.topic.name": "dead-letters",
        },
        pace_s=rng.choice((0.1, 0.5)),
        fates=replace(_RESTLESS, jump=rng.choice((0.0, 0.01))),
        settings={**_settings(rng), "share_partition_max_record_locks": rng.choice((4, 2_000))},
    )


def incarnations(rng: Random) -> Scenario:
    """Two or three gateways that believe to be one broker, or two, and a fleet that writes between them."""
    return Scenario(
        "incarnations",
        (TopicPlan("alpha", 1),),
        producers=rng.choice((0, 1)),
        records_of=8,
        consumers=1,
        consumers_rest_s=2.0,
        gateways=rng.choice((2, 3)),
        gateway_ids=rng.choice((1, 1, 2)),
        gateway_turns=4,
        pace_s=rng.choice((0.1, 0.5)),
        fates=_RESTLESS,
        settings={**_settings(rng), "broker_session_ms": rng.choice((500, 2_000)), "leader_cache_ms": 100},
    )


_NOW_AND_THEN = replace(_RESTLESS, stall=0.02, cluster=0.05, stalls_s=(0.5, 2.0, 8.0, 130.0), twice=0.15)
# What was decided reaches the store when others have gone on: commits, what a transaction takes in, its end.
_LATE_COMMITS = replace(_RESTLESS, stall=0.2, cluster=0.0, stalling=frozenset({"tables.transact"}))
_LATE_PRODUCES = replace(_RESTLESS, stall=0.2, cluster=0.0, twice=0.4, stalling=frozenset({"log.get", "log.put"}))
_LATE_ENDS = replace(_RESTLESS, stall=0.1, cluster=0.0, stalls_s=(8.0, 130.0), stalling=frozenset({"log.query"}))


def contest(rng: Random) -> Scenario:
    """Two transactional ids, and sometimes a plain producer, that write to one topic: offsets that are told before
    the commit, batches that come again in a later transaction of the first protocol, and commits that outlast the
    time-out, while nobody, or only a sweep, clears up behind them."""
    fates = rng.choice((_NOW_AND_THEN, _LATE_COMMITS, _LATE_PRODUCES, _LATE_ENDS))
    repeats, is_told = fates is _NOW_AND_THEN, fates in (_LATE_COMMITS, _LATE_PRODUCES)
    predicted = {"transaction.offsets": "predicted"} if is_told else {}
    return Scenario(
        "contest",
        (TopicPlan("alpha", 1), TopicPlan("beta", 1), TopicPlan("gamma", 2 if repeats else 1, predicted)),
        producers=rng.choice((2, 3)),
        records_of=16 if repeats else 10,
        consumers=0,
        chains=(("alpha", "gamma"), ("beta", "gamma")),
        transactors=rng.choice((1, 1, 2)),
        transactor_turns=20 if repeats else 12,
        bump=not repeats and (fates is _LATE_PRODUCES or rng.random() < 0.5),
        mischief=4 if repeats else 2,
        maintainers=int(repeats),
        sweepers=int(fates is _LATE_ENDS),
        maintainer_turns=40 if fates is _LATE_ENDS else 10,
        maintainer_pace_s=10.0,
        pace_s=rng.choice((0.2, 1.0)),
        fates=fates,
        settings=_settings(rng),
    )


def copies(rng: Random) -> Scenario:
    """Two members of a group, of either protocol, that copy what they read in transactions, and lose their partitions
    while they commit."""
    return Scenario(
        "copies",
        (TopicPlan("alpha", rng.choice((1, 2))), TopicPlan("beta", 1)),
        producers=1,
        records_of=24,
        consumers=0,
        chains=(("alpha", "beta"),),
        transactors=0,
        transactor_turns=20,
        transactional_members=(rng.choice(("consumer", "classic")),) * 2,
        classic_rebalance_ms=2_000,
        group_turns=rng.randrange(12, 24),
        mischief=2,
        bump=rng.random() < 0.7,
        pace_s=rng.choice((1.0, 3.0)),  # of the producer: while it writes, everything may fail
        fates=rng.choice((_NOW_AND_THEN, replace(_LATE_COMMITS, pause_s=0.15, stalls_s=(5.0, 20.0, 60.0)))),
        settings={**_settings(rng), "group_session_timeout_ms": 3_000},
    )


SMALL: dict[str, Callable[[Random], Scenario]] = {
    "growth": growth,
    "rebalance": rebalance,
    "roll_call": roll_call,
    "standbys": standbys,
    "poison": poison,
    "incarnations": incarnations,
    "contest": contest,
    "copies": copies,
}
