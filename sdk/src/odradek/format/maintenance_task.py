"""Maintenance tasks as messages of the queue, in JSON (docs/formats/maintenance_task.md).

    {"version": 1, "task": "partition", "topic_id": "<uuid>", "partitions": [3]}
    {"version": 1, "task": "topic_deletion", "topic_id": "<uuid>"}
    {"version": 1, "task": "table", "topic_id": "<uuid>"}
    {"version": 1, "task": "transactions"}
    {"version": 1, "task": "sweep"}

A message is only a hint: the store says what there is to do, and a maintainer that takes a message checks it again. So
the queue may duplicate, delay, reorder and lose messages. A message that comes twice or late finds its work done, or
the lease held by another maintainer, or the topic deleted. The next tick plans the work of a lost message again. The
maintenance lease, not the queue, keeps two maintainers from working on the same thing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from odradek.errors import FormatError, UnknownVersion
from odradek.model.topic_partition import PartitionId

VERSION = 1


class TaskKind(StrEnum):
    """The kinds of tasks, in the order in which one process runs them."""

    TOPIC_DELETION = "topic_deletion"
    PARTITION = "partition"
    TABLE = "table"
    TRANSACTIONS = "transactions"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """One task.

    Attributes:
        topic_id: of TOPIC_DELETION, PARTITION and TABLE.
        partitions: of PARTITION: one, or several that share a head, in order.
    """

    kind: TaskKind
    topic_id: UUID | None = None
    partitions: tuple[int, ...] = ()

    @classmethod
    def of_partition(cls, partition: PartitionId) -> MaintenanceTask:
        """Return the task of maintaining a partition."""
        return cls(TaskKind.PARTITION, partition.topic_id, (partition.partition,))

    @classmethod
    def of_partitions(cls, topic_id: UUID, numbers: Iterable[int]) -> MaintenanceTask:
        """Return the task of maintaining partitions that share a head."""
        return cls(TaskKind.PARTITION, topic_id, tuple(sorted(numbers)))

    @classmethod
    def of_deletion(cls, topic_id: UUID) -> MaintenanceTask:
        """Return the task of removing the rest of a deleted topic."""
        return cls(TaskKind.TOPIC_DELETION, topic_id)


def encode_task(task: MaintenanceTask) -> str:
    """Encode a task as a message."""
    document: dict[str, Any] = {"version": VERSION, "task": task.kind.value}
    if task.topic_id is not None:
        document["topic_id"] = str(task.topic_id)
    if task.partitions:
        document["partitions"] = list(task.partitions)
    return json.dumps(document, separators=(",", ":"))


def decode_task(message: str) -> MaintenanceTask:
    """Decode the task of a message. Raises FormatError; UnknownVersion if a newer release has planned it."""
    try:
        document = json.loads(message)
    except ValueError as error:
        raise FormatError(f"a maintenance task must be JSON: {error}") from None
    if not isinstance(document, dict) or "version" not in document:
        raise FormatError("a maintenance task must be a JSON object with a version")
    if document["version"] != VERSION:
        raise UnknownVersion(
            f"the maintenance task has version {document['version']!r}; this release knows {VERSION}: upgrade it"
        )
    try:
        task_kind = TaskKind(str(document.get("task")))
    except ValueError:
        raise FormatError(f"unknown maintenance task {document.get('task')!r}") from None
    return MaintenanceTask(
        task_kind,
        _topic_id(document) if task_kind in (TaskKind.PARTITION, TaskKind.TABLE, TaskKind.TOPIC_DELETION) else None,
        _partitions(document) if task_kind is TaskKind.PARTITION else (),
    )


def _topic_id(document: dict[str, Any]) -> UUID:
    try:
        return UUID(document["topic_id"])
    except (KeyError, ValueError, AttributeError, TypeError):
        raise FormatError(f"topic_id of a maintenance task must be a UUID, not {document.get('topic_id')!r}") from None


def _partitions(document: dict[str, Any]) -> tuple[int, ...]:
    numbers = document.get("partitions")
    if not isinstance(numbers, list) or not numbers or any(type(number) is not int or number < 0 for number in numbers):
        raise FormatError(f"partitions of a maintenance task must be numbers from 0, not {numbers!r}")
    return tuple(numbers)
