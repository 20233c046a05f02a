"""Maintenance task: one piece of maintenance, as a message of the queue (docs/formats/maintenance_task.md). JSON.

    {"version": 1, "task": "partition", "topic_id": "<uuid>", "partition": 3}
    {"version": 1, "task": "topic_deletion", "topic_id": "<uuid>"}
    {"version": 1, "task": "transactions"}
    {"version": 1, "task": "sweep"}

A message is a hint: nothing but the store says what there is to do, and whoever takes a message looks again. So the
queue may do what queues do. A message that comes twice, late or in another order finds its work done, or under the
lease of somebody else, or the topic gone; one that is lost is planned again by the next tick, for the work is still
there. What two maintainers may not do at the same time is what the maintenance lease says, never the queue.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from odradek.errors import FormatError, UnknownVersion
from odradek.model.topic_partition import PartitionId

VERSION = 1


class TaskKind(StrEnum):
    """What is to be done; in the order in which one process does them."""

    TOPIC_DELETION = "topic_deletion"
    PARTITION = "partition"
    TRANSACTIONS = "transactions"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """One task.

    Attributes:
        topic_id: of TOPIC_DELETION and PARTITION.
        partition: of PARTITION.
    """

    kind: TaskKind
    topic_id: UUID | None = None
    partition: int | None = None

    @classmethod
    def of_partition(cls, partition: PartitionId) -> MaintenanceTask:
        """The upkeep of a partition."""
        return cls(TaskKind.PARTITION, partition.topic_id, partition.partition)

    @classmethod
    def of_deletion(cls, topic_id: UUID) -> MaintenanceTask:
        """What is left of a deleted topic."""
        return cls(TaskKind.TOPIC_DELETION, topic_id)


def encode_task(task: MaintenanceTask) -> str:
    """The message."""
    document: dict[str, Any] = {"version": VERSION, "task": task.kind.value}
    if task.topic_id is not None:
        document["topic_id"] = str(task.topic_id)
    if task.partition is not None:
        document["partition"] = task.partition
    return json.dumps(document, separators=(",", ":"))


def decode_task(message: str) -> MaintenanceTask:
    """The task of a message. Raises FormatError; UnknownVersion where a newer release has planned it."""
    try:
        document = json.loads(message)
    except ValueError as error:
        raise FormatError(f"a maintenance task is JSON: {error}") from None
    if not isinstance(document, dict) or "version" not in document:
        raise FormatError("a maintenance task is a JSON object with a version")
    if document["version"] != VERSION:
        raise UnknownVersion(
            f"a maintenance task has version {document['version']!r}; this release knows {VERSION}: upgrade it"
        )
    try:
        kind = TaskKind(str(document.get("task")))
    except ValueError:
        raise FormatError(f"unknown maintenance task {document.get('task')!r}") from None
    return MaintenanceTask(
        kind,
        _topic_id(document) if kind in (TaskKind.PARTITION, TaskKind.TOPIC_DELETION) else None,
        _partition(document) if kind is TaskKind.PARTITION else None,
    )


def _topic_id(document: dict[str, Any]) -> UUID:
    try:
        return UUID(document["topic_id"])
    except (KeyError, ValueError, AttributeError, TypeError):
        raise FormatError(f"topic_id of a maintenance task is a UUID, not {document.get('topic_id')!r}") from None


def _partition(document: dict[str, Any]) -> int:
    partition = document.get("partition")
    if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
        raise FormatError(f"partition of a maintenance task is a number from 0, not {partition!r}")
    return partition
