"""The most played items of each chart. `updated` is pure; the DataFrame function keeps its counts in Spark's state.

    plays {"item": ...}  +  details: item -> {"genre": ...}
        -> chart "all" and chart <genre>, the n items with the most plays, best first

State of a chart: the count of each item, and the current n best. Counts only grow, so the new best n are among the old
ones and the newly played items: a micro-batch costs what it contains, not the whole history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.spark.jobs.values import json_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
CHART = "chart STRING, top STRING, timestamp TIMESTAMP"
TOP = "array<struct<item:string,plays:bigint>>"

Ranked = list[tuple[str, int]]


def updated(top: Sequence[tuple[str, int]], counts: Mapping[str, int], n: int) -> Ranked:
    """Return the n best of a chart, from its previous best and the new counts; ties by name."""
    merged = {**dict(top), **counts}
    return sorted(merged.items(), key=lambda item_plays: (-item_plays[1], item_plays[0]))[:n]


def plays_by_chart(plays: DataFrame, details: DataFrame | None, *, item: str) -> DataFrame:
    """Return each play once in the chart `all` and, with details, once in that of its item: chart, item, timestamp.

    Args:
        plays: events with the field `item` and event_time.
        details: item_key, chart.
    """
    plays_by_item = plays.where(F.col(item).isNotNull()).select(
        F.col(item).cast("string").alias("item"), F.col("event_time").alias("timestamp")
    )
    if details is None:
        return plays_by_item.select(F.lit(ALL).alias("chart"), "item", "timestamp")
    joined = plays_by_item.join(F.broadcast(details), F.col("item") == F.col("item_key"), "left")
    charts = F.array_compact(F.array(F.lit(ALL), F.col("chart")))
    return joined.select(F.explode(charts).alias("chart"), "item", "timestamp")


class TopOfChart(StatefulProcessor):
    """The counts of a chart's items, and its best n."""

    def __init__(self, n: int) -> None:
        self._n = n

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._counts = handle.getMapState("counts", "item STRING", "plays BIGINT")
        self._top = handle.getValueState("top", "top STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        played: dict[str, int] = {}
        newest = None
        for frame in rows:
            for item, plays in frame.groupby("item").size().items():
                played[str(item)] = played.get(str(item), 0) + int(plays)
            latest = frame["timestamp"].max()
            newest = latest if newest is None or latest > newest else newest
        counts: dict[str, int] = {}
        for item, plays in played.items():
            before = (self._counts.getValue((item,)) or (0,))[0] if self._counts.containsKey((item,)) else 0
            counts[item] = before + plays
            self._counts.updateValue((item,), (counts[item],))
        before_top = json.loads((self._top.get() or ("[]",))[0]) if self._top.exists() else []
        top = updated([(item, plays) for item, plays in before_top], counts, self._n)
        if top == [(item, plays) for item, plays in before_top]:
            return
        self._top.update((json.dumps(top),))
        document = json.dumps([{"item": item, "plays": plays} for item, plays in top])
        yield pd.DataFrame({"chart": [key[0]], "top": [document], "timestamp": [newest]})

    def close(self) -> None:
        """Do nothing: nothing is open."""


def top_charts(plays: DataFrame, n: int) -> DataFrame:
    """Return a row for each changed chart: chart, top (an array of item and plays, best first), timestamp.

    Args:
        plays: a stream of chart, item, timestamp.
    """
    changed = plays.groupBy("chart").transformWithStateInPandas(
        statefulProcessor=TopOfChart(n), outputStructType=CHART, outputMode="Update", timeMode="None"
    )
    return changed.withColumn("top", F.from_json("top", TOP))


def as_records(charts: DataFrame) -> DataFrame:
    """Return charts as records of a compacted topic, keyed by the chart's name."""
    return charts.select(
        F.col("chart").cast("binary").alias("key"), json_of(["chart", "top"]).alias("value"), "timestamp"
    )


def latest_charts(values: Iterable[bytes]) -> dict[str, Ranked]:
    """Return the charts of records, given in the order of writing."""
    charts: dict[str, Ranked] = {}
    for value in values:
        document = json.loads(value)
        charts[document["chart"]] = [(entry["item"], int(entry["plays"])) for entry in document["top"]]
    return charts
