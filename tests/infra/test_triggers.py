"""The construct `Trigger` in a stack of one's own, and the stack of the dispatcher: what they grant, keep and watch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.errors import KafkaError
from odradek.functions.environment import TRIGGER_DISPATCHER

from tests.infra.conftest import Deployment, as_list

ROLE = "odradek-prod-trigger-dispatcher"


def template(build: Any) -> dict[str, Any]:
    """The template of a stack that `build` fills."""
    from aws_cdk import App, Stack

    app = App()
    stack = Stack(app, "mine")
    build(stack)
    synthesized: dict[str, Any] = app.synth().get_stack_by_name("mine").template
    return synthesized


def function_in(stack: Any) -> Any:
    from aws_cdk import aws_lambda as lambda_

    return lambda_.Function(
        stack,
        "Function",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="app.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
    )


@pytest.fixture(scope="module")
def with_destinations() -> dict[str, Any]:
    from aws_cdk import aws_s3 as s3
    from aws_cdk import aws_sns as sns
    from aws_cdk import aws_sqs as sqs

    from infra.constructs.trigger import Trigger

    def build(stack: Any) -> None:
        destinations = {"queue": sqs.Queue(stack, "Q"), "sns": sns.Topic(stack, "N"), "bucket": s3.Bucket(stack, "B")}
        function = function_in(stack)
        for name, destination in {**destinations, "topic": "topic:failed", "none": None}.items():
            Trigger(
                stack,
                f"T{name}",
                stage="prod",
                name=name,
                topic="orders",
                function=function,
                on_failure=destination,
                bisect=True,
            )

    return template(build)


def granted_to_the_dispatcher(template: dict[str, Any]) -> list[tuple[str, str]]:
    """(action, resource) of all policies that are attached to the dispatcher's role."""
    return [
        (action, json.dumps(resource))
        for policy in template["Resources"].values()
        if policy["Type"] == "AWS::IAM::Policy" and ROLE in policy["Properties"].get("Roles", ())
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    ]


def test_the_dispatcher_gets_what_these_triggers_use_and_no_more(with_destinations: dict[str, Any]) -> None:
    granted = granted_to_the_dispatcher(with_destinations)
    assert {action for action, _ in granted} == {
        "lambda:InvokeFunction",
        "sqs:SendMessage",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
        "sns:Publish",
        "s3:PutObject",
        "s3:PutObjectLegalHold",
        "s3:PutObjectRetention",
        "s3:PutObjectTagging",
        "s3:PutObjectVersionTagging",
        "s3:Abort*",
    }
    for action, resource in granted:
        prefix = {"lambda": "Function", "sqs": "Q", "sns": "N", "s3": "B"}[action.partition(":")[0]]
        assert f'"{prefix}' in resource, (action, resource)
        assert '"*"' not in resource


def test_the_trigger_is_made_after_its_grants(with_destinations: dict[str, Any]) -> None:
    """Its first message would find a function that may not be called."""
    resources = with_destinations["Resources"]
    triggers = [resource for resource in resources.values() if resource["Type"] == "Custom::OdradekTrigger"]
    assert len(triggers) == 5
    for trigger in triggers:
        policies = [
            name for name in as_list(trigger.get("DependsOn", [])) if resources[name]["Type"] == "AWS::IAM::Policy"
        ]
        assert policies
        document = json.dumps(trigger["Properties"]["Trigger"])
        assert '\\"bisect\\":true' in document


def test_a_bad_option_fails_the_synthesis() -> None:
    from infra.constructs.trigger import Trigger

    def build(stack: Any) -> None:
        Trigger(
            stack, "T", stage="prod", name="t", topic="orders", function=function_in(stack), batch_size=0, bisect=True
        )

    with pytest.raises(KafkaError, match="batch_size must be 1 to 10000, not 0"):
        template(build)


def test_the_queue_keeps_what_a_dispatcher_could_not_do(prod: Deployment) -> None:
    queues = {
        queue["Properties"]["QueueName"]: queue["Properties"]
        for queue in prod.resources("triggers", "AWS::SQS::Queue").values()
    }
    wakes, dead = queues["odradek-prod-triggers"], queues["odradek-prod-triggers-dead-letters"]
    assert wakes["RedrivePolicy"]["maxReceiveCount"] == 5
    assert dead["MessageRetentionPeriod"] > wakes["MessageRetentionPeriod"]
    dispatcher = prod.functions()[TRIGGER_DISPATCHER]
    assert wakes["VisibilityTimeout"] > dispatcher["Timeout"], "a message comes again when its dispatcher has died"
    [mapping] = prod.resources("triggers", "AWS::Lambda::EventSourceMapping").values()
    assert mapping["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["Properties"]["ScalingConfig"]["MaximumConcurrency"] >= 2


def test_only_tls_reaches_the_queues(prod: Deployment) -> None:
    policies = prod.resources("triggers", "AWS::SQS::QueuePolicy").values()
    assert len(policies) == 2
    for policy in policies:
        statements = policy["Properties"]["PolicyDocument"]["Statement"]
        assert any(
            (one["Effect"], one.get("Condition")) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
            for one in statements
        )


def test_the_logs_of_the_dispatcher_end(prod: Deployment) -> None:
    groups = prod.resources("triggers", "AWS::Logs::LogGroup").values()
    assert [group["Properties"]["RetentionInDays"] for group in groups] == [90]
