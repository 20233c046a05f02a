"""The console stack, optional: a console for many behind a function URL, with sign-in by Cognito.

    browser ──> function URL (public; response streaming) ──> the console (container, Lambda Web Adapter)
       └──> Cognito: hosted sign-in, code flow with PKCE            └──> tables and bucket, by the gateway's rights

The function acts for the user who signed in: `User:<name>`, or the principal of a group. ACLs of the service apply to
every action, and without an ACL nothing is allowed here, whatever the stage's settings say. Nobody can sign up: an
administrator creates users in the pool.

    -c console_domain=acme-odradek            prefix of Cognito's sign-in page, unique in the region
    -c console_groups=ops=User:operator,...   groups of the pool and the principals that they act as
    -c console_readers=support,...            groups that change nothing
    -c console_read_only=true                 nobody changes anything
    -c console_base_image=name@sha256:...     base image, by its digest; without it a tag, and a warning

The function's own variables cannot have its URL, nor the id of a client whose callback is that URL: the template would
refer to itself. Both are in a parameter of SSM, which the function reads when it starts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from aws_cdk import Annotations, CfnOutput, Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ssm as ssm
from constructs import Construct, Node

from infra.artifacts import DISTRIBUTIONS, Artifacts
from infra.constructs.function import ARCHITECTURE, log_retention, store_environment
from infra.constructs.store_role import Store, StoreRole
from infra.gateway_image import BASE_IMAGE, build_context, is_pinned
from infra.permissions import GATEWAY, PERMISSIONS
from infra.stages import Stage

# AWS's adapter of web servers to Lambda: https://github.com/awslabs/aws-lambda-web-adapter (Apache-2.0).
_ADAPTER = "public.ecr.aws/awsguru/aws-lambda-adapter:0.9.1"
_PORT = 8080
_MEMORY_MB = 1024
_TIMEOUT_S = 120  # of a live chart; a browser opens it again
_DOCKERFILE = f"""\
FROM {{base_image}}
COPY --from={_ADAPTER} /lambda-adapter /opt/extensions/lambda-adapter
COPY constraints.txt *.whl /install/
RUN pip install --no-cache-dir --constraint /install/constraints.txt \\
 "$(ls /install/odradek-*.whl)[console-oidc]" /install/odradek_*.whl && rm -r /install
USER 65534
EXPOSE {_PORT}
ENTRYPOINT ["python", "-m", "odradek.console.hosted"]
"""
_NAMES = ("domain", "groups", "readers", "read_only", "base_image")


@dataclass(frozen=True)
class ConsoleOptions:
    """The options in the context; see the module."""

    domain: str
    groups: tuple[tuple[str, str], ...] = ()
    readers: tuple[str, ...] = ()
    read_only: bool = False
    base_image: str = BASE_IMAGE

    @classmethod
    def of(cls, node: Node) -> ConsoleOptions | None:
        """Return the options in an app's context; None without any. Raises SystemExit for wrong ones."""
        context = {name: str(node.try_get_context(f"console_{name}") or "") for name in _NAMES}
        if not any(context.values()):
            return None
        if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", context["domain"]):
            raise SystemExit(f"infra: a console needs -c console_domain=lower-case-name, not {context['domain']!r}")
        pairs = [pair.strip().partition("=") for pair in context["groups"].split(",") if pair.strip()]
        for group, equals, principal in pairs:
            if not (group and equals and re.fullmatch(r"User:[^,*]+", principal)):
                raise SystemExit(f"infra: console_groups must be group=User:name,..., not {context['groups']!r}")
        if context["read_only"] not in ("", "true", "false"):
            raise SystemExit(f"infra: console_read_only must be true or false, not {context['read_only']!r}")
        if context["base_image"] and not is_pinned(context["base_image"]):
            raise SystemExit(f"infra: console_base_image must be name@sha256:digest, not {context['base_image']!r}")
        return cls(
            context["domain"],
            tuple((group, principal) for group, _, principal in pairs),
            tuple(reader.strip() for reader in context["readers"].split(",") if reader.strip()),
            context["read_only"] == "true",
            context["base_image"] or BASE_IMAGE,
        )


