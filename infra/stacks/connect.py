"""The connect stack: a function that runs connectors while there is something to do. Only if the stage asks for it.

schedule, triggers ──> connect ──> the functions of the API stack, as any client
                        ^    └──> what connectors read and write, with the policies of the stage
                        └── itself, when its time is over and there is more to do

Nothing runs between two looks of the schedule. A look that finds no connector to run is one read of a topic.
"""

from __future__ import annotations

import json

from aws_cdk import Annotations, CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct
from odradek.connect.runtime.function import BOOTSTRAP_SERVERS, CONNECT_CONFIG, IDLE_S, WAKES
from odradek.limits import FUNCTION_TIMEOUT_S_MAX

from infra.artifacts import Artifacts
from infra.connect_image import CONNECT, connect_image_directory
from infra.constructs.function import ARCHITECTURE, log_retention
from infra.constructs.schedule import Schedule
from infra.constructs.trigger import dispatcher_role_name
from infra.gateway_image import BASE_IMAGE, is_pinned
from infra.stacks.api import ApiStack
from infra.stages import ConnectOptions, Stage


class ConnectStack(Stack):
    """The function, its role, its schedule."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        options: ConnectOptions,
        api: ApiStack,
        artifacts: Artifacts,
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: the function that runs connectors")
        artifacts.require(self)
        if not is_pinned(options.base_image):
            Annotations.of(self).add_warning(
                f"the image is built from {options.base_image or BASE_IMAGE}, a tag that may name another image "
                "tomorrow: name a digest in connect.base_image of the stage"
            )
        name = f"odradek-{stage.name}-{CONNECT}"
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        role.add_managed_policy(api.client_policy)
        for number, arn in enumerate(options.policy_arns):
            role.add_managed_policy(iam.ManagedPolicy.from_managed_policy_arn(self, f"Policy{number}", arn))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"],
                resources=[self.format_arn(service="lambda", resource=f"function:{name}")],
            )
        )
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=log_retention(stage.log_retention_days),
            removal_policy=RemovalPolicy.RETAIN if stage.keeps_data else RemovalPolicy.DESTROY,
        )
        log_group.grant_write(role)
        function = lambda_.DockerImageFunction(
            self,
            "Function",
            function_name=name,
            description="Odradek connect",
            architecture=ARCHITECTURE,
            code=lambda_.DockerImageCode.from_image_asset(
                str(connect_image_directory(artifacts, options.packages, options.base_image)),
                platform=ecr_assets.Platform.LINUX_ARM64,
            ),
            memory_size=options.memory_mb,
            timeout=Duration.seconds(FUNCTION_TIMEOUT_S_MAX),
            role=role,
            log_group=log_group,
            reserved_concurrent_executions=options.workers,
            # A function that calls itself would be stopped after 16 calls (Lambda developer guide, "recursive loops").
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
            logging_format=lambda_.LoggingFormat.JSON,
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            environment={
                BOOTSTRAP_SERVERS: api.coordinator_url,
                CONNECT_CONFIG: json.dumps(dict(options.configs), sort_keys=True),
                IDLE_S: str(options.idle_s),
                WAKES: str(options.wake_sinks).lower(),
            },
        )
        if options.wake_sinks:
            dispatcher = iam.Role.from_role_name(self, "Dispatcher", dispatcher_role_name(stage.name))
            dispatcher.add_to_principal_policy(
                iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn])
            )
        if options.every_minutes:
            Schedule(self, "Every", function=function, every_minutes=options.every_minutes)
        CfnOutput(self, "ConnectFunctionArn", value=function.function_arn)
        CfnOutput(self, "ConnectRoleArn", value=role.role_arn)
