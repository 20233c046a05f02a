"""SaslHandshake and SaslAuthenticate on a transport without SASL: both are refused.

A gateway with SASL answers both itself, since they change the state of a connection (gateway/sasl.py). Here the
transport needs no SASL: HTTPS signed with SigV4, or a gateway without SASL.
"""

from __future__ import annotations

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode

_NOT_ENABLED = "SASL is not enabled here: use security.protocol PLAINTEXT or SSL"


async def handle_sasl_handshake(call: Call) -> Answer:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE}


def refuse_sasl_handshake(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


async def handle_sasl_authenticate(call: Call) -> Answer:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": _NOT_ENABLED}


def refuse_sasl_authenticate(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message}
