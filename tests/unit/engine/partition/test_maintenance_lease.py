"""The maintenance lease: what a taker knows of the former holder's last swap."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.partition.maintenance_lease import MaintenanceLeases, lease_key
from odradek.model.topic_partition import PartitionId

from tests.support.engine import Store, memory_store

SWAPPED = (7, 40)


@pytest.fixture
async def store() -> Store:
    store = memory_store(per_head=1)
    await store.engine().topics.create("t", 1)
    return store


class BetweenReadAndTaking:
    """A table in which something happens once, after the first read."""

    def __init__(self, table: Any, happens: Any) -> None:
        self._table, self._happens = table, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        item = await self._table.get(*args, **kwargs)
        happens, self._happens = self._happens, None
        if happens is not None:
            await happens()
        return item


async def test_a_taker_does_not_forget_a_swap_that_came_after_its_read_of_the_lease(store: Store) -> None:
    """The swap leaves the epoch as it is, so the taking is applied; its rows may not be visible yet."""
    partition = PartitionId((await store.engine().topics.resolve("t")).topic_id, 0)
    former = store.engine()
    lease = await former.leases.take(partition)
    assert lease is not None
    store.clock.advance(former.settings.maintenance_lease_ms / 1000 + 1)

    async def swap() -> None:
        await store.log.transact([lease.swap(SWAPPED)])

    taker = store.engine()
    log: Any = BetweenReadAndTaking(store.log, swap)
    taken = await MaintenanceLeases(log, store.clock, taker.rng, taker.settings).take(partition)
    assert taken is not None
    assert taken.epoch == lease.epoch + 1
    item = await store.log.get(lease_key(partition))
    assert item is not None
    assert item["s"] == b"".join(base.to_bytes(8, "big") for base in SWAPPED), "what it waits for before it reads rows"


async def test_a_holder_that_died_has_left_the_partition_unclean_the_first_one_too(store: Store) -> None:
    partition = PartitionId((await store.engine().topics.resolve("t")).topic_id, 0)
    clean_flags = []
    for _ in range(3):
        engine = store.engine()
        lease = await engine.leases.take(partition)
        assert lease is not None
        clean_flags.append(lease.was_clean)
        store.clock.advance(engine.settings.maintenance_lease_ms / 1000 + 1)
    assert clean_flags == [True, False, False]
