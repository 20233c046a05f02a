"""Numbered batches: what many processes uploaded enters many partitions in one atomic step, once for each number.

    executors   upload         validate and store; nothing becomes visible
    driver      commit         entries into all heads, and the number into the writer's row, in one transaction

Made for a writer that numbers its batches and repeats the last one after a failure, whoever runs it then: the sink of a
streaming query, by query id and batch id. The row holds the last number that was committed, so a repetition adds
nothing, also where it uploaded anew; what it uploaded is swept. Producers with sequences have no part in this.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.engine.conditional_append import NOT_APPENDED
from odradek.engine.fields import attribute, check_version
from odradek.engine.partition_index import PartitionIndex
from odradek.engine.transaction_commit import AtomicCommit, CommitWork, Failed
from odradek.engine.transaction_rows import VERSION, PendingBatches, batch_key
from odradek.engine.transaction_store import UNAVAILABLE
from odradek.engine.upload import Uploads
from odradek.errors import ErrorCode, KafkaError, StoreError, StoreUnavailable
from odradek.format.tail_entry import TailEntry
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import Absent, AnyOf, Compare, Put
from odradek.ports.tables import TableOperation, Tables
from odradek.settings import Settings

_BACKOFF_S = 0.02
_BACKOFF_S_MAX = 1.0
_KEY_BYTES_MAX = 900  # a sort key has at most 1,024 bytes


class NumberedBatches:
    """Uploads and their atomic commit; holds no state between calls."""

    def __init__(
        self, tables: Tables, index: PartitionIndex, uploads: Uploads, clock: Clock, settings: Settings
    ) -> None:
        self._tables = tables
        self._index = index
        self._uploads = uploads
        self._clock = clock
        self._settings = settings

    async def upload(self, partitions: Sequence[ProducePartition]) -> list[PendingBatches]:
        """Make batches durable for a later `commit`, by whatever process; nothing becomes visible.

        Raises KafkaError: why a partition was refused; NOT_ENOUGH_REPLICAS where the store did not take the bytes.
        """
        uploads, refused = await self._uploads.validate_all(partitions)
        for result in refused.values():
            raise KafkaError(result.error, result.message or result.error.name)
        for each in uploads:
            if any(entry.producer_id >= 0 for entry in each.entries):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "numbered batches carry no producer id")
        try:
            stored = await self._uploads.store(uploads) if uploads else []
        except StoreError:
            raise KafkaError(NOT_APPENDED.code, NOT_APPENDED.message) from None
        return [PendingBatches(each.partition, each.entries) for each in stored]

    async def last_committed(self, key: str) -> int:
        """The number of the writer's last committed batch, -1 where there is none. Raises StoreUnavailable."""
        item = await self._tables.catalog.get(batch_key(key))
        if item is None:
            return -1
        check_version(item, VERSION, "a writer of numbered batches")
        return attribute(item, "b", int)

    async def commit(self, key: str, batch_id: int, uploaded: Sequence[PendingBatches]) -> bool:
        """Append uploaded batches of many partitions in one atomic step, once for each batch id of the key.

        Args:
            key: of the writer.
            batch_id: at least 0, above those that it committed before.
            uploaded: in the order to append; at most TRANSACTION_PLACES_MAX partitions.

        Returns:
            Whether this call added them; False where this batch id, or a later one, had been committed before.

        Raises:
            KafkaError: INVALID_REQUEST; TRANSACTION_ABORTABLE: it cannot be committed, nothing was: upload it again, or
                to fewer partitions; COORDINATOR_NOT_AVAILABLE: it may have been committed, call again.
        """
        if not 0 < len(key.encode()) <= _KEY_BYTES_MAX or batch_id < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"a key has 1 to {_KEY_BYTES_MAX} bytes, a batch id is not negative"
            )
        batches: dict[PartitionId, list[TailEntry]] = {}
        for each in uploaded:
            batches.setdefault(each.partition, []).extend(each.entries)
        is_next = AnyOf((Absent(("v",)), Compare(("b",), "<", batch_id)))
        deciding = TableOperation("catalog", Put(batch_key(key), {"v": VERSION, "b": batch_id}, is_next))
        failed: Failed | None = None
        maybe_applied = False
        for attempt in range(self._settings.group_attempts_max):
            try:
                if await self.last_committed(key) >= batch_id:
                    return maybe_applied
            except StoreUnavailable:
                await self._back_off(attempt)
                continue
            if failed is not None:  # and what stands in its way now stands in the way of its late attempts, too
                raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, f"batch {batch_id} of {key!r}: {failed.message}")
            commit = AtomicCommit(self._tables, self._index, self._clock, CommitWork(batches))
            outcome = await commit.attempt(deciding)
            if outcome == "applied":
                await commit.spill()
                return True
            if isinstance(outcome, Failed):
                failed = outcome
            else:
                maybe_applied |= outcome == "unknown"
                await self._back_off(attempt)
        raise UNAVAILABLE

    async def _back_off(self, attempt: int) -> None:
        await self._clock.sleep(min(_BACKOFF_S * 2**attempt, _BACKOFF_S_MAX))
