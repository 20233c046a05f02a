"""The delivery of a share-partition's records: KIP-932's in-flight records as pure functions over runs.

    start_offset              end_offset
         |  done until here        |  never delivered from here on
         v                         v
    .....[acquired m1 1][done][available 1][acquired m2 3][dying]..........

    AVAILABLE ──acquire──> ACQUIRED ──accept, gap──────────────────────────────> DONE
        ^                     │ release, lock over: while deliveries are left
        ├─────────────────────┤ close: likewise
        └─────────────────────┤ unseen: whatever is left, and the delivery does not count
                              └ reject, or no delivery left ──> DYING ──> LOT ──> DONE
                                                                (without dead letters at once DONE)

Invariants of every state that these functions return:

* runs cover [start_offset, end_offset) without gap or overlap, and equal neighbours are merged;
* the first run is not DONE, the last one is not AVAILABLE without a delivery: so `start_offset` is as far as it can
  be, and a state without records in flight has no runs;
* end_offset - start_offset <= max_record_locks, unless the limit was lowered;
* a DONE record stays DONE, and an acquired run changes only by its holder's acknowledgement or when its lock expires:
  so no record has two holders.

*Dead letters* are written by any process that finds them (share/dead_letters.py). A LOT is the set of dying records
that is written under one number. A window has at most one lot at a time, so all processes that write the lot of a
number write the same records.

Times are by the clock of the deciding function. A clock that is ahead ends a lock early, so two members may process the
record; only one acknowledgement is accepted, since the second holder's run has replaced the first's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from odradek.errors import ErrorCode
from odradek.limits import CLOCK_AHEAD_MS_MAX, SHARE_HOLDERS_MAX
from odradek.model.share import UNSEEN, AcknowledgementBatch, AcknowledgeType, AcquiredRecords, SharePolicy

LOT_RECORDS_MAX = 100


class RecordState(IntEnum):
    """The states of a record in the window. The numbers are stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    DONE = 2  # accepted, or archived without more to do
    DYING = 3  # waits to become part of a lot of dead letters
    LOT = 4  # in the lot that is being written


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring offsets in one state."""

    start: int
    end: int  # exclusive
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""  # the holder
    lock_until_ms: int = 0
    is_rejected: bool = False  # why it is dying: said so, or no deliveries left

    def is_like(self, other: Run) -> bool:
        """Return True if both form one run where they meet."""
        return replace(self, start=0, end=0) == replace(other, start=0, end=0)


@dataclass(frozen=True, slots=True)
class SharePartition:
    """The window of a group in one partition."""

    start_offset: int
    runs: tuple[Run, ...] = ()
    lot_number: int = 0  # of the present lot, or of the next one

    @property
    def end_offset(self) -> int:
        return self.runs[-1].end if self.runs else self.start_offset

    @property
    def lot(self) -> tuple[Run, ...]:
        """The dead letters to write now."""
        return tuple(run for run in self.runs if run.state is RecordState.LOT)

    @property
    def done_count(self) -> int:
        """Records inside the window that are done."""
        return sum(run.end - run.start for run in self.runs if run.state is RecordState.DONE)


class Stretch(NamedTuple):
    """The offsets of a stored batch."""

    start: int
    end: int  # exclusive


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error for which all acknowledgements of a partition were refused."""

    code: ErrorCode
    message: str


def settle(state: SharePartition, now_ms: int, log_start_offset: int, policy: SharePolicy) -> SharePartition:
    """Apply time and retention: expired locks, removed records, dead letters that are no longer wanted."""
    runs = [replace(run, start=max(run.start, log_start_offset)) for run in state.runs if run.end > log_start_offset]
    start = max(state.start_offset, log_start_offset)
    lot_number = state.lot_number
    if not policy.has_dead_letters and any(run.state is RecordState.LOT for run in runs):
        lot_number += 1  # it may have been written: its number is spent
    elif state.lot and not any(run.state is RecordState.LOT for run in runs):
        lot_number += 1  # retention took all of it
    settled = []
    for run in runs:
        if run.state is RecordState.ACQUIRED and _is_over(run.lock_until_ms, now_ms, policy):
            settled.append(_given_back(run, policy))
        elif run.state in (RecordState.DYING, RecordState.LOT) and not policy.has_dead_letters:
            settled.append(_done(run))
        else:
            settled.append(run)
    return _whole(replace(state, start_offset=start, lot_number=lot_number), settled)


def _is_over(lock_until_ms: int, now_ms: int, policy: SharePolicy) -> bool:
    """Return True if a lock has ended, or was set by a clock so far ahead that its end is unknown."""
    return not now_ms < lock_until_ms <= now_ms + policy.lock_ms + CLOCK_AHEAD_MS_MAX


