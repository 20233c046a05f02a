"""Alarms of the gateways: what their load balancer and their service say of them, every minute.

gateway-down         no gateway is healthy: nobody can connect
gateway-unhealthy    some gateway is not, for five minutes: it fails its health check and is not replaced
gateway-tasks        fewer run than are asked for, for a quarter of an hour: new ones do not start
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.alarm import add_alarm
from infra.stages import Stage

_MINUTE = Duration.minutes(1)


class GatewayAlarms(Construct):
    """The three alarms; `targets` are those of the Kafka port, whose health check is the registry's too."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        topic: sns.ITopic,
        service: ecs.FargateService,
        balancer: elbv2.NetworkLoadBalancer,
        targets: elbv2.NetworkTargetGroup,
        tasks: int,
    ) -> None:
        super().__init__(scope, construct_id)

        def of_targets(name: str, statistic: str) -> cloudwatch.Metric:
            return cloudwatch.Metric(
                namespace="AWS/NetworkELB",
                metric_name=name,
                dimensions_map={
                    "LoadBalancer": balancer.load_balancer_full_name,
                    "TargetGroup": targets.target_group_full_name,
                },
                statistic=statistic,
                period=_MINUTE,
            )

        running = cloudwatch.Metric(
            namespace="ECS/ContainerInsights",
            metric_name="RunningTaskCount",
            dimensions_map={"ClusterName": service.cluster.cluster_name, "ServiceName": service.service_name},
            statistic="Maximum",
            period=_MINUTE,
        )
        made = (
            # Of all zones together: a zone without a task has no healthy target, and is none's loss.
            add_alarm(
                self, stage, topic, "gateway-down", of_targets("HealthyHostCount", "Maximum"), 1, periods=2, below=True
            ),
            add_alarm(
                self, stage, topic, "gateway-unhealthy", of_targets("UnHealthyHostCount", "Maximum"), 0, periods=5
            ),
            add_alarm(self, stage, topic, "gateway-tasks", running, tasks, periods=15, below=True),
        )
        for alarm in made:
            alarm.node.add_dependency(service)  # which is there when its tasks are healthy
