"""JSON lines of functions: structured log, and CloudWatch metrics (embedded metric format) where there is need.

    invocation       what was called (functions/invocation_log.py), one line for many
    attention        something that a person has to look at, with its reason: the only line that is a metric always. A
                     metric is billed by the hour in which it has data, so a stage that is well pays for none
    backlog, maintenance, maintainer, and the lines of the library's logger (functions/logs.py)

The writer is our own because it is short: Powertools for AWS Lambda costs 109 ms of import at every cold start and
21 us per call. Source: CloudWatch user guide, "Specification: embedded metric format".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.engine.maintenance.backlog import Backlog

NAMESPACE = "Odradek"
DIMENSIONS = ("cluster_id", "function")
ATTENTION = "attention"

WriteLine = Callable[[str], None]

_DETAILED = (
    ("bytes_in", "Bytes"),
    ("bytes_out", "Bytes"),
    ("errors", "Count"),
    ("faults", "Count"),
    ("table_read_units", "Count"),
    ("table_write_units", "Count"),
    ("object_put_requests", "Count"),
    ("object_get_requests", "Count"),
    ("express_put_requests", "Count"),  # of a WAL on S3 Express One Zone, in place of most of those above
    ("express_get_requests", "Count"),
)
DETAILED_METRICS = tuple(name for name, _ in _DETAILED)  # of a stage that asks for them


class Reason(StrEnum):
    """Why a line asks for attention; docs/OPERATIONS.md says what to do."""

    FAULT = "fault"
    STORE_REJECTED = "store-rejected"
    DAMAGE = "damage"
    MAINTENANCE_FAILURES = "maintenance-failures"
    TABLE_BEHIND = "table-behind"
    TRIGGER_FAILURES = "trigger-failures"
    TAIL_LONG = "tail-long"
    SWEEP_BEHIND = "sweep-behind"
    GROUP_LAG = "group-lag"


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


def backlog_line(backlog: Backlog) -> str:
    """Return the line of one measurement of the backlog."""
    return event_line("backlog", {**backlog.gauges(), "group_lag": dict(backlog.group_lag)})


def attention_line(
    cluster_id: str, function: str, reason: Reason, now_ms: int, properties: Mapping[str, Any] | None = None
) -> str:
    """Return the line that asks for attention: a metric of value 1, of the cluster and of the function."""
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [["cluster_id"], ["cluster_id", "function"]],
        "Metrics": [{"Name": ATTENTION, "Unit": "Count"}],
    }
    record = {
        "_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]},
        "level": "ERROR",
        "message": "attention",
        "reason": reason.value,
        "cluster_id": cluster_id,
        "function": function,
        ATTENTION: 1,
        **(properties or {}),
    }
    return json.dumps(record, separators=(",", ":"))


def detailed_metrics(now_ms: int) -> dict[str, Any]:
    """Return the part of an invocation line that makes CloudWatch metrics of its sums."""
    return {
        "_aws": {
            "Timestamp": now_ms,
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [list(DIMENSIONS)],
                    "Metrics": [{"Name": name, "Unit": unit} for name, unit in _DETAILED],
                }
            ],
        }
    }