def next_stretch(state: SharePartition, policy: SharePolicy, max_records: int) -> Stretch | None:
    """Return where to read for the next delivery; None while the window is full and all is acquired.

    It begins with an available record, and ends where so many are in it, if there are so many.
    """
    window_end = max(state.end_offset, state.start_offset + policy.max_record_locks)
    unread = Run(state.end_offset, window_end, RecordState.AVAILABLE)
    start: int | None = None
    left = max_records
    for run in (*state.runs, unread):
        if run.state is not RecordState.AVAILABLE or run.end <= run.start:
            continue
        start = run.start if start is None else start
        if left <= run.end - run.start:
            return Stretch(start, run.start + left)
        left -= run.end - run.start
    return None if start is None else Stretch(start, window_end)


def acquire(
    state: SharePartition,
    member_id: str,
    now_ms: int,
    policy: SharePolicy,
    read_from: int,
    batches: Sequence[Stretch],
    *,
    max_records: int,
    max_held: int,
    is_strict: bool = False,
) -> tuple[SharePartition, tuple[AcquiredRecords, ...]]:
    """Acquire available records of the batches that were read, for a member.

    Args:
        read_from: the requested offset; nothing is stored between it and the batches, and between those.
        batches: in order, as the log has them now.
        max_records: the limit; unless `is_strict`, a batch is acquired completely.
        max_held: the limit of records that the member holds afterwards; it cuts a batch.

    Returns:
        The state, and the acquired records in order. The state is the given one if nothing was acquired and no gap was
        found: a record that compaction has removed is done, also if nothing after it can be acquired.
    """
    holders = {run.member_id for run in state.runs if run.state is RecordState.ACQUIRED}
    held = sum(run.end - run.start for run in state.runs if run.member_id == member_id)
    room = max_held - held
    if not batches or min(max_records, room) < 1 or (member_id not in holders and len(holders) >= SHARE_HOLDERS_MAX):
        return state, ()
    runs = list(state.runs)
    window_end = min(batches[-1].end, state.start_offset + policy.max_record_locks)
    if window_end > state.end_offset:
        runs.append(Run(state.end_offset, window_end, RecordState.AVAILABLE))
    lock_until_ms = now_ms + policy.lock_ms

    def take(run: Run) -> Run:
        return replace(
            run,
            state=RecordState.ACQUIRED,
            delivery_count=run.delivery_count + 1,
            member_id=member_id,
            lock_until_ms=lock_until_ms,
        )

    left = max_records
    acquired: list[Run] = []
    at = read_from
    for batch in batches:
        if left <= 0 or room <= 0:
            break
        runs = _changed(runs, at, batch.start, RecordState.AVAILABLE, _done)
        for piece in _pieces(runs, max(batch.start, read_from), batch.end, RecordState.AVAILABLE):
            end = min(piece.end, piece.start + (min(left, room) if is_strict else room))
            if end > piece.start:
                acquired.append(take(replace(piece, end=end)))
                runs = _changed(runs, piece.start, end, RecordState.AVAILABLE, take)
                left -= end - piece.start
                room -= end - piece.start
        at = batch.end
    if not acquired:
        settled = _whole(state, runs)
        return (state if settled == state else settled), ()
    given = tuple(AcquiredRecords(run.start, run.end - 1, run.delivery_count) for run in _merged(acquired))
    return _whole(state, runs), given


def acknowledge(
    state: SharePartition,
    member_id: str,
    now_ms: int,
    policy: SharePolicy,
    batches: Sequence[AcknowledgementBatch],
) -> SharePartition | Refusal:
    """Take all acknowledgements of a member, or none.

    The state has been settled, so a lock that is over holds nothing: that acknowledgement comes too late, and is
    refused with INVALID_RECORD_STATE like one of a record that another member has, or that is done. What a client gives
    back unseen is never refused: there is nothing to give back of a record that it does not hold.
    """
    runs = list(state.runs)

    def changes(kind: int) -> Callable[[Run], Run]:
        def change(run: Run) -> Run:
            match kind:
                case AcknowledgeType.RELEASE:
                    return _given_back(run, policy)
                case AcknowledgeType.REJECT:
                    return _dead(run, policy, is_rejected=True)
                case AcknowledgeType.RENEW:
                    return replace(run, lock_until_ms=now_ms + policy.lock_ms)
                case _ if kind == UNSEEN:
                    return _unseen(run) if run.member_id == member_id else run
                case _:
                    return _done(run)

        return change

    for batch in batches:
        refusal = _malformed(batch)
        if refusal is not None:
            return refusal
        for start, end, kind in _stretches(batch):
            held = sum(
                piece.end - piece.start
                for piece in _pieces(runs, start, end, RecordState.ACQUIRED)
                if piece.member_id == member_id
            )
            if held != end - start and kind != UNSEEN:
                return Refusal(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"offsets {start} to {end - 1} are not all acquired by member {member_id}: a lock may have expired",
                )
            runs = _changed(runs, start, end, RecordState.ACQUIRED, changes(kind))
    return _whole(state, runs)


def release_all(state: SharePartition, member_id: str, policy: SharePolicy) -> SharePartition:
    """Release all records of a member that closes its session.

    The delivery counts: the server cannot tell a member that stops from one that fails on a record whenever it gets it,
    and restarts.
    """
    return _whole(
        state,
        [
            _given_back(run, policy) if run.state is RecordState.ACQUIRED and run.member_id == member_id else run
            for run in state.runs
        ],
    )


