"""The windows of the job once more, by SQL over the topic: `odradek query`, in this process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.demo.failure import DemoFailed
from odradek.operations.query import query

if TYPE_CHECKING:
    import pandas as pd

SQL = """\
SELECT origin, date_trunc('hour', timestamp) AS window_start,
       count(*) AS scheduled, count(dep_delay) AS departures, avg(dep_delay) AS mean_delay_minutes
FROM flights GROUP BY ALL ORDER BY ALL"""


def query_windows(store: Path, windows: pd.DataFrame) -> float:
    """Count flights and departures by hour, with their mean delays, and return the seconds that it took.

    Raises DemoFailed if they differ from those of the job.
    """
    started = time.monotonic()
    rows = query(SQL, store).to_pylist()
    seconds = time.monotonic() - started
    expected = {(row["origin"], row["window_start"]): row for row in windows.to_dict("records")}
    if len(rows) != len(expected):
        raise DemoFailed(f"the query found {len(rows):,} windows, the job {len(expected):,}")
    for row in rows:
        other = expected.get((row["origin"], row["window_start"]))
        mean = row["mean_delay_minutes"]
        is_equal = other is not None and all(row[name] == other[name] for name in ("scheduled", "departures"))
        if other is None or not is_equal or (mean is not None and abs(mean - other["mean_delay_minutes"]) > 1e-9):
            raise DemoFailed(f"the query has another window than the job: {row}, not {other}")
    return seconds
