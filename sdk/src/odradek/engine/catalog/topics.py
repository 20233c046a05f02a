"""Topics: the catalog's rows, and the order of writes that keeps them and the heads in step.

    create   heads, then one transaction: topic row if absent, topic id row     visible only when whole
    grow     heads, then one transaction: the topic row on its version (growth.py: what keeps the order of keys)
    delete   one transaction: topic row and id row go, a deleted-topics row comes; then heads; maintenance the rest

Heads that become visible have the sweep's floor, and their transaction checks that it still is the floor
(sweep_floor.py). A crash in between leaves heads without a topic, or a deleted-topics row whose work is still to be
done: both invisible.

Keys and values (catalog table):
    topics / <name>              v, id: 16 bytes, n: partitions, c: config overrides, t: created ms, ver: version,
                                 gr: growths, gt: the growth that has begun; each [before, after, ms]
    topic-ids / <topic id>       name
    deleted-topics / <topic id>  name, n: partitions, t: deleted ms, e: emptied ms, once it is
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from odradek.backoff import Backoff
from odradek.engine.catalog.growth import (
    decode_growth,
    decode_marks,
    encode_growth,
    encode_marks,
    keeps_order,
    marks_key,
)
from odradek.engine.catalog.sweep_floor import read_sweep_state
from odradek.engine.catalog.topic_configs import (
    PARTITIONS_PER_HEAD,
    check_change,
    check_configs,
    check_together,
    default_of,
    describe,
    growth_hold_ms,
)
from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import view_of
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.format.item_keys import DELETED_TOPICS_PK, TOPIC_IDS_PK, TOPICS_PK, topic_id_sk
from odradek.limits import PARTITIONS_PER_TOPIC_MAX, TOPIC_NAME_LENGTH_MAX
from odradek.model.topic import ConfigEntry, Growth, Topic
from odradek.model.topic_partition import PartitionId, new_topic_id, partitions_per_head
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import (
    Absent,
    AllOf,
    Check,
    Compare,
    Delete,
    Item,
    Key,
    Operation,
    Put,
    Remove,
    Set,
    Table,
    Update,
)
from odradek.settings import Settings

R = TypeVar("R")
_Applied = Callable[[], Awaitable[bool | None]]
_OnHead = Callable[[PartitionId], Awaitable[None]]

VERSION = 1
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_ATTEMPTS = 5
_PARALLEL_HEADS = 25
_REREAD_S = 0.1  # the age of a copy from which a partition that it does not have is looked up again
_GROWTH_MS = 10_000  # from then on whoever meets a growth takes its caller for dead, and finishes it
_unavailable = partial(
    KafkaError, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the catalog table cannot be reached: try again"
)
_untold = partial(
    KafkaError,
    ErrorCode.REQUEST_TIMED_OUT,
    "the catalog table did not answer in time: check whether the change was made",
)


class Topics:
    """The catalog, with a short-lived copy of each row that was used (`catalog_cache_ms`)."""

    def __init__(self, catalog: Table, index: PartitionIndex, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._catalog = catalog
        self._index = index
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=1.0)
        self._settings = settings
        self._by_name: dict[str, tuple[float, Topic]] = {}
        self._name_by_id: dict[UUID, str] = {}
        self._marks: dict[Key, tuple[int, ...]] = {}

    # --- read -----------------------------------------------------------------------------------------------------

    async def get(self, name: str) -> Topic | None:
        """Return the topic of that name, at most `catalog_cache_ms` old; None if there is none. Raises KafkaError."""
        cached = self._by_name.get(name)
        if cached is not None and cached[0] > self._clock.monotonic():
            return cached[1]
        if not is_legal_name(name):
            return None
        item = await self._patiently(lambda: self._catalog.get(_topic_key(name)))
        if item is None:
            self._by_name.pop(name, None)
            return None
        return self._remember(_decode(name, item))

    async def get_by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic of that id; None if there is none or it has been deleted. Raises KafkaError."""
        name = self._name_by_id.get(topic_id)
        if name is None:
            item = await self._patiently(lambda: self._catalog.get(Key(TOPIC_IDS_PK, topic_id_sk(topic_id))))
            if item is None:
                return None
            name = attribute(item, "name", str)
        topic = await self.get(name)
        return topic if topic is not None and topic.topic_id == topic_id else None

    async def resolve(self, name: str, topic_id: UUID | None = None) -> Topic:
        """Return the topic by id if one is given, else by name. A name that no topic may have is unknown.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID.
        """
        if topic_id is not None:
            by_id = await self.get_by_id(topic_id)
            if by_id is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_ID, f"unknown topic id {topic_id}: the topic may have been deleted"
                )
            return by_id
        topic = await self.get(name)
        if topic is None:
            raise _unknown(name)
        return topic

    async def reread(self, topic: Topic) -> Topic:
        """Return the topic as the catalog has it; the copy itself where it is new. Raises KafkaError."""
        cached = self._by_name.get(topic.name)
        read_s = 0.0 if cached is None else cached[0] - self._settings.catalog_cache_ms / 1000
        if cached is not None and self._clock.monotonic() - read_s < _REREAD_S:
            return topic
        fresh = await self._patiently(lambda: self._fresh(topic.name))
        return fresh if fresh is not None and fresh.topic_id == topic.topic_id else topic

    async def list(self) -> list[Topic]:
        """All topics by name. Raises KafkaError."""
        rows = await self._patiently(lambda: self._catalog.query(TOPICS_PK))
        return [_decode(row.key.sk, row.item) for row in rows]

    def forget(self, topic: Topic) -> None:
        """Drop the copy of a topic whose partitions no longer exist."""
        self._by_name.pop(topic.name, None)
        self._name_by_id.pop(topic.topic_id, None)

    def describe_configs(self, topic: Topic) -> Sequence[ConfigEntry]:
        """Every configuration of the topic with its effective value."""
        return describe(topic, self._settings)

    # --- write ----------------------------------------------------------------------------------------------------

    async def create(
        self,
        name: str,
        partition_count: int = -1,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic (-1 partitions: the default).

        Raises KafkaError: INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG, TOPIC_ALREADY_EXISTS,
        COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT (it may have been created).
        """
        check_name(name)
        exists = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        if await self._patiently(lambda: self._fresh(name)) is not None:
            raise exists
        count = self._settings.default_partitions if partition_count == -1 else partition_count
        _check_partition_count(count)
        checked = check_configs(configs or {})
        check_together(checked)
        topic = Topic(name, self._new_topic_id(self._per_head(checked, count)), count, checked, self._clock.now_ms())
        if validate_only:
            return topic
        puts = (
            Put(_topic_key(name), _encode(topic), Absent(("v",))),
            Put(Key(TOPIC_IDS_PK, topic_id_sk(topic.topic_id)), {"name": name}),
        )
        # What is repeated and comes hours late does not bring the topic back after it was deleted.
        never_deleted = Check(Key(DELETED_TOPICS_PK, topic_id_sk(topic.topic_id)), Absent(("n",)))

        async def applied() -> bool | None:
            item = await self._catalog.get(_topic_key(name))
            return None if item is None else _decode(name, item).topic_id == topic.topic_id

        for attempt in range(_ATTEMPTS):
            floor = await self._patiently(lambda: read_sweep_state(self._catalog))
            await self._create_heads(topic, 0, floor.floor)
            created = await self._transact((*puts, never_deleted, floor.unchanged), applied)
            if created:
                return self._remember(topic)
            if created is False:
                await self._delete_heads(topic)
                raise exists
            await self._backoff.pause(attempt)  # the sweep's floor has risen meanwhile
        raise _unavailable()

    async def delete(self, name: str) -> Topic:
        """Delete a topic. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION and as `create`."""
        topic = await self._patiently(lambda: self._resolve_fresh(name))
        for attempt in range(_ATTEMPTS):
            if await self._delete(topic):
                self.forget(topic)
                await self._delete_heads(topic)
                return topic
            await self._backoff.pause(attempt)
            changed = await self._patiently(lambda: self._fresh(name))
            topic = changed if changed is not None and changed.topic_id == topic.topic_id else topic
        raise _unavailable()

    async def _delete(self, topic: Topic) -> bool:
        """Remove the topic's row; return True if it is removed. It stays if it was changed meanwhile.

        So the deleted-topics row knows all partitions, also those that another caller has just added.
        """
        operations: tuple[Operation, ...] = (
            Delete(_topic_key(topic.name), _is(topic)),
            Delete(Key(TOPIC_IDS_PK, topic_id_sk(topic.topic_id))),
            Put(
                Key(DELETED_TOPICS_PK, topic_id_sk(topic.topic_id)),
                {"name": topic.name, "n": _heads_of(topic), "t": self._clock.now_ms()},
            ),
            *(Delete(marks_key(topic.topic_id, growth)) for growth in topic.growths),
        )

        async def applied() -> bool | None:
            item = await self._catalog.get(_topic_key(topic.name))
            return True if item is None or _decode(topic.name, item).topic_id != topic.topic_id else None

        return bool(await self._transact(operations, applied))

    async def create_partitions(self, name: str, total_count: int, *, validate_only: bool = False) -> Topic:
        """Grow a topic to that many partitions.

        Raises KafkaError: INVALID_PARTITIONS if that is not an increase, and as `create`.
        """
        began = is_untold = False
        for attempt in range(_ATTEMPTS):
            topic = await self._patiently(lambda: self._resolve_fresh(name))
            if (began or is_untold) and total_count == topic.partition_count:
                return topic
            if topic.growing is None:
                _check_growth(topic, total_count)
                if validate_only:
                    return replace(topic, partition_count=total_count, version=topic.version + 1)
                topic, outcome = await self._begin_growth(topic, total_count)
                is_untold |= outcome is None
                began |= outcome is True
            elif validate_only:
                _check_growth(replace(topic, partition_count=topic.growing.after), total_count)
                return replace(topic, partition_count=total_count, version=topic.version + 1)
            if topic.growing is not None:
                grown = await self._finish_growth(topic, topic.growing)
                if grown is not None and grown.partition_count == total_count:
                    return grown
            await self._backoff.pause(attempt)
        raise _untold() if began or is_untold else _unavailable()

    async def resume_growth(self, topic: Topic) -> Topic:
        """Finish a growth whose caller seems to be dead; return the topic. Raises KafkaError as `create_partitions`."""
        growing = topic.growing
        if growing is None or self._clock.now_ms() < growing.at_ms + _GROWTH_MS:
            return topic
        fresh = await self._patiently(lambda: self._resolve_fresh(topic.name))
        if fresh.growing is None:
            return fresh
        return await self._finish_growth(fresh, fresh.growing) or fresh

    async def marks_of(self, topic: Topic, growth: Growth) -> tuple[int, ...]:
        """The offset of each former partition up to which a group consumes it before it gets the partition's children.

        Raises KafkaError, FormatError: COORDINATOR_NOT_AVAILABLE also where the topic was deleted meanwhile.
        """
        key = marks_key(topic.topic_id, growth)
        if key not in self._marks:
            item = await self._patiently(lambda: self._catalog.get(key))
            if item is None:
                raise _unavailable()
            self._marks[key] = decode_marks(item)
        return self._marks[key]

    async def _begin_growth(self, topic: Topic, total_count: int) -> tuple[Topic, bool | None]:
        """Note a growth in the topic's row; return the topic with it, or as it is, and as `_change`."""
        growing = Growth(topic.partition_count, total_count, self._clock.now_ms())
        changed = await self._change(topic, (Set(("gt",), encode_growth(growing)),))
        return (replace(topic, growing=growing, version=topic.version + 1) if changed else topic), changed

    async def _finish_growth(self, topic: Topic, growing: Growth) -> Topic | None:
        """Make heads, put up fences, then show the new partitions; None: it was changed meanwhile, or may have been.

        Whoever raises a fence reads the next offset after it, so that the marks of any two callers are both right.
        """
        keeps = keeps_order(topic, growing.after, growth_hold_ms(topic, self._settings))
        growths = (*topic.growths, growing) if keeps else ()
        dropped = () if keeps else topic.growths
        version = topic.version + 1
        grown = replace(topic, partition_count=growing.after, growths=growths, growing=None, version=version)
        floor = await self._patiently(lambda: read_sweep_state(self._catalog))
        await self._create_heads(grown, topic.partition_count, floor.floor)
        marks: tuple[Put, ...] = ()
        if keeps:
            marks = (Put(marks_key(topic.topic_id, growing), encode_marks(await self._fence(topic, growing))),)
        actions = (
            Set(("n",), growing.after),
            Set(("gr",), [encode_growth(each) for each in growths]),
            Remove(("gt",)),
            Set(("ver",), version),
        )
        operations: tuple[Operation, ...] = (
            Update(_topic_key(topic.name), actions, _is(topic)),
            floor.unchanged,
            *marks,
            *(Delete(marks_key(topic.topic_id, each)) for each in dropped),
        )
        try:
            await self._catalog.transact(operations)
        except (TransactionCanceled, StoreUnavailable, OutcomeUnknown):
            return None
        return self._remember(grown)

    async def _fence(self, topic: Topic, growing: Growth) -> Sequence[int]:
        """Fence the topic's heads; return the next offset of each partition from after that. Raises KafkaError."""
        marks = [0] * growing.before

        async def fence(head_id: PartitionId) -> None:
            image = await self._index.fence(head_id, growing.after)
            if image is None:
                raise _unknown(topic.name)
            for number in range(head_id.partition, growing.before):
                partition = PartitionId(topic.topic_id, number)
                if partition.head_id != head_id:
                    break
                marks[number] = view_of(image, partition).next_offset

        await self._each_head(topic, range(growing.before), fence)
        return marks

    async def alter_configs(
        self, name: str, *, set: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> Topic:
        """Set and delete configuration overrides. Raises KafkaError: INVALID_CONFIG and as `create`."""
        checked = check_configs(set)
        is_untold = False
        for attempt in range(_ATTEMPTS):
            topic = await self._patiently(lambda: self._resolve_fresh(name))
            _check_per_head(topic, checked)
            kept = {key: value for key, value in topic.configs.items() if key not in delete}
            check_change(topic.configs, {**kept, **checked})
            altered = replace(topic, configs={**kept, **checked}, version=topic.version + 1)
            if validate_only:
                return altered
            changed = await self._change(topic, (Set(("c",), dict(altered.configs)),))
            if changed:
                return self._remember(altered)
            is_untold |= changed is None
            await self._backoff.pause(attempt)
        raise _untold() if is_untold else _unavailable()

    async def _change(self, topic: Topic, actions: tuple[Set, ...], check: Check | None = None) -> bool | None:
        """Change the topic's row if it has this version and the check holds; None if the outcome is unknown."""
        update = Update(
            _topic_key(topic.name),
            (*actions, Set(("ver",), topic.version + 1)),
            _is(topic),
        )
        try:
            if check is None:
                await self._catalog.update(update)
            else:
                await self._catalog.transact((update, check))
        except (ConditionFailed, TransactionCanceled, StoreUnavailable):
            return False
        except OutcomeUnknown:
            return None  # the caller reads the row again: changes are idempotent, only their version moves twice
        return True

    async def _transact(self, operations: Sequence[Operation], applied: _Applied) -> bool | None:
        """Run a transaction. If it was refused, return what `applied` reads back: None means not applied."""
        is_untold = False
        for attempt in range(_ATTEMPTS):
            try:
                await self._catalog.transact(operations)
                return True
            except TransactionCanceled:
                return await self._read_back(applied)
            except OutcomeUnknown:
                outcome = await self._read_back(applied)
                if outcome is not None:
                    return outcome
                is_untold = True
            except StoreUnavailable:
                pass
            await self._backoff.pause(attempt)
        raise _untold() if is_untold else _unavailable()

    async def _read_back(self, applied: _Applied) -> bool | None:
        """Return what `applied` reads. Raises KafkaError(REQUEST_TIMED_OUT) if the store does not answer."""
        try:
            return await self._patiently(applied)
        except KafkaError as error:
            raise _untold() from error

    async def _fresh(self, name: str) -> Topic | None:
        """Return the topic's stored row. Raises StoreUnavailable."""
        self._by_name.pop(name, None)
        item = await self._catalog.get(_topic_key(name)) if is_legal_name(name) else None
        return None if item is None else self._remember(_decode(name, item))

    async def _resolve_fresh(self, name: str) -> Topic:
        """Raises StoreUnavailable, KafkaError: UNKNOWN_TOPIC_OR_PARTITION."""
        topic = await self._fresh(name)
        if topic is None:
            raise _unknown(name)
        return topic

    async def _patiently(self, read: Callable[[], Awaitable[R]]) -> R:
        """Read from the catalog; a throttled read is made again within the request.

        Raises KafkaError(COORDINATOR_NOT_AVAILABLE): a change that needs it was certainly not made.
        """
        for attempt in range(_ATTEMPTS - 1):
            try:
                return await read()
            except StoreUnavailable:
                await self._backoff.pause(attempt)
        try:
            return await read()
        except StoreUnavailable as error:
            raise _unavailable() from error

    async def _create_heads(self, topic: Topic, first: int, sweep_floor: bytes) -> None:
        added = range(first, topic.partition_count)
        await self._each_head(topic, added, lambda partition: self._index.create_head(partition, sweep_floor))

    async def _delete_heads(self, topic: Topic) -> None:
        try:
            await self._each_head(topic, range(_heads_of(topic)), self._index.delete_head)
        except (KafkaError, StoreError):
            return  # maintenance finds the deleted-topics row

    async def _each_head(self, topic: Topic, partitions: range, act: _OnHead) -> None:
        """Apply an idempotent act to the heads of partitions, a few at once, each tried a bounded number of times."""

        async def persist(partition: int) -> None:
            for attempt in range(_ATTEMPTS):
                try:
                    return await act(PartitionId(topic.topic_id, partition))
                except (ItemTooLarge, StoreRejected):
                    raise
                except StoreError:
                    await self._backoff.pause(attempt)
            raise _unavailable()

        heads = sorted({PartitionId(topic.topic_id, n).head_id.partition for n in partitions})
        for start in range(0, len(heads), _PARALLEL_HEADS):
            await asyncio.gather(*(persist(each) for each in heads[start : start + _PARALLEL_HEADS]))

    def _remember(self, topic: Topic) -> Topic:
        self._by_name[topic.name] = (self._clock.monotonic() + self._settings.catalog_cache_ms / 1000, topic)
        self._name_by_id[topic.topic_id] = topic.name
        return topic

    def _per_head(self, configs: Mapping[str, str], partition_count: int) -> int:
        """How many partitions of a new topic share a head; one that has a single partition keeps it to itself."""
        asked = configs.get(PARTITIONS_PER_HEAD)
        if asked is None:
            return 1 if partition_count == 1 else int(default_of(PARTITIONS_PER_HEAD, self._settings))
        return int(asked)

    def _new_topic_id(self, per_head: int) -> UUID:
        return new_topic_id(self._rng.random_bytes(16), per_head)


def _unknown(name: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")


def _is(topic: Topic) -> AllOf:
    """Return the condition that the row is this topic's and unchanged.

    The version alone does not suffice: a recreated topic of the name begins with the first version again. Compare on a
    missing row is false, so a deleted topic is not brought back.
    """
    return AllOf((Compare(("id",), "=", topic.topic_id.bytes), Compare(("ver",), "=", topic.version)))


def is_legal_name(name: str) -> bool:
    """Kafka's rule for topic names."""
    return (
        0 < len(name) <= TOPIC_NAME_LENGTH_MAX and name not in (".", "..") and _LEGAL_NAME.fullmatch(name) is not None
    )


def check_name(name: str) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) for a name that Kafka would refuse."""
    if not is_legal_name(name):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"invalid topic name {name[:60]!r}: use 1 to {TOPIC_NAME_LENGTH_MAX} of the characters a-z A-Z 0-9 . _ -, "
            "and not '.' or '..'",
        )


def _check_growth(topic: Topic, total_count: int) -> None:
    """Raises KafkaError(INVALID_PARTITIONS) unless that is an increase."""
    _check_partition_count(total_count)
    if total_count <= topic.partition_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r} has {topic.partition_count} partitions: give more than that, not {total_count}",
        )


def _check_partition_count(count: int) -> None:
    if not 1 <= count <= PARTITIONS_PER_TOPIC_MAX:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"a topic must have 1 to {PARTITIONS_PER_TOPIC_MAX} partitions, not {count}"
        )


def _check_per_head(topic: Topic, configs: Mapping[str, str]) -> None:
    """Raises KafkaError(INVALID_CONFIG) for a change of what a topic's id says."""
    per_head = partitions_per_head(topic.topic_id)
    if int(configs.get(PARTITIONS_PER_HEAD, per_head)) != per_head:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{PARTITIONS_PER_HEAD} of topic {topic.name!r} is {per_head} and cannot be changed: it is chosen when a "
            "topic is created",
        )


def _topic_key(name: str) -> Key:
    return Key(TOPICS_PK, name)


def _encode(topic: Topic) -> Item:
    return {
        "v": VERSION,
        "id": topic.topic_id.bytes,
        "n": topic.partition_count,
        "c": dict(topic.configs),
        "t": topic.created_ms,
        "ver": topic.version,
        **({"gr": [encode_growth(each) for each in topic.growths]} if topic.growths else {}),
        **({"gt": encode_growth(topic.growing)} if topic.growing is not None else {}),
    }


def _decode(name: str, item: Item) -> Topic:
    check_version(item, VERSION, "a topic")
    return Topic(
        name,
        UUID(bytes=attribute(item, "id", bytes)),
        attribute(item, "n", int),
        attribute(item, "c", dict),
        attribute(item, "t", int),
        attribute(item, "ver", int),
        tuple(decode_growth(each) for each in attribute(item, "gr", list)) if "gr" in item else (),
        decode_growth(item["gt"]) if "gt" in item else None,
    )


def _heads_of(topic: Topic) -> int:
    """How many partitions may have heads: those of a growth that has begun, too."""
    return max(topic.partition_count, topic.growing.after if topic.growing is not None else 0)
