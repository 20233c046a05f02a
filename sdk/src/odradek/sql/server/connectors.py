"""Answers to statements about connectors, from a Connect cluster.

A connector is not of the server: a statement changes the cluster's topics, as `odradek connect` does, and a worker
carries it out: the server's own (`--connect-worker`), or any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from odradek.connect.errors import ConfigError, Conflict, NotFound, RequestError
from odradek.connect.plugins import connector_type, listing
from odradek.connect.validate import connector_class
from odradek.errors import KafkaError
from odradek.extras import MissingExtra
from odradek.sql.plan import OfConnectors
from odradek.sql.server.entities import Json, entity
from odradek.sql.server.errors import BAD_STATEMENT, NOT_FOUND, SERVER_ERROR, RestError

_RUNNING = "RUNNING"


class ConnectCluster(Protocol):
    """What the statements need of a Connect cluster (connect/runtime/cluster.py)."""

    def connectors(self) -> list[str]: ...
    def create(self, name: str, configs: Mapping[str, Any]) -> dict[str, Any]: ...
    def delete(self, name: str) -> None: ...
    def config(self, name: str) -> dict[str, str]: ...
    def status(self, name: str) -> dict[str, Any]: ...
    def topics(self, name: str) -> dict[str, Any]: ...
    def has_workers(self) -> bool: ...
    def close(self) -> None: ...


class Connectors:
    """The connectors of one Connect cluster, as statements see them. Safe for use by several threads.

    Args:
        open_cluster: called once, at the first statement: most servers see none.
        group: name of the Connect cluster.
    """

    def __init__(self, open_cluster: Callable[[], ConnectCluster], group: str) -> None:
        self._open = open_cluster
        self._group = group
        self._lock = threading.Lock()
        self._cluster: ConnectCluster | None = None

    def answer(self, action: OfConnectors, text: str, sources: Callable[[Sequence[str]], list[Json]]) -> Json:
        """Run a statement, and return its result.

        Args:
            sources: returns descriptions of the streams and tables over some topics.

        Raises:
            RestError: the cluster refuses it, or cannot be reached.
        """
        try:
            with self._lock:
                if self._cluster is None:
                    self._cluster = self._open()
            if action.verb == "create":
                return self._create(self._cluster, action, text)
            if action.verb == "drop":
                return _drop(self._cluster, action, text)
            if action.verb == "describe":
                return _describe(self._cluster, action.name, text, sources)
            if action.verb == "list":
                return _list(self._cluster, action.kind, text)
            plugins = [
                {"className": each["class"], "type": each["type"], "version": each["version"]}
                for each in listing(connectors_only=True)
            ]
            return entity("connector_plugins_list", text, connectorsPlugins=plugins)
        except NotFound as error:
            raise RestError(NOT_FOUND, str(error)) from None
        except (RequestError, ConfigError, MissingExtra) as error:
            raise RestError(BAD_STATEMENT, str(error)) from None
        except KafkaError as error:
            raise RestError(SERVER_ERROR, f"Connect cluster {self._group} cannot be used: {error.message}") from None

    def _create(self, cluster: ConnectCluster, action: OfConnectors, text: str) -> Json:
        configs = dict(action.configs)
        kind = connector_type(connector_class(configs))
        if kind != action.kind:
            wanted = f"CREATE {kind.upper()} CONNECTOR {action.name}"
            raise RestError(BAD_STATEMENT, f"{configs['connector.class']} is a {kind}: {wanted}")
        try:
            info = cluster.create(action.name, configs)
        except Conflict:
            if action.is_lenient and action.name in cluster.connectors():
                return entity("warning_entity", text, message=f"Connector {action.name} already exists")
            raise
        found = entity("connector_info", text, info=info)
        if not cluster.has_workers():
            note = f"no worker runs it yet: start `odradek connect run --group {self._group}`, or this server with "
            found["warnings"] = [{"message": f"{note}--connect-worker"}]
        return found

    def close(self) -> None:
        """Release the clients; the connectors go on."""
        with self._lock:
            if self._cluster is not None:
                self._cluster.close()
                self._cluster = None


def _drop(cluster: ConnectCluster, action: OfConnectors, text: str) -> Json:
    try:
        cluster.delete(action.name)
    except NotFound:
        if not action.is_lenient:
            raise
        return entity("warning_entity", text, message=f"Connector '{action.name}' does not exist.")
    return entity("drop_connector", text, connectorName=action.name)


def _list(cluster: ConnectCluster, kind: str, text: str) -> Json:
    found = []
    for name in cluster.connectors():
        try:
            status, configs = cluster.status(name), cluster.config(name)
        except NotFound:  # deleted in this moment
            continue
        if kind in ("", status["type"]):
            class_name = configs.get("connector.class", "")
            found.append({"name": name, "type": status["type"], "className": class_name, "state": _summary(status)})
    return entity("connector_list", text, connectors=found)


def _describe(cluster: ConnectCluster, name: str, text: str, sources: Callable[[Sequence[str]], list[Json]]) -> Json:
    status, configs = cluster.status(name), cluster.config(name)
    topics = sorted(cluster.topics(name)[name]["topics"])
    described = sources(topics)
    return entity(
        "connector_description", text, connectorClass=configs.get("connector.class", ""), status=status,
        sources=described, topics=topics,
    )  # fmt: skip


def _summary(status: Mapping[str, Any]) -> str:
    """Return the state of a connector in one text: RUNNING (1/2 tasks RUNNING), or its own state without tasks."""
    state, tasks = status["connector"]["state"], status["tasks"]
    if state != _RUNNING or not tasks:
        return str(state)
    running = sum(each["state"] == _RUNNING for each in tasks)
    word = _RUNNING if running == len(tasks) else "WARNING" if running else "FAILED"
    return f"{word} ({running}/{len(tasks)} tasks RUNNING)"
