"""The tables, with the same form: items under (`pk`, `sk`), both strings; on demand; point-in-time recovery.

The rows of served tables follow from the log, so they are not backed up; DynamoDB removes those that have expired.

Names are generated, so a retained table never blocks a new deployment.
"""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.permissions import TableName


class Tables(Construct):
    """The log, groups, catalog and rows tables, by name in `by_name`."""

    def __init__(self, scope: Construct, construct_id: str, *, keeps_data: bool, key: kms.IKey | None = None) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self.by_name = {name: self._table(name, keeps_data) for name in TableName}

    def _table(self, name: TableName, keeps_data: bool) -> dynamodb.Table:
        return dynamodb.Table(
            self,
            name.value.capitalize(),
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=name is not TableName.ROWS
            ),
            time_to_live_attribute="x" if name is TableName.ROWS else None,
            encryption_key=self._key,
            deletion_protection=keeps_data,
            removal_policy=RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
        )
