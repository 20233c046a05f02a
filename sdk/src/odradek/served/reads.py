"""Pull queries: rows of a key, of several keys, of a range of keys; each with the offsets that it covers.

    get          one Query: all windows of a key, or those within bounds
    get_many     one Query for each key
    range        one Query for each shard, merged by key

The positions are read before the rows, so an answer contains what it says, and may contain more. They may be a second
old (`_POSITIONS_KEPT_S`): most reads are of rows alone.

`min_offsets` waits until the table covers an offset of a partition. While no maintainer is at the partition, the reader
is one itself: it waits for no message. Reads are strongly consistent, so what is covered is seen.

Several partitions may have rows of one key and window, where a topic was given more partitions, or its producers choose
them by other rules: the newest record counts, by its time, then by partition and offset.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from odradek.engine.engine import Engine
from odradek.engine.partition.shared_head import view_of
from odradek.errors import ErrorCode, FormatError, KafkaError, OutcomeUnknown, StoreError, StoreUnavailable
from odradek.model.table import KEYS_MAX, LIMIT_MAX, Format, ServedTable, TableAnswer, TableChange, TableRow
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Row, Table
from odradek.served.definition import Definition, Definitions, not_found
from odradek.served.follow import TableMaintainer, fetch
from odradek.served.keys import AFTER_PARTITIONS, RowKey, escaped, key_range, read_place, row_key_of, shard_of, shard_pk
from odradek.served.positions import Positions
from odradek.served.rows import StoredRow, decode_row
from odradek.served.values import Schemas, decode, key_bytes

T = TypeVar("T")

_POSITIONS_KEPT_S = 1.0
_AT_ONCE = 16
_FIRST_PAUSE_S, _PAUSE_S_MAX = 0.02, 0.5
_MORE = 8  # rows that are read beyond a page: those that other partitions have of its last key
_CHANGES_MAX = 1_000  # records of an answer
_CHANGES_BYTES = 256 * 1024
_ABOVE_KEYS = "\u0100"  # a code point above every byte's


@dataclass(frozen=True, slots=True)
class Bounds:
    """Windows that start at `from_ms` or later, and before `to_ms`; None: no bound."""

    from_ms: int | None = None
    to_ms: int | None = None

    def has(self, row: RowKey) -> bool:
        start_ms = row.window_start_ms
        if start_ms is None:
            return True
        return (self.from_ms is None or start_ms >= self.from_ms) and (self.to_ms is None or start_ms < self.to_ms)


@dataclass(frozen=True, slots=True)
class Freshness:
    """The offsets that an answer must cover.

    Attributes:
        min_offsets: of records, by partition, that must be in it.
        wait_ms: how long to wait for that.
    """

    min_offsets: Mapping[int, int]
    wait_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes after a cursor, and the next cursor."""

    changes: Sequence[TableChange]
    offsets: Mapping[int, int]  # per partition, the next one to read


