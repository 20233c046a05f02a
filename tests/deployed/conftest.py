"""The suite runs by `make e2e`, which says where; else it is not collected."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.deployed.end_to_end import clean_up, new_run

PLACE = os.environ.get("ODRADEK_TEST_DEPLOYED")

collect_ignore_glob = [] if PLACE else ["test_*.py"]


@dataclass(frozen=True)
class Stack:
    """A deployment, as `python -m tests.deployed` found it."""

    coordinator_url: str
    region: str | None
    outputs: Mapping[str, str]
    run: str = field(default_factory=new_run)

    @property
    def client_config(self) -> dict[str, Any]:
        region = {"aws_region": self.region} if self.region else {}
        return {"bootstrap_servers": self.coordinator_url, **region}

    def client(self, service: str) -> Any:
        import boto3

        return boto3.client(service, self.region)


@pytest.fixture(scope="session")
def deployed() -> Iterator[Stack]:
    assert PLACE is not None
    stack = Stack(**json.loads(PLACE))
    yield stack
    assert clean_up(stack, stack.run) == []
