"""The storage stack: bucket and tables. It holds all data; the other stacks can be deleted and created again."""

from __future__ import annotations

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.constructs.log_bucket import LogBucket
from infra.constructs.store_role import Store
from infra.constructs.tables import Tables
from infra.constructs.wal_bucket import WalBucket
from infra.stages import Stage


class StorageStack(Stack):
    """Holds the data; `store` passes it to other stacks."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Odradek: the log's bucket and tables",
            termination_protection=stage.keeps_data,
        )
        key = None
        if stage.own_key:
            removal = RemovalPolicy.RETAIN if stage.keeps_data else RemovalPolicy.DESTROY
            key = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal, description="Odradek")
            # What publishes alarms, and delivers events that failed, encrypts with it for this account.
            key.add_to_resource_policy(
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                    principals=[iam.ServicePrincipal(f"{name}.amazonaws.com") for name in ("cloudwatch", "events")],
                    resources=["*"],
                    conditions={"StringEquals": {"aws:SourceAccount": self.account}},
                )
            )
        self.store = Store(
            tables=Tables(self, "Tables", keeps_data=stage.keeps_data, capacities=stage.capacities, key=key).by_name,
            bucket=LogBucket(
                self, "Log", keeps_data=stage.keeps_data, keep_deleted_days=stage.keep_deleted_days, key=key
            ).bucket,
            key=key,
            wal_bucket=WalBucket(self, "Wal", zone_id=stage.wal_zone_id, keeps_data=stage.keeps_data, key=key).bucket
            if stage.wal_zone_id
            else None,
        )
        for service in ("s3", "dynamodb") if stage.endpoint_vpc_id else ():
            ec2.CfnVPCEndpoint(
                self,
                f"Endpoint{service.capitalize()}",
                vpc_id=stage.endpoint_vpc_id,
                service_name=f"com.amazonaws.{self.region}.{service}",
                vpc_endpoint_type="Gateway",
                route_table_ids=list(stage.endpoint_route_table_ids),
            )
        CfnOutput(self, "BucketName", value=self.store.bucket.bucket_name)
        if self.store.wal_bucket is not None:
            CfnOutput(self, "WalBucketName", value=self.store.wal_bucket.ref)
        for name, table in self.store.tables.items():
            CfnOutput(self, f"{name.value.capitalize()}TableName", value=table.table_name)
        for table_name, capacity in stage.capacities.items():  # for `odradek doctor`
            CfnOutput(self, f"{table_name.capitalize()}TableCapacity", value=str(capacity))
