"""ACLs in Kafka's model: a principal, a host, an operation and a resource, allowed or denied.

Numbers and names are those of Kafka's protocol (AclBinding, ResourceType, PatternType, AclOperation,
AclPermissionType). ANY and MATCH occur in filters only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

WILDCARD = "*"  # a literal pattern of this name covers every resource of the type; as a host, every host
EVERYONE = "User:*"
CLUSTER_NAME = "kafka-cluster"  # the only resource of type CLUSTER


class ResourceType(IntEnum):
    """The types of resources that an ACL applies to."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The ways in which a name covers resources."""

    ANY = 1
    MATCH = 2  # in filters: every pattern that covers the name
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operations that an ACL allows or denies."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Allow or deny; a denial wins."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Resource(NamedTuple):
    """A resource, by type and name."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One ACL."""

    resource_type: ResourceType
    name: str
    pattern: PatternType  # LITERAL or PREFIXED
    principal: str  # "User:<name>", EVERYONE
    host: str  # an address, a range of them such as 10.0.0.0/8, or WILDCARD
    operation: AclOperation
    permission: AclPermission

    def covers(self, resource: Resource) -> bool:
        """Return True if the pattern covers the resource."""
        if resource.type is not self.resource_type:
            return False
        if self.pattern is PatternType.PREFIXED:
            return resource.name.startswith(self.name)
        return self.name in (resource.name, WILDCARD)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs; None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Return True if the filter matches the ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern is PatternType.MATCH and self.name is not None:
            return acl.covers(Resource(acl.resource_type, self.name))
        return self.name in (None, acl.name) and self.pattern in (PatternType.ANY, PatternType.MATCH, acl.pattern)
