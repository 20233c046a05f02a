"""Ask a real engine as somebody: requests of named principals through the dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from odradek.dispatcher.answer import build
from odradek.engine.engine import Engine
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.dispatching import context, dispatcher


async def ask_as(
    engine: Engine, principal: str, api_key: ApiKey, fields: Mapping[str, Any], version: int | None = None, **where: Any
) -> Any:
    """The decoded answer; the highest version unless one is given."""
    version = SUPPORTED_VERSIONS[api_key][1] if version is None else version
    frame = encode_request(build(request_schema(api_key, version), fields), correlation_id=7, client_id="tests")
    parts = await dispatcher(engine).dispatch(frame, replace(context(), principal=principal, **where))
    return decode_response(b"".join(parts or ()), response_schema(api_key, version), correlation_id=7)


def allow(
    principal: str,
    *operations: AclOperation,
    topic: str | None = None,
    group: str | None = None,
    transaction: str | None = None,
    permission: AclPermission = AclPermission.ALLOW,
    prefix: bool = False,
) -> list[AclBinding]:
    """Rules about one resource; the cluster where none is named."""
    resource_type, name = next(
        (
            (resource_type, name)
            for resource_type, name in (
                (ResourceType.TOPIC, topic),
                (ResourceType.GROUP, group),
                (ResourceType.TRANSACTIONAL_ID, transaction),
            )
            if name is not None
        ),
        (ResourceType.CLUSTER, "kafka-cluster"),
    )
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    return [AclBinding(resource_type, name, pattern, principal, "*", operation, permission) for operation in operations]


async def add(engine: Engine, *acls: Iterable[AclBinding]) -> None:
    for several in acls:
        for acl in several:
            await engine.acls.create(acl)


def error_codes(response: Any) -> list[int]:
    """Every error code in an answer, however deep."""
    codes: list[int] = []
    if isinstance(response, tuple):
        for element in response:
            codes += error_codes(element)
    for name in getattr(response, "__dataclass_fields__", ()):
        value = getattr(response, name)
        if name.endswith("error_code"):
            codes.append(int(value))
        else:
            codes += error_codes(value)
    return codes
