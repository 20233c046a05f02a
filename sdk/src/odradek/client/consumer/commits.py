"""The offsets that a consumer commits, and those that its group has committed.

A commit must not be overtaken by an older one, so they go one after the other. A commit or read that is refused only
because the member's epoch has risen meanwhile is made again with the new epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from odradek.client.config import ConsumerConfig
from odradek.client.connection import Connection
from odradek.client.consumer.membership import GroupMember
from odradek.client.consumer.positions import Positions
from odradek.client.log import shown
from odradek.client.messages import offsets as offset_calls
from odradek.client.messages.offsets import SIMPLE, Membership
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]

_EPOCH_PATIENCE_S = 5.0


class Commits:
    """Commits and reads the offsets of one consumer's group.

    Args:
        member: None for a consumer without a group.
    """

    def __init__(
        self, connection: Connection, config: ConsumerConfig, positions: Positions, member: GroupMember | None
    ) -> None:
        self._connection = connection
        self._config = config
        self._positions = positions
        self._member = member
        self._clock = connection.clock
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._next_s = self._clock.monotonic() + config.auto_commit_interval_ms / 1000

    # --- commits --------------------------------------------------------------------------------------------------

    @property
    def is_automatic(self) -> bool:
        """Return True if polls commit by themselves."""
        return self._config.enable_auto_commit and self._config.group_id is not None

    @property
    def due_in_s(self) -> float:
        """The seconds until the next commit of a poll."""
        return max(self._next_s - self._clock.monotonic(), 0.001)

    def offsets_of(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return offsets as they are committed; None: of the records returned so far.

        Raises:
            KafkaError: INVALID_GROUP_ID without a group_id.
        """
        if self._config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "commit needs a group_id: set one")
        if offsets is None:
            return self._positions.consumed()
        return {
            TopicPartition(*partition): position
            if isinstance(position, OffsetAndMetadata)
            else OffsetAndMetadata(position)
            for partition, position in offsets.items()
        }

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets. Raises KafkaError."""
        assert self._config.group_id is not None
        async with self._turn:
            deadline_s = self._clock.monotonic() + self._config.default_api_timeout_ms / 1000
            while True:
                membership = self._membership()
                try:
                    await offset_calls.commit(self._connection, self._config.group_id, offsets, membership)
                except KafkaError as error:
                    if not await self._epoch_has_moved(error, membership.member_epoch, deadline_s):
                        self._connection.log.warning("commit of %s failed: %s", shown(offsets), error)
                        raise
                else:
                    self._committed.update(offsets)
                    return

    def start(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> asyncio.Task[None]:
        """Commit offsets in a task, which `settle` waits for."""
        return self._start(self.commit(offsets))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller of commit_async has the task

    def commit_if_due(self) -> None:
        """Start the commit of a poll if it is time."""
        if not self.is_automatic or self._clock.monotonic() < self._next_s or self._turn.locked():
            return
        self._next_s = self._clock.monotonic() + self._config.auto_commit_interval_ms / 1000
        offsets = self._uncommitted()
        if offsets:
            self._start(self.commit(offsets))

    async def commit_quietly(self) -> None:
        """Commit before partitions are released. If that fails, their records are read again."""
        if self.is_automatic and not (self._member is not None and self._member.is_lost):
            offsets = self._uncommitted()
            if offsets:
                try:
                    await self.commit(offsets)
                except KafkaError:
                    return

    async def settle(self) -> None:
        """Wait for all commits that were started."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what is known of partitions that are released."""
        for partition in partitions:
            self._committed.pop(partition, None)

    def _uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the consumed offsets that differ from the committed ones: an unchanged offset is not worth a call."""
        return {p: o for p, o in self._positions.consumed().items() if self._committed.get(p) != o}

    # --- reads ----------------------------------------------------------------------------------------------------

    async def read(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets, read with this member's epoch; empty if the member has left the group."""
        assert self._config.group_id is not None
        deadline_s = self._clock.monotonic() + self._config.default_api_timeout_ms / 1000
        while True:
            membership = self._membership()
            try:
                committed = await offset_calls.fetch_committed(
                    self._connection,
                    self._config.group_id,
                    partitions,
                    membership,
                    timeout_ms=self._config.request_timeout_ms,
                )
            except KafkaError as error:
                if await self._epoch_has_moved(error, membership.member_epoch, deadline_s):
                    continue
                if self._member is not None and self._member.is_lost:
                    return {}  # poll deals with it; the partitions are dropped before a position is used
                raise
            self._committed.update(committed)
            return committed

    # --- the member -----------------------------------------------------------------------------------------------

    def _membership(self) -> Membership:
        return self._member.membership if self._member and self._member.is_in else SIMPLE

    async def _epoch_has_moved(self, error: KafkaError, epoch: int, deadline_s: float) -> bool:
        """Return True if a commit or read was refused only because this member's epoch has risen in the meantime."""
        member = self._member
        if member is None or not member.is_in:
            return False
        if error.code in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}:
            self._connection.log.warning("fenced: its partitions may belong to another member: %s", error)
            member.lose()
            return False
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH or self._clock.monotonic() >= deadline_s:
            return False
        if member.membership.member_epoch == epoch:
            await member.wait_answer(_EPOCH_PATIENCE_S)
        return member.is_in and member.membership.member_epoch != epoch