class ConsoleStack(Stack):
    """A console for many."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        store: Store,
        artifacts: Artifacts,
        options: ConsoleOptions,
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: the console in a browser, with sign-in")
        artifacts.require(self)
        if not is_pinned(options.base_image):
            Annotations.of(self).add_warning(
                f"the image is built from {options.base_image}, a tag that may name another image tomorrow: pass "
                "-c console_base_image=name@sha256:digest"
            )
        removal = RemovalPolicy.RETAIN if stage.keeps_data else RemovalPolicy.DESTROY
        pool = self._pool(stage, options, removal)
        secret = secretsmanager.Secret(
            self,
            "SessionSecret",
            description="Seals the sessions of the console; a new value signs everybody out",
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=64, exclude_punctuation=True),
        )
        parameter_name = f"/odradek/{stage.name}/console/oidc"
        function = self._function(stage, store, artifacts, options, removal, secret, parameter_name)
        url = function.add_function_url(
            auth_type=lambda_.FunctionUrlAuthType.NONE,  # the console itself asks who it is
            invoke_mode=lambda_.InvokeMode.RESPONSE_STREAM,
        ).url
        address = f"https://{self._host(url)}"
        client = pool.add_client(
            "Browser",
            generate_secret=False,  # a code is bound to its browser by PKCE
            auth_flows=cognito.AuthFlow(),
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.OPENID, cognito.OAuthScope.PROFILE],
                callback_urls=[f"{address}/callback"],
            ),
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            prevent_user_existence_errors=True,
            id_token_validity=Duration.minutes(5),
        )
        document = {
            "issuer": f"https://cognito-idp.{self.region}.amazonaws.com/{pool.user_pool_id}",
            "client_id": client.user_pool_client_id,
            "url": address,
            "principals": dict(options.groups),
            "readers": list(options.readers),
        }
        parameter = ssm.StringParameter(
            self, "SignIn", parameter_name=parameter_name, string_value=self.to_json_string(document)
        )
        parameter.node.add_dependency(pool)
        CfnOutput(self, "ConsoleUrl", value=address)
        CfnOutput(self, "ConsoleUserPoolId", value=pool.user_pool_id)

    @staticmethod
    def _host(url: str) -> str:
        """Return the host of a function URL, https://<host>/, which is a token."""
        return str(Fn.select(2, Fn.split("/", url)))

    def _pool(self, stage: Stage, options: ConsoleOptions, removal: RemovalPolicy) -> cognito.UserPool:
        pool = cognito.UserPool(
            self,
            "Users",
            user_pool_name=f"odradek-{stage.name}-console",
            self_sign_up_enabled=False,
            sign_in_case_sensitive=False,
            mfa=cognito.Mfa.REQUIRED,  # whoever signs in may be an administrator
            mfa_second_factor=cognito.MfaSecondFactor(sms=False, otp=True),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            password_policy=cognito.PasswordPolicy(min_length=12),
            deletion_protection=stage.keeps_data,
            removal_policy=removal,
        )
        pool.add_domain("SignInPage", cognito_domain=cognito.CognitoDomainOptions(domain_prefix=options.domain))
        for group in dict.fromkeys([*(name for name, _ in options.groups), *options.readers]):
            name = "".join(part.capitalize() for part in re.split(r"\W+", group))
            cognito.CfnUserPoolGroup(self, f"Group{name}", user_pool_id=pool.user_pool_id, group_name=group)
        return pool

    def _function(
        self,
        stage: Stage,
        store: Store,
        artifacts: Artifacts,
        options: ConsoleOptions,
        removal: RemovalPolicy,
        secret: secretsmanager.Secret,
        parameter_name: str,
    ) -> lambda_.DockerImageFunction:
        role = StoreRole(
            self, "Access", service="lambda.amazonaws.com", permissions=PERMISSIONS[GATEWAY], store=store
        ).role
        secret.grant_read(role)
        ssm.StringParameter.from_string_parameter_name(self, "SignInName", parameter_name).grant_read(role)
        log_group = logs.LogGroup(
            self, "Logs", retention=log_retention(stage.log_retention_days), removal_policy=removal
        )
        log_group.grant_write(role)
        dockerfile = _DOCKERFILE.replace("{base_image}", options.base_image)
        return lambda_.DockerImageFunction(
            self,
            "Function",
            function_name=f"odradek-{stage.name}-console",
            description="Odradek console",
            code=lambda_.DockerImageCode.from_image_asset(
                str(build_context("console", dockerfile, artifacts, DISTRIBUTIONS)),
                platform=ecr_assets.Platform.LINUX_ARM64,
            ),
            architecture=ARCHITECTURE,
            memory_size=_MEMORY_MB,
            timeout=Duration.seconds(_TIMEOUT_S),
            role=role,
            log_group=log_group,
            environment={
                **store_environment(store),
                **stage.settings.to_env(),
                "ODRADEK_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "false",  # whoever signs in needs an ACL
                "ODRADEK_CONSOLE_SECRET_ARN": secret.secret_arn,
                "ODRADEK_CONSOLE_OIDC_PARAMETER": parameter_name,
                "ODRADEK_CONSOLE_READ_ONLY": json.dumps(options.read_only),
                "AWS_LWA_INVOKE_MODE": "response_stream",
                "PORT": str(_PORT),
            },
        )
