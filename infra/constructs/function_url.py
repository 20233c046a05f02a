"""Function URLs, the clients' way to the functions. AWS_IAM: a request that is not signed (SigV4) never runs code.

Producers and consumers attach `ClientPolicy` to their roles. Since October 2025 a URL needs two permissions (Lambda
developer guide, "Control access to Lambda function URLs"); the second is granted only for calls through a URL.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct


class SignedUrl(Construct):
    """The URL of one function; responses are buffered (Python functions cannot stream theirs)."""

    def __init__(self, scope: Construct, construct_id: str, *, function: lambda_.Function) -> None:
        super().__init__(scope, construct_id)
        self.url = function.add_function_url(
            auth_type=lambda_.FunctionUrlAuthType.AWS_IAM, invoke_mode=lambda_.InvokeMode.BUFFERED
        ).url


class ClientPolicy(Construct):
    """A managed policy that allows its holder to call these functions through their URLs, and nothing else."""

    def __init__(self, scope: Construct, construct_id: str, *, functions: Iterable[lambda_.Function]) -> None:
        super().__init__(scope, construct_id)
        arns = [function.function_arn for function in functions]
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            description="May call Odradek's functions: attach it to producers, consumers and admins",
            statements=[
                iam.PolicyStatement(
                    actions=["lambda:InvokeFunctionUrl"],
                    resources=arns,
                    conditions={"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}},
                ),
                iam.PolicyStatement(
                    actions=["lambda:InvokeFunction"],
                    resources=arns,
                    conditions={"Bool": {"lambda:InvokedViaFunctionUrl": "true"}},
                ),
            ],
        )
