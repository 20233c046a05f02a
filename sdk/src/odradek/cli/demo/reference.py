"""The result that the job must give, computed from the CSV files with pandas, without Odradek and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from odradek.cli.demo.dataset import Dataset

KEYS = ["origin", "window_start"]
EXACT = [
    "scheduled",
    "departures",
    "cancelled",
    "mean_delay_minutes",
    "p95_delay_minutes",
    "worst_delay_minutes",
    "worst_carrier",
    "worst_flight",
    "worst_destination",
    "worst_airline",
    "wind_speed_mph",
    "wind_gust_mph",
    "visibility_miles",
    "precipitation_inches",
    "temperature_f",
]
_WEATHER = {
    "wind_speed": "wind_speed_mph",
    "wind_gust": "wind_gust_mph",
    "visib": "visibility_miles",
    "precip": "precipitation_inches",
    "temp": "temperature_f",
}


def expected_windows(data: Dataset) -> pd.DataFrame:
    """Return one row per (origin, hour) with flights, in the order of KEYS."""
    flights = data.flights.assign(window_start=data.flights["event_time"].dt.floor("h"))
    groups = flights.groupby(KEYS, sort=True)
    scheduled = groups.size().rename("scheduled")
    departed = flights.dropna(subset=["dep_delay"]).astype({"dep_delay": "int64"})
    departed = departed.sort_values(["dep_delay", "carrier", "flight", "dest"], kind="stable")
    delays = departed.groupby(KEYS, sort=True)["dep_delay"]
    # Nearest rank: the smallest delay with at least 95 % of the departures at or below it.
    rank = (delays.transform("size") * 95 + 99) // 100
    p95 = departed[delays.cumcount() + 1 == rank].set_index(KEYS)["dep_delay"]
    worst = (
        departed.groupby(KEYS, sort=True)[["dep_delay", "carrier", "flight", "dest"]]
        .last()
        .rename(
            columns={
                "dep_delay": "worst_delay_minutes",
                "carrier": "worst_carrier",
                "flight": "worst_flight",
                "dest": "worst_destination",
            }
        )
    )
    windows = scheduled.to_frame().join(delays.size().rename("departures")).fillna({"departures": 0})
    windows["cancelled"] = windows["scheduled"] - windows["departures"]
    windows = windows.join(delays.mean().rename("mean_delay_minutes")).join(p95.rename("p95_delay_minutes")).join(worst)
    airlines = data.airlines.set_index("carrier")["name"].rename("worst_airline")
    windows = windows.reset_index().join(airlines, on="worst_carrier")
    weather = data.weather.rename(columns=_WEATHER)
    weather = weather.assign(window_start=weather["event_time"])[[*KEYS, *_WEATHER.values()]]
    merged = windows.merge(weather, on=KEYS, how="left")
    return comparable(merged)


def comparable(windows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that must be equal, in one order and with one set of types."""
    import pandas as pd

    frame = windows[[*KEYS, *EXACT]].sort_values(KEYS, kind="stable").reset_index(drop=True)
    types = {name: "string" if name in _TEXT else "Float64" for name in EXACT}
    frame["window_start"] = pd.to_datetime(frame["window_start"], utc=True).astype("datetime64[us, UTC]")
    return frame.astype({"origin": "string", **types})


_TEXT = {"worst_carrier", "worst_destination", "worst_airline"}
