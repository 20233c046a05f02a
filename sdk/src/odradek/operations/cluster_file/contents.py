"""The contents of a cluster file.

    topics:
      orders: {partitions: 6, configs: {cleanup.policy: compact}}
    users:
      ada: {password_env: ADA_PASSWORD}
    acls:
      - {principal: "User:ada", allow: [read, describe], topic: orders}
    quotas:
      - {user: ada, producer_byte_rate: 1000000}
    schemas:
      orders-value: {type: AVRO, compatibility: FULL, file: orders.avsc}
    connectors:
      connect:  # the Connect cluster (group.id)
        orders-to-s3: {connector.class: ...}
    sql:
      server: http://127.0.0.1:8088
      statements: CREATE STREAM ...;

A section is None if the file does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.client.serializers.registry import SchemaReference
from odradek.model.acl import WILDCARD, AclBinding, AclPermission, PatternType, ResourceType
from odradek.model.quota import DEFAULT, QuotaEntity

EVERY_OTHER = "default"  # in a file: the user, client id or address of a quota that each one without its own has
SECTIONS = ("topics", "users", "quotas", "schemas", "connectors", "sql", "acls")  # in the order of changes


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic."""

    partitions: int | None  # None: the service's default, or what the topic has
    configs: Mapping[str, str] = field(default_factory=dict)  # those that are not defaults


@dataclass(frozen=True, slots=True)
class UserEntry:
    """A user of the Kafka port. A service does not tell passwords, so only new users get one."""

    password_env: str = ""  # name of the environment variable with the password
    password_file: str = ""  # path of the file with the password


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """The latest schema of a subject."""

    text: str
    type: str = "AVRO"  # AVRO | JSON | PROTOBUF
    compatibility: str = ""  # "": the registry's default
    references: tuple[SchemaReference, ...] = ()
    older: tuple[str, ...] = ()  # texts of earlier versions; only of a service


@dataclass(frozen=True, slots=True)
class SqlEntry:
    """Streams, tables and queries of a server of stream SQL."""

    server: str
    statements: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)  # as auto.offset.reset; not kept with the statements
    query_ids: Mapping[str, str] = field(default_factory=dict)  # of INSERT INTO, by statement; only of a server
    topics: frozenset[str] = frozenset()  # that streams and tables read or write; only of a server
    types: frozenset[str] = frozenset()  # names of CREATE TYPE; only of a server


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """Sections by name; None: not in the file, or not asked for."""

    topics: Mapping[str, TopicEntry] | None = None
    users: Mapping[str, UserEntry] | None = None
    acls: frozenset[AclBinding] | None = None
    quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None
    schemas: Mapping[str, SchemaEntry] | None = None
    connectors: Mapping[str, Mapping[str, Mapping[str, str]]] | None = None  # configurations by group.id and name
    sql: SqlEntry | None = None

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of the sections that are there."""
        return tuple(name for name in SECTIONS if getattr(self, name) is not None)


def document(contents: ClusterFile) -> dict[str, Any]:
    """Return contents as mappings, lists and scalars that `reading.read` takes; empty sections are left out."""
    sections: dict[str, Any] = {
        "topics": {name: _topic(entry) for name, entry in sorted((contents.topics or {}).items())},
        "users": {name: _without_empty(_user(entry)) for name, entry in sorted((contents.users or {}).items())},
        "acls": _acls(contents.acls or ()),
        "quotas": [
            _entity(entity) | {name: _number(value) for name, value in sorted(values.items())}
            for entity, values in sorted((contents.quotas or {}).items(), key=lambda item: _entity_order(item[0]))
        ],
        "schemas": {name: _schema(entry) for name, entry in (contents.schemas or {}).items()},
        "connectors": {
            group: {name: dict(config) for name, config in sorted(connectors.items())}
            for group, connectors in sorted((contents.connectors or {}).items())
        },
    }
    if contents.sql is not None and contents.sql.statements:
        sections["sql"] = {"server": contents.sql.server, "statements": "\n".join(contents.sql.statements) + "\n"}
    return _without_empty(sections)


def _without_empty(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if value not in (None, "", {}, [])}


def _topic(entry: TopicEntry) -> dict[str, Any]:
    return _without_empty({"partitions": entry.partitions, "configs": dict(sorted(entry.configs.items()))})


def _user(entry: UserEntry) -> dict[str, Any]:
    return {"password_env": entry.password_env, "password_file": entry.password_file}


def _schema(entry: SchemaEntry) -> dict[str, Any]:
    references = [{"name": ref.name, "subject": ref.subject, "version": ref.version} for ref in entry.references]
    schema = {"type": entry.type, "compatibility": entry.compatibility, "schema": entry.text, "references": references}
    return _without_empty(schema)


def _acls(acls: Iterable[AclBinding]) -> list[dict[str, Any]]:
    """Return ACLs that differ only in their operation as one item."""
    operations: dict[tuple[Any, ...], list[str]] = {}
    for acl in acls:
        rule = (acl.principal, acl.permission, acl.resource_type, acl.name, acl.pattern, acl.host)
        operations.setdefault(rule, []).append(acl.operation.name.lower())
    items = []
    for rule in sorted(operations):
        principal, permission, resource_type, name, pattern, host = rule
        item: dict[str, Any] = {"principal": principal}
        item["deny" if permission is AclPermission.DENY else "allow"] = sorted(operations[rule])
        item[resource_type.name.lower()] = True if resource_type is ResourceType.CLUSTER else name
        if pattern is PatternType.PREFIXED:
            item["pattern"] = "prefixed"
        if host != WILDCARD:
            item["host"] = host
        items.append(item)
    return items


def _entity(entity: QuotaEntity) -> dict[str, Any]:
    """Return the names of a quota's entity, as a file has them."""
    names = entity._asdict().items()
    return {name: EVERY_OTHER if value == DEFAULT else value for name, value in names if value is not None}


def _entity_order(entity: QuotaEntity) -> list[str]:
    return [name or "" for name in entity]


def entity_text(entity: QuotaEntity) -> str:
    """Return a quota's entity for people: `user ada, client_id default`."""
    return ", ".join(f"{name} {value}" for name, value in _entity(entity).items())


def _number(value: float) -> int | float:
    """Return a whole number without its `.0`."""
    return int(value) if value == int(value) else value
