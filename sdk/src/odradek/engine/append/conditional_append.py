"""One conditional append: entries of one partition go into its log exactly once, whatever is lost, repeated or late.

    blind ──update──> applied                                   the happy path: one write, no read
      │ refused (the refusal carries the head) or outcome unknown (the same update again)
      ▼
    decisions.after_refusal(head) ──> applied │ rejected │ wait │ read a row │ upload again ──> update again

Every step is bounded by `append_attempts_max` and by the request's deadline. When they run out the answer says whether
the batch may be in the log. A batch that misses its predecessor is answered by append/order.py where it came over a
connection; a function waits up to `sequence_wait_ms`, for requests overtake each other on the way to functions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.backoff import Backoff
from odradek.engine.append.decisions import (
    Ahead,
    Applied,
    KnownRows,
    NotLeader,
    ReadProducerRow,
    Reject,
    SearchRows,
    Try,
    UploadAgain,
    Verdict,
    after_refusal,
    decide_sequences,
    not_leader,
)
from odradek.engine.append.order import COME_AGAIN, AheadAnswer, Turn
from odradek.engine.append.room import Room
from odradek.engine.append.row_search import Search, find_entry
from odradek.engine.append.wal import Wal
from odradek.engine.leaders.leaders import Leaders
from odradek.engine.partition.claims import FLEET_CLAIM
from odradek.engine.partition.head import PartitionHead, decode_head
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    FormatError,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreRejected,
    StoreUnavailable,
)
from odradek.format.object_id import new_object_id, object_id_ms
from odradek.format.tail_entry import FLAG_LOG_APPEND_TIME, TailEntry
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.settings import Settings

_AHEAD_POLL_S = 0.01
_AHEAD_POLL_MAX_S = 0.1
_SEARCH_ROWS = 8
_FLOORS_KEPT = 4096
_FLOORS_KEPT_S = 60.0  # then a floor is met again: it may have been lowered (audit/floors.py)
_COMMIT_AHEAD_MS_MAX = 60_000
_SEARCH_ATTEMPTS = 4

NOT_APPENDED = Reject(
    ErrorCode.NOT_ENOUGH_REPLICAS,
    "the store refused the write for now; nothing was appended: send the request again",
)
NO_ROOM = Reject(
    ErrorCode.KAFKA_STORAGE_ERROR,
    "the store has no room left: its disk is full; nothing was appended: make room and send the request again",
)
MAYBE_APPENDED = Reject(
    ErrorCode.REQUEST_TIMED_OUT,
    "the store did not confirm in time that the batch was appended: an idempotent producer may send it again",
)
REJECTED = Reject(
    ErrorCode.INVALID_RECORD,
    "the store rejects this write permanently; nothing was appended, and a retry is useless: see the service's log "
    "for the reason",
)
_GONE = Reject(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist: its topic may have been deleted")


def not_uploaded(error: StoreError) -> Reject:
    """Return the result of a failed upload, to which nothing refers."""
    if isinstance(error, (ItemTooLarge, StoreRejected)):
        return REJECTED
    return NO_ROOM if isinstance(error, StoreFull) else NOT_APPENDED


class CommitTimes:
    """Commit times: this process' clock, but above every spill floor that refused one.

    Where a merge has taken the rows that could tell, a refused append is not known to be new. A clock that is behind
    must meet that once, and not until it has caught up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._floors_ms: OrderedDict[PartitionId, tuple[int, float]] = OrderedDict()

    def next_ms(self, partition: PartitionId) -> int:
        """The commit time of an append that begins now."""
        floor_ms, met_s = self._floors_ms.get(partition, (-1, 0.0))
        is_kept = self._clock.monotonic() - met_s < _FLOORS_KEPT_S
        return max(self._clock.now_ms(), floor_ms + 1 if is_kept else 0)

    def met(self, partition: PartitionId, floor_ms: int) -> None:
        """A floor refused an append."""
        if floor_ms >= self._clock.now_ms():
            self._floors_ms[partition] = floor_ms, self._clock.monotonic()
            self._floors_ms.move_to_end(partition)
            if len(self._floors_ms) > _FLOORS_KEPT:
                self._floors_ms.popitem(last=False)


