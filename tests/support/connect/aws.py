"""AWS for connectors: moto in this process, and the configurations that lead to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto import mock_aws

REGION = "us-east-1"
_SESSION: Any = boto3.Session()
CONFIGS = {"aws.region": REGION, "aws.access.key.id": "testing", "aws.secret.access.key": "testing"}


@contextmanager
def moto() -> Iterator[None]:
    with mock_aws(config={"lambda": {"use_docker": False}}):
        yield


def client(service: str) -> Any:
    return _SESSION.client(service, region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing")
