"""A role built from a row of permissions.py, with its tables, prefixes and actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3express as s3express
from constructs import Construct

from infra.permissions import WAL_PREFIX, DatabaseGrant, ObjectGrant, Permissions, TableGrant, TableName


@dataclass(frozen=True, slots=True)
class Store:
    """The resources of the log, which the storage stack passes to the others."""

    tables: dict[TableName, dynamodb.Table]
    bucket: s3.Bucket
    key: kms.IKey | None = None  # encrypts both, if the deployment has a separate key
    wal_bucket: s3express.CfnDirectoryBucket | None = None  # if the WAL has a separate bucket

    @property
    def bucket_names(self) -> str:
        """The value of ODRADEK_BUCKET and of the jobs' argument (odradek.adapters.aws.wal_bucket)."""
        wal = self.wal_bucket
        return self.bucket.bucket_name if wal is None else f"{self.bucket.bucket_name},{wal.ref}"


class StoreRole(Construct):
    """A role that one service may assume, with the given permissions on the store."""

    def __init__(
        self, scope: Construct, construct_id: str, *, service: str, permissions: Permissions, store: Store
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal(service))
        for statement in statements(permissions, store):
            self.role.add_to_policy(statement)


def statements(permissions: Permissions, store: Store) -> Iterator[iam.PolicyStatement]:
    """Yield what a row of permissions.py allows."""
    for table in permissions.tables:
        yield _table_statement(table, store)
    for objects in permissions.objects:
        yield _object_statement(objects, store)
    if store.wal_bucket is not None:
        yield from _wal_statements(permissions, store.wal_bucket)
    for databases in permissions.databases:
        yield _database_statement(databases, store)
    if permissions.may_list:
        yield iam.PolicyStatement(actions=["s3:ListBucket"], resources=[store.bucket.bucket_arn])
    if store.key is not None:
        services = ["dynamodb", "s3", *(["s3express"] if store.wal_bucket is not None else [])]
        services += ["sqs"] if permissions.queue else []
        yield iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
            resources=[store.key.key_arn],
            conditions={"StringLike": {"kms:ViaService": [f"{service}.*.amazonaws.com" for service in services]}},
        )


def _wal_statements(permissions: Permissions, bucket: s3express.CfnDirectoryBucket) -> Iterator[iam.PolicyStatement]:
    """Yield statements for a directory bucket: a session of a reader, or of a writer, who may also read and delete."""
    actions = {action for grant in permissions.objects if WAL_PREFIX in grant.prefixes for action in grant.actions}
    if not actions:
        return
    writes = bool(actions & {"s3:PutObject", "s3:DeleteObject"})
    yield iam.PolicyStatement(
        actions=["s3express:CreateSession"],
        resources=[bucket.attr_arn],
        conditions=None if writes else {"StringEquals": {"s3express:SessionMode": "ReadOnly"}},
    )


def _database_statement(grant: DatabaseGrant, store: Store) -> iam.PolicyStatement:
    stack = Stack.of(store.bucket)
    names = ["catalog"]
    for database in grant.databases:
        names += [f"database/{database}", f"table/{database}/*"]
    return iam.PolicyStatement(
        actions=list(grant.actions),
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
