"""Stream SQL as child processes: `odradek sql` for each script, with its log, its rates and its state.

    start      the script is checked, written to <folder>/<name>.sql, and run by a process of its own
    progress   lines of JSON that the process writes for each micro-batch (`odradek sql --progress`)
    stop       a signal: the process ends after its micro-batch; its checkpoint stays, so that a start continues there

The processes belong to whoever started them: `close` stops all.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odradek.child_process import start_child
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.sql.script import check_script

JOBS_MAX = 4  # at a time: each is a JVM
_LINES_KEPT = 200
_GRACE_S = 30.0  # for a micro-batch, at a stop
PREFIX = "@progress "  # of a line of progress, among others


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The last micro-batch of a query."""

    query: str
    batch: int
    rows: int  # of the batch
    rows_per_s: float
    batch_ms: int
    state_rows: int
    state_bytes: int
    total_rows: int = 0  # since the start


@dataclass(frozen=True, slots=True)
class JobRow:
    """A script that runs or ran."""

    name: str
    state: str  # running | stopping | finished | failed
    started_ms: int
    script: str
    queries: tuple[QueryProgress, ...]
    log: tuple[str, ...]  # the last lines
    exit_code: int | None


@dataclass(slots=True)
class _Job:
    name: str
    script: str
    started_ms: int
    process: subprocess.Popen[str]
    log: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    queries: dict[str, QueryProgress] = field(default_factory=dict)
    is_stopping: bool = False


class SqlJobs:
    """The scripts of one console.

    Args:
        folder: of scripts and checkpoints.
        arguments: of `odradek sql`, which say where the service is.
        environment: of the processes, in addition to this one's: credentials that do not belong on a command line.
    """

    def __init__(self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._arguments = list(arguments)
        self._environment = dict(environment)
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()

    def start(self, name: str, script: str, *, once: bool = False) -> None:
        """Start a script.

        Raises:
            KafkaError: INVALID_CONFIG for a name, INVALID_REQUEST for a script that is wrong, a job that runs already,
                or too many of them.
        """
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid name {name!r}: use letters, digits, . _ -")
        checked = check_script(script)
        if checked.problem or not checked.statements:
            raise KafkaError(ErrorCode.INVALID_REQUEST, checked.problem or "the script has no statements")
        with self._lock:
            running = [each for each in self._jobs.values() if each.process.poll() is None]
            if any(each.name == name for each in running):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"job {name!r} runs already: stop it first")
            if len(running) >= JOBS_MAX:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{JOBS_MAX} jobs run already: stop one first")
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{name}.sql"
            path.write_text(script, encoding="utf-8")
            command = [sys.executable, "-m", "odradek.cli", "sql", str(path), "--progress", *self._arguments]
            command += ["--checkpoints", str(self._folder / name)] + (["--once"] if once else [])
            process = start_child(  # Ctrl-C in the terminal reaches the console, which stops its jobs in order
                command,
                os.environ | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            job = _Job(name, script, time.time_ns() // 1_000_000, process)
            self._jobs[name] = job
        threading.Thread(target=self._follow, args=(job,), name=f"sql-{name}", daemon=True).start()

    def _follow(self, job: _Job) -> None:
        assert job.process.stdout is not None
        for line in job.process.stdout:
            progress = parse_progress(line)
            with self._lock:
                if progress is None:
                    job.log.append(line.rstrip("\n")[:2_000])
                    continue
                before = job.queries.get(progress.query)
                job.queries[progress.query] = _added(before, progress)
        job.process.wait()

    def stop(self, name: str) -> None:
        """Ask a job to end after its micro-batch. Raises KafkaError(INVALID_REQUEST) if it does not run."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.process.poll() is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"no job {name!r} runs")
            job.is_stopping = True
            job.process.send_signal(signal.SIGTERM)

    def rows(self) -> list[JobRow]:
        """Return all jobs, the newest first."""
        with self._lock:
            found = [
                JobRow(
                    job.name,
                    _state(job),
                    job.started_ms,
                    job.script,
                    tuple(job.queries[each] for each in sorted(job.queries)),
                    tuple(job.log),
                    job.process.poll(),
                )
                for job in self._jobs.values()
            ]
        return sorted(found, key=lambda row: -row.started_ms)

    def close(self) -> None:
        """Stop all jobs, and wait for them."""
        with self._lock:
            running = [each.process for each in self._jobs.values() if each.process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _state(job: _Job) -> str:
    code = job.process.poll()
    if code is None:
        return "stopping" if job.is_stopping else "running"
    return "finished" if code == 0 or job.is_stopping else "failed"


def _added(before: QueryProgress | None, now: QueryProgress) -> QueryProgress:
    total = now.rows + (before.total_rows if before is not None else 0)
    if before is not None and not now.rows:  # an idle batch: what the last one did is more telling
        now = QueryProgress(now.query, now.batch, before.rows, 0.0, now.batch_ms, now.state_rows, now.state_bytes)
    return QueryProgress(
        now.query, now.batch, now.rows, now.rows_per_s, now.batch_ms, now.state_rows, now.state_bytes, total
    )


def parse_progress(line: str) -> QueryProgress | None:
    """Return what a line of progress says, None for another line."""
    if not line.startswith(PREFIX):
        return None
    try:
        found: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
        return QueryProgress(
            str(found["query"]),
            int(found["batch"]),
            int(found["rows"]),
            float(found["rows_per_s"]),
            int(found["batch_ms"]),
            int(found["state_rows"]),
            int(found["state_bytes"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
