"""How a new version takes over, who else may call it, what it may use up, and whose it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from odradek.protocol.api import FunctionName

from infra.stages import STAGES
from tests.infra.conftest import Deployment, as_list
from tests.infra.test_alarms import alarms, metrics_of, states

ROLE, ORGANIZATION = "arn:aws:iam::444455556666:role/producers", "o-a1b2c3d4e5"
CALLED = {*(name.value for name in FunctionName), "registry", "triggers", "tables"}


def of_function(deployment: Deployment, resource_type: str) -> dict[str, dict[str, Any]]:
    """A type's resources of the api stack, whole, by the name of their function."""
    by_function = {}
    for key, resource in deployment.resources("api", resource_type).items():
        [name] = [function for function in CALLED if key.startswith(function.capitalize())]
        by_function[name] = resource
    return by_function


def test_a_tenth_of_the_requests_tries_a_new_version_first(prod: Deployment) -> None:
    aliases, groups = of_function(prod, "AWS::Lambda::Alias"), of_function(prod, "AWS::CodeDeploy::DeploymentGroup")
    assert set(aliases) == set(groups) == CALLED
    guards = prod.resources("api", "AWS::CloudWatch::Alarm")
    group_ids = prod.resources("api", "AWS::CodeDeploy::DeploymentGroup")
    for name, alias in aliases.items():
        update = alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
        group = group_ids[update["DeploymentGroupName"]["Ref"]]
        assert group is groups[name]
        properties = group["Properties"]
        assert properties["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent10Minutes"
        rollback = properties["AutoRollbackConfiguration"]
        assert (rollback["Enabled"], "DEPLOYMENT_STOP_ON_ALARM" in rollback["Events"]) == (True, True)
        assert properties["AlarmConfiguration"]["Enabled"]
        watched = [alarm["Name"]["Ref"] for alarm in properties["AlarmConfiguration"]["Alarms"]]
        assert {guards[key]["Properties"]["AlarmName"] for key in watched} == {
            f"odradek-prod-{name}-canary-{alarm_kind}"
            for alarm_kind in (("errors",) if name in ("triggers", "tables") else ("errors", "faults"))
        }
        # They look at the version that the alias is about to be given, before it is.
        assert set(watched) <= set(alias["DependsOn"])
        [errors] = [
            guards[key]["Properties"] for key in watched if guards[key]["Properties"]["Namespace"] == "AWS/Lambda"
        ]
        dimensions = {dimension["Name"]: dimension["Value"] for dimension in errors["Dimensions"]}
        assert dimensions["ExecutedVersion"] == alias["Properties"]["FunctionVersion"]
        assert dimensions["Resource"] == f"odradek-prod-{name}:live"


def test_one_bad_invocation_of_the_new_version_is_enough_within_the_canary(prod: Deployment) -> None:
    for name, properties in alarms(prod).items():
        if "-canary-" in name:
            [metric] = metrics_of(properties).values()
            assert properties["EvaluationPeriods"] * metric["Period"] <= 60
            assert "ALARM" in states(prod, properties, {"": 1.0})
            assert "ALARM" not in states(prod, properties, {"": 0.0})


def test_codedeploy_moves_these_aliases_and_nothing_else(prod: Deployment) -> None:
    [policy] = [
        policy["Properties"] for key, policy in prod.resources("api", "AWS::IAM::Policy").items() if "Canaries" in key
    ]
    allowed = {
        action: statement
        for statement in policy["PolicyDocument"]["Statement"]
        for action in as_list(statement["Action"])
    }
    assert set(allowed) == {
        "cloudwatch:DescribeAlarms",
        "lambda:GetAlias",
        "lambda:GetProvisionedConcurrencyConfig",
        "lambda:UpdateAlias",
    }
    for resource in allowed["lambda:UpdateAlias"]["Resource"]:
        assert "*" not in json.dumps(resource)
    for role in prod.resources("api", "AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role["Properties"]


def test_without_a_canary_the_alias_moves_at_once_and_nothing_is_paid_for(dev: Deployment) -> None:
    aliases = of_function(dev, "AWS::Lambda::Alias")
    assert set(aliases) == CALLED
    assert not [alias for alias in aliases.values() if "UpdatePolicy" in alias]
    assert not dev.resources("api", "AWS::CodeDeploy::Application")
    assert not dev.resources("api", "AWS::CloudWatch::Alarm")


def test_snapshots_are_taken_of_versions_where_the_stage_asks_for_them(
    synthesize_stage: Callable[..., Deployment], prod: Deployment
) -> None:
    deployment = synthesize_stage(replace(STAGES["dev"], snap_start=True), {})
    functions = deployment.functions()
    taken = {name for name, properties in functions.items() if "SnapStart" in properties}
    assert taken == CALLED, "the others are called without a version, of which nothing is taken"
    assert all(functions[name]["SnapStart"] == {"ApplyOn": "PublishedVersions"} for name in taken)
    assert all(
        "EphemeralStorage" not in function and "FileSystemConfigs" not in function for function in functions.values()
    )
    assert not [function for function in prod.functions().values() if "SnapStart" in function]


def test_consumers_cannot_take_what_producers_and_the_coordinator_need(prod: Deployment) -> None:
    functions = prod.functions()
    assert functions["produce"]["ReservedConcurrentExecutions"] == 200
    assert functions["coordinator"]["ReservedConcurrentExecutions"] == 100
    assert "ReservedConcurrentExecutions" not in functions["fetch"]


@pytest.fixture(scope="module")
def shared(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    stage = replace(
        STAGES["prod"], client_principals=(ROLE, "777788889999"), client_org_id=ORGANIZATION, tags={"team": "flights"}
    )
    return synthesize_stage(stage, {"tags": "cost-centre=42,team=log"})


def test_callers_of_other_accounts_are_let_in_by_the_url_alone(shared: Deployment, prod: Deployment) -> None:
    assert not prod.resources("api", "AWS::Lambda::Permission")
    admissions: dict[str, set[tuple[str, str, str | None]]] = {}
    for permission in shared.resources("api", "AWS::Lambda::Permission").values():
        properties = permission["Properties"]
        if properties["Action"] == "lambda:InvokeFunctionUrl":
            assert properties["FunctionUrlAuthType"] == "AWS_IAM", "or anyone could call without a signature"
        else:
            assert properties["InvokedViaFunctionUrl"] is True
        assert properties["Principal"] != "*" or properties["PrincipalOrgID"] == ORGANIZATION
        admitted = properties["Action"], properties["Principal"], properties.get("PrincipalOrgID")
        admissions.setdefault(properties["FunctionName"]["Ref"], set()).add(admitted)
    assert set(admissions) == set(shared.resources("api", "AWS::Lambda::Alias")), "the alias has the URL"
    for admitted_here in admissions.values():
        assert admitted_here == {
            (action, principal, org)
            for action in ("lambda:InvokeFunctionUrl", "lambda:InvokeFunction")
            for principal, org in ((ROLE, None), ("777788889999", None), ("*", ORGANIZATION))
        }


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"client_principals": ("*",)}, "client_principals must be ARNs of IAM or numbers of accounts"),
        ({"client_org_id": "mine"}, "client_org_id must be an id like"),
        ({"canary_minutes": 7}, "canary_minutes must be one of 0, 5, 10, 15, 30, not 7"),
    ],
)
def test_what_a_stage_may_not_say(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        replace(STAGES["dev"], **change)


def test_the_owners_tags_are_on_everything(shared: Deployment) -> None:
    tagged = 0
    for template in shared.templates.values():
        for resource in template["Resources"].values():
            tags = resource.get("Properties", {}).get("Tags")
            if isinstance(tags, list):
                tags_by_name = {tag["Key"]: tag["Value"] for tag in tags}
            elif isinstance(tags, dict):  # Glue
                tags_by_name = tags
            else:
                continue
            assert tags_by_name["cost-centre"] == "42"
            assert tags_by_name["team"] == "log", "the command line's word counts"
            assert tags_by_name["odradek:stage"] == "prod"
            tagged += 1
    assert tagged > 40
    kinds = {resource["Type"] for template in shared.templates.values() for resource in template["Resources"].values()}
    for resource_type in ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Lambda::Function", "AWS::Glue::Job"):
        assert resource_type in kinds
        for stack in shared.templates:
            for resource in shared.resources(stack, resource_type).values():
                assert resource["Properties"]["Tags"], resource_type


@pytest.mark.parametrize("text", ["team", "=x", "team=", "aws:team=x"])
def test_tags_that_are_none_are_refused(text: str) -> None:
    from infra.app import new_app, tags_of

    app = new_app()
    app.node.set_context("tags", text)
    with pytest.raises(SystemExit, match="tags is key=value"):
        tags_of(app.node)
