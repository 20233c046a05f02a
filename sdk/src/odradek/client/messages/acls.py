"""ACLs as kio messages: CreateAcls 3, DescribeAcls 3, DeleteAcls 3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v3.response import CreateAclsResponse
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsResponse
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.static.primitive import i8

from odradek.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType

__all__ = [
    "CreateAclsResponse",
    "DeleteAclsResponse",
    "DescribeAclsResponse",
    "bindings",
    "create_acls_request",
    "delete_acls_request",
    "deleted",
    "describe_acls_request",
]


def create_acls_request(acls: Iterable[AclBinding]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=i8(acl.resource_type),
                resource_name=acl.name,
                resource_pattern_type=i8(acl.pattern),
                principal=acl.principal,
                host=acl.host,
                operation=i8(acl.operation),
                permission_type=i8(acl.permission),
            )
            for acl in acls
        )
    )


def describe_acls_request(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=i8(wanted.resource_type),
        resource_name_filter=wanted.name,
        pattern_type_filter=i8(wanted.pattern),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=i8(wanted.operation),
        permission_type=i8(wanted.permission),
    )


def delete_acls_request(wanted: AclFilter) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=(
            DeleteAclsFilter(
                resource_type_filter=i8(wanted.resource_type),
                resource_name_filter=wanted.name,
                pattern_type_filter=i8(wanted.pattern),
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=i8(wanted.operation),
                permission_type=i8(wanted.permission),
            ),
        )
    )


def bindings(response: DescribeAclsResponse) -> list[AclBinding]:
    """Return the ACLs of a response."""
    return [_binding(resource, acl) for resource in response.resources for acl in resource.acls]


def deleted(response: DeleteAclsResponse) -> list[AclBinding]:
    """Return the deleted ACLs."""
    return [_binding(acl, acl) for result in response.filter_results for acl in result.matching_acls]


def _binding(resource: Any, acl: Any) -> AclBinding:
    """Return the ACL of a resource pattern and an entry, which are one or two elements, depending on the response."""
    return AclBinding(
        ResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        acl.principal,
        acl.host,
        AclOperation(acl.operation),
        AclPermission(acl.permission_type),
    )
