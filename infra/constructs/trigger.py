"""A trigger as a resource of a stack: `Trigger(self, "Orders", stage="prod", name=..., topic=..., function=fn)`.

For stacks of one's own, in the account and region of the deployment. It grants the dispatcher the right to call the
function, and leave records at the destination, and has the triggers function create, change and delete the trigger.
"""

from __future__ import annotations

from typing import Any

from aws_cdk import CustomResource, Stack, custom_resources
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from odradek.functions.environment import TRIGGERS
from odradek.model.trigger import Trigger as Definition
from odradek.triggers.definition import check_trigger


def dispatcher_role_name(stage: str) -> str:
    """Return the name of the role that calls the functions of triggers."""
    return f"odradek-{stage}-trigger-dispatcher"


class Trigger(Construct):
    """A trigger.

    Args:
        stage: the deployment's name: dev, prod.
        name, topic: of the trigger.
        function: called with new records.
        on_failure: a queue, a topic of SNS, a bucket, or "topic:NAME" of the deployment; None: none.
        options: the others of odradek.model.trigger.Trigger, by their names. Raises KafkaError for a bad one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: str,
        name: str,
        topic: str,
        function: lambda_.IFunction,
        on_failure: sqs.Queue | sns.Topic | s3.Bucket | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(scope, construct_id)
        role = iam.Role.from_role_name(self, "Dispatcher", dispatcher_role_name(stage))
        granted = function.grant_invoke(role)
        # The ARN is not known before the deployment: the options are checked with one in its place.
        stand_in = "arn:aws:lambda:eu-west-1:123456789012:function:f"
        check_trigger(Definition(name=name, topic=topic, function=stand_in, **options))
        document = {
            "name": name,
            "topic": topic,
            "function": function.function_arn,
            **options,
            "filters": list(options.get("filters", ())),
        }
        if on_failure is not None:
            document["on_failure"] = _destination(on_failure, role)
        provider = custom_resources.Provider(
            self,
            "Provider",
            on_event_handler=lambda_.Function.from_function_name(self, "Triggers", f"odradek-{stage}-{TRIGGERS}"),
        )
        resource = CustomResource(
            self,
            "Resource",
            service_token=provider.service_token,
            resource_type="Custom::OdradekTrigger",
            # One text: CloudFormation would make texts of numbers.
            properties={"Trigger": Stack.of(self).to_json_string(document)},
        )
        resource.node.add_dependency(granted)


def _destination(on_failure: sqs.Queue | sns.Topic | s3.Bucket | str, role: iam.IRole) -> str:
    if isinstance(on_failure, str):
        return on_failure
    if isinstance(on_failure, sqs.Queue):
        on_failure.grant_send_messages(role)
        return f"sqs:{on_failure.queue_url}"
    if isinstance(on_failure, sns.Topic):
        on_failure.grant_publish(role)
        return f"sns:{on_failure.topic_arn}"
    on_failure.grant_put(role, "*")
    return f"s3:{on_failure.bucket_name}"
