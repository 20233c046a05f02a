"""Uploads in the main bucket or on S3 Express One Zone: the same requests, other prices and other times."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from odradek.adapters.express_meter import ExpressMeter
from odradek.cli import run
from odradek.cost.fixtures import MONTH_S
from odradek.cost.metering import UsageMeter
from odradek.cost.model import Measured, Workload, own_cost
from odradek.cost.prices import GIB, cost
from odradek.cost.wal import WalClass
from odradek.ports.meter import Usage

LOAD = Workload(GIB / 1024, producers=16, consumers=2, linger_ms=1000)  # 1 MiB/s, 16 uploads a second
MEASURED = Measured(
    per_append=Usage(table_write_units=5, object_put_requests=1),
    per_fetch=Usage(table_read_units=1, object_get_requests=1),
    per_merge=Usage(object_put_requests=24, object_get_requests=1),
    per_merged_append=Usage(object_get_requests=1),
)


def test_requests_and_bytes_have_prices_of_their_own() -> None:
    usage = Usage(object_put_requests=1000, object_get_requests=10_000, object_bytes_written=GIB, object_bytes_read=GIB)
    standard, express = cost(usage).components, cost(usage.on_express()).components
    assert (standard["object puts"], standard["object gets"]) == (0.005, pytest.approx(0.004))
    assert (standard["express requests"], standard["express data"]) == (0, 0)
    assert (express["object puts"], express["object gets"]) == (0, 0)
    assert express["express requests"] == pytest.approx(0.00113 + 0.0003)
    assert express["express data"] == pytest.approx(0.0032 + 0.0006)


def test_what_a_directory_bucket_is_asked_is_counted_apart() -> None:
    meter = UsageMeter()
    ExpressMeter(meter).add("PutObject", Usage(object_put_requests=1, object_bytes_written=7, payload_bytes_in=3))
    meter.add("PutObject", Usage(object_put_requests=2, object_bytes_written=9))
    assert meter.total() == Usage(
        object_put_requests=2,
        object_bytes_written=9,
        payload_bytes_in=3,
        express_put_requests=1,
        express_bytes_written=7,
    )


def test_uploads_are_on_express_and_segments_are_not() -> None:
    standard, express = own_cost(LOAD, MEASURED), own_cost(replace(LOAD, wal=WalClass.EXPRESS), MEASURED)
    months = 16 * MONTH_S
    # Each upload is put once, read by two consumers, and by its merge.
    assert express["express requests"] == pytest.approx(months * (0.00113 + 3 * 0.00003) / 1000)
    assert express["express data"] == pytest.approx(LOAD.gb_month * (0.0032 + 3 * 0.0006), rel=1e-6)
    assert standard["object puts"] - express["object puts"] == pytest.approx(months * 0.005 / 1000)
    assert express["object puts"] > 0, "segments are put into the main bucket"
    assert express["object gets"] < 0.1 * standard["object gets"]
    assert express["function time"] < 0.6 * standard["function time"], "functions wait for milliseconds"
    assert 0 < express["express storage"] < 1
    for same in ("table writes", "table reads", "storage", "alarms"):
        assert express[same] == pytest.approx(standard[same])


def test_what_fits_into_items_has_no_uploads() -> None:
    small = Measured(per_append=Usage(table_write_units=5), per_fetch=Usage(table_read_units=2), is_item=True)
    assert own_cost(replace(LOAD, wal=WalClass.EXPRESS), small) == own_cost(LOAD, small)


def test_the_command_prices_either_way(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", "estimate", "--rate", "1MiB/s", "--linger-ms", "1000", "--partitions", "1"]
    assert run([*arguments, "--wal", "express", "--output", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["wal"] == "express"
    assert printed["odradek"][0]["dollars_month"]["express requests"] == pytest.approx(
        cost(Usage(express_put_requests=round(MONTH_S), express_get_requests=round(2 * MONTH_S))).total, rel=0.25
    )
    assert run([*arguments, "--wal", "express"]) == 0
    assert "in one availability zone until it is merged" in " ".join(capsys.readouterr().out.split())
    assert run([*arguments]) == 0
    assert "express" not in capsys.readouterr().out.lower()
