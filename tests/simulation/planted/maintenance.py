"""Planted bugs of maintenance: merge, retention, sweep, orphans, compaction, the lease."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import conditional_append
from odradek.engine.compaction.compactor import Compactor
from odradek.engine.compaction.decisions import CompactionPolicy
from odradek.engine.compaction.offset_map import OffsetMap
from odradek.engine.maintenance import sweep
from odradek.engine.maintenance.orphans import Orphans
from odradek.engine.maintenance.retention import Retention
from odradek.engine.maintenance.segment_swap import SegmentSwap
from odradek.engine.partition.head import NO_FLOOR, PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.maintenance_lease import MaintenanceLease
from odradek.engine.read.log_reader import LogReader
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Compare, Condition, Exists

from tests.simulation.plan import Scenario, TopicPlan
from tests.simulation.planted.bug import bug, rewritten_append, without
from tests.simulation.store.ports import HOUR_S, Fates


def _stalling(scenario: Scenario) -> Scenario:
    """Processes that stop for an hour now and then, and a sweep that is due each time."""
    return replace(
        scenario,
        fates=Fates(stall=0.04, stalls_s=(1.2 * HOUR_S,)),
        maintainer_turns=30,
        settings={**scenario.settings, "sweep_horizon_ms": 100_000, "sweep_interval_ms": 0},
    )


def _long_tail(scenario: Scenario) -> Scenario:
    """The same without spills, whose floor stops most late appends before the sweep's floor has to."""
    scenario = _stalling(scenario)
    return replace(scenario, settings={**scenario.settings, "head_bytes_max": 100_000, "spill_entries": 200})


def _slow_reading(scenario: Scenario) -> Scenario:
    """Readers that sleep between what they planned and what they read, while small segments become larger ones."""
    return replace(
        scenario,
        fates=replace(scenario.fates, stall=0.3, stalling=frozenset({"get_range"}), stalls_s=(60.0, 300.0)),
        maintainer_pace_s=60.0,
        maintainer_turns=20,
        settings={**scenario.settings, "merge_rows_min": 3, "merge_age_ms": 0, "segment_bytes_max": 2_000},
    )


def _contended(scenario: Scenario) -> Scenario:
    """Maintainers that lose their lease in the middle of their work."""
    return replace(
        scenario,
        producers=2,
        records_of=40,
        maintainers=4,
        maintainer_pace_s=2.0,
        maintainer_turns=25,
        pace_s=3.0,
        fates=Fates(stall=0.15, crash=0.01, pause_s=0.2, stalls_s=(0.5, 1.0, 2.0, 4.0)),
        settings={**scenario.settings, "maintenance_lease_ms": 40, "merge_rows_min": 1, "merge_age_ms": 0},
    )


def _unanswered(scenario: Scenario) -> Scenario:
    """The same, and often they do not learn what became of their last write."""
    scenario = _contended(scenario)
    return replace(scenario, fates=replace(scenario.fates, stall=0.5, lost_answer=0.1))


def _asleep_before_the_swap(scenario: Scenario) -> Scenario:
    """Maintainers that sleep between their last look at the lease and the transaction that it guards."""
    scenario = _contended(scenario)
    return replace(
        scenario, fates=Fates(stall=0.5, pause_s=0.2, stalls_s=(8.0, 20.0), stalling=frozenset({"transact"}))
    )


def _old_at_once(scenario: Scenario) -> Scenario:
    """A topic whose records are old after half an hour."""
    return replace(scenario, topics=(TopicPlan("alpha", 1, {"retention.ms": "1800000"}),))


# --- sweep --------------------------------------------------------------------------------------------------------


@bug("upkeep", change=_long_tail, seeds=20)
def append_without_the_sweep_floor() -> Iterator[None]:
    """A writer that slept commits an upload that may have been swept."""

    def is_floor(condition: Condition) -> bool:
        return isinstance(condition, Compare) and condition.path == ("wf",)

    original = conditional_append.after_refusal

    def after_refusal(*args: Any, **options: Any) -> Any:
        changed_args = (replace(a, sweep_floor=NO_FLOOR) if isinstance(a, PartitionHead) else a for a in args)
        return original(*changed_args, **options)

    with (
        rewritten_append(lambda update: replace(update, condition=without(update.condition, is_floor))),
        patch.object(conditional_append, "after_refusal", after_refusal),
    ):
        yield


@bug("upkeep", change=_long_tail, seeds=30)
def sweep_before_the_floor_is_raised() -> Iterator[None]:
    """Uploads are deleted while heads would still take them."""

    async def raise_sweep_floor(self: PartitionIndex, partition: PartitionId, floor: bytes) -> None:
        return None

    with patch.object(PartitionIndex, "raise_sweep_floor", raise_sweep_floor):
        yield


@bug("upkeep")
def sweep_looks_at_tails_only() -> Iterator[None]:
    """Spilled entries count as unreferenced."""

    async def drop_referenced(index: PartitionIndex, partitions: Any, object_ids: set[bytes], *_: Any) -> None:
        for partition in partitions:
            head = await index.read_head(partition)
            if head is not None:
                object_ids.difference_update(entry.object_id for _, entry in head.entries())

    with patch.object(sweep, "drop_referenced", drop_referenced):
        yield


# --- index rows ---------------------------------------------------------------------------------------------------


