"""The maintenance stack: planning, its queue, and the workers.

schedule ──> maintenance, which plans ──> queue ──> maintainers, up to the stage's number
                                            └──> dead letters: tasks that failed repeatedly
"""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct
from odradek.functions.environment import MAINTAINER, MAINTENANCE, QUEUE_URL, TABLE_CATALOG, WAKE_QUEUE_URL

from infra.artifacts import Artifacts
from infra.constructs.function import OdradekFunction, OdradekLayer, TablesLayer
from infra.constructs.schedule import Schedule
from infra.constructs.store_role import Store, statements
from infra.constructs.task_queue import MAINTENANCE_QUEUE, TaskQueue
from infra.constructs.wake_queue import allow_wakes, queue_url
from infra.permissions import ICEBERG_PREFIX, ICEBERG_TABLES, PERMISSIONS
from infra.stages import FUNCTION_SIZES, Stage

_TIMEOUTS = 6  # of the maintainer: as AWS advises, since Lambda may hold a batch before it calls


class MaintenanceStack(Stack):
    """The planning function, its schedule, the queue, and the function that runs the tasks."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: maintenance of the log")
        artifacts.require(self)
        layer = OdradekLayer(self, "Layer", artifacts=artifacts)
        catalog = {} if artifacts.tables is None else catalog_environment(self, stage, store)
        visibility_timeout_s = _TIMEOUTS * FUNCTION_SIZES[MAINTAINER].timeout_s
        tasks = TaskQueue(
            self, "Queue", stage=stage, name=MAINTENANCE_QUEUE, key=store.key, visibility_timeout_s=visibility_timeout_s
        )
        plans = OdradekFunction(
            self,
            "Maintenance",
            name=MAINTENANCE,
            stage=stage,
            store=store,
            artifacts=artifacts,
            layer=layer,
            extra_environment={
                **catalog,
                QUEUE_URL: tasks.queue.queue_url,
                WAKE_QUEUE_URL: queue_url(self, stage),
            },
        )
        works = OdradekFunction(
            self,
            "Maintainer",
            name=MAINTAINER,
            stage=stage,
            store=store,
            artifacts=artifacts,
            layer=layer,
            extra_environment=catalog,
        )
        if artifacts.tables is not None:
            works.function.add_layers(TablesLayer(self, "Tables", zip_file=artifacts.tables).version)
        if catalog:
            for statement in statements(ICEBERG_TABLES, store):
                works.role.add_to_policy(statement)
        for name, role in ((MAINTENANCE, plans.role), (MAINTAINER, works.role)):
            actions, resources = list(PERMISSIONS[name].queue), [tasks.queue.queue_arn]
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        allow_wakes(self, stage, MAINTENANCE, plans.role)
        tasks.call(works.function, workers=stage.maintenance_workers)
        Schedule(
            self,
            "Every",
            function=plans.function,
            every_minutes=stage.maintenance_every_minutes,
            dead_letters=stage.dead_letters,
            key=store.key,
        )
        CfnOutput(self, "MaintenanceFunctionName", value=plans.function.function_name)
        CfnOutput(self, "MaintenanceQueueUrl", value=tasks.queue.queue_url)
        CfnOutput(self, "MaintenanceDeadLettersUrl", value=tasks.dead_letters.queue_url)


def catalog_environment(stack: Stack, stage: Stage, store: Store) -> dict[str, str]:
    """Return the variable that names Glue's catalog; nothing if the stage's settings name a catalog."""
    if stage.settings.table_catalog:
        return {}
    warehouse = f"s3://{store.bucket.bucket_name}/{ICEBERG_PREFIX.rstrip('/')}"
    return {TABLE_CATALOG: f"type=glue,warehouse={warehouse},client.region={stack.region}"}
