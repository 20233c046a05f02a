"""The queue of maintenance tasks: a standard queue, its dead-letter queue, and the permissions to send and receive.

    visibility timeout    six times the maintainer's timeout, as AWS advises: Lambda may hold a batch before it calls
    receptions            5: a task that fails, or is cut short, comes again after that timeout; five times are seven
                          hours, in which plans have named the same work again: not a transient failure
    retention             two days: longer than these receptions take, so that messages reach the dead-letter queue
    dead letters          kept for 14 days, for inspection; losing them loses no work (OPERATIONS.md)

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
BATCH_TASKS = MESSAGES_PER_SEND_MAX  # the largest batch that Lambda receives without waiting for it to fill


def queue_name(stage: Stage) -> str:
    """Return the name of the queue."""
    return f"odradek-{stage.name}-maintenance"


def dead_letters_name(stage: Stage) -> str:
    """Return the name of its dead-letter queue."""
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
        """Grant a function the permissions of its row in permissions.py."""
        made.role.add_to_policy(
            iam.PolicyStatement(actions=list(PERMISSIONS[name].queue), resources=[self.queue.queue_arn])
        )

    def call(self, function: lambda_.Function, *, workers: int) -> None:
        """Invoke the function with messages, at most `workers` times at once; it returns the failed messages."""
        lambda_.EventSourceMapping(
            self,
            "Calls",
            target=function,
            event_source_arn=self.queue.queue_arn,
            batch_size=BATCH_TASKS,
            max_concurrency=workers,
            report_batch_item_failures=True,
        )
