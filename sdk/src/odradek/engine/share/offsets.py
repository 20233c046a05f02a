"""The offsets of share groups, and their changes (KIP-932: Describe-, Alter-, DeleteShareGroupOffsets).

The offsets of a group can be altered only while it has no members. Altering one resets the window's delivery counts and
dead letters; after a deletion the group starts at `share.auto.offset.reset`. For a partition that the group has not
read, the window is created in one transaction that raises the group's version, so that the group is not deleted
concurrently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from odradek.engine.catalog.partitions import find_partition, resolve_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.admin import has_living_members
from odradek.engine.groups.items import SHARE_KIND, group_key
from odradek.engine.groups.requests import check_group_id
from odradek.engine.groups.state import GroupState
from odradek.engine.groups.store import GroupStore, create_group_operations
from odradek.engine.read.list_offsets import OffsetLister
from odradek.engine.share.group_decisions import ASSIGNOR
from odradek.engine.share.items import NONCE_BYTES, ShareItem, decode_share, encode_share, share_key, share_partition
from odradek.engine.share.window import SharePartition, reset_to
from odradek.engine.share.windows import SharePartitions, forget_windows, windows_of_topic
from odradek.engine.tools import Tools
from odradek.errors import (
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.format.item_keys import SHARE_PARTITION_END, SHARE_PARTITION_PREFIX, group_pk
from odradek.model.log import LATEST_TIMESTAMP, ListOffsetsPartition
from odradek.model.share import ShareOffset
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.ports.table import Absent, Add, Compare, Put, Update

R = TypeVar("R")

_ATTEMPTS = 8
_rejected = partial(
    KafkaError, ErrorCode.INVALID_REQUEST, "the store rejects this change of the share-partition permanently"
)
_unavailable = partial(KafkaError, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the groups table cannot be reached: try again")


class ShareOffsets:
    """Administration of windows."""

    def __init__(
        self,
        tools: Tools,
        windows: SharePartitions,
        topics: Topics,
        lister: OffsetLister,
    ) -> None:
        self._tables = tools.tables
        self._store = GroupStore(tools.tables.groups)
        self._windows = windows
        self._topics = topics
        self._lister = lister
        self._clock = tools.clock
        self._rng = tools.rng
        self._backoff = tools.backoff(first_s=0.02, max_s=3.0)

    async def describe(self, group_id: str, partitions: Sequence[TopicPartition] | None) -> list[ShareOffset]:
        """Return the group's positions; None: in all partitions that it has read. Raises KafkaError, FormatError."""
        await self._check(group_id)
        if partitions is None:
            return await self._describe_all(group_id)
        return [await self._describe_one(group_id, each) for each in partitions]

    async def alter(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> list[ShareOffset]:
        """Move windows; one result each. A group that does not exist is created, as on Apache Kafka.

        Raises KafkaError: GROUP_ID_NOT_FOUND (it is a group of another kind), NON_EMPTY_GROUP.
        """
        await self._create_if_missing(group_id)
        await self._check(group_id, must_be_empty=True)
        results = []
        for place, offset in offsets.items():
            try:
                topic, partition = await resolve_partition(self._topics, place.topic, place.partition)
                if offset < 0:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {place} has no offset {offset}")
                await self._move(group_id, partition, offset)
                results.append(ShareOffset(place.topic, topic.topic_id, place.partition, offset))
            except KafkaError as error:
                results.append(ShareOffset(place.topic, None, place.partition, error=error.code, message=error.message))
        return results

    async def delete(self, group_id: str, topic_names: Sequence[str]) -> list[ShareOffset]:
        """Forget the windows of whole topics; one result a topic. Raises KafkaError as `alter`."""
        await self._check(group_id, must_be_empty=True)
        results = []
        for name in topic_names:
            try:
                topic = await self._topics.resolve(name)
                await self._forget(group_id, topic.topic_id)
                results.append(ShareOffset(name, topic.topic_id, -1))
            except KafkaError as error:
                results.append(ShareOffset(name, None, -1, error=error.code, message=error.message))
        return results

    async def _check(self, group_id: str, *, must_be_empty: bool = False) -> None:
        check_group_id(group_id)
        view = await self._patiently(lambda: self._store.read(group_id))
        if view.group is None or not view.group.is_share:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{group_id!r} is not a share group")
        if must_be_empty and has_living_members(view, self._clock.now_ms()):
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members: stop them first")

    async def _create_if_missing(self, group_id: str) -> None:
        check_group_id(group_id)
        for attempt in range(_ATTEMPTS):
            try:
                if await self._store.read_group(group_id) is None:
                    group = GroupState(group_id, assignor=ASSIGNOR, is_share=True)
                    await self._store.table.transact(create_group_operations(group))
            except (StoreUnavailable, OutcomeUnknown, TransactionCanceled):
                await self._backoff.pause(attempt)
            else:
                return
        raise _unavailable()

    async def _describe_all(self, group_id: str) -> list[ShareOffset]:
        rows = await self._patiently(
            lambda: self._store.table.query(
                group_pk(group_id), sk_from=SHARE_PARTITION_PREFIX, sk_to=SHARE_PARTITION_END
            )
        )
        found = []
        for row in rows:
            partition = share_partition(row.key.sk)
            topic = await self._topics.get_by_id(partition.topic_id)
            if topic is not None:
                place = TopicPartition(topic.name, partition.partition)
                found.append(self._told(place, partition, decode_share(row.item).state))
        return sorted(await asyncio.gather(*found), key=lambda each: (each.topic, each.partition))

    async def _describe_one(self, group_id: str, place: TopicPartition) -> ShareOffset:
        there = await find_partition(self._topics, place)
        if there is None:
            return ShareOffset(
                place.topic,
                None,
                place.partition,
                error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                message=f"partition {place} does not exist",
            )
        topic, partition = there
        [item] = await self._patiently(lambda: self._windows.read(group_id, [partition]))
        if item is None:
            return ShareOffset(place.topic, topic.topic_id, place.partition)
        return await self._told(place, partition, item.state)

    async def _told(self, place: TopicPartition, partition: PartitionId, state: SharePartition) -> ShareOffset:
        [end] = await self._lister.list_offsets([ListOffsetsPartition(place.topic, place.partition, LATEST_TIMESTAMP)])
        lag = -1 if end.error else max(0, end.offset - state.start_offset - state.done_count)
        return ShareOffset(place.topic, partition.topic_id, place.partition, state.start_offset, lag)

    async def _forget(self, group_id: str, topic_id: UUID) -> None:
        """Deleting twice is deleting, so whatever the outcome of an attempt, the next one deletes what is left."""
        for attempt in range(_ATTEMPTS):
            try:
                await forget_windows(self._tables, await windows_of_topic(self._tables.groups, group_id, topic_id))
            except (StoreUnavailable, OutcomeUnknown, TransactionCanceled):
                await self._backoff.pause(attempt)
            except (ItemTooLarge, StoreRejected) as error:
                raise _rejected() from error
            else:
                return
        raise _unavailable()

    async def _patiently(self, read: Callable[[], Awaitable[R]]) -> R:
        """Read, and again after a pause while the store is unavailable. Raises KafkaError."""
        for attempt in range(_ATTEMPTS):
            try:
                return await read()
            except StoreUnavailable:
                await self._backoff.pause(attempt)
        raise _unavailable()

    async def _move(self, group_id: str, partition: PartitionId, offset: int) -> None:
        """A write of unknown outcome is made again: moved twice to one place is moved once."""
        for attempt in range(_ATTEMPTS):
            try:
                [item] = await self._windows.read(group_id, [partition])
                if item is not None:
                    await self._windows.change(group_id, partition, item, lambda state: (reset_to(state, offset), None))
                    return
                made = ShareItem(SharePartition(offset), self._rng.random_bytes(NONCE_BYTES), version=1)
                await self._store.table.transact(
                    [
                        Put(share_key(group_id, partition), encode_share(made), Absent(("v",))),
                        Update(group_key(group_id), (Add(("n",), 1),), Compare(("k",), "=", SHARE_KIND)),
                    ]
                )
            except (StoreUnavailable, OutcomeUnknown, TransactionCanceled):
                await self._backoff.pause(attempt)
            except (ItemTooLarge, StoreRejected) as error:
                raise _rejected() from error
            else:
                return
        raise _unavailable()
