"""The maintainer of served tables: it follows the log of each partition, and writes rows.

    position ─> take ─> fetch from `covered` ─> the newest record of each key ─> rows ─> advance ─> fetch ...

Any number of maintainers may be at work, of any age: rows.py says why rows never go back. What woke one is a message of
the queue that also wakes triggers (docs/decisions/0037); at the end of the log it marks the head, so that the next
append sends another message. A reader that waits for an offset (reads.py) may follow the topic, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from odradek.engine.engine import Engine
from odradek.engine.marks import Wake, encode_wake
from odradek.engine.partition.shared_head import view_of
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreError, StoreUnavailable
from odradek.model.log import FetchPartition
from odradek.model.record import Record
from odradek.model.table import FOREVER, ServedTable
from odradek.model.topic import Topic
from odradek.ports.table import Key, Table
from odradek.ports.task_queue import TaskQueue
from odradek.served.definition import Definition, Definitions
from odradek.served.keys import row_key_of, row_place
from odradek.served.positions import BUSY_MS, Fenced, Position, Positions, is_ours
from odradek.served.removal import REMOVAL_PREFIX, Removal
from odradek.served.rows import RowWriter, StoredRow, fits_key, fitting
from odradek.triggers.dispatcher import partitions_of
from odradek.triggers.reading import FetchedBatches

WAKE_PREFIX = "table:"  # before a table's name in a wake message; no trigger has a colon in its name
_FETCH_BYTES = 1 << 20
_PART_RECORDS = 100_000  # of one step, whatever a batch holds
_ERRORS = (StoreError, FormatError, KafkaError)


class Ended(Enum):
    """Why a maintainer left a partition."""

    CAUGHT_UP = "caught up"
    BUSY = "busy"  # another one is at it
    CUT = "cut"  # time is over, and records are left
    FAILED = "failed"  # the position says why


# When to look again. Who is busy may be a reader, who leaves no mark.
_LATER_S = {Ended.CAUGHT_UP: 0, Ended.CUT: 0, Ended.BUSY: 5, Ended.FAILED: 30}


_WAITS = 8  # looks at a busy partition, about three seconds, before a message has somebody look later


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records that were read, and the offsets that they cover."""

    records: Sequence[Record]
    start: int
    end: int
    high_watermark: int


class LogShorter(Exception):
    """The log ends before what the table covers: it was restored to an earlier time."""


