"""The state of a Connect cluster, as its topic of configurations says: a pure function of the records in order.

    key                       value                                          meaning
    connector-NAME            {"properties": {...}}                          configuration of a connector
    target-state-NAME         {"state": "STARTED" | "PAUSED" | "STOPPED"}    what its user wants
    task-NAME-N               {"properties": {...}}                          configuration of a task
    commit-NAME               {"tasks": n, "config": offset, "slots": [...]} the tasks are complete: a new generation
    tasks-fencing-NAME        {"tasks": n, "generation": offset}             older producers of the tasks are fenced
    restart-connector-NAME    {"include-tasks": bool, "only-failed": bool}   a request to restart
    restart-task-NAME-N       {}                                             a request to restart a task
    logger-cluster-NAME       {"level": "DEBUG"}                             level of a logger in all workers

The topic has one partition and is compacted. Keys and values are Kafka Connect's; added are `config`, the offset of the
record that the tasks were made from, `slots`, where they run, and `generation`, the commit that was fenced. A change is
written on condition that nobody else has written since the topic was read (`expected_offset`), so two workers that
serve requests never overwrite each other.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

_log = logging.getLogger("odradek.connect.state")
STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"


class Prefix(Enum):
    """The kinds of keys."""

    CONNECTOR = "connector-"
    TARGET = "target-state-"
    TASK = "task-"
    COMMIT = "commit-"
    FENCING = "tasks-fencing-"
    RESTART_CONNECTOR = "restart-connector-"
    RESTART_TASK = "restart-task-"
    LOGGER = "logger-cluster-"

    def key(self, name: str, task: int | None = None) -> bytes:
        """Return the key of a connector, or of one of its tasks."""
        return f"{self.value}{name}{'' if task is None else f'-{task}'}".encode()


@dataclass(frozen=True)
class Restart:
    """A request to restart; `offset` tells later requests from earlier ones."""

    offset: int
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True)
class ConnectorState:
    """One connector, as the topic has it.

    Attributes:
        config: its configuration, None if it was deleted.
        config_offset: of the record with the configuration: a later one is a newer configuration.
        target: STARTED, PAUSED or STOPPED.
        tasks: configurations of the tasks of the present generation.
        slots: the slot of each task.
        generation: offset of the commit that made them, -1 before the first one.
        made_from: `config_offset` of the configuration that they were made from.
        fenced: the generation before which all producers are fenced.
        fenced_tasks: how many tasks of it there were.
        restart: the last request.
        task_restarts: the offset of the last request, by task.
    """

    config: Mapping[str, str] | None = None
    config_offset: int = -1
    target: str = STARTED
    tasks: tuple[Mapping[str, str], ...] = ()
    slots: tuple[int, ...] = ()
    generation: int = -1
    made_from: int = -1
    fenced: int = -1
    fenced_tasks: int = 0
    restart: Restart | None = None
    task_restarts: Mapping[int, int] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        return self.config is not None

    @property
    def has_current_tasks(self) -> bool:
        """Return True if the tasks were made from the present configuration."""
        return self.generation >= 0 and self.made_from == self.config_offset


class ClusterState:
    """The connectors by name, and levels of loggers. `apply` takes the records in the order of their offsets."""

    def __init__(self) -> None:
        self.connectors: dict[str, ConnectorState] = {}
        self.loggers: dict[str, str] = {}
        self._pending: dict[str, dict[int, Mapping[str, str]]] = {}  # tasks without their commit yet

    def get(self, name: str) -> ConnectorState:
        """Return the state of a connector, an empty one if it does not exist."""
        return self.connectors.get(name, ConnectorState())

    def names(self) -> list[str]:
        """Return the names of existing connectors, sorted."""
        return sorted(name for name, connector in self.connectors.items() if connector.exists)

    def apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        """Take a record. Records of other kinds are ignored."""
        text = (key or b"").decode(errors="replace")
        try:
            document = None if value is None else json.loads(value)
        except ValueError:
            return
        if document is not None and not isinstance(document, dict):
            return
        for prefix in sorted(Prefix, key=lambda candidate: -len(candidate.value)):
            if text.startswith(prefix.value):
                try:
                    self._take(prefix, text.removeprefix(prefix.value), document, offset)
                except (AttributeError, TypeError, ValueError):  # of another program, or another version
                    _log.warning("the record at offset %d, %s, is not understood and ignored", offset, text)
                return

    def _take(self, prefix: Prefix, name: str, document: dict[str, Any] | None, offset: int) -> None:
        if prefix is Prefix.LOGGER:
            self.loggers.pop(name, None)
            if document is not None:
                self.loggers[name] = str(document.get("level"))
            return
        task = -1
        if prefix in (Prefix.TASK, Prefix.RESTART_TASK):
            name, _, number = name.rpartition("-")
            if not number.isdigit():
                return
            task = int(number)
        old = self.get(name)
        if prefix is Prefix.TASK:
            properties = None if document is None else dict(document.get("properties") or {})
            if properties is None:
                self._pending.get(name, {}).pop(task, None)
            else:
                self._pending.setdefault(name, {})[task] = properties
        elif prefix is Prefix.RESTART_TASK and document is not None:
            self.connectors[name] = replace(old, task_restarts={**old.task_restarts, task: offset})
        else:
            self.connectors[name] = self._changed(prefix, old, name, document or {}, offset, document is None)

    def _changed(
        self, prefix: Prefix, old: ConnectorState, name: str, document: dict[str, Any], offset: int, is_deleted: bool
    ) -> ConnectorState:
        if prefix is Prefix.CONNECTOR:
            if is_deleted:  # the fencing stays: a connector of the same name may have zombies of the old one
                self._pending.pop(name, None)
                return ConnectorState(fenced=old.fenced, fenced_tasks=old.fenced_tasks)
            return replace(old, config=dict(document.get("properties") or {}), config_offset=offset)
        if prefix is Prefix.TARGET:
            return replace(old, target=str(document.get("state") or STARTED))
        if prefix is Prefix.COMMIT:
            if is_deleted:
                return replace(old, tasks=(), slots=(), generation=-1, made_from=-1)
            task_configs = self._pending.get(name, {})
            count = int(document.get("tasks", 0))
            if any(number not in task_configs for number in range(count)):
                return old  # written by a worker that did not see all of its own records
            tasks = tuple(task_configs[number] for number in range(count))
            made_from = int(document.get("config", old.config_offset))
            slots = tuple(int(slot) for slot in document.get("slots") or range(count))
            return replace(old, tasks=tasks, slots=slots, generation=offset, made_from=made_from)
        if prefix is Prefix.FENCING:
            if is_deleted:
                return replace(old, fenced=-1, fenced_tasks=0)
            generation = int(document.get("generation", -1))
            return replace(old, fenced=generation, fenced_tasks=int(document.get("tasks", 0)))
        restart = Restart(offset, bool(document.get("include-tasks")), bool(document.get("only-failed")))
        return replace(old, restart=None if is_deleted else restart)

    def slots_for(self, name: str, tasks: int, slots: int) -> list[int]:
        """Return a slot for each of so many tasks of a connector: those that they have, and free ones.

        Workers have ranges of slots. Slots are taken in van der Corput's order (0, 1/2, 1/4, 3/4, 1/8 ... of them), in
        which every range has its share of any number of tasks.
        """
        kept = [slot for slot in self.get(name).slots[:tasks] if slot < slots]
        used = Counter(
            slot for other, connector in self.connectors.items() if other != name for slot in connector.slots
        )
        used.update(kept)
        order = sorted(range(slots), key=lambda slot: _reversed_bits(slot, slots))
        while len(kept) < tasks:
            free = min(order, key=lambda slot: used[slot])
            used[free] += 1
            kept.append(free)
        return kept


def _reversed_bits(number: int, count: int) -> str:
    """Return a sort key: the bits of a number below `count`, the lowest first."""
    width = max(count - 1, 1).bit_length()
    return f"{number:0{width}b}"[::-1]


def slot_of(name: str, slots: int) -> int:
    """Return the slot, a partition of the slots topic, in which a connector itself runs."""
    return zlib.crc32(name.encode()) % slots
