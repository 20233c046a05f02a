"""The log of a function's invocations: one compact line per interval, not one per call, which would cost more than the
work.

A line is about one invocation, the newest or, if any was refused, the newest refused one. The numbers in it are sums
over all invocations since the previous line (`invocations` of them); what is zero, empty or usual is left out. An
unexpected exception is written at once. What has not been written when Lambda ends the process is lost.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from odradek.functions.telemetry import Invocation, WriteLine, detailed_metrics
from odradek.ports.meter import Usage

_SUMS = ("errors", "faults", "bytes_in", "bytes_out")
_FACTS = ("request_id", "api", "api_version", "client_id", "principal", "status", "error", "cold_start")
_USUAL = {"status": 200, "api_version": -1}
_UNITS = tuple(field.name for field in fields(Usage) if not field.name.startswith("payload_"))


class InvocationLog:
    """Adds up the invocations of one process.

    Args:
        cluster_id, function: whose they are.
        write_line: receives the lines.
        interval_ms: the shortest time between two lines; 0: each invocation has a line.
        is_detailed: the lines are CloudWatch metrics too (embedded metric format).
    """

    def __init__(
        self, cluster_id: str, function: str, write_line: WriteLine, *, interval_ms: int, is_detailed: bool
    ) -> None:
        self._cluster_id = cluster_id
        self._function = function
        self._write_line = write_line
        self._interval_ms = interval_ms
        self._is_detailed = is_detailed
        self._written_ms: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._count = 0
        self._sums = dict.fromkeys(_SUMS, 0)
        self._duration_ms = self._duration_ms_max = 0.0
        self._usage = Usage()
        self._sample: Invocation | None = None

    def add(self, invocation: Invocation, usage: Usage, now_ms: int) -> None:
        """Count an invocation, and write the line if it is due."""
        self._count += 1
        for name in _SUMS:
            self._sums[name] += getattr(invocation, name)
        self._duration_ms += invocation.duration_ms
        self._duration_ms_max = max(self._duration_ms_max, invocation.duration_ms)
        self._usage += usage
        sample = self._sample
        if sample is None or _is_bad(invocation) or not _is_bad(sample):
            self._sample = invocation
        is_due = self._written_ms is None or now_ms - self._written_ms >= self._interval_ms
        if is_due or invocation.faults:
            self._write(now_ms)

    def _write(self, now_ms: int) -> None:
        assert self._sample is not None
        record: dict[str, Any] = detailed_metrics(now_ms) if self._is_detailed else {}
        level = "ERROR" if self._sums["faults"] else "WARN" if self._sums["errors"] else "INFO"
        record |= {"level": level, "message": "invocation", "function": self._function}
        record |= {"invocations": self._count, "duration_ms": round(self._duration_ms, 1)}
        if self._count > 1:
            record["duration_ms_max"] = round(self._duration_ms_max, 1)
        for name in _FACTS:
            value = getattr(self._sample, name)
            if value and value != _USUAL.get(name):
                record[name] = value
        units = {name: getattr(self._usage, name) for name in _UNITS}
        for name, amount in {**self._sums, **units}.items():
            if amount or self._is_detailed:
                record[name] = round(amount, 4)
        if self._is_detailed:
            record["cluster_id"] = self._cluster_id
        self._write_line(json.dumps(record, separators=(",", ":")))
        self._written_ms = now_ms
        self._forget()


def _is_bad(invocation: Invocation) -> bool:
    return bool(invocation.errors or invocation.faults)
