"""The meter adds up, and the price list makes dollars of it."""

from __future__ import annotations

import threading

import pytest
from odradek.cost.metering import UsageMeter, total
from odradek.cost.prices import US_EAST_1, cost
from odradek.ports.meter import Usage


def test_usage_adds_up_by_operation() -> None:
    meter = UsageMeter()
    meter.add("UpdateItem", Usage(table_write_units=1, table_requests=1))
    meter.add("GetItem", Usage(table_read_units=0.5, table_requests=1))
    meter.add("UpdateItem", Usage(table_write_units=2, table_requests=1))
    assert meter.by_operation() == {
        "GetItem": Usage(table_read_units=0.5, table_requests=1),
        "UpdateItem": Usage(table_write_units=3, table_requests=2),
    }
    assert meter.total() == Usage(table_write_units=3, table_read_units=0.5, table_requests=3)
    assert meter.calls() == {"GetItem": 1, "UpdateItem": 2}


def test_a_snapshot_measures_a_part_of_a_run() -> None:
    meter = UsageMeter()
    meter.add("PutObject", Usage(object_put_requests=1, object_bytes_written=10))
    meter.add("GetItem", Usage(table_read_units=1))
    before = meter.snapshot()
    meter.add("PutObject", Usage(object_put_requests=1, object_bytes_written=5))
    meter.add("GetObject", Usage(object_get_requests=1))
    assert meter.since(before) == {
        "GetObject": Usage(object_get_requests=1),
        "PutObject": Usage(object_put_requests=1, object_bytes_written=5),
    }
    assert total(meter.since(before)).object_put_requests == 1


def test_threads_share_a_meter() -> None:
    meter = UsageMeter()

    def work() -> None:
        for _ in range(2000):
            meter.add("UpdateItem", Usage(table_write_units=1, table_requests=1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.total() == Usage(table_write_units=8000, table_requests=8000)


def test_dollars_by_component() -> None:
    usage = Usage(
        table_write_units=2_000_000,
        table_read_units=4_000_000,
        object_put_requests=1000,
        object_get_requests=10_000,
        function_requests=1_000_000,
        function_gb_seconds=1000,
        queue_requests=2_000_000,
    )
    report = cost(usage)
    assert report.components == pytest.approx(
        {
            "queue requests": 0.8,
            "table writes": 1.25,
            "table reads": 0.5,
            "object puts": 0.005,
            "object gets": 0.004,
            "express requests": 0.0,
            "express data": 0.0,
            "function requests": 0.2,
            "function time": 0.0133334,
        }
    )
    assert report.total == pytest.approx(2.7723334)
    assert report.per_million_records(500_000) == pytest.approx(report.total * 2)
    assert report.per_million_records(0) == 0


def test_idle_costs_no_requests() -> None:
    assert cost(Usage()).total == 0


def test_the_price_list_says_when_and_where() -> None:
    assert US_EAST_1.date
    assert US_EAST_1.region == "us-east-1"
    assert US_EAST_1.source
