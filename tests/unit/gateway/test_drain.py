"""A gateway that stops lets its connections go one after the other: their clients all connect again elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any, cast

import pytest
from odradek.gateway import Gateway, Listener
from odradek.gateway.connection import Connection
from odradek.system import SystemClock
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, memory_store

DRAIN_S = 4.0


class Asked:
    """A connection that is told to end, and ends when its last request is answered."""

    def __init__(self, gateway: Gateway, store: Store, times_told: Counter[float], *, ends: bool) -> None:
        self._gateway, self._store, self._told, self._ends = gateway, store, times_told, ends

    def drain(self) -> None:
        self._told[round(self._store.clock.monotonic(), 3)] += 1
        if self._ends:
            del self._gateway._connections[cast(Connection, self)]


def opened(store: Store, count: int, *, ends: bool = True) -> tuple[Gateway, Counter[float]]:
    gateway = Gateway(store.engine(), Listener(port=0), clock=store.clock, rng=store.engine().rng)
    times_told: Counter[float] = Counter()
    connections: Any = {Asked(gateway, store, times_told, ends=ends): None for _ in range(count)}
    gateway._connections = connections
    return gateway, times_told


@pytest.mark.parametrize("count", [500, 2_000, 10_000])
async def test_connections_are_told_within_half_of_the_time_and_not_at_once(count: int) -> None:
    store = memory_store()
    gateway, times_told = opened(store, count)
    began_s = store.clock.monotonic()
    await gateway._drain(began_s + DRAIN_S)
    assert times_told.total() == count
    assert max(times_told) - began_s <= DRAIN_S / 2 + 0.1
    assert max(times_told.values()) <= max(16, count // 90), "some hundredth part at a time"


async def test_few_connections_are_told_at_once() -> None:
    store = memory_store()
    gateway, times_told = opened(store, 10)
    await gateway._drain(store.clock.monotonic() + DRAIN_S)
    assert len(times_told) == 1


async def test_those_that_do_not_end_are_waited_for_no_longer_than_the_time() -> None:
    store = memory_store()
    gateway, times_told = opened(store, 100, ends=False)
    began_s = store.clock.monotonic()
    await gateway._drain(began_s + DRAIN_S)
    assert times_told.total() == 100
    assert DRAIN_S <= store.clock.monotonic() - began_s < DRAIN_S + 0.1


async def test_a_gateway_whose_broker_id_was_taken_takes_no_more_connections() -> None:
    """Its leadership is another process's: what a client sent to it would only be fenced."""
    gateway = Gateway(memory_store().engine(), Listener(port=0), clock=SystemClock(), rng=SeededRng(0))
    async with gateway:
        host, _, port = gateway.bootstrap_servers.rpartition(":")
        _, kept = await asyncio.open_connection(host, int(port))
        while not gateway.connection_count:
            await asyncio.sleep(0.01)
        gateway.lost.set()
        reader, refused = await asyncio.open_connection(host, int(port))
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 30) == b""
        assert gateway.connection_count == 1
        for writer in (kept, refused):
            writer.close()
