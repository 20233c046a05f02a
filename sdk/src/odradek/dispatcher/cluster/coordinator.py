"""FindCoordinator: the one logical broker coordinates every group and every transaction."""

from __future__ import annotations

from typing import Any

from odradek.dispatcher.access import REFUSED
from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.model.acl import AclOperation, ResourceType

_GROUP, _TRANSACTION = 0, 1
_BATCHED_FROM = 4


async def handle_find_coordinator(call: Call) -> Answer:
    kind = getattr(call.message, "key_type", _GROUP)
    if kind not in (_GROUP, _TRANSACTION):
        return refuse_find_coordinator(
            call, ErrorCode.INVALID_REQUEST, "a coordinator belongs to a group or a transaction"
        )
    broker = call.cluster.broker
    known = {"node_id": broker.broker_id, "host": broker.host, "port": broker.port}
    resource = ResourceType.GROUP if kind == _GROUP else ResourceType.TRANSACTIONAL_ID
    if call.api_version < _BATCHED_FROM:
        call.access.require(AclOperation.DESCRIBE, resource, call.message.key)
        return known
    return {
        "coordinators": [
            {
                "key": key,
                **(
                    known
                    if call.access.may(AclOperation.DESCRIBE, resource, key)
                    else {"node_id": -1, "port": -1, "error_code": REFUSED[resource]}
                ),
            }
            for key in call.message.coordinator_keys
        ]
    }


def refuse_find_coordinator(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer(call, {"node_id": -1, "port": -1, "error_code": code, "error_message": message})


def _answer(call: Call, fields: dict[str, Any]) -> Answer:
    """Return one result, or from version 4 on one for each key."""
    if call.api_version < _BATCHED_FROM:
        return fields
    return {"coordinators": [{"key": key, **fields} for key in call.message.coordinator_keys]}
