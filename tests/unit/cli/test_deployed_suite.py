"""`make e2e`: where it cannot begin it says why, and nothing is sent."""

from __future__ import annotations

import boto3
import pytest
from moto import mock_aws

from tests.deployed.__main__ import CannotRun, find


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A machine without credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, f"{tmp_path}/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_no_credentials() -> None:
    with pytest.raises(CannotRun, match="no AWS credentials: set AWS_PROFILE"):
        find("odradek-dev", "", "eu-west-1")


def test_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    _somebody(monkeypatch)
    with pytest.raises(CannotRun, match="no region: set AWS_REGION"):
        find("odradek-dev", "", None)


def test_no_such_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    _somebody(monkeypatch)
    with mock_aws(), pytest.raises(CannotRun, match="no stack odradek-dev-api"):
        find("odradek-dev", "", "eu-west-1")


def test_a_stack_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _somebody(monkeypatch)
    template = (
        '{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}, "Outputs": {"CoordinatorUrl": {"Value": "https://c"}}}'
    )
    with mock_aws():
        boto3.client("cloudformation", "eu-west-1").create_stack(StackName="odradek-x-api", TemplateBody=template)
        target = find("odradek-x", "", "eu-west-1")
    assert (target.coordinator_url, target.region) == ("https://c", "eu-west-1")
    assert target.run.startswith("e2e-")


def _somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
