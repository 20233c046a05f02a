"""Several clusters in one console: the one it was started for, and others by name, under paths of their own.

    /topics                  the cluster that the console was started for
    /clusters/prod/topics    the cluster named prod; the address of a page names its cluster, so tabs cannot mix them up

Pages know nothing of it: here the name is taken from the path of a request, and put before the path of a redirect.
Templates put it before the links of a page (rendering.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odradek.operations.cluster import Cluster

PATH = "/clusters/"
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
"""Of clusters that can be in a path."""


@dataclass(frozen=True, slots=True)
class OtherCluster:
    """A cluster that the console was not started for."""

    name: str
    address: str
    make: Callable[[], Cluster]  # one that is not started yet


def prefix_of(name: str) -> str:
    """Return what stands before the paths of a cluster; nothing for the one that the console was started for."""
    return f"{PATH}{name}" if name else ""


class ClusterPaths:
    """ASGI middleware: `scope["cluster"]` is the name of the cluster, and the path is that of the page alone."""

    def __init__(self, app: ASGIApp, *, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATH):
            await self._app(scope, receive, send)
            return
        name, _, page = scope["path"].removeprefix(PATH).partition("/")
        if name and name not in self._names:  # no page has this path
            await self._app(scope, receive, send)
            return
        raw = scope.get("raw_path")
        changed = {**scope, "cluster": name, "path": f"/{page}"}
        if raw is not None:
            changed["raw_path"] = raw[len(prefix_of(name) if name else PATH[:-1]) :] or b"/"

        async def send_prefixed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                location = headers.get("location", "")
                if location.startswith("/") and not location.startswith("//"):
                    headers["location"] = prefix_of(name) + location
            await send(message)

        await self._app(changed, receive, send_prefixed)
