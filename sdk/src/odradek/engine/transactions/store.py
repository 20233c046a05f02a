"""Reads and writes of the rows of transactional ids and of their pending items.

A row is changed by reading it, deciding, and writing it on condition of the version that was read; if another change
was faster or the outcome is unknown, this is repeated. A decision that is repeated on the row of an earlier attempt
changes nothing more, or (InitProducerId) uses up one more epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from odradek.backoff import Backoff
from odradek.engine.transactions.decisions import FreshProducerId
from odradek.engine.transactions.items import (
    PendingBatches,
    PendingOffset,
    TransactionRow,
    batches_key,
    decode_pending,
    decode_row,
    decode_told_offset,
    encode_batches,
    encode_offset,
    encode_row,
    offset_key,
    pending_range,
    row_key,
)
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreRejected,
    StoreUnavailable,
)
from odradek.format.item_keys import TRANSACTIONAL_IDS_PK
from odradek.format.tail_entry import decode_tail_entries
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, AnyOf, Compare, Condition, Delete, Key, Put
from odradek.ports.tables import TableOperation, Tables
from odradek.settings import Settings

_PARALLEL_WRITES = 25

Decide = Callable[[TransactionRow | None, int | None], TransactionRow | FreshProducerId]
"""(the row as it stands, a fresh producer id if one was asked for) -> the row to be; the same row: nothing to write."""

unavailable = partial(
    KafkaError,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "the tables of the transaction cannot be reached or are contended: try again",
)


class TransactionStore:
    """Transactional ids in the catalog, their pending items in the log table."""

    def __init__(
        self, tables: Tables, fresh_id: Callable[[], Awaitable[int]], clock: Clock, rng: Rng, settings: Settings
    ) -> None:
        self._tables = tables
        self._fresh_id = fresh_id
        self._clock = clock
        self.backoff = Backoff(clock, rng, first_s=0.01, max_s=0.5)
        self._settings = settings

    async def read(self, transactional_id: str) -> TransactionRow | None:
        """The row by a consistent read, or None. Raises StoreUnavailable, FormatError."""
        item = await self._tables.catalog.get(row_key(transactional_id))
        return None if item is None else decode_row(transactional_id, item)

    async def read_all(self) -> list[TransactionRow]:
        """Every row, by transactional id. Raises StoreUnavailable, FormatError."""
        rows = await self._tables.catalog.query(TRANSACTIONAL_IDS_PK)
        return [decode_row(key.sk, item) for key, item in rows]

    async def change(self, transactional_id: str, decide: Decide) -> TransactionRow:
        """Bring the row to what `decide` makes of it.

        Raises what `decide` raises, and KafkaError(COORDINATOR_NOT_AVAILABLE).
        """
        for attempt in range(self._settings.group_attempts_max):
            try:
                row = await self.read(transactional_id)
                after = await self.decided(row, decide)
                if after is row:
                    return after
                written = self.next_version(row, after)
                await self._tables.catalog.put(self.write_operation(row, written))
            except (ConditionFailed, OutcomeUnknown, StoreUnavailable):
                await self.backoff.pause(attempt)
            else:
                return written
        raise unavailable()

    async def decided(self, row: TransactionRow | None, decide: Decide) -> TransactionRow:
        """Return the row after `decide`, with a new producer id if it wants one."""
        after = decide(row, None)
        if isinstance(after, FreshProducerId):
            after = decide(row, await self._fresh_id())
        assert isinstance(after, TransactionRow)
        return after

    def next_version(self, before: TransactionRow | None, after: TransactionRow) -> TransactionRow:
        """The row as it will be written."""
        version = 0 if before is None else before.version + 1
        return replace(after, version=version, updated_ms=self._clock.now_ms())

    def write_operation(self, before: TransactionRow | None, written: TransactionRow) -> Put:
        """The write of the row on the condition that it is still the one before."""
        condition: Condition = Absent(("v",)) if before is None else Compare(("n",), "=", before.version)
        return Put(row_key(written.transactional_id), encode_row(written), condition)

    def deciding_operation(self, before: TransactionRow, written: TransactionRow) -> TableOperation:
        """The same as a part of a transaction across the tables."""
        return TableOperation("catalog", self.write_operation(before, written))

    # --- pending items --------------------------------------------------------------------------------------------

    async def read_pending(
        self, transactional_id: str, number: int
    ) -> tuple[list[PendingBatches], list[PendingOffset], list[Key]]:
        """Return the pending items of a transaction, and their keys. Raises StoreUnavailable, FormatError."""
        pk, start, end = pending_range(transactional_id, number)
        rows = await self._tables.log.query(pk, sk_from=start, sk_to=end)
        batches, offsets = decode_pending(rows)
        return batches, offsets, [row.key for row in rows]

    async def add_batches(self, transactional_id: str, number: int, pending: PendingBatches) -> int:
        """Add uploaded batches to a transaction; a repetition finds the first one and changes nothing.

        Returns:
            The told offset of the item that is stored, which may be that of an earlier attempt.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER where other batches stand under that sequence;
                COORDINATOR_NOT_AVAILABLE.
        """
        put = Put(batches_key(transactional_id, number, pending), encode_batches(pending), Absent(("v",)))
        for attempt in range(self._settings.group_attempts_max):
            try:
                await self._tables.log.put(put)
            except ConditionFailed as refused:
                there = None if refused.current is None else refused.current.get("e")
                if refused.current is None or not isinstance(there, bytes):
                    continue  # it was removed in between: write it after all
                known = [(entry.base_sequence, entry.offset_count) for entry in decode_tail_entries(there)]
                if known != [(entry.base_sequence, entry.offset_count) for entry in pending.entries]:
                    raise KafkaError(
                        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                        f"other batches of the transaction begin with sequence {pending.entries[0].base_sequence}",
                    ) from None
                return decode_told_offset(refused.current)
            except (OutcomeUnknown, StoreUnavailable):
                await self.backoff.pause(attempt)
            except (ItemTooLarge, StoreRejected) as error:
                raise KafkaError(ErrorCode.INVALID_RECORD, "the store rejects so many batches at once") from error
            else:
                return pending.told_offset
        raise unavailable()

    async def add_offset(self, transactional_id: str, number: int, pending: PendingOffset) -> None:
        """Add an offset to a transaction, in place of an older one. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        key = offset_key(transactional_id, number, pending.group_id, pending.partition)
        until_s = self._clock.monotonic() + self._settings.request_timeout_ms / 1000
        for attempt in range(self._settings.group_attempts_max):
            condition = AnyOf((Absent(("v",)), Compare(("c",), "<", pending.stamp_ms)))
            try:
                await self._tables.log.put(Put(key, encode_offset(pending), condition))
            except ConditionFailed as refused:
                there = (refused.current or {}).get("c")
                if refused.current == encode_offset(pending):
                    return
                if self._clock.monotonic() > until_s:
                    break  # nobody waits for this call any more: a later offset must not be undone by it
                newest = there if isinstance(there, int) else 0
                pending = replace(pending, stamp_ms=max(pending.stamp_ms, newest) + 1)
            except (OutcomeUnknown, StoreUnavailable):
                await self.backoff.pause(attempt)
            except (ItemTooLarge, StoreRejected) as error:
                raise KafkaError(ErrorCode.OFFSET_METADATA_TOO_LARGE, "commit with shorter metadata") from error
            else:
                return
        raise unavailable()

    async def delete(self, keys: Sequence[Key]) -> int:
        """Delete pending items of an ended transaction; return how many are certainly deleted. Raises no StoreError."""
        gone = 0
        for start in range(0, len(keys), _PARALLEL_WRITES):
            some = keys[start : start + _PARALLEL_WRITES]
            results = await asyncio.gather(
                *(self._tables.log.delete(Delete(key)) for key in some), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException) and not isinstance(result, StoreError):
                    raise result
            gone += sum(not isinstance(result, BaseException) for result in results)
        return gone

    async def has_ended(self, row: TransactionRow) -> bool:
        """Return True if ended transactions of the id left anything behind. Raises StoreUnavailable."""
        pk, _, end = pending_range(row.transactional_id, _last_ended(row))
        return bool(await self._tables.log.query(pk, sk_to=end, limit=1))

    async def delete_ended(self, row: TransactionRow) -> int:
        """Delete what ended transactions of the id left behind; returns how many items. Raises StoreUnavailable."""
        pk, _, end = pending_range(row.transactional_id, _last_ended(row))
        rows = await self._tables.log.query(pk, sk_to=end)
        return await self.delete([found.key for found in rows])


def _last_ended(row: TransactionRow) -> int:
    return row.number - 1 if row.is_ongoing else row.number
