"""A handler may start from a snapshot of an initialized process (SnapStart), as may a thousand others.

So initializing notes no time, draws no random number, opens no connection and runs no event loop: whatever it did,
every process that is restored would have in common, hours later.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest
from odradek.functions.environment import BUCKET, CATALOG_TABLE, GROUPS_TABLE, LOG_TABLE, REGION, WAKE_QUEUE_URL
from odradek.protocol.api import FunctionName
from odradek.system import SystemClock, SystemRng

from lambdas.serving import serve

ENVIRONMENT = {
    **dict.fromkeys((LOG_TABLE, GROUPS_TABLE, CATALOG_TABLE, BUCKET), "name"),
    REGION: "eu-central-1",
    WAKE_QUEUE_URL: "https://sqs.eu-central-1.amazonaws.com/000000000000/wakes",
}
KEYS = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}


@pytest.mark.parametrize("clients", ["direct", "botocore"])
@pytest.mark.parametrize("name", list(FunctionName))
def test_initializing_takes_nothing_that_would_be_shared(
    name: FunctionName, clients: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {**ENVIRONMENT, **KEYS}.items():
        monkeypatch.setenv(variable, value)
    for variable in ("AWS_CA_BUNDLE", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(variable, raising=False)
    if clients == "botocore":  # under SnapStart there are no keys in the environment
        monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "false")
    taken: list[str] = []
    this_thread = threading.get_ident()

    def refuse(owner: Any, name: str, action: str) -> None:
        original = getattr(owner, name)

        def refused(*args: Any, **named: Any) -> Any:
            if threading.get_ident() != this_thread:  # a service that other tests of this process share
                return original(*args, **named)
            taken.append(action)
            raise AssertionError(f"initializing the function {action}")

        monkeypatch.setattr(owner, name, refused)

    refuse(SystemClock, "now_ms", "reads the time")
    refuse(SystemClock, "monotonic", "reads the monotonic clock")
    refuse(SystemRng, "random_bytes", "draws bytes")
    refuse(SystemRng, "random", "draws a number")
    refuse(os, "urandom", "draws entropy")
    refuse(socket.socket, "connect", "connects")
    handler = serve(name)
    assert handler._runner is None
    assert handler._log._written_ms is None
    assert not taken
