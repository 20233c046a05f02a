"""Fates of calls, and settings, that several profiles share."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.store.ports import Fates

# Little rest for anybody: what one process does between two calls of another is the rule. Stalls exceed leases,
# sessions and, the longest, the sweep's horizon.
STORM = Fates(
    crash=0.002,
    unavailable=0.02,
    lost_answer=0.1,
    late=0.04,
    repeated=0.03,
    stall=0.02,
    pause_s=0.5,
    stalls_s=(1.0, 5.0, 20.0, 130.0),
    lates_s=(0.3, 3.0, 20.0, 130.0),
    torn=0.7,
    freeze=0.001,
    freezes_s=(3.0, 20.0, 130.0),
    twice=0.08,
)

# Few troubles, but where there is one the next comes soon: two faults within one append.
TROUBLE = Fates(
    crash=0.002,
    unavailable=0.01,
    lost_request=0.0,
    lost_answer=0.05,
    late=0.04,
    repeated=0.05,
    stall=0.04,
    cluster=0.35,
    pause_s=0.3,
    stalls_s=(1.0, 20.0, 130.0),
    lates_s=(0.3, 20.0, 130.0),
    torn=0.7,
    freeze=0.002,
    freezes_s=(20.0, 130.0),
    jump=0.0,
    twice=0.05,
)

# A store that is slow and no more: calls that take up to so long now and then, refusals, lost answers.
SLOW = Fates(
    crash=0.0005,
    stall=0.02,
    stalls_s=(0.6, 0.8, 1.5, 4.0),
    lost_request=0.005,
    late=0.002,
    freezes_s=(1.5, 10.0, 40.0),
    jump=0,
)

# A group waits for its stalled members, and two dozen others send heartbeats meanwhile: stalls of minutes, which are
# longer than each session and round, show what those of hours would, for a hundredth of the steps.
MINUTES = Fates(stalls_s=(2.0, 60.0, 120.0), freezes_s=(5.0, 90.0, 120.0))


def merge_settings(rng: Random) -> dict[str, Any]:
    return {
        "head_bytes_max": 400,
        "spill_entries": rng.choice((1, 2, 4)),
        "merge_rows_min": rng.choice((1, 3)),
        "merge_age_ms": rng.choice((0, 60_000)),
        "segment_bytes_max": rng.choice((500, 2_000, 64 * 1024 * 1024)),
    }


# Sessions as short as the hostile value never let a group come to rest; these let members expire often enough.
_GROUP_SETTINGS = {"group_members_max": 250, "group_attempts_max": 30}


def group_settings(rng: Random) -> dict[str, Any]:
    return {
        **_GROUP_SETTINGS,
        "group_session_timeout_ms": rng.choice((3_000, 10_000, 45_000)),
        "group_heartbeat_interval_ms": 1_000,
    }


# A sweep within minutes: its horizon must exceed the longest transaction and request.
def sweep_settings(rng: Random) -> dict[str, Any]:
    return {
        "transaction_timeout_ms_max": 60_000,  # transactors ask for 30 s
        "sweep_horizon_ms": rng.choice((100_000, 960_000)),
        "sweep_interval_ms": rng.choice((0, 300_000)),
        "sweep_recheck_hours": rng.choice((1, 6)),
        "producer_expiry_ms": 86_400_000,
    }
