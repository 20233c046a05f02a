"""Producers that have been silent for long are forgotten (Kafka's producer.id.expiration.ms).

Only rows of producers that left a head grow without bound, so only these expire: a row whose last commit (`t`, in
fact the spill floor at its eviction, which is never before it) is older than `producer_expiry_ms` is deleted, on
condition that it is still the row that was read.

A producer that returns later is unknown to the log, as in KIP-98. Over the Kafka port its next batch is accepted with
any sequence (append/order.py); a function answers UNKNOWN_PRODUCER_ID unless the sequence is 0, and the SDK continues
with a new epoch. So a batch that was committed and is sent again after
the expiry may come in a second time: the price that Kafka pays too, and the reason why the expiry (a day) is far above
any delivery timeout (minutes).

Races. An append that read the row before its deletion puts the state back into the head by its own condition: nothing
is lost. A row that is written again between read and deletion has another `o` or `t`: it stays. A row deleted between
the two steps of its eviction was that of a producer silent for as long: it is forgotten all the same. Only an
eviction that sleeps for longer than the expiry could bring an older state back, and only to a retry as old as that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.errors import ConditionFailed
from odradek.format.item_keys import PRODUCER_END, PRODUCER_PREFIX, partition_pk
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import Compare, Delete, Row, Table, all_of
from odradek.settings import Settings

_ROWS_PER_QUERY = 256


class ProducerExpiry:
    """The upkeep that forgets producers."""

    acts_on_tail = True  # the first partition of a shared head may have no more, or nothing, where others were written

    def __init__(self, log: Table, clock: Clock, settings: Settings) -> None:
        self._log = log
        self._clock = clock
        self._settings = settings

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        if not look.head.evictions:
            return False
        async for _ in self._silent(look.partition):
            return True
        return False

    async def run(self, held: HeldPartition) -> None:
        """See maintenance.Upkeep."""
        async for row in self._silent(held.partition):
            held.report.done["producers_expired"] += await self._forget(row)

    async def _silent(self, partition: PartitionId) -> AsyncIterator[Row]:
        """The rows of producers that have been silent for too long: of a shared head, with its first partition."""
        if partition != partition.head_id:
            return
        oldest_kept_ms = self._clock.now_ms() - self._settings.producer_expiry_ms
        sk_from = PRODUCER_PREFIX
        while True:
            rows = await self._log.query(
                partition_pk(partition), sk_from=sk_from, sk_to=PRODUCER_END, limit=_ROWS_PER_QUERY
            )
            for row in rows:
                if is_silent_since(row, oldest_kept_ms):
                    yield row
            if len(rows) < _ROWS_PER_QUERY:
                return
            sk_from = rows[-1].key.sk + "\0"

    async def _forget(self, row: Row) -> int:
        unchanged = [Compare((name,), "=", row.item[name]) for name in ("o", "t")]  # type: ignore[arg-type]
        try:
            await self._log.delete(Delete(row.key, all_of(*unchanged)))
        except ConditionFailed:
            return 0
        return 1


def is_silent_since(row: Row, oldest_kept_ms: int) -> bool:
    """Return True if the last commit of an evicted producer is before that time."""
    committed_ms = row.item.get("t")
    return isinstance(committed_ms, int) and isinstance(row.item.get("o"), int) and committed_ms < oldest_kept_ms
