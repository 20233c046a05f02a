"""The present contents of a service, section by section. Reading creates nothing: no topic of Connect, no subject."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from odradek.errors import KafkaError
from odradek.extras import extra
from odradek.model.acl import AclBinding
from odradek.model.quota import QuotaEntity
from odradek.operations.cluster import Cluster
from odradek.operations.cluster_file.contents import ClusterFile, SchemaEntry, SqlEntry, TopicEntry, UserEntry
from odradek.operations.cluster_file.statements import by_definition, defined, in_order
from odradek.operations.connectors import DEFAULT_GROUP, Connectors, groups_of, shown_value
from odradek.operations.schemas import RegistryAdmin, SchemaVersion

_INTERNAL = ("__", "_odradek")  # beginnings of names of topics that belong to the service and to its servers
_CONFIGS_AT_ONCE = 200  # topics of one DescribeConfigs


async def present(cluster: Cluster, wanted: ClusterFile) -> ClusterFile:
    """Return the sections of a service that a file has. Raises KafkaError."""
    groups = None if wanted.connectors is None else wanted.connectors.keys()
    server = None if wanted.sql is None else wanted.sql.server
    reads = _reads(cluster, groups, server)
    return ClusterFile(**{section: await reads[section]() for section in wanted.sections})


async def exported(cluster: Cluster, sql_server: str = "") -> tuple[ClusterFile, list[str]]:
    """Return everything that can be read, with secrets hidden, and why sections were left out.

    Args:
        sql_server: URL of a server of stream SQL; "": the file has no such section.
    """
    reads = _reads(cluster, None, sql_server or None)
    sections: dict[str, Any] = {}
    left_out = []
    for section, read in reads.items():
        if section == "sql" and not sql_server:
            continue
        try:
            sections[section] = await read()
        except KafkaError as error:
            left_out.append(f"{section}: {error}")
    if sections.get("connectors"):
        sections["connectors"] = {
            group: {name: {key: shown_value(key, value) for key, value in config.items() if key != "name"}
                    for name, config in connectors.items()}
            for group, connectors in sections["connectors"].items()
        }  # fmt: skip
    sections["users"] = {name: UserEntry(_variable(name)) for name in sections.get("users") or ()}
    return ClusterFile(**sections), left_out


def _variable(user: str) -> str:
    """Return the environment variable that an exported file names for a user's password."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in user).upper() + "_PASSWORD"


def _reads(
    cluster: Cluster, groups: Collection[str] | None, server: str | None
) -> Mapping[str, Callable[[], Coroutine[Any, Any, Any]]]:
    """Return how each section is read. Args: groups: Connect clusters; None: all."""
    return {
        "topics": lambda: _topics(cluster, groups or ()),
        "users": lambda: _users(cluster),
        "quotas": lambda: _quotas(cluster),
        "schemas": lambda: _schemas(cluster),
        "connectors": lambda: _connectors(cluster, groups),
        "sql": lambda: asyncio.to_thread(_sql, server or ""),
        "acls": lambda: _acls(cluster),
    }


def _connect_clusters(topics: Collection[str], named: Collection[str]) -> list[str]:
    """Return the Connect clusters: those of workers, and named ones that have connectors but had no worker yet."""
    return sorted({*groups_of(topics), *(group for group in (*named, DEFAULT_GROUP) if f"{group}-configs" in topics)})


async def _topics(cluster: Cluster, named: Collection[str]) -> Mapping[str, TopicEntry]:
    described = await cluster.admin.describe_topics()
    groups = _connect_clusters(described, named)
    own = {f"{group}-{suffix}" for group in groups for suffix in ("configs", "status", "offsets")}
    names = sorted(
        name
        for name, topic in described.items()
        if not topic.is_internal and not name.startswith(_INTERNAL) and name not in own
    )
    topics = {}
    for start in range(0, len(names), _CONFIGS_AT_ONCE):
        for name, entries in (await cluster.admin.describe_configs(names[start : start + _CONFIGS_AT_ONCE])).items():
            configs = {
                key: config.value or ""
                for key, config in sorted(entries.items())
                if not config.is_default and not config.is_read_only
            }
            topics[name] = TopicEntry(described[name].partition_count, configs)
    return topics


async def _users(cluster: Cluster) -> Mapping[str, UserEntry]:
    return {name: UserEntry() for name in await cluster.admin.list_users()}


async def _acls(cluster: Cluster) -> frozenset[AclBinding]:
    return frozenset(await cluster.admin.describe_acls())


async def _quotas(cluster: Cluster) -> Mapping[QuotaEntity, Mapping[str, float]]:
    return await cluster.admin.describe_client_quotas()


async def _schemas(cluster: Cluster) -> Mapping[str, SchemaEntry]:
    registry = await cluster.registry()
    return await asyncio.to_thread(_subjects, registry)


def _subjects(registry: RegistryAdmin) -> Mapping[str, SchemaEntry]:
    """Return all subjects, those first whose schemas others may refer to: ids grow."""
    subjects = {}
    for row in sorted(registry.subjects(), key=lambda subject: subject.schema_id):
        detail = registry.subject(row.subject)
        latest: SchemaVersion = detail.versions[0]
        subjects[row.subject] = SchemaEntry(
            latest.text,
            latest.kind,
            "" if detail.level_is_default else detail.level,
            latest.references,
            tuple(version.text for version in detail.versions[1:]),
        )
    return subjects


async def _connectors(
    cluster: Cluster, groups: Collection[str] | None
) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    by_group = {}
    for group in _connect_clusters(await cluster.admin.list_topics(), groups or ()):
        if groups is None or group in groups:
            connectors = Connectors(cluster.configs, group)
            try:
                by_group[group] = await asyncio.to_thread(connectors.configs)
            finally:
                await asyncio.to_thread(connectors.close)
    return {group: configs for group, configs in by_group.items() if configs or groups is not None}


def _sql(server: str) -> SqlEntry:
    """Return the statements of a server, in an order in which they can be run. Raises KafkaError, MissingExtra."""
    with extra("sql"):
        import lark  # noqa: F401
    from odradek.sql.server.client import RestClient

    client = RestClient(server)
    shown = client.execute("SHOW STREAMS EXTENDED; SHOW TABLES EXTENDED; SHOW QUERIES; SHOW TYPES;", {}, {})
    sources = [source for entity in shown for source in entity.get("sourceDescriptions", ())]
    queries = [query for entity in shown for query in entity.get("queries", ()) if query["queryType"] == "PERSISTENT"]
    types = [name for entity in shown for name in entity.get("types", ())]
    inserts = {
        query["queryString"]: query["id"]
        for query in queries
        if query["queryString"] and defined(query["queryString"]).startswith("insert/")
    }
    statements = by_definition([*(source["statement"] for source in sources if source["statement"]), *inserts])
    topics = [source["topic"] for source in sources]
    ordered = tuple(statements[name] for name in in_order(statements))
    return SqlEntry(server, ordered, query_ids=inserts, topics=frozenset(topics), types=frozenset(types))
