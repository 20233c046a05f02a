"""Alarms of the gateways: what their load balancer, their service and they themselves say of them, every minute.

gateway-down         no gateway is healthy: nobody can connect
gateway-unhealthy    some gateway is not, for five minutes: it fails its health check and is not replaced
gateway-silent       gateways that ran write no metrics: less than four fifths of a line per task and minute
gateway-tasks        fewer run than are asked for, for a quarter of an hour: new ones do not start
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_sns as sns
from constructs import Construct
from odradek.functions.telemetry import NAMESPACE
from odradek.gateway.cloudwatch import KAFKA

from infra.constructs.alarm import add_alarm, add_silence
from infra.stages import Stage

_MINUTE = Duration.minutes(1)
_LINES_PERIOD = Duration.minutes(15)
_LINES_SHARE = 0.8  # of one line a minute; the rest is lost where a task is replaced


class GatewayAlarms(Construct):
    """The four alarms; `targets` are those of the Kafka port, whose health check is the registry's too."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        topic: sns.ITopic,
        services: Sequence[ecs.FargateService],
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

        cluster = {"ClusterName": services[0].cluster.cluster_name}
        is_one = len(services) == 1
        running = cloudwatch.Metric(
            namespace="ECS/ContainerInsights",
            metric_name="RunningTaskCount" if is_one else "TaskCount",  # of the cluster: it has no other tasks
            dimensions_map={**cluster, "ServiceName": services[0].service_name} if is_one else cluster,
            statistic="Maximum",
            period=_MINUTE,
        )
        lines = cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name="connections",
            dimensions_map={"cluster_id": stage.settings.cluster_id, "function": KAFKA},
            statistic="SampleCount",
            period=_LINES_PERIOD,
        )
        made = (
            add_silence(
                self,
                stage,
                topic,
                "gateway",
                lines,
                limit=tasks * _LINES_PERIOD.to_minutes() * _LINES_SHARE,
                periods=2,
            ),
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
            alarm.node.add_dependency(*services)  # which are there when their tasks are healthy
