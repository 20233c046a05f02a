"""The queue of maintenance tasks: a standard queue, the dead letters behind it, and who may send and take.

    visibility timeout    six times the maintainer's timeout, as AWS advises: Lambda may hold a batch before it calls
    receptions            5: a task that fails, or is cut short, comes again after that timeout; five times are seven
                          hours, in which plans have named the same work again: no passing trouble
    retention             two days: longer than these receptions take, or nothing would reach the dead letters
    dead letters          kept for 14 days, to be looked at; nothing is lost with them (OPERATIONS.md)

Names are fixed, so that the alarms can name the queues without a reference between the stacks.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from odradek.functions.environment import MAINTAINER
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX

from infra.constructs.function import OdradekFunction
from infra.permissions import PERMISSIONS
from infra.stages import FUNCTION_SIZES, Stage

RECEPTIONS_MAX = 5
BATCH_TASKS = MESSAGES_PER_SEND_MAX  # the largest that Lambda takes without waiting for it to fill


def queue_name(stage: Stage) -> str:
    """The name of the queue."""
    return f"odradek-{stage.name}-maintenance"


def dead_letters_name(stage: Stage) -> str:
    """The name of the queue of its dead letters."""
    return f"{queue_name(stage)}-dead-letters"


class TaskQueue(Construct):
    """The queue in `queue`, its dead letters in `dead_letters`."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage, key: kms.IKey | None) -> None:
        super().__init__(scope, construct_id)
        encryption = sqs.QueueEncryption.SQS_MANAGED if key is None else sqs.QueueEncryption.KMS
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=dead_letters_name(stage),
            encryption=encryption,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        self.queue = sqs.Queue(
            self,
            "Tasks",
            queue_name=queue_name(stage),
            encryption=encryption,
            encryption_master_key=key,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(6 * FUNCTION_SIZES[MAINTAINER].timeout_s),
            retention_period=Duration.days(2),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=RECEPTIONS_MAX),
        )

    def allow(self, name: str, made: OdradekFunction) -> None:
        """Let a function do what its row of permissions.py says."""
        made.role.add_to_policy(
            iam.PolicyStatement(actions=list(PERMISSIONS[name].queue), resources=[self.queue.queue_arn])
        )

    def call(self, function: lambda_.Function, *, workers: int) -> None:
        """Call the function with messages, so many invocations at once at most; it answers which are to come again."""
        lambda_.EventSourceMapping(
            self,
            "Calls",
            target=function,
            event_source_arn=self.queue.queue_arn,
            batch_size=BATCH_TASKS,
            max_concurrency=workers,
            report_batch_item_failures=True,
        )
