"""One partition of a trigger, while its lease is held: read, call, commit, until nothing is left or nothing can go.

    read from the committed offset ─> filter ─> a batch for each lane ─> call them at once ─> commit ─> read ...

The decisions are in progress.py. Offsets are committed after the calls, in the lease's own item, with what lanes have
done beyond them; the last commit gives the lease back.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from uuid import UUID

from odradek.backoff import Backoff
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreError
from odradek.limits import FUNCTION_PAYLOAD_BYTES_MAX
from odradek.model.log import FetchPartition
from odradek.model.record import Record
from odradek.model.topic import Topic
from odradek.model.topic_partition import TopicPartition
from odradek.model.trigger import Trigger
from odradek.triggers.calls import Call, CallFailed, CallRefused, CallTooLarge
from odradek.triggers.event import BadResponse, EventSource, WindowCall, encode_event, first_failure, window_state
from odradek.triggers.failures import Failures, GivenUp
from odradek.triggers.filters import matches
from odradek.triggers.leases import Lease, Leases
from odradek.triggers.progress import (
    Kind,
    LaneBatch,
    Progress,
    Wave,
    Window,
    after_failure,
    after_refusal,
    after_success,
    committed_after,
    plan_wave,
)
from odradek.triggers.reading import FetchedBatches, Refused
from odradek.triggers.slots import Slots
from odradek.triggers.targets import Targets

_FETCH_BYTES = 1 << 20
_EVENT_BYTES_MAX = FUNCTION_PAYLOAD_BYTES_MAX - 16 * 1024
_STATE_CHARACTERS_MAX = 200_000  # the lease's item holds it
_AGAIN_MS = 1_000  # after the store did not answer
_PART_RECORDS = 10_000  # of a part at least, so that a batch is decompressed a few times only
_ERRORS = (StoreError, FormatError, KafkaError)


class Ended(Enum):
    """Why a drain ended."""

    DRAINED = "drained"  # nothing was left
    LATER = "later"  # something is to be done at `later_ms`
    FILLING = "filling"  # records wait for a full batch, until `later_ms`
    BUSY = "busy"  # another dispatcher has the lease
    CUT = "cut"  # time is over, and records are left


@dataclass(frozen=True, slots=True)
class Drained:
    """How a drain ended."""

    ended: Ended
    later_ms: int = 0


@dataclass(frozen=True, slots=True)
class DrainTools:
    """The parts that all drains of a dispatcher share.

    Args:
        backoff: pauses between the calls of a batch that fails.
        wait_ms_max: pauses up to this long are waited for; longer ones are left to a delayed message.
        slots: one for each call under way.
    """

    engine: Engine
    leases: Leases
    targets: Targets
    failures: Failures
    source: EventSource
    backoff: Backoff
    wait_ms_max: int
    slots: Slots


@dataclass(frozen=True, slots=True)
class _Read:
    """Records that were read, and the offsets that they cover, holes included."""

    records: Sequence[Record]
    start: int
    end: int
    high_watermark: int
    appended: frozenset[int] = frozenset()  # offsets of records with the time of their append
    refused: Refused | None = None  # a batch that cannot be read, in place of records


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a call with a batch: it succeeded if `first_failed` is None."""

    batch: LaneBatch
    first_failed: int | None
    error: str = ""
    response: bytes = b""
    is_too_large: bool = False
    is_refused: bool = False  # the function has not run


