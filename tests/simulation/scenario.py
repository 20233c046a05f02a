"""Scenarios: who lives in a world and how, drawn from the seed.

A *profile* is a kind of life (a log under load, topics that come and go, groups, ...); it draws the numbers of one
scenario. `everything` mixes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.simulation import small_profiles, trigger_profiles
from tests.simulation.fates import MINUTES, SLOW, STORM, group_settings, merge_settings, sweep_settings
from tests.simulation.plan import Scenario, TopicPlan
from tests.simulation.store.ports import Fates

Draw = Callable[[Random], Scenario]


def _log(rng: Random) -> Scenario:
    """Appends and reads under load: sequences, spills, evictions."""
    return Scenario(
        "log",
        tuple(TopicPlan(name, rng.choice((1, 2))) for name in ("alpha", "beta")),
        producers=rng.choice((2, 3, 4)),
        records_of=rng.randrange(10, 50),
        conditional=rng.choice((0, 1, 2)),
        settings=group_settings(rng),
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
        settings=group_settings(rng),
    )


def _groups(rng: Random) -> Scenario:
    """Members come and go, stall and crash; what they commit is theirs."""
    partitions, members, turns = rng.choice((2, 3, 5)), rng.choice((3, 4, 5)), rng.randrange(16, 48)
    return Scenario(
        "groups",
        (TopicPlan("alpha", partitions),),
        producers=2,
        records_of=25,
        consumers=0,
        group_members=members,
        group_turns=turns,
        grows=turns % 3 == 0,
        group_assignor=(None, "range")[turns % 2],  # who loses partitions to one member gains another's
        pace_s=1.0,
        settings=group_settings(rng),
    )


def _streams(rng: Random) -> Scenario:
    """Members of a streams group: tasks and standbys that move, topics that the first heartbeat asks for."""
    return Scenario(
        "streams",
        (TopicPlan("alpha", rng.choice((2, 3))),),
        producers=2,
        records_of=25,
        consumers=0,
        streams_members=rng.choice((2, 3, 4)),
        streams_standbys=rng.choice((0, 1, 1)),
        group_turns=rng.randrange(8, 24),
        pace_s=1.0,
        settings=group_settings(rng),
    )


def _classic(rng: Random) -> Scenario:
    """Members of the classic protocol: rounds that some of them miss, leaders that die, sessions that end."""
    return Scenario(
        "classic",
        (TopicPlan("alpha", rng.choice((2, 3))),),
        producers=2,
        records_of=25,
        consumers=0,
        classic_members=rng.choice((2, 3, 4)),
        group_turns=rng.randrange(8, 30),
        pace_s=1.0,
        settings={
            **group_settings(rng),
            "group_session_timeout_ms_min": 1_000,
            "group_initial_rebalance_delay_ms": rng.choice((0, 500)),
            # Each look of a member that waits is a step of the run.
            "poll_interval_ms": 100,
            "poll_interval_ms_max": 500,
        },
    )


def _calls_of(rng: Random) -> Fates:
    """Choose the length of calls: where actors rest for minutes, calls overlap often only if they take seconds."""
    return Fates(pause_s=rng.choice((0.02, 1.0, 5.0)))


def _upkeep(rng: Random) -> Scenario:
    """Hours of a log: merges, retention, DeleteRecords, sweeps, orphans, by several maintainers at once."""
    retention = rng.choice(({}, {"retention.ms": "1800000"}, {"retention.bytes": "1500"}))
    return Scenario(
        "upkeep",
        (TopicPlan("alpha", rng.choice((1, 2)), retention), TopicPlan("beta", 1)),
        producers=3,
        records_of=30,
        deleters=rng.choice((0, 1)),
        maintainers=2,
        maintainer_pace_s=rng.choice((60.0, 300.0)),
        pace_s=rng.choice((20.0, 120.0)),
        fates=_calls_of(rng),
        settings={**group_settings(rng), **sweep_settings(rng), **merge_settings(rng)},
    )


def _storm(rng: Random) -> Scenario:
    """A log on which everything happens at once, in minutes: appends that are repeated, spills of single entries,
    evictions, merges, retention, sweeps, look-ups, each between the calls of the others."""
    keeping: dict[str, str] = rng.choice(({}, {"retention.ms": "40000"}, {"retention.bytes": "600"}))
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "delete.retention.ms": "0"}
    compacted["retention.ms"] = "40000"  # which does not apply to it
    keyed = rng.random() < 0.2
    return Scenario(
        "storm",
        (TopicPlan("alpha", rng.choice((1, 2)), compacted if keyed else keeping, keys=4 if keyed else 0),),
        producers=rng.choice((3, 5)),
        idempotent_share=rng.choice((0.3, 0.8)),
        records_of=rng.randrange(20, 40),
        conditional=rng.choice((0, 1)),
        consumers=2,
        consumers_rest_s=2.0,
        together=0.6,
        deleters=0 if keyed else rng.choice((0, 1)),
        deletes_all=0.6,
        gateways=rng.choice((0, 0, 1, 2)),
        maintainers=2,
        maintainer_turns=20,
        maintainer_pace_s=2.0,
        pace_s=rng.choice((1.0, 3.0, 15.0)),
        fates=replace(
            STORM,
            pause_s=rng.choice((0.2, 1.0)),
            stalling=rng.choice((frozenset(), frozenset({"log.update"}))),  # between an upload and its head
        ),
        settings={
            **group_settings(rng),
            **sweep_settings(rng),
            **merge_settings(rng),
            "sweep_horizon_ms": 100_000,
            "sweep_interval_ms": 0,
            "spill_entries": rng.choice((1, 2, 8)),
            "head_bytes_max": rng.choice((400, 4_096)),
            "merge_delay_ms": 0,
            "merge_age_ms": rng.choice((0, 5_000)),
            "producers_in_head_max": rng.choice((1, 2)),
            "producer_idle_ms": 0,
            "maintenance_lease_ms": rng.choice((2_000, 10_000)),
            "broker_session_ms": 5_000,
        },
    )


def _merged(rng: Random) -> Scenario:
    """Producers of many partitions of one head whose requests a gateway merges, while updates fail in every way and the
    gateway dies between them. What they send together is often more than one update takes."""
    return Scenario(
        "merged",
        (TopicPlan("alpha", 24),),
        producers=1,
        merged=rng.choice((8, 12)),
        merged_ms=rng.choice((250, 1_000)),
        narrow=rng.choice((1, 4, 12)),
        records_of=rng.choice((60, 120)),
        maintainers=rng.choice((0, 1)),
        maintainer_turns=3,
        maintainer_pace_s=30.0,
        pace_s=rng.choice((0.02, 0.5)),
        fates=rng.choice((Fates(crash=0.01, late=0.02, stall=0.01), Fates(lost_answer=0.1, unavailable=0.05))),
        settings={
            **group_settings(rng),
            **sweep_settings(rng),
            "default_partitions_per_head": rng.choice((8, 24, 24)),
            "producers_bytes_max": rng.choice((1_024, 100_000, 100_000)),
            "paged_appends": rng.choice((3, 128)),
            "append_attempts_max": 20,
        },
    )


def _connections(rng: Random) -> Scenario:
    """Connections on which batches come without their predecessors, too large, or under an epoch that has ended."""
    return Scenario(
        "connections",
        (TopicPlan("alpha", 1), TopicPlan("beta", 1)),
        producers=0,
        unruly=rng.choice((2, 3)),
        pace_s=0.2,
        fates=replace(SLOW, unavailable=rng.choice((0.05, 0.3)), late=0.02, lost_answer=0.05, pause_s=0.2, twice=0),
        settings={**group_settings(rng), "append_attempts_max": rng.choice((1, 3, 20))},
    )


def _compaction(rng: Random) -> Scenario:
    """Keyed topics: the last record of each key stays, tombstones go in the end."""
    configs = {
        "cleanup.policy": rng.choice(("compact", "compact", "compact,delete")),
        "min.cleanable.dirty.ratio": rng.choice(("0.0", "0.5")),
        "delete.retention.ms": rng.choice(("0", "600000", "86400000")),
        "min.compaction.lag.ms": rng.choice(("0", "0", "120000")),
        "segment.ms": rng.choice(("604800000", "300000")),
    }
    return Scenario(
        "compaction",
        (TopicPlan("table", rng.choice((1, 2)), configs, keys=rng.choice((3, 8))),),
        producers=3,
        records_of=28,
        maintainers=2,
        maintainer_pace_s=rng.choice((60.0, 300.0)),
        maintainer_turns=10,
        pace_s=rng.choice((20.0, 60.0)),
        fates=_calls_of(rng),
        settings={
            **group_settings(rng),
            **sweep_settings(rng),
            **merge_settings(rng),
            "compaction_map_entries_max": rng.choice((3, 1_000)),
            "compaction_read_bytes": rng.choice((400, 8 * 1024 * 1024)),
        },
    )


def _transactions(rng: Random) -> Scenario:
    """Read-process-write in transactions, by instances that fence each other.

    Where offsets are told before the commit, the writers of a partition abort each other.
    """
    partitions, turns = rng.choice((1, 2)), rng.randrange(12, 30)
    predicted = ({}, {"transaction.offsets": "predicted"})[turns % 2]
    return Scenario(
        "transactions",
        (TopicPlan("alpha", partitions), TopicPlan("beta", 2, predicted), TopicPlan("gamma", 2, predicted)),
        producers=1,
        records_of=25,
        consumers=1,
        chains=(("alpha", "beta"), ("beta", "gamma")),
        transactors=2,
        transactor_turns=turns,
        transactional_members=rng.choice(((), ("consumer",) * 2, ("classic",) * 2)),
        bump=rng.random() < 0.7,
        gateways=rng.choice((0, 0, 1)),
        maintainers=rng.choice((0, 1)),
        maintainer_pace_s=60.0,
        pace_s=rng.choice((0.2, 5.0)),
        settings={**group_settings(rng), **sweep_settings(rng), **merge_settings(rng)},
    )


def _exchange(rng: Random) -> Scenario:
    """Transactions that are repeated, aborted, idle for too long and fenced, while stores stall for longer than their
    time-out and sweeps pass: two copies of one source, most of the offsets told before the commit."""
    scenario = _transactions(rng)
    predicted = {"transaction.offsets": "predicted"} if rng.random() < 0.6 else {}
    return replace(
        scenario,
        profile="exchange",
        topics=(TopicPlan("alpha", 1), TopicPlan("beta", rng.choice((1, 2)), predicted)),
        chains=(("alpha", "beta"),),
        transactors=rng.choice((2, 3)),
        transactor_turns=25,
        mischief=rng.choice((2, 4)),
        maintainers=1,
        maintainer_pace_s=5.0,
        maintainer_turns=60,
        pace_s=rng.choice((0.2, 2.0)),
        fates=replace(
            STORM,
            stall=rng.choice((0.02, 0.06)),
            stalling=rng.choice((frozenset(), frozenset({"log.get", "log.get_many", "tables.transact", "groups.get"}))),
            stalls_s=(1.0, 20.0, 130.0),
        ),
        settings={
            **scenario.settings,
            "sweep_horizon_ms": 100_000,
            "sweep_interval_ms": 0,
            "transaction_timeout_ms_max": 60_000,
            "group_session_timeout_ms": rng.choice((3_000, 10_000)),
        },
    )


def _leaders(rng: Random) -> Scenario:
    """Gateways take partitions from each other and from the fleet, stall, and come back too late."""
    return Scenario(
        "leaders",
        (TopicPlan("alpha", rng.choice((1, 2))),),
        producers=1,
        records_of=20,
        conditional=rng.choice((0, 1)),
        gateways=rng.choice((2, 3)),
        maintainers=1,
        maintainer_pace_s=60.0,
        pace_s=rng.choice((0.05, 2.0)),
        settings={
            **group_settings(rng),
            **sweep_settings(rng),
            **merge_settings(rng),
            "broker_session_ms": rng.choice((2_000, 10_000)),
        },
    )


def _share(rng: Random) -> Scenario:
    """Workers take records off a queue, crash, stall, release, reject and forget; the rest goes to dead letters.

    Under them retention, DeleteRecords or compaction take records away, and a topic that is read comes and goes.
    """
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "delete.retention.ms": rng.choice(("0", "86400000")),
    }
    configs = rng.choice(({}, {"retention.ms": "20000"}, {"retention.bytes": "600"}, compacted))
    churn = rng.choice(((), ("gamma",)))
    deleters = 0 if configs is compacted else rng.choice((0, 1))
    return Scenario(
        "share",
        (
            TopicPlan("alpha", rng.choice((1, 2)), configs, keys=4 if configs is compacted else 0),
            TopicPlan("dead-letters", 1),
        ),
        producers=1 + len(churn),
        admins=len(churn),
        admin_turns=6,
        churn=churn,
        deleters=deleters,
        maintainers=2 if configs or churn or deleters else 0,
        maintainer_pace_s=rng.choice((5.0, 30.0)),
        records_of=25,
        consumers=1,
        share_workers=rng.choice((2, 3, 4)),
        share_turns=rng.randrange(10, 40),
        group_configs={
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": rng.choice(("2000", "10000")),
            "share.delivery.count.limit": rng.choice(("2", "5")),
            "errors.deadletterqueue.topic.name": "dead-letters",
        },
        pace_s=rng.choice((0.2, 1.0)),
        fates=Fates(jump=0.003),  # locks end by clocks
        settings={
            **group_settings(rng),
            **sweep_settings(rng),
            **merge_settings(rng),
            "share_partition_max_record_locks": rng.choice((4, 20, 2_000)),
        },
    )


def _stock(rng: Random) -> Scenario:
    """Producers of stock clients against gateways on a slow store: nothing lost, doubled, failed or dead."""
    recreations = rng.choice((0, 0, 3))
    silence_s = rng.choice((0.0, 0.0, 1_200.0))
    expiry = {"producer_expiry_ms": 600_000, "producers_in_head_max": 1, "producer_idle_ms": 0} if silence_s else {}
    return Scenario(
        "stock",
        tuple(TopicPlan(name, rng.choice((1, 2))) for name in ("alpha", "beta")),
        producers=0,
        consumers=0 if silence_s else 1,
        stock_clients=rng.choice((("java",), ("librdkafka",), ("java", "librdkafka"), ("librdkafka", "aiokafka"))),
        stock_gateways=rng.choice((1, 1, 2)),
        stock_leads=rng.choice((False, True)),
        stock_gateway_life_s=rng.choice((0.0, 60.0)),
        stock_batches=rng.randrange(40, 100),
        stock_silence_s=silence_s,
        stock_recreations=recreations,
        maintainers=1 if silence_s else 0,
        maintainer_turns=30,
        maintainer_pace_s=120.0,
        pace_s=rng.choice((0.1, 0.5)),
        fates=rng.choice((SLOW, replace(SLOW, stall=0.08), replace(SLOW, unavailable=0.15))),
        settings={
            **group_settings(rng),
            **sweep_settings(rng),
            **expiry,
            "broker_session_ms": rng.choice((2_000, 10_000)),
            "poll_interval_ms_max": 250,
        },
    )


def _crowd(rng: Random) -> Scenario:
    """Up to 200 idempotent producers on one partition that is throttled: long tails, and heads full of producers."""
    return Scenario(
        "crowd",
        (TopicPlan("alpha", 1),),
        producers=rng.choice((40, 40, 40, 200)),
        idempotent_share=1.0,
        records_of=4,
        maintainers=rng.choice((0, 1)),
        maintainer_turns=3,
        maintainer_pace_s=30.0,
        pace_s=rng.choice((0.5, 2.0)),
        write_units=1_000,
        fates=Fates(crash=0.0005, late=0.003, stall=0.0003),
        settings={
            **group_settings(rng),
            **sweep_settings(rng),
            "head_bytes_max": rng.choice((400, 1024)),
            "spill_entries": rng.choice((4, 8, 120)),
            "producers_in_head_max": rng.choice((8, 32, 500)),
            "append_attempts_max": 20,
        },
    )


def _large_groups(rng: Random) -> Scenario:
    """Groups of both protocols with many members over many partitions."""
    return Scenario(
        "large_groups",
        (TopicPlan("alpha", rng.choice((8, 16))),),
        producers=2,
        records_of=40,
        consumers=0,
        group_members=rng.choice((8, 16)),
        classic_members=rng.choice((0, 8)),
        group_turns=rng.randrange(4, 10),
        pace_s=1.0,
        write_units=1_000,
        fates=MINUTES,
        settings={
            **group_settings(rng),
            "group_session_timeout_ms": rng.choice((10_000, 45_000)),
            "group_session_timeout_ms_min": 1_000,
            "group_initial_rebalance_delay_ms": 500,
            "poll_interval_ms": 100,
            "poll_interval_ms_max": 500,
        },
    )


def _everything(rng: Random) -> Scenario:
    """A little of all of it at once."""
    return Scenario(
        "everything",
        (
            TopicPlan("alpha", 2, rng.choice(({}, {"retention.ms": "1800000"}))),
            TopicPlan("beta", 1),
            TopicPlan("table", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}, keys=5),
        ),
        producers=4,
        records_of=16,
        conditional=1,
        group_members=2,
        group_turns=10,
        admins=1,
        admin_turns=6,
        churn=("gamma",),
        chains=(("alpha", "beta"),),
        transactors=2,
        transactor_turns=10,
        deleters=0,
        gateways=1,
        maintainers=2,
        maintainer_pace_s=60.0,
        pace_s=rng.choice((1.0, 10.0)),
        settings={**group_settings(rng), **sweep_settings(rng), **merge_settings(rng)},
    )


PROFILES: dict[str, Draw] = {
    "log": _log,
    "topics": _topics,
    "groups": _groups,
    "upkeep": _upkeep,
    "classic": _classic,
    "compaction": _compaction,
    "connections": _connections,
    "crowd": _crowd,
    "exchange": _exchange,
    "large_groups": _large_groups,
    "leaders": _leaders,
    "merged": _merged,
    "share": _share,
    "stock": _stock,
    "storm": _storm,
    "streams": _streams,
    "transactions": _transactions,
    "trigger_topics": trigger_profiles.trigger_topics,
    "triggers": trigger_profiles.triggers,
    "everything": _everything,
    **small_profiles.SMALL,
}


def draw(rng: Random, profile: str | None = None) -> Scenario:
    """The scenario of a run: of the given profile, or of one by chance."""
    return PROFILES[profile or rng.choice(sorted(PROFILES))](rng)
