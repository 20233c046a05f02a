"""The four functions with a URL: their handler, and what is loaded before their first request.

A schema takes 5 to 15 ms at its first use, and a part of the engine as long. Those that the SDK's requests use are
loaded while Lambda initializes the function, when it has a whole processor; others by the first request that needs
them. A test keeps the list equal to what the SDK imports.
"""

from __future__ import annotations

from odradek.dispatcher import Dispatcher
from odradek.dispatcher.handlers import load
from odradek.functions.discovery import Discovery
from odradek.functions.handler import FunctionHandler
from odradek.protocol.api import ApiKey, FunctionName
from odradek.protocol.frame import preload

from lambdas.wiring import wire

SPOKEN_BY_SDK: dict[FunctionName, dict[ApiKey, int]] = {
    FunctionName.PRODUCE: {ApiKey.PRODUCE: 9},
    FunctionName.FETCH: {ApiKey.FETCH: 12, ApiKey.LIST_OFFSETS: 7},
    FunctionName.COORDINATOR: {
        ApiKey.METADATA: 12,
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.OFFSET_COMMIT: 9,
        ApiKey.OFFSET_FETCH: 9,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    },
    FunctionName.ADMIN: {},  # rare calls, each of another API: a person can wait 10 ms
}


# The parts of the engine that these requests use (Engine's properties).
PARTS: dict[FunctionName, tuple[str, ...]] = {
    FunctionName.PRODUCE: ("appender",),
    FunctionName.FETCH: ("fetcher", "lister"),
    FunctionName.COORDINATOR: ("producer_ids", "groups", "offsets"),
    FunctionName.ADMIN: (),
}


def serve(name: FunctionName) -> FunctionHandler:
    """Create the handler of one function."""
    parts = wire()
    for api_key, version in SPOKEN_BY_SDK[name].items():
        preload([api_key], [version])
    load(SPOKEN_BY_SDK[name])
    for part in PARTS[name]:
        getattr(parts.engine, part)
    discovery = None
    if name is FunctionName.COORDINATOR:
        environment = parts.environment
        discovery = Discovery(
            parts.settings.cluster_id,
            environment.region,
            environment.function_urls,
            registry=environment.registry_url,
            triggers=environment.triggers_url,
            tables=environment.tables_url,
        )
    return FunctionHandler(
        name,
        Dispatcher(parts.engine, parts.cluster),
        parts.instruments,
        discovery=discovery,
        tracing=parts.tracing,
    )
