"""`odradek doctor --before-deploy`: would a deployment into this account and region succeed?

    account      there are credentials, and whose they are
    region       it has Lambda function URLs
    concurrency  the quota of concurrent executions holds what the stage reserves, and what Lambda keeps unreserved
    bootstrap    CDK's bootstrap stack is there

It asks AWS and changes nothing. `make deploy` runs it with what the stage reserves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.operations.health.checks import Finding

# Source: Lambda developer guide, "Creating and managing Lambda function URLs".
REGIONS_WITHOUT_URLS: Final = frozenset(
    {
        "ap-south-2",
        "ap-southeast-4",
        "ap-southeast-5",
        "ca-west-1",
        "eu-central-2",
        "eu-south-2",
        "il-central-1",
        "me-central-1",
    }
)
UNRESERVED_MIN: Final = 100  # that Lambda leaves to functions without a reservation
COMFORTABLE: Final = 100  # executions at once; each long-polling consumer keeps one busy
_BOOTSTRAP: Final = "/cdk-bootstrap/hnb659fds/version"


def examine_account(region: str | None, reserve: int, endpoint_url: str | None = None) -> Iterator[Finding]:
    """Run the checks. Raises KafkaError(INVALID_CONFIG) where AWS cannot be asked at all.

    Args:
        region: where to deploy; None: the one of the environment.
        reserve: executions at once that the functions of the stage have set aside.
    """
    with extra("aws"):
        from boto3 import client as boto3_client
    from botocore.exceptions import BotoCoreError, ClientError

    def client(service: str) -> Any:
        made: Any = boto3_client  # typed for literal names alone
        return made(service, region_name=region, endpoint_url=endpoint_url)

    try:
        caller = client("sts")
        identity = caller.get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"AWS cannot be asked ({error}): set credentials and a region (AWS_REGION)"
        ) from None
    yield Finding("ok", "account", f"{identity['Account']} as {identity['Arn']}")
    yield region_finding(caller.meta.region_name)
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("concurrency", lambda: concurrency_finding(client("lambda").get_account_settings(), reserve)),
        ("bootstrap", lambda: _bootstrap_finding(client("ssm"))),
    )
    for check, work in checks:
        try:
            yield work()
        except (BotoCoreError, ClientError) as error:
            yield Finding("warn", check, f"cannot be checked ({error}): you may lack the permission")


def region_finding(region: str) -> Finding:
    """Check that the functions can have URLs in the region."""
    if region in REGIONS_WITHOUT_URLS:
        return Finding("FAIL", "region", f"{region} has no Lambda function URLs: deploy to another region")
    return Finding("ok", "region", f"{region} has Lambda function URLs")


def concurrency_finding(settings: dict[str, Any], reserve: int) -> Finding:
    """Check the quota in Lambda's account settings."""
    quota = int(settings["AccountLimit"]["ConcurrentExecutions"])
    unreserved = int(settings["AccountLimit"]["UnreservedConcurrentExecutions"])
    ask = "request an increase of Lambda's quota 'Concurrent executions' (Service Quotas)"
    if reserve and quota < reserve + UNRESERVED_MIN:
        text = (
            f"the quota is {quota}; the stage reserves {reserve} and Lambda keeps {UNRESERVED_MIN} unreserved: {ask}, "
        )
        return Finding("FAIL", "concurrency", f"{text}or lower reserved_concurrency of the stage")
    if reserve and unreserved < reserve + UNRESERVED_MIN:
        text = f"of {quota}, {unreserved} are unreserved: enough if this stage is among those that reserved the rest; "
        return Finding("warn", "concurrency", f"{text}its first deployment needs {reserve + UNRESERVED_MIN}")
    if quota < COMFORTABLE:
        return Finding("warn", "concurrency", f"the quota is {quota}: each long-polling consumer keeps one busy; {ask}")
    return Finding("ok", "concurrency", f"a quota of {quota}, {unreserved} unreserved")


def _bootstrap_finding(ssm: Any) -> Finding:
    try:
        version = ssm.get_parameter(Name=_BOOTSTRAP)["Parameter"]["Value"]
    except ssm.exceptions.ParameterNotFound:
        return Finding("FAIL", "bootstrap", "CDK is not bootstrapped here: `make cdk ARGS=bootstrap`, once")
    return Finding("ok", "bootstrap", f"version {version} of CDK's bootstrap stack")
