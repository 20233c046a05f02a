"""Runs of jobs on Glue, and what a streaming query of a run last said of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ACTIVE: Final = ("STARTING", "RUNNING", "STOPPING", "WAITING")  # states of a run that has not ended


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job.

    Attributes:
        state: STARTING, RUNNING, STOPPING, WAITING, STOPPED, SUCCEEDED, FAILED, TIMEOUT, ERROR or EXPIRED, as Glue has
            them.
        started_ms, ended_ms: ended_ms is 0 while it runs.
        seconds: for which it has used workers.
        dpu_hours: what is billed, in data processing units times hours; None: Glue does not say.
        error: why it failed; empty otherwise.
        arguments: given at its start, by their names without "--".
    """

    job: str
    run_id: str
    state: str
    started_ms: int
    ended_ms: int
    seconds: int
    dpu_hours: float | None
    worker_type: str
    workers: int
    attempt: int
    error: str
    arguments: Mapping[str, str]

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE


@dataclass(frozen=True, slots=True)
class Job:
    """A job that can be started.

    Attributes:
        timeout_minutes: after which Glue ends a run; 0: Glue's default.
        arguments: those of every run, by their names without "--".
    """

    name: str
    worker_type: str
    workers: int
    timeout_minutes: int
    glue_version: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """The newest metrics of a streaming query; None where it has not said.

    Attributes:
        query: its name; empty: the job is one query.
        at_ms: of the newest of them.
        lag_history: (ms, offsets), oldest first.
    """

    job: str
    query: str
    at_ms: int
    rows_per_s: float | None
    batch_ms: float | None
    state_rows: float | None
    state_bytes: float | None
    lag_offsets: float | None
    lag_s: float | None
    lag_history: tuple[tuple[int, float], ...] = ()
