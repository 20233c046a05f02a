"""Producer ids: a counter in the catalog (InitProducerId, KIP-98).

A plain idempotent producer gets a fresh id with epoch 0. One that asks to keep its id (KIP-360) gets the next epoch.
Ids of transactional producers come from the same counter; their epochs are in separate rows (transactions.py).
Key: `counters` / `producer-id`; value: next: the next free id.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.backoff import Backoff
from odradek.engine.partition.fields import attribute
from odradek.errors import ErrorCode, KafkaError, OutcomeUnknown, StoreFull, StoreUnavailable
from odradek.format.item_keys import COUNTERS_PK, PRODUCER_ID_SK
from odradek.limits import PRODUCER_EPOCH_MAX
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Add, Key, Table, Update
from odradek.settings import Settings

_ATTEMPTS = 6


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class ProducerIds:
    """Allocation of producer ids, a block at a time."""

    def __init__(self, catalog: Table, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._catalog = catalog
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=2.0)
        self._settings = settings
        self._free: list[int] = []

    async def init(self, *, producer_id: int = -1, producer_epoch: int = -1) -> ProducerIdAndEpoch:
        """A fresh producer id, or the given one with the next epoch, for a producer without a transactional id.

        Raises KafkaError: INVALID_REQUEST, COORDINATOR_NOT_AVAILABLE, KAFKA_STORAGE_ERROR.
        """
        if (producer_id < 0) != (producer_epoch < 0):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "give both producer id and epoch to keep an id, or neither")
        if producer_id >= 0 and producer_epoch < PRODUCER_EPOCH_MAX:
            return ProducerIdAndEpoch(producer_id, producer_epoch + 1)
        return ProducerIdAndEpoch(await self.next_id(), 0)

    async def next_id(self) -> int:
        """Return a new producer id. Raises KafkaError: COORDINATOR_NOT_AVAILABLE; KAFKA_STORAGE_ERROR: no space."""
        if not self._free:
            block = self._settings.producer_id_block
            end = await self._take(block)
            self._free = list(range(end - 1, end - block - 1, -1))
        return self._free.pop()

    async def _take(self, count: int) -> int:
        """Move the counter; an unknown outcome wastes ids, which are plenty."""
        for attempt in range(_ATTEMPTS):
            try:
                image = await self._catalog.update(Update(Key(COUNTERS_PK, PRODUCER_ID_SK), (Add(("next",), count),)))
            except StoreFull as error:  # waiting makes no room: a producer that is told so can say why
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, "the disk of the store is full: free some space"
                ) from error
            except (StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(attempt)
            else:
                return attribute(image, "next", int)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no producer id could be allocated: try again")
