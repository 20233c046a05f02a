"""The storage stack: bucket and tables. All that lasts; the other stacks can be deleted and made again."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.constructs.log_bucket import LogBucket
from infra.constructs.store_role import Store
from infra.constructs.tables import Tables
from infra.stages import Stage


class StorageStack(Stack):
    """Holds the data; hands out `store`."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Odradek: the log's bucket and tables",
            termination_protection=stage.keeps_data,
        )
        self.store = Store(
            tables=Tables(self, "Tables", keeps_data=stage.keeps_data).by_name,
            bucket=LogBucket(self, "Log", keeps_data=stage.keeps_data).bucket,
        )
        CfnOutput(self, "BucketName", value=self.store.bucket.bucket_name)
        for name, table in self.store.tables.items():
            CfnOutput(self, f"{name.value.capitalize()}TableName", value=table.table_name)
