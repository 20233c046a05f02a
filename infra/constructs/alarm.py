"""An alarm of a stage: named `odradek-<stage>-<name>`, told to the topic, explained in docs/OPERATIONS.md.

A datapoint is what CloudWatch makes of a period. An alarm can reach its state only where enough of its periods have
data, so the period is never shorter than the time between two data of its metric (tests/infra/test_alarms.py has those
times, and evaluates each alarm as CloudWatch does).
"""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.stages import Stage


def alarm_name(stage: Stage, name: str) -> str:
    """The name of an alarm in the account."""
    return f"odradek-{stage.name}-{name}"


def description(name: str) -> str:
    """Return the text of an alarm's notification."""
    return f"What to do: docs/OPERATIONS.md, {name}"


def construct_id(name: str) -> str:
    """`produce-faults` to ProduceFaults."""
    return "".join(part.capitalize() for part in name.split("-"))


def add_alarm(
    scope: Construct,
    stage: Stage,
    topic: sns.ITopic | None,
    name: str,
    metric: cloudwatch.IMetric,
    limit: float,
    *,
    periods: int,
    of_periods: int | None = None,
    below: bool = False,
    missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
) -> cloudwatch.Alarm:
    """An alarm when `periods` of the last `of_periods` (all, if not given) are above the limit, or below it.

    Args:
        topic: receives its notifications; None for a part of a composite alarm.
        metric: with the period of its datapoints.
        missing: what a period without data counts as.
    """
    comparison = cloudwatch.ComparisonOperator
    alarm = cloudwatch.Alarm(
        scope,
        construct_id(name),
        alarm_name=alarm_name(stage, name),
        alarm_description=description(name),
        metric=metric,
        threshold=limit,
        evaluation_periods=of_periods or periods,
        datapoints_to_alarm=periods,
        comparison_operator=comparison.LESS_THAN_THRESHOLD if below else comparison.GREATER_THAN_THRESHOLD,
        treat_missing_data=missing,
    )
    if topic is not None:
        alarm.add_alarm_action(actions.SnsAction(topic))
    return alarm


def add_silence(
    scope: Construct,
    stage: Stage,
    topic: sns.ITopic,
    name: str,
    data: cloudwatch.IMetric,
    *,
    limit: float = 1,
    periods: int = 3,
) -> cloudwatch.CompositeAlarm:
    """An alarm `<name>-silent` when fewer data than the limit come in each of `periods`, after there were some.

    No data is what a new deployment has, too. So it takes two: `<name>-started` has seen data and remembers it, since
    it keeps its state where data are missing; to `<name>-stopped` missing data are bad.
    """
    missing = cloudwatch.TreatMissingData
    started = add_alarm(scope, stage, None, f"{name}-started", data, 1, periods=1, below=True, missing=missing.IGNORE)
    stopped = add_alarm(
        scope, stage, None, f"{name}-stopped", data, limit, periods=periods, below=True, missing=missing.BREACHING
    )
    silent = cloudwatch.CompositeAlarm(
        scope,
        construct_id(f"{name}-silent"),
        composite_alarm_name=alarm_name(stage, f"{name}-silent"),
        alarm_description=description(f"{name}-silent"),
        alarm_rule=cloudwatch.AlarmRule.all_of(
            cloudwatch.AlarmRule.from_alarm(stopped, cloudwatch.AlarmState.ALARM),
            cloudwatch.AlarmRule.from_alarm(started, cloudwatch.AlarmState.OK),
        ),
    )
    silent.add_alarm_action(actions.SnsAction(topic))
    return silent
