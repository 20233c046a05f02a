"""Connectors: what `odradek connect` and the console's page do with a Connect cluster. Calls block.

A Connect cluster is its topics: nothing here needs a worker. A look never creates them, so clusters are found by the
topics that workers made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import MissingExtra

if TYPE_CHECKING:
    from odradek.connect.runtime.cluster import Cluster as ConnectCluster

R = TypeVar("R")

DEFAULT_GROUP = "connect"
_SUFFIXES = ("configs", "status", "offsets")
_SECRET = ("password", "secret", "token", "credential", "key.id")
HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """A connector in a list."""

    name: str
    type: str  # source | sink | unknown
    state: str  # RUNNING | PAUSED | STOPPED | FAILED | UNASSIGNED ...
    kind: str  # the last part of its class's name
    tasks: tuple[str, ...]  # states

    @property
    def failed(self) -> int:
        """Return how many of connector and tasks have failed."""
        return (self.state == "FAILED") + self.tasks.count("FAILED")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task of a connector."""

    task: int
    state: str
    worker: str
    trace: str  # why it failed


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """How far a connector came, as JSON of Connect's."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ConnectorDetail:
    """A connector."""

    name: str
    type: str
    state: str
    worker: str
    trace: str
    config: Mapping[str, str]  # values of secrets are HIDDEN
    tasks: tuple[TaskRow, ...]
    topics: tuple[str, ...]  # that it has used
    offsets: tuple[OffsetRow, ...]

    @property
    def is_stopped(self) -> bool:
        """True if its offsets may be changed."""
        return self.state == "STOPPED" and not self.tasks


def groups_of(topics: Iterable[str]) -> list[str]:
    """Return the Connect clusters whose topics are among these."""
    names = set(topics)
    found = (name.removesuffix("-configs") for name in names if name.endswith("-configs"))
    return sorted(group for group in found if all(f"{group}-{each}" in names for each in _SUFFIXES))


class Connectors:
    """A Connect cluster. Safe for use by several threads; close it.

    Args:
        configs: of clients: the address and the credentials.

    Raises:
        KafkaError: by all methods: INVALID_REQUEST and INVALID_CONFIG with what to do.
    """

    def __init__(self, configs: Mapping[str, Any], group: str) -> None:
        self._configs, self._group = dict(configs), group
        self._opening = threading.Lock()
        self._opened: ConnectCluster | None = None

    def _cluster(self) -> ConnectCluster:
        from odradek.connect.runtime.cluster import Cluster as ConnectCluster
        from odradek.connect.settings import WorkerSettings

        with self._opening:
            if self._opened is None:
                self._opened = ConnectCluster(WorkerSettings.of({"group.id": self._group}, self._configs))
            return self._opened

    def _asked(self, ask: Callable[[ConnectCluster], R]) -> R:
        """Call the cluster; its refusals become Kafka's."""
        from odradek.connect.errors import ConnectError, RequestError

        try:
            return ask(self._cluster())
        except RequestError as error:
            code = ErrorCode.INVALID_CONFIG if error.status == 400 else ErrorCode.INVALID_REQUEST
            raise KafkaError(code, str(error)) from None
        except (ConnectError, MissingExtra) as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def rows(self) -> list[ConnectorRow]:
        """Return all connectors, by name."""

        def ask(cluster: ConnectCluster) -> list[ConnectorRow]:
            rows = []
            for name in cluster.connectors():
                status = cluster.status(name)
                kind = cluster.config(name).get("connector.class", "").rpartition(".")[2].rpartition(":")[2]
                states = tuple(each["state"] for each in status["tasks"])
                rows.append(ConnectorRow(name, status["type"], status["connector"]["state"], kind, states))
            return rows

        return self._asked(ask)

    def configs(self) -> dict[str, dict[str, str]]:
        """Return the configurations of all connectors by name, as they are kept: with secrets."""
        return self._asked(lambda cluster: {name: dict(cluster.config(name)) for name in cluster.connectors()})

    def describe(self, name: str) -> ConnectorDetail:
        """Return a connector, with secrets hidden."""

        def ask(cluster: ConnectCluster) -> ConnectorDetail:
            status, config = cluster.status(name), cluster.config(name)
            connector = status["connector"]
            return ConnectorDetail(
                name,
                status["type"],
                connector["state"],
                connector.get("worker_id", ""),
                connector.get("trace", ""),
                {key: shown_value(key, value) for key, value in sorted(config.items())},
                tuple(
                    TaskRow(each["id"], each["state"], each.get("worker_id", ""), each.get("trace", ""))
                    for each in status["tasks"]
                ),
                tuple(sorted(cluster.topics(name)[name]["topics"])),
                tuple(OffsetRow(each["partition"], each["offset"]) for each in cluster.offsets(name)["offsets"]),
            )

        return self._asked(ask)

    def problems(self, config: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return what is wrong with a configuration, as names and messages; nothing is created."""
        from odradek.connect.errors import ConfigError
        from odradek.connect.validate import connector_class, validate

        try:
            found = validate(connector_class(config), config)
        except ConfigError as error:
            return [(name, message) for name, messages in error.problems.items() for message in messages]
        except MissingExtra as error:
            return [("connector.class", str(error))]
        return [(name, message) for name, each in found.items() for message in each.errors]

    def save(self, name: str, config: Mapping[str, Any]) -> bool:
        """Create a connector or replace its configuration; return True if it is new.

        A value HIDDEN stays what it was.
        """

        def ask(cluster: ConnectCluster) -> bool:
            before = cluster.config(name) if name in cluster.connectors() else {}
            whole = {
                key: before.get(key, value) if value == HIDDEN else value
                for key, value in {"name": name, **config}.items()
            }
            return cluster.put_config(name, whole)[1]

        return self._asked(ask)

    def set_target(self, name: str, target: str) -> None:
        """Pause (PAUSED), resume (STARTED) or stop (STOPPED) a connector."""
        self._asked(lambda cluster: cluster.set_target(name, target))

    def restart(self, name: str, task: int | None = None, *, only_failed: bool = False) -> None:
        """Restart a connector with its tasks, or one task."""
        if task is not None:
            self._asked(lambda cluster: cluster.restart_task(name, task))
        else:
            self._asked(lambda cluster: cluster.restart(name, include_tasks=True, only_failed=only_failed))

    def delete(self, name: str) -> None:
        """Delete a connector. Its source offsets and its consumer group stay."""
        self._asked(lambda cluster: cluster.delete(name))

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> str:
        """Set offsets of a stopped connector. Returns what was done."""
        return self._asked(lambda cluster: cluster.alter_offsets(name, offsets))

    def reset_offsets(self, name: str) -> str:
        """Delete all offsets of a stopped connector. Returns what was done."""
        return self._asked(lambda cluster: cluster.reset_offsets(name))

    def close(self) -> None:
        """Release the clients."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None


def shown_value(name: str, value: str) -> str:
    """Return a value of a configuration; HIDDEN for a secret. A reference to a secret, ${...}, is none."""
    lower = name.lower()
    return HIDDEN if value and not value.startswith("${") and any(each in lower for each in _SECRET) else value
