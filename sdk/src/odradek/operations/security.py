"""Users, ACLs and quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import (
    CLUSTER_NAME,
    EVERYONE,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from odradek.model.quota import (
    ADDRESS_QUOTAS,
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotaSet,
)

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}
OPERATIONS = tuple(
    each.name.lower() for each in AclOperation if AclOperation.ANY < each <= AclOperation.IDEMPOTENT_WRITE
)  # those that a request may need; of others, ACLs are only kept
_KINDS = {each.name.lower(): each for each in ResourceType if each is not ResourceType.ANY}
QUOTAS = (*CLIENT_QUOTAS, *ADDRESS_QUOTAS)


@dataclass(frozen=True, slots=True)
class AclRow:
    """An ACL."""

    principal: str
    host: str
    may: str  # allow | deny
    operation: str
    resource: str  # topic | group | transactional_id | cluster
    name: str
    pattern: str  # literal | prefixed


def acl_row(acl: AclBinding) -> AclRow:
    """Return an ACL with Kafka's names in lower case."""
    return AclRow(
        acl.principal,
        acl.host,
        acl.permission.name.lower(),
        acl.operation.name.lower(),
        acl.resource_type.name.lower(),
        acl.name,
        acl.pattern.name.lower(),
    )


def parse_operation(text: str) -> AclOperation:
    """Return an operation by name. Raises KafkaError(INVALID_CONFIG)."""
    name = text.upper().replace("-", "_")
    if name not in AclOperation.__members__ or name == "ANY":
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown operation {text!r}: use {', '.join(OPERATIONS)}")
    return AclOperation[name]


def parse_acl(row: AclRow) -> AclBinding:
    """Return the ACL that a row describes. Raises KafkaError(INVALID_CONFIG) that says what is missing."""
    kind = _KINDS.get(row.resource)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown resource {row.resource!r}: use {', '.join(RESOURCES)}")
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else row.name
    if not name:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "name the resource; * is every one")
    if not all(row.principal.partition(":")):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid principal {row.principal!r}: use User:<name> or User:*")
    return AclBinding(
        kind,
        name,
        PatternType.PREFIXED if row.pattern == "prefixed" else PatternType.LITERAL,
        row.principal,
        row.host or WILDCARD,
        parse_operation(row.operation),
        AclPermission.DENY if row.may == "deny" else AclPermission.ALLOW,
    )


def exactly(acl: AclBinding) -> AclFilter:
    """Return the filter that matches one ACL alone."""
    return AclFilter(acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The permission of a principal for an operation, and the ACL that decides; None: no ACL applies."""

    operation: str
    is_allowed: bool
    acl: AclRow | None


_IMPLIED = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
_DESCRIBED = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_OPERATIONS_OF = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        *_DESCRIBED,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DELETE, *_DESCRIBED),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    ResourceType.CLUSTER: (AclOperation.CREATE, AclOperation.ALTER, AclOperation.IDEMPOTENT_WRITE, *_DESCRIBED),
}


def explain(acls: Iterable[AclBinding], principal: str, name: str, resource: str = "topic") -> list[Verdict]:
    """Return what a principal may do with a resource from any host, and why.

    A denial wins, and some operations imply others. Without any ACL everyone may do everything. Super users and
    `allow_everyone_if_no_acl_found` are settings of the service, which a client does not see.

    Args:
        name: of the resource; ignored for the cluster.
        resource: topic, group, transactional_id or cluster.

    Raises KafkaError(INVALID_CONFIG) for another resource.
    """
    if resource not in RESOURCES:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown resource {resource!r}: use {', '.join(RESOURCES)}")
    kind, acls = RESOURCES[resource], list(acls)
    operations = _OPERATIONS_OF[kind]
    if not acls:
        return [Verdict(operation.name.lower(), True, None) for operation in operations]
    wanted = Resource(kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else name)
    mine = [each for each in acls if each.principal in (principal, EVERYONE) and each.covers(wanted)]
    verdicts = []
    for operation in operations:
        direct = [each for each in mine if each.operation in (operation, AclOperation.ALL)]
        denied = next((each for each in direct if each.permission is AclPermission.DENY), None)
        implied = [each for each in mine if each.operation in _IMPLIED.get(operation, ())]
        allowed = next((each for each in (*direct, *implied) if each.permission is AclPermission.ALLOW), None)
        decides = denied or allowed
        is_allowed = denied is None and allowed is not None
        verdicts.append(Verdict(operation.name.lower(), is_allowed, None if decides is None else acl_row(decides)))
    return verdicts


@dataclass(frozen=True, slots=True)
class Rights:
    """Permissions of a principal for a resource."""

    principal: str
    verdicts: tuple[Verdict, ...]


def matrix(acls: Iterable[AclBinding], users: Iterable[str], name: str, resource: str = "topic") -> list[Rights]:
    """Return what everybody may do with a resource, by principal: those of ACLs, the users, and everyone else.

    Args:
        users: of the Kafka port.

    Raises KafkaError(INVALID_CONFIG) for an unknown resource.
    """
    acls = list(acls)
    principals = sorted({each.principal for each in acls} | {f"User:{user}" for user in users} - {EVERYONE})
    return [Rights(each, tuple(explain(acls, each, name, resource))) for each in dict.fromkeys([*principals, EVERYONE])]


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A quota of a user, a client id, both, or an IP address; "" is the default of all."""

    user: str | None
    client_id: str | None
    ip: str | None
    quota: str
    value: float
    unit: str  # of the value: "bytes/s", "%" ...


_UNITS = {
    PRODUCER_BYTE_RATE: "bytes/s",
    CONSUMER_BYTE_RATE: "bytes/s",
    REQUEST_PERCENTAGE: "%",
    CONTROLLER_MUTATION_RATE: "partitions/s",
    CONNECTION_CREATION_RATE: "connections/s",
}


def quota_rows(quotas: ClientQuotaSet) -> list[QuotaRow]:
    """Return one row for each value."""
    return [
        QuotaRow(*entity, name, value, _UNITS.get(name, ""))
        for entity, values in quotas.items()
        for name, value in sorted(values.items())
    ]
