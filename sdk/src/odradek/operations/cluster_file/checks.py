"""The service's opinion of a plan before anything is changed: topics, schemas and connectors that it would refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from odradek.client.serializers.registry import Schema
from odradek.client.types import NewTopic
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.cluster import Cluster
from odradek.operations.cluster_file.contents import SchemaEntry, TopicEntry, UserEntry
from odradek.operations.cluster_file.plan import Action, Change, Plan
from odradek.operations.connectors import HIDDEN, Connectors


async def problems(cluster: Cluster, plan: Plan, environ: Mapping[str, str]) -> list[str]:
    """Return why changes of a plan would fail, as far as can be told without making them."""
    refusals = list(plan.problems)
    for change in plan.changes:
        if change.action is Action.DELETE:
            continue
        try:
            if change.section == "topics" and change.action is Action.CREATE:
                await _check_topic(cluster, change.key, change.after)
            elif change.section == "users":
                password(change.after, environ)
            elif change.section == "schemas" and change.action is Action.CHANGE:
                refusals += await _incompatible(cluster, change)
            elif change.section == "connectors":
                refusals += await asyncio.to_thread(_connector_problems, cluster, change)
        except KafkaError as error:
            refusals.append(f"{change.name}: {error.message}")
    return refusals


async def _check_topic(cluster: Cluster, name: str, entry: TopicEntry) -> None:
    topic = NewTopic(name, entry.partitions or -1, configs=dict(entry.configs))
    await cluster.admin.create_topics([topic], validate_only=True)


async def _incompatible(cluster: Cluster, change: Change) -> list[str]:
    fields = {difference.field for difference in change.differences}
    if fields != {"schema"}:  # the level changes first: the registry checks the schema by the new one
        return []
    registry = await cluster.registry()
    checked = await asyncio.to_thread(registry.check, change.key, schema_of(change.after))
    return [] if checked.is_compatible else [f"{change.name}: {message}" for message in checked.messages]


def _connector_problems(cluster: Cluster, change: Change) -> list[str]:
    group, name = change.key
    before = change.before or {}
    config = {key: before.get(key, value) if value == HIDDEN else value for key, value in change.after.items()}
    connectors = Connectors(cluster.configs, group)  # `problems` calls no service
    return [f"{change.name}: {key}: {message}" for key, message in connectors.problems({"name": name, **config})]


def schema_of(entry: SchemaEntry) -> Schema:
    """Return the schema that is registered for an entry."""
    return Schema(entry.text, entry.type, entry.references)


def password(entry: UserEntry, environ: Mapping[str, str]) -> str:
    """Return the password of a user. Raises KafkaError(INVALID_CONFIG) if it is not where the file says."""
    if entry.password_env:
        if not environ.get(entry.password_env):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"the environment has no {entry.password_env}: set it")
        return environ[entry.password_env]
    try:
        return Path(entry.password_file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{entry.password_file}: {reason}") from None
