"""The queue that wakes triggers: a standard queue with dead letters, by fixed names: no stack refers to another.

visibility timeout    above the dispatcher's time-out: the message of one that died comes again
receptions            5; what a dead letter was about is found by the sweep of triggers, which is part of maintenance
retention             two days
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from odradek.functions.environment import TRIGGER_DISPATCHER
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX

from infra.permissions import PERMISSIONS
from infra.stages import FUNCTION_SIZES, Stage

RECEPTIONS_MAX = 5


def queue_name(stage: Stage) -> str:
    """Return the name of the queue."""
    return f"odradek-{stage.name}-triggers"


def queue_url(scope: Construct, stage: Stage) -> str:
    """Return the URL of the queue, for functions of other stacks."""
    stack = Stack.of(scope)
    return f"https://sqs.{stack.region}.{stack.url_suffix}/{stack.account}/{queue_name(stage)}"


def allow_wakes(scope: Construct, stage: Stage, name: str, role: iam.Role) -> None:
    """Grant a role the actions on the queue that its row in permissions.py has, if it has any."""
    if actions := PERMISSIONS[name].wakes:
        arn = Stack.of(scope).format_arn(
            service="sqs", resource=queue_name(stage), arn_format=ArnFormat.NO_RESOURCE_NAME
        )
        role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=[arn]))


class WakeQueue(Construct):
    """The queue in `queue`, its dead letters in `dead_letters`."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage, key: kms.IKey | None) -> None:
        super().__init__(scope, construct_id)
        encryption = sqs.QueueEncryption.SQS_MANAGED if key is None else sqs.QueueEncryption.KMS
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=f"{queue_name(stage)}-dead-letters",
            encryption=encryption,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        self.queue = sqs.Queue(
            self,
            "Wakes",
            queue_name=queue_name(stage),
            encryption=encryption,
            encryption_master_key=key,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(FUNCTION_SIZES[TRIGGER_DISPATCHER].timeout_s + 60),
            retention_period=Duration.days(2),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=RECEPTIONS_MAX),
        )

    def call(self, function: lambda_.Function, *, workers: int) -> None:
        """Invoke the function with messages, at most `workers` times at once; it returns the failed messages."""
        lambda_.EventSourceMapping(
            self,
            "Calls",
            target=function,
            event_source_arn=self.queue.queue_arn,
            batch_size=MESSAGES_PER_SEND_MAX,
            max_concurrency=workers,
            report_batch_item_failures=True,
        )
