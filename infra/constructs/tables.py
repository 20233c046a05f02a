"""The tables, with the same form: items under (`pk`, `sk`), both strings; point-in-time recovery.

They are on demand, or have provisioned capacity that Application Auto Scaling adapts. Such a table begins with its
maximum: a load that is there already when the option is set is not throttled, and a quarter of an hour later the
capacity follows it. The template's figure is not the minimum, because CloudFormation sets a table to that figure
whenever it changes, and operators change the minimum.

The rows of served tables follow from the log, so they are not backed up; DynamoDB removes those that have expired.

Names are generated, so a retained table never blocks a new deployment.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct
from odradek.operations.health.capacity import TableCapacity

from infra.permissions import TableName


class Tables(Construct):
    """The log, groups, catalog and rows tables, by name in `by_name`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        keeps_data: bool,
        capacities: Mapping[str, TableCapacity],
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._keeps_data = keeps_data
        self._key = key
        self.by_name = {name: self._table(name, capacities.get(name.value)) for name in TableName}

    def _table(self, name: TableName, capacity: TableCapacity | None) -> dynamodb.Table:
        mode = dynamodb.BillingMode
        table = dynamodb.Table(
            self,
            name.value.capitalize(),
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=mode.PAY_PER_REQUEST if capacity is None else mode.PROVISIONED,
            write_capacity=None if capacity is None else capacity.write_units_max,
            read_capacity=None if capacity is None else capacity.read_units_max,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=name is not TableName.ROWS
            ),
            time_to_live_attribute="x" if name is TableName.ROWS else None,
            encryption_key=self._key,
            deletion_protection=self._keeps_data,
            removal_policy=RemovalPolicy.RETAIN if self._keeps_data else RemovalPolicy.DESTROY,
        )
        if capacity is not None:
            resource = table.node.default_child
            assert isinstance(resource, dynamodb.CfnTable)
            resource.billing_mode = mode.PROVISIONED.value  # CDK leaves it out, and this may be a change of the mode
            for direction, scale in (
                ("writes", table.auto_scale_write_capacity),
                ("reads", table.auto_scale_read_capacity),
            ):
                least, most = capacity.bounds[direction]
                scaling = scale(min_capacity=least, max_capacity=most)
                scaling.scale_on_utilization(target_utilization_percent=capacity.target_percent)
        return table
