"""The decision whether an operation is allowed, by the ACLs. Pure.

    super user                                            yes
    nothing is ruled, and the setting lets everyone       yes
    a rule denies the operation, or ALL                   no
    a rule allows it, or ALL, or what implies it          yes
    otherwise                                             no

READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS; a denial implies nothing. Source:
Apache Kafka's StandardAuthorizer.

What is meant by "nothing is ruled" (`allow_everyone_if_no_acl_found`):

    until_first_acl   there is no rule at all: the first one closes everything that no rule opens. The default
    true              no rule covers this resource, whomever the rules are for: Kafka's allow.everyone.if.no.acl.found
    false             never: everything is closed from the beginning

The ARN of an assumed role contains a session, a different one each time. An ACL that names the ARN without the session,
or the role as in IAM, applies to all sessions; so a caller has several names.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

from odradek.model.acl import (
    EVERYONE,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
)
from odradek.model.acl import ResourceType as Type
from odradek.settings import EVERYONE_WITHOUT_ACLS

_IMPLIED_BY = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
_SESSION = re.compile(r"User:arn:(?P<partition>[\w-]+):sts::(?P<account>\d+):assumed-role/(?P<role>[^/]+)/.+")
UNTIL_FIRST_ACL, IF_NO_ACL_FOUND, NOTHING = EVERYONE_WITHOUT_ACLS
_NO_NAME = "\0"  # that no resource has
_DECISIONS_MAX = 10_000  # that one copy of the rules remembers


def identities(principal: str) -> frozenset[str]:
    """The names that rules may give a caller: itself, its role, everyone."""
    found = _SESSION.fullmatch(principal)
    names = {principal, EVERYONE}
    if found is not None:
        partition, account, role = found["partition"], found["account"], found["role"]
        names |= {
            f"User:arn:{partition}:sts::{account}:assumed-role/{role}",
            f"User:arn:{partition}:iam::{account}:role/{role}",
        }
    return frozenset(names)


def grants(operation: AclOperation) -> frozenset[AclOperation]:
    """Return the operations whose ALLOW entries permit this one."""
    return frozenset({operation, AclOperation.ALL, *_IMPLIED_BY.get(operation, ())})


class AclSet:
    """The ACLs at one moment.

    Args:
        acls: all of them.
        super_users: principals whom no rule binds.
        everyone: what everyone may do without a rule: UNTIL_FIRST_ACL, IF_NO_ACL_FOUND or NOTHING.
    """

    def __init__(
        self, acls: Iterable[AclBinding] = (), *, super_users: Iterable[str] = (), everyone: str = UNTIL_FIRST_ACL
    ) -> None:
        self.acls = tuple(acls)
        self._super_users = frozenset(super_users)
        self._is_open = everyone != NOTHING and not self.acls
        self._opens_unruled = everyone == IF_NO_ACL_FOUND
        self._decisions: dict[tuple[str, str, AclOperation, Resource], bool] = {}
        # Literal rules are found by name; of prefixes there are few, and they are tried one by one.
        self._literal: dict[tuple[Type, str], list[AclBinding]] = {}
        self._prefixed: dict[Type, list[AclBinding]] = {}
        for acl in self.acls:
            if acl.pattern is PatternType.PREFIXED:
                self._prefixed.setdefault(acl.resource_type, []).append(acl)
            else:
                self._literal.setdefault((acl.resource_type, acl.name), []).append(acl)

    def binds(self, principal: str) -> bool:
        """Return False if the caller may do everything, so that the ACLs do not apply."""
        return not self._is_open and not self.is_super_user(principal)

    def is_ruled(self, resource: Resource) -> bool:
        """Return True if an ACL, and not only the setting, decides about the resource."""
        return any(True for _ in self._covering(resource)) if self._opens_unruled else bool(self.acls)

    def is_super_user(self, principal: str) -> bool:
        """Return True if the setting names the caller."""
        return not self._super_users.isdisjoint(identities(principal))

    def allows(self, principal: str, host: str, operation: AclOperation, resource: Resource) -> bool:
        """The decision."""
        if self._is_open:
            return True
        key = (principal, host, operation, resource)
        decided = self._decisions.get(key)
        if decided is None:
            decided = not self.binds(principal) or self._decide(principal, host, operation, resource)
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[key] = decided
        return decided

    def allows_any(self, principal: str, host: str, operation: AclOperation, kind: Type) -> bool:
        """Return True if the caller may do this with at least one resource of the type: an ACL allows some, and no
        denial covers all of those."""
        if not self.binds(principal):
            return True
        if self._opens_unruled and self._decide(principal, host, operation, Resource(kind, _NO_NAME)):
            return True
        who, allowing = identities(principal), grants(operation)
        denials = [
            acl
            for acl in self.acls
            if acl.resource_type is kind
            and acl.permission is AclPermission.DENY
            and _is_meant(acl, who, host)
            and acl.operation in (operation, AclOperation.ALL)
        ]
        return any(
            acl.permission is AclPermission.ALLOW
            and acl.resource_type is kind
            and acl.operation in allowing
            and _is_meant(acl, who, host)
            and not any(_covers_all(denial, acl) for denial in denials)
            for acl in self.acls
        )

    def _decide(self, principal: str, host: str, operation: AclOperation, resource: Resource) -> bool:
        who, allowing = identities(principal), grants(operation)
        is_allowed, is_ruled = False, False
        for acl in self._covering(resource):
            is_ruled = True
            if not _is_meant(acl, who, host):
                continue
            if acl.permission is AclPermission.DENY and acl.operation in (operation, AclOperation.ALL):
                return False
            if acl.permission is AclPermission.ALLOW and acl.operation in allowing:
                is_allowed = True
        return is_allowed or (self._opens_unruled and not is_ruled)

    def _covering(self, resource: Resource) -> Iterable[AclBinding]:
        yield from self._literal.get((resource.type, resource.name), ())
        if resource.name != WILDCARD:
            yield from self._literal.get((resource.type, WILDCARD), ())
        for acl in self._prefixed.get(resource.type, ()):
            if resource.name.startswith(acl.name):
                yield acl


def _is_meant(acl: AclBinding, who: frozenset[str], host: str) -> bool:
    return acl.principal in who and (acl.host in (WILDCARD, host) or ("/" in acl.host and _is_within(host, acl.host)))


@lru_cache(maxsize=4096)
def _is_within(host: str, network: str) -> bool:
    """Return True if an address is in a range such as 10.0.0.0/8."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _covers_all(denial: AclBinding, allowed: AclBinding) -> bool:
    """Return True if the denial's pattern covers everything that the other pattern covers."""
    if denial.pattern is PatternType.PREFIXED:
        is_everything = allowed.pattern is PatternType.LITERAL and allowed.name == WILDCARD
        return not is_everything and allowed.name.startswith(denial.name)
    return denial.name == WILDCARD or (allowed.pattern is PatternType.LITERAL and allowed.name == denial.name)
