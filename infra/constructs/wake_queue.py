"""The queue that wakes triggers, for its senders: by its fixed name, since no stack refers to another.

The triggers stack has the queue (constructs/task_queue.py). Its visibility timeout is above the dispatcher's timeout:
the message of one that died comes again.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.task_queue import queue_name
from infra.permissions import PERMISSIONS
from infra.stages import Stage

WAKE_QUEUE = "triggers"


def queue_url(scope: Construct, stage: Stage) -> str:
    """Return the URL of the queue, for functions of other stacks."""
    stack = Stack.of(scope)
    return f"https://sqs.{stack.region}.{stack.url_suffix}/{stack.account}/{queue_name(stage, WAKE_QUEUE)}"


def allow_wakes(scope: Construct, stage: Stage, name: str, role: iam.Role) -> None:
    """Grant a role the actions on the queue that its row in permissions.py has, if it has any."""
    if actions := PERMISSIONS[name].wakes:
        arn = Stack.of(scope).format_arn(
            service="sqs", resource=queue_name(stage, WAKE_QUEUE), arn_format=ArnFormat.NO_RESOURCE_NAME
        )
        role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=[arn]))
