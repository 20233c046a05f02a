"""The checks of the demo: counts and windows must equal those of pandas, or DemoFailed is raised."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek import Consumer, TopicPartition
from odradek.cli.demo.failure import DemoFailed
from odradek.cli.demo.reference import EXACT, KEYS, comparable

if TYPE_CHECKING:
    import pandas as pd

_POLL_MS = 1_000.0
_QUIET_POLLS_MAX = 30


def check_count(config: Mapping[str, Any], topic: str, expected: int) -> None:
    """Check by reading that the topic holds this many records. Raises DemoFailed."""
    count = sum(1 for _ in _records(config, topic))
    if count != expected:
        raise DemoFailed(f"the topic {topic} holds {count:,} records, the CSV file {expected:,}")


def latest_values(config: Mapping[str, Any], topic: str) -> dict[bytes, bytes]:
    """Return the latest value of each key, as in a compacted topic."""
    table: dict[bytes, bytes] = {}
    for key, value in _records(config, topic):
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def _records(config: Mapping[str, Any], topic: str) -> Iterator[tuple[Any, Any]]:
    with Consumer(**config, auto_offset_reset="earliest", max_poll_records=5_000) as consumer:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for(topic))]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        end = consumer.end_offsets(partitions)
        quiet = 0
        while any(consumer.position(tp) < end[tp] for tp in partitions):
            polled = consumer.poll(_POLL_MS)
            quiet = 0 if polled else quiet + 1
            if quiet > _QUIET_POLLS_MAX:
                raise DemoFailed(f"the topic {topic} could not be read to its end")
            for records in polled.values():
                for record in records:
                    yield record.key, record.value


def read_windows(output: Path) -> pd.DataFrame:
    """Return the job's table. Raises DemoFailed."""
    import pandas as pd

    try:
        windows = pd.read_parquet(output / "windows")
    except (OSError, ValueError) as error:
        raise DemoFailed(f"the job wrote no table to {output}: {error}") from None
    # Spark's Parquet carries times without a zone; the job's session is UTC.
    for name in ("window_start", "window_end"):
        windows[name] = pd.to_datetime(windows[name], utc=True)
    return windows


def check_windows(windows: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Check that both are equal in every column. Raises DemoFailed that shows the first difference."""
    actual = comparable(windows)
    if len(actual) != len(expected):
        raise DemoFailed(f"the job found {len(actual):,} windows, pandas {len(expected):,}")
    for name in [*KEYS, *EXACT]:
        same = (actual[name] == expected[name]).fillna(False) | (actual[name].isna() & expected[name].isna())
        if not same.all():
            row = int((~same).to_numpy().argmax())
            origin_window = f"{expected['origin'][row]} at {expected['window_start'][row]:%Y-%m-%d %H:%MZ}"
            raise DemoFailed(
                f"{int((~same).sum()):,} windows differ in {name}; the first is {origin_window}: "
                f"{actual[name][row]} from the job, {expected[name][row]} from pandas"
            )


def check_topic(values: Mapping[bytes, bytes], expected: pd.DataFrame) -> None:
    """Check that the topic `delays` equals the table. Raises DemoFailed."""
    rows = [json.loads(value) for value in values.values()]
    if len(rows) != len(expected):
        raise DemoFailed(f"the topic delays holds {len(rows):,} windows, pandas {len(expected):,}")
    for name in ("scheduled", "departures", "cancelled"):
        total, wanted = sum(row[name] for row in rows), int(expected[name].sum())
        if total != wanted:
            raise DemoFailed(f"{name} in the topic delays add up to {total:,}, in pandas to {wanted:,}")
