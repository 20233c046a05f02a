"""The units of the tables on demand and provisioned: the same units, two prices."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from odradek.cli import run
from odradek.cost.fixtures import MONTH_S
from odradek.cost.model import Measured, Workload, own_cost
from odradek.cost.prices import US_EAST_1, cost
from odradek.cost.tables import TableMode, provisioned_alarms, provisioned_cost
from odradek.ports.meter import Usage

from tests.support.counted import at_least

HOURS = 730


def a_month(writes_per_s: float, reads_per_s: float) -> Usage:
    return Usage(table_write_units=writes_per_s * MONTH_S, table_read_units=reads_per_s * MONTH_S)


def test_capacity_is_provisioned_so_that_70_percent_are_in_use() -> None:
    costs = provisioned_cost({"produce": a_month(600, 40), "fetch": a_month(0, 100), "maintainer": a_month(100, 0)})
    assert costs == {
        "table writes": pytest.approx(1000 * HOURS * 0.00065),
        "table reads": pytest.approx(200 * HOURS * 0.00013),
    }
    on_demand = cost(a_month(700, 140)).components
    assert costs["table writes"] / on_demand["table writes"] == pytest.approx(0.4127, abs=1e-4)
    assert costs["table reads"] / on_demand["table reads"] == pytest.approx(0.4127, abs=1e-4)


def test_a_unit_is_the_least_that_can_be_provisioned() -> None:
    assert provisioned_cost({}) == {"table writes": HOURS * 0.00065, "table reads": HOURS * 0.00013}
    whole = provisioned_cost({"produce": a_month(0.71, 0.7)})
    assert whole == {"table writes": 2 * HOURS * 0.00065, "table reads": HOURS * 0.00013}


def test_the_groups_stay_on_demand() -> None:
    groups = a_month(10, 20)
    alone, both = provisioned_cost({"produce": a_month(70, 70)}), {"produce": a_month(70, 70), "coordinator": groups}
    on_demand = cost(groups).components
    for name, dollars in at_least(2, provisioned_cost(both).items()):
        assert dollars - alone[name] == pytest.approx(on_demand[name])


def test_a_workload_is_priced_either_way_and_nothing_else_changes() -> None:
    load = Workload(20 * 2**20, producers=40, linger_ms=1000)
    measured = Measured(per_append=Usage(table_write_units=40, table_read_units=15, object_put_requests=1))
    on_demand = own_cost(load, measured)
    provisioned = own_cost(replace(load, tables=TableMode.PROVISIONED), measured)
    differing = {name for name in on_demand if on_demand[name] != provisioned[name]}
    assert differing == {"table writes", "table reads", "alarms"}
    assert provisioned["alarms"] - on_demand["alarms"] == pytest.approx(provisioned_alarms())
    assert provisioned["table writes"] < 0.45 * on_demand["table writes"]
    dearer = replace(US_EAST_1, table_write_capacity_hour=0.0013)
    twice = own_cost(replace(load, tables=TableMode.PROVISIONED), measured, dearer)
    heartbeats = 0.2 * MONTH_S * 0.625e-6  # of the group, whose table stays on demand
    assert twice["table writes"] - heartbeats == pytest.approx(2 * (provisioned["table writes"] - heartbeats))


def test_the_command_prices_either_way(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", "estimate", "--rate", "1MiB/s", "--linger-ms", "1000", "--partitions", "1"]

    def dollars(*options: str) -> dict[str, float]:
        assert run([*arguments, *options, "--output", "json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["tables"] == (options[1] if options else "on-demand")
        dollars_month: dict[str, float] = printed["odradek"][0]["dollars_month"]
        return dollars_month

    on_demand, provisioned = dollars(), dollars("--tables", "provisioned")
    assert provisioned["alarms"] - on_demand["alarms"] == pytest.approx(provisioned_alarms())
    assert provisioned["table writes"] < 0.8 * on_demand["table writes"]
    assert run([*arguments, "--tables", "provisioned"]) == 0
    assert "70% of its capacity is in use" in capsys.readouterr().out
    assert run([*arguments, "--tables", "cheap"]) == 2
