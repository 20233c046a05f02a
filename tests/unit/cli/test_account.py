"""Checks before a deployment."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws
from odradek.cli import run
from odradek.cli.service.account import concurrency_finding, region_finding

from infra import preflight


@pytest.mark.parametrize(
    ("quota", "unreserved", "reserve", "outcome", "text"),
    [
        (1000, 1000, 300, "ok", "a quota of 1000"),
        (1000, 700, 300, "ok", "700 unreserved"),
        (1000, 350, 300, "warn", "its first deployment needs 400"),
        (10, 10, 300, "FAIL", "the quota is 10; the stage reserves 300"),
        (10, 10, 0, "warn", "each long-polling consumer keeps one busy"),
        (399, 399, 300, "FAIL", "request an increase"),
        (400, 400, 300, "ok", "a quota of 400"),
    ],
)
def test_the_quota_of_concurrent_executions(quota: int, unreserved: int, reserve: int, outcome: str, text: str) -> None:
    limit = {"ConcurrentExecutions": quota, "UnreservedConcurrentExecutions": unreserved}
    finding = concurrency_finding({"AccountLimit": limit}, reserve)
    assert finding.outcome == outcome
    assert text in finding.text


def test_regions_without_function_urls() -> None:
    assert region_finding("eu-west-1").outcome == "ok"
    assert region_finding("ca-west-1").outcome == "FAIL"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "eu-central-2")
    with mock_aws():
        yield


def test_a_deployment_that_would_fail_is_told_before(account: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--before-deploy"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["ok", "account"],
        ["FAIL", "region"],
        ["warn", "concurrency"],  # moto has no account settings
        ["FAIL", "bootstrap"],
    ]
    assert "make cdk ARGS=bootstrap" in lines[-1]


def test_make_deploy_begins_with_what_the_stage_reserves(
    account: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    examined = []
    monkeypatch.setattr(preflight, "examine_account", lambda *arguments: examined.append(arguments) or [])
    assert preflight.main(["prod"]) == 0
    assert examined == [("eu-central-2", 300, None)]
    monkeypatch.undo()
    with pytest.raises(SystemExit, match="unknown stage"):
        preflight.main(["nowhere"])


def test_a_bootstrapped_region_is_well(
    account: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    boto3.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    assert preflight.main(["prod"]) == 0
    assert "version 30" in capsys.readouterr().out


def test_without_credentials_one_line_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    assert run(["doctor", "--before-deploy"]) == 2
    said = capsys.readouterr().err
    assert "set credentials and a region" in said
    assert said.count("\n") == 1
