"""Profiles with triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.fates import group_settings, merge_settings, sweep_settings
from tests.simulation.plan import DEAD_TOPIC, Scenario, TopicPlan
from tests.simulation.store.ports import Fates


def triggers(rng: Random) -> Scenario:
    """Functions that are called with records: marks, lost wake messages, dispatchers that die, transactions."""
    factor, settings = rng.choice((1, 1, 3)), {**group_settings(rng), **merge_settings(rng), "catalog_cache_ms": 0}
    return Scenario(
        "triggers",
        (TopicPlan("beta", 1), TopicPlan("alpha", rng.choice((1, 2)), keys=rng.choice((0, 3)))),
        producers=rng.choice((1, 2, 3)),
        records_of=rng.randrange(10, 30),
        consumers=0,
        chains=rng.choice(((), (("beta", "alpha"),))),
        transactors=1,
        transactor_turns=10,
        triggers=rng.choice((1, 2)),
        trigger_factor=factor,
        pace_s=rng.choice((0.2, 2.0, 20.0)),
        # A clock that is off by hours says so to who asks how long a lease lasts: the fence holds, calls may overlap.
        fates=Fates(jump=0, stalls_s=(2.0, 60.0, 600.0), freezes_s=(5.0, 90.0, 600.0)),
        settings=settings,
    )


def trigger_topics(rng: Random) -> Scenario:
    """Triggers whose topic changes: retention and DeleteRecords take records before anybody was called with them,
    partitions are added, the topic goes and comes again; windows, failure topics, clocks that jump."""
    scenario = triggers(rng)
    trigger_mode = rng.choice(("windows", "gives up", "gives up", "fills"))
    options: dict[str, Any] = {
        "windows": {"tumbling_window_s": rng.choice((5, 60))},
        "gives up": {"on_failure": f"topic:{DEAD_TOPIC}", "retry_attempts": rng.choice((0, 2)), "bisect": True},
        "fills": {"batching_window_s": rng.choice((1, 60)), "batch_size": 4},
    }[trigger_mode]
    keeping: Mapping[str, str] = rng.choice(({}, {"retention.ms": "60000"}, {"retention.bytes": "600"}))
    churn = rng.choice(((), ("alpha",)))
    return replace(
        scenario,
        profile="trigger_topics",
        topics=(TopicPlan(DEAD_TOPIC, 2), TopicPlan("alpha", rng.choice((1, 2)), keeping)),
        producers=3,
        chains=(),
        churn=churn,
        admins=len(churn),
        admin_turns=3,
        records_of=80 if churn else scenario.records_of,  # some of them after the last turn of the admins
        deleters=0 if churn else rng.choice((0, 1)),
        deletes_all=0.5,
        grows=not churn and rng.random() < 0.5,
        maintainers=1,
        maintainer_pace_s=30.0,
        trigger_factor=1 if trigger_mode == "windows" else scenario.trigger_factor,
        trigger_options=options,
        fates=replace(scenario.fates, jump=rng.choice((0, 0.0006))),
        settings={**scenario.settings, **sweep_settings(rng)},
    )
