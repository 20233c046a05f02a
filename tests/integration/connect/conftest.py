"""One embedded service, and one Connect cluster of one worker, for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.connect.running import RunningCluster, embedded


@pytest.fixture(scope="module")
def service() -> Iterator[Any]:
    with embedded() as service:
        yield service


@pytest.fixture(scope="module")
def running(service: Any) -> Iterator[RunningCluster]:
    """Names of connectors and topics must differ from test to test."""
    with RunningCluster(service) as running:
        yield running
