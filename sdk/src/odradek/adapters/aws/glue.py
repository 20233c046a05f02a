"""ports.job_runs.JobRuns over Glue, and CloudWatch's metrics of the namespace Odradek/Jobs.

IAM: glue:GetJobs, glue:GetJobRuns, cloudwatch:ListMetrics, cloudwatch:GetMetricData; to start and stop,
glue:StartJobRun and glue:BatchStopJobRun.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from odradek.adapters.aws.calls import error_code
from odradek.errors import ErrorCode, KafkaError
from odradek.model.job_run import ACTIVE, Job, JobRun, QueryMetrics
from odradek.ports.job_runs import RUNS_MAX

NAMESPACE: Final = "Odradek/Jobs"  # odradek.spark.jobs.progress
_SEEN: Final = timedelta(hours=3)  # as far back as list_metrics tells what is active
_PERIOD_S: Final = 60
_QUERIES_MAX: Final = 80  # of a job: GetMetricData takes 500 series
_DPU_OF: Final = {"G.025X": 0.25, "G.1X": 1.0, "G.2X": 2.0, "G.4X": 4.0, "G.8X": 8.0, "Standard": 1.0}
_SERIES: Final = {  # field: metric, statistic
    "rows_per_s": ("InputRowsPerSecond", "Average"),
    "batch_ms": ("BatchTime", "Average"),
    "state_rows": ("StateRows", "Maximum"),
    "state_bytes": ("StateBytes", "Maximum"),
    "lag_offsets": ("LagOffsets", "Maximum"),
    "lag_s": ("LagTime", "Maximum"),
}
_MISSING: Final = ("EntityNotFoundException", "JobRunNotFoundException")
_DENIED: Final = ("AccessDeniedException", "AccessDenied", "UnauthorizedOperation", "UnrecognizedClientException")
_REFUSED: Final = (
    "ConcurrentRunsExceededException",
    "InvalidInputException",
    "ResourceNumberLimitExceededException",
    "ValidationException",
    "IllegalSessionStateException",
)


class GlueJobRuns:
    """The jobs of a deployment.

    Args:
        glue: boto3's client of Glue.
        cloudwatch: boto3's client of CloudWatch.
        prefix: of the deployment's jobs: "odradek-prod-".
    """

    def __init__(self, glue: Any, cloudwatch: Any, prefix: str) -> None:
        self._glue = glue
        self._cloudwatch = cloudwatch
        self.prefix = prefix

    def jobs(self) -> list[Job]:
        pages = self._pages(self._glue, "get_jobs", "Jobs")
        jobs = [_job(document) for document in pages if str(document["Name"]).startswith(self.prefix)]
        return sorted(jobs, key=lambda job: job.name)

    def runs(self, job: str, limit: int = RUNS_MAX) -> list[JobRun]:
        self._check(job)
        runs: list[JobRun] = []
        token: dict[str, str] = {}
        while len(runs) < limit:
            size = min(limit - len(runs), RUNS_MAX)
            response = _called(self._glue.get_job_runs, JobName=job, MaxResults=size, **token)
            runs += [_run(document) for document in response["JobRuns"]]
            if not response.get("NextToken"):
                break
            token = {"NextToken": response["NextToken"]}
        return sorted(runs, key=lambda run: -run.started_ms)[:limit]

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        self._check(job)
        job_arguments = {f"--{name.removeprefix('--')}": value for name, value in arguments.items()}
        return str(_called(self._glue.start_job_run, JobName=job, Arguments=job_arguments)["JobRunId"])

    def stop(self, job: str, run_id: str) -> None:
        self._check(job)
        response = _called(self._glue.batch_stop_job_run, JobName=job, JobRunIds=[run_id])
        for error in response.get("Errors", ()):
            detail = error.get("ErrorDetail", {})
            code, message = str(detail.get("ErrorCode", "")), str(detail.get("ErrorMessage", "it cannot be stopped"))
            if code in (*_MISSING, *_DENIED):
                raise _error(code, message)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Glue does not stop the run: {message}")

    def metrics(self, job: str, now_ms: int) -> list[QueryMetrics]:
        self._check(job)
        by_job = {"Name": "Job", "Value": job}
        listed = self._pages(
            self._cloudwatch,
            "list_metrics",
            "Metrics",
            Namespace=NAMESPACE,
            Dimensions=[by_job],
            RecentlyActive="PT3H",
        )
        queries = sorted({_query(metric["Dimensions"]) for metric in listed})[:_QUERIES_MAX]
        wanted = [(query, field) for query in queries for field in _SERIES]
        if not wanted:
            return []
        metric_queries = [
            {
                "Id": f"m{number}",
                "MetricStat": {
                    "Metric": {
                        "Namespace": NAMESPACE,
                        "MetricName": _SERIES[field][0],
                        "Dimensions": [by_job, *([{"Name": "Query", "Value": query}] if query else [])],
                    },
                    "Period": _PERIOD_S,
                    "Stat": _SERIES[field][1],
                },
            }
            for number, (query, field) in enumerate(wanted)
        ]
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        series: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for metric_result in self._pages(
            self._cloudwatch,
            "get_metric_data",
            "MetricDataResults",
            MetricDataQueries=metric_queries,
            StartTime=now - _SEEN,
            EndTime=now + timedelta(seconds=_PERIOD_S),
        ):
            points = [
                (_ms(at), float(value))
                for at, value in zip(metric_result["Timestamps"], metric_result["Values"], strict=True)
            ]
            series.setdefault(wanted[int(metric_result["Id"][1:])], []).extend(points)
        return [
            _metrics(job, query, {field: sorted(series.get((query, field), ())) for field in _SERIES})
            for query in queries
        ]

    def _check(self, job: str) -> None:
        """Refuse a job of another deployment. Raises KafkaError(RESOURCE_NOT_FOUND)."""
        if not job.startswith(self.prefix):
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND, f"there is no job {job!r}: those here begin with {self.prefix}"
            )

    def _pages(self, client: Any, call: str, field: str, **parameters: Any) -> list[dict[str, Any]]:
        def all_pages() -> list[dict[str, Any]]:
            return [
                entry for page in client.get_paginator(call).paginate(**parameters) for entry in page.get(field, ())
            ]

        entries: list[dict[str, Any]] = _called(all_pages)
        return entries


def _called(call: Callable[..., Any], **parameters: Any) -> Any:
    """Make a call. Raises KafkaError."""
    try:
        return call(**parameters)
    except ClientError as error:
        raise _error(error_code(error), str(error.response.get("Error", {}).get("Message", error))) from None
    except BotoCoreError as error:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"AWS did not answer: {error}") from None


def _error(code: str, message: str) -> KafkaError:
    if code in _MISSING:
        return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no such job or run: {message}")
    if code in _DENIED:
        return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"AWS refused it: {message}")
    if code == "ConcurrentRunsExceededException":
        return KafkaError(ErrorCode.INVALID_REQUEST, "the job runs already: stop that run first")
    if code in _REFUSED:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Glue refused it: {message}")
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"AWS failed: {code}: {message}")


def _job(document: Mapping[str, Any]) -> Job:
    return Job(
        str(document["Name"]),
        str(document.get("WorkerType", "")),
        int(document.get("NumberOfWorkers", 0)),
        int(document.get("Timeout") or 0),
        str(document.get("GlueVersion", "")),
        _plain(document.get("DefaultArguments", {})),
    )


def _run(document: Mapping[str, Any]) -> JobRun:
    state = str(document.get("JobRunState", ""))
    return JobRun(
        job=str(document.get("JobName", "")),
        run_id=str(document["Id"]),
        state=state,
        started_ms=_ms(document.get("StartedOn")),
        ended_ms=0 if state in ACTIVE else _ms(document.get("CompletedOn")),
        seconds=int(document.get("ExecutionTime") or 0),
        dpu_hours=_dpu_hours(document),
        worker_type=str(document.get("WorkerType", "")),
        workers=int(document.get("NumberOfWorkers") or 0),
        attempt=int(document.get("Attempt") or 0),
        error=str(document.get("ErrorMessage", "")),
        arguments=_plain(document.get("Arguments", {})),
    )


def _dpu_hours(document: Mapping[str, Any]) -> float | None:
    """Return the DPU hours of a run: those that Glue counted, else its capacity times its time."""
    if document.get("DPUSeconds") is not None:
        return float(document["DPUSeconds"]) / 3600
    capacity = document.get("MaxCapacity")
    if capacity is None:
        dpus = _DPU_OF.get(str(document.get("WorkerType", "")))
        capacity = None if dpus is None else dpus * int(document.get("NumberOfWorkers") or 0)
    return None if capacity is None else float(capacity) * int(document.get("ExecutionTime") or 0) / 3600


def _plain(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {str(name).removeprefix("--"): str(value) for name, value in sorted(arguments.items())}


def _query(dimensions: list[dict[str, str]]) -> str:
    return next((dimension["Value"] for dimension in dimensions if dimension["Name"] == "Query"), "")


def _metrics(job: str, query: str, series: Mapping[str, list[tuple[int, float]]]) -> QueryMetrics:
    last = {field: points[-1] for field, points in series.items() if points}
    return QueryMetrics(
        job=job,
        query=query,
        at_ms=max((at for at, _ in last.values()), default=0),
        **{field: last[field][1] if field in last else None for field in _SERIES},
        lag_history=tuple(series["lag_offsets"]),
    )


def _ms(moment: datetime | None) -> int:
    return 0 if moment is None else round(moment.timestamp() * 1000)
