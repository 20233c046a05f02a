"""The release of a new version of a function by the alias `live`: all at once, or with a tenth of the requests first.

    alias live ──100%──> version 7                 CodeDeploy: 10% to version 8 for some minutes, then all;
               ──10%───> version 8                 back to version 7 as soon as an alarm fires

Two alarms guard it, on data of a minute: invocations of the new version that fail as a whole (a function that cannot be
imported), and unexpected exceptions, which the function answers with 500. Neither sends a notification: the deployment
fails with the reason. Without a canary the alias moves at once, and there is neither CodeDeploy nor an alarm.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from odradek.functions.telemetry import ATTENTION, NAMESPACE

from infra.constructs.alarm import add_alarm
from infra.stages import Stage

ALIAS = "live"
_MINUTE = Duration.minutes(1)
_CANARIES = {
    5: "CANARY_10_PERCENT_5_MINUTES",
    10: "CANARY_10_PERCENT_10_MINUTES",
    15: "CANARY_10_PERCENT_15_MINUTES",
    30: "CANARY_10_PERCENT_30_MINUTES",
}


class CanaryDeployments(Construct):
    """The shared resources of a stack's functions: CodeDeploy's application, and the role that moves aliases."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.application = codedeploy.LambdaApplication(self, "Application")
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["cloudwatch:DescribeAlarms"],
                resources=[Stack.of(self).format_arn(service="cloudwatch", resource="alarm:*")],
            )
        )

    def allow(self, function_name: str) -> None:
        """Let CodeDeploy move the function's alias. By name: aliases wait for the role, and functions for aliases."""
        arn = Stack.of(self).format_arn(
            service="lambda",
            resource="function",
            resource_name=function_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"],
                resources=[arn, f"{arn}:{ALIAS}"],
            )
        )


class Release(Construct):
    """The alias of one function in `alias`; `canaries` is None where the stage wants none.

    What a function finds by itself (`faults`) is looked at where records or offsets are written; each alarm costs.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        stage: Stage,
        function: lambda_.Function,
        canaries: CanaryDeployments | None,
        faults: bool = True,
    ) -> None:
        super().__init__(scope, construct_id)
        version = function.current_version
        self.alias = lambda_.Alias(self, "Alias", alias_name=ALIAS, version=version)
        if canaries is None:
            return
        canaries.allow(f"odradek-{stage.name}-{name}")
        guards = self._guards(name, stage, version, faults=faults)
        codedeploy.LambdaDeploymentGroup(
            self,
            "Deployments",
            application=canaries.application,
            alias=self.alias,
            alarms=guards,
            auto_rollback=codedeploy.AutoRollbackConfig(
                failed_deployment=True, stopped_deployment=True, deployment_in_alarm=True
            ),
            deployment_config=getattr(codedeploy.LambdaDeploymentConfig, _CANARIES[stage.canary_minutes]),
            role=canaries.role.without_policy_updates(),  # or a managed policy of AWS's for all functions is attached
        )
        # The alarm looks at the new version before that takes requests.
        self.alias.node.add_dependency(*guards, canaries.role)

    def _guards(self, name: str, stage: Stage, version: lambda_.Version, *, faults: bool) -> list[cloudwatch.Alarm]:
        failed = cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name="Errors",
            dimensions_map={
                "FunctionName": f"odradek-{stage.name}-{name}",
                "Resource": f"odradek-{stage.name}-{name}:{ALIAS}",
                "ExecutedVersion": version.version,
            },
            statistic="Sum",
            period=_MINUTE,
        )
        faulted = cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=ATTENTION,
            dimensions_map={"cluster_id": stage.settings.cluster_id, "function": name},
            statistic="Sum",
            period=_MINUTE,
        )
        return [
            add_alarm(self, stage, None, f"{name}-canary-{outcome}", metric, 0, periods=1)
            for outcome, metric in (("errors", failed), *((("faults", faulted),) if faults else ()))
        ]
