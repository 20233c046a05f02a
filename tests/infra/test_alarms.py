"""Whether each alarm can reach its state: the times of its metric's data, and CloudWatch's evaluation of them.

    bad data all along        ALARM
    good data all along       OK
    no data yet               not ALARM: a new deployment tells nobody anything

Evaluated is what the template says: period, statistic's datapoints, M out of N, missing data (CloudWatch user guide,
"Configuring how CloudWatch alarms treat missing data"), metric math and composite rules. CloudWatch may look further
back than N periods for data; what is shown here does not depend on that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from odradek.gateway.cloudwatch import INTERVAL_S, KafkaTelemetry
from odradek.ports.meter import Usage
from odradek.spark.jobs.progress import waiting_metric
from odradek.testing.manual_clock import ManualClock

from infra.permissions import JOBS, STREAMING_JOBS
from infra.stages import STAGES
from tests.infra.conftest import Deployment

MINUTE = 60
HOURS = 12
LATE_S = (0, 45, -30, 50, 10)  # how late the schedule's data are, in turn: EventBridge promises no second

# Where a metric has data only while something happens, these are the times while it does.
REQUESTS_S = MINUTE  # of clients: Lambda and the log lines of functions, by the minute
SERVICES_S = MINUTE  # SQS, DynamoDB, Network Load Balancer, Container Insights


def seconds_between_data(namespace: str, name: str, dimensions: Mapping[str, Any], stage: str) -> int:
    """How often a metric has data. Raises AssertionError for one whose times nobody has written down."""
    planned = STAGES[stage].maintenance_every_minutes * MINUTE
    function = str(dimensions.get("FunctionName", dimensions.get("function", ""))).rpartition("-")[2]
    by_plans = function in ("maintenance", "maintainer")  # called by the schedule; by its tasks
    if "ExecutedVersion" in dimensions:
        assert set(dimensions) == {"FunctionName", "Resource", "ExecutedVersion"}
    if namespace == "AWS/Lambda" and name in ("Errors", "Invocations", "Throttles"):
        return planned if by_plans else REQUESTS_S
    if namespace == "Odradek":
        if set(dimensions) == {"cluster_id", "function"}:
            return planned if by_plans else REQUESTS_S
        if name == "store_rejections":
            return REQUESTS_S
        return planned  # the backlog, looked at after each plan
    assert (namespace, name) in {
        ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
        ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
        ("AWS/DynamoDB", "ReadThrottleEvents"),
        ("AWS/DynamoDB", "WriteThrottleEvents"),
        ("AWS/NetworkELB", "HealthyHostCount"),
        ("AWS/NetworkELB", "UnHealthyHostCount"),
        ("ECS/ContainerInsights", "RunningTaskCount"),
        ("Odradek/Jobs", "LagOffsets"),
        ("Odradek/Jobs", "LagTime"),
    }, f"how often has {namespace} {name} data?"
    return SERVICES_S


@dataclass(frozen=True)
class Series:
    """A metric's datapoints: value by the number of the period; a period without data is missing."""

    period_s: int
    values: Mapping[int, float]

    @classmethod
    def of(cls, period_s: int, every_s: int, value: float, from_s: int = 0, to_s: int = HOURS * 3600) -> Series:
        late_s = LATE_S if every_s > MINUTE else (0,)  # AWS's own metrics are of whole minutes
        times = (at + late_s[i % len(late_s)] for i, at in enumerate(range(every_s, HOURS * 3600, every_s)))
        return cls(period_s, {int(at // period_s): value for at in times if from_s <= at < to_s})


def evaluate(properties: Mapping[str, Any], points: Callable[[int], float | None], periods: int) -> list[str]:
    """The alarm's state at the end of each period."""
    n = properties["EvaluationPeriods"]
    m = properties.get("DatapointsToAlarm", n)
    missing = properties["TreatMissingData"]
    limit = properties["Threshold"]
    is_bad = {
        "GreaterThanThreshold": lambda value: value > limit,
        "LessThanThreshold": lambda value: value < limit,
    }[properties["ComparisonOperator"]]
    state, states = "INSUFFICIENT_DATA", []
    for end in range(periods):
        found = [points(number) for number in range(end - n + 1, end + 1)]
        bad = sum(missing == "breaching" if value is None else is_bad(value) for value in found)
        if missing in ("breaching", "notBreaching") or found[-1] is not None:
            state = "ALARM" if bad >= m else "OK"
        states.append(state)
    return states


def metrics_of(properties: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The metrics that an alarm looks at, by id ("" for a single one)."""
    if "MetricName" in properties:
        return {"": {**properties, "Dimensions": properties["Dimensions"]}}
    return {
        each["Id"]: {**each["MetricStat"]["Metric"], "Period": each["MetricStat"]["Period"]}
        for each in properties["Metrics"]
        if "MetricStat" in each
    }


def states(deployment: Deployment, properties: Mapping[str, Any], value: Mapping[str, float], **when: int) -> list[str]:
    """The states of an alarm whose metrics have these values (by id) at the times at which they have data."""
    series = {}
    for key, metric in metrics_of(properties).items():
        dimensions = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
        every_s = seconds_between_data(metric["Namespace"], metric["MetricName"], dimensions, stage_of(deployment))
        if key in value:
            series[key] = Series.of(metric["Period"], every_s, value[key], **when)
        else:
            series[key] = Series(metric["Period"], {})
    [period_s] = {each.period_s for each in series.values()}
    expression = next((each["Expression"] for each in properties.get("Metrics", ()) if "Expression" in each), None)

    def point(number: int) -> float | None:
        values = {key: each.values.get(number) for key, each in series.items()}
        return next(iter(values.values())) if expression is None else calculate(expression, values)

    return evaluate(properties, point, HOURS * 3600 // period_s)


def calculate(expression: str, values: Mapping[str, float | None]) -> float | None:
    """Metric math, as far as it is used here: a period without data has no result, unless it is filled."""

    def fill(of: Iterable[float | None], default: float) -> list[float]:
        return [default if each is None else each for each in of]

    python = expression.replace("||", " or ").replace("&&", " and ")
    if "METRICS()" not in python:
        if any(value is None for value in values.values()):
            return None
    elif all(value is None for value in values.values()):
        return None  # a metric that never had data cannot be filled
    names = {
        "IF": lambda condition, then, otherwise: then if condition else otherwise,
        "SUM": sum,
        "FILL": fill,
        "METRICS": lambda: list(values.values()),
    }
    return float(eval(python, {"__builtins__": {}}, {**names, **values}))


def stage_of(deployment: Deployment) -> str:
    """The stage that a deployment's function names have in them."""
    return str(next(iter(deployment.functions().values()))["FunctionName"]).split("-")[1]


def alarms(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """The metric alarms of all stacks, by name without stage."""
    return {
        each["Properties"]["AlarmName"].split("-", 2)[2]: each["Properties"]
        for stack in deployment.templates
        for each in deployment.resources(stack, "AWS::CloudWatch::Alarm").values()
    }


PARTS = {f"{name}-{part}" for name in ("maintenance", "gateway") for part in ("started", "stopped")}
"""Of the composite alarms."""
TOLD_FROM_THE_FIRST = re.compile("job-.*-silent")  # a job that is to run and was never started


@pytest.fixture(scope="module")
def jobs(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    return synthesize_stage(replace(STAGES["prod"], running_jobs=("word_count", "export_table")))


@pytest.fixture(params=["dev", "prod", "gateway", "jobs"])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    found: Deployment = request.getfixturevalue(request.param)
    return found


def test_every_alarm_can_be_reached_and_left_and_is_silent_before_the_first_data(deployment: Deployment) -> None:
    for name, properties in alarms(deployment).items():
        if name in PARTS or TOLD_FROM_THE_FIRST.fullmatch(name):
            continue
        limit = properties["Threshold"]
        above = properties["ComparisonOperator"] == "GreaterThanThreshold"
        bad, good = (limit + 1_000, 0.0) if above else (limit - 1, limit)
        ids = metrics_of(properties)
        assert "ALARM" in states(deployment, properties, dict.fromkeys(ids, bad)), f"{name} is never told"
        all_good = states(deployment, properties, {**dict.fromkeys(ids, good), "invocations": 100.0})
        assert "ALARM" not in all_good, f"{name} is told without need"
        assert "ALARM" not in states(deployment, properties, {}), f"{name} is told at the first deployment"
        after = states(deployment, properties, dict.fromkeys(ids, bad), to_s=3 * 3600)
        assert "ALARM" in after, name
        assert after[-1] != "ALARM" or "DynamoDB" in json.dumps(properties), f"{name} never ends"


def test_an_alarm_looks_at_a_day_at_most(deployment: Deployment) -> None:
    for name, properties in alarms(deployment).items():
        for metric in metrics_of(properties).values():
            assert properties["EvaluationPeriods"] * metric["Period"] <= 86_400, name


@pytest.mark.parametrize(
    ("stack", "kind", "what"),
    [
        ("observability", "dev", "maintenance"),
        ("observability", "prod", "maintenance"),
        ("gateway", "gateway", "gateway"),
    ],
)
def test_what_stops_is_told_and_a_new_deployment_is_not(
    stack: str, kind: str, what: str, request: pytest.FixtureRequest
) -> None:
    """Maintenance that is not called any more, and gateways that write no metrics."""
    deployment: Deployment = request.getfixturevalue(kind)
    [composite] = deployment.resources(stack, "AWS::CloudWatch::CompositeAlarm").values()
    assert composite["Properties"]["AlarmName"] == f"odradek-{stage_of(deployment)}-{what}-silent"
    rule = json.dumps(composite["Properties"]["AlarmRule"])
    resources = deployment.resources(stack, "AWS::CloudWatch::Alarm")
    wanted = {
        resources[key]["Properties"]["AlarmName"].split("-", 2)[2]: state
        for state, key in re.findall(r"(OK|ALARM)\(\W+\", {\"Fn::GetAtt\": \[\"(\w+)\"", rule)
    }
    assert wanted == {f"{what}-stopped": "ALARM", f"{what}-started": "OK"}
    assert "OR" not in rule
    found = alarms(deployment)
    value = found[f"{what}-stopped"]["Threshold"]

    def told(value: float = value, **when: int) -> list[bool]:
        parts = [
            states(deployment, found[name], dict.fromkeys(metrics_of(found[name]), value), **when) for name in wanted
        ]
        assert len({len(part) for part in parts}) == 1
        return [each == tuple(wanted.values()) for each in zip(*parts, strict=True)]

    assert not any(told(from_s=HOURS * 3600)), "a new deployment"
    assert not any(told(from_s=3 * 3600)), "one whose first data come late"
    assert not any(told()), "one that works"
    stopped = told(from_s=3600, to_s=4 * 3600)
    assert stopped[-1]
    [metric] = metrics_of(found[f"{what}-stopped"]).values()
    assert not any(stopped[: 4 * 3600 // metric["Period"]])
    if what == "gateway":
        assert any(told(value - 1)), "one of them is silent, the others are not"


def test_gateways_write_the_metric_that_is_counted(gateway: Deployment) -> None:
    [metric] = metrics_of(alarms(gateway)["gateway-stopped"]).values()
    lines: list[str] = []
    cluster_id = STAGES["prod"].settings.cluster_id
    telemetry = KafkaTelemetry(cluster_id, clock=ManualClock(), billed=Usage, write_line=lines.append)
    telemetry.write(3)
    document = json.loads(lines[0])
    [directive] = document["_aws"]["CloudWatchMetrics"]
    assert metric["Namespace"] == directive["Namespace"]
    assert metric["MetricName"] in {each["Name"] for each in directive["Metrics"]}
    wanted = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
    assert wanted == {name: document[name] for name in directive["Dimensions"][0]}
    tasks = gateway.only("gateway", "AWS::ECS::Service")["Properties"]["DesiredCount"]
    a_minute = metric["Period"] / MINUTE / (INTERVAL_S / MINUTE) * tasks
    assert 0.7 * a_minute < alarms(gateway)["gateway-stopped"]["Threshold"] < 0.9 * a_minute


def test_a_job_that_is_to_run_is_told_when_it_never_ran_stopped_or_lags(jobs: Deployment) -> None:
    found = alarms(jobs)
    for name in ("word-count", "export-table"):
        silent, behind = found[f"job-{name}-silent"], found[f"job-{name}-behind"]
        assert states(jobs, silent, {})[-1] == "ALARM", "it was never started"
        assert "ALARM" not in states(jobs, silent, {"": 5.0})[3:]
        assert states(jobs, silent, {"": 5.0}, to_s=3 * 3600)[-1] == "ALARM", "it has stopped"
        assert "ALARM" in states(jobs, behind, {"": 901.0})
        assert "ALARM" not in states(jobs, behind, {"": 900.0})
        for properties in (silent, behind):
            [metric] = metrics_of(properties).values()
            [dimension] = metric["Dimensions"]
            assert dimension == {"Name": "Job", "Value": f"odradek-prod-{name.replace('-', '_')}"}
            line = json.loads(waiting_metric(dimension["Value"], now_ms=0, lag_offsets=1, idle_s=1.0))
            assert (line["Job"], metric["MetricName"] in line) == (dimension["Value"], True)
            assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == metric["Namespace"]
        assert silent["Statistic"] == "SampleCount"
    made = {each["Properties"]["Name"] for each in jobs.resources("pipeline", "AWS::Glue::Job").values()}
    assert {"odradek-prod-word_count", "odradek-prod-export_table"} <= made


def test_no_stage_pays_for_alarms_of_jobs_that_nobody_named(prod: Deployment) -> None:
    assert not [name for name in alarms(prod) if name.startswith("job-")]
    with pytest.raises(ValueError, match="running_jobs: compact_topic is not one of"):
        replace(STAGES["prod"], running_jobs=("compact_topic",))


@pytest.mark.parametrize("job", JOBS)
def test_jobs_with_alarms_are_those_that_write_metrics_every_minute(job: str) -> None:
    code = (Path(__file__).parents[2] / "glue_jobs" / job / "job.py").read_text()
    assert (job in STREAMING_JOBS) == ("run_streams(" in code or "run_query(" in code)


def test_functions_that_fail_to_import_are_told_and_a_single_time_out_among_many_is_not(deployment: Deployment) -> None:
    found = alarms(deployment)
    functions = set(deployment.functions())
    assert {f"{name}-errors" for name in functions} <= set(found)
    for name in functions:
        properties = found[f"{name}-errors"]
        dimensions = {each["Value"] for metric in metrics_of(properties).values() for each in metric["Dimensions"]}
        assert dimensions == {f"odradek-{stage_of(deployment)}-{name}"}
        for errors, invocations, state in ((1, 1, "ALARM"), (6, 1000, "ALARM"), (1, 1000, "OK"), (0, 3, "OK")):
            values = {"errors": float(errors), "invocations": float(invocations)}
            reached = states(deployment, properties, values)
            assert ("ALARM" in reached) == (state == "ALARM"), (name, errors, invocations)


def test_the_alarms_that_could_not_fire_are_found_by_this_test(dev: Deployment) -> None:
    """Nine of nine periods of five minutes, where data come every fifteen."""
    found = alarms(dev)["tail-long"]
    assert "ALARM" in states(dev, found, {"": 1e9})
    properties = {**found, "EvaluationPeriods": 9, "DatapointsToAlarm": 9, "Period": 300}
    assert "ALARM" not in states(dev, properties, {"": 1e9})


def test_a_run_of_a_job_that_fails_is_told(prod: Deployment) -> None:
    from infra.stacks.observability import FAILED_STATES

    [rule] = [
        each["Properties"]
        for each in prod.resources("observability", "AWS::Events::Rule").values()
        if each["Properties"]["Name"] == "odradek-prod-job-failed"
    ]
    pattern = rule["EventPattern"]
    assert (pattern["source"], pattern["detail-type"]) == (["aws.glue"], ["Glue Job State Change"])
    [prefix] = pattern["detail"]["jobName"]
    jobs = [each["Properties"]["Name"] for each in prod.resources("pipeline", "AWS::Glue::Job").values()]
    assert jobs
    assert all(name.startswith(prefix["prefix"]) for name in jobs)
    assert set(pattern["detail"]["state"]) == set(FAILED_STATES)
    assert not {"SUCCEEDED", "STOPPED"} & set(FAILED_STATES)
    [target] = rule["Targets"]
    assert "Alarms" in json.dumps(target["Arn"])
    paths = target["InputTransformer"]["InputPathsMap"].values()
    assert {"$.detail.jobName", "$.detail.state", "$.detail.jobRunId", "$.detail.message"} == set(paths)
    policy = prod.only("observability", "AWS::SNS::TopicPolicy")["Properties"]["PolicyDocument"]["Statement"]
    assert "events.amazonaws.com" in json.dumps(policy)
