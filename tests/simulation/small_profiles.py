"""Small worlds: few actors, few steps, and most of what may go wrong goes wrong together.

A defect that needs two faults within one append is rare in a long run of a large world, which costs a second; a run of
these costs a tenth. They are the same actors and books.
"""

from __future__ import annotations

from collections.abc import Callable
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
        "producer_idle_ms": 0,
        "maintenance_lease_ms": 2_000,
        "broker_session_ms": 5_000,
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
    told = {"transaction.offsets": "predicted"} if rng.random() < 0.5 else {}
    return Scenario(
        "handover",
        (TopicPlan("alpha", 1), TopicPlan("beta", 1, told)),
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


SMALL: dict[str, Callable[[Random], Scenario]] = {"duel": duel, "handover": handover, **small_group_profiles.SMALL}