class TableReader:
    """Answers questions about served tables. All errors are KafkaErrors: RESOURCE_NOT_FOUND, INVALID_REQUEST,
    OFFSET_OUT_OF_RANGE, OFFSET_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE (try again).

    Args:
        engine: of the store.
        rows: the table of rows.
        definitions: the tables.
        maintainer: brings a table to an offset that somebody waits for.
        schemas: of the registry.
    """

    def __init__(
        self, engine: Engine, rows: Table, definitions: Definitions, maintainer: TableMaintainer, schemas: Schemas
    ) -> None:
        self._engine = engine
        self._clock = engine.clock
        self._rows = rows
        self._definitions = definitions
        self._maintainer = maintainer
        self._positions = Positions(rows)
        self._schemas = schemas
        self._backoff = engine.tools.backoff(first_s=_FIRST_PAUSE_S, max_s=_PAUSE_S_MAX)
        self._kept: dict[str, tuple[float, dict[int, int]]] = {}

    # --- tables ---------------------------------------------------------------------------------------------------

    async def table(self, name: str) -> Definition:
        """The definition of a name. Raises KafkaError."""
        definition = await _told(self._definitions.get(name))
        if definition is None:
            raise not_found(name)
        return definition

    async def opened(self, name: str) -> tuple[Definition, Topic]:
        """A table and its topic, of one generation. Raises KafkaError."""
        definition = await self.table(name)
        topic = await self._engine.topics.get(definition.table.topic)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {definition.table.topic!r} of table {name!r} was deleted: create it again, or drop the table",
            )
        if topic.topic_id != definition.topic_id:
            definition = await _told(self._definitions.renew(definition, topic))
        return definition, topic

    # --- rows -----------------------------------------------------------------------------------------------------

    async def get(self, name: str, key: str, bounds: Bounds, fresh: Freshness) -> TableAnswer:
        """The rows of a key: one, or one for each window within the bounds."""
        return (await self.get_many(name, [key], bounds, fresh))[0]

    async def get_many(self, name: str, keys: Sequence[str], bounds: Bounds, fresh: Freshness) -> list[TableAnswer]:
        """The rows of several keys, in the order of the keys."""
        if not 1 <= len(keys) <= KEYS_MAX:
            raise _invalid(f"ask for 1 to {KEYS_MAX} keys at a time, not {len(keys)}")
        definition, topic = await self.opened(name)
        table = definition.table
        wanted = [key_bytes(key, table.key_format) for key in keys]
        covered = await self._covered(definition, topic, fresh)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def rows_of(key: bytes) -> TableAnswer:
            sk_from, sk_to = key_range(table, key, bounds.from_ms, bounds.to_ms)
            pk = shard_pk(definition.generation, shard_of(key, table.shards))
            async with slots:
                page = await _told(self._rows.query(pk, sk_from=sk_from, sk_to=sk_to, limit=LIMIT_MAX + 1))
            rows = [await self._shown(table, *row) for row in self._newest(table, page)]
            if len(page) > LIMIT_MAX:
                raise _invalid(f"the key has more than {LIMIT_MAX} windows: give from and to")
            return TableAnswer(rows, covered)

        return list(await asyncio.gather(*map(rows_of, wanted)))

    async def range(
        self,
        name: str,
        keys: tuple[str | None, str | None, str | None],
        bounds: Bounds,
        fresh: Freshness,
        *,
        limit: int,
        cursor: str = "",
    ) -> TableAnswer:
        """A page of rows in the order of their keys' bytes.

        Args:
            keys: the first key, the key before which it ends, and a prefix that all have; None: no bound.
            limit: rows of the page, 1 to `LIMIT_MAX`; a page may have fewer rows, and still a cursor.
            cursor: of the page before; empty: the first page.
        """
        if not 1 <= limit <= LIMIT_MAX:
            raise _invalid(f"limit must be 1 to {LIMIT_MAX}, not {limit}")
        definition, topic = await self.opened(name)
        table = definition.table
        sk_from, sk_to = _range_of(table, *keys)
        if cursor:
            sk_from = max(sk_from, _read_cursor(cursor))
        covered = await self._covered(definition, topic, fresh)
        if sk_to is not None and sk_from >= sk_to:
            return TableAnswer((), covered)
        queries = [
            self._rows.query(shard_pk(definition.generation, shard), sk_from=sk_from, sk_to=sk_to, limit=limit + _MORE)
            for shard in range(table.shards)
        ]
        parts = await asyncio.gather(*map(_told, queries))
        # Of a shard that gave as many as were asked for, the last key may have further rows, and others may follow.
        cuts = [_row_prefix(part[-1].key.sk) for part in parts if len(part) == limit + _MORE]
        merged = list(heapq.merge(*parts, key=lambda row: row.key.sk))
        complete = [row for row in merged if not cuts or _row_prefix(row.key.sk) < min(cuts)]
        page = complete[:limit]
        last = _row_prefix(page[-1].key.sk) if page else ""
        page += [row for row in complete[limit:] if _row_prefix(row.key.sk) == last]
        following = last + AFTER_PARTITIONS if len(page) < len(merged) or cuts else ""
        rows = [await self._shown(table, *row) for row in self._newest(table, page) if bounds.has(row[0])]
        return TableAnswer(rows, covered, _write_cursor(following) if following else "")

    def _newest(self, table: ServedTable, page: Sequence[Row]) -> list[tuple[RowKey, int, StoredRow]]:
        """The rows of a result that count: of each key and window the newest, if it is not deleted or expired."""
        newest: dict[RowKey, tuple[tuple[int, int, int], StoredRow]] = {}
        for key, item in page:
            row_key, partition = read_place(table, key.sk)
            row = decode_row(item)
            rank = (row.timestamp_ms, partition, row.offset)
            if row_key not in newest or rank > newest[row_key][0]:
                newest[row_key] = (rank, row)
        now_s = self._clock.now_ms() // 1000
        return [
            (key, rank[1], row)
            for key, (rank, row) in newest.items()
            if not row.is_deleted and not 0 < row.expires_s <= now_s
        ]

    async def _shown(self, table: ServedTable, key: RowKey, partition: int, row: StoredRow) -> TableRow:
        value, error = None, ""
        shown_key, key_error = await self._decoded(key.key, table.key_format)
        if row.too_large:
            error = f"the value of {row.too_large} bytes is too large for a table: read {table.topic}-{partition} "
            error += f"at offset {row.offset}"
        elif row.value is not None:
            value, error = await self._decoded(row.value, table.value_format)
        return TableRow(
            shown_key,
            value,
            partition,
            row.offset,
            row.timestamp_ms,
            key.window_start_ms,
            key.window_end_ms,
            error or key_error,
        )

    async def _decoded(self, data: bytes, form: str) -> tuple[object, str]:
        """A key or value, or its bytes in base64 and why it cannot be decoded."""
        try:
            return await decode(data, form, self._schemas), ""
        except FormatError as error:
            return base64.b64encode(data).decode(), f"not {form}: {error}"

    # --- freshness ------------------------------------------------------------------------------------------------

    async def _covered(self, definition: Definition, topic: Topic, fresh: Freshness) -> dict[int, int]:
        """Return the offsets that the table covers, once it covers those that the request asks for."""
        for number in fresh.min_offsets:
            if not 0 <= number < topic.partition_count:
                raise _invalid(f"topic {topic.name!r} has no partition {number}: it has {topic.partition_count}")
        give_up_s = self._clock.monotonic() + fresh.wait_ms / 1000
        kept = self._kept.get(definition.generation)
        covered = kept[1] if kept is not None and self._clock.monotonic() < kept[0] else None
        attempt = 0
        while covered is None or _behind(fresh, covered):
            covered = await self._positions_now(definition)
            if not (behind := _behind(fresh, covered)):
                break
            await self._catch_up(definition, topic, behind, give_up_s)
            covered = await self._positions_now(definition)
            if not (behind := _behind(fresh, covered)):
                break
            if self._clock.monotonic() >= give_up_s:
                raise await self._not_covered(definition, topic, behind, covered, fresh)
            await self._backoff.pause(attempt)
            attempt += 1
        return covered

    async def _positions_now(self, definition: Definition) -> dict[int, int]:
        positions = await _told(self._positions.read_all(definition.generation))
        covered = {number: position.covered for number, position in positions.items()}
        if len(self._kept) > 1_000:
            self._kept.clear()
        self._kept[definition.generation] = (self._clock.monotonic() + _POSITIONS_KEPT_S, covered)
        return covered

    async def _catch_up(
        self, definition: Definition, topic: Topic, behind: Mapping[int, int], give_up_s: float
    ) -> None:
        """Follow what somebody waits for. Raises KafkaError(OFFSET_OUT_OF_RANGE): there is no such record."""
        partitions = [PartitionId(topic.topic_id, number) for number in behind]
        images = await _told(self._engine.index.read_images(sorted({partition.head_id for partition in partitions})))
        ends = {}
        for partition in partitions:
            image = images[partition.head_id]
            end = 0 if image is None else view_of(image, partition).next_offset
            if behind[partition.partition] >= end:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{topic.name}-{partition.partition} ends at {end}: it has no offset {behind[partition.partition]}",
                )
            ends[partition.partition] = end
        if not definition.table.is_enabled:
            return
        try:
            await self._maintainer.catch_up(definition.table.name, topic, ends, give_up_s)
        except (StoreError, FormatError):
            return  # it is tried again

    async def _not_covered(
        self,
        definition: Definition,
        topic: Topic,
        behind: Mapping[int, int],
        covered: Mapping[int, int],
        fresh: Freshness,
    ) -> KafkaError:
        number, offset = min(behind.items())
        positions = await _told(self._positions.read(definition.generation, [number]))
        why = positions[0].error
        if not definition.table.is_enabled:
            why = f"the table is stopped: odradek tables resume {definition.table.name}"
        return KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"table {definition.table.name!r} covers {topic.name}-{number} up to {covered.get(number, 0)}, not yet "
            f"{offset}, after {fresh.wait_ms} ms: " + (why or "wait longer, or try again"),
        )

    # --- changes --------------------------------------------------------------------------------------------------

    async def changes(
        self, name: str, key: str | None, bounds: Bounds, offsets: Mapping[int, int] | None, *, wait_ms: int
    ) -> Changes:
        """Changes after some offsets, as the topic has them; wait for one if there is none.

        Args:
            key: changes of that key alone; None: of all.
            offsets: the next one to read of each partition; None: from now on, after what is there.
            wait_ms: how long to wait.
        """
        definition, topic = await self.opened(name)
        table = definition.table
        wanted = None if key is None else key_bytes(key, table.key_format)
        ends = await self._ends(topic)
        if offsets is None:
            return Changes((), ends)
        at = {number: offsets.get(number, 0) for number in range(topic.partition_count)}
        give_up_s = self._clock.monotonic() + wait_ms / 1000
        attempt = 0
        while True:
            changes: list[TableChange] = []
            failure: KafkaError | None = None
            for number, start in at.items():
                while at[number] < ends.get(number, 0) and len(changes) < _CHANGES_MAX:
                    try:
                        fetched = await _told(fetch(self._engine, topic, number, at[number], max_bytes=_CHANGES_BYTES))
                    except KafkaError as error:  # damage, or a busy store, hides no other changes
                        failure = error
                        break
                    at[number] = fetched.end
                    for record in fetched.records:
                        row = None if record.key is None else row_key_of(table, bytes(record.key))
                        if row is None or (wanted is not None and row.key != wanted) or not bounds.has(row):
                            continue
                        changes.append(
                            await self._change(table, row, number, record.offset, record.timestamp_ms, record.value)
                        )
                    if fetched.end <= start:
                        break
            if failure is not None and not changes:
                raise failure
            if changes or self._clock.monotonic() >= give_up_s:
                return Changes(
                    sorted(changes, key=lambda change: (change.timestamp_ms, change.partition, change.offset)), at
                )
            await self._backoff.pause(attempt)
            attempt += 1
            ends = await self._ends(topic)

    async def _change(
        self, table: ServedTable, row: RowKey, partition: int, offset: int, timestamp_ms: int, data: bytes | None
    ) -> TableChange:
        key, key_error = await self._decoded(row.key, table.key_format)
        value, error = (None, "") if data is None else await self._decoded(bytes(data), table.value_format)
        return TableChange(
            key,
            value,
            data is None,
            partition,
            offset,
            timestamp_ms,
            row.window_start_ms,
            row.window_end_ms,
            error or key_error,
        )

    async def _ends(self, topic: Topic) -> dict[int, int]:
        """The end of the log of each partition."""
        partitions = [PartitionId(topic.topic_id, number) for number in range(topic.partition_count)]
        images = await _told(self._engine.index.read_images(sorted({partition.head_id for partition in partitions})))
        ends = {}
        for partition in partitions:
            image = images[partition.head_id]
            ends[partition.partition] = 0 if image is None else view_of(image, partition).next_offset
        return ends


