"""The four functions with a URL: their handler, and the schemas that their first request would otherwise wait for."""

from __future__ import annotations

from odradek.dispatcher import Dispatcher
from odradek.functions.discovery import Discovery
from odradek.functions.handler import FunctionHandler
from odradek.protocol.api import OWNED, FunctionName
from odradek.protocol.frame import preload

from lambdas.wiring import wire


def serve(name: FunctionName) -> FunctionHandler:
    """Make the handler of one function."""
    parts = wire()
    preload(OWNED[name])
    discovery = None
    if name is FunctionName.COORDINATOR:
        environment = parts.environment
        discovery = Discovery(parts.settings.cluster_id, environment.region, environment.function_urls)
    return FunctionHandler(
        name,
        Dispatcher(parts.engine, parts.cluster),
        clock=parts.clock,
        meter=parts.meter,
        discovery=discovery,
        cluster_id=parts.settings.cluster_id,
    )
