"""Runs of a deployment's jobs on Glue: states, times, DPU hours, errors, and what their streaming queries say.

Calls block, and are made with the caller's AWS credentials: IAM decides, not the service's ACLs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.model.job_run import Job, JobRun, QueryMetrics
from odradek.ports.job_runs import JobRuns

HIDDEN = "[hidden]"
_SECRET = re.compile(r"password|secret|token|credential|sasl", re.IGNORECASE)
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job with its newest run; None: it has never run."""

    job: Job
    last: JobRun | None


def open_job_runs(prefix: str, region: str) -> JobRuns:
    """Return the jobs of a deployment on Glue.

    Args:
        prefix: of their names: "odradek-prod-".

    Raises MissingExtra; KafkaError(INVALID_CONFIG) without a region.
    """
    with extra("aws"):
        import boto3
        from botocore.exceptions import BotoCoreError

        from odradek.adapters.aws.glue import GlueJobRuns
    try:
        glue = boto3.client("glue", region_name=region or None)
        return GlueJobRuns(glue, boto3.client("cloudwatch", region_name=region or None), prefix)
    except BotoCoreError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Glue cannot be asked for jobs: {error}") from None


def full_name(runs: JobRuns, name: str) -> str:
    """Return the name of a job as Glue has it; `word_count` is odradek-prod-word_count."""
    return name if name.startswith(runs.prefix) else f"{runs.prefix}{name.replace('-', '_')}"


def job_rows(runs: JobRuns) -> list[JobRow]:
    """Return all jobs with their newest runs. Raises KafkaError."""
    found = runs.jobs()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        newest = list(pool.map(lambda job: runs.runs(job.name, 1), found))
    return [JobRow(_shown_job(job), _shown(last[0]) if last else None) for job, last in zip(found, newest, strict=True)]


def runs_of(runs: JobRuns, job: str, limit: int = 50) -> list[JobRun]:
    """Return the runs of a job, the newest first; arguments that look like secrets are hidden. Raises KafkaError."""
    return [_shown(each) for each in runs.runs(job, limit)]


def metrics_of(runs: JobRuns, job: str, now_ms: int) -> list[QueryMetrics]:
    """Return what the streaming queries of a job said within three hours. Raises KafkaError."""
    return runs.metrics(job, now_ms)


def start_run(runs: JobRuns, job: str, arguments: Mapping[str, str]) -> str:
    """Start a run and return its id. Raises KafkaError: INVALID_REQUEST if the job runs already."""
    return runs.start(job, arguments)


def stop_run(runs: JobRuns, job: str, run_id: str = "") -> str:
    """Stop a run; without an id the one that runs. Return its id. Raises KafkaError(INVALID_REQUEST) if none runs."""
    if not run_id:
        active = [each.run_id for each in runs.runs(job, 10) if each.is_active]
        if not active:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no run of {job} is under way")
        run_id = active[0]
    runs.stop(job, run_id)
    return run_id


def parse_arguments(lines: list[str]) -> dict[str, str]:
    """Return arguments of NAME=VALUE. Raises KafkaError(INVALID_CONFIG)."""
    found = {}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if not equals or not re.fullmatch(r"(--)?[A-Za-z][\w-]*", name.strip()):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"an argument is NAME=VALUE, not {line.strip()!r}")
        found[name.strip().removeprefix("--")] = value.strip()
    return found


def _shown(run: JobRun) -> JobRun:
    return replace(run, arguments=_hidden(run.arguments))


def _shown_job(job: Job) -> Job:
    return replace(job, arguments=_hidden(job.arguments))


def _hidden(arguments: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if _SECRET.search(name) else value for name, value in arguments.items()}
