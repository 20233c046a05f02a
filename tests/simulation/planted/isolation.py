"""Planted bugs of whoever takes several reads for one moment: what a transaction wrote is visible item by item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import row_search
from odradek.engine.append.row_search import Search
from odradek.engine.offsets.offsets import GroupOffsets
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import MaintenanceLeases, lease_key
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Set, Update

from tests.simulation.plan import Scenario, TopicPlan
from tests.simulation.planted.bug import bug, settings
from tests.simulation.store.ports import Fates


def _torn(scenario: Scenario) -> Scenario:
    """Every transaction visible bit by bit, its answer often lost, or itself late; no told offset aborts one."""
    fates = replace(
        Fates.none(),
        lost_answer=0.2,
        losing=frozenset({"transact"}),
        late=0.1,
        lating=frozenset({"transact"}),
        lates_s=(0.05, 0.3, 1.0),
        stall=0.003,
        torn=1.0,
    )
    return replace(
        scenario,
        topics=tuple(replace(plan, configs={}) for plan in scenario.topics),
        fates=fates,
        transactors=3,
        transactor_turns=30,
        transactional_members=(),
        pace_s=1.0,
        maintainers=0,
    )


def _one_protocol_back(scenario: Scenario) -> Scenario:
    """The same, where sequences go on from one transaction to the next."""
    return replace(_torn(scenario), bump=False)


@bug("transactions", change=_torn, seeds=20)
def offsets_read_while_a_transaction_is_applied() -> Iterator[None]:
    """A fetch of offsets reads leases by BatchGetItem: one may be from before the commit that was fenced off."""

    async def stable(self: GroupOffsets, keys: Sequence[Any]) -> dict[Any, Any]:
        return dict(zip(keys, await self._store.table.get_many(keys), strict=True))

    with patch.object(GroupOffsets, "_stable", stable):
        yield


@bug("transactions", change=_one_protocol_back, seeds=20)
def commit_refused_by_a_head_that_is_being_written() -> Iterator[None]:
    """A commit gives up for a reason that it saw in heads from before the producer's last commit."""
    original = PartitionIndex.read_images

    async def read_images(
        self: PartitionIndex, head_ids: Any, *, consistent: bool = True, applied: bool = False
    ) -> Any:
        return await original(self, head_ids, consistent=consistent)

    with patch.object(PartitionIndex, "read_images", read_images):
        yield


def _dying_maintainers(scenario: Scenario) -> Scenario:
    """Several at once, who learn of every second swap no more than that it may have happened, and many swaps.

    Who does not know gives the lease back unclean, and the next one takes it while the swap is being applied.
    """
    many = settings(merge_rows_min=1, merge_age_ms=0, merge_delay_ms=0)
    return replace(
        many(scenario),
        records_of=40,
        maintainers=4,
        maintainer_pace_s=2.0,
        maintainer_turns=60,
        pace_s=2.0,
        fates=replace(Fates.none(), lost_answer=0.5, losing=frozenset({"transact"}), torn=1.0),
    )


@bug("upkeep", change=_dying_maintainers, seeds=20)
def lease_taken_while_a_swap_is_applied() -> Iterator[None]:
    """A new maintainer reads index rows that the last swap of the former one has not reached yet."""

    async def settle(self: MaintenanceLeases, lease: Any) -> None:
        return None

    with patch.object(MaintenanceLeases, "_settle", settle):
        yield


@bug("upkeep", change=_dying_maintainers, seeds=40)
def taking_writes_the_swap_that_was_read_before() -> Iterator[None]:
    """A taker of a lease puts it back as it was read, without a swap that came meanwhile under the same epoch."""
    original = MaintenanceLeases._take

    async def take(self: MaintenanceLeases, partition: PartitionId) -> Any:
        before = await self._log.get(lease_key(partition))
        await self._clock.sleep(0.3)  # it stalls
        lease = await original(self, partition)
        if lease is not None and before is not None and "s" in before:
            await self._log.update(Update(lease_key(partition), (Set(("s",), before["s"]),), lease.condition))
        return lease

    with patch.object(MaintenanceLeases, "_take", take):
        yield


def _ghosts(scenario: Scenario) -> Scenario:
    """Plain producers that learn late what became of a write, and rows of spills that come later than their merge.

    An entry must enter after the late row was planned, and its writer must look for it while the row is there. So rows
    are later than writers stall, a merge runs every other minute, and spills seldom fail: then there are many rows.
    """
    fates = replace(
        Fates(crash=0, unavailable=0, lost_request=0, repeated=0, freeze=0, jump=0, twice=0, torn=0),
        lost_answer=0.2,
        losing=frozenset({"log.update"}),
        stall=0.08,
        stalling=frozenset({"log.update"}),
        stalls_s=(100.0, 150.0),
        late=0.2,
        lating=frozenset({"log.put"}),
        lates_s=(200.0, 280.0),
    )
    return replace(
        scenario,
        topics=(TopicPlan("alpha", 1),),
        producers=10,
        idempotent_share=0.0,
        records_of=120,
        deleters=0,
        maintainers=1,
        maintainer_pace_s=80.0,
        maintainer_turns=40,
        pace_s=15.0,
        fates=fates,
        settings={
            **scenario.settings,
            "head_bytes_max": 400,
            "spill_entries": 1,
            "item_bytes_max": 0,
            "append_attempts_max": 20,
            "request_timeout_ms": 300_000,
            "merge_rows_min": 1,
            "merge_age_ms": 0,
            "merge_delay_ms": 0,
            "segment_bytes_max": 64 * 1024 * 1024,
            "maintenance_lease_ms": 2_000,
            "sweep_horizon_ms": 960_000,
            "sweep_interval_ms": 10**9,
        },
    )


@bug("upkeep", change=_ghosts, seeds=60)
def ghosts_are_believed() -> Iterator[None]:
    """A writer that looks for its entry in the rows takes a spill that came after its merge for the newest one."""

    def find_entry(entry: TailEntry, head: PartitionHead, rows: Sequence[IndexRow], *, is_all: bool) -> int | Search:
        packed = encode_tail_entry(entry)
        for row in rows:
            if row.spill_floor_ms < entry.commit_ms:
                return Search.ABSENT
            if row.is_segment:
                return Search.UNKNOWABLE
            offset = row.base_offset
            for candidate in row.entries:
                if encode_tail_entry(candidate) == packed:
                    return offset
                offset += candidate.offset_count
        return Search.ABSENT if is_all else Search.MORE

    with patch.object(row_search, "find_entry", find_entry):
        yield
