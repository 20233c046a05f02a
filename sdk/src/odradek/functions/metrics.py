"""Metrics as Prometheus text, for /metrics of the embedded service and for a gateway's health port.

The Kafka port counts as a function named "kafka". Billable units are counted at calls of the store, so they include the
Kafka port and maintenance. A gateway does not know the backlog.

    odradek_requests_total{function,api,status}          odradek_request_errors_total{function,api,error}
    odradek_request_duration_seconds{function,api}       histogram
    odradek_request_bytes_total{function,direction}      odradek_billable_total{unit}
    odradek_tail_entries_max, odradek_unmerged_records, odradek_sweep_backlog_seconds, odradek_groups_unmeasured,
    odradek_table_behind_seconds
    odradek_group_lag_records{group}

Source: Prometheus documentation, "Exposition formats" (text, version 0.0.4).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import NamedTuple

from odradek.engine.maintenance.backlog import Backlog
from odradek.functions.telemetry import Invocation
from odradek.ports.meter import Usage
from odradek.protocol.api import ApiKey

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_API_NAMES = {int(api_key): api_key.name for api_key in ApiKey}

Labels = tuple[tuple[str, str], ...]


class _LabelSets(NamedTuple):
    """The labels under which a request is counted."""

    api: Labels
    status: Labels
    bytes_in: Labels
    bytes_out: Labels


@lru_cache(maxsize=1024)
def _label_sets(function: str, api: str, status: int) -> _LabelSets:
    of = ("function", function)
    return _LabelSets(
        (of, ("api", api)),
        (of, ("api", api), ("status", str(status))),
        (of, ("direction", "in")),
        (of, ("direction", "out")),
    )


class Metrics:
    """Sums of all invocations since the start; threads may share it.

    Args:
        billed: what the process has used since its start (the total of its meter); None: no family says so.
    """

    def __init__(self, billed: Callable[[], Usage] | None = None) -> None:
        self._billed = billed
        self._lock = threading.Lock()
        self._requests: Counter[Labels] = Counter()
        self._errors: Counter[Labels] = Counter()
        self._bytes: Counter[Labels] = Counter()
        self._durations: dict[Labels, list[int]] = {}  # counts by bucket, the last one over all bounds
        self._duration_sums: Counter[Labels] = Counter()

    def observe(self, invocation: Invocation) -> None:
        """Count one invocation."""
        label_sets = _label_sets(invocation.function, invocation.api, invocation.status)
        if invocation.error:
            with self._lock:
                self._errors[(*label_sets.api, ("error", invocation.error))] += 1
        self._count(label_sets, invocation.duration_ms, invocation.bytes_in, invocation.bytes_out)

    def observe_kafka(self, api_key: int, duration_ms: float, bytes_in: int, bytes_out: int) -> None:
        """Count one request of the Kafka port, as of a function named "kafka"."""
        name = _API_NAMES.get(api_key, "unknown")  # the bare tokens of a login after SaslHandshake 0
        self._count(_label_sets("kafka", name, 200), duration_ms, bytes_in, bytes_out)

    def _count(self, label_sets: _LabelSets, duration_ms: float, bytes_in: int, bytes_out: int) -> None:
        duration_s = duration_ms / 1000
        bucket = bisect_left(_BUCKETS_S, duration_s)
        with self._lock:
            self._requests[label_sets.status] += 1
            self._bytes[label_sets.bytes_in] += bytes_in
            self._bytes[label_sets.bytes_out] += bytes_out
            self._durations.setdefault(label_sets.api, [0] * (len(_BUCKETS_S) + 1))[bucket] += 1
            self._duration_sums[label_sets.api] += duration_s  # type: ignore[assignment]

    def text(self, backlog: Backlog | None = None) -> str:
        """Return all metrics as text."""
        with self._lock:
            lines = [
                *_family("odradek_requests_total", "counter", "Requests by HTTP status.", self._requests),
                *_family("odradek_request_errors_total", "counter", "Refused requests by Kafka error.", self._errors),
                *_family("odradek_request_bytes_total", "counter", "Frames in and out.", self._bytes),
                *self._histogram(),
            ]
        if self._billed is not None:
            units = _units(self._billed()).items()
            lines += _family("odradek_billable_total", "counter", "What AWS bills, or would bill, by unit.", units)
        if backlog is not None:
            for name, value in backlog.gauges().items():
                lines += _family(f"odradek_{name}", "gauge", "See OPERATIONS.md.", [((), value)])
            lag = [((("group", group),), records) for group, records in backlog.group_lag.items()]
            lines += _family("odradek_group_lag_records", "gauge", "Records that a group has not committed.", lag)
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterator[str]:
        name = "odradek_request_duration_seconds"
        yield f"# HELP {name} Time in the function."
        yield f"# TYPE {name} histogram"
        for labels, counts in sorted(self._durations.items()):
            total = 0
            for bound, count in zip((*map(str, _BUCKETS_S), "+Inf"), counts, strict=True):
                total += count
                yield f"{name}_bucket{_labels((*labels, ('le', bound)))} {total}"
            yield f"{name}_sum{_labels(labels)} {self._duration_sums[labels]:.6f}"
            yield f"{name}_count{_labels(labels)} {total}"


def _family(
    name: str,
    metric_type: str,
    help_text: str,
    values: Mapping[Labels, float] | Iterable[tuple[Labels, float]],
) -> list[str]:
    pairs = sorted(values.items() if isinstance(values, Mapping) else values)
    return [
        f"# HELP {name} {help_text}",
        f"# TYPE {name} {metric_type}",
        *(f"{name}{_labels(labels)} {value:.6g}" if isinstance(value, float) else f"{name}{_labels(labels)} {value}"
          for labels, value in pairs),
    ]  # fmt: skip


def _units(usage: Usage) -> dict[Labels, float]:
    return {(("unit", field.name),): getattr(usage, field.name) for field in fields(usage)}


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
