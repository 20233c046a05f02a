"""Departure delays by origin and hour. DataFrame in, DataFrame out: batch and streaming alike, no I/O.

    flights (records) -> parse -> 1-hour tumbling windows per origin -> + weather of that hour -> + airline's name

Records are the columns of the source: key, value (JSON), timestamp (event time), offset ...

The meaning of a row, where the data allow several:
* A flight belongs to the window of its *scheduled* departure, the record's timestamp, in UTC. UTC has no daylight
  saving, so the nights of the change have no doubled or missing hour.
* A cancelled flight has no departure delay: it counts in `scheduled` and `cancelled`, never as a delay of 0. A window
  with only cancellations has departures 0 and null delays.
* The 95th percentile is the smallest delay with at least 95 % of the departures at or below it (nearest rank):
  percentile_approx, exact as long as a window has fewer departures than its accuracy.
* The airline is that of the window's worst departure. Ties go to the greatest (carrier, flight, destination), so that a
  replay gives the same row.
* Weather and airline are left joins: an hour without observations keeps its delays.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FLIGHT = "origin STRING, carrier STRING, flight INT, dest STRING, dep_delay INT"
WEATHER = "origin STRING, temp DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, visib DOUBLE"
AIRLINE = "carrier STRING, name STRING"

OBSERVED = "flights"  # name of the metrics `records` and `malformed` in a query's progress
PERCENTILE_ACCURACY = 10_000
_ISO = "yyyy-MM-dd'T'HH:mm:ss'Z'"


def flight_delays(flights: DataFrame, weather: DataFrame, airlines: DataFrame, *, watermark: str) -> DataFrame:
    """Return one row per (origin, hour) with flights.

    Args:
        flights: records of the topic, a stream or a batch.
        weather, airlines: records of the topics as batches; the latest of each key counts.
        watermark: the largest lateness of a flight relative to the newest event, such as "10 days".
    """
    windows = delays_by_hour(parse_flights(flights), watermark)
    return with_airline(with_weather(windows, latest_weather(weather)), latest_airlines(airlines))


def parse_flights(records: DataFrame) -> DataFrame:
    """Return the flights of JSON records. Records that do not parse are dropped and counted as `malformed`."""
    flight = F.from_json(F.col("value").cast("string"), FLIGHT)
    parsed = records.select(F.col("timestamp").alias("event_time"), flight.alias("flight")).select(
        "event_time", "flight.*"
    )
    is_malformed = F.col("origin").isNull() | F.col("carrier").isNull()
    return parsed.observe(
        OBSERVED, F.count(F.lit(1)).alias("records"), F.count(F.when(is_malformed, 1)).alias("malformed")
    ).where(~is_malformed)


def delays_by_hour(flights: DataFrame, watermark: str) -> DataFrame:
    """Return the windows, without weather and airline's name."""
    delay = F.col("dep_delay")
    worst = F.max(F.when(delay.isNotNull(), F.struct("dep_delay", "carrier", "flight", "dest")))
    return (
        flights.withWatermark("event_time", watermark)
        .groupBy(F.window("event_time", "1 hour"), "origin")
        .agg(
            F.count(F.lit(1)).alias("scheduled"),
            F.count(delay).alias("departures"),
            F.avg(delay).alias("mean_delay_minutes"),
            F.percentile_approx(delay, 0.95, PERCENTILE_ACCURACY).alias("p95_delay_minutes"),
            worst.alias("worst"),
        )
        .select(
            "origin",
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "scheduled",
            "departures",
            (F.col("scheduled") - F.col("departures")).alias("cancelled"),
            "mean_delay_minutes",
            "p95_delay_minutes",
            F.col("worst.dep_delay").alias("worst_delay_minutes"),
            F.col("worst.carrier").alias("worst_carrier"),
            F.col("worst.flight").alias("worst_flight"),
            F.col("worst.dest").alias("worst_destination"),
        )
    )


def latest_weather(records: DataFrame) -> DataFrame:
    """Return the latest observation of each (origin, hour)."""
    observed = records.where(F.col("value").isNotNull()).select(
        F.from_json(F.col("value").cast("string"), WEATHER).alias("weather"),
        F.date_trunc("hour", "timestamp").alias("hour"),
        "offset",
    )
    latest = observed.groupBy(F.col("weather.origin").alias("origin"), "hour").agg(
        F.max_by("weather", "offset").alias("weather")
    )
    return latest.where(F.col("origin").isNotNull()).select(
        "origin",
        "hour",
        F.col("weather.temp").alias("temperature_f"),
        F.col("weather.wind_speed").alias("wind_speed_mph"),
        F.col("weather.wind_gust").alias("wind_gust_mph"),
        F.col("weather.precip").alias("precipitation_inches"),
        F.col("weather.visib").alias("visibility_miles"),
    )


def latest_airlines(records: DataFrame) -> DataFrame:
    """Return the latest name of each carrier; a tombstone removes it."""
    latest = records.groupBy(F.col("key").cast("string").alias("carrier")).agg(
        F.max_by("value", "offset").alias("value")
    )
    return latest.select(
        "carrier", F.from_json(F.col("value").cast("string"), AIRLINE).getField("name").alias("airline")
    ).where(F.col("airline").isNotNull())


def with_weather(windows: DataFrame, weather: DataFrame) -> DataFrame:
    """Add the weather of the window's hour at its origin."""
    weather = weather.withColumnRenamed("hour", "window_start")
    return windows.join(F.broadcast(weather), ["origin", "window_start"], "left")


def with_airline(windows: DataFrame, airlines: DataFrame) -> DataFrame:
    """Add the name of the worst departure's airline."""
    names = airlines.select(F.col("carrier").alias("worst_carrier"), F.col("airline").alias("worst_airline"))
    return windows.join(F.broadcast(names), ["worst_carrier"], "left")


def latest_windows(changes: DataFrame) -> DataFrame:
    """Return the current windows: of several rows of a window, the one of the newest micro-batch (`batch_id`)."""
    columns = [F.col(name) for name in changes.columns if name not in ("origin", "window_start")]
    latest = changes.groupBy("origin", "window_start").agg(F.max_by(F.struct(*columns), "batch_id").alias("row"))
    return latest.select("origin", "window_start", "row.*").drop("batch_id")


def as_records(windows: DataFrame) -> DataFrame:
    """Return windows as records of a compacted topic: key `origin|window start`, JSON value, the window's end."""
    key = F.concat_ws("|", "origin", _iso("window_start"))
    value = F.to_json(
        F.struct(*sorted(windows.columns)),
        {"timestampFormat": _ISO, "timeZone": "UTC", "ignoreNullFields": "false"},
    )
    return windows.select(
        key.cast("binary").alias("key"), value.cast("binary").alias("value"), F.col("window_end").alias("timestamp")
    )


def _iso(name: str) -> Column:
    return F.date_format(name, _ISO)  # the job's session is in UTC
