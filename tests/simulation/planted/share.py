"""Planted bugs of share groups."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.maintenance import maintenance
from odradek.engine.share import fetch as share_fetch
from odradek.engine.share import window as share_decisions
from odradek.engine.share import windows as share_partitions
from odradek.engine.share.window import RecordState, SharePartition
from odradek.engine.transactions.numbered_batches import NumberedBatches
from odradek.ports.table import Exists

from tests.simulation.fates import MINUTES
from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug, settings
from tests.simulation.store.ports import Fates


def _busy(scenario: Scenario) -> Scenario:
    """Workers that stall, and get in each other's way."""
    return replace(scenario, fates=Fates(stall=0.02), share_workers=4, share_turns=40)


def _crowded(scenario: Scenario) -> Scenario:
    """Many workers want the same records all the time, and the store answers every call."""
    one = replace(_on(scenario, {}), fates=Fates.none(), share_workers=8, share_turns=40, pace_s=0.02, maintainers=0)
    queue, *others = one.topics
    crowd = replace(one, topics=(replace(queue, partitions=1), *others))
    return settings(group_attempts_max=12, share_partition_max_record_locks=2_000)(crowd)


def _rejecting(scenario: Scenario) -> Scenario:
    """Few deliveries, many lost answers."""
    configs = {**scenario.group_configs, "share.delivery.count.limit": "2"}
    return replace(scenario, fates=Fates(lost_answer=0.15, crash=0.01), share_workers=4, group_configs=configs)


def _coming_and_going(scenario: Scenario) -> Scenario:
    """A topic that the group reads is made and deleted, and every record of it becomes a dead letter soon."""
    configs = {**scenario.group_configs, "share.delivery.count.limit": "1"}
    churning = replace(scenario, churn=("gamma",), producers=3, admins=1, admin_turns=12, group_configs=configs)
    return replace(churning, maintainers=2, share_workers=4, share_turns=40)


def _deleted(scenario: Scenario) -> Scenario:
    """Somebody deletes records all the time."""
    return replace(_on(scenario, {}), deleters=2, admin_turns=30)


def _compacted(scenario: Scenario) -> Scenario:
    """The queue is a compacted topic."""
    return _on(scenario, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"})


def _few_in_flight(scenario: Scenario) -> Scenario:
    """The queue is compacted while a small window is full of what workers forgot."""
    small = settings(share_partition_max_record_locks=4)(_compacted(scenario))
    queue, *others = small.topics
    changed = replace(small, topics=(replace(queue, keys=2), *others), fates=MINUTES)
    return replace(changed, share_workers=4, share_turns=40, maintainers=3, maintainer_pace_s=2.0, maintainer_turns=40)


def _on(scenario: Scenario, configs: dict[str, str]) -> Scenario:
    queue, *others = scenario.topics
    changed = replace(queue, configs=configs, keys=20 if configs else 0)
    return replace(scenario, topics=(changed, *others), churn=(), admins=0, producers=2, maintainers=2, deleters=0)


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


@bug("share", change=_crowded)
def a_change_is_decided_on_what_was_read_before_a_pause() -> Iterator[None]:
    """A window that others write all the time refuses every attempt, and an acknowledgement is given up."""
    original = share_partitions.SharePartitions._change

    async def change(self: Any, key: Any, item: Any, decide: Any) -> Any:
        stale = item

        async def read_patiently(key: Any, *, was_tried: bool) -> Any:
            return stale

        other = copy.copy(self)
        other._read_patiently = read_patiently
        return await original(other, key, item, decide)

    with patch.object(share_partitions.SharePartitions, "_change", change):
        yield


@bug("share", change=_coming_and_going)
def a_close_does_not_count_a_delivery() -> Iterator[None]:
    """Records that a closing member gives back count as never delivered: a member that fails on one always gets it."""

    def release_all(state: SharePartition, member_id: str, policy: Any) -> SharePartition:
        runs = [
            share_decisions._unseen(run) if run.state is RecordState.ACQUIRED and run.member_id == member_id else run
            for run in state.runs
        ]
        return share_decisions._whole(state, runs)

    with patch.object(share_fetch, "release_all", release_all):
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
    """Acquired records count as done before anybody accepted them."""
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


@bug("share", change=_coming_and_going)
def windows_outlive_their_topic() -> Iterator[None]:
    """Maintenance forgets that groups had read the topic."""

    async def forget_topic(*_: object) -> int:
        return 0

    with patch.object(maintenance, "forget_topic", forget_topic):
        yield


@bug("share", change=_coming_and_going, seeds=20)
def numbers_outlive_their_window() -> Iterator[None]:
    """A window is deleted, and the row that numbers its dead letters is not."""
    with patch.object(share_partitions, "letters_writer", lambda incarnation: f"none/{incarnation.hex()}"):
        yield


@bug("share", change=_deleted)
def archived_above_the_start() -> Iterator[None]:
    """The first record after deleted ones goes with them."""
    original = share_fetch.settle

    def settle(state: SharePartition, now_ms: int, log_start_offset: int, policy: Any) -> SharePartition:
        return original(state, now_ms, log_start_offset + 1 if log_start_offset else 0, policy)

    with patch.object(share_fetch, "settle", settle):
        yield


@bug("share", change=_compacted)
def a_record_taken_for_a_gap() -> Iterator[None]:
    """Of what is given the first record is passed over, as if compaction had taken it."""
    original = share_fetch.acquire

    def acquire(*args: Any, **named: Any) -> Any:
        state, acquired = original(*args, **named)
        if not acquired or acquired[0].first_offset == acquired[0].last_offset:
            return state, acquired
        first = replace(acquired[0], first_offset=acquired[0].first_offset + 1)
        runs = share_decisions._changed(
            state.runs, first.first_offset - 1, first.first_offset, RecordState.ACQUIRED, share_decisions._done
        )
        return share_decisions._whole(state, runs), (first, *acquired[1:])

    with patch.object(share_fetch, "acquire", acquire):
        yield


@bug("share", change=_few_in_flight, seeds=20)
def gaps_are_looked_for_again() -> Iterator[None]:
    """Records that compaction removed stay in the window where the batches after it have nothing to give."""
    original = share_fetch.acquire

    def acquire(state: SharePartition, *args: Any, **named: Any) -> Any:
        after, acquired = original(state, *args, **named)
        return (after if acquired else state), acquired

    with patch.object(share_fetch, "acquire", acquire):
        yield
