"""The observability stack: one dashboard, the alarms that need action, and their topic.

    odradek-<stage>-*   alarms; what each means and what to do: docs/OPERATIONS.md
    job-failed          no alarm but a rule: Glue's events about runs that failed
    AlarmTopicArn       an SNS topic; `alarm_email` of the stage is subscribed to it

The metrics are those that the functions write as log lines (odradek.functions.telemetry) and AWS's metrics of
functions, tables and queues. Names come from the code that writes them, so a dashboard cannot name an unknown metric.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct
from odradek.engine.maintenance.backlog import Backlog
from odradek.functions.environment import MAINTAINER, MAINTENANCE, REGISTRY
from odradek.functions.telemetry import NAMESPACE, REJECTIONS, REQUEST_METRICS
from odradek.protocol.api import FunctionName
from odradek.spark.jobs.progress import NAMESPACE as JOB_METRICS

from infra.artifacts import Artifacts
from infra.constructs.alarm import add_alarm, add_silence, alarm_name, description
from infra.constructs.store_role import Store
from infra.constructs.task_queue import dead_letters_name, queue_name
from infra.stages import Stage

_PERIOD = Duration.minutes(5)
FAILED_STATES = ("FAILED", "TIMEOUT", "ERROR", "EXPIRED")  # of a run of a job (Glue's JobRunState)
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
        # Whatever comes of plans comes as often as they do; a shorter period would be mostly empty.
        self._plan_period = Duration.minutes(max(5, stage.maintenance_every_minutes))
        self._add_alarms()
        self._add_job_events()
        self._add_dashboard()
        CfnOutput(self, "AlarmTopicArn", value=self.topic.topic_arn)

    # --- metrics --------------------------------------------------------------------------------------------------

    def _period(self, function: str) -> Duration:
        """Return the period of a function's datapoints."""
        return self._plan_period if function in (MAINTENANCE, MAINTAINER) else _PERIOD

    def _request(self, name: str, function: str, statistic: str = "Sum") -> cloudwatch.Metric:
        if name not in REQUEST_METRICS:
            raise ValueError(f"functions write no metric {name!r}")
        dimensions = {"cluster_id": self._stage.settings.cluster_id, "function": function}
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map=dimensions,
            statistic=statistic,
            period=self._period(function),
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
            period=self._plan_period,
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
            period=self._period(function),
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
        limits = self._stage.alarms
        for name in _FUNCTIONS:
            self._alarm(f"{name}-faults", self._request("faults", name), 0, periods=1)
            self._alarm(f"{name}-errors", self._failed_invocations(name), 0, periods=1)
            self._alarm(f"{name}-throttled", self._of_function("Throttles", name), 0, periods=2, of_periods=3)
        latency = self._request("duration_ms", FunctionName.PRODUCE.value, "p99")
        self._alarm("produce-slow", latency, limits.produce_p99_ms_max, periods=3)
        self._alarm("store-rejected", self._rejections(), 0, periods=1)
        add_silence(self, self._stage, self.topic, "maintenance", self._of_function("Invocations", MAINTENANCE))
        self._add_job_alarms()
        for name, metric, limit in (
            ("maintenance-failures", "maintenance_failures", 0),
            ("tail-long", "tail_entries_max", limits.tail_entries_max),
            ("sweep-behind", "sweep_backlog_seconds", limits.sweep_backlog_s_max),
            ("group-lag", "group_lag_records_max", limits.group_lag_max),
        ):
            # One of three may be missing: a plan that is a minute late has its data in the next period.
            self._alarm(name, self._backlog(metric), limit, periods=2, of_periods=3)
        age = self._of_queue("ApproximateAgeOfOldestMessage", queue_name(self._stage))
        self._alarm("maintenance-late", age, limits.task_age_s_max, periods=3)
        dead = self._of_queue("ApproximateNumberOfMessagesVisible", dead_letters_name(self._stage))
        self._alarm("maintenance-dead-letters", dead, 0, periods=1)
        throttled = cloudwatch.MathExpression(
            # Alarms on DynamoDB's metrics keep their state where data are missing; filled, they come back to OK.
            expression="SUM(FILL(METRICS(), 0))",
            using_metrics={f"m{i}": metric for i, metric in enumerate(self._throttled_tables())},
            period=_PERIOD,
            label="throttled requests to tables",
        )
        self._alarm("tables-throttled", throttled, limits.table_throttles_max, periods=2)

    def _alarm(
        self, name: str, metric: cloudwatch.IMetric, limit: float, *, periods: int, of_periods: int | None = None
    ) -> None:
        add_alarm(self, self._stage, self.topic, name, metric, limit, periods=periods, of_periods=of_periods)

    def _failed_invocations(self, name: str) -> cloudwatch.MathExpression:
        """Invocations that failed as a whole, where they are many or all: of a function that fails to import, all."""
        errors, invocations = self._of_function("Errors", name), self._of_function("Invocations", name)
        return cloudwatch.MathExpression(
            expression=f"IF(errors > {self._stage.alarms.function_errors_max} || errors >= invocations, errors, 0)",
            using_metrics={"errors": errors, "invocations": invocations},
            period=errors.period,
            label=f"{name}: failed invocations",
        )

    def _add_job_alarms(self) -> None:
        """Of the jobs that are to run all the time: their metrics come every minute (odradek.spark.jobs.listener).

        The operator has named these jobs, so that one which was never started is told, too.
        """
        for job in self._stage.running_jobs:
            name = f"job-{job.replace('_', '-')}"

            def metric(metric_name: str, statistic: str, job: str = job) -> cloudwatch.Metric:
                return cloudwatch.Metric(
                    namespace=JOB_METRICS,
                    metric_name=metric_name,
                    dimensions_map={"Job": f"odradek-{self._stage.name}-{job}"},
                    statistic=statistic,
                    period=_PERIOD,
                )

            add_alarm(
                self,
                self._stage,
                self.topic,
                f"{name}-silent",
                metric("LagOffsets", "SampleCount"),
                1,
                periods=3,
                below=True,
                missing=cloudwatch.TreatMissingData.BREACHING,
            )
            self._alarm(f"{name}-behind", metric("LagTime", "Maximum"), self._stage.alarms.job_lag_s_max, periods=3)

    def _add_job_events(self) -> None:
        """A message for every run of a job that ended otherwise than by success or by hand: Glue tells of each end."""
        events.Rule(
            self,
            "JobFailed",
            rule_name=alarm_name(self._stage, "job-failed"),
            description=description("job-failed"),
            event_pattern=events.EventPattern(
                source=["aws.glue"],
                detail_type=["Glue Job State Change"],
                detail={
                    "jobName": events.Match.prefix(f"odradek-{self._stage.name}-"),
                    "state": list(FAILED_STATES),
                },
            ),
            targets=[
                targets.SnsTopic(
                    self.topic,
                    message=events.RuleTargetInput.from_text(
                        f"{events.EventField.from_path('$.detail.jobName')} ended as "
                        f"{events.EventField.from_path('$.detail.state')}, run "
                        f"{events.EventField.from_path('$.detail.jobRunId')}: "
                        f"{events.EventField.from_path('$.detail.message')}. {description('job-failed')}"
                    ),
                )
            ],
        )

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
