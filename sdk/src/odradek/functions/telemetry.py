"""One JSON line per invocation: structured log and CloudWatch metrics (embedded metric format) in the same object.

    {"_aws": {"Timestamp": ms, "CloudWatchMetrics": [{Namespace, Dimensions, Metrics}]},
     "level": "INFO", "message": "invocation", "function": "produce", "api": "PRODUCE", "duration_ms": 7.2, ...}

The writer is our own because it is short: Powertools for AWS Lambda costs 109 ms of import at every cold start and
21 us per call, where this costs nothing and about 15 us. Metrics have only the dimensions cluster and function, since
each combination is billed by the month; api, errors and request ids are properties for Logs Insights. Source:
CloudWatch user guide, "Specification: embedded metric format".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from odradek.engine.maintenance.backlog import Backlog
from odradek.ports.meter import Usage

NAMESPACE = "Odradek"
DIMENSIONS = ("cluster_id", "function")

WriteLine = Callable[[str], None]

_METRICS = (
    ("duration_ms", "Milliseconds"),
    ("bytes_in", "Bytes"),
    ("bytes_out", "Bytes"),
    ("errors", "Count"),
    ("faults", "Count"),
    ("table_read_units", "Count"),
    ("table_write_units", "Count"),
    ("object_put_requests", "Count"),
    ("object_get_requests", "Count"),
)


REJECTIONS = "store_rejections"
REQUEST_METRICS = tuple(name for name, _ in _METRICS)


def write_stdout(line: str) -> None:
    """Print a line, which Lambda sends to CloudWatch Logs; one write per line keeps lines whole."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_nowhere(line: str) -> None:
    """Drop the line: for a service without a log."""


@dataclass(slots=True)
class Invocation:
    """The facts about one invocation when it ends."""

    cluster_id: str
    function: str
    request_id: str
    api: str = ""  # name of the Kafka API; empty if there was no valid frame
    api_version: int = -1
    client_id: str | None = None
    principal: str = ""
    status: int = 200
    error: str = ""  # Kafka error name of the response as a whole
    errors: int = 0  # 1: the request was refused
    faults: int = 0  # 1: unexpected exception
    duration_ms: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    cold_start: bool = False


def invocation_line(invocation: Invocation, usage: Usage, now_ms: int) -> str:
    """Return the line of one invocation."""
    record: dict[str, Any] = {
        "_aws": _metadata(now_ms),
        "level": "ERROR" if invocation.faults else "WARN" if invocation.errors else "INFO",
        "message": "invocation",
    }
    for field in fields(invocation):
        record[field.name] = getattr(invocation, field.name)
    record["duration_ms"] = round(invocation.duration_ms, 3)
    record.update(_billable(usage))
    return json.dumps(record, separators=(",", ":"))


def fault_line(request_id: str, function: str, stack: str) -> str:
    """Return the line of an unexpected exception: the only place with its stack trace."""
    return json.dumps(
        {"level": "ERROR", "message": "unexpected exception", "function": function, "request_id": request_id}
        | {"stack": stack},
        separators=(",", ":"),
    )


def event_line(message: str, properties: Mapping[str, Any]) -> str:
    """Return the line of any other event."""
    return json.dumps({"level": "INFO", "message": message, **properties}, separators=(",", ":"), default=str)


def backlog_line(cluster_id: str, backlog: Backlog, maintenance_failures: int, now_ms: int) -> str:
    """Return the line of one measurement of the backlog. Groups are properties: as dimensions they would be billed."""
    gauges = {**backlog.gauges(), "maintenance_failures": maintenance_failures}
    metrics = [{"Name": name, "Unit": "Seconds" if name.endswith("_seconds") else "Count"} for name in gauges]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["cluster_id"]], "Metrics": metrics}
    record = {
        "_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]},
        "level": "INFO",
        "message": "backlog",
        "cluster_id": cluster_id,
        **gauges,
        "group_lag": dict(backlog.group_lag),
    }
    return json.dumps(record, separators=(",", ":"))


def failures_line(cluster_id: str, maintenance_failures: int, now_ms: int) -> str:
    """Return the line of tasks that a maintenance worker failed to do: the same metric as in `backlog_line`."""
    metrics = [{"Name": "maintenance_failures", "Unit": "Count"}]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["cluster_id"]], "Metrics": metrics}
    record = {
        "_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]},
        "level": "WARN" if maintenance_failures else "INFO",
        "message": "maintainer failures",
        "cluster_id": cluster_id,
        "maintenance_failures": maintenance_failures,
    }
    return json.dumps(record, separators=(",", ":"))


def rejections_line(cluster_id: str, function: str, rejections: int, now_ms: int) -> str:
    """Return the line of requests that the store rejects permanently; written only if there are any."""
    metrics = [{"Name": REJECTIONS, "Unit": "Count"}]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["cluster_id"]], "Metrics": metrics}
    record = {
        "_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]},
        "level": "ERROR",
        "message": "store rejections",
        "cluster_id": cluster_id,
        "function": function,
        REJECTIONS: rejections,
    }
    return json.dumps(record, separators=(",", ":"))


def _billable(usage: Usage) -> dict[str, float]:
    return {field.name: getattr(usage, field.name) for field in fields(usage) if not field.name.startswith("payload_")}


def _metadata(now_ms: int) -> dict[str, Any]:
    return {
        "Timestamp": now_ms,
        "CloudWatchMetrics": [
            {
                "Namespace": NAMESPACE,
                "Dimensions": [list(DIMENSIONS)],
                "Metrics": [{"Name": name, "Unit": unit} for name, unit in _METRICS],
            }
        ],
    }
