"""FindCoordinator: the one logical broker coordinates every group and every transaction."""

from __future__ import annotations

from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode

_GROUP, _TRANSACTION = 0, 1
_BATCHED_FROM = 4


async def handle_find_coordinator(call: Call) -> Answer:
    if getattr(call.message, "key_type", _GROUP) not in (_GROUP, _TRANSACTION):
        return refuse_find_coordinator(call, ErrorCode.INVALID_REQUEST, "a coordinator is for a group or a transaction")
    broker = call.cluster.broker
    return _answer(call, {"node_id": broker.broker_id, "host": broker.host, "port": broker.port})


def refuse_find_coordinator(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer(call, {"node_id": -1, "port": -1, "error_code": code, "error_message": message})


def _answer(call: Call, fields: dict[str, Any]) -> Answer:
    """One answer, or one for each key from version 4."""
    if call.api_version < _BATCHED_FROM:
        return fields
    return {"coordinators": [{"key": key, **fields} for key in call.message.coordinator_keys]}
