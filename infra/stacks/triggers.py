"""The triggers stack: the queue that appends send to, and the dispatcher, which calls the triggers' functions.

The triggers function, which creates and describes them, has a URL and is part of the api stack. What the dispatcher may
call is granted with each trigger (constructs/trigger.py), to a role of a fixed name.
"""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from odradek.functions.environment import TRIGGER_DISPATCHER, WAKE_QUEUE_URL

from infra.artifacts import Artifacts
from infra.constructs.function import OdradekFunction, OdradekLayer
from infra.constructs.store_role import Store
from infra.constructs.task_queue import TaskQueue
from infra.constructs.trigger import dispatcher_role_name
from infra.constructs.wake_queue import WAKE_QUEUE, allow_wakes, queue_url
from infra.stages import FUNCTION_SIZES, Stage

_SPARE_S = 60  # between the dispatcher's timeout and the next delivery of a message


class TriggersStack(Stack):
    """The queue and the dispatcher."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: triggers call functions with new records")
        artifacts.require(self)
        layer = OdradekLayer(self, "Layer", artifacts=artifacts)
        visibility_timeout_s = FUNCTION_SIZES[TRIGGER_DISPATCHER].timeout_s + _SPARE_S
        wakes = TaskQueue(
            self, "Queue", stage=stage, name=WAKE_QUEUE, key=store.key, visibility_timeout_s=visibility_timeout_s
        )
        made = OdradekFunction(
            self,
            "Dispatcher",
            name=TRIGGER_DISPATCHER,
            stage=stage,
            store=store,
            artifacts=artifacts,
            layer=layer,
            extra_environment={WAKE_QUEUE_URL: queue_url(self, stage)},
        )
        role = made.role.node.default_child
        assert isinstance(role, iam.CfnRole)
        role.role_name = dispatcher_role_name(stage.name)
        function = made.function.node.default_child
        assert isinstance(function, lambda_.CfnFunction)
        # A dispatcher that has not the time for everything sends itself a message: Lambda would take that for a loop.
        function.recursive_loop = "Allow"
        allow_wakes(self, stage, TRIGGER_DISPATCHER, made.role)
        wakes.call(made.function, workers=stage.trigger_workers)
        CfnOutput(self, "TriggerQueueUrl", value=wakes.queue.queue_url)
        CfnOutput(self, "TriggerDeadLettersUrl", value=wakes.dead_letters.queue_url)
