"""Planted bugs of whoever takes several reads for one moment: what a transaction wrote is visible item by item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.offsets.offsets import GroupOffsets
from odradek.engine.partition.maintenance_lease import MaintenanceLeases

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
