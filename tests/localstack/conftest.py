"""The suite runs by `make localstack`, which says where LocalStack is; else it is not collected."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.localstack.deployment import Deployed

ENDPOINT = os.environ.get("ODRADEK_TEST_LOCALSTACK")

collect_ignore_glob = [] if ENDPOINT else ["test_*.py"]


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    from tests.localstack.deployment import REGION, deploy  # CDK takes seconds; every run reads this file

    assert ENDPOINT is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", _resolving_here(socket.getaddrinfo))
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", REGION)
        yield deploy(ENDPOINT, tmp_path_factory.mktemp("localstack"))


def _resolving_here(resolve: Any) -> Any:
    """Function URLs have host names that a public name server resolves to this machine: do without it."""

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        return resolve("127.0.0.1" if str(host).endswith(".localhost.localstack.cloud") else host, *args, **kwargs)

    return getaddrinfo
