"""The asynchronous share consumer (KIP-932): public as odradek.aio.ShareConsumer, run by the synchronous face.

    poll           return held records, else send the acknowledgements and fetch
    acknowledge    set the acknowledgement of a record of the last poll; the next poll or commit sends it
    member         a background task that keeps us in the group         (share/membership.py)

Each record belongs to one member for the lock's duration, and is delivered again unless it is accepted before. In
*implicit* mode the next poll, commit or close accepts the returned records that have no other acknowledgement; in
*explicit* mode every record has to be acknowledged before the next poll.

    returned ──acknowledge──> pending ──sent──> done
         │  └── implicit: ACCEPT at the next poll ┘
         └── RENEW: sent separately; the record stays with the application

Closing gives back what has no acknowledgement: a record that was returned counts as delivered, so that one on which the
application fails reaches the limit of deliveries; a record that was never returned does not.

A request whose answer is lost ends the share session. The next request opens another and sends the acknowledgements
again; those that the first request applied fail with INVALID_RECORD_STATE, which is reported like any other failure.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from odradek.client.config import ShareConsumerConfig
from odradek.client.connection import Connection, error_code, throttle_s
from odradek.client.consumer.pace import FetchPace
from odradek.client.consumer.record import ConsumerRecord, CorruptRecordBatchError, RecordDeserializationError
from odradek.client.log import Outages
from odradek.client.messages.share import (
    DeliveredPartition,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
    acknowledged,
    delivered,
    share_acknowledge_request,
    share_fetch_request,
)
from odradek.client.share.membership import ShareMember
from odradek.client.transport.base import RequestFailed
from odradek.client.waiting import wait_for
from odradek.errors import ErrorCode, FormatError, KafkaError, WakeupError
from odradek.format.batch_header import iter_headers
from odradek.format.record_decoder import iter_rows
from odradek.model.record import TimestampType
from odradek.model.share import CLOSE_SESSION_EPOCH, OPEN_SESSION_EPOCH, UNSEEN, AcknowledgeType
from odradek.model.topic_partition import PartitionId, TopicPartition

AcknowledgementCallback = Callable[[dict[TopicPartition, set[int]], KafkaError | None], Any]
"""(offsets, the error or None): called once for every acknowledgement that was answered."""
Commits = dict[TopicPartition, KafkaError | None]

_ITERATION_POLL_MS = 1_000
_JOIN_PAUSE_S = 0.5
_RETRY_GRACE_S = 1.0  # a retry that helps within this time is not logged
_CLOSE_TIMEOUT_MS = 10_000


class ShareRecord(NamedTuple):
    """A record of a share consumer."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int  # this delivery included

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record is in."""
        return TopicPartition(self.topic, self.partition)


class _Held(NamedTuple):
    """A record that this member holds and has not returned yet."""

    place: PartitionId
    record: ShareRecord
    until_s: float  # the end of its lock, by this machine's clock


class ShareConsumer:
    """Consume topics as a queue, as one of any number of members of a share group. For one task at a time.

    Use it as an async context manager, or `close` it. Configuration: docs/CLIENTS.md.

    Raises:
        KafkaError: INVALID_CONFIG for a configuration that is unknown or cannot work.
    """

    def __init__(self, config: ShareConsumerConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = ShareConsumerConfig.given(config, configs)
        self._connection = Connection(self.config)
        self._clock = self._connection.clock
        self._log = self._connection.log
        self._outages = Outages(self._log, grace_s=_RETRY_GRACE_S)
        self._activity = asyncio.Event()
        self._member = ShareMember(self._connection, self.config, self._activity)
        self._task: asyncio.Task[None] | None = None
        self._topics: tuple[str, ...] = ()
        self._held: deque[_Held] = deque()
        self._out: dict[PartitionId, dict[int, TopicPartition]] = {}  # returned, not acknowledged
        self._pending: dict[PartitionId, dict[int, int]] = {}  # acknowledged, not sent
        self._names: dict[PartitionId, TopicPartition] = {}
        self._session_epoch = OPEN_SESSION_EPOCH
        self._session: frozenset[PartitionId] = frozenset()
        self._lock = asyncio.Lock()  # a session's requests go one after the other
        self._callback: AcknowledgementCallback | None = None
        self._commits: set[asyncio.Task[Commits]] = set()
        self._throttled_until_s = 0.0
        self._failing_since_s: float | None = None
        self._pace = FetchPace(self.config.idle_pause_max_s)
        self._pace.restart(self._clock.monotonic())
        self._is_woken = False
        self._is_closing = False
        self._closed = False

    async def start(self) -> Self:
        """Connect to the service.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE and others; the message names the address.
        """
        self._check_open()
        await self._connection.connect()
        return self

    # --- what to read -----------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics, replacing any earlier subscription. Joins the group at the next poll."""
        self._check_open()
        names = tuple(sorted({topics} if isinstance(topics, str) else set(topics)))
        if not names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe needs at least one topic; to stop, call unsubscribe")
        self._topics = names
        self._member.subscribe(names)

    async def unsubscribe(self) -> None:
        """Release all records that were not acknowledged, and leave the group. Those that were returned count."""
        await self._give_up(commit=self.config.is_implicit)

    def subscription(self) -> set[str]:
        """Return the topics that are subscribed to."""
        return set(self._topics)

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set a callback for the outcome of acknowledgements, whether a poll, a commit or the close sends them."""
        self._callback = callback

    # --- reading ----------------------------------------------------------------------------------------------------

    async def poll(
        self, timeout_ms: float = 0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord]]:
        """Acquire and return records within `timeout_ms`; empty if there are none.

        Raises:
            KafkaError: INVALID_REQUEST in explicit mode if a record of the last poll is not acknowledged;
                authorization; CORRUPT_MESSAGE; INVALID_RECORD if a deserializer fails (the record is released);
                REQUEST_TIMED_OUT if nothing succeeds for long;
                INVALID_REQUEST when the consumer is closed, also while this call waits.
            WakeupError: after `wakeup`.
        """
        self._check_polling()
        if not self._topics:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "there is nothing to read: call subscribe first")
        self._settle_last_poll()
        limit = max_records or self.config.max_poll_records
        deadline_s = self._clock.monotonic() + timeout_ms / 1000
        while True:
            self._check_polling()
            records = self._hand_out(limit)
            if records:
                return records
            self._run_background()
            self._member.raise_error()
            self._activity.clear()
            left_s = deadline_s - self._clock.monotonic()
            if self._member.is_in and self._member.partitions:
                now_s = self._clock.monotonic()
                rest_s = min(self._pace.rest_s(now_s), max(left_s, 0.0))
                try:
                    async with self._lock:
                        await self._fetch(0.0 if rest_s else max(left_s, 0.0), limit)
                    self._failing_since_s = None
                    self._outages.ended("reading", self._clock.monotonic())
                    if self._held:
                        self._pace.found(1, self._clock.monotonic())
                    elif rest_s:
                        await self._clock.sleep(rest_s)
                except KafkaError as error:
                    if self._failing_since_s is None:
                        self._failing_since_s = now_s
                    patience_s = self.config.default_api_timeout_ms / 1000
                    if not error.is_retryable or now_s - self._failing_since_s > patience_s:
                        self._failing_since_s = None
                        raise
                    if not isinstance(error, RequestFailed):
                        self._outages.failed("reading", error, now_s)
                    await self._clock.sleep(min(self.config.retry_backoff_ms / 1000, max(left_s, 0.0)))
                if not self._held and deadline_s <= self._clock.monotonic():
                    return {}
            elif left_s <= 0:
                return {}
            else:
                await wait_for(self._activity, min(left_s, _JOIN_PAUSE_S), self._clock)

    def wakeup(self) -> None:
        """End the poll that waits, or the next one, with WakeupError."""
        self._is_woken = True
        self._activity.set()

    def __aiter__(self) -> AsyncIterator[ShareRecord]:
        return self

    async def __anext__(self) -> ShareRecord:
        while True:
            for records in (await self.poll(_ITERATION_POLL_MS, max_records=1)).values():
                return records[0]

    # --- acknowledgements -------------------------------------------------------------------------------------------

    def acknowledge(self, record: ShareRecord | ConsumerRecord, type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge a record of the last poll. The next poll, commit or close sends the acknowledgement.

        Raises:
            KafkaError: INVALID_REQUEST for a record that was not returned, or has been acknowledged.
        """
        tp = next(
            (tp for tp, offsets in self._out.items() if offsets.get(record.offset) == (record.topic, record.partition)),
            None,
        )
        if tp is None or type is AcknowledgeType.GAP:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"offset {record.offset} of {record.topic}-{record.partition} is not a record of the last poll, or "
                "was already acknowledged",
            )
        self._pending.setdefault(tp, {})[record.offset] = int(type)
        if type is not AcknowledgeType.RENEW:
            self._forget(tp, record.offset)

    async def commit_sync(self) -> Commits:
        """Send acknowledgements and wait for their outcome. Implicit mode accepts the records of the last poll first.

        Returns a mapping of each partition to None, or to the error with which its acknowledgements were refused
        (INVALID_RECORD_STATE: too late).

        Raises:
            KafkaError: REQUEST_TIMED_OUT if the server cannot be reached; they are kept for the next call.
        """
        self._check_open()
        self._settle_last_poll(strict=False)
        return await self._commit(self.config.default_api_timeout_ms)

    def commit_async(self) -> asyncio.Task[Commits]:
        """Start `commit_sync` without waiting, and return its task. `close` waits for it."""
        self._check_open()
        self._settle_last_poll(strict=False)
        task = asyncio.ensure_future(self._commit(self.config.default_api_timeout_ms))
        self._commits.add(task)
        task.add_done_callback(self._commit_done)
        return task

    def _commit_done(self, task: asyncio.Task[Commits]) -> None:
        self._commits.discard(task)
        if not task.cancelled():
            task.exception()  # whoever wants it has the task

    async def _commit(self, timeout_ms: float) -> Commits:
        outcome: Commits = {}

        async def attempt(timeout_s: float) -> None:
            async with self._lock:
                for renews in (True, False):
                    chosen = self._take(renews)
                    if chosen:
                        try:
                            outcome.update(await self._send(chosen, timeout_s, renews=renews))
                        except KafkaError:
                            self._put_back(chosen)
                            raise

        await self._connection.retrying(attempt, "ShareAcknowledge", timeout_ms=timeout_ms)
        return outcome

    def _take(self, renews: bool) -> dict[PartitionId, dict[int, int]]:
        """Remove and return the pending renewals, or all other pending acknowledgements."""
        chosen: dict[PartitionId, dict[int, int]] = {}
        for tp, types in list(self._pending.items()):
            some = {
                o: acknowledge_type
                for o, acknowledge_type in types.items()
                if (acknowledge_type == AcknowledgeType.RENEW) == renews
            }
            if some:
                chosen[tp] = some
            self._pending[tp] = {
                offset: acknowledge_type for offset, acknowledge_type in types.items() if offset not in some
            }
            if not self._pending[tp]:
                del self._pending[tp]
        return chosen

    def _put_back(self, chosen: dict[PartitionId, dict[int, int]]) -> None:
        for tp, types in chosen.items():
            self._pending[tp] = {**types, **self._pending.get(tp, {})}

    async def _send(
        self, chosen: dict[PartitionId, dict[int, int]], timeout_s: float, *, renews: bool, closes: bool = False
    ) -> Commits:
        """Send one ShareAcknowledge. Raises KafkaError if the outcome of all of them is unknown."""
        if self._session_epoch == OPEN_SESSION_EPOCH:
            if closes and not chosen:
                return {}
            await self._open_session(timeout_s)
        assert self.config.group_id is not None
        epoch = CLOSE_SESSION_EPOCH if closes else self._session_epoch
        request = share_acknowledge_request(self.config.group_id, self._member.member_id, epoch, chosen, renews=renews)
        response = await self._session_call(request, ShareAcknowledgeResponse, timeout_s)
        answered = acknowledged(response)
        outcome: Commits = {}
        for tp, types in chosen.items():
            code, message = answered.get(tp, (ErrorCode.UNKNOWN_SERVER_ERROR, "the response does not contain it"))
            outcome[self._name(tp)] = self._told(tp, types, code, message)
        return outcome

    def _told(self, tp: PartitionId, types: dict[int, int], code: ErrorCode, message: str) -> KafkaError | None:
        name = self._name(tp)
        error = None if code is ErrorCode.NONE else KafkaError(code, f"{name}: {message or code.name}")
        offsets = {
            offset
            for offset, acknowledge_type in types.items()
            if acknowledge_type not in (AcknowledgeType.GAP, UNSEEN)
        }
        if error is not None and offsets:
            self._log.warning("acknowledgements of %d record(s) were refused: %s", len(offsets), error)
        if self._callback is not None and offsets:
            self._callback({name: offsets}, error)
        return error

    def _settle_last_poll(self, *, strict: bool = True) -> None:
        """Accept the records of the last poll (implicit mode), or check that they are acknowledged (explicit mode)."""
        renewed = {
            (tp, offset)
            for tp, types in self._pending.items()
            for offset, acknowledge_type in types.items()
            if acknowledge_type == AcknowledgeType.RENEW
        }
        if self.config.is_implicit:
            for tp, offsets in list(self._out.items()):
                for offset in list(offsets):
                    if (tp, offset) not in renewed:
                        self._pending.setdefault(tp, {})[offset] = int(AcknowledgeType.ACCEPT)
                        self._forget(tp, offset)
        elif strict and any((tp, offset) not in renewed for tp, offsets in self._out.items() for offset in offsets):
            tp, offset = next((p, o) for p, offsets in self._out.items() for o in offsets if (p, o) not in renewed)
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"offset {offset} of {self._name(tp)} is not acknowledged: acknowledge every record before "
                "the next poll, or set share_acknowledgement_mode='implicit'",
            )

    def _forget(self, tp: PartitionId, offset: int) -> None:
        self._out[tp].pop(offset, None)
        if not self._out[tp]:
            del self._out[tp]

    # --- the session ------------------------------------------------------------------------------------------------

    async def _session_call(self, request: Any, response_type: Any, timeout_s: float) -> Any:
        """Make one request of the share session. Any failure ends the session."""
        epoch = int(request.share_session_epoch)
        self._session_epoch = OPEN_SESSION_EPOCH  # until it is answered
        response = await self._connection.attempt(request, response_type, timeout_s)
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"share group {self.config.group_id!r}: {response.error_message or code.name}")
        self._throttled_until_s = self._clock.monotonic() + throttle_s(response)
        self._session_epoch = OPEN_SESSION_EPOCH if epoch < 0 else 1 if epoch >= 2**31 - 1 else epoch + 1
        return response

    async def _open_session(self, timeout_s: float) -> None:
        request = self._fetch_request(0.0, 0, {})
        await self._session_call(request, ShareFetchResponse, timeout_s)
        self._session = self._member.partitions

    def _fetch_request(self, wait_s: float, max_records: int, chosen: dict[PartitionId, dict[int, int]]) -> Any:
        opens = self._session_epoch == OPEN_SESSION_EPOCH
        wanted = self._member.partitions
        return share_fetch_request(
            self.config,
            self._member.member_id,
            self._session_epoch,
            added=wanted if opens else wanted - self._session,
            forgotten=frozenset() if opens else self._session - wanted,
            acknowledgements=chosen,
            max_wait_ms=min(wait_s * 1000, self.config.fetch_max_wait_ms),
            max_records=max_records,
        )

    async def _fetch(self, wait_s: float, limit: int) -> None:
        """Make one ShareFetch with the pending acknowledgements, and hold its records. Raises KafkaError."""
        pause_s = self._throttled_until_s - self._clock.monotonic()
        if pause_s > 0:
            await self._clock.sleep(pause_s)
        timeout_s = self.config.request_timeout_ms / 1000
        if self._session_epoch == OPEN_SESSION_EPOCH and self._pending:
            await self._open_session(timeout_s)
        renewals = self._take(renews=True)
        if renewals:
            try:
                await self._send(renewals, timeout_s, renews=True)
            except KafkaError:
                self._put_back(renewals)
                raise
        chosen = self._take(renews=False)
        wanted = self._member.partitions
        request = self._fetch_request(wait_s, limit, chosen)
        asked_s = self._clock.monotonic()
        try:
            response = await self._session_call(request, ShareFetchResponse, timeout_s)
        except KafkaError:
            self._put_back(chosen)
            raise
        self._session = wanted
        lock_s = response.acquisition_lock_timeout.total_seconds()
        failure: KafkaError | None = None
        answered = {part.partition: part for part in delivered(response)}
        await self._learn_names([*answered, *chosen])
        for tp, types in chosen.items():
            part = answered.get(tp)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if part is None else part.acknowledge_error
            self._told(tp, types, code, "" if part is None else part.acknowledge_message)
        for tp, part in answered.items():
            try:
                self._hold(tp, part, asked_s + lock_s)
            except KafkaError as error:
                failure = error
        if failure is not None and not self._held:
            raise failure

    def _hold(self, tp: PartitionId, part: DeliveredPartition, until_s: float) -> None:
        """Decode the acquired records. Raises KafkaError for the partition's error, or for damaged bytes."""
        name = self._name(tp)
        if part.error is not ErrorCode.NONE:
            if part.error in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                return  # deleted: the next heartbeat says so
            raise KafkaError(part.error, f"{name}: {part.message or part.error.name}")
        left = dict(part.acquired)
        damaged: CorruptRecordBatchError | None = None
        for at, header in iter_headers(part.records):
            try:
                rows = iter_rows(part.records, at, header, verify_crc=self.config.check_crcs)
                for offset, timestamp_ms, key, value, headers in rows:
                    if count := left.pop(offset, 0):
                        timestamp_type = header.timestamp_type
                        record = ShareRecord(*name, offset, timestamp_ms, timestamp_type, key, value, headers, count)
                        self._held.append(_Held(tp, record, until_s))
            except FormatError as error:
                damaged = damaged or CorruptRecordBatchError(name, header.base_offset, header.next_offset, error)
                for offset in [offset for offset in left if header.base_offset <= offset < header.next_offset]:
                    del left[offset]  # other members may be able to read it
                    self._pending.setdefault(tp, {})[offset] = int(AcknowledgeType.RELEASE)
        for offset in left:  # compaction left no record there
            self._pending.setdefault(tp, {})[offset] = int(AcknowledgeType.GAP)
        if damaged is not None:
            raise damaged

    async def _learn_names(self, places: Iterable[PartitionId]) -> None:
        metadata = self._connection.metadata
        unknown = [tp for tp in places if tp not in self._names]
        if any(metadata.name_of(tp.topic_id) is None for tp in unknown):
            await metadata.refresh(self._topics)
        for tp in unknown:
            name = metadata.name_of(tp.topic_id)
            if name is not None:
                self._names[tp] = TopicPartition(name, tp.partition)

    def _name(self, tp: PartitionId) -> TopicPartition:
        return self._names.get(tp) or TopicPartition(str(tp.topic_id), tp.partition)

    def _hand_out(self, limit: int) -> dict[TopicPartition, list[ShareRecord]]:
        """Deserialize and return held records, without those whose lock has expired."""
        records: dict[TopicPartition, list[ShareRecord]] = {}
        now_s = self._clock.monotonic()
        while self._held and limit:
            tp, record, until_s = self._held[0]
            if until_s <= now_s:
                self._held.popleft()
                continue
            try:
                shown = self._deserialized(record)
            except RecordDeserializationError:
                if records:
                    break  # first those before it
                self._held.popleft()
                self._pending.setdefault(tp, {})[record.offset] = int(AcknowledgeType.RELEASE)
                raise
            self._held.popleft()
            self._out.setdefault(tp, {})[record.offset] = record.topic_partition
            records.setdefault(record.topic_partition, []).append(shown)
            limit -= 1
        return records

    def _deserialized(self, record: ShareRecord) -> ShareRecord:
        config = self.config
        try:
            key = record.key if config.key_deserializer is None else config.key_deserializer(record.key)
            value = record.value if config.value_deserializer is None else config.value_deserializer(record.value)
        except Exception as error:
            raise RecordDeserializationError(record.topic_partition, record.offset, error) from error
        return record._replace(key=key, value=value)

    # --- the end ----------------------------------------------------------------------------------------------------

    def _run_background(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._member.run())
        elif self._task.done() and not self._task.cancelled():
            self._task.result()  # a bug: tell it rather than hang

    async def _give_up(self, *, commit: bool) -> None:
        """Send acknowledgements, release other records, leave the group. Errors are ignored: the locks expire."""
        await asyncio.gather(*self._commits, return_exceptions=True)
        if commit:
            self._settle_last_poll(strict=False)
        try:
            async with self._lock:
                if self._member.is_in:
                    chosen = self._take(renews=False)
                    for tp, record, _ in self._held:
                        chosen.setdefault(tp, {})[record.offset] = UNSEEN
                    await self._send(chosen, _CLOSE_TIMEOUT_MS / 1000, renews=False, closes=True)
        except KafkaError as error:
            self._log.warning("the session was not closed, its locks end by themselves: %s", error)
        self._held.clear()
        self._out.clear()
        self._pending.clear()
        self._session_epoch, self._session = OPEN_SESSION_EPOCH, frozenset()
        self._topics = ()
        await self._member.leave()

    async def close(self, *, commit: bool = True) -> None:
        """Send acknowledgements, release records without one, and leave the group. May be called twice.

        The delivery of a released record counts (share.delivery.count.limit), unless the application never got it.

        Args:
            commit: False releases, in implicit mode, the records of the last poll instead of accepting them.
        """
        if self._is_closing or self._connection.origin.is_parent:
            return
        self._is_closing = True
        self._activity.set()  # a poll of another task ends
        try:
            await self._give_up(commit=commit and self.config.is_implicit)
        finally:
            self._closed = True
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the block the last records may not have been processed: they are delivered again.
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
    return KafkaError(ErrorCode.INVALID_REQUEST, "the share consumer is closed: create a new one")
