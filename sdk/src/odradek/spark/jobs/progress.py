"""The progress of a streaming query after a micro-batch: rows, time, watermark, state, lag. Pure.

The lag in offsets is the distance from the end of the micro-batch to the present end of the partitions. The lag in
seconds is the age of the newest record that was read, 0 if nothing is left to read: an idle topic has no lag.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from odradek.errors import OdradekError
from odradek.spark.offsets import Offsets, decode_position

READ = "odradek_read"  # name of the observed metrics of the input: `newest`
CORRUPT = "odradek_corrupt"  # name of the observed metrics of skipped batches: `corrupt`
NAMESPACE = "Odradek/Jobs"
_UNITS = {
    "InputRows": "Count",
    "InputRowsPerSecond": "Count/Second",
    "BatchTime": "Milliseconds",
    "StateRows": "Count",
    "StateBytes": "Bytes",
    "LateRowsDropped": "Count",
    "CorruptBatches": "Count",
    "WatermarkAge": "Seconds",
    "LagOffsets": "Count",
    "LagTime": "Seconds",
}


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """One micro-batch of one query."""

    job: str
    batch_id: int
    input_rows: int
    input_rows_per_s: float
    batch_ms: int
    watermark: str  # ISO 8601; empty: none yet
    state_rows: int
    state_bytes: int
    late_rows_dropped: int
    corrupt_batches: int  # skipped, under --corrupt-batches=skip
    lag_offsets: int | None  # None: unknown
    lag_s: float | None


def job_metrics(job: str, progress: Mapping[str, Any], *, now_ms: int, lag_offsets: int | None) -> JobMetrics:
    """Convert StreamingQueryProgress, given as JSON."""
    operators = progress.get("stateOperators") or []
    watermark = (progress.get("eventTime") or {}).get("watermark", "")
    return JobMetrics(
        job=job,
        batch_id=int(progress["batchId"]),
        input_rows=records_of(progress),
        input_rows_per_s=float(progress.get("processedRowsPerSecond") or 0.0),
        batch_ms=int((progress.get("durationMs") or {}).get("triggerExecution") or 0),
        watermark="" if watermark.startswith("1970-01-01T00:00:00") else watermark,
        state_rows=sum(int(operator.get("numRowsTotal") or 0) for operator in operators),
        state_bytes=sum(int(operator.get("memoryUsedBytes") or 0) for operator in operators),
        late_rows_dropped=sum(int(operator.get("numRowsDroppedByWatermark") or 0) for operator in operators),
        corrupt_batches=corrupt_batches_of(progress),
        lag_offsets=lag_offsets,
        lag_s=_lag_s(progress, now_ms, lag_offsets),
    )


def _lag_s(progress: Mapping[str, Any], now_ms: int, lag_offsets: int | None) -> float | None:
    if lag_offsets == 0:
        return 0.0
    observed = progress.get("observedMetrics") or {}
    times = [metrics.get("newest") for name, metrics in observed.items() if name.startswith(READ) and metrics]
    newest = max((time for time in times if time), default=None)
    return None if newest is None else max(0.0, (now_ms - epoch_ms(str(newest))) / 1000)


def corrupt_batches_of(progress: Mapping[str, Any]) -> int:
    """Return the number of corrupt batches that a micro-batch skipped and counted."""
    observed = progress.get("observedMetrics") or {}
    return sum(
        int(metrics.get("corrupt") or 0) for name, metrics in observed.items() if name.startswith(CORRUPT) and metrics
    )


def reached(progress: Mapping[str, Any]) -> Offsets:
    """Return the end of a micro-batch over all sources; for a topic that is read twice, the slower one's."""
    offsets: Offsets = {}
    for _, end in _stretches(progress):
        for tp, offset in end.items():
            offsets[tp] = min(offset, offsets.get(tp, offset))
    return offsets


def records_of(progress: Mapping[str, Any]) -> int:
    """Return the number of a micro-batch's records, by offsets: a plan that scans a stream twice counts rows twice."""
    stretches = _stretches(progress)
    if not stretches:
        return int(progress.get("numInputRows") or 0)
    return sum(max(0, offset - start.get(tp, 0)) for start, end in stretches for tp, offset in end.items())