class Drain:
    """The drain of one partition.

    Args:
        lease: taken.
        is_due: records need not wait for a full batch.
        deadline_s: monotonic; no call begins after it.
    """

    def __init__(
        self, tools: DrainTools, trigger: Trigger, topic: Topic, lease: Lease, *, is_due: bool, deadline_s: float
    ) -> None:
        self._tools = tools
        self._clock = tools.engine.clock
        self._trigger = trigger
        self._topic = topic
        self._lease = lease
        self._is_due = is_due
        self._deadline_s = deadline_s
        self._name = TopicPartition(topic.name, lease.partition.partition)
        self._read: _Read | None = None
        self._batches: FetchedBatches | None = None  # of the last fetch
        self._high_watermark = 0

    async def run(self) -> Drained:
        """Call until nothing is left. Raises LeaseLost; nothing of the store's: the rest is for a later message."""
        try:
            return await self._run()
        except _ERRORS as error:
            try:
                lease = self._lease
                text = f"{type(error).__name__}: {error}"[:300]
                failed = replace(lease.progress, error=text, error_ms=self._clock.now_ms())
                await self._tools.leases.commit(self._trigger, replace(lease, progress=failed), release=True)
            except _ERRORS:
                pass  # the lease ends by itself
            return Drained(Ended.LATER, self._clock.now_ms() + _AGAIN_MS)

    async def _run(self) -> Drained:
        while True:
            if self._clock.monotonic() >= self._deadline_s:
                return await self._release(Drained(Ended.CUT))
            read = await self._records()
            if read.refused is not None:
                done = await self._refuse(read, read.refused)
            elif self._trigger.tumbling_window_s:
                done = await self._tumble(read)
            elif (filling := self._filling(read)) is not None:
                return await self._release(filling)
            else:
                done = await self._wave(read)
            if done is not None:
                return done

    # --- reading --------------------------------------------------------------------------------------------------

    async def _records(self) -> _Read:
        """The records from the committed offset on, as many as one wave takes. Raises KafkaError."""
        offset, most = self._lease.committed, self._trigger.batch_size * self._trigger.parallelization_factor
        chunk = self._read
        if chunk is None or not chunk.start <= offset < chunk.end:
            chunk = self._following(offset) or await self._fetch(offset)
            if self._trigger.newest_only:
                chunk = await self._newest(chunk)
        records = [record for record in chunk.records if record.offset >= chunk.start and record.offset >= offset]
        self._read = replace(chunk, records=records, start=max(offset, chunk.start))
        if chunk.start > offset:  # retention has removed them
            self._lease = replace(self._lease, committed=chunk.start)
        if len(records) <= most:
            return self._read
        return replace(self._read, records=records[:most], end=records[most].offset)

    async def _newest(self, read: _Read) -> _Read:
        """The last record of all that wait; what is before it is passed over. Before damage at the end: of these."""
        last = read
        if read.end < read.high_watermark:
            try:
                last = await self._fetch(read.high_watermark - 1)
            except KafkaError as error:
                if error.code is not ErrorCode.CORRUPT_MESSAGE or not read.records:
                    raise
        records = (last.records or read.records)[-1:]
        while last.refused is None and (following := self._following(last.end)) is not None:
            last, records = following, (following.records or records)[-1:]
        start = records[0].offset if records else last.end
        return replace(last, records=records, start=start, end=max(start, last.end))

    async def _fetch(self, offset: int) -> _Read:
        partition, topic = self._lease.partition.partition, self._topic
        request = FetchPartition(topic.name, partition, offset, _FETCH_BYTES, topic_id=topic.topic_id)
        [result] = await self._tools.engine.fetch([request], max_bytes=_FETCH_BYTES)
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            start = result.log_start_offset if offset < result.log_start_offset else result.high_watermark
            if start >= 0 and start != offset:
                return await self._fetch(start)
        if result.error is ErrorCode.CORRUPT_MESSAGE and self._trigger.newest_only:
            newest = result.high_watermark - 1
            if offset < newest:  # what is before the newest record is passed over, damaged or not
                return await self._fetch(newest)
        if result.error:
            raise KafkaError(result.error, result.message or result.error.name)
        start = max(offset, result.log_start_offset)
        self._batches = FetchedBatches(b"".join(result.records), offset)
        self._high_watermark = result.high_watermark
        chunk = self._following(offset)
        if chunk is None:
            return _Read([], start, start, result.high_watermark)
        return replace(chunk, start=start, end=max(chunk.end, start))

    def _following(self, offset: int) -> _Read | None:
        """The next part of the last fetch; None if it has none that begins at the offset."""
        batches = self._batches
        if batches is None or batches.is_done or batches.end != offset:
            return None
        part = batches.next_part(max(_PART_RECORDS, self._trigger.batch_size * self._trigger.parallelization_factor))
        return _Read(part.records, offset, part.end, self._high_watermark, part.appended, part.refused)

    async def _refuse(self, read: _Read, refused: Refused) -> Drained | None:
        """Give a batch up that cannot be read; return how the drain ends, None: it goes on."""
        lease, now_ms = self._lease, self._clock.now_ms()
        lane = lease.progress.lane(0, lease.committed)
        if lane.retry_ms > now_ms:
            return await self._wait(Wave((), lane.retry_ms))
        batch, progress = LaneBatch(0, [refused.record]), lease.progress.failed(refused.reason, now_ms)
        progress = await self._give_up(progress, batch, "BatchTooLarge", read)
        if progress.lane(0, lease.committed).done <= refused.record.offset:  # the destination has not taken it
            self._lease = replace(lease, progress=progress)
        else:
            self._lease = replace(lease, committed=read.end, progress=replace(progress, lanes={}))
        await self._commit()
        return None

    def _filling(self, read: _Read) -> Drained | None:
        """Return how the drain ends where the records wait for more; None: they go."""
        progress, now_ms = self._lease.progress, self._clock.now_ms()
        if not self._trigger.batching_window_s or not read.records or read.end < read.high_watermark:
            return None
        if len(read.records) >= self._trigger.batch_size or self._is_due or 0 < progress.due_ms <= now_ms:
            return None
        due_ms = progress.due_ms or now_ms + 1000 * self._trigger.batching_window_s
        self._lease = replace(self._lease, progress=replace(progress, due_ms=due_ms))
        return Drained(Ended.FILLING, due_ms)

    # --- calling --------------------------------------------------------------------------------------------------

    async def _wave(self, read: _Read) -> Drained | None:
        """Call with the next batch of each lane, and commit; return how the drain ends, None: it goes on."""
        trigger, lease, now_ms = self._trigger, self._lease, self._clock.now_ms()
        passing = [record for record in read.records if self._passes(record)]
        wave = plan_wave(trigger, passing, lease.progress, lease.committed, now_ms)
        progress = replace(lease.progress, due_ms=0, passed=lease.progress.passed + len(read.records) - len(passing))
        if wave.batches:
            if not self._tools.leases.allows_call(trigger, lease):
                lease = self._lease = await self._tools.leases.commit(trigger, lease, release=False)
            outcomes = await asyncio.gather(*(self._do(batch, read) for batch in wave.batches))
            for outcome in outcomes:
                progress = await self._after(progress, outcome, read)
        elif wave.retry_ms:
            return await self._wait(wave)
        committed, progress = committed_after(trigger, passing, read.end, progress, lease.committed)
        if committed < read.end:
            progress = replace(progress, passed=lease.progress.passed)  # they are seen again: counted then
        self._lease = replace(lease, committed=committed, progress=progress)
        if committed >= read.end >= read.high_watermark:
            return await self._release(Drained(Ended.DRAINED))
        await self._commit()
        return None

    def _passes(self, record: Record) -> bool:
        return matches(self._trigger.filters, self._name.topic, self._name.partition, record)

    async def _wait(self, wave: Wave) -> Drained | None:
        """Wait for a lane that failed, if that is soon."""
        wait_ms = wave.retry_ms - self._clock.now_ms()
        if wait_ms > self._tools.wait_ms_max or self._clock.monotonic() + wait_ms / 1000 >= self._deadline_s:
            return await self._release(Drained(Ended.LATER, wave.retry_ms))
        await self._clock.sleep(max(0, wait_ms) / 1000)
        return None

    async def _do(self, batch: LaneBatch, read: _Read, window: WindowCall | None = None) -> _Outcome:
        """Call with a batch, unless its records have expired."""
        if batch.kind is Kind.EXPIRED:
            return _Outcome(batch, None)
        event = encode_event(self._tools.source, self._name, batch.records, read.appended, window)
        if len(event) > _EVENT_BYTES_MAX:
            return _Outcome(batch, 0, f"the event has {len(event)} bytes, more than a call takes", is_too_large=True)
        call = Call(self._trigger, self._call_id(batch, window), event, self._trigger.timeout_s)
        try:
            response = await self._tools.targets.call(call)
            failed = first_failure(response, self._name, [record.offset for record in batch.records])
        except CallTooLarge as error:
            return _Outcome(batch, 0, str(error), is_too_large=True)
        except (CallFailed, BadResponse) as error:
            return _Outcome(batch, 0, str(error), is_refused=isinstance(error, CallRefused))
        said = "" if failed is None else f"batchItemFailures: offset {batch.records[failed].offset}"
        return _Outcome(batch, failed, said, response)

    async def _after(self, progress: Progress, outcome: _Outcome, read: _Read) -> Progress:
        """Note the outcome of a call; give up what has failed too often."""
        batch, now_ms = outcome.batch, self._clock.now_ms()
        lane = progress.lane(batch.lane, self._lease.committed)
        if batch.kind is Kind.EXPIRED:
            return await self._give_up(progress, batch, "RecordAgeExceeded", read)
        if not (outcome.is_too_large or outcome.is_refused):
            age_ms = max(0, now_ms - batch.records[-1].timestamp_ms)
            progress = replace(progress, invocations=progress.invocations + 1, called_ms=now_ms, age_ms=age_ms)
        if outcome.first_failed is None:
            return progress.with_lane(batch.lane, after_success(lane, batch))
        progress = progress.failed(outcome.error, now_ms)
        if outcome.is_too_large:
            if len(batch.records) == 1:
                return await self._give_up(progress, batch, "BatchTooLarge", read)
            split = replace(self._trigger, bisect=True)
            return progress.with_lane(batch.lane, after_failure(split, lane, batch, 0, 0)[0])
        retry_ms = now_ms + round(1000 * self._tools.backoff.delay_s(lane.attempts + lane.refusals))
        if outcome.is_refused:
            return progress.with_lane(batch.lane, after_refusal(lane, retry_ms))
        lane, given_up = after_failure(self._trigger, lane, batch, outcome.first_failed, retry_ms)
        progress = progress.with_lane(batch.lane, lane)
        if not given_up:
            return progress
        return await self._give_up(
            progress, replace(batch, records=given_up), "RetryAttemptsExhausted", read, attempts=lane.attempts + 1
        )

    async def _give_up(
        self, progress: Progress, batch: LaneBatch, condition: str, read: _Read, *, attempts: int = 0
    ) -> Progress:
        """Send a batch to the destination, and pass it; where it is not taken, it is given up later."""
        now_ms = self._clock.now_ms()
        lane = progress.lane(batch.lane, self._lease.committed)
        error = progress.error if condition != "RecordAgeExceeded" else "older than maximum_record_age_s"
        event = encode_event(self._tools.source, self._name, batch.records, read.appended)
        given_up = GivenUp(
            self._trigger,
            self._name,
            batch.records,
            condition,
            attempts,
            error,
            event,
            now_ms,
            self._call_id(batch, None),
        )
        try:
            await self._tools.failures.put(given_up)
        except CallFailed as refused:
            retry_ms = now_ms + round(1000 * self._tools.backoff.delay_s(lane.refusals))
            return progress.failed(str(refused), now_ms).with_lane(batch.lane, after_refusal(lane, retry_ms))
        progress = replace(progress, given_up=progress.given_up + len(batch.records))
        return progress.with_lane(batch.lane, after_success(lane, batch))

    def _call_id(self, batch: LaneBatch, window: WindowCall | None) -> str:
        """An id that repetitions of a call with the same records have, too."""
        span = [batch.records[0].offset, batch.records[-1].offset] if batch.records else []
        of_window = None if window is None else [window.start_ms, window.is_final]
        named = [self._trigger.name, self._trigger.created_ms, str(self._lease.partition), batch.lane, span, of_window]
        return str(UUID(bytes=hashlib.sha256(json.dumps(named).encode()).digest()[:16], version=5))

    # --- tumbling windows -------------------------------------------------------------------------------------------

    async def _tumble(self, read: _Read) -> Drained | None:
        """One call of a tumbling window: with its records, or the last one without; None: go on."""
        trigger, lease, now_ms = self._trigger, self._lease, self._clock.now_ms()
        passing = [record for record in read.records if self._passes(record)]
        progress = lease.progress
        window = progress.window
        if window is None:
            if not passing:
                self._lease = replace(lease, committed=read.end)
                if read.end >= read.high_watermark:
                    return await self._release(Drained(Ended.DRAINED))
                await self._commit()
                return None
            size_ms = 1000 * trigger.tumbling_window_s
            start_ms = passing[0].timestamp_ms // size_ms * size_ms
            window = Window(start_ms, start_ms + size_ms)
        inside: list[Record] = []
        for record in passing[: trigger.batch_size]:
            if record.timestamp_ms >= window.end_ms:
                break
            inside.append(record)
        is_over = len(inside) < len(passing) or now_ms >= window.end_ms
        if not inside and not is_over:
            # What filters passed over is done, and the window waits for its end.
            self._lease = replace(lease, committed=read.end, progress=replace(progress, window=window))
            if read.end < read.high_watermark:
                await self._commit()
                return None
            return await self._release(Drained(Ended.LATER, window.end_ms))
        lane = progress.lane(0, lease.committed)
        if lane.retry_ms > now_ms:
            return await self._wait(Wave((), lane.retry_ms))
        if not self._tools.leases.allows_call(trigger, lease):
            lease = self._lease = await self._tools.leases.commit(trigger, lease, release=False)
        if lane.limit:
            inside = inside[: lane.limit]
        call = WindowCall(window.start_ms, window.end_ms, json.loads(window.state), is_final=not inside)
        batch = LaneBatch(0, inside)
        outcome = await self._do(batch, read, call)
        progress = await self._after_window(replace(progress, window=window), outcome, read)
        left = [record for record in passing if record.offset >= progress.lane(0, lease.committed).done]
        committed = min((record.offset for record in left), default=read.end)
        self._lease = replace(lease, committed=committed, progress=progress)
        await self._commit()
        return None

    async def _after_window(self, progress: Progress, outcome: _Outcome, read: _Read) -> Progress:
        window = progress.window
        assert window is not None
        state = window.state
        if outcome.first_failed != 0 and outcome.batch.records:
            # Of a partial response, too: its state has the records before the first that failed, which are done.
            kept = window_state(outcome.response, state if outcome.first_failed else "{}")
            state = json.dumps(kept, separators=(",", ":"))
            if len(state) > _STATE_CHARACTERS_MAX:
                error = f"the state of a window may have {_STATE_CHARACTERS_MAX} characters, not {len(state)}"
                outcome = replace(outcome, first_failed=0, error=error)
                state = window.state
        if outcome.batch.records:
            return await self._after(replace(progress, window=replace(window, state=state)), outcome, read)
        now_ms = self._clock.now_ms()
        if not outcome.is_refused:
            progress = replace(progress, invocations=progress.invocations + 1, called_ms=now_ms)
        if outcome.first_failed is None:
            return replace(progress, window=None, lanes={})
        lane = progress.lane(0, self._lease.committed)
        attempts = lane.attempts + 1
        progress = progress.failed(outcome.error, now_ms)
        retry_ms = now_ms + round(1000 * self._tools.backoff.delay_s(lane.attempts + lane.refusals))
        if outcome.is_refused:
            return progress.with_lane(0, after_refusal(lane, retry_ms))
        if self._trigger.attempts_max is not None and attempts >= self._trigger.attempts_max:
            return replace(progress, window=None, lanes={})
        return progress.with_lane(0, replace(lane, attempts=attempts, retry_ms=retry_ms, refusals=0))

    # --- the lease ------------------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        self._lease = await self._tools.leases.commit(self._trigger, self._lease, release=False)

    async def _release(self, drained: Drained) -> Drained:
        self._lease = await self._tools.leases.commit(self._trigger, self._lease, release=True)
        return drained
