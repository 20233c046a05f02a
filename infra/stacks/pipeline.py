"""The pipeline stack: Glue jobs over the log. They read the store directly, not through the functions."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.artifacts import Artifacts
from infra.constructs.glue_job import GlueStreamingJob
from infra.constructs.store_role import Store
from infra.permissions import FLIGHT_DELAYS, TableName
from infra.stages import Stage


class PipelineStack(Stack):
    """The job flight_delays; its output and its checkpoint lie under jobs/flight_delays/ in the bucket."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: PySpark jobs over the log, on Glue")
        artifacts.require(self)
        home = f"s3://{store.bucket.bucket_name}/jobs/{FLIGHT_DELAYS}"
        made = GlueStreamingJob(
            self,
            "FlightDelays",
            name=FLIGHT_DELAYS,
            stage_name=stage.name,
            workers=stage.glue_workers,
            store=store,
            artifacts=artifacts,
            arguments={
                "log_table": store.tables[TableName.LOG].table_name,
                "catalog_table": store.tables[TableName.CATALOG].table_name,
                "bucket": store.bucket.bucket_name,
                "region": self.region,
                "checkpoint_location": f"{home}/checkpoint",
                "output": f"{home}/output",
            },
        )
        CfnOutput(self, "FlightDelaysJobName", value=str(made.job.name))