def lot_written(state: SharePartition, lot_number: int) -> SharePartition:
    """The dead letters of that lot are in their topic."""
    if state.lot_number != lot_number or not state.lot:
        return state
    runs = [_done(run) if run.state is RecordState.LOT else run for run in state.runs]
    return _whole(replace(state, lot_number=lot_number + 1), runs)


def reset_to(state: SharePartition, offset: int) -> SharePartition:
    """Restart the window at an offset, as an administrator requests: deliveries and dead letters are forgotten."""
    return SharePartition(offset, (), state.lot_number + (1 if state.lot else 0))


# --- one run ----------------------------------------------------------------------------------------------------------


def _available(run: Run) -> Run:
    return Run(run.start, run.end, RecordState.AVAILABLE, run.delivery_count)


def _done(run: Run) -> Run:
    return Run(run.start, run.end, RecordState.DONE)


def _given_back(run: Run, policy: SharePolicy) -> Run:
    if run.delivery_count >= policy.delivery_count_limit:
        return _dead(run, policy, is_rejected=False)
    return _available(run)


def _unseen(run: Run) -> Run:
    return replace(_available(run), delivery_count=run.delivery_count - 1)


def _dead(run: Run, policy: SharePolicy, *, is_rejected: bool) -> Run:
    if not policy.has_dead_letters:
        return _done(run)
    return Run(run.start, run.end, RecordState.DYING, run.delivery_count, is_rejected=is_rejected)


# --- runs -------------------------------------------------------------------------------------------------------------


def _pieces(runs: Iterable[Run], start: int, end: int, state: RecordState) -> list[Run]:
    """Return the parts of [start, end) that are in that state."""
    return [
        replace(run, start=max(run.start, start), end=min(run.end, end))
        for run in runs
        if run.state is state and run.start < end and start < run.end
    ]


def _changed(runs: Sequence[Run], start: int, end: int, state: RecordState, change: Callable[[Run], Run]) -> list[Run]:
    """Return the runs with the parts of [start, end) in that state changed."""
    if start >= end:
        return list(runs)
    changed: list[Run] = []
    for run in runs:
        if run.state is not state or run.end <= start or end <= run.start:
            changed.append(run)
            continue
        inside = replace(run, start=max(run.start, start), end=min(run.end, end))
        if run.start < inside.start:
            changed.append(replace(run, end=inside.start))
        changed.append(change(inside))
        if inside.end < run.end:
            changed.append(replace(run, start=inside.end))
    return changed


def _merged(runs: Iterable[Run]) -> list[Run]:
    merged: list[Run] = []
    for run in runs:
        if merged and merged[-1].end == run.start and merged[-1].is_like(run):
            merged[-1] = replace(merged[-1], end=run.end)
        else:
            merged.append(run)
    return merged


def _whole(state: SharePartition, runs: Sequence[Run]) -> SharePartition:
    """Return a state of these runs that keeps the invariants; dying records become a lot if there is none."""
    if not any(run.state is RecordState.LOT for run in runs):
        runs = _with_lot(runs)
    merged = _merged(runs)
    start = state.start_offset
    while merged and merged[0].state is RecordState.DONE:
        start = merged.pop(0).end
    while merged and merged[-1].state is RecordState.AVAILABLE and merged[-1].delivery_count == 0:
        merged.pop()  # as if it had never been read
    return replace(state, start_offset=start, runs=tuple(merged))


def _with_lot(runs: Sequence[Run]) -> list[Run]:
    room = LOT_RECORDS_MAX
    made: list[Run] = []
    for run in runs:
        if run.state is not RecordState.DYING or room <= 0:
            made.append(run)
            continue
        end = min(run.end, run.start + room)
        made.append(replace(run, end=end, state=RecordState.LOT))
        if end < run.end:
            made.append(replace(run, start=end))
        room -= end - run.start
    return made


# --- acknowledgements -------------------------------------------------------------------------------------------------


def _malformed(batch: AcknowledgementBatch) -> Refusal | None:
    count = batch.last_offset - batch.first_offset + 1
    if batch.first_offset < 0 or count < 1:
        return _invalid(f"invalid offsets {batch.first_offset} to {batch.last_offset}")
    if len(batch.types) not in (1, count):
        return _invalid(f"{len(batch.types)} acknowledge types for {count} records: give one, or one each")
    unknown = set(batch.types) - {*AcknowledgeType, UNSEEN}
    if unknown:
        return _invalid(f"unknown acknowledge type {min(unknown)}")
    return None


def _stretches(batch: AcknowledgementBatch) -> Iterable[tuple[int, int, int]]:
    """(start, end, type) of neighbours that are acknowledged alike."""
    if len(batch.types) == 1:
        yield batch.first_offset, batch.last_offset + 1, batch.types[0]
        return
    at = batch.first_offset
    for kind, group in groupby(batch.types):
        count = len(list(group))
        yield at, at + count, kind
        at += count


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
