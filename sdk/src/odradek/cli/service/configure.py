"""`odradek configure`: save the outputs of a deployment's stacks as a profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from odradek.client.profiles import FILE, Profile, save_profile
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

_STACKS = ("storage", "api", "maintenance", "observability")
COORDINATOR_URL = "CoordinatorUrl"


def configure(
    stack: Annotated[
        str, typer.Option("--stack", help="Name of the deployment, odradek-prod, or of one of its stacks.")
    ],
    profile: Annotated[str | None, typer.Option("--profile", help="Name of the profile. Default: the stack's.")] = None,
    region: Annotated[str | None, typer.Option("--region", envvar="AWS_REGION", help="AWS region.")] = None,
) -> None:
    """Save the outputs of a deployment's stacks as a profile, which becomes the default.

    Example: [bold]odradek configure --stack odradek-prod[/bold]
    """
    described = describe_deployment(stack, region)
    described = replace(described, name=profile or described.name)
    save_profile(described, FILE.expanduser())
    typer.echo(f"profile {described.name}: {described.bootstrap_servers} ({FILE})")


def describe_deployment(stack: str, region: str | None) -> Profile:
    """Return the outputs of a deployment's stacks; its name is the stacks'. Raises KafkaError(INVALID_CONFIG)."""
    with extra("aws"):
        import boto3
    from botocore.exceptions import BotoCoreError

    base = stack
    for name in _STACKS:
        base = base.removesuffix(f"-{name}")
    try:
        client = boto3.client("cloudformation", region_name=region)
        outputs = read_outputs(client, base)
    except BotoCoreError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the request to CloudFormation failed: {error}") from None
    return Profile(base, outputs[COORDINATOR_URL], client.meta.region_name, outputs)


def read_outputs(cloudformation: Any, base: str) -> dict[str, str]:
    """Return the outputs of all stacks of a deployment. Raises KafkaError(INVALID_CONFIG) if it is not Odradek's."""
    from botocore.exceptions import ClientError

    outputs: dict[str, str] = {}
    for name in _STACKS:
        try:
            described = cloudformation.describe_stacks(StackName=f"{base}-{name}")["Stacks"][0]
        except ClientError as error:
            if "does not exist" in str(error):
                continue
            reason = error.response.get("Error", {}).get("Message", str(error))
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"CloudFormation refused the request: {reason}") from None
        outputs |= {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", ())}
    if COORDINATOR_URL not in outputs:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"there is no stack {base}-api with an output {COORDINATOR_URL} in this account and region: check --region",
        )
    return outputs
