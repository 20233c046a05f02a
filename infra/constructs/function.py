"""A function of Odradek: code, layer, role, log group, environment. arm64: a fifth cheaper per GB-second than x86.

The environment is filled from the names that lambdas/ reads (odradek.functions.environment) and from
`Settings.to_env`, so the two sides cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct
from odradek.functions import environment as variables

from infra.artifacts import Artifacts
from infra.constructs.store_role import Store, StoreRole
from infra.permissions import PERMISSIONS, TableName
from infra.stages import Stage

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64


class OdradekLayer(Construct):
    """The wheel and its dependencies. One per stack, from one asset: a layer's ARN changes with every version, and
    CloudFormation refuses to change a value that another stack imports."""

    def __init__(self, scope: Construct, construct_id: str, *, artifacts: Artifacts) -> None:
        super().__init__(scope, construct_id)
        self.version = lambda_.LayerVersion(
            self,
            "Version",
            code=lambda_.Code.from_asset(str(artifacts.layer)),
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[ARCHITECTURE],
            description="odradek and its dependencies",
        )


class TablesLayer(Construct):
    """The layer with which the maintainer writes columnar history and Iceberg tables.

    It is for that function alone, so that the others start no slower.
    """

    def __init__(self, scope: Construct, construct_id: str, *, zip_file: Path) -> None:
        super().__init__(scope, construct_id)
        self.version = lambda_.LayerVersion(
            self,
            "Version",
            code=lambda_.Code.from_asset(str(zip_file)),
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[ARCHITECTURE],
            description="odradek: what writes columnar history and Iceberg tables",
        )


class OdradekFunction(Construct):
    """One function; `name` is a key of environment.HANDLERS, stages.FUNCTION_SIZES and permissions.PERMISSIONS."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        stage: Stage,
        store: Store,
        artifacts: Artifacts,
        layer: OdradekLayer,
        extra_environment: Mapping[str, str] | None = None,
        snap_start: bool = False,
    ) -> None:
        """`snap_start`: for a function that is called by a version, as an alias does."""
        super().__init__(scope, construct_id)
        size = stage.size_of(name)
        self.role = StoreRole(
            self, "Access", service="lambda.amazonaws.com", permissions=PERMISSIONS[name], store=store
        ).role
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            retention=log_retention(stage.log_retention_days),
            removal_policy=RemovalPolicy.RETAIN if stage.keeps_data else RemovalPolicy.DESTROY,
        )
        # Streams and events only: the log group is created here, so the function never creates one without expiry.
        self.log_group.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=f"odradek-{stage.name}-{name}",
            description=f"Odradek {name}",
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            handler=variables.HANDLERS[name],
            code=lambda_.Code.from_asset(str(artifacts.functions)),
            layers=[layer.version],
            memory_size=size.memory_mb,
            timeout=Duration.seconds(size.timeout_s),
            role=self.role,
            log_group=self.log_group,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            reserved_concurrent_executions=stage.reserved_concurrency.get(name),
            # Lambda's own lines of invocations that succeed would cost more than the function's. Of those that do not,
            # of time-outs and of failed initializations, they are warnings.
            logging_format=lambda_.LoggingFormat.JSON,
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            environment={
                **store_environment(store),
                **rows_environment(name, store),
                **stage.settings.to_env(),
                **(extra_environment or {}),
            },
        )


def store_environment(store: Store) -> dict[str, str]:
    """Return the variables that locate the store."""
    return {
        variables.LOG_TABLE: store.tables[TableName.LOG].table_name,
        variables.GROUPS_TABLE: store.tables[TableName.GROUPS].table_name,
        variables.CATALOG_TABLE: store.tables[TableName.CATALOG].table_name,
        variables.BUCKET: store.bucket_names,
    }


def rows_environment(name: str, store: Store) -> dict[str, str]:
    """Return the variable that locates the rows of served tables, for a function that may use them."""
    uses = any(grant.table is TableName.ROWS for grant in PERMISSIONS[name].tables)
    return {variables.ROWS_TABLE: store.tables[TableName.ROWS].table_name} if uses else {}


def log_retention(days: int) -> logs.RetentionDays:
    """Return CloudWatch's name for that many days. Raises ValueError if there is none."""
    names = {
        1: "ONE_DAY", 3: "THREE_DAYS", 5: "FIVE_DAYS", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH",
        60: "TWO_MONTHS", 90: "THREE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR",
    }  # fmt: skip
    if days not in names:
        raise ValueError(f"CloudWatch keeps logs for {', '.join(map(str, names))} days, not {days}")
    return logs.RetentionDays[names[days]]
