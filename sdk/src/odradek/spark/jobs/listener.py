"""Spark's listener: prints the progress of each micro-batch, and measures how long a query has been idle."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from pyspark.sql.streaming.listener import StreamingQueryListener

from odradek.errors import OdradekError
from odradek.spark.jobs.progress import embedded_metric, job_metrics, progress_line, reached, waiting_metric
from odradek.spark.offsets import Offsets
from odradek.spark.options import parse_options
from odradek.spark.source.log_view import LogView

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

FORMS = ("line", "emf", "none")
REPORT_S = 60.0  # a job writes metrics at least this often, so that an alarm can tell a silent one


class LogEnds:
    """The present ends of a job's inputs. Close it."""

    def __init__(self, sources: Sequence[Mapping[str, str]]) -> None:
        self._options = [parse_options(source) for source in sources]
        self._views: list[LogView] = []
        self._lock = threading.Lock()

    def now(self) -> Offsets:
        """Return the ends of the partitions. Raises OdradekError."""
        with self._lock:
            if not self._views:
                self._views = [LogView(options.store) for options in self._options]
            ends: Offsets = {}
            for options, view in zip(self._options, self._views, strict=True):
                bounds = view.bounds(view.partitions(options.subscription))
                ends |= {tp: partition_bounds.next_offset for tp, partition_bounds in bounds.items()}
            return ends

    def close(self) -> None:
        with self._lock:
            for view in self._views:
                view.close()
            self._views = []


class ProgressListener(StreamingQueryListener):
    """A listener for the queries with one name. Add it to spark.streams."""

    def __init__(self, job: str, ends: LogEnds, *, form: str = "line") -> None:
        self._job = job
        self._ends = ends
        self._form = form
        self._lock = threading.Lock()
        self._busy_at = self._reported_at = time.monotonic()
        self.position: Offsets = {}  # the end of the last micro-batch; empty: none yet
        self.batches: list[dict[str, Any]] = []  # the newest last; limited to some hundred

    def idle_s(self) -> float:
        """Return the seconds without work."""
        with self._lock:
            return time.monotonic() - self._busy_at

    def restarted(self) -> None:
        """Restart the measurement of idleness."""
        with self._lock:
            self._busy_at = time.monotonic()

    def report(self) -> None:
        """Write the lag of a job that waits, if its metrics are for CloudWatch and the last ones are a minute old."""
        with self._lock:
            now_s = time.monotonic()
            if self._form != "emf" or now_s - self._reported_at < REPORT_S:
                return
            self._reported_at, idle_s, position = now_s, now_s - self._busy_at, self.position
        lag = self._lag(position) if position else 0  # before the first micro-batch nothing is known
        if lag is not None:
            now_ms = time.time_ns() // 1_000_000
            print(waiting_metric(self._job, now_ms=now_ms, lag_offsets=lag, idle_s=idle_s), flush=True)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there is no progress yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: idleness is the time without progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the thread that waits for the query gets the error."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress: dict[str, Any] = json.loads(event.progress.json)
        if progress.get("name") != self._job:
            return
        position = reached(progress)
        with self._lock:
            if progress.get("numInputRows"):
                self._busy_at = time.monotonic()
            if position:
                self.position = position
            self.batches = [*self.batches[-500:], progress]
        if self._form == "none":
            return
        now_ms = time.time_ns() // 1_000_000
        metrics = job_metrics(self._job, progress, now_ms=now_ms, lag_offsets=self._lag(position))
        if self._form == "emf":
            print(embedded_metric(metrics, now_ms=now_ms), flush=True)
            with self._lock:
                self._reported_at = time.monotonic()
        else:
            print(progress_line(metrics), file=sys.stderr, flush=True)

    def _lag(self, position: Offsets) -> int | None:
        """Return the lag, None if the store does not answer: a metric must not end a job."""
        if not position:
            return None
        try:
            ends = self._ends.now()
        except OdradekError:
            return None
        return behind(position, ends)


def behind(position: Offsets, ends: Offsets) -> int:
    """Return the number of offsets between; a partition that was not read yet counts completely."""
    return sum(max(0, end - position.get(tp, 0)) for tp, end in ends.items())


class ProgressLines(StreamingQueryListener):
    """A listener that writes a line for each micro-batch of every named query: "@progress {...}".

    `odradek.operations.sql.jobs` reads them. Add it to spark.streams.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there is no progress yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the process says why it ends."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress: dict[str, Any] = json.loads(event.progress.json)
        if not progress.get("name"):
            return
        metrics = job_metrics(str(progress["name"]), progress, now_ms=time.time_ns() // 1_000_000, lag_offsets=None)
        line = {
            "query": metrics.job,
            "batch": metrics.batch_id,
            "rows": metrics.input_rows,
            "rows_per_s": metrics.input_rows_per_s,
            "batch_ms": metrics.batch_ms,
            "state_rows": metrics.state_rows,
            "state_bytes": metrics.state_bytes,
        }
        print(f"@progress {json.dumps(line)}", file=self._out, flush=True)


class QueryMetricsLines(StreamingQueryListener):
    """A listener that writes CloudWatch's metrics for each micro-batch of every named query, by job and query.

    Args:
        job: its name on Glue.
    """

    def __init__(self, job: str) -> None:
        self._job = job

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there is no progress yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the job says why it ends."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        line = query_line(self._job, json.loads(event.progress.json), time.time_ns() // 1_000_000)
        if line:
            print(line, flush=True)


def query_line(job: str, progress: Mapping[str, Any], now_ms: int) -> str:
    """Return the metrics of a query of a job as a line, empty for a query without a name."""
    name = str(progress.get("name") or "")
    if not name:
        return ""
    metrics = job_metrics(job, progress, now_ms=now_ms, lag_offsets=None)
    return embedded_metric(metrics, now_ms=now_ms, query=name)
