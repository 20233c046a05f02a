"""Planted bugs of whoever takes several reads for one moment: what a transaction wrote is visible item by item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import conditional_append
from odradek.engine.append.row_search import Search
from odradek.engine.offsets.offsets import GroupOffsets
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.format.tail_entry import TailEntry, encode_tail_entry

from tests.simulation.planted import bug
from tests.simulation.ports import Fates
from tests.simulation.scenario import Scenario


def _torn(scenario: Scenario) -> Scenario:
    """Instances that fence each other at once, and every transaction visible bit by bit."""
    return replace(scenario, fates=replace(Fates(stall=0.003), torn=1.0), transactors=3, pace_s=0.2, maintainers=0)


@bug("transactions", change=_torn, seeds=60)
def offsets_read_while_a_transaction_is_applied() -> Iterator[None]:
    """A fetch of offsets reads leases by BatchGetItem: one may be from before the commit that was fenced off."""

    async def stable(self: GroupOffsets, keys: Sequence[Any]) -> dict[Any, Any]:
        return dict(zip(keys, await self._store.table.get_many(keys), strict=True))

    with patch.object(GroupOffsets, "_stable", stable):
        yield


def _dying_maintainers(scenario: Scenario) -> Scenario:
    """Several at once, whose answers get lost in the middle of swaps that take their time."""
    fates = replace(Fates(crash=0.01, lost_answer=0.12, stall=0), torn=1.0)
    return replace(scenario, fates=fates, maintainers=4, maintainer_pace_s=5.0, maintainer_turns=30)


@bug("upkeep", change=_dying_maintainers, seeds=60)
def lease_taken_while_a_swap_is_applied() -> Iterator[None]:
    """A new maintainer reads index rows that the last swap of the former one has not reached yet."""

    async def settle(self: MaintenanceLeases, lease: Any) -> None:
        return None

    with patch.object(MaintenanceLeases, "_settle", settle):
        yield


def _ghostly(scenario: Scenario) -> Scenario:
    """Plain producers that look for entries long after, among rows that spillers wrote late over merged ones."""
    fates = replace(Fates(late=0.1, crash=0, stall=0.004, lost_answer=0.1), torn=0.0)
    settings = {
        **scenario.settings,
        "head_bytes_max": 400,
        "spill_entries": 2,
        "merge_rows_min": 1,
        "merge_delay_ms": 0,
        "merge_age_ms": 0,
        "append_attempts_max": 20,
        "item_bytes_max": 0,
    }
    return replace(
        scenario,
        fates=fates,
        settings=settings,
        idempotent_share=0.0,
        producers=5,
        maintainers=2,
        maintainer_pace_s=2.0,
        maintainer_turns=60,
        topics=tuple(replace(topic, partitions=1, configs={}) for topic in scenario.topics[:1]),
        deleters=0,
        pace_s=0.5,
    )


@bug("upkeep", change=_ghostly, seeds=60)
def ghost_rows_say_what_was_never_applied() -> Iterator[None]:
    """An append of unknown outcome believes the spill floor of a row that a merge has made a ghost."""

    def find(entry: TailEntry, head: Any, rows: Sequence[IndexRow], *, is_all: bool) -> int | Search:
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
        return Search.MORE if not is_all else Search.UNKNOWABLE

    with patch.object(conditional_append, "find_entry", find):
        yield
