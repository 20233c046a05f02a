"""The observability stack: the alarms that need action, their topic, and a dashboard if the stage wants one.

    odradek-<stage>-*   alarms; what each means and what to do: docs/OPERATIONS.md
    job-failed          no alarm but a rule: Glue's events about runs that failed
    AlarmTopicArn       an SNS topic; `alarm_email` of the stage is subscribed to it

Each metric that an alarm evaluates is $0.10 a month, a custom metric $0.30 for as long as it has data, a dashboard $3
(odradek.cost.fixtures). So everything that the functions find by themselves is one metric, `attention`, which has data
only when something is wrong; the log line has the reason. The others are AWS's own metrics. Names come from the code
that writes them, so a dashboard cannot name an unknown metric.
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
from odradek.functions.environment import MAINTAINER, MAINTENANCE, REGISTRY, TABLES, TRIGGER_DISPATCHER, TRIGGERS
from odradek.functions.telemetry import ATTENTION, DETAILED_METRICS, NAMESPACE
from odradek.protocol.api import FunctionName
from odradek.spark.jobs.progress import NAMESPACE as JOB_METRICS

from infra.artifacts import Artifacts
from infra.constructs.alarm import add_alarm, alarm_name, description
from infra.constructs.store_role import Store
from infra.constructs.task_queue import MAINTENANCE_QUEUE, dead_letters_name, queue_name
from infra.permissions import TableName
from infra.stages import Stage

_PERIOD = Duration.minutes(5)
FAILED_STATES = ("FAILED", "TIMEOUT", "ERROR", "EXPIRED")  # of a run of a job (Glue's JobRunState)
_FUNCTIONS = (
    *(name.value for name in FunctionName),
    MAINTENANCE,
    MAINTAINER,
    REGISTRY,
    TRIGGERS,
    TABLES,
    TRIGGER_DISPATCHER,
)


class ObservabilityStack(Stack):
    """Alarms and dashboard of one stage."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: alarms and dashboard")
        self._stage = stage
        self._store = store
        self.topic = sns.Topic(
            self, "Alarms", enforce_ssl=True, display_name=f"Odradek {stage.name}", master_key=store.key
        )
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
        if stage.dashboard:
            self._add_dashboard()
        CfnOutput(self, "AlarmTopicArn", value=self.topic.topic_arn)

    # --- metrics --------------------------------------------------------------------------------------------------

    def _period(self, function: str) -> Duration:
        """Return the period of a function's datapoints."""
        return self._plan_period if function in (MAINTENANCE, MAINTAINER) else _PERIOD

    def _detailed(self, name: str, function: str) -> cloudwatch.Metric:
        if name not in DETAILED_METRICS:
            raise ValueError(f"functions write no metric {name!r}")
        dimensions = {"cluster_id": self._stage.settings.cluster_id, "function": function}
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map=dimensions,
            statistic="Sum",
            period=self._period(function),
            label=function,
        )

    def _attention(self) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=ATTENTION,
            dimensions_map={"cluster_id": self._stage.settings.cluster_id},
            statistic="Sum",
            period=_PERIOD,
        )

    def _of_function(
        self, name: str, function: str, period: Duration | None = None, statistic: str = "Sum"
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name=name,
            dimensions_map={"FunctionName": f"odradek-{self._stage.name}-{function}"},
            statistic=statistic,
            period=period or self._period(function),
            label=f"{function} {statistic}" if statistic != "Sum" else function,
        )

    def _of_account(self, name: str) -> cloudwatch.Metric:
        """A metric of all functions of the account and region: one metric to pay for, and nothing for each function."""
        return cloudwatch.Metric(namespace="AWS/Lambda", metric_name=name, statistic="Sum", period=_PERIOD)

    def _throttled_tables(self) -> list[cloudwatch.IMetric]:
        """Of the log's tables. That served tables are behind, maintenance tells (`attention`)."""
        return [
            self._of_table(name, table)
            for table in self._store.tables
            if table is not TableName.ROWS
            for name in ("ReadThrottleEvents", "WriteThrottleEvents")
        ]

    def _of_table(self, name: str, table: TableName) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/DynamoDB",
            metric_name=name,
            dimensions_map={"TableName": self._store.tables[table].table_name},
            statistic="Sum",
            period=_PERIOD,
        )

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
        self._alarm("attention", self._attention(), 0, periods=1)
        self._add_silence()
        self._add_job_alarms()
        if self._stage.all_alarms:
            self._add_more_alarms()
        else:
            self._alarm("functions-failed", self._of_account("Errors"), 0, periods=2, of_periods=3)

    def _add_more_alarms(self) -> None:
        limits = self._stage.alarms
        # Throttles come from the account's concurrency, so whose they are says little.
        self._alarm("functions-throttled", self._of_account("Throttles"), 0, periods=2, of_periods=3)
        # Each metric costs $0.10 a month. People call `triggers` and `tables`, and see their errors themselves.
        watched = [self._of_function("Errors", name, _PERIOD) for name in _FUNCTIONS if name not in (TRIGGERS, TABLES)]
        failed = self._sum("failed invocations", watched)
        # A single time-out among many is none: a function that cannot be imported goes on failing.
        self._alarm("functions-failed", failed, 0, periods=2, of_periods=6)
        latency = self._of_function("Duration", FunctionName.PRODUCE.value, _PERIOD, "p99")
        self._alarm("produce-slow", latency, limits.produce_p99_ms_max, periods=3)
        age = self._of_queue("ApproximateAgeOfOldestMessage", queue_name(self._stage, MAINTENANCE_QUEUE))
        self._alarm("maintenance-late", age, limits.task_age_s_max, periods=3)
        dead = self._of_queue("ApproximateNumberOfMessagesVisible", dead_letters_name(self._stage, MAINTENANCE_QUEUE))
        self._alarm("maintenance-dead-letters", dead, 0, periods=1)
        throttled = self._sum("throttled requests to tables", self._throttled_tables())
        self._alarm("tables-throttled", throttled, limits.table_throttles_max, periods=2)
        if self._stage.capacities:
            self._alarm("tables-at-maximum", self._outgrown(), 0, periods=3)

    def _outgrown(self) -> cloudwatch.MathExpression:
        """How many of the capacities of provisioned tables are used beyond what their maximum can be scaled to."""
        used: dict[str, cloudwatch.IMetric] = {}
        terms = []
        for table, capacity in self._stage.capacities.items():
            for direction, name in (("writes", "ConsumedWriteCapacityUnits"), ("reads", "ConsumedReadCapacityUnits")):
                used[f"{table}_{direction}"] = self._of_table(name, TableName(table))
                limit = round(capacity.scalable(direction) * _PERIOD.to_seconds())
                terms.append(f"IF(FILL({table}_{direction}, 0) > {limit}, 1, 0)")
        return cloudwatch.MathExpression(
            expression=" + ".join(terms), using_metrics=used, period=_PERIOD, label="capacities at their maximum"
        )

    def _sum(self, label: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.MathExpression:
        return cloudwatch.MathExpression(
            # Alarms on DynamoDB's metrics keep their state where data are missing; filled, they come back to OK.
            expression="SUM(FILL(METRICS(), 0))",
            using_metrics={f"m{i}": metric for i, metric in enumerate(metrics)},
            period=_PERIOD,
            label=label,
        )

    def _alarm(
        self, name: str, metric: cloudwatch.IMetric, limit: float, *, periods: int, of_periods: int | None = None
    ) -> None:
        add_alarm(self, self._stage, self.topic, name, metric, limit, periods=periods, of_periods=of_periods)

    def _add_silence(self) -> None:
        """An alarm when the schedule has stopped: no data where there were some.

        No data is what a new deployment has, too, so a period is silent only after one with data. A metric without any
        data cannot be filled, and then the alarm keeps its state: none in a new deployment, ALARM after a long silence.
        Three of four periods, so that those that are evaluated include one with data.
        """
        ran = cloudwatch.MathExpression(
            expression="IF(RUNNING_SUM(FILL(ran, 0)) > 0, FILL(ran, 0), 1)",
            using_metrics={"ran": self._of_function("Invocations", MAINTENANCE)},
            period=self._plan_period,
            label="plans of maintenance",
        )
        add_alarm(
            self,
            self._stage,
            self.topic,
            "maintenance-silent",
            ran,
            1,
            periods=3,
            of_periods=4,
            below=True,
            missing=cloudwatch.TreatMissingData.IGNORE,
        )

    def _add_job_alarms(self) -> None:
        """Of the jobs that are to run all the time: their metrics come every minute (odradek.spark.jobs.listener).

        The operator has named these jobs, so that one which was never started raises the alarm, too.
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
            _graph("Invocations", [self._of_function("Invocations", name) for name in clients]),
            _graph("Failed invocations", [self._of_function("Errors", name) for name in _FUNCTIONS]),
            _graph(
                "Latency (ms)",
                [
                    self._of_function("Duration", name, statistic=p)
                    for name in ("produce", "fetch")
                    for p in ("p50", "p99")
                ],
            ),
        )
        board.add_widgets(
            _graph("Attention", [self._attention()]),
            _graph("Throttled functions", [self._of_account("Throttles")]),
            _graph("Throttled requests to tables", self._throttled_tables()),
        )
        board.add_widgets(
            _graph(
                "Maintenance tasks",
                [
                    self._of_queue("ApproximateNumberOfMessagesVisible", queue_name(self._stage, MAINTENANCE_QUEUE)),
                    self._of_queue("ApproximateNumberOfMessagesNotVisible", queue_name(self._stage, MAINTENANCE_QUEUE)),
                    self._of_queue(
                        "ApproximateNumberOfMessagesVisible", dead_letters_name(self._stage, MAINTENANCE_QUEUE)
                    ),
                ],
            ),
            _graph(
                "Oldest task (s)",
                [self._of_queue("ApproximateAgeOfOldestMessage", queue_name(self._stage, MAINTENANCE_QUEUE))],
            ),
            _graph("Maintainers at once", [self._of_function("ConcurrentExecutions", MAINTAINER, statistic="Maximum")]),
        )
        board.add_widgets(_graph("Table units", self._units()))
        if self._stage.settings.detailed_metrics:
            board.add_widgets(
                _graph("Bytes in", [self._detailed("bytes_in", "produce")]),
                _graph("Bytes out", [self._detailed("bytes_out", "fetch")]),
                _graph("Refused requests", [self._detailed("errors", name) for name in clients]),
            )

    def _units(self) -> list[cloudwatch.IMetric]:
        return [
            cloudwatch.Metric(
                namespace="AWS/DynamoDB",
                metric_name=f"Consumed{direction}CapacityUnits",
                dimensions_map={"TableName": table.table_name},
                statistic="Sum",
                period=_PERIOD,
            )
            for table in self._store.tables.values()
            for direction in ("Write", "Read")
        ]


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8, height=6)
