"""Triggers that start a shift when the topics of sinks get records, kept by the shifts themselves.

Each shift looks, before it works, which topics the running sinks read, creates the triggers that are missing and
deletes those that nothing reads any more. Records that come later wake the function; those before are the shift's.

    name        connect.<group.id>.<topic>
    options     newest_only: the function is told that there is something; the tasks read it as always

Where triggers cannot be managed (no rights, no such function), sinks wait for the schedule, and a warning says so.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Protocol

from odradek.client.admin.sync import Admin
from odradek.connect.errors import ConnectError
from odradek.connect.plugin import SinkConnector
from odradek.connect.settings import WorkerSettings
from odradek.connect.state.cluster_state import STARTED, ClusterState
from odradek.connect.validate import connector_class
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import MissingExtra
from odradek.model.trigger import Trigger
from odradek.patterns import compile_pattern

_NAME_CHARACTERS_MAX = 100
_BATCHING_WINDOW_S = 5
_log = logging.getLogger("odradek.connect.wakes")


class Triggering(Protocol):
    """The part of the admin client that is needed."""

    def list_topics(self) -> list[str]: ...

    def list_triggers(self) -> list[Trigger]: ...

    def create_trigger(self, name: str, topic: str, function: str, **options: object) -> Trigger: ...

    def delete_trigger(self, name: str) -> None: ...


def keep_wakes(settings: WorkerSettings, state: ClusterState, function: str) -> None:
    """Have the topics of running sinks call the function. Raises nothing: a shift works without it."""
    try:
        with Admin(**settings.client) as admin:
            settle(admin, settings.group_id, state, function)
    except KafkaError as error:
        _log.warning("sinks wait for the schedule, for triggers cannot be managed: %s", error)


def settle(admin: Triggering, group_id: str, state: ClusterState, function: str) -> None:
    """Create and delete triggers until they are those of the running sinks. Raises KafkaError."""
    wanted = {trigger_name(group_id, topic): topic for topic in topics_of_sinks(admin, state)}
    own = {
        trigger.name: trigger
        for trigger in admin.list_triggers()
        if trigger.name.startswith(f"connect.{group_id}.") and trigger.function == function
    }
    for name in sorted(own.keys() - wanted.keys()):
        try:
            admin.delete_trigger(name)
        except KafkaError as error:
            if error.code is not ErrorCode.RESOURCE_NOT_FOUND:  # another shift was faster
                raise
    for name in sorted(wanted.keys() - own.keys()):
        try:
            admin.create_trigger(name, wanted[name], function, newest_only=True, batching_window_s=_BATCHING_WINDOW_S)
        except KafkaError as error:
            # A topic that is gone is the sink's concern; it is tried again by the next shift.
            if error.code not in (ErrorCode.DUPLICATE_RESOURCE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise


def topics_of_sinks(admin: Triggering, state: ClusterState) -> set[str]:
    """Return the topics that running sinks read. Raises KafkaError."""
    topics: set[str] = set()
    patterns = []
    for name in state.names():
        connector = state.get(name)
        if connector.target != STARTED or connector.config is None or not _is_sink(connector.config):
            continue
        topics |= {topic.strip() for topic in (connector.config.get("topics") or "").split(",") if topic.strip()}
        if connector.config.get("topics.regex"):
            patterns.append(compile_pattern(connector.config["topics.regex"]))
    if patterns:
        topics |= {topic for topic in admin.list_topics() if any(pattern.matches(topic) for pattern in patterns)}
    return topics


def _is_sink(config: Mapping[str, str]) -> bool:
    try:
        return issubclass(connector_class(config), SinkConnector)
    except (ConnectError, MissingExtra):
        return False  # its task says what is wrong


def trigger_name(group_id: str, topic: str) -> str:
    """Return the name of a topic's trigger; a long one ends in a digest of it."""
    name = f"connect.{group_id}.{topic}"
    if len(name) <= _NAME_CHARACTERS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _NAME_CHARACTERS_MAX - 17]}-{digest}"
