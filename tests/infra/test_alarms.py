"""Each alarm can reach its state: the times of its metric's data, and CloudWatch's evaluation of them.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from odradek.gateway.cloudwatch import INTERVAL_S, KafkaTelemetry
from odradek.operations.health.capacity import TableCapacity
from odradek.ports.meter import Usage
from odradek.spark.jobs.progress import waiting_metric
from odradek.testing.manual_clock import ManualClock

from infra.permissions import JOBS, STREAMING_JOBS
from infra.stages import STAGES
from tests.infra.conftest import Deployment
from tests.support.counted import at_least

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
    if namespace == "AWS/Lambda" and name in ("Duration", "Errors", "Invocations", "Throttles"):
        return planned if by_plans else REQUESTS_S
    if (namespace, name) == ("Odradek", "attention"):
        assert set(dimensions) <= {"cluster_id", "function"}
        return REQUESTS_S if "function" in dimensions else planned  # a backlog is looked at after each plan
    assert (namespace, name) in {
        ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
        ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
        ("AWS/DynamoDB", "ReadThrottleEvents"),
        ("AWS/DynamoDB", "WriteThrottleEvents"),
        ("AWS/DynamoDB", "ConsumedReadCapacityUnits"),
        ("AWS/DynamoDB", "ConsumedWriteCapacityUnits"),
        ("AWS/NetworkELB", "HealthyHostCount"),
        ("AWS/NetworkELB", "UnHealthyHostCount"),
        ("ECS/ContainerInsights", "RunningTaskCount"),
        ("Odradek", "connections"),  # of a gateway
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


def evaluate(properties: Mapping[str, Any], points: Callable[[int, range], float | None], periods: int) -> list[str]:
    """The alarm's state at the end of each period; `points` are of a period within those that are looked at."""
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
        window = range(end - n + 1, end + 1)
        values = [points(number, window) for number in window]
        bad = sum(missing == "breaching" if value is None else is_bad(value) for value in values)
        if missing in ("breaching", "notBreaching") or values[-1] is not None:
            state = "ALARM" if bad >= m else "OK"
        states.append(state)
    return states


