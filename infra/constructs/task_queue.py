"""A queue of tasks that a function works off: a standard queue and its dead-letter queue, encrypted, over TLS alone.

    receptions      5: a task that fails, or is cut short, comes again after the visibility timeout
    retention       two days: longer than these receptions take, so that messages reach the dead-letter queue
    dead letters    kept for 14 days, for inspection; losing them loses no work (OPERATIONS.md): a later plan of
                    maintenance names the same work again, and its sweep finds what triggers have to do

Names are fixed, so that the alarms, and who sends, can name the queues without a reference between the stacks.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX

from infra.stages import Stage

MAINTENANCE_QUEUE = "maintenance"
RECEPTIONS_MAX = 5
BATCH_TASKS = MESSAGES_PER_SEND_MAX  # the largest batch that Lambda receives without waiting for it to fill


def queue_name(stage: Stage, name: str) -> str:
    """Return the name of a queue."""
    return f"odradek-{stage.name}-{name}"


def dead_letters_name(stage: Stage, name: str) -> str:
    """Return the name of its dead-letter queue."""
    return f"{queue_name(stage, name)}-dead-letters"


class TaskQueue(Construct):
    """The queue in `queue`, its dead letters in `dead_letters`.

    Args:
        name: without the stage's.
        visibility_timeout_s: above the worker's timeout: the message of one that died comes again after it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        name: str,
        key: kms.IKey | None,
        visibility_timeout_s: int,
    ) -> None:
        super().__init__(scope, construct_id)
        encryption = sqs.QueueEncryption.SQS_MANAGED if key is None else sqs.QueueEncryption.KMS
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=dead_letters_name(stage, name),
            encryption=encryption,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        self.queue = sqs.Queue(
            self,
            "Tasks",
            queue_name=queue_name(stage, name),
            encryption=encryption,
            encryption_master_key=key,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(visibility_timeout_s),
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
            batch_size=BATCH_TASKS,
            max_concurrency=workers,
            report_batch_item_failures=True,
        )
