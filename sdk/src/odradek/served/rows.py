"""Rows: the item of one, and the writes that bring rows of a partition to a later offset.

rows    <generation>#<shard>    <key><window><partition>
        {v: 1, o: offset, t: record time, b: value | c: value, zlib | z: bytes of a value that is too large
         | neither: deleted, x: expires, s since the epoch}

The newest record of each key and window that a step has read is the row. A write depends on the stored row:

    it has the offset or a later one     nothing: it was done before, by us or by a former owner
    it is older                          one conditional write: `o` is below
    there is none                        in a transaction with the position, on condition that the epoch is ours

The last needs the transaction because a missing row has no offset to compare: it may be one that a later record has
deleted. So a late writer changes nothing, however old its records are (docs/decisions/0050).

A deletion removes the row. Only where the topic was given more partitions, so that an older row of the key may be that
of another partition, the deletion is a row of its own, which hides that one.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.backoff import Backoff
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import (
    ConditionFailed,
    FormatError,
    OutcomeUnknown,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.format.item_size import item_size
from odradek.limits import (
    TABLE_ITEM_BYTES_MAX,
    TABLE_SORT_KEY_BYTES_MAX,
    TABLE_TRANSACTION_BYTES_MAX,
    TABLE_TRANSACTION_ITEMS_MAX,
)
from odradek.ports.table import Absent, AnyOf, Check, Compare, Delete, Item, Key, Put, Table
from odradek.served.positions import Fenced

VERSION = 1
_ATTEMPTS = 8
_AT_ONCE = 16
_TRANSACTION_BYTES = TABLE_TRANSACTION_BYTES_MAX // 2
_COMPRESSED_FROM = 256  # bytes; below, a write unit is rarely saved
_OFFSET = ("o",)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as it is stored.

    Attributes:
        value: None: deleted, or too large.
        too_large: bytes of the value; 0: it is not.
        expires_s: since the epoch; 0: never.
    """

    offset: int
    timestamp_ms: int
    value: bytes | None
    too_large: int = 0
    expires_s: int = 0

    @property
    def is_deleted(self) -> bool:
        return self.value is None and not self.too_large


def encode_row(row: StoredRow) -> Item:
    """The item of a row, without its key."""
    item: Item = {"v": VERSION, "o": row.offset, "t": row.timestamp_ms}
    if row.value is not None:
        packed = zlib.compress(row.value) if len(row.value) >= _COMPRESSED_FROM else row.value
        item |= {"c": packed} if len(packed) < len(row.value) else {"b": row.value}
    elif row.too_large:
        item["z"] = row.too_large
    if row.expires_s:
        item["x"] = row.expires_s
    return item


def decode_row(item: Item) -> StoredRow:
    """Raises FormatError."""
    check_version(item, VERSION, "a row of a served table")
    value: bytes | None = None
    if "c" in item:
        try:
            value = zlib.decompress(attribute(item, "c", bytes))
        except zlib.error as error:
            raise FormatError(f"a damaged row of a served table: {error}") from None
    elif "b" in item:
        value = attribute(item, "b", bytes)
    return StoredRow(
        attribute(item, "o", int),
        attribute(item, "t", int),
        value,
        attribute(item, "z", int) if "z" in item else 0,
        attribute(item, "x", int) if "x" in item else 0,
    )


def fits_key(key: Key) -> bool:
    """Return True if a row can have this key."""
    return len(key.sk.encode()) <= TABLE_SORT_KEY_BYTES_MAX


def fitting(key: Key, row: StoredRow) -> StoredRow:
    """The row, or in its place one that says how large it is."""
    item = encode_row(row)
    if row.value is None or item_size(key.pk, key.sk, item) <= TABLE_ITEM_BYTES_MAX:
        return row
    return StoredRow(row.offset, row.timestamp_ms, None, len(row.value), row.expires_s)


class RowWriter:
    """Writes rows.

    Args:
        rows: the table.
        backoff: pauses between attempts that the table refused or did not answer.
    """

    def __init__(self, rows: Table, backoff: Backoff) -> None:
        self._rows = rows
        self._backoff = backoff

    async def apply(self, changes: Sequence[tuple[Key, StoredRow]], ours: Check, *, keeps_deletions: bool) -> None:
        """Bring rows to these, unless they are newer.

        Args:
            changes: the newest record of each row; the keys differ.
            ours: holds while the partition is ours.
            keeps_deletions: a deletion is stored.

        Raises Fenced, StoreUnavailable, FormatError.
        """
        stored = await self._read([key for key, _ in changes])
        inserts: list[tuple[Key, StoredRow]] = []
        writes: list[tuple[Key, StoredRow]] = []
        for (key, row), item in zip(changes, stored, strict=True):
            if item is None:
                if not row.is_deleted or keeps_deletions:
                    inserts.append((key, row))
            elif attribute(item, "o", int) < row.offset:
                writes.append((key, row))
        slots = asyncio.Semaphore(_AT_ONCE)

        async def write(key: Key, row: StoredRow) -> None:
            async with slots:
                if not await self._overwrite(key, row, keeps_deletions=keeps_deletions) and not row.is_deleted:
                    inserts.append((key, row))

        await asyncio.gather(*(write(key, row) for key, row in writes))
        for chunk in _chunks(inserts):
            await self._insert(chunk, ours)

    async def _read(self, keys: Sequence[Key]) -> list[Item | None]:
        for attempt in range(_ATTEMPTS):
            try:
                return await self._rows.get_many(keys)
            except StoreUnavailable:
                await self._backoff.pause(attempt)
        raise StoreUnavailable("the table of rows does not answer")

    async def _overwrite(self, key: Key, row: StoredRow, *, keeps_deletions: bool) -> bool:
        """Write over an older row; return False if there is none any more (it has expired, or we are late)."""
        older = Compare(_OFFSET, "<", row.offset)
        for attempt in range(_ATTEMPTS):
            try:
                if row.is_deleted and not keeps_deletions:
                    await self._rows.delete(Delete(key, older))
                else:
                    await self._rows.put(Put(key, encode_row(row), older))
                return True
            except ConditionFailed as refused:
                return refused.current is not None or row.is_deleted
            except (StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(attempt)
        raise StoreUnavailable("the table of rows does not answer")

    async def _insert(self, changes: Sequence[tuple[Key, StoredRow]], ours: Check) -> None:
        left = list(changes)
        for attempt in range(_ATTEMPTS):
            if not left:
                return
            puts = [
                Put(key, encode_row(row), AnyOf((Absent(_OFFSET), Compare(_OFFSET, "<=", row.offset))))
                for key, row in left
            ]
            try:
                await self._rows.transact([ours, *puts])
                return
            except TransactionCanceled as refused:
                if refused.failures[0] is not None:
                    raise Fenced from None
                left = [change for change, why in zip(left, refused.failures[1:], strict=True) if why is None]
            except (StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(attempt)
        raise StoreUnavailable("the table of rows does not answer")


def _chunks(inserts: Sequence[tuple[Key, StoredRow]]) -> list[list[tuple[Key, StoredRow]]]:
    """Transactions, by the limits of one."""
    chunks: list[list[tuple[Key, StoredRow]]] = []
    left_bytes = 0
    for key, row in inserts:
        size = item_size(key.pk, key.sk, encode_row(row))
        if not chunks or len(chunks[-1]) >= TABLE_TRANSACTION_ITEMS_MAX - 1 or size > left_bytes:
            chunks.append([])
            left_bytes = _TRANSACTION_BYTES
        chunks[-1].append((key, row))
        left_bytes -= size
    return chunks
