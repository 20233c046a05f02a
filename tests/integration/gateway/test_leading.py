"""A gateway with a broker id leads what is written to through it, and gives it back when it stops."""

from __future__ import annotations

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.gateway import Gateway, Listener
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.system import SystemClock, SystemRng

from tests.support.engine import batch, produce
from tests.support.kafka import port
from tests.support.kafka.port import Message


async def test_a_gateway_leads_and_the_fleet_takes_over() -> None:
    import asyncio

    clock, tables = SystemClock(), MemoryStore()
    objects = MemoryObjectStore(clock)

    def engine(broker_id: int) -> Engine:
        return Engine(tables=tables, objects=objects, clock=clock, rng=SystemRng(), broker_id=broker_id)

    fleet, leading = engine(FLEET_BROKER_ID), engine(7)
    await fleet.topics.create("t", 1)
    async with Gateway(leading, Listener(port=0), clock=clock, rng=SystemRng()) as gateway:
        offsets = await asyncio.to_thread(
            port.confluent_produce, gateway.bootstrap_servers, "t", [Message(None, b"%d" % i) for i in range(3)]
        )
        assert offsets == [0, 1, 2]
        assert len(leading.leaders._claims) == 1
        assert [broker.broker_id for broker in (await fleet.leader_view([])).brokers] == [7]
    result = await produce(fleet, "t", 0, batch([b"after"]))
    assert (result.error, result.base_offset) == (0, 3)
    assert list((await engine(FLEET_BROKER_ID).leader_view([])).brokers) == []
