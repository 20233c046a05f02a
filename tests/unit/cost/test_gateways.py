"""The cost of gateways beside the stores, against AWS's own way to count it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.cost.fixtures import MONTH_S
from odradek.cost.gateways import Gateways, gateway_cost
from odradek.cost.prices import GIB

HOURS = MONTH_S / 3600
GIB_AN_HOUR = GIB / 3600


def test_the_balancer_is_billed_for_what_passes_it() -> None:
    """One capacity unit is a GB an hour."""
    idle = gateway_cost(Gateways(1), 0)["load balancer"]
    assert idle == pytest.approx(0.0225 * HOURS)
    assert gateway_cost(Gateways(1), 10 * GIB_AN_HOUR)["load balancer"] == pytest.approx(idle + 10 * 0.006 * HOURS)


def test_tasks_are_billed_by_their_size() -> None:
    half, whole = (gateway_cost(Gateways(3, cpu, memory_mb), 0) for cpu, memory_mb in ((512, 1024), (1024, 2048)))
    assert whole["gateway tasks"] == pytest.approx(3 * (0.04048 + 2 * 0.004445) * HOURS)
    assert whole["gateway tasks"] == pytest.approx(2 * half["gateway tasks"])


@pytest.mark.parametrize(("zones", "crosses"), [(1, 0), (2, 1 / 2), (3, 2 / 3)])
def test_what_crosses_zones_behind_the_balancer_is_billed_on_both_sides(zones: int, crosses: float) -> None:
    costs = gateway_cost(replace(Gateways(6), zones=zones), 100 * GIB_AN_HOUR)
    assert costs["across zones"] == pytest.approx(100 * HOURS * crosses * 0.02)


def test_nothing_passes_the_balancer_of_clients_that_know_the_tasks_of_their_zone() -> None:
    costs = gateway_cost(Gateways(3, direct=True), 100 * GIB_AN_HOUR)
    idle = gateway_cost(Gateways(3), 0)
    assert costs == {**idle, "names": 0.50}
    assert costs["across zones"] == 0
