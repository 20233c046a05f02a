"""The slow sweep of triggers: what a lost message, or a dispatcher that died, has left.

Part of maintenance: it reads heads and leases, and sends a message where something waits that nobody is at. A false
alarm costs a message. It also finds what has no mark yet: partitions that were added, topics that were created again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.engine.engine import Engine
from odradek.engine.marks import Wake, encode_wake, has_news
from odradek.engine.partition.shared_head import HeadImage, view_of
from odradek.errors import FormatError, KafkaError, StoreError
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.model.trigger import Trigger
from odradek.ports.task_queue import DELAY_S_MAX, MESSAGES_PER_SEND_MAX, TaskQueue
from odradek.triggers.dispatcher import partitions_of
from odradek.triggers.leases import Lease, Leases
from odradek.triggers.triggers import Definitions, head_ids

_HEADS_AT_ONCE = 8
_FAILURES = (StoreError, FormatError, KafkaError)


class TriggerSweep:
    """Looks for what waits.

    Args:
        engine: of the store.
        definitions: the triggers.
        leases: whether somebody is at a partition.
        queue: takes the messages.
    """

    def __init__(self, engine: Engine, definitions: Definitions, leases: Leases, queue: TaskQueue) -> None:
        self._engine = engine
        self._definitions = definitions
        self._leases = leases
        self._queue = queue

    async def run(self, *, queue_is_empty: bool = False) -> tuple[int, list[str]]:
        """Look once; return how many messages were sent, and what could not be looked at.

        Args:
            queue_is_empty: no message is on its way, so what is to be done later needs one.
        """
        failures: list[str] = []
        try:
            triggers = [trigger for trigger in await self._definitions.read() if trigger.is_enabled]
        except _FAILURES as error:
            return 0, [f"triggers: {type(error).__name__}: {error}"]
        sent = 0
        for trigger in triggers:
            try:
                sent += await self._look(trigger, queue_is_empty=queue_is_empty)
            except _FAILURES as error:
                failures.append(f"trigger {trigger.name}: {type(error).__name__}: {error}")
        return sent, failures

    async def _look(self, trigger: Trigger, *, queue_is_empty: bool) -> int:
        topic = await self._engine.topics.get(trigger.topic)
        if topic is None:
            return 0
        slots = asyncio.Semaphore(_HEADS_AT_ONCE)
        heads = head_ids(topic)
        images = await self._engine.index.read_images(heads, consistent=False)

        async def look(head_id: PartitionId) -> Waiting | None:
            image = images[head_id]
            async with slots:
                return None if image is None else await self._wake(trigger, topic, head_id, image)

        wakes = [due for due in await asyncio.gather(*map(look, heads)) if due is not None]
        now = [encode_wake(due.wake) for due in wakes if due.at_ms == 0]
        for start in range(0, len(now), MESSAGES_PER_SEND_MAX):
            await self._queue.send(now[start : start + MESSAGES_PER_SEND_MAX])
        later = [due for due in wakes if due.at_ms and queue_is_empty]
        for due in later:
            delay_s = min(DELAY_S_MAX, max(0, due.at_ms - self._engine.clock.now_ms()) // 1000 + 1)
            await self._queue.send([encode_wake(due.wake)], delay_s=delay_s)
        return len(now) + len(later)

    async def _wake(self, trigger: Trigger, topic: Topic, head_id: PartitionId, image: HeadImage) -> Waiting | None:
        leases = await self._leases.read(trigger, partitions_of(topic, head_id, image))
        live = [self._leases.is_live(lease) for lease in leases]
        return decide_wake(trigger, image, leases, live, self._engine.clock.now_ms())


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that a head needs: now, or at a time, for which one should be on its way."""

    wake: Wake
    at_ms: int = 0


def decide_wake(
    trigger: Trigger, image: HeadImage, leases: Sequence[Lease], live: Sequence[bool], now_ms: int
) -> Waiting | None:
    """Return the message for a head, or None: somebody is at it, or nothing waits. Pure.

    Args:
        live: for each lease, whether somebody is at the partition.
    """
    if not leases:
        return None
    head_id = leases[0].partition.head_id
    waits, is_due = has_news(image), False
    for lease, is_live in zip(leases, live, strict=True):
        if is_live:
            continue
        later_ms = lease.progress.later_ms
        if later_ms > now_ms:
            continue  # its own message is on the way
        if later_ms or lease.committed < view_of(image, lease.partition).next_offset:
            waits = True
            is_due |= 0 < lease.progress.due_ms <= now_ms
    scheduled = [lease.progress.later_ms for lease in leases if lease.progress.later_ms > now_ms]
    if not waits and image.mark is None and not any(live) and not scheduled:
        waits = True  # nobody would be woken by an append
    if waits:
        return Waiting(Wake(head_id, trigger.name, is_due))
    is_filling = any(lease.progress.due_ms for lease in leases)
    return Waiting(Wake(head_id, trigger.name, is_filling), min(scheduled)) if scheduled else None
