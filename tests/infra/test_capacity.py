"""Tables with provisioned capacity: what CloudFormation gets, and what is refused before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from odradek.cost.tables import ALARM_METRICS, SCALING_ALARM_METRICS
from odradek.operations.health.capacity import TableCapacity

from infra.capacity import with_capacities
from infra.stages import STAGES
from tests.infra.conftest import Deployment
from tests.infra.test_alarms import metrics_of

LOG = {"capacity_log_writes": "2500-6000", "capacity_log_reads": "2700-8000"}


@pytest.fixture(scope="module")
def of_the_context(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    return synthesize_stage(STAGES["prod"], {**LOG, "capacity_target": "60"})


def tables(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """The properties of the tables, by log, groups, catalog and rows."""
    resources = deployment.resources("storage", "AWS::DynamoDB::Table")
    return {
        name: next(
            resource["Properties"]
            for key, resource in resources.items()
            if key.startswith(f"Tables{name.capitalize()}")
        )
        for name in ("log", "groups", "catalog", "rows")
    }


def test_a_table_of_the_context_scales_within_its_bounds_and_begins_with_its_maximum(
    of_the_context: Deployment,
) -> None:
    tables_by_name = tables(of_the_context)
    log = tables_by_name.pop("log")
    assert log["BillingMode"] == "PROVISIONED"
    assert log["ProvisionedThroughput"] == {"WriteCapacityUnits": 6000, "ReadCapacityUnits": 8000}
    assert log["DeletionProtectionEnabled"] is True
    assert log["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    for properties in tables_by_name.values():
        assert properties["BillingMode"] == "PAY_PER_REQUEST"
        assert "ProvisionedThroughput" not in properties
    targets = of_the_context.resources("storage", "AWS::ApplicationAutoScaling::ScalableTarget")
    scaled = {
        target["Properties"]["ScalableDimension"].rpartition(":")[2]: (
            target["Properties"]["MinCapacity"],
            target["Properties"]["MaxCapacity"],
        )
        for target in targets.values()
    }
    assert scaled == {"WriteCapacityUnits": (2500, 6000), "ReadCapacityUnits": (2700, 8000)}
    policies = of_the_context.resources("storage", "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    tracked = [policy["Properties"]["TargetTrackingScalingPolicyConfiguration"] for policy in policies]
    assert {tracking["TargetValue"] for tracking in tracked} == {60}
    assert {tracking["PredefinedMetricSpecification"]["PredefinedMetricType"] for tracking in tracked} == {
        "DynamoDBWriteCapacityUtilization",
        "DynamoDBReadCapacityUtilization",
    }


def test_the_doctor_learns_what_the_stage_says(of_the_context: Deployment, prod: Deployment) -> None:
    outputs = of_the_context.templates["storage"]["Outputs"]
    capacities = {key: output["Value"] for key, output in outputs.items() if key.endswith("TableCapacity")}
    assert set(capacities) == {"LogTableCapacity"}
    assert TableCapacity.parse(capacities["LogTableCapacity"]) == TableCapacity(2500, 6000, 2700, 8000, 60)
    assert not [key for key in prod.templates["storage"]["Outputs"] if key.endswith("TableCapacity")]


def test_the_estimate_counts_the_alarms_of_a_provisioned_table(of_the_context: Deployment, prod: Deployment) -> None:
    def watched(deployment: Deployment) -> int:
        alarms = deployment.resources("observability", "AWS::CloudWatch::Alarm").values()
        return sum(len(metrics_of(alarm["Properties"])) for alarm in alarms)

    assert watched(of_the_context) - watched(prod) == ALARM_METRICS
    policies = of_the_context.resources("storage", "AWS::ApplicationAutoScaling::ScalingPolicy")
    assert 4 * len(policies) == SCALING_ALARM_METRICS, "two for the use of the capacity, two for the capacity"


class Context:
    """A node with some context."""

    def __init__(self, context: dict[str, str]) -> None:
        self.try_get_context = context.get


def test_the_context_replaces_what_the_stage_says_of_that_table() -> None:
    groups = TableCapacity(1, 2, 3, 4)
    stage = replace(STAGES["prod"], capacities={"log": TableCapacity(1, 1, 1, 1), "groups": groups})
    node: Any = Context(LOG)
    assert with_capacities(stage, node).capacities == {"log": TableCapacity(2500, 6000, 2700, 8000), "groups": groups}
    none: Any = Context({})
    assert with_capacities(stage, none) == stage


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"capacity_log_writes": "2500-6000"}, "add -c capacity_log_reads"),
        ({**LOG, "capacity_log_reads": "2700"}, "capacity_log_reads must be units a second like 2500-6000, not '2700'"),
        ({**LOG, "capacity_log_writes": "6000-2500"}, "the table log: writes must be from 1 unit .* not 6000-2500"),
        ({**LOG, "capacity_log_writes": "0-10"}, "the table log: writes must be from 1 unit .* not 0-10"),
        ({**LOG, "capacity_target": "95"}, "target_percent must be 20 to 90, not 95"),
        ({**LOG, "capacity_target": "70%"}, "capacity_target must be a number of percent, not '70%'"),
        ({"capacity_target": "70"}, "capacity_target is for tables with"),
        ({"capacity_rows_writes": "1-2", "capacity_rows_reads": "1-2"}, "rows is not one of log, groups, catalog"),
    ],
)
def test_a_wrong_context_is_refused(context: dict[str, str], message: str) -> None:
    node: Any = Context(context)
    with pytest.raises(SystemExit, match=message):
        with_capacities(STAGES["dev"], node)


def test_a_stage_of_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match="capacities: topics is not one of log, groups, catalog"):
        replace(STAGES["dev"], capacities={"topics": TableCapacity(1, 1, 1, 1)})
