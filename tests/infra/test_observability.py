"""The dashboard and the alarms; what the options of a stage add."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.cost.fixtures import FIXTURES, fixed_cost
from odradek.functions.telemetry import ATTENTION, DETAILED_METRICS, NAMESPACE, Reason

from infra.stages import STAGES
from tests.infra.conftest import Deployment
from tests.infra.test_alarms import metrics_of

ROOT = Path(__file__).resolve().parents[2]


def test_every_alarm_is_told_to_somebody_and_explained(gateway: Deployment) -> None:
    page = (ROOT / "docs" / "OPERATIONS.md").read_text()
    alarms = [
        alarm["Properties"]
        for stack in gateway.templates
        for alarm_type in ("Alarm", "CompositeAlarm")
        for alarm in gateway.resources(stack, f"AWS::CloudWatch::{alarm_type}").values()
    ]
    assert len(alarms) > 15
    for alarm in alarms:
        name = alarm["AlarmName"].removeprefix("odradek-prod-")
        # Parts of another alarm, and what guards a deployment, which fails and says so.
        is_silent = name in ("gateway-started", "gateway-stopped") or "-canary-" in name
        assert ("AlarmActions" in alarm) != is_silent, name
        if is_silent:
            continue
        name = re.sub("^job-.*-(silent|behind)$", r"job-<name>-\1", name)
        assert f"`{name}`" in page, f"OPERATIONS.md does not say what to do about {name}"


def test_every_reason_for_attention_is_explained() -> None:
    page = (ROOT / "docs" / "OPERATIONS.md").read_text()
    for reason in Reason:
        assert f"`{reason.value}`" in page


def test_the_dashboard_is_an_option_and_shows_what_the_functions_write(
    prod: Deployment, dev: Deployment, synthesize_stage: Callable[..., Deployment]
) -> None:
    for deployment in (dev, prod):
        assert not deployment.resources("observability", "AWS::CloudWatch::Dashboard")
    settings = replace(STAGES["prod"].settings, detailed_metrics=True)
    made = synthesize_stage(replace(STAGES["prod"], dashboard=True, settings=settings))
    text = json.dumps(made.only("observability", "AWS::CloudWatch::Dashboard")["Properties"]["DashboardBody"])
    shown = set(re.findall(r'\\"Odradek\\",\\"(\w+)\\"', text))
    assert {"bytes_in", "bytes_out", "errors", ATTENTION} == shown
    assert shown <= {*DETAILED_METRICS, ATTENTION}


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_what_a_stage_costs_whatever_is_written_is_what_its_templates_have(
    name: str, request: pytest.FixtureRequest
) -> None:
    deployment: Deployment = request.getfixturevalue(name)

    def all_of(resource_type: str) -> list[dict[str, Any]]:
        return [
            resource["Properties"]
            for stack in deployment.templates
            for resource in deployment.resources(stack, f"AWS::{resource_type}").values()
        ]

    fixtures = FIXTURES[name]
    assert sum(len(metrics_of(alarm)) for alarm in all_of("CloudWatch::Alarm")) == fixtures.alarm_metrics
    assert len(all_of("CloudWatch::CompositeAlarm")) == fixtures.composite_alarms
    assert len(all_of("CloudWatch::Dashboard")) == fixtures.dashboards
    assert STAGES[name].maintenance_every_minutes == fixtures.plan_every_minutes
    assert len(all_of("Lambda::EventSourceMapping")) == fixtures.queues
    assert not all_of("KMS::Key")
    assert not all_of("EC2::NatGateway")
    for properties in deployment.functions().values():
        assert properties["LoggingConfig"]["SystemLogLevel"] == "WARN", "or each call has three lines of Lambda's"
    for group in all_of("Logs::LogGroup"):
        assert group["RetentionInDays"] == STAGES[name].log_retention_days
    assert sum(fixed_cost(fixtures).values()) < {"dev": 0.95, "prod": 4.0}[name], "plans and their reads come on top"


def test_runs_that_failed_are_kept_in_prod(prod: Deployment, dev: Deployment) -> None:
    kept = set(prod.resources("maintenance", "AWS::SQS::Queue")) - set(dev.resources("maintenance", "AWS::SQS::Queue"))
    [queue] = kept
    assert queue.startswith("EveryDeadLetters")
    config = prod.only("maintenance", "AWS::Lambda::EventInvokeConfig")["Properties"]
    assert config["MaximumRetryAttempts"] == 2
    assert config["DestinationConfig"]["OnFailure"]


def test_tasks_that_wait_too_long_or_fail_for_good_are_noticed(prod: Deployment) -> None:
    names = {
        queue["Properties"]["QueueName"]
        for queue in prod.resources("maintenance", "AWS::SQS::Queue").values()
        if "QueueName" in queue["Properties"]
    }
    alarms = {
        alarm["Properties"]["AlarmName"].removeprefix("odradek-prod-"): alarm["Properties"]
        for alarm in prod.resources("observability", "AWS::CloudWatch::Alarm").values()
    }
    late, dead = alarms["maintenance-late"], alarms["maintenance-dead-letters"]
    metrics = [alarm["Metrics"][0]["MetricStat"]["Metric"] for alarm in (late, dead)]
    assert [metric["MetricName"] for metric in metrics] == [
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesVisible",
    ]
    assert {metric["Dimensions"][0]["Value"] for metric in metrics} == names
    assert (late["Threshold"], dead["Threshold"]) == (3 * 3600, 0)


def test_what_the_functions_find_is_noticed_at_once(prod: Deployment) -> None:
    alarms = {
        alarm["Properties"]["AlarmName"].removeprefix("odradek-prod-"): alarm["Properties"]
        for alarm in prod.resources("observability", "AWS::CloudWatch::Alarm").values()
    }
    rejected = alarms["attention"]
    assert (rejected["Namespace"], rejected["MetricName"]) == (NAMESPACE, ATTENTION)
    assert [dimension["Name"] for dimension in rejected["Dimensions"]] == ["cluster_id"]
    assert (rejected["Threshold"], rejected["EvaluationPeriods"], rejected["Statistic"]) == (0, 1, "Sum")
    assert rejected["ComparisonOperator"] == "GreaterThanThreshold"
    assert rejected["TreatMissingData"] == "notBreaching"


@pytest.fixture(scope="module")
def optioned(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    stage = replace(
        STAGES["prod"],
        own_key=True,
        alarm_email="on-call@example.com",
        reserved_concurrency={"produce": 50},
        wal_zone_id="use1-az4",
        endpoint_vpc_id="vpc-0123456789abcdef0",
        endpoint_route_table_ids=("rtb-0123456789abcdef0",),
    )
    return synthesize_stage(stage)


def test_a_key_of_ones_own_encrypts_everything_and_every_role_may_use_it(optioned: Deployment) -> None:
    assert optioned.only("storage", "AWS::KMS::Key")["Properties"]["EnableKeyRotation"] is True
    for table in optioned.resources("storage", "AWS::DynamoDB::Table").values():
        assert table["Properties"]["SSESpecification"]["SSEType"] == "KMS"
    rules = optioned.only("storage", "AWS::S3::Bucket")["Properties"]["BucketEncryption"]
    [rule] = rules["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert rule["BucketKeyEnabled"] is True
    for queue in optioned.resources("maintenance", "AWS::SQS::Queue").values():
        assert "KmsMasterKeyId" in queue["Properties"]
    assert "KmsMasterKeyId" in optioned.only("observability", "AWS::SNS::Topic")["Properties"]
    policies = optioned.only("storage", "AWS::KMS::Key")["Properties"]["KeyPolicy"]["Statement"]
    services = [statement["Principal"]["Service"] for statement in policies if "Service" in statement["Principal"]]
    assert ["cloudwatch.amazonaws.com", "events.amazonaws.com"] in services
    for stack in ("api", "maintenance", "pipeline"):
        for key, policy in optioned.resources(stack, "AWS::IAM::Policy").items():
            if key.startswith("Canaries"):  # CodeDeploy moves aliases and reads no data
                continue
            statements: list[dict[str, Any]] = policy["Properties"]["PolicyDocument"]["Statement"]
            [kms] = [
                statement
                for statement in statements
                if "kms:Decrypt" in statement["Action"] and "Condition" in statement
            ]
            services = kms["Condition"]["StringLike"]["kms:ViaService"]
            assert ("sqs.*.amazonaws.com" in services) == key.startswith(("Maintenance", "Maintainer"))


def test_the_wal_may_have_a_directory_bucket_of_its_own(optioned: Deployment) -> None:
    bucket = optioned.only("storage", "AWS::S3Express::DirectoryBucket")
    assert bucket["DeletionPolicy"] == "Retain"
    properties = bucket["Properties"]
    assert (properties["DataRedundancy"], properties["LocationName"]) == ("SingleAvailabilityZone", "use1-az4")
    sessions = {}
    for stack in optioned.templates:
        for key, policy in optioned.resources(stack, "AWS::IAM::Policy").items():
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                if statement["Action"] == "s3express:CreateSession":
                    assert '"*"' not in json.dumps(statement["Resource"])
                    sessions[key.split("Access")[0]] = statement.get("Condition")
    read_only = {"StringEquals": {"s3express:SessionMode": "ReadOnly"}}
    assert sessions["Produce"] is sessions["Maintainer"] is None
    assert sessions["Fetch"] == read_only
    assert sessions.keys().isdisjoint({"Admin", "Maintenance"})
    for function in optioned.functions().values():
        bucket_names = json.dumps(function["Environment"]["Variables"]["ODRADEK_BUCKET"])
        assert bucket_names.count("Fn::ImportValue") == 2, "both buckets"


def test_other_options(optioned: Deployment) -> None:
    assert optioned.functions()["produce"]["ReservedConcurrentExecutions"] == 50
    assert "ReservedConcurrentExecutions" not in optioned.functions()["fetch"]
    endpoints = optioned.resources("storage", "AWS::EC2::VPCEndpoint").values()
    assert {endpoint["Properties"]["VpcEndpointType"] for endpoint in endpoints} == {"Gateway"}
    assert len(endpoints) == 2
    subscription = optioned.only("observability", "AWS::SNS::Subscription")["Properties"]
    assert subscription["Endpoint"] == "on-call@example.com"
