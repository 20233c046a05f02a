"""Fetches ahead of the application: one call in flight for all partitions, one response ahead of the one in use.

    loop: find missing positions -> fetch all partitions -> buffer the response -> rest while the buffer is full

Where records are rare, a consumer rests between calls that do not wait, because a function is billed while it waits and
a client is not (pace.py).

Every call includes all partitions, so a long poll ends as soon as any has data. The server fills its response in the
order of the request, so those that have waited longest for records come first and none starves, as in Kafka's consumer.
A seek or a new partition interrupts a call that waits.

Errors are retried. An error reaches `poll` if it is not retryable, if nothing has succeeded for
default_api_timeout_ms, if one partition has failed for as long, or if a stored record is damaged twice in a row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from odradek.client.config import ConsumerConfig
from odradek.client.connection import Connection, throttle_s
from odradek.client.consumer.fetch_buffer import Chunk, FetchBuffer
from odradek.client.consumer.held_records import Run
from odradek.client.consumer.pace import FetchPace
from odradek.client.consumer.positions import RESET_TIMESTAMPS, PartitionState, Positions
from odradek.client.consumer.record import (
    ConsumerRecord,
    CorruptRecordBatchError,
    RecordDeserializationError,
    make_records,
)
from odradek.client.log import Outages
from odradek.client.messages import offsets as offset_calls
from odradek.client.messages.fetch import FetchedPartition, FetchResponse, fetch_request, fetched
from odradek.client.retry import UNKNOWN_TOPIC_PATIENCE_MS, RetryAfter, decide
from odradek.client.transport.base import RequestFailed
from odradek.client.waiting import wait_for
from odradek.columnar.rows import Fields
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.format.record_batch import iter_headers
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client.consumer.table_records import Decoded, Piece
    from odradek.columnar.engine import EngineName

_ANSWERS_MAX = 2  # one in use, one ahead

_REMEDIES = {
    ErrorCode.CORRUPT_MESSAGE: ": the stored record cannot be read; `odradek audit` says which range is damaged. "
    "To continue without it, seek past the range"
}

Committed = Callable[[list[TopicPartition]], Awaitable[dict[TopicPartition, OffsetAndMetadata]]]


class Fetcher:
    """Keeps a buffer filled for the partitions in `positions`.

    Args:
        committed: reads committed offsets; None for a consumer without a group.
        activity: set when `poll` has to check for records, errors or rebalances.
    """

    def __init__(
        self,
        connection: Connection,
        config: ConsumerConfig,
        positions: Positions,
        committed: Committed | None,
        activity: asyncio.Event,
    ) -> None:
        self._connection = connection
        self._config = config
        self._positions = positions
        self._committed = committed
        self._activity = activity
        self._clock = connection.clock
        self._log = connection.log
        self._outages = Outages(self._log)
        self._buffer = FetchBuffer()
        self._changed = asyncio.Event()  # ends rest and long polls
        self._room = asyncio.Event()
        self._turn = 0
        self._failures = 0
        self._failing_since_s: float | None = None
        self._throttled_until_s = 0.0
        self._pace = FetchPace(config.idle_pause_max_s, config.fetch_min_bytes, config.fetch_max_wait_ms / 1000)
        self._pace.restart(self._clock.monotonic())
        self._has_rested = False
        self._pending: list[Any] = []  # of handlers of poison records, to be awaited
        self._error: KafkaError | None = None
        self._poison: tuple[PartitionState, int, KafkaError] | None = None  # bytes that cannot be handed out
        self._key, self._value = config.key_deserializer, config.value_deserializer
        self._handler = config.deserialization_error_handler

    # --- the application's side -----------------------------------------------------------------------------------

    def changed(self) -> None:
        """Report that partitions, positions or pauses have changed."""
        self._pace.restart(self._clock.monotonic())
        self._changed.set()
        self._room.set()

    @property
    def has_records(self) -> bool:
        """Return True if data is buffered. It may turn out to hold no records after compaction."""
        return self._poison is not None or self._buffer.answers > 0

    def raise_error(self) -> None:
        """Raise the latest error, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def take(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return up to `limit` buffered records and move the positions past them. Raises KafkaError."""
        records: dict[TopicPartition, list[ConsumerRecord]] = {}
        for run in await self.hold(limit):
            taken = records.get(run.state.partition)
            if taken is None:
                records[run.state.partition] = run.records
            else:
                taken += run.records
            run.state.position = run.after
        return records

    async def hold(self, limit: int) -> list[Run]:
        """Return up to `limit` buffered records whose positions the caller moves. Raises KafkaError.

        Waits for the results of handlers of unreadable records. After a failure all these records are read again.
        """
        before = {state: (state.version, state.position) for state in self._positions}
        try:
            drained = self._drain(limit)
            pending, self._pending = self._pending, []
            for waiting in pending:
                while isawaitable(waiting):  # an aio producer's send gives a future when it is awaited
                    waiting = await waiting
        except RecordDeserializationError:
            raise  # its position is kept already
        except BaseException:
            if self._poison is None:
                for state, (version, position) in before.items():
                    if state.version == version:
                        state.position = position
                        state.drop_buffered()
                self.changed()
            raise
        return drained

    async def take_table(self, limit: int, columns: Sequence[str] | None, engine: EngineName) -> pa.Table:
        """Return up to `limit` buffered rows as a table and move the positions past them. Raises KafkaError."""
        from odradek.client.consumer.table_records import Piece, decode_pieces, to_table

        self._raise_poison()
        taken: list[Piece] = []
        while limit > 0 and (chunk := self._buffer.first()) is not None:
            piece = chunk.take_bytes(limit)
            if piece is None:
                self._buffer.finish_first()
                continue
            data, start, end = piece
            limit -= min(end - start, limit)
            taken.append(Piece(chunk.state, chunk.state.version, data, start, end))
        if self._buffer.answers < _ANSWERS_MAX:
            self._room.set()
        try:
            decoded = await asyncio.to_thread(
                decode_pieces, taken, columns, check_crcs=self._config.check_crcs, engine=engine
            )
        except BaseException:  # interrupted: what was taken out has not been handed out
            self._fetch_again(taken)
            raise
        kept: list[Decoded] = []
        for number, part in enumerate(decoded):
            state = part.piece.state
            if state.version != part.piece.version:
                continue
            kept.append(part)
            state.position = part.end_offset
            if part.error is not None:
                if self._handler is not None:
                    await self._give_to_handler(part.error)
                    state.position = part.error.next_offset
                    self._fetch_again(taken[number:])
                    break
                # Records before the error are returned first; the next poll raises it.
                self._fetch_again(taken[number:])
                self._poison = (state, state.version, part.error)
                if not any(part.rows.num_rows for part in kept):
                    self._raise_poison()
                break
        return to_table(kept, columns)

    async def _give_to_handler(self, error: CorruptRecordBatchError) -> None:
        assert self._handler is not None
        waiting: Any = self._handler(error.as_record(), error)
        while isawaitable(waiting):
            waiting = await waiting

    def _fetch_again(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if piece.state.version == piece.version:
                piece.state.drop_buffered()
        self.changed()

    def _drain(self, limit: int) -> list[Run]:
        out: list[Run] = []
        self._raise_poison()
        while limit > 0 and (chunk := self._buffer.first()) is not None:
            before = len(out)
            try:
                taken = chunk.take(limit)
                if taken is None:
                    self._buffer.finish_first()
                    continue
                self._convert(chunk, *taken, out)
            except KafkaError as error:
                if isinstance(error, CorruptRecordBatchError) and self._handler is not None:
                    self._pending.append(self._handler(error.as_record(), error))
                    self._pass_over(chunk.state, error.next_offset, out)
                    continue
                # Rows before the error are returned first; the next poll raises it.
                self._buffer.finish_first()
                self._poison = (chunk.state, chunk.state.version, error)
                if not out:
                    self._raise_poison()
                break
            limit -= sum(len(run.records) for run in out[before:])
        if self._buffer.answers < _ANSWERS_MAX:
            self._room.set()
        return out

    def _raise_poison(self) -> None:
        """Raise the error at the position, unless a seek has moved past it. The batch is fetched again."""
        poison, self._poison = self._poison, None
        if poison is not None:
            state, version, error = poison
            if state.version == version:
                state.drop_buffered()
                self.changed()
                raise error

    def _convert(self, chunk: Chunk, fields: Fields, after: int, out: list[Run]) -> None:
        state = chunk.state
        if self._key is None and self._value is None:
            records = make_records(*state.partition, chunk.timestamp_type, fields)
            out.append(Run(state, state.version, records, after))
        else:
            self._deserialize(chunk, fields, after, out)

    def _deserialize(self, chunk: Chunk, fields: Fields, after: int, out: list[Run]) -> None:
        """Append runs of deserialized records to `out`, split where a handler takes an unreadable record."""
        state = chunk.state
        (topic, partition), version, stamp = state.partition, state.version, chunk.timestamp_type
        key_of, value_of = self._key, self._value
        records: list[ConsumerRecord] = []
        for offset, timestamp_ms, key, value, headers in zip(*fields, strict=True):
            try:
                new_key = key_of(key) if key_of is not None else key
                new_value = value_of(value) if value_of is not None else value
            except Exception as error:
                if records:
                    out.append(Run(state, version, records, offset))
                    records = []
                if self._handler is None:
                    raise RecordDeserializationError(state.partition, offset, error) from error
                raw = ConsumerRecord(topic, partition, offset, timestamp_ms, stamp, key, value, headers)
                self._pending.append(self._handler(raw, error))
                self._pass_over(state, offset + 1, out)
                continue
            records.append(ConsumerRecord(topic, partition, offset, timestamp_ms, stamp, new_key, new_value, headers))
        if records:
            out.append(Run(state, version, records, after))
        else:
            self._pass_over(state, after, out)

    def _pass_over(self, state: PartitionState, after: int, out: list[Run]) -> None:
        """Count a record that is not returned as processed together with the one before it."""
        last = next((run for run in reversed(out) if run.state is state), None)
        if last is not None:
            last.after = after
        else:
            state.position = after

    # --- the background -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self._find_positions()
                await self._fetch_or_rest()
            except KafkaError as error:
                await self._back_off(error)

    async def _back_off(self, error: KafkaError) -> None:
        now_s = self._clock.monotonic()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        self._failures += 1
        patience_ms = self._config.default_api_timeout_ms
        verdict = decide(
            error,
            attempts=self._failures,
            left_s=self._failing_since_s + patience_ms / 1000 - now_s,
            policy=self._connection.policy,
            jitter=self._connection.rng.random(),
        )
        is_gone = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._committed is None
        if isinstance(verdict, RetryAfter) and not is_gone:
            pause_s = verdict.seconds
            if not isinstance(error, RequestFailed):
                self._outages.failed("reading", error, now_s)
        else:
            if error.is_retryable and not is_gone:
                error = KafkaError(error.code, f"no fetch has succeeded for {patience_ms} ms: {error.message}")
            self._fail(error)
            pause_s = self._config.retry_backoff_max_ms / 1000
        await wait_for(self._changed, max(pause_s, 0.001), self._clock)

    def _fail(self, error: KafkaError) -> None:
        if self._error is None:  # else the application has not polled since the last one
            self._log.error("cannot read, the next poll raises: %s", error)
        self._error = error
        self._recovered()
        self._activity.set()

    def _recovered(self) -> None:
        self._failures = 0
        self._failing_since_s = None
        self._outages.ended("reading", self._clock.monotonic())

    async def _find_positions(self) -> None:
        """Give each partition without a position the committed offset, or one by auto_offset_reset."""
        now_s = self._clock.monotonic()
        missing = [(state, state.version) for state in self._positions if state.needs_position(now_s)]
        fresh = [(state, version) for state, version in missing if state.reset_to is None]
        if fresh and self._committed is not None:
            committed = await self._committed([state.partition for state, _ in fresh])
            for state, version in fresh:
                position = committed.get(state.partition)
                if position is not None and state.version == version:
                    state.seek(position.offset)
            fresh = [
                (state, version) for state, version in fresh if state.version == version and state.position is None
            ]
        for state, version in fresh:
            if state.version == version:
                self._reset(state, "nothing was committed")
        resetting = {
            state.partition: (state, state.version, state.reset_to)
            for state, _ in missing
            if state.position is None and state.reset_to is not None and not state.is_blocked
        }
        if resetting:
            found_at = await offset_calls.list_offsets(
                self._connection,
                {partition: timestamp_ms for partition, (_, _, timestamp_ms) in resetting.items()},
                timeout_ms=self._config.request_timeout_ms,
            )
            for partition, (state, version, _) in resetting.items():
                if state.version == version:
                    state.seek(max(found_at[partition].offset, 0))
                    self._log.info("%s-%d is read from offset %d on", *partition, state.position)
        if missing:
            self._recovered()
            self._activity.set()

    def _reset(self, state: PartitionState, why: str) -> None:
        policy = self._config.auto_offset_reset
        if policy in RESET_TIMESTAMPS:
            self._log.log(
                logging.INFO if state.position is None else logging.WARNING,  # records may have been missed
                "%s-%d: %s: auto_offset_reset=%s applies",
                *state.partition,
                why,
                policy,
            )
            state.reset(RESET_TIMESTAMPS[policy])
            return
        state.not_before_s = self._clock.monotonic() + self._config.retry_backoff_max_ms / 1000
        self._fail(
            KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{state.partition} has no position ({why}), and auto_offset_reset is none: call seek",
            )
        )

    async def _fetch_or_rest(self) -> None:
        now_s = self._clock.monotonic()
        if now_s < self._throttled_until_s:
            await wait_for(self._changed, self._throttled_until_s - now_s, self._clock)
            return
        self._room.clear()
        if self._buffer.answers >= _ANSWERS_MAX:
            await wait_for(self._room, None, self._clock)
            return
        wanted = [
            (state, state.version, state.fetch_offset)
            for state in self._positions
            if state.is_fetchable(now_s) and state.fetch_offset is not None
        ]
        if not wanted:
            await wait_for(self._changed, self._next_try_s(now_s), self._clock)
            return
        rest_s = 0.0 if self._has_rested else self._pace.rest_s(now_s)
        if rest_s > 0:
            self._has_rested = True
            await wait_for(self._changed, rest_s, self._clock)
            return
        waits, self._has_rested = not self._has_rested, False
        self._turn += 1
        wanted.sort(key=lambda entry: entry[0].found_in_turn)
        response = await self._call([(state.partition, offset) for state, _, offset in wanted], waits=waits)
        if response is None:
            return
        self._recovered()
        self._read(response, {state.partition: (state, version, offset) for state, version, offset in wanted})

    def _next_try_s(self, now_s: float) -> float | None:
        waits = [state.not_before_s - now_s for state in self._positions if state.not_before_s > now_s]
        return min(waits, default=None)

    async def _call(self, offsets: list[tuple[TopicPartition, int]], *, waits: bool) -> list[FetchedPartition] | None:
        """Make one fetch; return None if it was interrupted."""
        call = asyncio.ensure_future(
            self._connection.attempt(
                fetch_request(offsets, self._config, waits=waits), FetchResponse, self._config.request_timeout_ms / 1000
            )
        )
        interrupted = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({call, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                return None
            response = call.result()
            self._throttled_until_s = self._clock.monotonic() + throttle_s(response)
            return fetched(response)
        finally:
            interrupted.cancel()
            if not call.done():
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)

    def _read(
        self, response: list[FetchedPartition], requested: dict[TopicPartition, tuple[PartitionState, int, int]]
    ) -> None:
        chunks = []
        for part in response:
            state, version, offset = requested.get(part.partition, (None, 0, 0))
            if state is None or state.version != version:
                continue
            if part.error is not ErrorCode.NONE:
                self._read_error(state, part.error, offset)
                continue
            state.unknown_since_s = state.refused = None
            state.high_watermark = part.high_watermark
            if not part.records:
                continue
            try:
                batches = list(iter_headers(part.records))
            except FormatError as error:
                self._fail(KafkaError(error.code, f"{part.partition} at offset {offset}: {error}"))
                state.not_before_s = self._clock.monotonic() + self._config.retry_backoff_max_ms / 1000
                continue
            if batches:
                state.found_in_turn = self._turn
                state.fetch_offset = max(batches[-1][1].next_offset, offset)
                chunks.append(Chunk(state, offset, part.records, batches, check_crcs=self._config.check_crcs))
        self._buffer.add(chunks)
        if chunks:
            self._pace.found(sum(len(part.records) for part in response), self._clock.monotonic())
            self._activity.set()

    def _read_error(self, state: PartitionState, code: ErrorCode, offset: int) -> None:
        now_s = self._clock.monotonic()
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.position == offset:  # else what is buffered is handed out first
                self._reset(state, f"offset {offset} is out of range")
            else:
                state.not_before_s = now_s + self._config.retry_backoff_ms / 1000
            return
        state.not_before_s = now_s + self._config.retry_backoff_ms / 1000
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if state.unknown_since_s is None:
                self._log.warning("%s-%d does not exist (any more)", *state.partition)
                state.unknown_since_s = now_s
            # A group is told by its coordinator when a topic is gone.
            if self._committed is not None or (now_s - state.unknown_since_s) * 1000 < UNKNOWN_TOPIC_PATIENCE_MS:
                return
            state.unknown_since_s = now_s
        elif code.is_retryable and not self._is_lasting(state, code, offset, now_s):
            return
        self._fail(
            KafkaError(code, f"fetching {state.partition} at offset {offset}: {code.name}{_REMEDIES.get(code, '')}")
        )

    def _is_lasting(self, state: PartitionState, code: ErrorCode, offset: int, now_s: float) -> bool:
        """Return True if a retryable error is to be raised: the same fetch fails for too long, or reads damage twice.

        What is buffered before the offset is handed out first.
        """
        is_repeated = state.refused is not None and state.refused[0] == offset
        if state.refused is None or not is_repeated:
            state.refused = offset, now_s
        if state.position != offset:
            return False
        lasting_ms = (now_s - state.refused[1]) * 1000
        if not (is_repeated and code is ErrorCode.CORRUPT_MESSAGE) and lasting_ms < self._config.default_api_timeout_ms:
            return False
        state.not_before_s = now_s + self._config.retry_backoff_max_ms / 1000
        return True