def metrics_of(properties: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The metrics that an alarm looks at, by id ("" for a single one)."""
    if "MetricName" in properties:
        return {"": {**properties, "Dimensions": properties.get("Dimensions", [])}}
    return {
        metric["Id"]: {"Dimensions": [], **metric["MetricStat"]["Metric"], "Period": metric["MetricStat"]["Period"]}
        for metric in properties["Metrics"]
        if "MetricStat" in metric
    }


def states(deployment: Deployment, properties: Mapping[str, Any], value: Mapping[str, float], **when: int) -> list[str]:
    """The states of an alarm whose metrics have these values (by id) at the times at which they have data."""
    series = {}
    for key, metric in metrics_of(properties).items():
        dimensions = {dimension["Name"]: dimension["Value"] for dimension in metric["Dimensions"]}
        every_s = seconds_between_data(metric["Namespace"], metric["MetricName"], dimensions, stage_of(deployment))
        if key in value:
            series[key] = Series.of(metric["Period"], every_s, value[key], **when)
        else:
            series[key] = Series(metric["Period"], {})
    [period_s] = {metric_series.period_s for metric_series in series.values()}
    expression = next((query["Expression"] for query in properties.get("Metrics", ()) if "Expression" in query), None)

    def point(number: int, window: range) -> float | None:
        values = {key: metric_series.values.get(number) for key, metric_series in series.items()}
        if expression is None:
            return next(iter(values.values()))
        has_data = any(
            metric_series.values.get(other) is not None for metric_series in series.values() for other in window
        )
        if not has_data:
            return None  # and none can be filled
        earlier = range(window.start, number + 1)
        ran = sum(metric_series.values.get(other) or 0.0 for metric_series in series.values() for other in earlier)
        return calculate(expression.replace("RUNNING_SUM(FILL(ran, 0))", str(ran)), values)

    return evaluate(properties, point, HOURS * 3600 // period_s)


def calculate(expression: str, values: Mapping[str, float | None]) -> float:
    """Metric math, as far as it is used here: whatever is missing is filled."""

    def fill(of: float | list[float | None] | None, default: float) -> float | list[float]:
        if isinstance(of, list):
            return [default if value is None else value for value in of]
        return default if of is None else of

    def if_(condition: bool, then: float, otherwise: float) -> float:
        return then if condition else otherwise

    names = {"IF": if_, "SUM": sum, "FILL": fill, "METRICS": lambda: list(values.values())}
    return float(eval(expression, {"__builtins__": {}}, {**names, **values}))


def stage_of(deployment: Deployment) -> str:
    """The stage that a deployment's function names have in them."""
    return str(next(iter(deployment.functions().values()))["FunctionName"]).split("-")[1]


def alarms(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """The metric alarms of all stacks, by name without stage."""
    return {
        alarm["Properties"]["AlarmName"].split("-", 2)[2]: alarm["Properties"]
        for stack in deployment.templates
        for alarm in deployment.resources(stack, "AWS::CloudWatch::Alarm").values()
    }


ABSENT = {"maintenance-silent", "gateway-started", "gateway-stopped"}
"""Alarms with tests of their own: what is bad is to have no data."""
TOLD_FROM_THE_FIRST = re.compile("job-.*-silent")  # a job that is to run and was never started


@pytest.fixture(scope="module")
def jobs(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    return synthesize_stage(replace(STAGES["prod"], running_jobs=("word_count", "export_table")))


@pytest.fixture(scope="module")
def provisioned(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    capacities = {"log": TableCapacity(2500, 6000, 2700, 8000), "groups": TableCapacity(10, 100, 10, 100)}
    return synthesize_stage(replace(STAGES["prod"], capacities=capacities))


@pytest.fixture(params=["dev", "prod", "gateway", "jobs", "provisioned"])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    deployment: Deployment = request.getfixturevalue(request.param)
    return deployment


def test_every_alarm_can_be_reached_and_left_and_is_silent_before_the_first_data(deployment: Deployment) -> None:
    for name, properties in at_least(3, alarms(deployment).items()):
        if name in ABSENT or TOLD_FROM_THE_FIRST.fullmatch(name):
            continue
        limit = properties["Threshold"]
        above = properties["ComparisonOperator"] == "GreaterThanThreshold"
        bad, good = (limit + 1_000, 0.0) if above else (limit - 1, limit)
        if name == "tables-at-maximum":
            bad = 1e9  # units in a period; the limit is of how many capacities
        ids = metrics_of(properties)
        assert "ALARM" in states(deployment, properties, dict.fromkeys(ids, bad)), f"{name} is never told"
        all_good = states(deployment, properties, dict.fromkeys(ids, good))
        assert "ALARM" not in all_good, f"{name} is told without need"
        assert "ALARM" not in states(deployment, properties, {}), f"{name} is told at the first deployment"
        after = states(deployment, properties, dict.fromkeys(ids, bad), to_s=3 * 3600)
        assert "ALARM" in after, name
        assert after[-1] != "ALARM", f"{name} never ends"


def test_an_alarm_looks_at_a_day_at_most(deployment: Deployment) -> None:
    periods = {
        (name, key): properties["EvaluationPeriods"] * metric["Period"]
        for name, properties in alarms(deployment).items()
        for key, metric in metrics_of(properties).items()
    }
    assert [alarm for alarm, period_s in at_least(3, periods.items()) if period_s > 86_400] == []


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_a_maintenance_that_stops_is_told_and_a_new_deployment_is_not(
    stage: str, request: pytest.FixtureRequest
) -> None:
    deployment: Deployment = request.getfixturevalue(stage)
    properties = alarms(deployment)["maintenance-silent"]

    def told(**when: int) -> list[bool]:
        ids = metrics_of(properties)
        return [state == "ALARM" for state in states(deployment, properties, dict.fromkeys(ids, 1.0), **when)]

    [metric] = metrics_of(properties).values()
    assert_told_when_it_stops(told, metric["Period"])


def test_gateways_that_write_no_metrics_are_told_and_a_new_deployment_is_not(gateway: Deployment) -> None:
    [composite] = gateway.resources("gateway", "AWS::CloudWatch::CompositeAlarm").values()
    assert composite["Properties"]["AlarmName"] == f"odradek-{stage_of(gateway)}-gateway-silent"
    rule = json.dumps(composite["Properties"]["AlarmRule"])
    resources = gateway.resources("gateway", "AWS::CloudWatch::Alarm")
    wanted = {
        resources[key]["Properties"]["AlarmName"].split("-", 2)[2]: state
        for state, key in re.findall(r"(OK|ALARM)\(\W+\", {\"Fn::GetAtt\": \[\"(\w+)\"", rule)
    }
    assert wanted == {"gateway-stopped": "ALARM", "gateway-started": "OK"}
    assert "OR" not in rule
    alarms_by_name = alarms(gateway)
    value = alarms_by_name["gateway-stopped"]["Threshold"]

    def told(value: float = value, **when: int) -> list[bool]:
        parts = [
            states(gateway, alarms_by_name[name], dict.fromkeys(metrics_of(alarms_by_name[name]), value), **when)
            for name in wanted
        ]
        assert len({len(part) for part in parts}) == 1
        return [signals == tuple(wanted.values()) for signals in zip(*parts, strict=True)]

    [metric] = metrics_of(alarms_by_name["gateway-stopped"]).values()
    assert_told_when_it_stops(told, metric["Period"])
    assert any(told(value - 1)), "one of them is silent, the others are not"


def assert_told_when_it_stops(fires: Callable[..., list[bool]], period_s: int) -> None:
    assert not any(fires(from_s=HOURS * 3600)), "a new deployment"
    assert not any(fires(from_s=3 * 3600)), "one whose first data come late"
    assert not any(fires()), "one that works"
    stopped = fires(from_s=3600, to_s=4 * 3600)
    assert stopped[-1]
    assert not any(stopped[: 4 * 3600 // period_s])
    assert any(stopped[: 4 * 3600 // period_s + 4]), "and soon"


def test_gateways_write_the_metric_that_is_counted(gateway: Deployment) -> None:
    [metric] = metrics_of(alarms(gateway)["gateway-stopped"]).values()
    lines: list[str] = []
    cluster_id = STAGES["prod"].settings.cluster_id
    telemetry = KafkaTelemetry(cluster_id, clock=ManualClock(), billed=Usage, write_line=lines.append)
    telemetry.write(3)
    document = json.loads(lines[0])
    [directive] = document["_aws"]["CloudWatchMetrics"]
    assert metric["Namespace"] == directive["Namespace"]
    assert metric["MetricName"] in {metric_written["Name"] for metric_written in directive["Metrics"]}
    wanted = {dimension["Name"]: dimension["Value"] for dimension in metric["Dimensions"]}
    assert wanted == {name: document[name] for name in directive["Dimensions"][0]}
    tasks = gateway.only("gateway", "AWS::ECS::Service")["Properties"]["DesiredCount"]
    a_minute = metric["Period"] / MINUTE / (INTERVAL_S / MINUTE) * tasks
    assert 0.7 * a_minute < alarms(gateway)["gateway-stopped"]["Threshold"] < 0.9 * a_minute


def test_a_job_that_is_to_run_is_told_when_it_never_ran_stopped_or_lags(jobs: Deployment) -> None:
    alarms_by_name = alarms(jobs)
    for name in ("word-count", "export-table"):
        silent, behind = alarms_by_name[f"job-{name}-silent"], alarms_by_name[f"job-{name}-behind"]
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
    made = {job["Properties"]["Name"] for job in jobs.resources("pipeline", "AWS::Glue::Job").values()}
    assert {"odradek-prod-word_count", "odradek-prod-export_table"} <= made


def test_no_stage_pays_for_alarms_of_jobs_that_nobody_named(prod: Deployment) -> None:
    assert not [name for name in alarms(prod) if name.startswith("job-")]
    with pytest.raises(ValueError, match="running_jobs: compact_topic is not one of"):
        replace(STAGES["prod"], running_jobs=("compact_topic",))


@pytest.mark.parametrize("job", JOBS)
def test_jobs_with_alarms_are_those_that_write_metrics_every_minute(job: str) -> None:
    code = (Path(__file__).parents[2] / "glue_jobs" / job / "job.py").read_text()
    assert (job in STREAMING_JOBS) == ("run_streams(" in code or "run_query(" in code)


def test_functions_that_fail_to_import_are_told_and_a_single_time_out_is_not(deployment: Deployment) -> None:
    properties = alarms(deployment)["functions-failed"]
    watched = metrics_of(properties)
    functions = {dimension["Value"] for metric in watched.values() for dimension in metric["Dimensions"]}
    # People call `triggers` and `tables` and see their errors; each metric would cost as much as another one.
    every = {
        f"odradek-{stage_of(deployment)}-{name}"
        for name in deployment.functions()
        if name not in ("triggers", "tables")
    }
    assert functions == (every if stage_of(deployment) == "prod" else set()), "of the account, where that has to do"
    for key in watched:
        assert "ALARM" in states(deployment, properties, {key: 1.0})
        assert "ALARM" not in states(deployment, properties, {key: 1.0}, from_s=3600, to_s=3600 + 300)


def test_the_alarms_that_could_not_fire_are_found_by_this_test(dev: Deployment) -> None:
    """Nine of nine periods of five minutes, where data come every fifteen."""
    attention = alarms(dev)["attention"]
    assert "ALARM" in states(dev, attention, {"": 1e9})
    properties = {**attention, "EvaluationPeriods": 9, "DatapointsToAlarm": 9, "Period": 300}
    assert "ALARM" not in states(dev, properties, {"": 1e9})


def test_a_run_of_a_job_that_fails_is_told(prod: Deployment) -> None:
    from infra.stacks.observability import FAILED_STATES

    [rule] = [
        rule["Properties"]
        for rule in prod.resources("observability", "AWS::Events::Rule").values()
        if rule["Properties"]["Name"] == "odradek-prod-job-failed"
    ]
    pattern = rule["EventPattern"]
    assert (pattern["source"], pattern["detail-type"]) == (["aws.glue"], ["Glue Job State Change"])
    [prefix] = pattern["detail"]["jobName"]
    jobs = [job["Properties"]["Name"] for job in prod.resources("pipeline", "AWS::Glue::Job").values()]
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


def test_a_load_that_has_outgrown_the_maximum_of_a_table_is_told(provisioned: Deployment, prod: Deployment) -> None:
    properties = alarms(provisioned)["tables-at-maximum"]
    ids = metrics_of(properties)
    assert set(ids) == {"log_writes", "log_reads", "groups_writes", "groups_reads"}
    assert {metric["MetricName"] for metric in ids.values()} == {
        "ConsumedWriteCapacityUnits",
        "ConsumedReadCapacityUnits",
    }
    at_most = {"log_writes": 6000, "log_reads": 8000, "groups_writes": 100, "groups_reads": 100}
    for key, units in at_most.items():
        # A minute's datum of a period of five stands for all of it here: units of the whole period.
        scalable = 0.7 * units * 300
        assert "ALARM" not in states(provisioned, properties, {key: scalable})
        assert states(provisioned, properties, {key: scalable + 1})[-1] == "ALARM"
    assert "tables-at-maximum" not in alarms(prod)
