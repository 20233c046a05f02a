"""Metrics of the Kafka port for CloudWatch: one JSON line a minute in embedded metric format.

CloudWatch Logs turns such lines of a container into metrics, as it does for the functions. Names, units and dimensions
are those of the functions (functions/telemetry.py); the function is "kafka".

    duration_ms    up to 100 durations, for percentiles: of every request, or of every 2nd, 4th, ...
    connections    open when the line was written
    all others     sums since the previous line

What a person has to look at follows in lines `attention`, as from a function.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from odradek.functions.telemetry import DIMENSIONS, NAMESPACE, Reason, WriteLine, attention_line
from odradek.ports.clock import Clock
from odradek.ports.meter import Usage

KAFKA: Final = "kafka"
INTERVAL_S: Final = 60.0
SAMPLES_MAX: Final = 100  # values of a metric in one line (CloudWatch user guide, embedded metric format)
GATEWAY_METRICS: Final = (
    ("requests", "Count"),
    ("connections", "Count"),
    ("duration_ms", "Milliseconds"),
    ("bytes_in", "Bytes"),
    ("bytes_out", "Bytes"),
    ("table_read_units", "Count"),
    ("table_write_units", "Count"),
    ("object_put_requests", "Count"),
    ("object_get_requests", "Count"),
)


class KafkaTelemetry:
    """Counts the requests of one interval and writes the line.

    Args:
        billed: returns the usage of the store since the start.
        write_line: receives the line.
    """

    def __init__(self, cluster_id: str, *, clock: Clock, billed: Callable[[], Usage], write_line: WriteLine) -> None:
        self._cluster_id = cluster_id
        self._clock = clock
        self._billed = billed
        self._write_line = write_line
        self._told = billed()
        self._forget()

    def _forget(self) -> None:
        self._requests = self._bytes_in = self._bytes_out = 0
        self._durations: list[float] = []
        self._step = 1

    def observe(self, duration_ms: float, bytes_in: int, bytes_out: int) -> None:
        """Count one request."""
        if self._requests % self._step == 0:
            if len(self._durations) == SAMPLES_MAX:
                del self._durations[1::2]
                self._step *= 2
            if self._requests % self._step == 0:
                self._durations.append(round(duration_ms, 3))
        self._requests += 1
        self._bytes_in += bytes_in
        self._bytes_out += bytes_out

    def write(self, connections: int) -> None:
        """Write the metrics since the previous line."""
        billed = self._billed()
        usage, self._told = billed - self._told, billed
        values: dict[str, Any] = {
            "requests": self._requests,
            "connections": connections,
            "bytes_in": self._bytes_in,
            "bytes_out": self._bytes_out,
            "table_read_units": usage.table_read_units,
            "table_write_units": usage.table_write_units,
            "object_put_requests": usage.object_put_requests + usage.express_put_requests,
            "object_get_requests": usage.object_get_requests + usage.express_get_requests,
        }
        if self._durations:
            values["duration_ms"] = self._durations
        metrics = [{"Name": name, "Unit": unit} for name, unit in GATEWAY_METRICS if name in values]
        directive = {"Namespace": NAMESPACE, "Dimensions": [list(DIMENSIONS)], "Metrics": metrics}
        line = {
            "_aws": {"Timestamp": self._clock.now_ms(), "CloudWatchMetrics": [directive]},
            "level": "INFO",
            "message": "gateway",
            "cluster_id": self._cluster_id,
            "function": KAFKA,
            **values,
        }
        self._write_line(json.dumps(line, separators=(",", ":")))
        if usage.damaged_ranges:
            self._call_attention(Reason.DAMAGE, damaged_ranges=usage.damaged_ranges)
        if usage.rejected_requests:
            self._call_attention(Reason.STORE_REJECTED, store_rejections=usage.rejected_requests)
        self._forget()

    async def run(self, connections: Callable[[], int]) -> None:
        """Write a line every minute until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL_S)
            self.write(connections())

    def _call_attention(self, reason: Reason, **properties: int) -> None:
        self._write_line(attention_line(self._cluster_id, KAFKA, reason, self._clock.now_ms(), properties))
