"""Planted bugs of promises about time, and of clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.adapters.store_clock import StoreClock
from odradek.engine.append import upload
from odradek.engine.compaction.decisions import CompactionPolicy
from odradek.engine.maintenance.roll import Roll
from odradek.model.record import BatchHeader

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug
from tests.simulation.store.ports import Fates


def _compacted(**configs: str) -> Any:
    def change(scenario: Scenario) -> Scenario:
        topics = (replace(topic, configs={**topic.configs, **configs}) for topic in scenario.topics)
        return replace(scenario, topics=tuple(topics), fates=Fates.none())

    return change


_LAGGING = _compacted(**{"min.compaction.lag.ms": "600000", "min.cleanable.dirty.ratio": "0.0"})
_KEEPING = _compacted(**{"delete.retention.ms": "600000", "min.cleanable.dirty.ratio": "0.0"})


@bug("compaction", change=_LAGGING)
def compaction_lag_is_not_waited_for() -> Iterator[None]:
    """Records are compacted as soon as they are in a segment; at the end of a run nobody could tell."""
    original = CompactionPolicy.of

    def of(*args: Any) -> CompactionPolicy:
        return replace(original(*args), min_lag_ms=0)

    with patch.object(CompactionPolicy, "of", of):
        yield


@bug("compaction", change=_KEEPING)
def tombstones_go_with_the_next_cleaning() -> Iterator[None]:
    """The delete horizon is now."""
    with patch.object(CompactionPolicy, "horizon_ms", lambda self, now_ms: now_ms):
        yield


def _calm(scenario: Scenario) -> Scenario:
    return replace(scenario, fates=Fates.none())


@bug("log", change=_calm)
def the_timestamp_of_a_header_is_believed() -> Iterator[None]:
    """Lookups by time go by what a producer wrote into the header of a batch, and some write -1."""
    original = upload.check_records

    def check_records(batch: Any, header: BatchHeader, *args: Any, **named: Any) -> Any:
        yield from original(batch, header, *args, **named)
        return header.max_timestamp_ms

    with patch.object(upload, "check_records", check_records):
        yield


def _expiring(scenario: Scenario) -> Scenario:
    topics = tuple(replace(topic, configs={**topic.configs, "retention.ms": "600000"}) for topic in scenario.topics)
    return replace(scenario, topics=topics)


@bug("upkeep", change=_expiring)
def quiet_tail_is_never_rolled() -> Iterator[None]:
    """Only writers spill, so the last records of a partition stay for ever."""

    async def never(self: Roll, *_: Any) -> bool:
        return False

    with patch.object(Roll, "is_due", never), patch.object(Roll, "run", never):
        yield


def _jumping(scenario: Scenario) -> Scenario:
    fates = replace(Fates.none(), jump=0.02, torn=0.3)
    return replace(scenario, fates=fates, churn=(), admins=0)


@bug("share", change=_jumping, seeds=20)
def own_clock_is_believed() -> Iterator[None]:
    """A process whose clock is off by days goes by it, whatever the store's answers say."""
    with patch.object(StoreClock, "answered", lambda self, store_ms: None):
        yield
