"""States of connectors and tasks, and the topics that connectors use, in a compacted topic.

    status-connector-NAME              {"state", "trace", "worker_id", "generation"}
    status-task-NAME-N                 the same
    status-topic-TOPIC:connector-NAME  {"topic": {"name", "connector", "task", "discoverTimestamp"}}

Source: Kafka Connect's KafkaStatusBackingStore, KIP-558. States inform; no decision depends on them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.connect.state.state_topic import StateTopic

RUNNING, UNASSIGNED, FAILED, PAUSED, STOPPED, RESTARTING = (
    "RUNNING", "UNASSIGNED", "FAILED", "PAUSED", "STOPPED", "RESTARTING",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work: a connector (`task` None), or one of its tasks."""

    connector: str
    task: int | None = None

    def __str__(self) -> str:
        return self.connector if self.task is None else f"{self.connector}-{self.task}"

    @property
    def status_key(self) -> bytes:
        return f"status-{'connector' if self.task is None else 'task'}-{self}".encode()


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a unit, as its worker wrote it."""

    state: str = UNASSIGNED
    worker_id: str = ""
    trace: str | None = None
    generation: int = -1


class Statuses:
    """The topic of states."""

    def __init__(self, client: Mapping[str, Any], topic: str) -> None:
        self._units: dict[Unit, Status] = {}
        self._topics: dict[str, dict[str, Any]] = {}
        self._log = StateTopic(client, topic, 1, self._apply)

    def _apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        text = (key or b"").decode(errors="replace")
        document = _document(value)
        if text.startswith("status-topic-"):
            topic, mark, connector = text.removeprefix("status-topic-").partition(":connector-")
            if mark:
                topics = self._topics.setdefault(connector, {})
                topics.pop(topic, None)
                if document is not None:
                    topics[topic] = document.get("topic")
            return
        unit = _unit(text)
        if unit is None:
            return
        self._units.pop(unit, None)
        if document is not None and isinstance(document.get("generation", 0), int):
            self._units[unit] = Status(
                str(document.get("state")), str(document.get("worker_id") or ""), document.get("trace"),
                int(document.get("generation") or 0),
            )  # fmt: skip

    def put(self, unit: Unit, status: Status) -> None:
        """Write a state. Raises KafkaError."""
        document = {"state": status.state, "trace": status.trace, "worker_id": status.worker_id}
        self._log.write([(unit.status_key, json.dumps({**document, "generation": status.generation}).encode())])

    def forget(self, *units: Unit) -> None:
        """Delete states."""
        self._log.write([(unit.status_key, None) for unit in units])

    def all(self) -> dict[Unit, Status]:
        """Return the states of all units."""
        with self._log.lock:
            self._log.read_to_end()
            return dict(self._units)

    def topics(self, connector: str) -> list[str]:
        """Return the topics that a connector has used, sorted."""
        with self._log.lock:
            self._log.read_to_end()
            return sorted(self._topics.get(connector, {}))

    def put_topic(self, topic: str, unit: Unit, now_ms: int) -> None:
        """Note that a task uses a topic."""
        document = {"name": topic, "connector": unit.connector, "task": unit.task, "discoverTimestamp": now_ms}
        key = f"status-topic-{topic}:connector-{unit.connector}".encode()
        self._log.write([(key, json.dumps({"topic": document}).encode())])

    def forget_topics(self, connector: str) -> None:
        """Delete the list of topics of a connector."""
        self._log.write([(f"status-topic-{t}:connector-{connector}".encode(), None) for t in self.topics(connector)])

    def close(self) -> None:
        self._log.close()


def _document(value: bytes | None) -> dict[str, Any] | None:
    try:
        document = None if value is None else json.loads(value)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _unit(text: str) -> Unit | None:
    if text.startswith("status-connector-"):
        return Unit(text.removeprefix("status-connector-"))
    name, _, number = text.removeprefix("status-task-").rpartition("-")
    return Unit(name, int(number)) if text.startswith("status-task-") and number.isdigit() else None
