"""The asynchronous consumer: public as odradek.aio.Consumer, run by the synchronous face.

    poll        rebalance if necessary, commit if it is time, return buffered records, else wait
    fetcher     a background task that keeps the buffer filled        (fetcher.py, fetch_buffer.py)
    member      a background task that keeps us in the group          (membership.py)

Delivery is at least once by default: records count as processed when the application calls the consumer again (poll,
commit, close), and only then are their offsets committed. A record whose processing failed is read again. A consumer
serves one task at a time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from odradek.client.config import ConsumerConfig
from odradek.client.connection import Connection
from odradek.client.consumer.commits import Commits, Offsets
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.held_records import HeldRecords
from odradek.client.consumer.membership import GroupMember, Polling
from odradek.client.consumer.positions import Positions, partitions_of
from odradek.client.consumer.read_record import read_record
from odradek.client.consumer.rebalance import Caller, RebalanceListener, call_here
from odradek.client.consumer.record import ConsumerRecord
from odradek.client.log import shown
from odradek.client.messages import offsets as offset_calls
from odradek.client.messages.offsets import SIMPLE, ConsumerGroupMetadata
from odradek.client.retry import timed_out
from odradek.client.types import OffsetAndTimestamp
from odradek.client.waiting import wait_for
from odradek.errors import ErrorCode, KafkaError, WakeupError
from odradek.extras import extra
from odradek.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.columnar.engine import EngineName

_ITERATION_POLL_MS = _CONSUME_POLL_MS = 1_000
_ROWS_MAX = 2**62


class Consumer:
    """Read records of topics, alone or as a member of a group.

    Use it as an async context manager, or `close` it. Configuration: docs/CLIENTS.md.

    Raises:
        KafkaError: INVALID_CONFIG for a configuration that is unknown or cannot work.
    """

    def __init__(self, config: ConsumerConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = config = ConsumerConfig.given(config, configs)
        self._connection = Connection(config)
        self._clock = self._connection.clock
        self._log = self._connection.log
        self._activity = asyncio.Event()
        self._positions = Positions()
        grouped = config.group_id is not None
        self._member = GroupMember(self._connection, config, self._activity) if grouped else None
        self._commits = Commits(self._connection, config, self._positions, self._member)
        self._fetcher = Fetcher(
            self._connection, config, self._positions, self._commits.read if grouped else None, self._activity
        )
        self._listener: RebalanceListener | None = None
        self._call_listener: Caller = call_here
        self._topics: tuple[str, ...] | None = None
        self._pattern: str | None = None
        self._topic_ids: dict[TopicPartition, UUID] = {}
        self._assigned_by_hand = False
        self._held = HeldRecords()  # what iteration has taken out
        self._tasks: list[asyncio.Task[None]] = []
        self._is_woken = False
        self._is_closing = False
        self._closed = False

    async def start(self) -> Self:
        """Connect. Raises KafkaError (BROKER_NOT_AVAILABLE ...) whose message names the address."""
        self._check_open()
        await self._connection.connect()
        return self

    # --- what to read ---------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the group, replacing any earlier subscription. Joins at the next poll.

        Args:
            topics: names of topics.
            pattern: instead of names, a regular expression (RE2) that matches a topic's whole name.
            listener: called when partitions are assigned, revoked or lost.

        Raises:
            KafkaError: INVALID_GROUP_ID without a group_id, INVALID_REQUEST for other misuse.
        """
        self._check_open()
        if self._member is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "subscribe needs a group_id: set one, or use assign")
        if isinstance(topics, str):
            topics = [topics]
        names = None if topics is None else tuple(sorted(set(topics)))
        if (names is None) == (pattern is None) or names == ():
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe takes either topics or a pattern")
        if self._assigned_by_hand:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer has partitions from assign: unsubscribe first")
        self._topics = names
        self._pattern = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        self._listener = listener
        self._member.subscribe(names, self._pattern)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions without the coordination of a group, replacing any earlier assignment.

        Raises:
            KafkaError: INVALID_REQUEST if the consumer has a subscription.
        """
        self._check_open()
        if self._topics is not None or self._pattern is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer has a subscription: unsubscribe first")
        wanted = {TopicPartition(*partition) for partition in partitions}
        self._assigned_by_hand = bool(wanted)
        self._positions.remove(self._positions.partitions() - wanted)
        self._positions.add(sorted(wanted))
        self._fetcher.changed()

    async def unsubscribe(self) -> None:
        """Release all partitions: commit what is due, call the listener, leave the group."""
        await self._give_up_all(commit=True)
        self._topics = self._pattern = self._listener = None
        self._assigned_by_hand = False

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now."""
        return self._positions.partitions()

    def subscription(self) -> set[str]:
        """Return the topics that are subscribed to by name."""
        return set(self._topics or ())

    # --- reading --------------------------------------------------------------------------------------------------

    async def poll(
        self, timeout_ms: float = 0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return buffered records, or those that arrive first within `timeout_ms`; empty if there are none.

        Rebalances happen inside this call. Records of earlier polls count as processed from now on.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE with auto_offset_reset none; authorization; CORRUPT_MESSAGE;
                INVALID_RECORD where a deserializer fails; REQUEST_TIMED_OUT where nothing succeeds for long;
                INVALID_REQUEST when the consumer is closed, also while this call waits.
            WakeupError: after `wakeup`.
        """
        self._check_polling()
        limit = max_records or self.config.max_poll_records
        records: dict[TopicPartition, list[ConsumerRecord]] = {}
        while limit and (held := self.next_held()) is not None:
            records.setdefault(held.topic_partition, []).append(held)
            limit -= 1
        if records:
            return records
        async with Polling(self._member):
            await self._wait_for_records(timeout_ms)
            return await self._fetcher.take(limit)

    async def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[ConsumerRecord]:
        """Return up to `num_messages` records in one list: those that are there, or that arrive first; as `poll`.

        Args:
            num_messages: at most as many.
            timeout: in seconds; then the list may be empty. None waits until there are records.

        Raises:
            KafkaError: as `poll`.
        """
        while True:
            records = await self.poll(_CONSUME_POLL_MS if timeout is None else 1000 * timeout, max_records=num_messages)
            if records or timeout is not None:
                return [record for of_partition in records.values() for record in of_partition]

    async def fill(self, timeout_ms: float) -> None:
        """Like `poll`, but keep the records for `next_held`."""
        if not self._held:
            async with Polling(self._member):
                await self._wait_for_records(timeout_ms)
                self._held.add(await self._fetcher.hold(self.config.max_poll_records))

    def next_held(self) -> ConsumerRecord | None:
        """Return the next held record or None. It counts as processed when the application calls again."""
        if self._is_woken or self._connection.origin.is_parent:
            self._check_polling()
        return self._held.next()

    def wakeup(self) -> None:
        """End the poll that waits, or the next one, with WakeupError."""
        self._is_woken = True
        self._activity.set()

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while True:
            record = self.next_held()
            if record is not None:
                return record
            await self.fill(_ITERATION_POLL_MS)

    async def poll_table(
        self,
        timeout_ms: float = 0,
        columns: Sequence[str] | None = None,
        *,
        max_records: int | None = None,
        engine: EngineName = "auto",
    ) -> pa.Table:
        """Like `poll`, but return an Arrow table, decoded column by column. Deserializers are not used.

        Args:
            columns: some of topic, partition, offset, timestamp, timestampType, key, value, headers, in any order; None
                takes topic (dictionary-encoded), partition, offset, timestamp, key, value.
            max_records: None takes what is buffered: up to two fetches.
            engine: `numba`, `python`, or `auto` for numba where it is installed.

        Raises KafkaError as `poll`; INVALID_REQUEST for a column that does not exist.
        """
        with extra("table"):
            from odradek.client.consumer.table_records import table_schema

        table_schema(columns)
        self._drop_held()
        async with Polling(self._member):
            await self._wait_for_records(timeout_ms)
            return await self._fetcher.take_table(max_records or _ROWS_MAX, columns, engine)

    async def read_at(self, topic: str, partition: int, offset: int) -> ConsumerRecord | None:
        """Return the record at an offset, or None if compaction has removed it. One call.

        It does not depend on the assignment and changes no position.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE before the log's start or from its end on; UNKNOWN_TOPIC_OR_PARTITION;
                INVALID_RECORD where a deserializer fails.
        """
        self._check_open()
        tp = TopicPartition(topic, partition)
        if offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"invalid offset {offset}: it must be at least 0")
        return await read_record(self._connection, self.config, tp, offset)

    def _drop_held(self) -> None:
        """Give held records back to the fetcher: they are decoded to Python objects and cannot be used for a table."""
        if self._held.give_back():
            self._fetcher.changed()

    async def _wait_for_records(self, timeout_ms: float) -> None:
        """Return when records are buffered, or after `timeout_ms`; rebalance and commit on the way."""
        if not self._positions and self._topics is None and self._pattern is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "there is nothing to read: call subscribe or assign first")
        self._run_background()
        deadline_s = self._clock.monotonic() + timeout_ms / 1000
        while True:
            self._activity.clear()
            self._check_polling()
            await self._rebalance()
            self._commits.commit_if_due()
            if self._fetcher.has_records:
                return
            self._fetcher.raise_error()
            left_s = deadline_s - self._clock.monotonic()
            if left_s <= 0:
                return
            if self._commits.is_automatic:
                left_s = min(left_s, self._commits.due_in_s)
            await wait_for(self._activity, left_s, self._clock)

    def _run_background(self) -> None:
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._fetcher.run()))
            if self._member is not None:
                self._tasks.append(asyncio.create_task(self._member.run()))
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()  # a bug: tell it rather than hang

    # --- rebalance ------------------------------------------------------------------------------------------------

    async def _rebalance(self) -> None:
        """Apply the coordinator's assignment: revoke partitions first, then take over new ones. Called inside poll."""
        member = self._member
        if member is None or self._assigned_by_hand:
            return
        member.raise_error()
        if member.is_lost:
            lost = sorted(self._positions.partitions())
            self._log.warning("partitions lost: %s", shown(lost))
            self._forget(lost)
            self._topic_ids = {}
            await self._tell("on_partitions_lost", lost)
            member.rejoin()
        if not member.has_target:
            return
        target = await member.take_target()
        owned = self._positions.partitions()
        revoked = sorted(owned - target.keys())
        added = sorted(target.keys() - owned)
        if revoked:
            self._log.info("partitions revoked: %s", shown(revoked))
            await self._commits.commit_quietly()
            await self._tell("on_partitions_revoked", revoked)
            self._forget(revoked)
        self._topic_ids = target
        if added or not owned:
            self._log.info("partitions assigned: %s", shown(added))
        if added:
            self._positions.add(added, is_blocked=True)
            await self._tell("on_partitions_assigned", added)
            for partition in added:
                state = self._positions.get(partition)
                if state is not None:
                    state.is_blocked = False
            self._fetcher.changed()
        if revoked or added:
            member.acknowledge(target)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions.remove(partitions)
        self._commits.forget(partitions)
        self._fetcher.changed()

    async def _tell(self, method: str, partitions: list[TopicPartition]) -> None:
        if self._listener is not None and partitions:
            await self._call_listener(getattr(self._listener, method), partitions)

    async def _give_up_all(self, *, commit: bool) -> None:
        if commit:
            await self._commits.commit_quietly()
        owned = sorted(self._positions.partitions())
        if not self._assigned_by_hand:
            lost = self._member is not None and self._member.is_lost
            await self._tell("on_partitions_lost" if lost else "on_partitions_revoked", owned)
        self._held.clear()
        self._forget(owned)
        self._topic_ids = {}
        if self._member is not None and not self._assigned_by_hand:
            await self._member.leave()

    # --- offsets --------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit offsets and wait for the outcome; None commits the records returned so far.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID if the partitions went to another member.
        """
        self._check_open()
        await self._commits.commit(self._commits.offsets_of(offsets))

    def commit_async(self, offsets: Offsets | None = None) -> asyncio.Task[None]:
        """Commit without waiting, and return a task with the outcome of `commit`. `close` waits for it."""
        self._check_open()
        return self._commits.start(self._commits.offsets_of(offsets))

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of any partitions, None for those without a commit. One call."""
        if self.config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "committed offsets need a group_id: set one")
        wanted = [TopicPartition(*partition) for partition in partitions]
        committed = await offset_calls.fetch_committed(self._connection, self.config.group_id, wanted)
        return {partition: committed.get(partition) for partition in wanted}

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be returned. Raises KafkaError(INVALID_REQUEST) if not assigned."""
        state = self._positions.of(TopicPartition(*partition))
        self._run_background()
        timeout_ms = self.config.default_api_timeout_ms
        deadline_s = self._clock.monotonic() + timeout_ms / 1000
        while state.position is None:
            self._check_polling()
            self._fetcher.raise_error()
            left_s = deadline_s - self._clock.monotonic()
            if left_s <= 0:
                raise timed_out(f"position of {partition}", timeout_ms, None)
            self._activity.clear()
            await wait_for(self._activity, left_s, self._clock)
        return state.position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset. Raises KafkaError(INVALID_REQUEST) if not assigned."""
        if offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"invalid offset {offset}: it must be at least 0")
        self._positions.of(TopicPartition(*partition)).seek(offset)
        self._fetcher.changed()

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue at the first record of the partitions, or of all assigned partitions."""
        self._seek_to(partitions_of(partitions), EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue after the last record of the partitions, or of all assigned partitions."""
        self._seek_to(partitions_of(partitions), LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> None:
        for partition in partitions or self.assignment():
            self._positions.of(partition).reset(timestamp_ms)
        self._fetcher.changed()

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. One call."""
        return await self._offsets_at(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition. One call."""
        return await self._offsets_at(partitions, LATEST_TIMESTAMP)

    async def _offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        wanted = {TopicPartition(*partition): timestamp_ms for partition in partitions}
        offsets = await offset_calls.list_offsets(self._connection, wanted)
        return {partition: offsets[partition].offset for partition in wanted}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each timestamp in ms, None if there is none. One call."""
        wanted = {TopicPartition(*partition): timestamp_ms for partition, timestamp_ms in timestamps.items()}
        if any(timestamp_ms < 0 for timestamp_ms in wanted.values()):
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP, "invalid timestamp: it must be at least 0 (ms since the epoch)"
            )
        offsets = await offset_calls.list_offsets(self._connection, wanted)
        return {partition: offsets[partition] if offsets[partition].offset >= 0 else None for partition in wanted}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this consumer's membership for Producer.send_offsets_to_transaction. Call it before each commit.

        Raises:
            KafkaError: INVALID_GROUP_ID without a group_id.
        """
        if self.config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "group_metadata needs a group_id: set one")
        member = self._member.membership if self._member and self._member.is_in else SIMPLE
        return ConsumerGroupMetadata(self.config.group_id, member.member_id, member.member_epoch, member.instance_id)

    async def lag(self) -> dict[TopicPartition, int | None]:
        """Return the records between position and end of each assigned partition, None without a position. One call."""
        ends = await self.end_offsets(self.assignment())
        return {
            state.partition: None if state.position is None else max(ends[state.partition] - state.position, 0)
            for state in self._positions
            if state.partition in ends
        }

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Return no records of these partitions, given one by one or in a list, until `resume`."""
        for partition in partitions_of(partitions):
            state = self._positions.of(partition)
            state.is_paused = True
            state.drop_buffered()
        self._fetcher.changed()

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for partition in partitions_of(partitions):
            self._positions.of(partition).is_paused = False
        self._fetcher.changed()

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {state.partition for state in self._positions if state.is_paused}

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        timeout_ms = self.config.default_api_timeout_ms
        return set(range((await self._connection.metadata.topic(topic, timeout_ms=timeout_ms)).partition_count))

    # --- the end --------------------------------------------------------------------------------------------------

    async def close(self, *, commit: bool = True) -> None:
        """Commit consumed offsets (with enable_auto_commit), leave the group, release everything. May be called twice.

        Args:
            commit: False commits nothing, so that the records of the last poll are read again.
        """
        if self._is_closing or self._connection.origin.is_parent:
            return
        self._is_closing = True
        self._activity.set()  # a poll of another task ends
        try:
            await self._commits.settle()
            await self._give_up_all(commit=commit)
        finally:
            self._closed = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the block the last records may not have been processed: they are read again.
        await self.close(commit=error is None)

    def _check_polling(self) -> None:
        """Raise KafkaError if the consumer is closed, also by another task; WakeupError after `wakeup`."""
        self._check_open()
        if self._is_closing:
            raise _closed()
        if self._is_woken:
            self._is_woken = False
            raise WakeupError

    def _check_open(self) -> None:
        self._connection.origin.check()
        if self._closed:
            raise _closed()


def _closed() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is closed: create a new one")
