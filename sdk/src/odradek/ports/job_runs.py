"""The jobs of a deployment, their runs, and the metrics of their streaming queries. Glue and CloudWatch, or a list.

Calls block: a console runs them in threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from odradek.model.job_run import Job, JobRun, QueryMetrics

RUNS_MAX: Final = 200  # of a call


class JobRuns(Protocol):
    """The jobs of one deployment. Each call raises KafkaError:

    RESOURCE_NOT_FOUND             there is no such job or run
    INVALID_REQUEST                the job cannot be started or stopped now
    CLUSTER_AUTHORIZATION_FAILED   the caller lacks a permission, which the message names
    NETWORK_EXCEPTION              the service did not answer

    Attributes:
        prefix: with which the names of all of them begin.
    """

    prefix: str

    def jobs(self) -> list[Job]:
        """Return the jobs by name."""
        ...

    def runs(self, job: str, limit: int = RUNS_MAX) -> list[JobRun]:
        """Return runs of a job, the newest first."""
        ...

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        """Start a run; return its id. One run of a job is allowed at a time.

        Args:
            arguments: in addition to those of the job, by their names without "--".
        """
        ...

    def stop(self, job: str, run_id: str) -> None:
        """Ask a run to stop; it is STOPPING until it has."""
        ...

    def metrics(self, job: str, now_ms: int) -> list[QueryMetrics]:
        """Return what the queries of a job said within the last three hours, by name."""
        ...
