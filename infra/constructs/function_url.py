"""Function URLs, the clients' way to the functions. AWS_IAM: a request that is not signed (SigV4) never runs code.

A URL is of the function's alias, so that a deployment may move it from version to version (release.py).

`ClientPolicy` is what a producer or consumer of the same account attaches to its own role. A caller of another account
needs the same in its account, and the consent of the function's own policy: `client_principals` and `client_org_id` of
the stage. Since October 2025 a URL asks for two permissions (Lambda developer guide, "Control access to Lambda function
URLs"); the second is granted by way of a URL only.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.stages import Stage


class SignedUrl(Construct):
    """The URL of one function; responses are buffered (Python functions cannot stream theirs)."""

    def __init__(self, scope: Construct, construct_id: str, *, alias: lambda_.Alias, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self.url = alias.add_function_url(
            auth_type=lambda_.FunctionUrlAuthType.AWS_IAM, invoke_mode=lambda_.InvokeMode.BUFFERED
        ).url
        for number, principal in enumerate(stage.client_principals):
            self._admit(f"Client{number}", alias, principal, None)
        if stage.client_org_id:
            self._admit("Organization", alias, "*", stage.client_org_id)

    def _admit(self, construct_id: str, alias: lambda_.Alias, principal: str, org_id: str | None) -> None:
        """Allow callers of another account through the URL only; their account has to allow it, too."""
        lambda_.CfnPermission(
            self,
            f"{construct_id}Url",
            action="lambda:InvokeFunctionUrl",
            function_name=alias.function_arn,
            principal=principal,
            principal_org_id=org_id,
            function_url_auth_type="AWS_IAM",
        )
        lambda_.CfnPermission(
            self,
            f"{construct_id}Function",
            action="lambda:InvokeFunction",
            function_name=alias.function_arn,
            principal=principal,
            principal_org_id=org_id,
            invoked_via_function_url=True,
        )


class ClientPolicy(Construct):
    """A managed policy that allows its holder to call these functions through their URLs, and nothing else."""

    def __init__(self, scope: Construct, construct_id: str, *, functions: Iterable[lambda_.Alias]) -> None:
        super().__init__(scope, construct_id)
        # The URL is the alias's; naming the function too opens nothing, since no other URL and no other way is allowed.
        arns = [arn for alias in functions for arn in (alias.function_arn, alias.lambda_.function_arn)]
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
