"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the group protocol of clients before KIP-848.

Served over TCP only: joining and syncing wait for other members, longer than a function may run.
"""

from __future__ import annotations

from typing import Any

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.model.classic_group import (
    NO_GENERATION,
    ClassicIdentity,
    ClassicJoin,
    ClassicLeave,
    ClassicSync,
)

_MEMBER_ID_REQUIRED_FROM = 4  # JoinGroup, KIP-394
_SKIP_ASSIGNMENT_FROM = 9  # JoinGroup, KIP-814
_PROTOCOL_NULLABLE_FROM = 7  # JoinGroup
_MEMBERS_FROM = 3  # LeaveGroup, KIP-345


async def handle_join_group(call: Call) -> Answer:
    message = call.message
    session_ms = to_ms(message.session_timeout)
    result = await call.engine.classic_groups.join(
        ClassicJoin(
            group_id=message.group_id,
            member_id=message.member_id,
            protocol_type=message.protocol_type,
            protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in message.protocols),
            session_ms=session_ms,
            rebalance_ms=to_ms(message.rebalance_timeout) if call.api_version >= 1 else session_ms,
            instance_id=getattr(message, "group_instance_id", None),
            client_id=call.request.client_id or "",
            client_host=call.context.client_host,
            requires_known_member_id=call.api_version >= _MEMBER_ID_REQUIRED_FROM,
            may_skip_assignment=call.api_version >= _SKIP_ASSIGNMENT_FROM,
        )
    )
    return {
        "error_code": result.error,
        "generation_id": result.generation,
        "protocol_type": result.protocol_type,
        "protocol_name": _protocol_name(call, result.protocol),
        "leader": result.leader,
        "skip_assignment": result.skip_assignment,
        "member_id": result.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata(result.protocol),
            }
            for member in result.members
        ],
    }


def refuse_join_group(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "error_code": code,
        "generation_id": NO_GENERATION,
        "protocol_name": _protocol_name(call, None),
        "member_id": call.message.member_id,
    }


def _protocol_name(call: Call, name: str | None) -> str | None:
    return name if name is not None or call.api_version >= _PROTOCOL_NULLABLE_FROM else ""


async def handle_sync_group(call: Call) -> Answer:
    message = call.message
    result = await call.engine.classic_groups.sync(
        ClassicSync(
            _identity(message),
            protocol_type=getattr(message, "protocol_type", None),
            protocol=getattr(message, "protocol_name", None),
            assignments={given.member_id: bytes(given.assignment) for given in message.assignments},
        )
    )
    return {
        "error_code": result.error,
        "protocol_type": result.protocol_type,
        "protocol_name": result.protocol,
        "assignment": result.assignment,
    }


def refuse_sync_group(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


async def handle_heartbeat(call: Call) -> Answer:
    return {"error_code": await call.engine.classic_groups.heartbeat(_identity(call.message))}


def refuse_heartbeat(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


async def handle_leave_group(call: Call) -> Answer:
    message = call.message
    if call.api_version < _MEMBERS_FROM:
        result = await call.engine.classic_groups.leave(message.group_id, [ClassicLeave(message.member_id)])
        return {"error_code": result.error or (result.members[0][1] if result.members else ErrorCode.NONE)}
    leaves = [ClassicLeave(member.member_id, member.group_instance_id) for member in message.members]
    result = await call.engine.classic_groups.leave(message.group_id, leaves)
    return {
        "error_code": result.error,
        "members": [
            {"member_id": leave.member_id, "group_instance_id": leave.instance_id, "error_code": code}
            for leave, code in result.members
        ],
    }


def refuse_leave_group(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


def _identity(message: Any) -> ClassicIdentity:
    return ClassicIdentity(
        message.group_id, message.member_id, message.generation_id, getattr(message, "group_instance_id", None)
    )
