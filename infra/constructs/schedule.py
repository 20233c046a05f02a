"""A function called every few minutes.

A run that fails is tried twice more within the period and then given up: the next tick does the same work, every step
of which may be repeated.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct


class Schedule(Construct):
    """An EventBridge rule that invokes the function at a fixed rate."""

    def __init__(self, scope: Construct, construct_id: str, *, function: lambda_.Function, every_minutes: int) -> None:
        super().__init__(scope, construct_id)
        period = Duration.minutes(every_minutes)
        self.rule = events.Rule(self, "Rule", schedule=events.Schedule.rate(period))
        self.rule.add_target(targets.LambdaFunction(function, retry_attempts=2, max_event_age=period))
