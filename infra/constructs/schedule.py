"""A function called every few minutes.

A failed run is retried twice within the period and then given up: the next tick does the same work, and every step may
be repeated. With `dead_letters` its event goes to a queue, as a record of what failed and when.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Schedule(Construct):
    """An EventBridge rule that invokes the function at a fixed rate."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        every_minutes: int,
        dead_letters: bool = False,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        period = Duration.minutes(every_minutes)
        self.rule = events.Rule(self, "Rule", schedule=events.Schedule.rate(period))
        queue = (
            sqs.Queue(
                self,
                "DeadLetters",
                encryption=sqs.QueueEncryption.SQS_MANAGED if key is None else sqs.QueueEncryption.KMS,
                encryption_master_key=key,
                enforce_ssl=True,
                retention_period=Duration.days(14),
            )
            if dead_letters
            else None
        )
        self.rule.add_target(
            targets.LambdaFunction(function, retry_attempts=2, max_event_age=period, dead_letter_queue=queue)
        )
        if queue is not None:  # the rule delivers events; failures of the function itself go to the function's queue
            function.configure_async_invoke(
                retry_attempts=2, max_event_age=period, on_failure=destinations.SqsDestination(queue)
            )