@bug("upkeep")
def rows_swapped_in_two_steps() -> Iterator[None]:
    """The old rows go first, the new ones come after."""
    original = PartitionIndex.replace_rows

    async def replace_rows(self: PartitionIndex, lease: Any, old: Any, new: Any, **options: Any) -> None:
        await original(self, lease, old, [], **options)
        await original(self, lease, [], new)

    with patch.object(PartitionIndex, "replace_rows", replace_rows):
        yield


@bug("upkeep", change=_asleep_before_the_swap, seeds=25)
def swap_without_the_lease() -> Iterator[None]:
    """A maintainer changes rows after it has lost its lease."""

    def there(self: MaintenanceLease) -> Exists:
        return Exists(("v",))

    with patch.object(MaintenanceLease, "condition", property(there)):
        yield


@bug("upkeep")
def objects_deleted_before_the_swap() -> Iterator[None]:
    """A merge deletes what it replaces while readers are still sent there."""
    original = SegmentSwap._swap

    async def swap(self: SegmentSwap, held: Any, old: Any, new: Any) -> None:
        await self._delete(held, old)
        await original(self, held, old, new)

    with patch.object(SegmentSwap, "_swap", swap):
        yield


@bug("upkeep", change=_contended)
def dead_maintainers_are_not_cleaned_up_after() -> Iterator[None]:
    """Their uploads stay for ever."""

    async def run(self: Orphans, held: Any) -> None:
        return None

    with patch.object(Orphans, "run", run):
        yield


def _unanswered_and_at_rest(scenario: Scenario) -> Scenario:
    """The same with partitions that nothing else is due on: neither retention nor a roll of the tail."""
    scenario = _unanswered(scenario)
    topics = tuple(replace(topic, configs={}) for topic in scenario.topics)
    return replace(scenario, topics=topics, fates=replace(scenario.fates, lost_answer=0.15))


@bug("upkeep", change=_unanswered_and_at_rest, seeds=400)  # about one seed in sixty leaves a partition so
def a_plan_overlooks_what_the_dead_left() -> Iterator[None]:
    """A partition without other work is left as a dead maintainer left it."""

    async def is_due(self: Orphans, look: Any) -> bool:
        return False

    with patch.object(Orphans, "is_due", is_due):
        yield


@bug("upkeep", change=_slow_reading, seeds=60)  # about one seed in eight reads at such a moment
def reader_keeps_rows_that_are_gone() -> Iterator[None]:
    """A missing object does not make a reader look at the index again."""
    with patch.object(LogReader, "forget", lambda self, partition: None):
        yield


# --- retention ----------------------------------------------------------------------------------------------------


@bug("upkeep")
def retention_drops_the_active_segment() -> Iterator[None]:
    """The log start rises to the high watermark."""

    async def start(self: Retention, partition: Any, config: Any, head: Any) -> int:
        return head.next_offset  # type: ignore[no-any-return]

    with patch.object(Retention, "_start", start):
        yield


@bug("upkeep", change=_old_at_once)
def retention_is_an_hour_early() -> Iterator[None]:
    """Young segments go as well."""
    original = Retention._start_by_time

    async def start(self: Retention, partition: Any, head: Any, retention_ms: int) -> int:
        return await original(self, partition, head, retention_ms - 3_600_000)

    with patch.object(Retention, "_start_by_time", start):
        yield


@bug("upkeep")
def delete_records_deletes_too_much() -> Iterator[None]:
    """The log start goes one past what was asked."""
    original = PartitionIndex.advance_log_start

    async def advance(self: PartitionIndex, partition: PartitionId, offset: int, **options: Any) -> Any:
        return await original(self, partition, offset + 1, **options)

    with patch.object(PartitionIndex, "advance_log_start", advance):
        yield


# --- compaction ---------------------------------------------------------------------------------------------------


def _compacting(scenario: Scenario) -> Scenario:
    """Everything is compacted at once, tombstones stay for a day."""
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
    return replace(scenario, topics=(TopicPlan("table", 1, configs, keys=20),), maintainer_turns=25)


@bug("compaction", change=_compacting)
def compaction_drops_the_last_record_of_a_key() -> Iterator[None]:
    """A record counts as superseded by itself."""
    original = OffsetMap.latest

    def latest(self: OffsetMap, key: bytes) -> int:
        offset = original(self, key)
        return offset + (offset >= 0)

    with patch.object(OffsetMap, "latest", latest):
        yield


@bug("compaction", change=_compacting, seeds=20)
def compaction_drops_tombstones_at_once() -> Iterator[None]:
    """delete.retention.ms counts for nothing."""
    original = CompactionPolicy.of

    def of(*args: Any) -> CompactionPolicy:
        return replace(original(*args), delete_retention_ms=-86_400_000)

    with patch.object(CompactionPolicy, "of", of):
        yield


@bug("compaction", change=_compacting)
def compaction_deletes_before_the_swap() -> Iterator[None]:
    """The segments that a compaction replaces go first; a merge does as it should."""
    original = Compactor.put_in_place

    async def put_in_place(self: Compactor, held: Any, old: Any, *others: Any) -> Any:
        await self.swap._delete(held, old)
        return await original(self, held, old, *others)

    with patch.object(Compactor, "put_in_place", put_in_place):
        yield
