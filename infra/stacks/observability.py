"""The observability stack: one dashboard, the alarms that need action, and their topic.

    odradek-<stage>-*   alarms; docs/OPERATIONS.md explains each and says what to do
    AlarmTopicArn       an SNS topic; `alarm_email` of the stage is subscribed to it

The metrics are those that the functions write as log lines (odradek.functions.telemetry) and AWS's metrics of
functions, tables and queues. Names come from the code that writes them, so a dashboard cannot name an unknown metric.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct
from odradek.engine.maintenance.backlog import Backlog
from odradek.functions.environment import MAINTAINER, MAINTENANCE, REGISTRY
from odradek.functions.telemetry import NAMESPACE, REJECTIONS, REQUEST_METRICS
from odradek.protocol.api import FunctionName

from infra.artifacts import Artifacts
from infra.constructs.store_role import Store
from infra.constructs.task_queue import dead_letters_name, queue_name
from infra.stages import Stage

_PERIOD = Duration.minutes(5)
_FUNCTIONS = (*(name.value for name in FunctionName), MAINTENANCE, MAINTAINER, REGISTRY)
_BACKLOG = (*Backlog().gauges(), "maintenance_failures")


class ObservabilityStack(Stack):
    """Dashboard and alarms of one stage."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: dashboard and alarms")
        self._stage = stage
        self._store = store
        self.topic = sns.Topic(self, "Alarms", enforce_ssl=True, display_name=f"Odradek {stage.name}")
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sns:Publish"],
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        if stage.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(stage.alarm_email))
        self._add_alarms()
        self._add_dashboard()
        CfnOutput(self, "AlarmTopicArn", value=self.topic.topic_arn)

    # --- metrics --------------------------------------------------------------------------------------------------

    def _request(self, name: str, function: str, statistic: str = "Sum") -> cloudwatch.Metric:
        if name not in REQUEST_METRICS:
            raise ValueError(f"functions write no metric {name!r}")
        dimensions = {"cluster_id": self._stage.settings.cluster_id, "function": function}
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map=dimensions,
            statistic=statistic,
            period=_PERIOD,
            label=f"{function} {statistic}" if statistic != "Sum" else function,
        )

    def _backlog(self, name: str) -> cloudwatch.Metric:
        if name not in _BACKLOG:
            raise ValueError(f"maintenance writes no metric {name!r}")
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"cluster_id": self._stage.settings.cluster_id},
            statistic="Maximum",
            period=_PERIOD,
        )

    def _rejections(self) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=REJECTIONS,
            dimensions_map={"cluster_id": self._stage.settings.cluster_id},
            statistic="Sum",
            period=_PERIOD,
        )

    def _of_function(self, name: str, function: str, statistic: str = "Sum") -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name=name,
            dimensions_map={"FunctionName": f"odradek-{self._stage.name}-{function}"},
            statistic=statistic,
            period=_PERIOD,
            label=function,
        )

    def _throttled_tables(self) -> list[cloudwatch.IMetric]:
        return [
            cloudwatch.Metric(
                namespace="AWS/DynamoDB",
                metric_name=name,
                dimensions_map={"TableName": table.table_name},
                statistic="Sum",
                period=_PERIOD,
            )
            for table in self._store.tables.values()
            for name in ("ReadThrottleEvents", "WriteThrottleEvents")
        ]

    def _of_queue(self, name: str, queue: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/SQS",
            metric_name=name,
            dimensions_map={"QueueName": queue},
            statistic="Maximum",
            period=_PERIOD,
            label=queue,
        )

    # --- alarms ---------------------------------------------------------------------------------------------------

    def _add_alarms(self) -> None:
        stage = self._stage
        for name in _FUNCTIONS:
            self._alarm(f"{name}-faults", self._request("faults", name), 0, periods=1, missing_is_bad=False)
            self._alarm(f"{name}-throttled", self._of_function("Throttles", name), 0, periods=3, missing_is_bad=False)
        for name in (FunctionName.PRODUCE.value, FunctionName.FETCH.value):
            self._alarm(
                f"{name}-errors", self._of_function("Errors", name), stage.alarms.function_errors_max, periods=2
            )
        latency = self._request("duration_ms", FunctionName.PRODUCE.value, "p99")
        self._alarm("produce-slow", latency, stage.alarms.produce_p99_ms_max, periods=3)
        self._alarm("store-rejected", self._rejections(), 0, periods=1)
        late = max(1, -(-3 * stage.maintenance_every_minutes // 5))
        ran = self._of_function("Invocations", MAINTENANCE)
        self._alarm("maintenance-silent", ran, 1, periods=late, below=True, missing_is_bad=True)
        self._alarm("maintenance-failures", self._backlog("maintenance_failures"), 0, periods=late)
        age = self._of_queue("ApproximateAgeOfOldestMessage", queue_name(stage))
        self._alarm("maintenance-late", age, stage.alarms.task_age_s_max, periods=3)
        dead = self._of_queue("ApproximateNumberOfMessagesVisible", dead_letters_name(stage))
        self._alarm("maintenance-dead-letters", dead, 0, periods=1)
        self._alarm("tail-long", self._backlog("tail_entries_max"), stage.alarms.tail_entries_max, periods=late)
        self._alarm(
            "sweep-behind", self._backlog("sweep_backlog_seconds"), stage.alarms.sweep_backlog_s_max, periods=late
        )
        self._alarm("group-lag", self._backlog("group_lag_records_max"), stage.alarms.group_lag_max, periods=late)
        throttled = cloudwatch.MathExpression(
            expression="SUM(METRICS())",
            using_metrics={f"m{i}": metric for i, metric in enumerate(self._throttled_tables())},
            period=_PERIOD,
            label="throttled requests to tables",
        )
        self._alarm("tables-throttled", throttled, stage.alarms.table_throttles_max, periods=2)

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        limit: float,
        *,
        periods: int,
        below: bool = False,
        missing_is_bad: bool = False,
    ) -> None:
        comparison = cloudwatch.ComparisonOperator
        alarm = cloudwatch.Alarm(
            self,
            "".join(part.capitalize() for part in name.split("-")),
            alarm_name=f"odradek-{self._stage.name}-{name}",
            alarm_description=f"What to do: docs/OPERATIONS.md, {name}",
            metric=metric,
            threshold=limit,
            evaluation_periods=periods,
            comparison_operator=comparison.LESS_THAN_THRESHOLD if below else comparison.GREATER_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING
            if missing_is_bad
            else cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))

    # --- dashboard ------------------------------------------------------------------------------------------------

    def _add_dashboard(self) -> None:
        board = cloudwatch.Dashboard(self, "Board", dashboard_name=f"odradek-{self._stage.name}")
        clients = [name.value for name in FunctionName]
        board.add_widgets(
            _graph("Bytes in", [self._request("bytes_in", "produce")]),
            _graph("Bytes out", [self._request("bytes_out", "fetch")]),
            _graph(
                "Latency (ms)",
                [self._request("duration_ms", name, p) for name in ("produce", "fetch") for p in ("p50", "p99")],
            ),
        )
        board.add_widgets(
            _graph("Refused requests", [self._request("errors", name) for name in clients]),
            _graph("Unexpected errors", [self._request("faults", name) for name in _FUNCTIONS]),
            _graph("Throttled", [self._of_function("Throttles", n) for n in _FUNCTIONS] + self._throttled_tables()),
        )
        board.add_widgets(
            _graph("Longest tail (entries)", [self._backlog("tail_entries_max")]),
            _graph("Records not merged", [self._backlog("unmerged_records")]),
            _graph("Sweep behind by (s)", [self._backlog("sweep_backlog_seconds")]),
        )
        board.add_widgets(
            _graph(
                "Maintenance tasks",
                [
                    self._of_queue("ApproximateNumberOfMessagesVisible", queue_name(self._stage)),
                    self._of_queue("ApproximateNumberOfMessagesNotVisible", queue_name(self._stage)),
                    self._of_queue("ApproximateNumberOfMessagesVisible", dead_letters_name(self._stage)),
                ],
            ),
            _graph("Oldest task (s)", [self._of_queue("ApproximateAgeOfOldestMessage", queue_name(self._stage))]),
            _graph("Maintainers at once", [self._of_function("ConcurrentExecutions", MAINTAINER, "Maximum")]),
        )
        board.add_widgets(
            _graph("Largest lag of a group (records)", [self._backlog("group_lag_records_max")]),
            _graph("Table units", [self._request(f"table_{k}_units", n) for k in ("write", "read") for n in clients]),
            _graph(
                "Object requests",
                [self._request(f"object_{kind}_requests", name) for kind in ("put", "get") for name in _FUNCTIONS],
            ),
        )


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8, height=6)
