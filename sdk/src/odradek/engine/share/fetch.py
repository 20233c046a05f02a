"""ShareFetch and ShareAcknowledge (KIP-932): acknowledge, then acquire and read.

    1. the session           one conditional update (share/sessions.py): what to read, and a fence
    2. acknowledgements      one write a partition that has any; all of a partition's or none
    3. rounds, until something was acquired or the wait is over:
       windows               one batch read; made where the group has not been yet
       records               a fetch at the first offset of each window that may be delivered
       acquire               one write a partition that gives anything; nothing is answered that is not written
    4. dead letters          a lot that any of the windows has is written (share/dead_letters.py)

A member begins its rounds at a place of its own and stops where it has enough, so that members meet at different
partitions. It holds at most its equal share of a partition's locks (share.partition.max.record.locks over the members
of the group), so that one large batch or one fast member does not leave the others without records.

Each step may be cut off: a session's epoch that is spent makes the client open a new one; a record that was acquired
and never answered comes back by its lock. Closing gives everything back at once; the deliveries count, and what had
its last one becomes a dead letter.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from odradek.engine.catalog.partitions import partition_of
from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.configs import GroupConfigs, ShareConfig
from odradek.engine.groups.items import decode_group, group_key
from odradek.engine.groups.requests import check_group_id
from odradek.engine.read.fetch import Fetcher
from odradek.engine.share.dead_letters import DeadLetters
from odradek.engine.share.groups import check_share_member_id
from odradek.engine.share.items import ShareItem
from odradek.engine.share.merged_changes import Decide
from odradek.engine.share.sessions import ShareSessions
from odradek.engine.share.window import (
    Refusal,
    SharePartition,
    Stretch,
    acknowledge,
    acquire,
    lot_written,
    next_stretch,
    release_all,
    settle,
)
from odradek.engine.share.windows import SharePartitions
from odradek.engine.tools import Tools
from odradek.errors import (
    ErrorCode,
    FormatError,
    ItemTooLarge,
    KafkaError,
    StoreError,
    StoreRejected,
    StoreUnavailable,
)
from odradek.format.batch_header import iter_headers
from odradek.model.log import Buffer, FetchPartition, FetchResult
from odradek.model.share import (
    CLOSE_SESSION_EPOCH,
    OPEN_SESSION_EPOCH,
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    ShareFetchAnswer,
    ShareFetchRequest,
    ShareFetchResult,
)
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

MayRead = Callable[[str], bool]
"""A function of a topic's name: True if the caller may read the topic."""

_PARTITIONS_AT_ONCE = 16
_ROUNDS_OF_GAPS = 8
_GROUPS_REMEMBERED = 10_000


@dataclass
class _Work:
    """One request under way."""

    request: ShareFetchRequest
    config: ShareConfig
    topics: dict[PartitionId, Topic] = field(default_factory=dict)
    results: dict[PartitionId, ShareFetchResult] = field(default_factory=dict)
    lots: dict[PartitionId, ShareItem] = field(default_factory=dict)
    held_max: int = 0  # records of one partition that the member may hold

    def say(self, partition: PartitionId, **changes: object) -> None:
        before = self.results.get(partition, ShareFetchResult(partition))
        self.results[partition] = replace(before, **changes)  # type: ignore[arg-type]

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.results.values())

    def has_room(self, more_bytes: int) -> bool:
        """Return True if the response has room for these records; the first ones always fit."""
        return not self.size_bytes or self.size_bytes + more_bytes <= self.request.max_bytes

    def note(self, partition: PartitionId, item: ShareItem) -> None:
        """Remember a window that has dead letters to write."""
        if item.state.lot:
            self.lots[partition] = item
        else:
            self.lots.pop(partition, None)