def _behind(fresh: Freshness, covered: Mapping[int, int]) -> dict[int, int]:
    """The offsets that are asked for and not covered, by partition."""
    return {number: offset for number, offset in fresh.min_offsets.items() if covered.get(number, 0) <= offset}


def _range_of(table: ServedTable, first: str | None, before: str | None, prefix: str | None) -> tuple[str, str | None]:
    """The range of `sk` of a range of keys. Raises KafkaError(INVALID_REQUEST)."""
    if prefix is not None and (first is not None or before is not None):
        raise _invalid("give a prefix, or from and to, not both")
    if prefix is not None and table.key_format not in (Format.STRING, Format.JSON):
        raise _invalid(f"keys of {table.key_format} have no prefix: give from and to")
    if prefix is not None:
        start = escaped(table, prefix.encode())
        return start, start + _ABOVE_KEYS
    low = "" if first is None else escaped(table, key_bytes(first, table.key_format))
    return low, None if before is None else escaped(table, key_bytes(before, table.key_format))


def _row_prefix(sk: str) -> str:
    """The key and window of a row, without its partition."""
    return sk.rpartition("/")[0]


def _write_cursor(sk: str) -> str:
    return base64.urlsafe_b64encode(sk.encode()).decode()


def _read_cursor(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise _invalid("the cursor is not one of a page of this table") from None


async def _told(work: Awaitable[T]) -> T:
    """Await a call to the store. Raises KafkaError in place of the store's errors."""
    try:
        return await work
    except (StoreUnavailable, OutcomeUnknown):
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the store did not answer: try again") from None
    except FormatError as error:
        raise KafkaError(error.code, str(error)) from None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
