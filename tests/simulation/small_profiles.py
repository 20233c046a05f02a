"""Small worlds: few actors, few steps, and most of what may go wrong goes wrong together.

A defect that needs two faults within one append is rare in a long run of a large world, which costs a second; a run of
these costs a tenth. They are the same actors and books.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation import small_group_profiles
from tests.simulation.fates import TROUBLE, merge_settings
from tests.simulation.plan import Scenario, TopicPlan


def _settings(rng: Random) -> dict[str, Any]:
    """Every append spills, every spill evicts, every pass merges and sweeps."""
    return {
        **merge_settings(rng),
        "group_members_max": 250,
        "group_attempts_max": 30,
        "group_session_timeout_ms": rng.choice((3_000, 10_000)),
        "group_heartbeat_interval_ms": 1_000,
        "transaction_timeout_ms_max": 60_000,
        "sweep_horizon_ms": 100_000,
        "sweep_interval_ms": 0,
        "sweep_recheck_hours": 1,
        "spill_entries": rng.choice((1, 2)),
        "merge_delay_ms": 0,
        "merge_age_ms": rng.choice((0, 5_000)),
        "producers_in_head_max": 1,
        "producers_bytes_max": 1,
        "producer_idle_ms": 0,
        "maintenance_lease_ms": 2_000,
        "broker_session_ms": 5_000,
    }


def _no_room(rng: Random) -> dict[str, Any]:
    """A tail keeps `spill_entries`, and no more; a shared head has few pages."""
    return {
        **_settings(rng),
        "head_bytes_max": 200,
        "paged_appends": 3,
        "default_partitions_per_head": rng.choice((1, 1, 1, 3)),
    }


def duel(rng: Random) -> Scenario:
    """One or two writers to a partition, one maintainer, readers."""
    keyed = rng.random() < 0.3
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "delete.retention.ms": "0"}
    compacted["min.compaction.lag.ms"] = rng.choice(("0", "20000"))
    compacted["retention.ms"] = "40000"  # which does not apply to it
    keeping: dict[str, str] = rng.choice(({}, {}, {"retention.ms": "40000"}, {"retention.bytes": "600"}))
    return Scenario(
        "duel",
        (TopicPlan("alpha", 1, compacted if keyed else keeping, keys=3 if keyed else 0),),
        producers=rng.choice((1, 2)),
        idempotent_share=rng.choice((0.3, 1.0)),
        records_of=rng.randrange(5, 14),
        consumers=1,
        consumers_rest_s=2.0,
        together=0.6,
        deleters=0 if keyed else rng.choice((0, 0, 1)),
        admin_turns=3,
        deletes_all=0.6,
        maintainers=1,
        maintainer_turns=12,
        maintainer_pace_s=4.0,
        pace_s=rng.choice((1.0, 5.0, 20.0)),
        fates=TROUBLE,
        settings=_settings(rng),
    )


def handover(rng: Random) -> Scenario:
    """Two instances of a transactional id copy a partition, fence each other, abort, and come late."""
    predicted = {"transaction.offsets": "predicted"} if rng.random() < 0.5 else {}
    return Scenario(
        "handover",
        (TopicPlan("alpha", 1), TopicPlan("beta", 1, predicted)),
        producers=1,
        records_of=8,
        consumers=0,
        chains=(("alpha", "beta"),),
        transactors=2,
        transactor_turns=6,
        transactional_members=rng.choice(((), (), ("consumer",) * 2, ("classic",) * 2)),
        mischief=4,
        maintainers=1,
        maintainer_turns=12,
        maintainer_pace_s=5.0,
        pace_s=rng.choice((0.2, 2.0)),
        fates=TROUBLE,
        settings=_settings(rng),
    )


def tidy(rng: Random) -> Scenario:
    """Minutes and hours of a quiet log: uploads, swaps and deletions that come late, sweeps over the end of an hour,
    writers whom a sweep overtakes, merges, retention and DeleteRecords by two maintainers."""
    pace_s = rng.choice((20.0, 150.0, 1_500.0))
    stalling = rng.choice((frozenset({"log.update"}), frozenset({"log.update"}), frozenset({"log.get", "log.query"})))
    lating = rng.choice((frozenset[str](), frozenset({"objects.put", "log.put", "log.transact", "tables.transact"})))
    keeping: dict[str, str] = rng.choice(({}, {}, {"retention.ms": "600000"}, {"retention.bytes": "600"}))
    return Scenario(
        "tidy",
        (TopicPlan("alpha", rng.choice((1, 2)), keeping),),
        producers=rng.choice((1, 2)),
        idempotent_share=rng.choice((0.3, 1.0)),
        records_of=rng.randrange(6, 16),
        consumers=1,
        consumers_rest_s=pace_s,
        plans_in_bulk=True,
        together=0.6,
        in_parts=0.8,
        overtaken=0.1,
        deleters=rng.choice((0, 0, 1)),
        admin_turns=2,
        grows=rng.random() < 0.5,
        maintainers=2,
        maintainer_turns=10,
        maintainer_pace_s=pace_s / 2,
        pace_s=pace_s,
        begins_s=rng.choice((0.0, 1_700.0)),  # an hour ends 2,000 s after the beginning of a run
        fates=replace(
            TROUBLE,
            late=0.2 if lating else TROUBLE.late,
            lating=lating,
            stall=0.1,
            stalling=stalling,
            pause_s=rng.choice((0.3, 5.0)),
            lates_s=(0.3, 130.0, 1_500.0),
        ),
        settings=_no_room(rng),
    )


def crowded(rng: Random) -> Scenario:
    """Producers of one partition whose head has room for one of them: each is evicted and comes back, under its next
    epoch after every few batches, and many requests come twice or overtake each other."""
    return Scenario(
        "crowded",
        (TopicPlan("alpha", 1),),
        producers=3,
        idempotent_share=1.0,
        records_of=rng.randrange(8, 14),
        consumers=0,
        overtaken=0.2,
        epoch_batches=rng.choice(((1, 3), (4, 12))),
        gateways=rng.choice((0, 0, 1)),
        maintainers=rng.choice((0, 1)),
        maintainer_turns=5,
        maintainer_pace_s=4.0,
        pace_s=rng.choice((0.2, 1.0, 3.0)),
        fates=replace(
            TROUBLE,
            twice=0.3,
            pause_s=rng.choice((0.1, 0.3, 1.0)),
            stall=0.2,
            cluster=rng.choice((0.0, 0.0, 0.35)),
            stalls_s=(0.5, 2.0, 10.0),
            stalling=rng.choice((frozenset({"log.update"}), frozenset({"log.update", "log.put"}))),
        ),
        settings={**_no_room(rng), "spill_entries": rng.choice((1, 1, 2))},
    )


def throng(rng: Random) -> Scenario:
    """The same for three partitions that share a head: producers leave it and come back with all of them, and append
    late by what was known of them before."""
    alone = crowded(rng)
    return replace(
        alone,
        profile="throng",
        topics=(TopicPlan("alpha", 3),),
        producers=rng.choice((3, 5)),
        together=0.6,
        gateways=rng.choice((0, 0, 1)),
        fates=replace(
            alone.fates,
            late=rng.choice((0.05, 0.2)),
            lating=frozenset({rng.choice(("log.update", "log.put"))}),
            stalling=rng.choice((frozenset({"log.update"}), frozenset({"log.put"}), frozenset({"log.get"}))),
        ),
        settings={
            **alone.settings,
            "default_partitions_per_head": 3,
            "producers_bytes_max": rng.choice((1, 1, 60)),
            "producer_idle_ms": rng.choice((0, 60_000)),
        },
    )


def compacting(rng: Random) -> Scenario:
    """A keyed partition under passes of a few keys each, with lags and delete horizons of seconds."""
    configs = {
        "cleanup.policy": rng.choice(("compact", "compact", "compact,delete")),
        "min.cleanable.dirty.ratio": "0.0",
        "min.compaction.lag.ms": rng.choice(("0", "0", "600000")),
        "delete.retention.ms": rng.choice(("0", "30000", "86400000")),
        "segment.ms": rng.choice(("604800000", "30000")),
        "retention.ms": "60000",  # which applies where the policy has `delete`
    }
    return Scenario(
        "compacting",
        (TopicPlan("table", 1, configs, keys=rng.choice((2, 3, 6))),),
        producers=rng.choice((1, 2)),
        idempotent_share=rng.choice((0.3, 1.0)),
        records_of=rng.randrange(8, 16),
        consumers=rng.choice((0, 1)),
        consumers_rest_s=4.0,
        plans_in_bulk=True,
        maintainers=rng.choice((1, 1, 2)),
        maintainer_turns=12,
        maintainer_pace_s=rng.choice((4.0, 20.0)),
        pace_s=rng.choice((1.0, 5.0, 20.0)),
        tombstones=rng.choice((0.15, 0.5)),
        fates=rng.choice((TROUBLE, replace(TROUBLE, cluster=0.0, crash=0.15, crashing=frozenset({"log.put"})))),
        settings={
            **_no_room(rng),
            "compaction_map_entries_max": rng.choice((1, 3, 1_000)),
            "compaction_read_bytes": rng.choice((100, 400, 8 * 1024 * 1024)),
        },
    )


def rewritten(rng: Random) -> Scenario:
    """A log that maintainers rewrite under its readers, while one kind of call takes long or is late: the reads of who
    plans a fetch, the rows of spills, swaps, or the updates of writers; or maintainers die at their swaps."""
    fate: dict[str, Any] = rng.choice(
        (
            {"stall": 0.2, "stalling": frozenset({"log.query", "log.get"}), "stalls_s": (0.5, 2.0, 10.0)},
            {"stall": 0.2, "stalling": frozenset({"log.update"}), "lost_answer": 0.15, "stalls_s": (2.0, 10.0)},
            {"late": 0.3, "lating": frozenset({"log.put"}), "lates_s": (3.0, 20.0, 60.0)},
            {"late": 0.6, "lating": frozenset({"log.transact"}), "lates_s": (20.0, 60.0), "lost_answer": 0.0},
            {"lost_answer": 0.5, "losing": frozenset({"log.transact"})},
            {"crash": 0.1, "crashing": frozenset({"log.transact", "objects.put"})},
        )
    )
    keeping: dict[str, str] = rng.choice(({}, {}, {"retention.ms": "5000"}, {"retention.bytes": "300"}))
    return Scenario(
        "rewritten",
        (TopicPlan("alpha", 1, keeping),),
        producers=2,
        idempotent_share=rng.choice((0.0, 0.5)),
        records_of=rng.randrange(12, 22),
        consumers=2,
        consumers_rest_s=2.0,
        plans_in_bulk=True,
        gateways=rng.choice((0, 0, 1)),
        maintainers=rng.choice((1, 3)),
        maintainer_turns=12,
        maintainer_pace_s=2.0,
        pace_s=rng.choice((0.5, 2.0)),
        fates=replace(TROUBLE, **{"cluster": 0.0, "stall": 0.01, "late": 0.01, "torn": 1.0, **fate}),
        settings={
            **_no_room(rng),
            "maintenance_lease_ms": rng.choice((40, 2_000, 30_000)),
            "merge_rows_min": rng.choice((1, 3)),
            "merge_age_ms": 0,
            "segment_bytes_max": 64 * 1024 * 1024,
        },
    )


SMALL: dict[str, Callable[[Random], Scenario]] = {
    "compacting": compacting,
    "crowded": crowded,
    "duel": duel,
    "handover": handover,
    "rewritten": rewritten,
    "throng": throng,
    "tidy": tidy,
    **small_group_profiles.SMALL,
}
