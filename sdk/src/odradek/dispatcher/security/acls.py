"""CreateAcls, DescribeAcls, DeleteAcls, with the numbers of Kafka's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import groupby
from typing import Any, TypeVar

from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.store_errors import translated
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType

E = TypeVar("E", bound=IntEnum)


async def handle_create_acls(call: Call) -> Answer:
    results = []
    for creation in call.message.creations:
        try:
            with translated(call):
                await call.engine.acls.create(_binding(creation))
        except KafkaError as error:
            results.append({"error_code": error.code, "error_message": error.message})
        else:
            results.append({"error_code": ErrorCode.NONE})
    return {"results": results}


def refuse_create_acls(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"results": [{"error_code": code, "error_message": message} for _ in call.message.creations]}


async def handle_describe_acls(call: Call) -> Answer:
    found = await call.engine.acls.list(_filter(call.message))
    resources = []
    for (kind, name, pattern), acls in groupby(found, lambda acl: (acl.resource_type, acl.name, acl.pattern)):
        described = [_described(acl) for acl in acls]
        resources.append({"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": described})
    return {"resources": resources}


def refuse_describe_acls(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message}


async def handle_delete_acls(call: Call) -> Answer:
    results: list[dict[str, Any]] = []
    for asked in call.message.filters:
        try:
            with translated(call):
                gone: Sequence[AclBinding] = await call.engine.acls.delete(_filter(asked))
        except KafkaError as error:
            results.append({"error_code": error.code, "error_message": error.message})
        else:
            results.append(
                {
                    "matching_acls": [
                        {
                            "resource_type": acl.resource_type,
                            "resource_name": acl.name,
                            "pattern_type": acl.pattern,
                            **_described(acl),
                        }
                        for acl in gone
                    ]
                }
            )
    return {"filter_results": results}


def refuse_delete_acls(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"filter_results": [{"error_code": code, "error_message": message} for _ in call.message.filters]}


def _described(acl: AclBinding) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _binding(creation: Any) -> AclBinding:
    return AclBinding(
        _known(ResourceType, creation.resource_type),
        creation.resource_name,
        _known(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _known(AclOperation, creation.operation),
        _known(AclPermission, creation.permission_type),
    )


def _filter(asked: Any) -> AclFilter:
    return AclFilter(
        _known(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _known(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        _known(AclOperation, asked.operation),
        _known(AclPermission, asked.permission_type),
    )


def _known(kind: type[E], number: int) -> E:
    try:
        return kind(number)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown {kind.__name__} {number}") from None
