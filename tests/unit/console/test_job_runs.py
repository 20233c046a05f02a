"""The jobs of a deployment: one suite over Glue (moto) and over the memory twin; what Glue alone tells; its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber
from moto import mock_aws
from moto.moto_api import state_manager
from odradek.adapters.aws.glue import NAMESPACE, GlueJobRuns
from odradek.adapters.memory.job_runs import MemoryJobRuns
from odradek.errors import ErrorCode, KafkaError
from odradek.model.job_run import Job, JobRun
from odradek.operations.jobs.runs import HIDDEN, full_name, job_rows, parse_arguments, runs_of, stop_run
from odradek.ports.job_runs import JobRuns

PREFIX = "odradek-test-"
NOW_MS = 1_795_435_200_000
REGION = "eu-west-1"


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")


@pytest.fixture(params=["glue", "memory"])
def runs(request: pytest.FixtureRequest) -> Iterator[JobRuns]:
    """Two jobs of the deployment; Glue has one of another, too."""
    names = [f"{PREFIX}word_count", f"{PREFIX}sql_job"]
    if request.param == "memory":
        yield MemoryJobRuns([Job(name, "G.025X", 2, 60, "6.0", {"region": REGION}) for name in names])
        return
    with mock_aws():
        state_manager.set_transition("glue::job_run", {"progression": "manual", "times": 9})  # a run does not end
        glue = client("glue")
        for name in [*names, "odradek-prod-word_count"]:
            glue.create_job(
                Name=name,
                Role="role",
                Command={"Name": "gluestreaming", "ScriptLocation": "s3://b/job.py"},
                WorkerType="G.025X",
                NumberOfWorkers=2,
                Timeout=60,
                GlueVersion="6.0",
                DefaultArguments={"--region": REGION},
            )
        yield GlueJobRuns(glue, client("cloudwatch"), PREFIX)
        state_manager.unset_transition("glue::job_run")


def test_jobs_are_those_of_the_deployment(runs: JobRuns) -> None:
    found = runs.jobs()
    assert [each.name for each in found] == [f"{PREFIX}sql_job", f"{PREFIX}word_count"]
    assert (found[0].worker_type, found[0].workers, found[0].timeout_minutes) == ("G.025X", 2, 60)
    assert found[0].arguments == {"region": REGION}
    assert [row.last for row in job_rows(runs)] == [None, None]
    assert full_name(runs, "word-count") == found[1].name == full_name(runs, found[1].name)


def test_a_run_is_started_and_listed(runs: JobRuns) -> None:
    name = f"{PREFIX}sql_job"
    run_id = runs.start(name, {"script": "s3://b/s.sql", "--registry_password": "hush"})
    [run] = runs_of(runs, name)
    assert (run.run_id, run.job) == (run_id, name)
    assert run.is_active
    assert run.ended_ms == 0
    given = {"script": "s3://b/s.sql", "registry_password": HIDDEN}
    assert {name: run.arguments.get(name) for name in given} == given
    rows = {row.job.name: row.last for row in job_rows(runs)}
    assert rows[name] is not None
    assert rows[f"{PREFIX}word_count"] is None


def test_a_job_that_is_not_there_and_one_of_another_deployment_are_told(runs: JobRuns) -> None:
    for name in (f"{PREFIX}nothing", "odradek-prod-word_count"):
        for call in (lambda name=name: runs.runs(name), lambda name=name: runs.start(name, {})):
            with pytest.raises(KafkaError) as refused:
                call()
            assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND
    with pytest.raises(KafkaError) as refused:
        stop_run(runs, f"{PREFIX}sql_job")
    assert "no run of" in refused.value.message


def test_a_second_run_is_refused() -> None:
    """Of Glue, below: moto allows many runs."""
    runs = MemoryJobRuns([Job(f"{PREFIX}sql_job", "G.025X", 2, 60, "6.0", {})])
    runs.start(f"{PREFIX}sql_job", {})
    with pytest.raises(KafkaError, match="runs already"):
        runs.start(f"{PREFIX}sql_job", {})


def test_the_metrics_of_queries_are_those_that_jobs_write() -> None:
    """The names are those of the lines that a job writes; CloudWatch has the newest minute."""
    from odradek.spark.jobs.progress import embedded_metric, job_metrics

    progress = {
        "name": "by_page",
        "batchId": 3,
        "numInputRows": 120,
        "processedRowsPerSecond": 60.0,
        "durationMs": {"triggerExecution": 2000},
        "stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 512}],
    }
    name = f"{PREFIX}sql_job"
    now_ms = round(datetime.now(UTC).timestamp() * 1000)  # moto keeps metrics by its clock
    lines = [
        embedded_metric(job_metrics(name, progress, now_ms=now_ms, lag_offsets=7), now_ms=now_ms, query=query)
        for query in ("by_page", "")
    ]
    with mock_aws():
        cloudwatch = client("cloudwatch")
        for line in map(json.loads, lines):
            [directive] = line["_aws"]["CloudWatchMetrics"]
            [dimensions] = directive["Dimensions"]
            assert directive["Namespace"] == NAMESPACE
            cloudwatch.put_metric_data(
                Namespace=NAMESPACE,
                MetricData=[
                    {
                        "MetricName": each["Name"],
                        "Dimensions": [{"Name": at, "Value": line[at]} for at in dimensions],
                        "Value": line[each["Name"]],
                        "Timestamp": datetime.fromtimestamp(now_ms / 1000 - 60, UTC),
                    }
                    for each in directive["Metrics"]
                ],
            )
        found = GlueJobRuns(client("glue"), cloudwatch, PREFIX).metrics(name, now_ms)
        assert GlueJobRuns(client("glue"), cloudwatch, PREFIX).metrics(f"{PREFIX}other", now_ms) == []
    assert [each.query for each in found] == ["", "by_page"]
    told = found[1]
    assert (told.rows_per_s, told.batch_ms, told.state_rows, told.state_bytes) == (60.0, 2000.0, 4.0, 512.0)
    assert told.lag_offsets == 7.0
    assert [value for _, value in told.lag_history] == [7.0]
    assert now_ms - 180_000 <= told.at_ms <= now_ms


@pytest.mark.parametrize(
    ("call", "error", "code", "text"),
    [
        ("get_job_runs", "AccessDeniedException", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "AWS refused it"),
        ("get_job_runs", "EntityNotFoundException", ErrorCode.RESOURCE_NOT_FOUND, "no such job"),
        ("get_job_runs", "InternalServiceException", ErrorCode.NETWORK_EXCEPTION, "AWS failed"),
        ("start_job_run", "ConcurrentRunsExceededException", ErrorCode.INVALID_REQUEST, "runs already"),
        ("start_job_run", "InvalidInputException", ErrorCode.INVALID_REQUEST, "Glue refused it"),
        ("start_job_run", "AccessDeniedException", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "AWS refused it"),
    ],
)
def test_an_error_of_glue_is_kafkas_and_says_what_to_do(call: str, error: str, code: ErrorCode, text: str) -> None:
    glue = client("glue")
    with Stubber(glue) as stub:
        stub.add_client_error(call, error, "the reason")
        runs = GlueJobRuns(glue, client("cloudwatch"), PREFIX)
        with pytest.raises(KafkaError) as refused:
            runs.runs(f"{PREFIX}a") if call == "get_job_runs" else runs.start(f"{PREFIX}a", {})
    assert refused.value.code is code
    assert text in refused.value.message


def test_a_run_is_stopped_and_one_that_ended_is_told() -> None:
    glue, name = client("glue"), f"{PREFIX}a"
    running = {"Id": "jr_1", "JobName": name, "JobRunState": "RUNNING", "StartedOn": datetime(2026, 11, 23, tzinfo=UTC)}
    with Stubber(glue) as stub:
        stub.add_response("get_job_runs", {"JobRuns": [running]}, {"JobName": name, "MaxResults": ANY})
        stub.add_response("batch_stop_job_run", {"SuccessfulSubmissions": []}, {"JobName": name, "JobRunIds": ["jr_1"]})
        ended = {"ErrorCode": "JobRunNotInValidStateException", "ErrorMessage": "it has ended"}
        stub.add_response("batch_stop_job_run", {"Errors": [{"JobName": name, "ErrorDetail": ended}]})
        runs = GlueJobRuns(glue, client("cloudwatch"), PREFIX)
        assert stop_run(runs, name) == "jr_1"
        with pytest.raises(KafkaError, match="it has ended") as refused:
            runs.stop(name, "jr_0")
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("document", "hours"),
    [
        ({"DPUSeconds": 7200.0, "MaxCapacity": 9.0, "ExecutionTime": 60}, 2.0),
        ({"MaxCapacity": 0.5, "ExecutionTime": 7200}, 1.0),
        ({"WorkerType": "G.025X", "NumberOfWorkers": 2, "ExecutionTime": 7200}, 1.0),
        ({"WorkerType": "G.9X", "NumberOfWorkers": 2, "ExecutionTime": 7200}, None),
    ],
)
def test_dpu_hours_are_counted_or_computed(document: dict[str, Any], hours: float | None) -> None:
    glue = client("glue")
    run = {"Id": "jr_1", "JobName": f"{PREFIX}a", "JobRunState": "SUCCEEDED", **document}
    with Stubber(glue) as stub:
        stub.add_response("get_job_runs", {"JobRuns": [run]})
        [found] = GlueJobRuns(glue, client("cloudwatch"), PREFIX).runs(f"{PREFIX}a")
    assert isinstance(found, JobRun)
    assert found.dpu_hours == hours


def test_arguments_are_names_and_values() -> None:
    assert parse_arguments(["--input_topic=a=b", " once = true "]) == {"input_topic": "a=b", "once": "true"}
    for wrong in ("no equals", "=x", "a b=c"):
        with pytest.raises(KafkaError, match="NAME=VALUE"):
            parse_arguments([wrong])
