"""Planted bugs of share groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine import share_fetch, share_partitions
from odradek.engine.numbered_batches import NumberedBatches
from odradek.engine.share_decisions import RecordState, SharePartition
from odradek.ports.table import Exists

from tests.simulation.planted import bug
from tests.simulation.ports import Fates
from tests.simulation.scenario import Scenario


def _busy(scenario: Scenario) -> Scenario:
    """Workers that stall, and get in each other's way."""
    return replace(scenario, fates=Fates(stall=0.02), share_workers=4, share_turns=40)


def _rejecting(scenario: Scenario) -> Scenario:
    """Few deliveries, many lost answers."""
    configs = {**scenario.share_configs, "share.delivery.count.limit": "2"}
    return replace(scenario, fates=Fates(lost_answer=0.15, crash=0.01), share_workers=4, share_configs=configs)


@bug("share", change=_busy)
def window_written_without_its_version() -> Iterator[None]:
    """Two functions give out what both of them read as free."""
    with patch.object(share_partitions, "_is_as_read", lambda item: Exists(("v",))):
        yield


@bug("share", change=_busy)
def lock_ends_too_early() -> Iterator[None]:
    """A record is given out again a second before its lock is over."""
    original = share_fetch.settle

    def settle(state: SharePartition, now_ms: int, *args: Any) -> SharePartition:
        return original(state, now_ms + 1_000, *args)

    with patch.object(share_fetch, "settle", settle):
        yield


@bug("share", change=_busy)
def acknowledgement_of_a_former_holder() -> Iterator[None]:
    """An acknowledgement is taken from whoever sends it."""
    original = share_fetch.acknowledge

    def acknowledge(state: SharePartition, member_id: str, *args: Any) -> Any:
        mine = tuple(
            replace(run, member_id=member_id) if run.state is RecordState.ACQUIRED else run for run in state.runs
        )
        return original(replace(state, runs=mine), member_id, *args)

    with patch.object(share_fetch, "acknowledge", acknowledge):
        yield


@bug("share", change=_rejecting, seeds=20)
def dead_letters_without_a_number() -> Iterator[None]:
    """A lot is written again by whoever did not see that it had been."""
    original, numbers = NumberedBatches.commit, iter(range(10**6))

    async def commit(self: NumberedBatches, key: str, batch_id: int, uploaded: Any, **named: Any) -> bool:
        return await original(self, f"{key}/{next(numbers)}", batch_id, uploaded, **named)

    with patch.object(NumberedBatches, "commit", commit):
        yield


@bug("share", change=_rejecting)
def exhausted_records_vanish() -> Iterator[None]:
    """What was acquired counts as done before anybody accepted it."""
    original = share_fetch.acquire

    def acquire(*args: Any, **named: Any) -> Any:
        state, acquired = original(*args, **named)
        runs = tuple(
            replace(run, state=RecordState.DONE, member_id="", lock_until_ms=0, delivery_count=0)
            if run.state is RecordState.ACQUIRED and run.delivery_count > 1
            else run
            for run in state.runs
        )
        return replace(state, runs=runs), acquired

    with patch.object(share_fetch, "acquire", acquire):
        yield
