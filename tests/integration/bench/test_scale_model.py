"""The scale model's arithmetic: what must hold whatever the numbers are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.scale_model import GIB, SCENARIOS, Limits, Load, answer, demands, dollars_a_month, limits_of

LIMITS = Limits()


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_more_bytes_ask_for_more_of_everything(name: str) -> None:
    load = SCENARIOS[name]
    more = replace(load, bytes_per_s=2 * load.bytes_per_s)
    for less, greater in zip(demands(load, LIMITS), demands(more, LIMITS), strict=True):
        assert greater.demand >= less.demand, less.resource
    assert sum(dollars_a_month(more, LIMITS).values()) > sum(dollars_a_month(load, LIMITS).values())


def test_a_full_request_is_one_upload_and_one_call() -> None:
    load = Load(GIB, 1_000)
    by_name = {demand.resource: demand.demand for demand in demands(load, LIMITS)}
    assert by_name["object PUT/s of the WAL"] == by_name["requests/s of a function URL"] == load.requests_per_s
    assert 225 < load.requests_per_s < 240, "4.7 MB each"


def test_what_breaks_first_is_what_fits_no_more() -> None:
    load = Load(10 * GIB, 1_000)
    worst, gib_s = limits_of(load, LIMITS)
    assert worst.ratio > 1
    assert all(demand.ratio <= 1.001 for demand in demands(replace(load, bytes_per_s=gib_s * GIB), LIMITS))


def test_a_raised_limit_moves_the_answer() -> None:
    load = Load(GIB, 1_000)
    more = replace(LIMITS, maintenance_workers=200)
    assert limits_of(load, more)[1] > limits_of(load, LIMITS)[1]


def test_the_maintainers_of_prod_suffice_for_what_the_manual_says() -> None:
    worst, gib_s = limits_of(Load(GIB, 1_000), LIMITS)
    assert worst.ratio < 1
    assert 1 < gib_s < 2
    beyond, _ = limits_of(Load(10 * GIB, 1_000), LIMITS)
    assert beyond.resource == "maintainers at once"


def test_spreading_by_key_costs_updates() -> None:
    sticky, keyed = (Load(GIB, 100_000, keyed=keyed) for keyed in (False, True))
    assert keyed.updates_per_s > 100 * sticky.updates_per_s
    assert answer(keyed, LIMITS)["first"] == "write units/s of the log table"
