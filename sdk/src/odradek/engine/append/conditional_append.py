"""One conditional append: entries go into the logs of partitions of one head exactly once, whatever is lost or late.

    blind ──update──> applied                                   the happy path: one write, no read
      │ refused (the refusal carries the head) or outcome unknown (the same update again)
      ▼
    decisions.after_refusal(head) ──> applied │ rejected │ wait │ read a row │ upload again ──> update again

Writes are bounded by `append_attempts_max`, the looks between them by twice that, and all by the request's deadline.
When they run out the answer says whether the batch may be in the log. A batch without its predecessor is answered by
append/order.py where it came over a connection; a function waits up to `sequence_wait_ms`, for requests overtake each
other on the way to functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from odradek.backoff import Backoff
from odradek.engine.append.commit_times import CommitTimes, stamped
from odradek.engine.append.decisions import (
    Ahead,
    Apart,
    Applied,
    NotLeader,
    ReadProducerRows,
    ReadRecent,
    Reject,
    SearchRows,
    Try,
    UploadAgain,
    Verdict,
    after_refusal,
    as_a_whole,
    decide_sequences,
    not_leader,
)
from odradek.engine.append.fitting import fitting
from odradek.engine.append.heads_seen import HeadsSeen
from odradek.engine.append.member import Appended, Member, Outcome
from odradek.engine.append.order import COME_AGAIN, AheadAnswer
from odradek.engine.append.refusals import APART, GONE, MAYBE_APPENDED, NOT_APPENDED, REJECTED
from odradek.engine.append.room import Room
from odradek.engine.append.row_search import Search, find_below_tail, together
from odradek.engine.append.wal import Wal
from odradek.engine.leaders.leaders import Leaders
from odradek.engine.marks import Marks
from odradek.engine.partition.claims import FLEET_CLAIM
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.head_append import PartitionAppend
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import HeadImage, decode_image, ends_of, view_of
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    FormatError,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreRejected,
    StoreUnavailable,
)
from odradek.format.object_id import new_object_id, object_id_ms
from odradek.format.tail_entry import FLAG_LOG_APPEND_TIME
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.settings import Settings

_LOOKS_A_WRITE = 2
_AHEAD_POLL_MAX_S = 0.1


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
    marks: Marks
    room: Room
    heads_seen: HeadsSeen
    backoff: Backoff


OnSettled = Callable[[Member, Outcome], None]
Verdicts = dict[Member, Verdict]


class ConditionalAppend:
    """One append in flight, to partitions of one head: either all of them plain or none.

    Plain entries stay together in every attempt, since the tail's element is what tells a repetition: whatever refuses
    one of them refuses all. Entries of idempotent producers may part, since each partition's sequences tell.

    Args:
        members: one a partition; several where they share the head, none of them with an expected offset.
        on_settled: is told the outcome of each member, once.
        is_new: False: they have parted from another append, whose commit time they keep.
    """

    def __init__(
        self, tools: AppendTools, members: Sequence[Member], on_settled: OnSettled, *, is_new: bool = True
    ) -> None:
        self._tools = tools
        self._on_settled = on_settled
        self._head_id = members[0].partition.head_id
        self._members = list(members)
        self._parted: list[ConditionalAppend] = []  # to wait, once the others are through
        self._beside: list[asyncio.Task[None]] = []  # what one update cannot take
        self._deadline_s = 0.0
        self._maybe_applied = False
        if is_new:
            self._restamp()
        self._claim = tools.leaders.claim(self._head_id)
        self._image: HeadImage | None = None
        self._is_gone = False

    async def run(self, deadline_s: float) -> None:
        """Append, or say why not, for each partition; one attempt is made in any case. Raises nothing of the store's.

        The outcomes are told as they come.
        """
        self._deadline_s = deadline_s
        try:
            await self._run_from(await self._first() if self._image is None else self._next(self._image))
            await asyncio.gather(*self._beside, *(parted.run(deadline_s) for parted in self._parted))
        finally:
            for task in self._beside:
                task.cancel()

    async def _run_from(self, verdicts: Verdicts) -> None:
        try:
            await self._run(verdicts)
        except (FormatError, StoreRejected) as damaged:
            self._settle_all(self._stopped_by(damaged))

    async def _run(self, verdicts: Verdicts) -> None:
        attempt = looks = 0
        while True:
            await self._wake(verdicts)
            verdicts = self._settle_decided(verdicts)
            if not verdicts:
                return
            if attempt + looks > 0 and not self._may_go_on(attempt, looks, verdicts):
                break
            verdict = _gravest(verdicts)
            match verdict:
                case NotLeader():
                    attempt += 1
                    verdicts = await self._claim_anew(verdict, attempt)
                    continue
                case SearchRows(floor_ms):
                    looks += 1
                    await self._search_rows(floor_ms)
                case UploadAgain():
                    if self._maybe_applied and self._members[0].is_plain:
                        # And spilled, under a floor that was lowered since (audit/floors.py).
                        self._settle_all(MAYBE_APPENDED)
                        return
                    attempt += 1
                    if not await self._upload_again():
                        self._settle_all(NOT_APPENDED)
                        return
                case Try():
                    attempt += 1
                    if not await self._attempt(verdicts, attempt):
                        continue  # the same update again: where it was applied, its own entry refuses it
                case ReadProducerRows() | ReadRecent():
                    looks += 1
                    await self._read_producers(verdicts, looks)
                case Ahead() if len(self._members) > 1:
                    verdicts = self._part(verdicts)
                    continue
                case Ahead():
                    answer = await self._ahead(self._members[0], verdict)
                    if answer is not None:  # an attempt of unknown outcome may arrive with the predecessor
                        self._settle_all(MAYBE_APPENDED if self._maybe_applied else answer)
                        return
                case _:
                    raise AssertionError(verdict)
            if not self._members:
                return
            if self._is_gone or self._image is None:
                self._settle_all(GONE)
                return
            verdicts = self._next(self._image)
        for member in list(self._members):
            self._settle(member, self._gave_up(member, verdicts[member]))

    # --- verdicts -------------------------------------------------------------------------------------------------

    async def _first(self) -> Verdicts:
        """What to try first: blind, or after a look at a head that would probably refuse it."""
        if self._claim is None:
            return self._all(NotLeader(not_leader(PartitionHead())))
        entries = [entry for member in self._members for entry in member.first_entries()]
        seen = self._tools.heads_seen
        if seen.reads_first(self._head_id, entries):
            await self._reread_head()
            if self._image is not None:
                # Nothing has been sent under the commit time yet: what the floor has passed need not be searched.
                self._tools.commit_times.met(self._head_id, self._image.spill_floor_ms)
                self._restamp()
                return self._next(self._image)
            self._is_gone = False
        there = seen.present(self._head_id, entries)
        return {member: self._blind(member, there) for member in self._members}

    def _blind(self, member: Member, there: Collection[int]) -> Verdict:
        verdict = decide_sequences(member.entries, None, member.known, places=member.places, there=there)
        return as_a_whole(verdict, member.entries, None) if member.is_run else verdict

    def _next(self, image: HeadImage) -> Verdicts:
        return {member: self._next_of(member, view_of(image, member.partition)) for member in self._members}

    def _next_of(self, member: Member, head: PartitionHead) -> Verdict:
        if self._claim is None:
            return NotLeader(not_leader(head))
        verdict = after_refusal(
            member.entries,
            member.expected_offset,
            head,
            member.known,
            self._claim,
            accept_unknown=member.accept_unknown,
            places=member.places,
            chosen_by=member.chosen_by,
        )
        return as_a_whole(verdict, member.entries, head) if member.is_run else verdict

    async def _wake(self, verdicts: Verdicts) -> None:
        """Wake who waits for entries that an earlier attempt appended, before their producer learns of them."""
        if self._image is not None and any(isinstance(verdict, Applied) for verdict in verdicts.values()):
            await self._tools.marks.wake(self._head_id, self._image)

    def _settle_decided(self, verdicts: Verdicts) -> Verdicts:
        """Settle the partitions that have a result; return the verdicts of the others."""
        for member in list(self._members):
            match verdicts[member]:
                case Applied(base_offset):
                    self._settle(member, self._appended(member, base_offset))
                case Reject() as rejection:
                    self._settle(member, rejection)
                case Apart():  # an attempt of unknown outcome may still arrive: nothing may be decided of each
                    self._settle(member, MAYBE_APPENDED if self._maybe_applied else APART)
        return {member: verdicts[member] for member in self._members}

    def _part(self, verdicts: Verdicts) -> Verdicts:
        """Let those that have to wait continue each by itself; return the verdicts of the others."""
        for member in [member for member in self._members if isinstance(verdicts[member], Ahead)]:
            self._parted.append(self._parted_with([member]))
        return {member: verdicts[member] for member in self._members}

    def _parted_with(self, members: Sequence[Member]) -> ConditionalAppend:
        """An append that goes on with these."""
        self._members = [each for each in self._members if each not in members]
        parted = ConditionalAppend(self._tools, members, self._on_settled, is_new=False)
        parted._claim, parted._image = self._claim, self._image
        parted._maybe_applied = self._maybe_applied
        return parted

    def _settle(self, member: Member, result: Appended | Reject) -> None:
        self._members.remove(member)
        head = None
        if isinstance(result, Reject) and self._image is not None:
            head = view_of(self._image, member.partition)
        self._on_settled(member, Outcome(result, head, self._is_gone))

    def _settle_all(self, result: Reject) -> None:
        for member in list(self._members):
            self._settle(member, result)

    def _appended(self, member: Member, base_offset: int) -> Appended:
        assert self._image is not None
        log_start_offset, _ = ends_of(self._image, member.partition)
        return Appended(base_offset, log_start_offset, member.entries[0].max_timestamp_ms)

    def _may_go_on(self, attempt: int, looks: int, verdicts: Verdicts) -> bool:
        if all(isinstance(verdict, Ahead) for verdict in verdicts.values()):
            return True  # it has bounds of its own
        attempts_max = self._tools.settings.append_attempts_max
        # A crowded head refuses most writes, and each refusal may take a search and a look at producers.
        return attempt < attempts_max and looks < _LOOKS_A_WRITE * attempts_max and not self._is_late()

    def _is_late(self) -> bool:
        return self._tools.clock.monotonic() >= self._deadline_s

    def _stopped_by(self, damaged: FormatError | StoreRejected) -> Reject:
        """Return the answer for an unreadable head or row (damaged, of a newer release), or a rejected write."""
        if self._maybe_applied:
            return MAYBE_APPENDED
        if isinstance(damaged, StoreRejected):
            return REJECTED
        return Reject(ErrorCode.KAFKA_STORAGE_ERROR, f"the partition cannot be appended to: {damaged}")

    def _gave_up(self, member: Member, verdict: Verdict) -> Appended | Reject:
        """Return the answer when time or attempts are exhausted, from the last refusal or the unknown outcome."""
        match verdict:
            case NotLeader(rejection) if not self._maybe_applied:
                return rejection
            case SearchRows():
                return MAYBE_APPENDED  # the entry may be among the spilled ones
            case _:
                return MAYBE_APPENDED if self._maybe_applied else NOT_APPENDED

    # --- steps ----------------------------------------------------------------------------------------------------

    async def _attempt(self, verdicts: Verdicts, attempt: int) -> bool:
        """Make one update, and settle what it appended; False: send it again."""
        index, claim = self._tools.index, self._claim
        assert claim is not None
        parts = [
            PartitionAppend(member.partition, member.entries, verdict.clauses, member.expected_offset, member.chosen_by)
            for member in self._members
            if isinstance(verdict := verdicts[member], Try)
        ]
        count = fitting(parts, lambda some: index.append_update(self._head_id, some, claim))
        parts = parts[:count]
        if left := self._members[count:]:  # at once: one of these may be the predecessor that another waits for
            beside = self._parted_with(left).run(self._deadline_s)
            self._beside.append(asyncio.get_running_loop().create_task(beside))
        try:
            image = await index.append_all(self._head_id, parts, claim)
        except ConditionFailed as refused:
            self._is_gone = refused.current is None
            self._image = PartitionHead() if refused.current is None else decode_image(self._head_id, refused.current)
            self._tools.heads_seen.saw(self._head_id, self._image)
            return True
        except OutcomeUnknown:
            self._maybe_applied = True
        except ItemTooLarge:
            await self._tools.room.make(self._head_id)
        except StoreUnavailable:
            await self._tools.room.make_where_it_lacks(self._head_id)
        else:
            self._image = image
            self._tools.heads_seen.saw(self._head_id, image)
            await self._tools.marks.wake(self._head_id, image)
            await self._spill_if_due(image)
            for member in list(self._members):
                _, end_offset = ends_of(image, member.partition)
                self._settle(member, self._appended(member, end_offset - member.offset_count))
            return True
        await self._tools.backoff.pause(attempt - 1)
        return False

    async def _spill_if_due(self, image: HeadImage) -> None:
        """Spill if necessary. The append is in the log already; if the spill fails, a later append spills."""
        index, room = self._tools.index, self._tools.room
        room.saw(self._head_id, image)
        try:
            if index.wants_spill(image, len(self._members[0].entries)):
                await index.spill(self._head_id, image)
                return
        except (StoreError, FormatError):
            pass
        if index.is_overfull(image):
            await room.make_where_it_lacks(self._head_id)

    async def _claim_anew(self, verdict: NotLeader, attempt: int) -> Verdicts:
        """Take over the head if that is allowed, and decide again with the new claim.

        Late attempts of a gateway used an epoch that has ended. The fleet's may still be applied once it leads again:
        after an attempt with an unknown outcome, another present leader proves nothing.
        """
        try:
            self._image, self._claim = await self._tools.leaders.acquire(self._head_id, self._image)
        except KafkaError as error:
            return self._all(Reject(error.code, error.message))
        except StoreError:
            await self._tools.backoff.pause(attempt - 1)
            return self._all(verdict)
        if self._image is None:
            self._is_gone = True
            return self._all(GONE)
        if self._claim is not None:
            return self._next(self._image)
        if self._maybe_applied and self._tools.leaders.claim(self._head_id) is FLEET_CLAIM:
            return self._all(MAYBE_APPENDED)
        return self._all(not_leader(view_of(self._image, self._head_id)))

    def _all(self, verdict: Verdict) -> Verdicts:
        return dict.fromkeys(self._members, verdict)

    async def _upload_again(self) -> bool:
        """The entries' own bytes under a new id, for a writer that stalled past the sweep floor."""
        tools = self._tools
        # Not before the floor, so that a clock that is behind does not get the new id refused as well.
        floor_ms = object_id_ms(self._image.sweep_floor) if self._image is not None else 0
        object_id = new_object_id(max(tools.clock.now_ms(), floor_ms), tools.rng.random_bytes)
        try:
            flags = await tools.wal.upload(object_id, [member.data for member in self._members])
        except StoreError:
            return False
        at = 0
        for member in self._members:
            start = member.entries[0].position - at
            member.entries = [
                entry._replace(
                    object_id=object_id,
                    position=entry.position - start,
                    flags=(entry.flags & FLAG_LOG_APPEND_TIME) | flags,
                )
                for entry in member.entries
            ]
            at += len(member.data)
        return True

    def _restamp(self) -> None:
        commit_ms = self._tools.commit_times.next_ms(self._head_id)
        now_ms = self._tools.clock.now_ms()
        for member in self._members:
            member.entries = stamped(member.entries, commit_ms, now_ms)

    async def _search_rows(self, floor_ms: int) -> None:
        """Look for the entries among those that left the tail.

        What is nowhere never will be under its commit time: it gets a new one.
        """
        tools = self._tools
        tools.commit_times.met(self._head_id, floor_ms)
        found: dict[PartitionId, int | Search] = {}
        try:
            for member in self._members:
                found[member.partition] = await find_below_tail(
                    tools.index, tools.backoff, member.partition, self._image, member.entries[0], floor_ms
                )
        except StoreUnavailable:
            self._settle_all(MAYBE_APPENDED)
            return
        if self._members[0].is_plain:
            found = together(found)
        self._maybe_applied &= any(where is Search.UNKNOWABLE for where in found.values())
        if self._image is not None and any(isinstance(where, int) for where in found.values()):
            await self._tools.marks.wake(self._head_id, self._image)
        for member in list(self._members):
            where = found[member.partition]
            if isinstance(where, int):
                self._settle(member, self._appended(member, where))
            elif where is Search.UNKNOWABLE and member.is_plain:
                self._settle(member, MAYBE_APPENDED)  # of others the sequences tell, whatever the commit time
        self._restamp()

    # --- steps of one partition -----------------------------------------------------------------------------------

    async def _ahead(self, member: Member, ahead: Ahead) -> Reject | None:
        """Return the answer to a batch without its predecessor; None: decide again."""
        if member.turn.connection is None:
            return await self._wait_for_predecessor(member, ahead)
        match member.turn.ahead(is_known=ahead.is_known):
            case AheadAnswer.COME_AGAIN:
                return COME_AGAIN
            case AheadAnswer.GAP:
                return ahead.rejection
            case AheadAnswer.TAKE:
                member.accept_unknown = True
                return None

    async def _wait_for_predecessor(self, member: Member, ahead: Ahead) -> Reject | None:
        """Requests overtake each other on their way to functions: wait for the predecessor, here or in the log."""
        clock = self._tools.clock
        if not await member.turn.predecessor():
            if member.ahead_until_s is None:
                member.ahead_until_s = clock.monotonic() + self._tools.settings.sequence_wait_ms / 1000
            if clock.monotonic() >= member.ahead_until_s or self._is_late():
                return ahead.rejection
            await clock.sleep(member.ahead_poll_s)
            member.ahead_poll_s = min(2 * member.ahead_poll_s, _AHEAD_POLL_MAX_S)
        await self._reread_head()
        return None

    async def _reread_head(self) -> None:
        try:
            image = await self._tools.index.read_image(self._head_id)
        except StoreUnavailable:
            return
        self._is_gone = image is None
        self._image = image
        self._tools.heads_seen.saw(self._head_id, image)

    async def _read_producers(self, verdicts: Verdicts, attempt: int) -> None:
        """Read what decisions lack of producers, for all partitions at once, and a producer's row once for all."""
        unread = (each.producer_ids for each in verdicts.values() if isinstance(each, ReadProducerRows))
        wanted = {producer_id for producer_ids in unread for producer_id in producer_ids}
        try:
            rows = await asyncio.gather(*(self._tools.index.producer_rows.read(self._head_id, each) for each in wanted))
            read = dict(zip(wanted, rows, strict=True))
            await asyncio.gather(*(self._read_recent(member, verdicts[member]) for member in self._members))
        except StoreUnavailable:
            await self._tools.backoff.pause(attempt - 1)
            return
        for member in self._members:
            match verdicts[member]:
                case ReadProducerRows(producer_ids):
                    assert self._image is not None
                    head = view_of(self._image, member.partition)
                    for producer_id in producer_ids:
                        member.known = member.known.with_row(head, producer_id, read[producer_id])

    async def _read_recent(self, member: Member, verdict: Verdict) -> None:
        """Raises StoreUnavailable, FormatError."""
        if isinstance(verdict, ReadRecent):
            assert self._image is not None
            recent = await self._tools.index.read_recent(member.partition, self._image, verdict.producer_id)
            member.known = member.known.with_recent(verdict.producer_id, recent)


_GRAVITY = (NotLeader, SearchRows, UploadAgain, ReadProducerRows, ReadRecent)


def _gravest(verdicts: Verdicts) -> Verdict:
    """What comes first: what concerns the head, then what one partition needs before it may try."""
    for kind in _GRAVITY:
        for verdict in verdicts.values():
            if isinstance(verdict, kind):
                return verdict
    return next((verdict for verdict in verdicts.values() if not isinstance(verdict, Try)), Try())