def _stretches(progress: Mapping[str, Any]) -> list[tuple[Offsets, Offsets]]:
    """Return start and end of each source that is a topic."""
    stretches = []
    for source in progress.get("sources") or []:
        try:
            end, initial = _position(source.get("endOffset"))
            start, _ = _position(source.get("startOffset"))
        except (OdradekError, ValueError, TypeError):
            continue  # a source of another kind
        if end:
            stretches.append((start or initial or {}, end))
    return stretches


def _position(offset: Any) -> tuple[Offsets, Offsets | None]:
    if offset is None:
        return {}, None
    return decode_position(offset if isinstance(offset, dict) else json.loads(offset))


def epoch_ms(text: str) -> int:
    """Convert a time in the notation of Spark's progress: ISO 8601 in UTC."""
    time = datetime.fromisoformat(text.strip().replace(" ", "T").replace("Z", "+00:00"))
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def progress_line(metrics: JobMetrics) -> str:
    """Return the progress as a line for people."""
    parts = [
        f"{metrics.input_rows:,} rows",
        f"{metrics.input_rows_per_s:,.0f} rows/s",
        f"{metrics.batch_ms / 1000:.1f} s",
    ]
    if metrics.watermark:
        parts.append(f"watermark {metrics.watermark}")
    if metrics.state_rows or metrics.state_bytes:
        parts.append(f"state {metrics.state_rows:,} rows {metrics.state_bytes / 1e6:,.1f} MB")
    if metrics.late_rows_dropped:
        parts.append(f"{metrics.late_rows_dropped:,} late")
    if metrics.corrupt_batches:
        parts.append(f"{metrics.corrupt_batches:,} corrupt batches skipped")
    if metrics.lag_offsets is not None:
        seconds = "" if metrics.lag_s is None else f" {metrics.lag_s:,.0f} s"
        parts.append(f"lag {metrics.lag_offsets:,} offsets{seconds}")
    return f"{metrics.job} batch {metrics.batch_id}: {', '.join(parts)}"


def waiting_metric(job: str, *, now_ms: int, lag_offsets: int, idle_s: float) -> str:
    """Return the log line of a job that is alive and has finished no micro-batch meanwhile.

    Its lag in seconds is the time since its last work, 0 if nothing is left to read.
    """
    values = {"LagOffsets": float(lag_offsets), "LagTime": idle_s if lag_offsets else 0.0}
    return _line(job, values, now_ms)


def embedded_metric(metrics: JobMetrics, *, now_ms: int, query: str = "") -> str:
    """Return a log line in the embedded metric format, from which CloudWatch makes metrics.

    Args:
        query: one of several of the job; its metrics have the dimensions Job and Query.
    """
    watermark_age = (now_ms - epoch_ms(metrics.watermark)) / 1000 if metrics.watermark else None
    values: dict[str, float | None] = {
        "InputRows": metrics.input_rows,
        "InputRowsPerSecond": metrics.input_rows_per_s,
        "BatchTime": metrics.batch_ms,
        "StateRows": metrics.state_rows,
        "StateBytes": metrics.state_bytes,
        "LateRowsDropped": metrics.late_rows_dropped,
        "CorruptBatches": metrics.corrupt_batches,
        "WatermarkAge": watermark_age,
        "LagOffsets": metrics.lag_offsets,
        "LagTime": metrics.lag_s,
    }
    known_values = {name: value for name, value in values.items() if value is not None}
    named = {"Query": query} if query else {}
    return _line(metrics.job, known_values, now_ms, BatchId=metrics.batch_id, Watermark=metrics.watermark, **named)


def _line(job: str, values: Mapping[str, float], now_ms: int, **more: int | str) -> str:
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [["Job", "Query"] if "Query" in more else ["Job"]],
        "Metrics": [{"Name": name, "Unit": _UNITS[name]} for name in values],
    }
    return json.dumps({"_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]}, "Job": job, **more, **values})
