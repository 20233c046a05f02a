"""The pipeline stack: Glue jobs over the log. They read the store directly, not through the functions.

Every folder of glue_jobs/ in permissions.JOBS is a job, with its checkpoint and output under jobs/<name>/ in the
bucket. The arguments of a run are given at its start: `aws glue start-job-run --arguments`, or `--config` with a YAML
file in the bucket.
"""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.artifacts import Artifacts
from infra.constructs.glue_job import GlueStreamingJob
from infra.constructs.store_role import Store
from infra.permissions import COMPACT_TOPIC, EXPORT_TABLE, FLIGHT_DELAYS, JOBS, TableName
from infra.stages import Stage

WITH_OUTPUT = (FLIGHT_DELAYS, EXPORT_TABLE)
WITHOUT_CHECKPOINT = (COMPACT_TOPIC,)  # its progress is in the log


class PipelineStack(Stack):
    """The jobs. None runs until it is started."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: PySpark jobs over the log, on Glue")
        artifacts.require(self)
        for name in JOBS:
            home = f"s3://{store.bucket.bucket_name}/jobs/{name}"
            arguments = {
                "log_table": store.tables[TableName.LOG].table_name,
                "catalog_table": store.tables[TableName.CATALOG].table_name,
                "bucket": store.bucket_names,
                "region": self.region,
            }
            if name not in WITHOUT_CHECKPOINT:
                arguments["checkpoint_location"] = f"{home}/checkpoint"
            if name in WITH_OUTPUT:
                arguments["output"] = f"{home}/output"
            if name != FLIGHT_DELAYS:
                arguments["metrics"] = "emf"
            title = "".join(word.capitalize() for word in name.split("_"))
            made = GlueStreamingJob(
                self,
                title,
                name=name,
                stage_name=stage.name,
                workers=stage.glue_workers,
                timeout_minutes=stage.job_timeout_minutes,
                maintenance_window=stage.job_maintenance_window,
                store=store,
                artifacts=artifacts,
                arguments=arguments,
            )
            CfnOutput(self, f"{title}JobName", value=str(made.job.name))
