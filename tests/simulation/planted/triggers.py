"""Planted bugs of triggers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID

from odradek.engine.marks import MARK, Marks, Wake, encode_wake
from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, head_key
from odradek.errors import StoreError
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Exists, Remove, Set, Update
from odradek.triggers import drain, leases, progress
from odradek.triggers.dispatcher import TriggerDispatcher, partitions_of
from odradek.triggers.drain import Drain
from odradek.triggers.leases import Leases
from odradek.triggers.progress import Window
from odradek.triggers.sweep import TriggerSweep

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug
from tests.simulation.store.ports import Fates


def _unswept(scenario: Scenario) -> Scenario:
    """Nothing is lost, so nothing needs the sweep, which would hide what is missed."""
    return replace(scenario, trigger_sweeps=False, trigger_queue_is_kind=True, fates=Fates.none(), pace_s=2.0)


def _slow_to_take(scenario: Scenario) -> Scenario:
    """Updates of heads take their time now and then, longer than a dispatcher."""
    fates = replace(Fates.none(), stall=0.1, stalling=frozenset({"log.update"}), stalls_s=(5.0, 60.0))
    return replace(_unswept(scenario), fates=fates, producers=3, chains=())


def _dying(scenario: Scenario) -> Scenario:
    """Processes die at every fifth message that they send."""
    calm = replace(scenario, trigger_sweeps=False, trigger_queue_is_kind=True, producers=3, chains=())
    return replace(calm, fates=replace(Fates.none(), crash=0.2, crashing=frozenset({"wakes.send"})), pace_s=2.0)


def _windows(scenario: Scenario) -> Scenario:
    """A topic that stays as it is; calls that hand a state on."""
    calm = replace(scenario, churn=(), admins=0, deleters=0, trigger_factor=1)
    return replace(calm, trigger_options={"tumbling_window_s": 60}, fates=replace(scenario.fates, jump=0))


def _shortened(scenario: Scenario) -> Scenario:
    """Records are deleted before anybody is called with them."""
    return replace(scenario, churn=(), admins=0, deleters=2, deletes_all=0.8, pace_s=2.0, trigger_options={})


def _recreated(scenario: Scenario) -> Scenario:
    """The topic goes and comes again, and is written to afterwards."""
    again = replace(scenario, churn=("alpha",), admins=1, admin_turns=3, records_of=100, pace_s=2.0)
    return replace(again, grows=False, deleters=0, trigger_options={})


def _gone(scenario: Scenario) -> Scenario:
    """The topic goes and comes again, and goes."""
    return replace(_recreated(scenario), admins=2, admin_turns=12, records_of=40)


def _filling(scenario: Scenario) -> Scenario:
    """Records wait for a full batch that does not come."""
    options = {"batching_window_s": 30, "batch_size": 1_000}
    return replace(_unswept(scenario), churn=(), admins=0, deleters=0, grows=False, trigger_options=options)


def _stalling(scenario: Scenario) -> Scenario:
    """Dispatchers stall, and others take over."""
    return replace(scenario, fates=replace(scenario.fates, stall=0.05, jump=0), producers=3)


@bug("triggers", change=_unswept)
def mark_set_without_the_offset() -> Iterator[None]:
    """A head is marked whatever was appended since it was seen, and taken for drained."""

    async def arm(self: Marks, head_id: Any, image: Any) -> Any:
        set_it = Update(head_key(head_id), (Set((MARK,), image.appended_bytes),), is_version(VERSION))
        await self._log.update(set_it)
        return image

    with patch.object(Marks, "arm", arm):
        yield


@bug("triggers", change=_dying)
def mark_removed_before_the_message() -> Iterator[None]:
    """A process that dies in between leaves neither mark nor message."""

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
    """A process that dies in the call has committed records that nobody handled."""
    original = Drain._do

    async def _do(self: Drain, batch: Any, read: Any, window: Any = None) -> Any:
        moved = replace(self._lease, committed=batch.records[-1].offset + 1)
        self._lease = await self._tools.leases.commit(self._trigger, moved, release=False)
        return await original(self, batch, read, window)

    with patch.object(Drain, "_do", _do):
        yield


@bug("triggers")
def no_sweep() -> Iterator[None]:
    """The mark of a lost message stays."""

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
    """An owner that lost the lease overwrites the offset of the one that has it."""
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


@bug("triggers", change=_slow_to_take)
def an_append_removes_the_mark_that_came_after_it() -> Iterator[None]:
    """The dispatcher was faster than the append that woke it, and had marked the head again."""

    async def _take(self: Marks, head_id: Any, mark: int) -> None:
        await self._log.update(Update(head_key(head_id), (Remove((MARK,)),), is_version(VERSION)))

    with patch.object(Marks, "_take", _take):
        yield


@bug("trigger_topics", change=_shortened, seeds=20)
def a_trigger_that_retention_overtakes_begins_at_the_end() -> Iterator[None]:
    """Records after the removed ones are passed over with them."""
    original = Drain._fetch

    async def _fetch(self: Drain, offset: int) -> Any:
        read = await original(self, offset)
        return await original(self, read.high_watermark) if read.start > offset else read

    with patch.object(Drain, "_fetch", _fetch):
        yield


@bug("trigger_topics", change=_gone, seeds=20)
def offsets_by_the_name_of_the_topic() -> Iterator[None]:
    """A topic that was created again begins where the one before had ended."""
    original = leases.lease_slot

    def lease_slot(group: str, partition: PartitionId) -> Any:
        return original(group, PartitionId(UUID(int=1), partition.partition))

    with patch.object(leases, "lease_slot", lease_slot):
        yield


@bug("trigger_topics", change=_recreated, seeds=20)
def the_sweep_looks_where_somebody_was_before() -> Iterator[None]:
    """Topics that were created again have no mark and no lease, and nobody is woken for them."""
    original = TriggerSweep._wake

    async def _wake(self: TriggerSweep, trigger: Any, topic: Any, head_id: Any, image: Any) -> Any:
        leases = await self._leases.read(trigger, partitions_of(topic, head_id, image))
        return None if all(lease.is_new for lease in leases) else await original(self, trigger, topic, head_id, image)

    with patch.object(TriggerSweep, "_wake", _wake):
        yield


@bug("trigger_topics", change=_windows)
def a_partial_response_loses_the_state() -> Iterator[None]:
    """The records before the failure are done, and in no window's state."""
    original = drain.window_state

    def window_state(response: bytes, otherwise: str) -> Any:
        return json.loads(otherwise) if b"batchItemFailures" in response else original(response, otherwise)

    with patch.object(drain, "window_state", window_state):
        yield


@bug("trigger_topics", change=_windows)
def the_state_of_a_window_goes_on_in_the_next() -> Iterator[None]:
    """A window begins with what the last one has handed on."""
    last: dict[Any, str] = {}

    class Kept(Window):
        def __init__(self, start_ms: int, end_ms: int, state: str = "{}") -> None:
            super().__init__(start_ms, end_ms, last.get("state", "{}") if state == "{}" else state)
            last["state"] = self.state

    with patch.object(drain, "Window", Kept), patch.object(progress, "Window", Kept):
        yield


@bug("trigger_topics", change=_filling)
def nobody_is_reminded_of_a_batch_that_does_not_fill() -> Iterator[None]:
    """Records that wait for others wait for ever."""

    async def _remind(self: TriggerDispatcher, *_: Any) -> None:
        return

    with patch.object(TriggerDispatcher, "_remind", _remind):
        yield
