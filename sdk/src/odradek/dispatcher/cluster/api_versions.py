"""ApiVersions: the APIs and versions that this function supports (KIP-35, KIP-511)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from odradek.dispatcher.answer import build
from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode, KafkaError
from odradek.model.log import Buffer
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import encode_response, response_schema
from odradek.protocol.versions import FEATURES, advertised

_LEVEL_0_FROM = 4
_NAMED_FROM = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


async def handle_api_versions(call: Call) -> Answer:
    if call.api_version >= _NAMED_FROM:
        for name in (call.message.client_software_name, call.message.client_software_version):
            if _SOFTWARE.fullmatch(name) is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"invalid name or version of the client's software {name[:60]!r}: use letters and digits, and "
                    "hyphens and dots between them",
                )
    fields = _fields(call.context.allowed, ErrorCode.NONE)
    # Clients below version 4 refuse a supported feature with lowest level 0, so it is left out (KAFKA-17011).
    fields["supported_features"] = [
        {"name": name, "min_version": low, "max_version": high}
        for name, (low, high) in FEATURES.items()
        if low or call.api_version >= _LEVEL_0_FROM
    ]
    fields["finalized_features_epoch"] = 0
    fields["finalized_features"] = [
        {"name": name, "min_version_level": high, "max_version_level": high} for name, (_, high) in FEATURES.items()
    ]
    return fields


def refuse_api_versions(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


def unsupported_api_versions(allowed: Iterable[ApiKey], correlation_id: int) -> list[Buffer]:
    """Answer an ApiVersions request of an unsupported version in version 0, which every client can read."""
    fields = _fields(allowed, ErrorCode.UNSUPPORTED_VERSION)
    return encode_response(build(response_schema(ApiKey.API_VERSIONS, 0), fields), correlation_id=correlation_id)


def _fields(allowed: Iterable[ApiKey], error: ErrorCode) -> dict[str, object]:
    keys = frozenset(allowed) | {ApiKey.API_VERSIONS}
    return {
        "error_code": error,
        "api_keys": [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in advertised(keys)],
    }
