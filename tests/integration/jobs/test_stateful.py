"""The stateful jobs as streams over real flights: what ends up in their topics is what pandas computes from the data.

Each runs as a scheduled one does, to the end of what is there, several times on one checkpoint. A micro-batch that runs
again, because the driver died before Spark noted it, adds nothing.

Slow: each job runs several times on one checkpoint, and a stateful micro-batch costs Spark seconds.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from odradek.glue_jobs.deduplicate import job as deduplicate_job
from odradek.glue_jobs.stream_join import job as stream_join_job
from odradek.glue_jobs.table_join import job as table_join_job
from odradek.glue_jobs.user_sessions import job as user_sessions_job
from odradek.glue_jobs.windowed_aggregates import job as windowed_aggregates_job

from tests.support.spark.flights import append, dataset, departures, flight_events, latest_values, values_of
from tests.support.spark.jobs import Job, forget_last_commit, has_run
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FLIGHT = "origin STRING, dest STRING, carrier STRING, tailnum STRING, flight INT, dep_delay INT"


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return departures(2)


def closing(flights: pd.DataFrame, day: int) -> list[Any]:
    """An event so late that the watermark passes all flights."""
    value = {"origin": "END", "dest": "END", "carrier": "-", "tailnum": f"END{day}", "flight": 0, "dep_delay": 0}
    return [(f"END{day}", value, int(flights.ms.max()) + day * DAY_MS)]


def ms_of(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def test_sessions_of_aircraft_are_sent_once_when_they_are_over(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    served.create("visits", 1)
    served.create("sessions", 2)
    job = Job(
        spark, served, user_sessions_job, tmp_path, input_topic="visits", output_topic="sessions",
        value_schema=FLIGHT, user="tailnum", page="dest", gap="6 hours", watermark="1 hour",
    )  # fmt: skip
    append(served, "visits", flight_events(flights) + closing(flights, 10))
    job.run()
    append(served, "visits", closing(flights, 20))
    job.run()
    ended_sessions = [session for session in values_of(served, "sessions") if not session["user"].startswith("END")]

    ordered = flights.sort_values(["tailnum", "ms", "dest"])
    pause = ordered.groupby("tailnum").ms.diff()
    sessions = ordered.groupby((pause.isna() | (pause > 6 * HOUR_MS)).cumsum())
    expected = sorted(
        (group.tailnum.iloc[0], int(group.ms.min()), int(group.ms.max()), len(group), list(group.dest))
        for _, group in sessions
    )
    assert len(expected) > 1_000
    assert expected == sorted(
        (session["user"], ms_of(session["started"]), ms_of(session["ended"]), session["events"], session["path"])
        for session in ended_sessions
    )
    before = served.values("sessions")
    again = forget_last_commit(job.checkpoint)
    job.run()
    assert has_run(job.checkpoint, again)
    assert served.values("sessions") == before


def test_windows_and_their_top_n_equal_pandas_and_late_events_are_dead_letters(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    served.create("departures", 1)
    served.create("hours", 2, **{"cleanup.policy": "compact"})
    served.create("late", 1)
    aggregates = (
        *("n=count()", "total=sum(dep_delay)", "mean=mean(dep_delay)", "airlines=approximate_distinct(carrier)"),
        *("p90=percentile(dep_delay, 0.9)", "worst=top(dep_delay, 3, carrier, flight)"),
    )
    job = Job(
        spark, served, windowed_aggregates_job, tmp_path, input_topic="departures", output_topic="hours",
        value_schema=FLIGHT, group_by=("origin",), window="sliding", size="2 hours", advance="1 hour",
        watermark="1 hour", aggregates=aggregates, dead_letter_topic="late",
    )  # fmt: skip
    half = len(flights) // 2
    append(served, "departures", flight_events(flights[:half]))
    assert job.run()["records"] == half
    append(served, "departures", [*flight_events(flights[half:]), ("k", b"no JSON", int(flights.ms.max()))])
    assert job.run()["malformed"] == 1
    # Both are behind the watermark that the second run ended with; the second one by one of its two windows only.
    watermark = int(flights.ms.max()) - HOUR_MS
    wholly, half_late = watermark - 9 * HOUR_MS, watermark // HOUR_MS * HOUR_MS - HOUR_MS + 1
    late = {"origin": "JFK", "carrier": "XX", "flight": 1, "dep_delay": 9_999}
    append(served, "departures", [("late", late, wholly), ("half", late, half_late)])
    job.run()

    windows = {
        (window["origin"], ms_of(window["window_start"])): window for window in latest_values(served, "hours").values()
    }
    half_row = pd.DataFrame([{"ms": half_late, "origin": "JFK", "carrier": "XX", "flight": 1, "dep_delay": 9_999}])
    starts = flights.ms // HOUR_MS * HOUR_MS
    twice = pd.concat(
        [
            flights.assign(start=starts),
            flights.assign(start=starts - HOUR_MS),
            half_row.assign(start=half_late // HOUR_MS * HOUR_MS),
        ]
    )
    groups = twice.groupby(["origin", "start"])
    assert set(windows) == set(groups.groups)
    for key, group in groups:
        row, delays = windows[key], group.dep_delay.sort_values()
        assert (row["n"], row["total"], row["airlines"]) == (len(group), delays.sum(), group.carrier.nunique()), key
        assert row["mean"] == pytest.approx(delays.mean())
        assert row["p90"] == delays.iloc[-(-len(delays) * 9 // 10) - 1]
        worst = group.sort_values(["dep_delay", "carrier", "flight"], ascending=False).head(3)
        assert [[delay[name] for name in ("dep_delay", "carrier", "flight")] for delay in row["worst"]] == (
            worst[["dep_delay", "carrier", "flight"]].to_numpy().tolist()
        )
    letters = {
        record.key: {name: (value or b"").decode() for name, value in map(tuple, record.headers)}
        for record in served.records("late")[0]
    }
    assert {key: headers["odradek.error"] for key, headers in letters.items()} == {
        b"k": "the value is not a JSON object of the schema",
        b"late": "too late",
        b"half": "too late",
    }
    assert len(letters[b"late"]["odradek.missed-windows"].split(",")) == 2
    assert len(letters[b"half"]["odradek.missed-windows"].split(",")) == 1


def test_flights_meet_the_weather_within_an_hour_as_in_pandas(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    for topic in ("leaving", "weather", "observed"):
        served.create(topic, 1)
    weather = dataset("weather")
    weather = weather[(weather.month == 1) & (weather.day <= 2)]
    weather = weather.assign(
        ms=pd.to_datetime(weather.time_hour, utc=True).dt.as_unit("ms").astype("int64")
    )[["origin", "ms", "wind_speed"]].dropna()  # fmt: skip
    jfk = flights[flights.origin == "JFK"]
    job = Job(
        spark, served, stream_join_job, tmp_path, left_topic="leaving", right_topic="weather",
        output_topic="observed", left_schema=FLIGHT, right_schema="origin STRING, wind_speed DOUBLE", on=("origin",),
        before="1 hour", after="0 seconds", watermark="3 days",
    )  # fmt: skip
    rows = weather.to_dict("records")
    append(served, "weather", [(None, {k: r[k] for k in ("origin", "wind_speed")}, int(r["ms"])) for r in rows])
    half = len(jfk) // 2
    append(served, "leaving", flight_events(jfk[:half]))
    job.run()
    append(served, "leaving", flight_events(jfk[half:]))
    job.run()
    pairs = jfk.merge(weather, on="origin", suffixes=("", "_w"))
    pairs = pairs[(pairs.ms_w >= pairs.ms - HOUR_MS) & (pairs.ms_w <= pairs.ms)]
    expected = sorted(pairs[["tailnum", "flight", "wind_speed"]].itertuples(index=False, name=None))
    assert len(expected) > 400
    joined_pairs = values_of(served, "observed")
    assert expected == sorted(
        (p["left"]["tailnum"], p["left"]["flight"], p["right"]["wind_speed"]) for p in joined_pairs
    )


def test_flights_meet_the_table_as_it_is_then(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    served.create("calls", 1)
    served.create("airlines", 1, **{"cleanup.policy": "compact"})
    served.create("named", 2)
    airlines = dataset("airlines")
    append(served, "airlines", [(row.carrier, {"name": row.name}, 0) for row in airlines.itertuples(index=False)])
    job = Job(
        spark, served, table_join_job, tmp_path, input_topic="calls", table_topic="airlines",
        output_topic="named", value_schema=FLIGHT, table_schema="name STRING", on="carrier",
    )  # fmt: skip
    first, second = flights[:300], flights[300:600]
    append(served, "calls", flight_events(first))
    job.run()
    append(served, "airlines", [("UA", {"name": "Untied"}, 1), ("DL", None, 1)])
    append(served, "calls", flight_events(second))
    job.run()
    names = dict(airlines[["carrier", "name"]].itertuples(index=False, name=None))
    changed = {**names, "UA": "Untied", "DL": None}
    wanted = [(c, f, names[c]) for c, f in first[["carrier", "flight"]].itertuples(index=False, name=None)]
    wanted += [(c, f, changed[c]) for c, f in second[["carrier", "flight"]].itertuples(index=False, name=None)]
    named_flights = [(v["carrier"], v["flight"], (v["table"] or {}).get("name")) for v in values_of(served, "named")]
    assert sorted(named_flights, key=str) == sorted(wanted, key=str)
    # Run again, the last micro-batch meets a newer table: it adds nothing, since its first run did.
    append(served, "airlines", [("UA", {"name": "never"}, 2)])
    again = forget_last_commit(job.checkpoint)
    job.run()
    assert has_run(job.checkpoint, again)
    assert len(served.values("named")) == 600


def test_a_flight_that_was_sent_twice_passes_once(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    served.create("sent", 1)
    served.create("unique", 1)
    events = flight_events(flights[:200])
    job = Job(
        spark, served, deduplicate_job, tmp_path, input_topic="sent", output_topic="unique",
        by=("carrier", "flight", "tailnum", "dep_delay"), within="1 day",
    )  # fmt: skip
    append(served, "sent", events + events[:50])
    job.run()
    append(served, "sent", events)
    job.run()
    assert len(served.values("unique")) == len({str(value) for _, value, _ in events})
