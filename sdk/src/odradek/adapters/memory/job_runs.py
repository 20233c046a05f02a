"""Jobs in lists, for tests: whoever has them decides how a run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from odradek.errors import ErrorCode, KafkaError
from odradek.model.job_run import Job, JobRun, QueryMetrics
from odradek.ports.job_runs import RUNS_MAX


class MemoryJobRuns:
    """ports.job_runs.JobRuns in this process's memory.

    Attributes:
        prefix: with which their names begin.
        known: the jobs.
        past: the runs, in the order of their start.
        told: the metrics.
    """

    def __init__(
        self, known: Sequence[Job], past: Sequence[JobRun] = (), told: Sequence[QueryMetrics] = (), started_ms: int = 0
    ) -> None:
        self.prefix = "odradek-test-"
        self.known = list(known)
        self.past = list(past)
        self.told = list(told)
        self._started_ms = started_ms

    def jobs(self) -> list[Job]:
        return sorted(self.known, key=lambda job: job.name)

    def runs(self, job: str, limit: int = RUNS_MAX) -> list[JobRun]:
        self._known(job)
        runs = [run for run in self.past if run.job == job]
        return sorted(runs, key=lambda run: -run.started_ms)[:limit]

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        known_job = self._known(job)
        if any(run.is_active for run in self.runs(job)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the job runs already: stop that run first")
        run_id = f"jr_{len(self.past)}"
        job_arguments = {name.removeprefix("--"): value for name, value in arguments.items()}
        run = JobRun(
            job,
            run_id,
            "STARTING",
            self._started_ms,
            0,
            0,
            0.0,
            known_job.worker_type,
            known_job.workers,
            0,
            "",
            job_arguments,
        )
        self.past.append(run)
        return run_id

    def stop(self, job: str, run_id: str) -> None:
        self._known(job)
        for at, run in enumerate(self.past):
            if (run.job, run.run_id) == (job, run_id):
                if not run.is_active:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Glue refused it: run {run_id} has ended")
                self.past[at] = replace(run, state="STOPPING")
                return
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no such job or run: {run_id}")

    def metrics(self, job: str, now_ms: int) -> list[QueryMetrics]:
        self._known(job)
        return sorted(
            (query_metrics for query_metrics in self.told if query_metrics.job == job),
            key=lambda query_metrics: query_metrics.query,
        )

    def _known(self, name: str) -> Job:
        for job in self.known:
            if job.name == name:
                return job
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no such job or run: {name}")
