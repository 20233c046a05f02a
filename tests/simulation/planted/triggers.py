"""Planted bugs of triggers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.marks import MARK, Marks, Wake, encode_wake
from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, head_key
from odradek.errors import StoreError
from odradek.ports.table import Exists, Set, Update
from odradek.triggers import drain, leases
from odradek.triggers.drain import Drain
from odradek.triggers.leases import Leases
from odradek.triggers.sweep import TriggerSweep

from tests.simulation.planted.bug import bug
from tests.simulation.scenario import Scenario
from tests.simulation.store.ports import Fates


def _unswept(scenario: Scenario) -> Scenario:
    """Nothing is lost, so nothing needs the sweep, which would hide what is missed."""
    return replace(scenario, trigger_sweeps=False, trigger_queue_is_kind=True, fates=Fates.none(), pace_s=2.0)


def _dying(scenario: Scenario) -> Scenario:
    """Processes die at every fifth message that they send."""
    calm = replace(scenario, trigger_sweeps=False, trigger_queue_is_kind=True, producers=3, chains=())
    return replace(calm, fates=replace(Fates.none(), crash=0.2, crashing=frozenset({"wakes.send"})), pace_s=2.0)


def _stalling(scenario: Scenario) -> Scenario:
    """Dispatchers stall, and others take over."""
    return replace(scenario, fates=replace(scenario.fates, stall=0.05, jump=0), producers=3)


@bug("triggers", change=_unswept)
def mark_set_without_the_offset() -> Iterator[None]:
    """A head is marked whatever was appended since it was seen, and taken for drained."""

    async def arm(self: Marks, head_id: Any, seen: Any) -> Any:
        set_it = Update(head_key(head_id), (Set((MARK,), seen.appended_bytes),), is_version(VERSION))
        await self._log.update(set_it)
        return seen

    with patch.object(Marks, "arm", arm):
        yield


@bug("triggers", change=_dying)
def mark_removed_before_the_message() -> Iterator[None]:
    """Who dies between leaves neither mark nor message."""

    async def wake_marked(self: Marks, head_id: Any, mark: int) -> None:
        assert self._queue is not None
        try:
            await self._take(head_id, mark)
            await self._queue.send([encode_wake(Wake(head_id))])
        except StoreError:
            return

    with patch.object(Marks, "wake_marked", wake_marked):
        yield


@bug("triggers")
def offset_committed_before_the_call() -> Iterator[None]:
    """Who dies in the call has committed what nobody did."""
    original = Drain._do

    async def _do(self: Drain, batch: Any, read: Any, window: Any = None) -> Any:
        moved = replace(self._lease, committed=batch.records[-1].offset + 1)
        self._lease = await self._tools.leases.commit(self._trigger, moved, release=False)
        return await original(self, batch, read, window)

    with patch.object(Drain, "_do", _do):
        yield


@bug("triggers")
def no_sweep() -> Iterator[None]:
    """What a lost message left stays."""

    async def run(self: TriggerSweep, **_: Any) -> tuple[int, list[str]]:
        return 0, []

    with patch.object(TriggerSweep, "run", run):
        yield


@bug("triggers", change=_stalling)
def a_lease_is_taken_from_who_is_calling() -> Iterator[None]:
    """Doubled messages have two dispatchers call with the same records."""
    with patch.object(Leases, "is_live", lambda self, lease: False):
        yield


@bug("triggers", change=_stalling)
def a_lease_as_long_as_a_call() -> Iterator[None]:
    """Clocks that are a minute apart disagree about its end."""
    with patch.object(leases, "CLOCKS_APART_MS", 0):
        yield


@bug("triggers", change=_stalling, seeds=20)
def a_former_owner_commits() -> Iterator[None]:
    """Who lost the lease puts its offset over that of who has it."""
    original = leases._commit

    def _commit(*args: Any) -> Update:
        update = original(*args)
        return replace(update, condition=Exists(("v",)))

    with patch.object(leases, "_commit", _commit):
        yield


@bug("triggers", change=_stalling)
def failed_records_count_as_done() -> Iterator[None]:
    """Of a call that failed from some record on, all records are passed."""
    with patch.object(drain, "first_failure", lambda *_: None):
        yield