class ShareFetcher:
    """Serves share groups from any partition; caches only the recent member counts of groups."""

    def __init__(
        self,
        tools: Tools,
        fetcher: Fetcher,
        windows: SharePartitions,
        sessions: ShareSessions,
        configs: GroupConfigs,
        dead_letters: DeadLetters,
        topics: Topics,
    ) -> None:
        self._fetcher = fetcher
        self._groups = tools.tables.groups
        self._rng = tools.rng
        self._members: dict[str, tuple[float, int]] = {}  # by group: good until, and how many there are
        self._windows = windows
        self._sessions = sessions
        self._configs = configs
        self._dead_letters = dead_letters
        self._topics = topics
        self._clock = tools.clock
        self._settings = tools.settings

    async def serve(self, request: ShareFetchRequest, may_read: MayRead = lambda _: True) -> ShareFetchAnswer:
        """Answer a request; failures are answers.

        Errors of the whole: INVALID_GROUP_ID, INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH
        (open a new session), COORDINATOR_NOT_AVAILABLE (the epoch may be spent). Of a partition: UNKNOWN_TOPIC_ID,
        UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR, COORDINATOR_NOT_AVAILABLE; of its
        acknowledgements also INVALID_RECORD_STATE, INVALID_REQUEST, REQUEST_TIMED_OUT (perhaps taken).
        """
        try:
            _check(request)
            config = await self._configs.of(request.group_id)
            if request.renews and not config.may_renew:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the group does not allow renewing locks")
            partitions = await self._sessions.enter(
                request.group_id,
                request.member_id,
                request.session_epoch,
                request.partitions,
                request.forgotten,
                is_acknowledging=any(request.acknowledgements.values()),
            )
            work = _Work(request, config)
            await self._resolve(work, {*partitions, *request.acknowledgements}, may_read)
            await self._acknowledge(work)
            if request.session_epoch == CLOSE_SESSION_EPOCH:
                await self._give_back(work, {*partitions, *request.acknowledgements})
                await self._sessions.end(request.group_id, request.member_id)
            elif request.fetches and not request.renews and request.max_records > 0:
                work.held_max = await self._share_of_locks(work)
                await self._rounds(work, [each for each in _rotated(partitions, request) if each in work.topics])
            await self._bury(work)
        except (StoreError, FormatError) as error:
            return ShareFetchAnswer(*_failure(error))
        except KafkaError as error:
            return ShareFetchAnswer(error.code, error.message)
        return ShareFetchAnswer(lock_duration_ms=config.policy.lock_ms, results=_named(work))

    async def _resolve(self, work: _Work, partitions: Iterable[PartitionId], may_read: MayRead) -> None:
        """Look the topics up; a partition that cannot be read gets its error."""
        for partition in sorted(partitions):
            try:
                topic = await self._topics.resolve("", partition.topic_id)
                if not may_read(topic.name):
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "you may not read the topic")
                partition_of(topic, partition.partition)
            except KafkaError as error:
                work.say(
                    partition,
                    error=error.code,
                    message=error.message,
                    acknowledge_error=error.code if partition in work.request.acknowledgements else ErrorCode.NONE,
                )
            else:
                work.topics[partition] = topic

    # --- acknowledgements -------------------------------------------------------------------------------------------

    async def _acknowledge(self, work: _Work) -> None:
        request, asked = work.request, work.request.acknowledgements
        known = [partition for partition in sorted(asked) if partition in work.topics]
        for partition, item in zip(known, await self._windows.read(request.group_id, known), strict=True):
            work.say(partition)
            try:
                refusal = await self._acknowledge_one(work, partition, item, asked[partition])
            except KafkaError as error:
                refusal = Refusal(error.code, error.message)
            except (StoreError, FormatError) as error:
                refusal = Refusal(*_failure(error))
            if refusal is not None:
                work.say(partition, acknowledge_error=refusal.code, acknowledge_message=refusal.message)

    async def _acknowledge_one(
        self,
        work: _Work,
        partition: PartitionId,
        item: ShareItem | None,
        batches: Sequence[AcknowledgementBatch],
    ) -> Refusal | None:
        request, policy = work.request, work.config.policy
        if not request.renews and any(AcknowledgeType.RENEW in batch.types for batch in batches):
            return Refusal(ErrorCode.INVALID_REQUEST, "the request renews locks without declaring it")
        if not batches:
            return None
        if item is None:
            return Refusal(ErrorCode.INVALID_RECORD_STATE, "the group has delivered no record of this partition")

        def decide(state: SharePartition) -> tuple[SharePartition, Refusal | None]:
            now_ms = self._clock.now_ms()
            settled = settle(state, now_ms, 0, policy)
            after = acknowledge(settled, request.member_id, now_ms, policy, batches)
            return (state, after) if isinstance(after, Refusal) else (after, None)

        item, refusal = await self._windows.change(request.group_id, partition, item, decide)
        work.note(partition, item)
        return refusal

    async def _give_back(self, work: _Work, partitions: Iterable[PartitionId]) -> None:
        """Release what the member holds in its session's partitions; after a failure the locks expire."""
        request, policy = work.request, work.config.policy

        def decide(state: SharePartition) -> tuple[SharePartition, None]:
            settled = settle(state, self._clock.now_ms(), 0, policy)
            after = release_all(settled, request.member_id, policy)
            return (state if after == settled else after), None

        known = sorted(partition for partition in partitions if partition in work.topics)
        for partition, item in zip(known, await self._windows.read(request.group_id, known), strict=True):
            if item is None:
                continue
            try:
                after, _ = await self._windows.change(request.group_id, partition, item, decide)
            except KafkaError as error:
                work.say(partition, error=error.code, message=error.message)
            else:
                work.note(partition, after)

    # --- records ----------------------------------------------------------------------------------------------------

    async def _share_of_locks(self, work: _Work) -> int:
        """Return the number of records of a partition that the member may hold: an equal share of the group's locks."""
        group_id = work.request.group_id
        now_s = self._clock.monotonic()
        known = self._members.get(group_id)
        if known is None or known[0] <= now_s:
            item = await self._groups.get(group_key(group_id))
            members = 1 if item is None else decode_group(group_id, item).member_count
            if len(self._members) >= _GROUPS_REMEMBERED:
                self._members.clear()
            known = now_s + self._settings.catalog_cache_ms / 1000, max(1, members)
            self._members[group_id] = known
        return -(-work.config.policy.max_record_locks // known[1])

    async def _rounds(self, work: _Work, partitions: Sequence[PartitionId]) -> None:
        """Look until something was acquired, something is wrong, or the wait is over."""
        deadline = self._clock.monotonic() + work.request.max_wait_ms / 1000
        shortest, longest = self._settings.poll_interval_ms / 1000, self._settings.poll_interval_ms_max / 1000
        while partitions:
            left = work.request.max_records
            for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
                left -= await self._round(work, partitions[start : start + _PARTITIONS_AT_ONCE], left)
                if left <= 0:
                    break
            wait = deadline - self._clock.monotonic()
            is_over = left < work.request.max_records or any(each.error for each in work.results.values())
            if is_over or wait <= 0:
                return
            # A pause that grew with the wait would let the member that was served last look first again.
            pause = shortest + (longest - shortest) * self._rng.random()
            await self._clock.sleep(min(wait, pause))

    async def _round(self, work: _Work, partitions: Sequence[PartitionId], max_records: int) -> int:
        """One look at some partitions; how many records were acquired."""
        request, policy = work.request, work.config.policy
        items: dict[PartitionId, ShareItem] = {}
        for partition, item in zip(partitions, await self._windows.read(request.group_id, partitions), strict=True):
            try:
                items[partition] = item or await self._windows.make(
                    request.group_id, request.member_id, partition, work.topics[partition], work.config
                )
            except KafkaError as error:
                work.say(partition, error=error.code, message=error.message)
                continue
            await self._note_time(work, partition, items)
        acquired, log_starts = 0, dict.fromkeys(items, 0)
        for _ in range(_ROUNDS_OF_GAPS):
            wanted: dict[PartitionId, Stretch] = {}
            for partition, item in items.items():
                state = settle(item.state, self._clock.now_ms(), log_starts[partition], policy)
                stretch = next_stretch(state, policy, max(1, max_records - acquired))
                if stretch is not None:
                    wanted[partition] = stretch
            room = request.max_bytes - work.size_bytes
            if not wanted or acquired >= max_records or room <= 0:
                break
            again: set[PartitionId] = set()
            for partition, result in await self._read(work, wanted, room):
                if result.error is ErrorCode.OFFSET_OUT_OF_RANGE and result.log_start_offset > wanted[partition].start:
                    log_starts[partition] = result.log_start_offset  # retention was faster: once more, from there
                    again.add(partition)
                elif result.error is not ErrorCode.NONE:
                    work.say(partition, error=result.error, message=result.message)
                elif acquired < max_records and work.has_room(result.size_bytes):
                    stretch, left = wanted[partition], max_records - acquired
                    count, items[partition] = await self._acquire(
                        work, partition, items[partition], stretch.start, result, left
                    )
                    acquired += count
                    state = settle(items[partition].state, self._clock.now_ms(), log_starts[partition], policy)
                    after = next_stretch(state, policy, left)
                    if not count and after is not None and after.start != stretch.start:
                        again.add(partition)  # other members were faster: there are others behind these
            items = {partition: item for partition, item in items.items() if partition in again}
        return acquired

    async def _note_time(self, work: _Work, partition: PartitionId, items: dict[PartitionId, ShareItem]) -> None:
        """Write the effects of time that others must know: records that are given up."""
        item, policy = items[partition], work.config.policy

        def decide(state: SharePartition) -> tuple[SharePartition, None]:
            settled = settle(state, self._clock.now_ms(), 0, policy)
            is_news = settled.lot != state.lot or settled.start_offset > state.start_offset
            return settled if is_news else state, None

        try:
            items[partition], _ = await self._windows.change(work.request.group_id, partition, item, decide)
        except KafkaError as error:
            del items[partition]
            work.say(partition, error=error.code, message=error.message)
            return
        work.note(partition, items[partition])

    async def _read(
        self, work: _Work, wanted: Mapping[PartitionId, Stretch], room: int
    ) -> list[tuple[PartitionId, FetchResult]]:
        requests = [
            FetchPartition(
                work.topics[partition].name,
                partition.partition,
                stretch.start,
                min(room, work.request.max_bytes),
                topic_id=partition.topic_id,
                end_offset=stretch.end,
            )
            for partition, stretch in wanted.items()
        ]
        results = await self._fetcher.fetch(requests, max_wait_ms=0, min_bytes=0, max_bytes=room)
        return list(zip(wanted, results, strict=True))

    async def _acquire(
        self, work: _Work, partition: PartitionId, item: ShareItem, read_from: int, result: FetchResult, left: int
    ) -> tuple[int, ShareItem]:
        """Acquire available records of the batches that were read; return their number and the window afterwards."""
        request = work.request
        data = b"".join(result.records)
        stored = [
            (Stretch(header.base_offset, header.next_offset), memoryview(data)[at : at + header.size_bytes])
            for at, header in iter_headers(data)
        ]
        stretches = [stretch for stretch, _ in stored if stretch.end > read_from]
        if not stretches and result.log_start_offset <= item.state.start_offset:
            return 0, item
        decide = self._taking(work, result.log_start_offset, read_from, stretches, left)
        try:
            item, acquired = await self._windows.change(request.group_id, partition, item, decide)
        except KafkaError as error:
            work.say(partition, error=error.code, message=error.message)
            return 0, item
        work.note(partition, item)
        if not acquired:
            return 0, item
        records: list[Buffer] = [batch for stretch, batch in stored if _holds(stretch, acquired)]
        work.say(partition, records=records, acquired=acquired)
        return sum(each.last_offset - each.first_offset + 1 for each in acquired), item

    def _taking(
        self, work: _Work, log_start_offset: int, read_from: int, stretches: Sequence[Stretch], left: int
    ) -> Decide[tuple[AcquiredRecords, ...]]:
        request, policy = work.request, work.config.policy

        def decide(state: SharePartition) -> tuple[SharePartition, tuple[AcquiredRecords, ...]]:
            now_ms = self._clock.now_ms()
            settled = settle(state, now_ms, log_start_offset, policy)
            after, acquired = acquire(
                settled,
                request.member_id,
                now_ms,
                policy,
                read_from,
                stretches,
                max_records=left,
                max_held=work.held_max,
                is_strict=request.is_strict,
            )
            # What merely time has done is written with the next thing that is worth a write. What retention and
            # compaction have done is one: else the next fetch looks for the same records.
            is_news = after != settled or after.lot != state.lot or settled.start_offset > state.start_offset
            return (after, acquired) if is_news else (state, ())

        return decide

    # --- dead letters -------------------------------------------------------------------------------------------------

    async def _bury(self, work: _Work) -> None:
        """Write the lots that were seen. What fails stays for the next request: the answer does not hang on it."""
        for partition, item in work.lots.items():
            try:
                await self._dead_letters.write(
                    work.request.group_id, work.topics[partition], partition, item, work.config
                )
                await self._windows.change(work.request.group_id, partition, item, _buried(item.state.lot_number))
            except (KafkaError, FormatError, StoreError):
                continue


def _named(work: _Work) -> tuple[ShareFetchResult, ...]:
    """The results that the answer names. What acknowledges or closes is answered about what it named itself: clients
    look partitions up among those that they asked, and the session may have others, of deleted topics too.
    """
    asked = work.request.acknowledgements
    is_answered_by_session = work.request.fetches and work.request.session_epoch != CLOSE_SESSION_EPOCH
    return tuple(
        each
        for each in work.results.values()
        if each.partition in asked or (is_answered_by_session and (each.acquired or each.error))
    )


def _buried(lot_number: int) -> Decide[None]:
    return lambda state: (lot_written(state, lot_number), None)


def _check(request: ShareFetchRequest) -> None:
    """Raise KafkaError for a request that is invalid in any session."""
    check_group_id(request.group_id)
    check_share_member_id(request.member_id)
    if request.session_epoch < CLOSE_SESSION_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"invalid share session epoch {request.session_epoch}")
    if request.session_epoch == OPEN_SESSION_EPOCH:
        if not request.fetches:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "acknowledgements cannot open a share session")
        if request.acknowledgements:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a new session has no delivered records to acknowledge")


def _rotated(partitions: Iterable[PartitionId], request: ShareFetchRequest) -> list[PartitionId]:
    """The partitions in an order that differs from member to member and moves on with each request."""
    ordered = sorted(partitions)
    if not ordered:
        return []
    start = (zlib.crc32(request.member_id.encode()) + request.session_epoch) % len(ordered)
    return ordered[start:] + ordered[:start]


def _holds(stretch: Stretch, acquired: Sequence[AcquiredRecords]) -> bool:
    return any(each.first_offset < stretch.end and stretch.start <= each.last_offset for each in acquired)


def _failure(error: StoreError | FormatError) -> tuple[ErrorCode, str]:
    if isinstance(error, StoreUnavailable):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, "the store did not answer: try again"
    if isinstance(error, (ItemTooLarge, StoreRejected)):
        return ErrorCode.INVALID_REQUEST, "the store never takes this request: read fewer partitions in one session"
    if isinstance(error, FormatError):
        return ErrorCode.KAFKA_STORAGE_ERROR, f"the stored data cannot be read: {error}"
    return ErrorCode.REQUEST_TIMED_OUT, "the outcome is unknown"
