"""A Glue streaming job: one of the folders under glue_jobs/, with the wheels that it imports.

No run is started here: a job costs money while it runs, and an idle Odradek costs none.

The zip of wheels is uploaded under its own file name (in a folder named after its content), because Glue goes by the
end of the name; CDK's usual asset names are bare hashes. It has everything that a job installs, in the versions and
with the hashes of uv.lock (tools/package.py): no job asks a package index when it starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import ArnFormat, FileAssetLocation, FileAssetPackaging, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.artifacts import ROOT, Artifacts
from infra.constructs.store_role import Store, StoreRole
from infra.permissions import PERMISSIONS

GLUE_VERSION = "6.0"  # Spark 4.1, Python 3.13, Java 17: the first with Python data sources
WORKER_TYPE = "G.025X"  # the smallest, for streaming only


class GlueStreamingJob(Construct):
    """The job glue_jobs/<name>/job.py. `arguments` are passed as `--name value`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        stage_name: str,
        workers: int,
        timeout_minutes: int,
        maintenance_window: str,
        store: Store,
        artifacts: Artifacts,
        arguments: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = StoreRole(
            self, "Access", service="glue.amazonaws.com", permissions=PERMISSIONS[name], store=store
        ).role
        for statement in _observability(self):
            self.role.add_to_policy(statement)
        script = assets.Asset(self, "Script", path=str(ROOT / "glue_jobs" / name / "job.py"))
        # The rest of the job is in the wheel: job.py imports its transform from odradek.glue_jobs.<name>.
        wheels = _location(self, artifacts.glue_wheels)
        self.role.add_to_policy(_read_assets(self, script, wheels))
        self.job = glue.CfnJob(
            self,
            "Job",
            name=f"odradek-{stage_name}-{name}",
            role=self.role.role_arn,
            glue_version=GLUE_VERSION,
            worker_type=WORKER_TYPE,
            number_of_workers=workers,
            command=glue.CfnJob.JobCommandProperty(
                name="gluestreaming", python_version="3", script_location=script.s3_object_url
            ),
            # One run at a time owns the checkpoint; after a failure it is started again by the operator.
            execution_property=glue.CfnJob.ExecutionPropertyProperty(max_concurrent_runs=1),
            max_retries=0,
            # Left blank, Glue ends a run after eight hours (CreateJob, Timeout: 480 minutes from Glue 5.0 on).
            timeout=timeout_minutes,
            maintenance_window=maintenance_window,
            default_arguments={
                "--job-language": "python",
                "--enable-metrics": "true",
                "--enable-continuous-cloudwatch-log": "true",
                "--additional-python-modules": wheels.s3_object_url,
                "--python-modules-installer-option": "--no-index",
                **{f"--{key}": value for key, value in arguments.items()},
            },
        )


def _location(scope: Construct, file: Path) -> FileAssetLocation:
    """Have a file uploaded as <hash of its content>/<its file name>."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Stack.of(scope).synthesizer.add_file_asset(
        file_name=str(file), packaging=FileAssetPackaging.FILE, source_hash=f"{digest}/{file.stem}"
    )


def _read_assets(scope: Construct, script: assets.Asset, wheels: FileAssetLocation) -> iam.PolicyStatement:
    """Allow reading these two objects only: Asset.grant_read would open every asset of every app in the account."""
    return iam.PolicyStatement(
        actions=["s3:GetObject"],
        resources=[
            Stack.of(scope).format_arn(service="s3", region="", account="", resource=bucket, resource_name=key)
            for bucket, key in (
                (script.s3_bucket_name, script.s3_object_key),
                (wheels.bucket_name, wheels.object_key),
            )
        ],
    )


def _observability(scope: Construct) -> list[iam.PolicyStatement]:
    """Allow the logs and metrics that Glue writes."""
    log_groups = Stack.of(scope).format_arn(
        service="logs", resource="log-group", resource_name="/aws-glue/*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    return [
        iam.PolicyStatement(
            actions=["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"], resources=[log_groups]
        ),
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],  # the action has no resources; the namespace restricts it
            conditions={"StringEquals": {"cloudwatch:namespace": "Glue"}},
        ),
    ]
