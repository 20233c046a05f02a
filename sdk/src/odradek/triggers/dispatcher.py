"""One wake message: the partitions of a head, for each trigger of the topic, and then the mark.

    read the head ─> leases ─> drain what has records ─> arm the mark ──refused: something came──> again
                                                              └── armed: done

A message is a hint. What another dispatcher holds is left to it: it marks the head only after it has seen the end. What
is to be done later (a retry, a batching window, the end of a tumbling window) gets a delayed message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from odradek.engine.marks import Wake, encode_wake
from odradek.engine.partition.shared_head import HeadImage, SharedHead, view_of
from odradek.errors import StoreUnavailable
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId, partitions_per_head
from odradek.model.trigger import Trigger
from odradek.ports.task_queue import DELAY_S_MAX, TaskQueue
from odradek.triggers.drain import Drain, Drained, DrainTools, Ended
from odradek.triggers.leases import Lease, LeaseLost
from odradek.triggers.triggers import Definitions


class Follower(Protocol):
    """Another reader of appended records: served tables (served/follow.py)."""

    async def handle(self, topic: Topic | None, wake: Wake, deadline_s: float) -> None:
        """Do what a message asks for; `topic` None: there is none of its id.

        Raises StoreError, FormatError, KafkaError: deliver the message again.
        """
        ...


class TriggerDispatcher:
    """Works off wake messages; any number of them may be at work.

    Args:
        tools: of the drains.
        definitions: the triggers.
        queue: takes the messages for later.
        followers: woken by the same messages.
    """

    def __init__(
        self, tools: DrainTools, definitions: Definitions, queue: TaskQueue, followers: Sequence[Follower] = ()
    ) -> None:
        self._tools = tools
        self._engine = tools.engine
        self._leases = tools.leases
        self._definitions = definitions
        self._queue = queue
        self._followers = followers

    async def handle(self, wake: Wake, deadline_s: float) -> None:
        """Do what a message asks for.

        Args:
            deadline_s: monotonic; what is left then gets another message.

        Raises StoreError, FormatError, KafkaError: deliver the message again.
        """
        topic = await self._engine.topics.get_by_id(wake.head_id.topic_id)
        if topic is None:
            await asyncio.gather(*(follower.handle(None, wake, deadline_s) for follower in self._followers))
            return
        definitions = await self._definitions.current()
        if wake.trigger is not None and not any(
            trigger.name == wake.trigger and trigger.is_enabled for trigger in definitions
        ):
            self._definitions.forget()  # it may have been created, or resumed, since they were read
            definitions = await self._definitions.current()
        triggers = [
            trigger
            for trigger in definitions
            if trigger.topic == topic.name and trigger.is_enabled and wake.trigger in (None, trigger.name)
        ]
        await asyncio.gather(
            *(self._run(trigger, topic, wake, deadline_s) for trigger in triggers),
            *(follower.handle(topic, wake, deadline_s) for follower in self._followers),
        )

    async def _run(self, trigger: Trigger, topic: Topic, wake: Wake, deadline_s: float) -> None:
        head_id, is_due = wake.head_id, wake.is_due
        image = await self._engine.index.read_image(head_id)
        while image is not None:
            leases = await self._leases.read(trigger, partitions_of(topic, head_id, image))
            ended = await asyncio.gather(
                *(
                    self._partition(trigger, topic, lease, image, is_due=is_due, deadline_s=deadline_s)
                    for lease in leases
                )
            )
            if any(drained.ended is Ended.CUT for drained in ended):
                await self._send(Wake(head_id, trigger.name))
                return
            await self._remind(trigger, wake, leases, ended)
            if any(drained.ended is Ended.FILLING for drained in ended):
                return  # their message comes when they are due; until then no append needs to send one
            image_before, is_due = image, False
            image = await self._engine.marks.arm(head_id, image_before)
            if image is not None and image.appended_bytes == image_before.appended_bytes:
                return
            if trigger not in await self._definitions.current():  # paused, changed or deleted meanwhile
                await self._send(Wake(head_id, trigger.name))  # for what it is now
                return
            if self._engine.clock.monotonic() >= deadline_s:
                await self._send(Wake(head_id, trigger.name))
                return

    async def _partition(
        self, trigger: Trigger, topic: Topic, lease: Lease, image: HeadImage, *, is_due: bool, deadline_s: float
    ) -> Drained:
        """Drain one partition, if it has records and nobody else has it."""
        now_ms = self._engine.clock.now_ms()
        later_ms = lease.progress.later_ms
        has_records = lease.committed < view_of(image, lease.partition).next_offset
        if not has_records and not 0 < later_ms <= now_ms:
            return Drained(Ended.LATER, later_ms) if later_ms else Drained(Ended.DRAINED)
        if self._leases.is_live(lease):
            return Drained(Ended.BUSY)
        if trigger.parallelization_factor == 1 and lease.progress.lane(0, lease.committed).retry_ms > now_ms:
            return Drained(Ended.LATER, later_ms)
        async with self._tools.slots.taken(trigger.parallelization_factor):
            if self._engine.clock.monotonic() >= deadline_s:
                return Drained(Ended.CUT)
            taken = await self._leases.take(trigger, lease)
            if taken is None:
                return Drained(Ended.BUSY)
            drain = Drain(self._tools, trigger, topic, taken, is_due=is_due, deadline_s=deadline_s)
            try:
                return await drain.run()
            except LeaseLost:
                return Drained(Ended.BUSY)

    async def _remind(self, trigger: Trigger, wake: Wake, leases: list[Lease], ended: list[Drained]) -> None:
        """Send a message for what is to be done later, unless one was sent when that was decided."""
        # A reminder that comes early, by this process's clock, is the only one that was sent: it sends the next.
        now_ms, head_id, is_reminder = self._engine.clock.now_ms(), wake.head_id, wake.trigger is not None
        times = [
            drained.later_ms
            for lease, drained in zip(leases, ended, strict=True)
            if drained.later_ms
            and (is_reminder or drained.later_ms != lease.progress.later_ms or drained.later_ms <= now_ms)
        ]
        if times:
            delay_s = min(DELAY_S_MAX, max(0, -(-(min(times) - now_ms) // 1000)))
            is_filling = any(drained.ended is Ended.FILLING for drained in ended)
            await self._send(Wake(head_id, trigger.name, is_filling), delay_s)

    async def _send(self, wake: Wake, delay_s: int = 0) -> None:
        """Raises StoreError."""
        if await self._queue.send([encode_wake(wake)], delay_s=delay_s):
            raise StoreUnavailable("the queue of triggers took no message")


def partitions_of(topic: Topic, head_id: PartitionId, image: HeadImage) -> list[PartitionId]:
    """The partitions of a head; those that were added since the topic was read have records, if the head names them."""
    count = topic.partition_count - head_id.partition
    if isinstance(image, SharedHead):
        count = max(count, *(int(name, 36) + 1 for name in image.next_offsets), 0)
    count = min(count, partitions_per_head(head_id.topic_id))
    return [PartitionId(head_id.topic_id, head_id.partition + number) for number in range(count)]
