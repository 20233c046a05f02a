"""An offset of a transaction whose write arrives late or twice does not replace a later one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from odradek.adapters.memory import MemoryTable
from odradek.engine.transactions.items import PendingOffset
from odradek.engine.transactions.store import TransactionStore
from odradek.errors import ConditionFailed
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId
from odradek.ports.table import Put
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng


class Recording:
    """A table that remembers what was put."""

    def __init__(self) -> None:
        self.table = MemoryTable()
        self.puts: list[Put] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    async def put(self, put: Put) -> None:
        self.puts.append(put)
        await self.table.put(put)


def pending(offset: int, stamp_ms: int) -> PendingOffset:
    return PendingOffset("g", PartitionId(UUID(int=7), 0), "t", OffsetAndMetadata(offset), "", -1, stamp_ms)


async def test_a_late_repetition_of_an_earlier_offset_is_refused() -> None:
    log = Recording()
    tables: Any = SimpleNamespace(log=log)

    async def no_id() -> int:
        raise AssertionError

    store = TransactionStore(tables, no_id, ManualClock(), SeededRng(1), Settings())
    await store.add_offset("tx", 1, pending(5, 1_000))
    await store.add_offset("tx", 1, pending(9, 1_000))  # the same millisecond: it takes the next stamp
    with pytest.raises(ConditionFailed):
        await log.table.put(log.puts[0])
    _, [offset], _ = await store.read_pending("tx", 1)
    assert offset.offset.offset == 9
