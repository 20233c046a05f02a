"""A role made of a row of permissions.py: it names its tables, prefixes and actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.permissions import ObjectGrant, Permissions, TableGrant, TableName


@dataclass(frozen=True, slots=True)
class Store:
    """Where the log lives: what the storage stack hands to the others."""

    tables: dict[TableName, dynamodb.Table]
    bucket: s3.Bucket
    key: kms.IKey | None = None  # what both are encrypted with, where it is the deployment's own


class StoreRole(Construct):
    """A role that one service may assume and that may do to the store what `permissions` says."""

    def __init__(
        self, scope: Construct, construct_id: str, *, service: str, permissions: Permissions, store: Store
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal(service))
        for statement in _statements(permissions, store):
            self.role.add_to_policy(statement)


def _statements(permissions: Permissions, store: Store) -> Iterator[iam.PolicyStatement]:
    for table in permissions.tables:
        yield _table_statement(table, store)
    for objects in permissions.objects:
        yield _object_statement(objects, store)
    if permissions.writes_tables:
        yield _catalog_statement(store)
    if permissions.may_list:
        yield iam.PolicyStatement(actions=["s3:ListBucket"], resources=[store.bucket.bucket_arn])
    if store.key is not None:
        yield iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
            resources=[store.key.key_arn],
            conditions={"StringLike": {"kms:ViaService": ["dynamodb.*.amazonaws.com", "s3.*.amazonaws.com"]}},
        )


def _catalog_statement(store: Store) -> iam.PolicyStatement:
    """Tables of the Glue data catalog, in databases that are named for them."""
    stack = Stack.of(store.bucket)
    names = ("catalog", "database/odradek_*", "table/odradek_*/*")
    return iam.PolicyStatement(
        actions=["glue:GetDatabase", "glue:CreateDatabase", "glue:GetTable", "glue:CreateTable", "glue:UpdateTable"],
        resources=[
            stack.format_arn(service="glue", resource=name, arn_format=ArnFormat.NO_RESOURCE_NAME) for name in names
        ],
    )


def _table_statement(grant: TableGrant, store: Store) -> iam.PolicyStatement:
    conditions = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": list(grant.partition_keys)}}
    return iam.PolicyStatement(
        actions=list(grant.actions),
        resources=[store.tables[grant.table].table_arn],
        conditions=conditions if grant.partition_keys else None,
    )


def _object_statement(grant: ObjectGrant, store: Store) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=list(grant.actions),
        resources=[store.bucket.arn_for_objects(f"{prefix}*") for prefix in grant.prefixes],
    )
