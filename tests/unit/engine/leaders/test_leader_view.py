"""Leaders of partitions, as metadata shows them, and the cost of a look."""

from __future__ import annotations

import pytest
from odradek.engine.engine import Engine
from odradek.engine.leaders.view import UNKNOWN_LEADER_EPOCH
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.testing.faults import Fault
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce


@pytest.fixture
def store() -> Store:
    return memory_store(per_head=1)


async def gateway(store: Store, broker_id: int) -> Engine:
    engine = Engine(
        tables=store.tables,
        objects=store.objects,  # type: ignore[arg-type]
        clock=store.clock,
        rng=SeededRng(broker_id),
        settings=Settings(),
        broker_id=broker_id,
    )
    await engine.leaders.register("gateway", 9000 + broker_id)
    return engine


async def leaders(engine: Engine, topic: Topic) -> list[tuple[int, int]]:
    view = await engine.leader_view([topic])
    return [view.leader_of(PartitionId(topic.topic_id, number)) for number in range(topic.partition_count)]


async def test_without_gateways_no_head_is_read(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.create("t", 500)
    store.log.calls.clear()
    store.catalog.calls.clear()
    for _ in range(3):
        assert await leaders(engine, topic) == [(FLEET_BROKER_ID, 0)] * 500
    assert store.log.calls == []
    assert store.catalog.calls == ["query"], "known for a moment"


async def test_leaders_and_epochs_come_from_the_heads(store: Store) -> None:
    engine = store.engine(leader_cache_ms=0)
    topic = await engine.topics.create("t", 3)
    one, two = await gateway(store, 1), await gateway(store, 2)
    await produce(one, "t", 0, batch([b"a"]))
    await produce(two, "t", 1, batch([b"a"]))
    view = await engine.leader_view([topic])
    assert [(broker.broker_id, broker.port) for broker in view.brokers] == [(1, 9001), (2, 9002)]
    assert await leaders(engine, topic) == [(1, 1), (2, 1), (FLEET_BROKER_ID, 0)]
    await two.leaders.release_all()
    assert await leaders(engine, topic) == [(1, 1), (FLEET_BROKER_ID, 2), (FLEET_BROKER_ID, 0)]


async def test_a_partition_whose_gateway_is_gone_is_shown_as_the_fleets(store: Store) -> None:
    engine = store.engine(leader_cache_ms=0)
    topic = await engine.topics.create("t", 1)
    await produce(await gateway(store, 1), "t", 0, batch([b"a"]))
    store.clock.advance(11)
    assert await leaders(engine, topic) == [(FLEET_BROKER_ID, 1)]
    assert (await engine.leader_view([topic])).brokers == ()


async def test_many_partitions_are_one_batch_read(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.create("t", 250)
    await gateway(store, 1)
    store.log.calls.clear()
    await leaders(engine, topic)
    assert store.log.calls == ["get_many"], "which the port cuts into a hundred a request"


@pytest.mark.parametrize("call", ["query", "get_many"])
async def test_a_store_that_is_away_makes_leaders_unknown_not_wrong(store: Store, call: str) -> None:
    engine = store.engine(leader_cache_ms=0)
    topic = await engine.topics.create("t", 2)
    await gateway(store, 1)
    port = store.catalog if call == "query" else store.log
    port.script[(call, port.count(call) + 1)] = Fault.UNAVAILABLE
    assert await leaders(engine, topic) == [(FLEET_BROKER_ID, UNKNOWN_LEADER_EPOCH)] * 2