class TableMaintainer:
    """Brings served tables to the end of their topics.

    Args:
        engine: of the store.
        rows: the table of rows.
        definitions: the tables.
        queue: takes the messages for what is left; None: the sweep finds it.
    """

    def __init__(self, engine: Engine, rows: Table, definitions: Definitions, queue: TaskQueue | None) -> None:
        self._engine = engine
        self._clock = engine.clock
        self._definitions = definitions
        self._positions = Positions(rows)
        self._writer = RowWriter(rows, engine.tools.backoff(first_s=0.02, max_s=1.0))
        self._busy = engine.tools.backoff(first_s=0.1, max_s=0.5)
        self._queue = queue
        self._removal = Removal(rows, definitions, engine.clock)

    # --- wake messages --------------------------------------------------------------------------------------------

    async def handle(self, topic: Topic | None, wake: Wake, deadline_s: float) -> None:
        """Do what a message asks for: implements triggers.dispatcher.Follower.

        Raises StoreError, FormatError, KafkaError: deliver the message again.
        """
        if wake.trigger is not None and wake.trigger.startswith(REMOVAL_PREFIX):
            await self._removal.run(wake.trigger.removeprefix(REMOVAL_PREFIX), deadline_s)
            return
        if topic is None:
            return
        name_woken = wake.trigger or ""
        named = name_woken.removeprefix(WAKE_PREFIX) if name_woken.startswith(WAKE_PREFIX) else None
        tables = [
            definition
            for definition in await self._definitions.current(including=named)
            if definition.table.topic == topic.name
            and definition.table.is_enabled
            and wake.trigger in (None, WAKE_PREFIX + definition.table.name)
        ]
        await asyncio.gather(*(self._head(table, topic, wake, deadline_s) for table in tables))

    async def _head(self, definition: Definition, topic: Topic, wake: Wake, deadline_s: float) -> None:
        name, head_id = definition.table.name, wake.head_id
        image = await self._engine.index.read_image(head_id)
        waits = 0
        while image is not None:
            partitions = partitions_of(topic, head_id, image)
            ends = {partition.partition: view_of(image, partition).next_offset for partition in partitions}
            ended = await self.catch_up(name, topic, ends, deadline_s)
            if set(ended) <= {Ended.CAUGHT_UP, Ended.BUSY} and Ended.BUSY in ended and waits < _WAITS:
                # Two that were woken together may have a partition each: one of them has to set the mark.
                await self._busy.pause(waits)
                waits += 1
                image = await self._engine.index.read_image(head_id)
                continue
            if set(ended) - {Ended.CAUGHT_UP}:
                delay_s = max(_LATER_S[outcome] for outcome in ended)
                await self._send(Wake(head_id, WAKE_PREFIX + name), delay_s)
                return
            image_before = image
            image = await self._engine.marks.arm(head_id, image_before)
            if image is not None and image.appended_bytes == image_before.appended_bytes:
                return
            if self._clock.monotonic() >= deadline_s:
                await self._send(Wake(head_id, WAKE_PREFIX + name))
                return

    async def _send(self, wake: Wake, delay_s: int = 0) -> None:
        if self._queue is not None and await self._queue.send([encode_wake(wake)], delay_s=delay_s):
            raise StoreUnavailable("the queue of triggers took no message")

    # --- partitions -----------------------------------------------------------------------------------------------

    async def catch_up(self, name: str, topic: Topic, ends: dict[int, int], deadline_s: float) -> list[Ended]:
        """Bring a table to the end of some partitions.

        Args:
            ends: where their logs end, as far as is known.
            deadline_s: monotonic; what is left then is CUT.

        Raises StoreError, FormatError, KafkaError.
        """
        definition = await self._definitions.get(name, fresh=True)
        if definition is None or not definition.table.is_enabled or definition.table.topic != topic.name:
            return []
        if definition.topic_id != topic.topic_id:
            definition = await self._definitions.renew(definition, topic)
        positions = await self._positions.read(definition.generation, sorted(ends))
        behind = [position for position in positions if position.covered != ends[position.partition] or position.error]
        try:
            return list(
                await asyncio.gather(*(self._follow(definition, topic, position, deadline_s) for position in behind))
            )
        except LogShorter:
            await self._definitions.renew(definition, topic)
            return [Ended.CUT]

    async def _follow(self, definition: Definition, topic: Topic, position: Position, deadline_s: float) -> Ended:
        """Follow one partition to its end. Raises StoreError, LogShorter."""
        generation = definition.generation
        if position.busy_until_ms > self._clock.now_ms():
            return Ended.BUSY
        taken = await self._positions.take(generation, position, self._clock.now_ms())
        if taken is None:
            return Ended.BUSY
        position = replace(taken, error="", error_ms=0)
        try:
            while True:
                fetched = await self._fetch(topic, position)
                position = await self._step(definition, topic, position, fetched)
                is_end = position.covered >= fetched.high_watermark
                is_over = not is_end and self._clock.monotonic() >= deadline_s
                busy_until_ms = 0 if is_end or is_over else self._clock.now_ms() + BUSY_MS
                position = replace(position, busy_until_ms=busy_until_ms)
                await self._positions.advance(generation, position)
                if is_end or is_over:
                    return Ended.CAUGHT_UP if is_end else Ended.CUT
        except Fenced:
            return Ended.BUSY
        except _ERRORS as error:
            await self._fail(generation, position, error)
            return Ended.FAILED

    async def _fail(self, generation: str, position: Position, error: Exception) -> None:
        """Say why it did not go on; as far as the store lets us."""
        text = error.message if isinstance(error, KafkaError) else str(error)
        failed = replace(position, busy_until_ms=0, error=text or type(error).__name__, error_ms=self._clock.now_ms())
        try:
            await self._positions.advance(generation, failed)
        except (Fenced, StoreError):
            return

    async def _step(self, definition: Definition, topic: Topic, position: Position, fetched: Fetched) -> Position:
        """Apply what was read; return the position after it."""
        table = definition.table
        newest: dict[Key, StoredRow] = {}
        unusable = too_large = 0
        for record in fetched.records:
            row = None if record.key is None else row_key_of(table, bytes(record.key))
            if row is None:
                unusable += 1
                continue
            key = row_place(table, definition.generation, row, position.partition)
            if not fits_key(key):
                too_large += 1
                continue
            since_ms = record.timestamp_ms if row.window_end_ms is None else row.window_end_ms
            value = None if record.value is None else bytes(record.value)
            stored = StoredRow(record.offset, record.timestamp_ms, value, 0, expires_s(table, since_ms))
            newest[key] = fitting(key, stored)
            too_large += newest[key].too_large > 0
        await self._writer.apply(
            list(newest.items()),
            is_ours(definition.generation, position),
            keeps_deletions=topic.partition_count > definition.partitions,
        )
        return replace(
            position,
            covered=fetched.end,
            changes=position.changes + len(fetched.records) - unusable,
            too_large=position.too_large + too_large,
            unusable=position.unusable + unusable,
            lost=position.lost + fetched.start - position.covered,
            timestamp_ms=max([position.timestamp_ms, *(record.timestamp_ms for record in fetched.records)]),
        )

    async def _fetch(self, topic: Topic, position: Position) -> Fetched:
        """The next records of a partition. Raises KafkaError, FormatError, LogShorter, StoreError."""
        fetched = await fetch(self._engine, topic, position.partition, position.covered)
        if fetched.start < position.covered:
            raise LogShorter
        return fetched


async def fetch(engine: Engine, topic: Topic, partition: int, offset: int, *, max_bytes: int = _FETCH_BYTES) -> Fetched:
    """Read records from an offset, or from the start of the log if that is later.

    A log that ends before the offset has a `start` below it, and no records. Raises KafkaError, FormatError.
    """
    request = FetchPartition(topic.name, partition, offset, max_bytes, topic_id=topic.topic_id)
    [result] = await engine.fetch([request], max_bytes=max_bytes)
    if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        if 0 <= result.high_watermark < offset:
            return Fetched((), result.high_watermark, result.high_watermark, result.high_watermark)
        if result.log_start_offset > offset:
            return await fetch(engine, topic, partition, result.log_start_offset, max_bytes=max_bytes)
    if result.error:
        raise KafkaError(result.error, result.message or result.error.name)
    data = b"".join(result.records)
    part = FetchedBatches(data, offset).next_part(_PART_RECORDS)
    if part.refused is not None:
        raise FormatError(part.refused.reason, ErrorCode.MESSAGE_TOO_LARGE)
    if not data and offset < result.high_watermark:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic.name}-{partition} ends at {offset}, before its end"
        )
    return Fetched(part.records, offset, part.end, result.high_watermark)


def expires_s(table: ServedTable, since_ms: int) -> int:
    """When a row expires, in seconds since the epoch; 0: never."""
    return 0 if table.retention_ms == FOREVER else max(1, (since_ms + table.retention_ms) // 1000 + 1)
