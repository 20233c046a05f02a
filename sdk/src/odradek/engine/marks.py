"""Marks: a head that somebody waits at, so that nobody polls it (docs/decisions/0037-triggers.md).

    trigger has caught up       arm:  w = by       on condition that nothing was appended: by is what the drain had seen
    append                      its own update returns the head; the mark is in it or not: no request more
    append that sees the mark   send one message, then w is removed, on condition that it is still that mark

`by`, the bytes appended to all partitions of the head, rises with every append, so it says in one number that nothing
came, and no two marks are equal between which something did: an append that removes late removes no newer mark.

    message lost                the mark is gone, the records are there: the sweep of triggers finds them
    sender died before          the mark is there: the next append sends, or the sweep does
    between sending and removal the next append sends another message: a doubled one finds nothing to do
    append while arming         either the arming's condition sees it, or it sees the mark

A transaction returns no image. It reads the heads before, and has the mark's absence in its condition; a head that was
armed meanwhile refuses it, and the next attempt reads the mark (transactions/commit.py).
The message is JSON (docs/formats/wake_message.md):

    {"version": 1, "topic_id": "<uuid>", "partition": 0}
    {"version": 1, "topic_id": "<uuid>", "partition": 0, "trigger": "orders", "due": true}
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import MARK, VERSION, head_key
from odradek.engine.partition.shared_head import HeadImage, decode_image
from odradek.errors import ConditionFailed, FormatError, StoreError, UnknownVersion
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Compare, Remove, Set, Table, Update, all_of
from odradek.ports.task_queue import TaskQueue

WAKE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Wake:
    """Triggers to wake.

    Attributes:
        head_id: of the partitions that have records.
        trigger: the only one; None: all of the topic.
        is_due: it need not wait for a full batch any more.
    """

    head_id: PartitionId
    trigger: str | None = None
    is_due: bool = False


def encode_wake(wake: Wake) -> str:
    """Encode as a message."""
    document: dict[str, Any] = {
        "version": WAKE_VERSION,
        "topic_id": str(wake.head_id.topic_id),
        "partition": wake.head_id.partition,
    }
    if wake.trigger is not None:
        document["trigger"] = wake.trigger
    if wake.is_due:
        document["due"] = True
    return json.dumps(document, separators=(",", ":"))


def decode_wake(message: str) -> Wake:
    """Decode a message. Raises FormatError; UnknownVersion if a newer release has sent it."""
    try:
        document = json.loads(message)
    except ValueError as error:
        raise FormatError(f"a wake message must be JSON: {error}") from None
    if not isinstance(document, dict) or "version" not in document:
        raise FormatError("a wake message must be a JSON object with a version")
    if document["version"] != WAKE_VERSION:
        raise UnknownVersion(
            f"the wake message has version {document['version']!r}; this release knows {WAKE_VERSION}: upgrade it"
        )
    partition, trigger = document.get("partition"), document.get("trigger")
    if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
        raise FormatError(f"partition of a wake message must be a number from 0, not {partition!r}")
    if trigger is not None and not isinstance(trigger, str):
        raise FormatError(f"trigger of a wake message must be a name, not {trigger!r}")
    try:
        topic_id = UUID(document["topic_id"])
    except (KeyError, ValueError, AttributeError, TypeError):
        raise FormatError(f"topic_id of a wake message must be a UUID, not {document.get('topic_id')!r}") from None
    return Wake(PartitionId(topic_id, partition), trigger, document.get("due") is True)


def has_news(image: HeadImage) -> bool:
    """Return True if something was appended since the head was marked."""
    return image.mark is not None and image.mark < image.appended_bytes


class Marks:
    """The marks of all heads.

    Args:
        log: the table of heads.
        queue: receives the messages; None: marks stay, for another process's appends and for the sweep.

    Attributes:
        on_append: called with a head's id and what it says after an append of this process.
    """

    def __init__(self, log: Table, queue: TaskQueue | None = None) -> None:
        self._log = log
        self._queue = queue
        self.on_append: Callable[[PartitionId, HeadImage], None] = lambda head_id, image: None

    async def arm(self, head_id: PartitionId, seen: HeadImage) -> HeadImage | None:
        """Mark the head, unless something was appended since it was seen; return what it says now, None if it is gone.

        It is marked where the result's `mark` is `seen.appended_bytes`, and nothing came before.

        Raises StoreUnavailable, OutcomeUnknown (repeat it: the condition tells), FormatError.
        """
        nothing_came = all_of(is_version(VERSION), Compare(("by",), "=", seen.appended_bytes))
        try:
            item = await self._log.update(Update(head_key(head_id), (Set((MARK,), seen.appended_bytes),), nothing_came))
        except ConditionFailed as refused:
            return None if refused.current is None else decode_image(head_id, refused.current)
        return decode_image(head_id, item)

    async def wake(self, head_id: PartitionId, image: HeadImage) -> None:
        """Tell of an append: send the message of a marked head, and take its mark away. Raises nothing of the store's.

        Args:
            image: from after the append.
        """
        self.on_append(head_id, image)
        if image.mark is not None and has_news(image):
            await self.wake_marked(head_id, image.mark)

    async def wake_marked(self, head_id: PartitionId, mark: int) -> None:
        """Like `wake`, for a head with this mark to which something was appended after it."""
        if self._queue is None:
            return
        try:
            if await self._queue.send([encode_wake(Wake(head_id))]):
                return  # refused: the mark stays for the next append
            # Only now: a mark that is gone must mean that a message is on its way.
            await self._take(head_id, mark)
        except StoreError:
            return

    async def _take(self, head_id: PartitionId, mark: int) -> None:
        await self._log.update(Update(head_key(head_id), (Remove((MARK,)),), Compare((MARK,), "=", mark)))
