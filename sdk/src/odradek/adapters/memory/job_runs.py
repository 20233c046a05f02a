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
        return sorted(self.known, key=lambda each: each.name)

    def runs(self, job: str, limit: int = RUNS_MAX) -> list[JobRun]:
        self._known(job)
        found = [each for each in self.past if each.job == job]
        return sorted(found, key=lambda each: -each.started_ms)[:limit]

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        known = self._known(job)
        if any(each.is_active for each in self.runs(job)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the job runs already: stop that run first")
        run_id = f"jr_{len(self.past)}"
        given = {name.removeprefix("--"): value for name, value in arguments.items()}
        run = JobRun(
            job, run_id, "STARTING", self._started_ms, 0, 0, 0.0, known.worker_type, known.workers, 0, "", given
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
        return sorted((each for each in self.told if each.job == job), key=lambda each: each.query)

    def _known(self, name: str) -> Job:
        for each in self.known:
            if each.name == name:
                return each
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no such job or run: {name}")
