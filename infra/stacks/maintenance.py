"""The maintenance stack: what no request waits for, by the clock."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct
from odradek.functions.environment import MAINTENANCE

from infra.artifacts import Artifacts
from infra.constructs.function import OdradekFunction, OdradekLayer
from infra.constructs.schedule import Schedule
from infra.constructs.store_role import Store
from infra.stages import Stage


class MaintenanceStack(Stack):
    """The maintenance function and its schedule."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: scheduled maintenance of the log")
        artifacts.require(self)
        made = OdradekFunction(
            self,
            "Maintenance",
            name=MAINTENANCE,
            stage=stage,
            store=store,
            artifacts=artifacts,
            layer=OdradekLayer(self, "Layer", artifacts=artifacts),
        )
        Schedule(
            self,
            "Every",
            function=made.function,
            every_minutes=stage.maintenance_every_minutes,
            dead_letters=stage.dead_letters,
        )
        CfnOutput(self, "MaintenanceFunctionName", value=made.function.function_name)
