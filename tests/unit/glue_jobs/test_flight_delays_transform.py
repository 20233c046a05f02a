"""The rows of flight_delays, on frames small enough to check by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


RECORD = "key BINARY, value BINARY, offset LONG, timestamp TIMESTAMP"
SIX = datetime(2013, 3, 10, 6, 0, tzinfo=UTC)
# The clocks of New York went from 02:00 EST to 03:00 EDT at 07:00 UTC that morning.


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2013, 3, 10, hour, minute, tzinfo=UTC)


def records(spark: SparkSession, rows: Sequence[tuple[str | None, Any, datetime]]) -> DataFrame:
    """(key, value, time): the value as JSON, text as it is, None as a tombstone; offsets count up."""
    encoded = [
        (
            None if key is None else bytearray(key.encode()),
            None if value is None else bytearray((value if isinstance(value, str) else json.dumps(value)).encode()),
            offset,
            time,
        )
        for offset, (key, value, time) in enumerate(rows)
    ]
    return spark.createDataFrame(encoded, RECORD)


def flight(origin: str, delay: int | None, *, carrier: str = "AA", number: int = 1, dest: str = "BOS") -> Any:
    return {"origin": origin, "carrier": carrier, "flight": number, "dest": dest, "dep_delay": delay, "extra": "x"}


def observed(origin: str, wind: float | None) -> Any:
    return {"origin": origin, "temp": 50.5, "wind_speed": wind, "wind_gust": None, "precip": 0.0, "visib": 10.0}


def airline(carrier: str, name: str) -> Any:
    return {"carrier": carrier, "name": name}


def rows_of(frame: DataFrame) -> dict[tuple[str, datetime], Any]:
    rows = frame.collect()
    rows_by_window = {(row.origin, row.window_start.astimezone(UTC)): row for row in rows}
    assert len(rows_by_window) == len(rows), "a window came twice"
    return rows_by_window


@pytest.fixture(scope="module")
def windows(spark: SparkSession) -> dict[tuple[str, datetime], Any]:
    from odradek.glue_jobs.flight_delays.transform import flight_delays

    flights = [
        ("N1", flight("JFK", 10, number=7), at(6, 0)),
        ("N2", flight("JFK", -4), at(6, 59)),
        ("N3", flight("JFK", None, carrier="ZZ"), at(6, 30)),
        (None, flight("JFK", 100, carrier="DL", number=9, dest="SFO"), at(6, 30)),
        ("N5", flight("JFK", 1), at(7, 0)),
        ("N6", flight("EWR", None), at(6, 5)),
        ("N7", flight("EWR", 5, carrier="XX"), at(8, 5)),
        *((f"M{i}", flight("LGA", i, number=i), at(9, i % 60)) for i in range(1, 41)),
        ("bad", "no JSON", at(6, 10)),
        ("bad", {"carrier": "AA"}, at(6, 10)),
        ("bad", None, at(6, 10)),
    ]
    weather = [
        ("JFK", observed("JFK", 1.0), at(6)),
        ("JFK", observed("JFK", 12.5), at(6)),
        ("JFK", observed("JFK", 3.0), at(5)),
        ("EWR", observed("EWR", None), at(8)),
        ("LGA", "no JSON", at(9)),
    ]
    airlines = [
        ("AA", airline("AA", "An old name"), SIX),
        ("AA", airline("AA", "American"), SIX),
        ("DL", airline("DL", "Delta"), SIX),
        ("XX", airline("XX", "Gone"), SIX),
        ("XX", None, SIX),
    ]
    return rows_of(
        flight_delays(records(spark, flights), records(spark, weather), records(spark, airlines), watermark="10 days")
    )


def test_a_window_is_an_hour_of_one_origin(windows: dict[tuple[str, datetime], Any]) -> None:
    assert set(windows) == {("JFK", at(6)), ("JFK", at(7)), ("EWR", at(6)), ("EWR", at(8)), ("LGA", at(9))}
    row = windows["JFK", at(6)]
    assert (row.scheduled, row.departures, row.cancelled) == (4, 3, 1)
    assert row.mean_delay_minutes == (10 - 4 + 100) / 3
    assert row.window_end.astimezone(UTC) == at(7)


def test_the_worst_departure_names_its_airline(windows: dict[tuple[str, datetime], Any]) -> None:
    row = windows["JFK", at(6)]
    assert (row.worst_delay_minutes, row.worst_carrier, row.worst_airline) == (100, "DL", "Delta")
    assert (row.worst_flight, row.worst_destination) == (9, "SFO")
    assert windows["JFK", at(7)].worst_airline == "American"  # the latest of the key
    window_lost = windows["EWR", at(8)]
    assert (window_lost.worst_carrier, window_lost.worst_airline) == (
        "XX",
        None,
    )  # a tombstone took the name, not the window


def test_a_cancelled_flight_is_no_delay_of_zero(windows: dict[tuple[str, datetime], Any]) -> None:
    row = windows["EWR", at(6)]
    assert (row.scheduled, row.departures, row.cancelled) == (1, 0, 1)
    assert row.mean_delay_minutes is None
    assert row.p95_delay_minutes is None
    assert row.worst_carrier is None


def test_the_95th_percentile_is_the_nearest_rank(windows: dict[tuple[str, datetime], Any]) -> None:
    assert windows["LGA", at(9)].p95_delay_minutes == 38  # of 1 to 40
    assert windows["JFK", at(6)].p95_delay_minutes == 100


def test_weather_is_that_of_the_hour_and_the_latest_of_it(windows: dict[tuple[str, datetime], Any]) -> None:
    assert windows["JFK", at(6)].wind_speed_mph == 12.5
    assert windows["JFK", at(6)].temperature_f == 50.5
    assert windows["JFK", at(7)].wind_speed_mph is None  # nobody observed it
    assert windows["EWR", at(8)].visibility_miles == 10.0
    assert windows["LGA", at(9)].visibility_miles is None


def test_the_latest_micro_batch_wins(spark: SparkSession) -> None:
    from odradek.glue_jobs.flight_delays.transform import latest_windows

    changes = spark.createDataFrame(
        [("JFK", at(6), 1, 0), ("JFK", at(6), 3, 11), ("JFK", at(6), 2, 2), ("EWR", at(6), 5, 1)],
        "origin STRING, window_start TIMESTAMP, scheduled LONG, batch_id INT",
    )
    frame = latest_windows(changes)
    assert frame.columns == ["origin", "window_start", "scheduled"]
    assert {key: row.scheduled for key, row in rows_of(frame).items()} == {("JFK", at(6)): 3, ("EWR", at(6)): 5}


def test_a_window_becomes_a_record_keyed_by_itself(spark: SparkSession) -> None:
    from odradek.glue_jobs.flight_delays.transform import as_records

    windows = spark.createDataFrame(
        [("JFK", at(6), at(7), 3, None)],
        "origin STRING, window_start TIMESTAMP, window_end TIMESTAMP, scheduled LONG, mean_delay_minutes DOUBLE",
    )
    [row] = as_records(windows).collect()
    assert bytes(row.key) == b"JFK|2013-03-10T06:00:00Z"
    assert row.timestamp.astimezone(UTC) == at(7)
    assert json.loads(row.value) == {
        "origin": "JFK",
        "window_start": "2013-03-10T06:00:00Z",
        "window_end": "2013-03-10T07:00:00Z",
        "scheduled": 3,
        "mean_delay_minutes": None,
    }