@dataclass(frozen=True, slots=True)
class AppendTools:
    """The parts that every append uses."""

    index: PartitionIndex
    leaders: Leaders
    wal: Wal
    clock: Clock
    rng: Rng
    settings: Settings
    commit_times: CommitTimes
    room: Room
    backoff: Backoff


@dataclass(frozen=True, slots=True)
class Appended:
    """The location of appended entries: the first offset, a head from after the append, the append time."""

    base_offset: int
    head: PartitionHead
    append_ms: int  # under LogAppendTime


class ConditionalAppend:
    """One append in flight.

    Args:
        data: the bytes of the entries, in case they must be uploaded again.
        entries: entries of one chain, uploaded, without a commit time.
        expected_offset: append only if this is the next offset; None: at any offset.
        turn: the entries' turn among the batches of their producer; it has come.
    """

    def __init__(
        self,
        tools: AppendTools,
        partition: PartitionId,
        data: memoryview,
        entries: Sequence[TailEntry],
        expected_offset: int | None,
        turn: Turn,
    ) -> None:
        self._tools = tools
        self._partition = partition
        self._data = data
        self._expected_offset = expected_offset
        self._turn = turn
        self._known = KnownRows()
        self._accept_unknown = False
        self._deadline_s = 0.0
        self._ahead_until_s: float | None = None
        self._ahead_poll_s = _AHEAD_POLL_S
        self._maybe_applied = False
        self._entries = stamped(entries, tools.commit_times.next_ms(partition), tools.clock.now_ms())
        self._claim = tools.leaders.claim(partition)
        self.head: PartitionHead | None = None
        self.partition_is_gone = False

    async def run(self, deadline_s: float) -> Appended | Reject:
        """Append, or say why not; one attempt is made in any case. Raises nothing of the store's."""
        self._deadline_s = deadline_s
        verdict: Verdict = decide_sequences(self._entries, None, self._known)
        if self._claim is None:
            verdict = NotLeader(not_leader(PartitionHead()))
        attempt = 0
        while attempt == 0 or self._may_go_on(attempt, verdict):
            match verdict:
                case Try():
                    attempt += 1
                    refusal = await self._attempt(verdict, attempt)
                    if isinstance(refusal, Appended):
                        return refusal
                    if refusal is None:
                        continue  # the same update again: where it was applied, its own entry refuses it
                    self.head = refusal
                case Applied(base_offset):
                    assert self.head is not None
                    return Appended(base_offset, self.head, self._entries[0].max_timestamp_ms)
                case Reject():
                    return verdict
                case Ahead():
                    answer = await self._ahead(verdict)
                    if answer is not None:
                        return answer
                case NotLeader():
                    attempt += 1
                    verdict = await self._claim_anew(verdict, attempt)
                    continue
                case ReadProducerRow(producer_id):
                    attempt += 1
                    await self._read_producer_row(producer_id, attempt)
                case SearchRows(floor_ms):
                    attempt += 1
                    found = await self._search_rows(floor_ms)
                    if found is not None:
                        return found
                case UploadAgain():
                    if self._maybe_applied and any(entry.producer_id < 0 for entry in self._entries):
                        return MAYBE_APPENDED  # and spilled, under a floor that was lowered since (audit/floors.py)
                    attempt += 1
                    if not await self._upload_again():
                        return NOT_APPENDED
            if self.partition_is_gone or self.head is None:
                return _GONE
            verdict = self._next(self.head)
        return self._gave_up(verdict)

    def _may_go_on(self, attempt: int, verdict: Verdict) -> bool:
        if isinstance(verdict, Ahead):
            return True  # it has bounds of its own
        return attempt < self._tools.settings.append_attempts_max and not self._is_late()

    def _is_late(self) -> bool:
        return self._tools.clock.monotonic() >= self._deadline_s

    def _next(self, head: PartitionHead) -> Verdict:
        if self._claim is None:
            return NotLeader(not_leader(head))
        return after_refusal(
            self._entries,
            self._expected_offset,
            head,
            self._known,
            self._claim,
            accept_unknown=self._accept_unknown,
        )

    async def _ahead(self, ahead: Ahead) -> Reject | None:
        """Return the answer to a batch without its predecessor; None: decide again."""
        if self._turn.connection is None:
            return await self._wait_for_predecessor(ahead)
        match self._turn.ahead(is_known=ahead.is_known):
            case AheadAnswer.COME_AGAIN:
                return COME_AGAIN
            case AheadAnswer.GAP:
                return ahead.rejection
            case AheadAnswer.TAKE:
                self._accept_unknown = True
                return None

    async def _wait_for_predecessor(self, ahead: Ahead) -> Reject | None:
        """Requests overtake each other on their way to functions: wait for the predecessor, here or in the log."""
        clock = self._tools.clock
        if not await self._turn.predecessor():
            if self._ahead_until_s is None:
                self._ahead_until_s = clock.monotonic() + self._tools.settings.sequence_wait_ms / 1000
            if clock.monotonic() >= self._ahead_until_s or self._is_late():
                return ahead.rejection
            await clock.sleep(self._ahead_poll_s)
            self._ahead_poll_s = min(2 * self._ahead_poll_s, _AHEAD_POLL_MAX_S)
        await self._reread_head()
        return None

    async def _claim_anew(self, verdict: NotLeader, attempt: int) -> Verdict:
        """Take over the partition if that is allowed, and decide again with the new claim.

        Late attempts of a gateway used an epoch that has ended. The fleet's may still be applied once it leads again:
        after an attempt with an unknown outcome, another present leader proves nothing.
        """
        try:
            self.head, self._claim = await self._tools.leaders.acquire(self._partition, self.head)
        except KafkaError as error:
            return Reject(error.code, error.message)
        except StoreError:
            await self._tools.backoff.pause(attempt - 1)
            return verdict
        if self.head is None:
            self.partition_is_gone = True
            return _GONE
        if self._claim is not None:
            return self._next(self.head)
        if self._maybe_applied and self._tools.leaders.claim(self._partition) is FLEET_CLAIM:
            return MAYBE_APPENDED
        return not_leader(self.head)

    def stopped_by(self, damaged: FormatError | StoreRejected) -> Reject:
        """Return the answer for an unreadable head or row (damaged, of a newer release), or a rejected write."""
        if self._maybe_applied:
            return MAYBE_APPENDED
        if isinstance(damaged, StoreRejected):
            return REJECTED
        return Reject(ErrorCode.KAFKA_STORAGE_ERROR, f"the partition cannot be appended to: {damaged}")

    def _gave_up(self, verdict: Verdict) -> Appended | Reject:
        """Return the answer when time or attempts are exhausted, from the last refusal or the unknown outcome."""
        match verdict:
            case Applied(base_offset) if self.head is not None:
                return Appended(base_offset, self.head, self._entries[0].max_timestamp_ms)
            case Reject():
                return verdict
            case NotLeader(rejection) if not self._maybe_applied:
                return rejection
            case SearchRows():
                return MAYBE_APPENDED  # the entry may be among the spilled ones
            case _:
                return MAYBE_APPENDED if self._maybe_applied else NOT_APPENDED

    async def _attempt(self, verdict: Try, attempt: int) -> Appended | PartitionHead | None:
        """Make one update; return the result, the head that refused it, or None to send it again."""
        index = self._tools.index
        assert self._claim is not None
        try:
            head = await index.append(
                self._partition, self._entries, verdict.clauses, self._expected_offset, self._claim
            )
        except ConditionFailed as refused:
            if refused.current is None:
                self.partition_is_gone = True
                return PartitionHead()
            return decode_head(refused.current)
        except OutcomeUnknown:
            self._maybe_applied = True
        except ItemTooLarge:
            await self._tools.room.make(self._partition)
        except StoreUnavailable:
            await self._tools.room.make_where_it_lacks(self._partition)
        else:
            await self._spill_if_due(head)
            count = sum(entry.offset_count for entry in self._entries)
            return Appended(head.next_offset - count, head, self._entries[0].max_timestamp_ms)
        await self._tools.backoff.pause(attempt - 1)
        return None

    async def _spill_if_due(self, head: PartitionHead) -> None:
        """Spill if necessary. The append is in the log already; if the spill fails, a later append spills."""
        index, room = self._tools.index, self._tools.room
        room.saw(self._partition, head)
        try:
            if index.wants_spill(head, len(self._entries)):
                await index.spill(self._partition, head)
                return
        except (StoreError, FormatError):
            pass
        if index.is_overfull(head):
            await room.make_where_it_lacks(self._partition)

    async def _reread_head(self) -> None:
        try:
            head = await self._tools.index.read_head(self._partition)
        except StoreUnavailable:
            return
        self.partition_is_gone = head is None
        self.head = head

    async def _read_producer_row(self, producer_id: int, attempt: int) -> None:
        assert self.head is not None
        try:
            row = await self._tools.index.read_producer_row(self._partition, producer_id)
        except StoreUnavailable:
            await self._tools.backoff.pause(attempt - 1)
            return
        rows = self._known.rows if self._known.evictions == self.head.evictions else {}
        self._known = KnownRows(self.head.evictions, {**rows, producer_id: row})

    async def _search_rows(self, floor_ms: int) -> Appended | Reject | None:
        """Look for the entry among the spilled ones; None: it is nowhere, and under its commit time never will be."""
        assert self.head is not None
        try:
            found = await self._find_in_rows(self._entries[0], floor_ms)
        except StoreUnavailable:
            return MAYBE_APPENDED
        self._tools.commit_times.met(self._partition, floor_ms)
        if isinstance(found, int):
            return Appended(found, self.head, self._entries[0].max_timestamp_ms)
        if found is Search.UNKNOWABLE:
            # Sequences tell a batch that is there from a new one, whatever its commit time.
            if any(entry.producer_id < 0 for entry in self._entries):
                return MAYBE_APPENDED
        else:
            self._maybe_applied = False
        commit_ms = self._tools.commit_times.next_ms(self._partition)
        self._entries = stamped(self._entries, commit_ms, self._tools.clock.now_ms())
        return None

    async def _find_in_rows(self, entry: TailEntry, floor_ms: int) -> int | Search:
        """The entry's offset in the newest index rows, ABSENT or UNKNOWABLE. Raises StoreUnavailable."""
        assert self.head is not None
        limit = _SEARCH_ROWS
        head: PartitionHead | None = self.head
        for attempt in range(_SEARCH_ATTEMPTS):
            found: int | Search = Search.MORE
            while found is Search.MORE and head is not None:
                rows = await self._tools.index.newest_rows(self._partition, limit)
                found = find_entry(entry, head, rows, is_all=len(rows) < limit)
                limit *= 4
            if isinstance(found, int) or found is Search.UNKNOWABLE or head is None:
                return found
            head = await self._tools.index.read_head(self._partition)
            if found is Search.ABSENT:
                # A floor that was lowered meanwhile (audit/floors.py) would have made newer rows say so wrongly.
                is_lowered = head is None or head.spill_floor_ms < floor_ms
                return Search.UNKNOWABLE if is_lowered else Search.ABSENT
            limit = _SEARCH_ROWS
            await self._tools.backoff.pause(attempt)
        return Search.UNKNOWABLE

    async def _upload_again(self) -> bool:
        """The entries' own bytes under a new id, for a writer that stalled past the sweep floor."""
        tools = self._tools
        # Not before the floor, so that a clock that is behind does not get the new id refused as well.
        floor_ms = object_id_ms(self.head.sweep_floor) if self.head is not None else 0
        object_id = new_object_id(max(tools.clock.now_ms(), floor_ms), tools.rng.random_bytes)
        try:
            flags = await tools.wal.upload(object_id, [self._data])
        except StoreError:
            return False
        start = self._entries[0].position
        self._entries = [
            replace(
                entry,
                object_id=object_id,
                position=entry.position - start,
                flags=(entry.flags & FLAG_LOG_APPEND_TIME) | flags,
            )
            for entry in self._entries
        ]
        return True


def stamped(entries: Sequence[TailEntry], commit_ms: int, now_ms: int) -> list[TailEntry]:
    """Return the entries with a commit time, which is also the append time for LogAppendTime.

    A floor that a wrong clock has raised keeps commit times ahead until real time has caught up. Append times, which
    users see and retention uses, do not follow it: if the floor is implausibly far ahead they are the writer's time.

    Args:
        now_ms: by the writer's clock.
    """
    append_ms = commit_ms if commit_ms - now_ms <= _COMMIT_AHEAD_MS_MAX else now_ms
    return [
        replace(
            entry,
            commit_ms=commit_ms,
            max_timestamp_ms=append_ms if entry.flags & FLAG_LOG_APPEND_TIME else entry.max_timestamp_ms,
        )
        for entry in entries
    ]
