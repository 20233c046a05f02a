"""The triggers of a store: their definitions, and what people do with them.

A definition is one item in the catalog, written on its version. The starting offsets of all partitions are committed
before it is there; a trigger that is there finds offsets wherever its topic had partitions, and reads partitions that
are added later from their start.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from odradek.engine.engine import Engine
from odradek.engine.marks import Wake, encode_wake
from odradek.engine.partition.shared_head import view_of
from odradek.errors import ConditionFailed, ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import TRIGGERS_PK
from odradek.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ListOffsetsPartition
from odradek.model.topic import Topic
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition, partitions_per_head
from odradek.model.trigger import (
    FunctionKind,
    PartitionStatus,
    StartingPosition,
    Trigger,
    TriggerState,
    TriggerStatus,
)
from odradek.ports.table import Absent, Compare, Delete, Put
from odradek.ports.task_queue import DELAY_S_MAX, TaskQueue
from odradek.triggers.definition import (
    check_trigger,
    decode_trigger,
    encode_trigger,
    in_state,
    is_trigger_name,
    not_found,
    trigger_key,
)
from odradek.triggers.leases import Lease, Leases
from odradek.triggers.reach import Reach
from odradek.triggers.webhooks import new_secret, secret_key

_ATTEMPTS = 6
_TRIGGERS_MAX = 1_000
_SPARE_S = 2  # between the end of a cached definition and the message that follows a change


class Definitions:
    """The definitions, and for dispatchers a copy that is a few seconds old at most."""

    def __init__(self, engine: Engine) -> None:
        self._catalog = engine.catalog
        self._clock = engine.clock
        self._cache_s = engine.settings.catalog_cache_ms / 1000
        self._known: list[Trigger] = []
        self._until_s = 0.0

    async def read(self) -> list[Trigger]:
        """All triggers, by name. Raises StoreUnavailable, FormatError."""
        return [decode_trigger(row.item)[0] for row in await self._catalog.query(TRIGGERS_PK)]

    async def current(self) -> list[Trigger]:
        """Like `read`, but at most `catalog_cache_ms` old."""
        if self._clock.monotonic() >= self._until_s:
            self._known = await self.read()
            self._until_s = self._clock.monotonic() + self._cache_s
        return self._known

    def forget(self) -> None:
        """Read them again at the next use."""
        self._until_s = 0.0

    async def get(self, name: str) -> tuple[Trigger, int] | None:
        """A trigger and its version. Raises StoreUnavailable, FormatError."""
        if not is_trigger_name(name):
            return None  # also what no key of the table can have
        item = await self._catalog.get(trigger_key(name))
        return None if item is None else decode_trigger(item)

    async def put(self, trigger: Trigger, version: int) -> bool:
        """Write version + 1 over the version that was read (0: there is none); return False if it has changed.

        Dispatchers of this process use it at once.
        """
        condition = Absent(("v",)) if version == 0 else Compare(("n",), "=", version)
        item = encode_trigger(trigger, version + 1)
        for _ in range(_ATTEMPTS):
            try:
                await self._catalog.put(Put(trigger_key(trigger.name), item, condition))
                self.forget()  # a dispatcher may have read the old ones meanwhile
                return True
            except ConditionFailed as refused:
                return refused.current == item  # by an attempt whose answer was lost
            except OutcomeUnknown:
                continue
        raise StoreUnavailable("the catalog does not answer")

    async def delete(self, name: str) -> None:
        await self._catalog.delete(Delete(trigger_key(name)))
        self.forget()


class Triggers:
    """Operations on triggers. All errors are KafkaErrors: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
    RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, COORDINATOR_NOT_AVAILABLE (try again).

    Args:
        engine: of the store.
        definitions: shared with the dispatchers of this process.
        leases: to look at, and to reset.
        queue: wakes what a new or resumed trigger has to do; None: the sweep does.
        reach: what triggers may name.
    """

    def __init__(
        self, engine: Engine, definitions: Definitions, leases: Leases, queue: TaskQueue | None, reach: Reach
    ) -> None:
        self._engine = engine
        self._definitions = definitions
        self._leases = leases
        self._queue = queue
        self._reach = reach

    async def create(self, trigger: Trigger) -> Trigger:
        """Create a trigger; return it with its secret, if it calls a URL."""
        check_trigger(trigger)
        self._reach.check(trigger)
        if trigger.kind is FunctionKind.WEBHOOK:
            secret = trigger.secret or new_secret(self._engine.rng.random_bytes(32))
            if len(secret_key(secret)) < 24:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a secret needs at least 24 bytes")
            trigger = replace(trigger, secret=secret)
        trigger = replace(trigger, created_ms=self._engine.clock.now_ms())
        topic = await self._topic(trigger)
        triggers = await self.list_all()
        if any(other.name == trigger.name for other in triggers):
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"trigger {trigger.name!r} exists: delete it first")
        if len(triggers) >= _TRIGGERS_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a cluster has at most {_TRIGGERS_MAX} triggers")
        if any(other.group == trigger.group for other in triggers):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"another trigger has the group {trigger.group!r}")
        offsets = await self._starting_offsets(topic, trigger)
        await self._commit(trigger, offsets)
        if not await self._write(trigger, 0):
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"trigger {trigger.name!r} exists: delete it first")
        await self._wake(trigger, topic)
        return trigger

    async def change(self, trigger: Trigger) -> Trigger:
        """Change the options of a trigger; its offsets, its secret and its state stay."""
        for _ in range(_ATTEMPTS):
            current, version = await self._get(trigger.name)
            if (trigger.topic, trigger.group) != (current.topic, current.group):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "topic and group of a trigger cannot be changed: create another one"
                )
            changed = replace(trigger, secret=current.secret, state=current.state, created_ms=current.created_ms)
            check_trigger(changed)
            self._reach.check(changed)
            if changed == current or await self._write(changed, version):
                topic = await self._engine.topics.get(trigger.topic)
                if topic is not None and changed.is_enabled:
                    await self._wake(changed, topic)
                return changed
        raise _unavailable()

    async def list_all(self) -> list[Trigger]:
        """All triggers, by name."""
        try:
            return await self._definitions.read()
        except StoreUnavailable:
            raise _unavailable() from None

    async def get(self, name: str) -> Trigger:
        """One trigger."""
        return (await self._get(name))[0]

    async def describe(self, name: str) -> TriggerStatus:
        """One trigger, with offset, lag, calls and last error of each partition."""
        trigger, _ = await self._get(name)
        topic = await self._engine.topics.get(trigger.topic)
        if topic is None:
            return TriggerStatus(trigger, topic_exists=False, partitions=())
        partitions = [PartitionId(topic.topic_id, number) for number in range(topic.partition_count)]
        try:
            images = await self._engine.index.read_images([partition.head_id for partition in partitions])
            leases = await self._leases.read(trigger, partitions)
        except StoreUnavailable:
            raise _unavailable() from None
        statuses = []
        for partition, lease in zip(partitions, leases, strict=True):
            image = images[partition.head_id]
            end = 0 if image is None else view_of(image, partition).next_offset
            statuses.append(self._status(lease, end))
        return TriggerStatus(trigger, topic_exists=True, partitions=statuses)

    def _status(self, lease: Lease, end: int) -> PartitionStatus:
        progress = lease.progress
        return PartitionStatus(
            lease.partition.partition,
            lease.committed,
            end,
            max(0, end - lease.committed),
            self._leases.is_live(lease),
            progress.invocations,
            progress.failures,
            progress.passed,
            progress.given_up,
            progress.error,
            progress.error_ms,
            progress.called_ms,
            progress.later_ms,
            progress.age_ms,
        )

    async def pause(self, name: str) -> Trigger:
        """Stop calling; what is under way ends. Dispatchers notice within `catalog_cache_ms`."""
        return await self._set_state(name, TriggerState.PAUSED)

    async def resume(self, name: str) -> Trigger:
        """Call again, from where it was."""
        trigger = await self._set_state(name, TriggerState.ENABLED)
        topic = await self._engine.topics.get(trigger.topic)
        if topic is not None:
            await self._wake(trigger, topic)
        return trigger

    async def reset(self, name: str, position: str, timestamp_ms: int = 0) -> dict[int, int]:
        """Set the offsets of a paused trigger; return the new ones by partition.

        Args:
            position: LATEST, TRIM_HORIZON, or AT_TIMESTAMP with a time.
        """
        trigger, _ = await self._get(name)
        if trigger.is_enabled:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"trigger {name!r} is enabled: pause it before you reset it")
        started = replace(trigger, starting_position=position, starting_timestamp_ms=timestamp_ms)
        check_trigger(started)
        topic = await self._topic(trigger)
        offsets = await self._starting_offsets(topic, started)
        for number, offset in offsets.items():
            partition = PartitionId(topic.topic_id, number)
            try:
                was_free = await self._leases.reset(trigger, partition, offset)
            except (StoreUnavailable, OutcomeUnknown):
                raise _unavailable() from None
            if not was_free:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{trigger.topic}-{number} is in a call: reset again when it has ended"
                )
        return offsets

    async def delete(self, name: str) -> None:
        """Delete a trigger, and its offsets; what is under way ends and commits nothing."""
        trigger, _ = await self._get(name)
        try:
            await self._definitions.delete(name)
        except (StoreUnavailable, OutcomeUnknown):
            raise _unavailable() from None
        self._definitions.forget()
        await self._engine.groups.delete([trigger.group])  # a partition that is in a call keeps its offset, and goes on

    # --- steps ----------------------------------------------------------------------------------------------------

    async def _get(self, name: str) -> tuple[Trigger, int]:
        try:
            stored = await self._definitions.get(name)
        except StoreUnavailable:
            raise _unavailable() from None
        if stored is None:
            raise not_found(name)
        return stored

    async def _write(self, trigger: Trigger, version: int) -> bool:
        try:
            return await self._definitions.put(trigger, version)
        except StoreUnavailable:
            raise _unavailable() from None
        finally:
            self._definitions.forget()

    async def _set_state(self, name: str, state: TriggerState) -> Trigger:
        for _ in range(_ATTEMPTS):
            trigger, version = await self._get(name)
            changed = in_state(trigger, state)
            if trigger == changed or await self._write(changed, version):
                return changed
        raise _unavailable()

    async def _topic(self, trigger: Trigger) -> Topic:
        topic = await self._engine.topics.get(trigger.topic)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {trigger.topic!r} does not exist: create it first"
            )
        return topic

    async def _starting_offsets(self, topic: Topic, trigger: Trigger) -> dict[int, int]:
        timestamp_ms = {
            StartingPosition.LATEST: LATEST_TIMESTAMP,
            StartingPosition.TRIM_HORIZON: EARLIEST_TIMESTAMP,
        }.get(StartingPosition(trigger.starting_position), trigger.starting_timestamp_ms)
        numbers = range(topic.partition_count)
        results = await self._engine.list_offsets(
            [ListOffsetsPartition(topic.name, number, timestamp_ms) for number in numbers]
        )
        if any(result.offset < 0 and not result.error for result in results):  # all records are older
            ends = await self._engine.list_offsets(
                [ListOffsetsPartition(topic.name, number, LATEST_TIMESTAMP) for number in numbers]
            )
            results = [end if result.offset < 0 else result for result, end in zip(results, ends, strict=True)]
        for result in results:
            if result.error:
                raise KafkaError(result.error, result.message or result.error.name)
        return {result.partition: result.offset for result in results}

    async def _commit(self, trigger: Trigger, offsets: dict[int, int]) -> None:
        committed = await self._engine.offsets.commit(
            trigger.group,
            {TopicPartition(trigger.topic, number): OffsetAndMetadata(offset) for number, offset in offsets.items()},
        )
        for result in committed:
            if result.error:
                raise KafkaError(result.error, f"the offsets of group {trigger.group!r} cannot be set: try again")

    async def _wake(self, trigger: Trigger, topic: Topic) -> None:
        """Have every head drained and marked. What is not sent, the sweep sends.

        A second message comes when no dispatcher knows the definitions of before any more: until then, one of them
        may have marked a head whose records it did not take for this trigger's.
        """
        if self._queue is None:
            return
        later_s = min(DELAY_S_MAX, self._engine.settings.catalog_cache_ms // 1000 + _SPARE_S)
        messages = [encode_wake(Wake(head_id, trigger.name)) for head_id in head_ids(topic)]
        await asyncio.gather(*(self._send(message, delay_s) for message in messages for delay_s in (0, later_s)))

    async def _send(self, message: str, delay_s: int) -> None:
        assert self._queue is not None
        try:
            await self._queue.send([message], delay_s=delay_s)
        except (StoreUnavailable, OutcomeUnknown):
            return


def head_ids(topic: Topic) -> list[PartitionId]:
    """The heads of a topic's partitions."""
    per_head = partitions_per_head(topic.topic_id)
    return [PartitionId(topic.topic_id, number) for number in range(0, topic.partition_count, per_head)]


def _unavailable() -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the store did not answer: try again")
