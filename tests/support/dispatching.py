"""Ask a dispatcher by fields and frames, as a client would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.dispatcher import Dispatcher, RequestContext
from odradek.dispatcher.answer import build
from odradek.model.cluster import Broker, Cluster
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema

CLUSTER = Cluster("test-cluster", Broker(0, "fleet.example", 9092))
EVERYTHING = frozenset(ApiKey)


def context(
    *,
    allowed: frozenset[ApiKey] = EVERYTHING,
    max_response_bytes: int = 4 * 1024 * 1024,
    principal: str = "tester",
) -> RequestContext:
    return RequestContext(principal, "/127.0.0.1", "https", allowed, max_response_bytes)


def dispatcher(engine: Any) -> Dispatcher:
    return Dispatcher(engine, CLUSTER)


async def ask(
    engine: Any,
    api_key: ApiKey,
    version: int,
    fields: Mapping[str, Any],
    *,
    max_response_bytes: int = 4 * 1024 * 1024,
    principal: str = "tester",
) -> Any:
    """Send a request built from fields and return the decoded response; None where there is no answer."""
    request = build(request_schema(api_key, version), fields)
    frame = encode_request(request, correlation_id=77, client_id="tests")
    parts = await dispatcher(engine).dispatch(
        frame, context(max_response_bytes=max_response_bytes, principal=principal)
    )
    if parts is None:
        return None
    return decode_response(b"".join(parts), response_schema(api_key, version), correlation_id=77)
