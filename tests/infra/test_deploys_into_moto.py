"""A quick check that CloudFormation can make the resources in this order: moto deploys the stacks.

moto knows no function URLs, policies of buckets and topics, alarms or Glue jobs, and downloads no code: those are taken
out here (and asserted on the templates elsewhere).
"""

from __future__ import annotations

import copy
import json
from typing import Any

import boto3
import pytest
from moto import mock_aws
from odradek.functions import environment

from tests.infra.conftest import Deployment

REGION = "eu-west-1"
STACKS = ("storage", "api", "maintenance", "triggers", "pipeline", "observability")  # in the order of their references
UNSUPPORTED = {
    "AWS::Lambda::Url",
    "AWS::S3::BucketPolicy",
    "AWS::Glue::Job",
    "AWS::Lambda::LayerVersion",
    "AWS::SNS::TopicPolicy",
    "AWS::CloudWatch::Alarm",
}


def deployable(template: dict[str, Any]) -> str:
    """The template without what moto does not know, and without what refers to that."""
    template = copy.deepcopy(template)
    template.pop("Rules", None)  # of the bootstrap stack, which is not there
    template["Parameters"].pop("BootstrapVersion")
    unsupported = {key for key, resource in template["Resources"].items() if resource["Type"] in UNSUPPORTED}
    for key in unsupported:
        del template["Resources"][key]
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            properties = resource["Properties"]
            properties["Code"] = {"ZipFile": "def handler(event, context): ..."}
            properties.pop("Layers")
            for name in (
                environment.FUNCTION_URLS,
                environment.REGISTRY_URL,
                environment.TRIGGERS_URL,
                environment.TABLES_URL,
            ):
                properties["Environment"]["Variables"].pop(name, None)
    outputs = template.get("Outputs", {}).items()
    template["Outputs"] = {
        key: output for key, output in outputs if not any(name in json.dumps(output) for name in unsupported)
    }
    return json.dumps(template)


@pytest.fixture(scope="module")
def deployed(dev: Deployment) -> Any:
    with pytest.MonkeyPatch.context() as environ, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environ.setenv(name, "testing")
        cloudformation = boto3.client("cloudformation", REGION)
        for stack in STACKS:
            cloudformation.create_stack(
                StackName=f"odradek-dev-{stack}",
                TemplateBody=deployable(dev.templates[stack]),
                Capabilities=["CAPABILITY_NAMED_IAM"],
            )
        yield {
            output["OutputKey"]: output["OutputValue"]
            for stack in cloudformation.describe_stacks()["Stacks"]
            for output in stack.get("Outputs", [])
        }


def test_every_stack_can_be_made(deployed: dict[str, str]) -> None:
    cloudformation = boto3.client("cloudformation", REGION)
    states = {
        described["StackName"]: described["StackStatus"] for described in cloudformation.describe_stacks()["Stacks"]
    }
    assert states == {f"odradek-dev-{name}": "CREATE_COMPLETE" for name in STACKS}


def test_the_functions_are_told_the_tables_that_exist(deployed: dict[str, str]) -> None:
    variables = boto3.client("lambda", REGION).get_function_configuration(FunctionName="odradek-dev-produce")[
        "Environment"
    ]["Variables"]
    loaded = environment.Environment.from_env({**variables, environment.REGION: REGION})
    assert loaded.log_table == deployed["LogTableName"]
    assert loaded.groups_table == deployed["GroupsTableName"]
    assert loaded.catalog_table == deployed["CatalogTableName"]
    assert loaded.bucket == deployed["BucketName"]
    for table in (loaded.log_table, loaded.groups_table, loaded.catalog_table):
        keys = boto3.client("dynamodb", REGION).describe_table(TableName=table)["Table"]["KeySchema"]
        assert [key["AttributeName"] for key in keys] == ["pk", "sk"]
    boto3.client("s3", REGION).head_bucket(Bucket=loaded.bucket)


def test_the_schedule_calls_the_maintenance_function(deployed: dict[str, str]) -> None:
    events = boto3.client("events", REGION)
    [rule] = [rule for rule in events.list_rules()["Rules"] if "ScheduleExpression" in rule]
    (target,) = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    assert target["Arn"].endswith(f":function:{deployed['MaintenanceFunctionName']}")


def test_the_queue_that_maintenance_knows_calls_the_maintainer(deployed: dict[str, str]) -> None:
    functions, sqs = boto3.client("lambda", REGION), boto3.client("sqs", REGION)
    configuration = functions.get_function_configuration(FunctionName=deployed["MaintenanceFunctionName"])
    queue_url = configuration["Environment"]["Variables"][environment.QUEUE_URL]
    assert queue_url == deployed["MaintenanceQueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    (mapping,) = [mapping for mapping in mappings if mapping["EventSourceArn"] == attributes["QueueArn"]]
    assert mapping["FunctionArn"].split(":function:")[1].split(":")[0] == "odradek-dev-maintainer"
    dead = sqs.get_queue_attributes(QueueUrl=deployed["MaintenanceDeadLettersUrl"], AttributeNames=["QueueArn"])
    assert dead["Attributes"]["QueueArn"] == json.loads(attributes["RedrivePolicy"])["deadLetterTargetArn"]


def test_the_queue_that_appends_wake_calls_the_dispatcher_of_triggers(deployed: dict[str, str]) -> None:
    functions, sqs = boto3.client("lambda", REGION), boto3.client("sqs", REGION)
    arn = sqs.get_queue_attributes(QueueUrl=deployed["TriggerQueueUrl"], AttributeNames=["QueueArn"])["Attributes"]
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    (mapping,) = [mapping for mapping in mappings if mapping["EventSourceArn"] == arn["QueueArn"]]
    assert mapping["FunctionArn"].split(":function:")[1].split(":")[0] == "odradek-dev-trigger-dispatcher"
    for name in ("produce", "coordinator", "triggers", "trigger-dispatcher", "maintenance"):
        variables = functions.get_function_configuration(FunctionName=f"odradek-dev-{name}")["Environment"]["Variables"]
        assert variables[environment.WAKE_QUEUE_URL].endswith("/odradek-dev-triggers")
