"""The optional connect stack: a client of the other functions, called by a schedule and by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.stages import STAGES, ConnectOptions
from tests.infra.conftest import Deployment, as_list

POLICY = "arn:aws:iam::111122223333:policy/lake-writer"
DISPATCHER = "odradek-dev-trigger-dispatcher"
OPTIONS = ConnectOptions(policy_arns=(POLICY,), configs={"group.id": "etl"}, packages=("psycopg[binary]>=3.2",))


@pytest.fixture(scope="module")
def deployed(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    return synthesize_stage(replace(STAGES["dev"], connect=OPTIONS))


def test_there_is_none_unless_it_is_asked_for(dev: Deployment) -> None:
    assert "connect" not in dev.templates


def test_the_function_has_all_the_time_there_is_and_may_call_itself(deployed: Deployment) -> None:
    function = deployed.only("connect", "AWS::Lambda::Function")["Properties"]
    assert (function["PackageType"], function["Timeout"]) == ("Image", 900)
    assert function["RecursiveLoop"] == "Allow"
    assert function["ReservedConcurrentExecutions"] == 1
    variables = function["Environment"]["Variables"]
    assert json.loads(variables["ODRADEK_CONNECT_CONFIG"]) == {"group.id": "etl"}
    assert "Coordinator" in json.dumps(variables["ODRADEK_BOOTSTRAP_SERVERS"])
    rule = deployed.only("connect", "AWS::Events::Rule")["Properties"]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"


def test_its_role_is_a_client_and_has_no_rights_to_the_store(deployed: Deployment) -> None:
    role = deployed.only("connect", "AWS::IAM::Role")["Properties"]
    policies = [json.dumps(arn) for arn in role["ManagedPolicyArns"]]
    assert len(policies) == 2
    assert "Clients" in policies[0]
    assert POLICY in policies[1]
    actions: dict[str, Any] = {}
    for policy in deployed.resources("connect", "AWS::IAM::Policy").values():
        if DISPATCHER in policy["Properties"]["Roles"]:
            continue
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            for action in as_list(statement["Action"]):
                actions[action] = statement["Resource"]
    assert set(actions) == {"lambda:InvokeFunction", "logs:CreateLogStream", "logs:PutLogEvents"}
    assert "odradek-dev-connect" in json.dumps(actions["lambda:InvokeFunction"])


def test_the_dispatcher_of_triggers_may_wake_it_for_sinks(deployed: Deployment) -> None:
    [policy] = [
        policy["Properties"]
        for policy in deployed.resources("connect", "AWS::IAM::Policy").values()
        if DISPATCHER in policy["Properties"]["Roles"]
    ]
    [statement] = policy["PolicyDocument"]["Statement"]
    assert as_list(statement["Action"]) == ["lambda:InvokeFunction"]
    assert all('"Function' in json.dumps(arn) for arn in as_list(statement["Resource"]))
    function = deployed.only("connect", "AWS::Lambda::Function")["Properties"]
    assert function["Environment"]["Variables"]["ODRADEK_CONNECT_WAKES"] == "true"


def test_the_image_has_the_handler_and_the_packages(tmp_path: Path) -> None:
    from infra.artifacts import Artifacts  # aws_cdk takes seconds to import
    from infra.connect_image import HANDLER, connect_image_directory

    directory = connect_image_directory(Artifacts.find(tmp_path), OPTIONS.packages)
    dockerfile = (directory / "Dockerfile").read_text()
    assert "[connect]\" /install/odradek_*.whl awslambdaric 'psycopg[binary]>=3.2'" in dockerfile
    assert f'CMD ["{HANDLER}"]' in dockerfile
    module = HANDLER.rpartition(".")[0].replace(".", "/")
    assert "def handler(" in (directory / f"{module}.py").read_text()
    assert "awslambdaric==" in (directory / "constraints.txt").read_text()


def test_wrong_options_are_refused() -> None:
    for wrong in ({"workers": 0}, {"every_minutes": -1}, {"policy_arns": ("writer",)}):
        with pytest.raises(ValueError, match="connect: "):
            ConnectOptions(**wrong)  # type: ignore[arg-type]


def test_nobody_reaches_the_function_but_by_the_right_to_invoke_it(deployed: Deployment) -> None:
    """It has no REST API and no URL; who changes connectors is a client of the service, with SigV4."""
    kinds = {resource["Type"] for resource in deployed.templates["connect"]["Resources"].values()}
    assert {
        resource_type
        for resource_type in kinds
        if "Url" in resource_type or "ApiGateway" in resource_type or "LoadBalancing" in resource_type
    } == set()
    permissions = deployed.resources("connect", "AWS::Lambda::Permission").values()
    assert {permission["Properties"]["Principal"] for permission in permissions} <= {"events.amazonaws.com"}
