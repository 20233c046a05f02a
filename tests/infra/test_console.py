"""The optional console stack: sign-in by Cognito, a sealed secret, no rights without ACLs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.infra.conftest import Deployment, as_list

CONTEXT = {
    "console_domain": "acme-odradek",
    "console_groups": "ops=User:operator,dev-team=User:developer",
    "console_readers": "support",
}


@pytest.fixture(scope="module")
def console(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    from infra.stages import STAGES

    return synthesize_stage(STAGES["prod"], CONTEXT)


def test_there_is_none_unless_it_is_asked_for(prod: Deployment) -> None:
    assert "console" not in prod.templates


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"console_domain": ""}, "console_domain"),
        ({"console_domain": "Not A Name"}, "console_domain"),
        ({"console_groups": "ops"}, "group=User:name"),
        ({"console_groups": "ops=User:*"}, "group=User:name"),
        ({"console_read_only": "perhaps"}, "true or false"),
        ({"console_base_image": "python:3"}, "sha256"),
    ],
)
def test_wrong_options_are_refused(
    synthesize_stage: Callable[..., Deployment], changes: dict[str, str], text: str
) -> None:
    from infra.stages import STAGES

    with pytest.raises(SystemExit, match=text):
        synthesize_stage(STAGES["dev"], {**CONTEXT, **changes})


def test_nobody_signs_up_and_a_code_belongs_to_a_browser(console: Deployment) -> None:
    pool = console.only("console", "AWS::Cognito::UserPool")["Properties"]
    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert pool["DeletionProtection"] == "ACTIVE"
    assert (pool["MfaConfiguration"], pool["EnabledMfas"]) == ("ON", ["SOFTWARE_TOKEN_MFA"])
    client = console.only("console", "AWS::Cognito::UserPoolClient")["Properties"]
    assert client["AllowedOAuthFlows"] == ["code"]
    assert client["GenerateSecret"] is False
    assert client["PreventUserExistenceErrors"] == "ENABLED"
    [callback] = client["CallbackURLs"]
    assert "/callback" in json.dumps(callback)
    assert "https://" in json.dumps(callback)
    groups = console.resources("console", "AWS::Cognito::UserPoolGroup").values()
    assert {group["Properties"]["GroupName"] for group in groups} == {"ops", "dev-team", "support"}


def test_the_function_knows_secrets_by_name_only_and_grants_nothing_without_acls(console: Deployment) -> None:
    function = console.only("console", "AWS::Lambda::Function")["Properties"]
    variables = function["Environment"]["Variables"]
    assert variables["ODRADEK_ALLOW_EVERYONE_IF_NO_ACL_FOUND"] == "false"
    assert variables["ODRADEK_CONSOLE_OIDC_PARAMETER"] == "/odradek/prod/console/oidc"
    assert "ODRADEK_CONSOLE_SECRET" not in variables
    assert set(variables["ODRADEK_CONSOLE_SECRET_ARN"]) == {"Ref"}
    assert function["PackageType"] == "Image"
    url = console.only("console", "AWS::Lambda::Url")["Properties"]
    assert (url["AuthType"], url["InvokeMode"]) == ("NONE", "RESPONSE_STREAM")


def test_what_the_function_reads_at_its_start_is_what_the_console_takes(console: Deployment) -> None:
    """The parameter is JSON with tokens of the template in it: they become text, the rest is as it stands."""
    from odradek.console.hosted import oidc_settings

    value = console.only("console", "AWS::SSM::Parameter")["Properties"]["Value"]
    parts = value["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "token.example" for part in parts)
    settings = oidc_settings({"ODRADEK_CONSOLE_OIDC": text}, lambda name: name)
    assert settings.principals == {"ops": "User:operator", "dev-team": "User:developer"}
    assert settings.readers == ("support",)
    assert settings.url.startswith("https://")


def test_its_rights_are_the_gateways_and_its_own_secret_and_parameter(console: Deployment) -> None:
    actions: set[str] = set()
    for policy in console.resources("console", "AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            statement_actions = set(as_list(statement["Action"]))
            actions |= statement_actions
            if any(action.startswith(("ssm:", "secretsmanager:")) for action in statement_actions):
                assert "*" not in as_list(statement["Resource"])
    services = {action.partition(":")[0] for action in actions}
    assert services <= {"dynamodb", "s3", "s3express", "kms", "logs", "ssm", "secretsmanager"}
    assert not any(action.endswith(":*") for action in actions)


def test_the_image_is_built_from_the_lock(console: Deployment) -> None:
    [image] = console.images["console"].values()
    assert image["source"]["platform"] == "linux/arm64"


def test_outputs_say_where_it_is(console: Deployment) -> None:
    outputs: dict[str, Any] = console.templates["console"]["Outputs"]
    assert {"ConsoleUrl", "ConsoleUserPoolId"} <= set(outputs)
