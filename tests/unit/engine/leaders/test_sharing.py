"""Gateways share the heads: each takes what is dealt to it, gives back the rest, and leaves without a gap."""

from __future__ import annotations

from collections import Counter

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, StoreUnavailable
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.testing.faults import Fault
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce

COUNT = 12


@pytest.fixture
def store() -> Store:
    return memory_store(per_head=1)


@pytest.fixture
async def topic(store: Store) -> Topic:
    return await store.engine().topics.create("t", COUNT)


async def gateway(store: Store, broker_id: int, rack: str | None = None) -> Engine:
    engine = Engine(
        tables=store.tables,
        objects=store.objects,  # type: ignore[arg-type]
        clock=store.clock,
        rng=SeededRng(broker_id),
        settings=Settings(leader_cache_ms=0),
        broker_id=broker_id,
    )
    await engine.leaders.register(f"gateway-{broker_id}", 9092, rack)
    engine.leaders._is_balanced = True  # as run_balance does first
    return engine


async def shown(engine: Engine, topic: Topic) -> list[int]:
    view = await engine.leader_view([topic])
    return [view.leader_of(PartitionId(topic.topic_id, number))[0] for number in range(COUNT)]


async def write_where_shown(engines: dict[int, Engine], by: int, topic: Topic) -> Counter[int]:
    """One batch to each partition, at the gateway that metadata names."""
    leaders = await shown(engines[by], topic)
    for number, leader in enumerate(leaders):
        assert (await produce(engines[leader], "t", number, batch([b"x"]))).error is ErrorCode.NONE
    return Counter(leaders)


async def test_metadata_of_gateways_deals_the_fleets_partitions_and_each_takes_its_own(
    store: Store, topic: Topic
) -> None:
    engines = {number: await gateway(store, number) for number in (1, 2, 3)}
    assert await shown(engines[1], topic) == await shown(engines[2], topic)
    assert set((await write_where_shown(engines, 1, topic)).values()) == {4}
    assert [len(engine.leaders._claims) for engine in engines.values()] == [4, 4, 4]
    assert await shown(store.engine(leader_cache_ms=0), topic) == await shown(engines[1], topic)


async def test_a_gateway_does_not_take_what_is_dealt_to_another(store: Store, topic: Topic) -> None:
    engines = {number: await gateway(store, number) for number in (1, 2)}
    number = (await shown(engines[1], topic)).index(2)
    refused = await produce(engines[1], "t", number, batch([b"x"]))
    assert (refused.error, refused.current_leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert (await produce(engines[2], "t", number, batch([b"x"]))).base_offset == 0


async def test_a_new_gateway_gets_its_share_and_no_record_is_refused_for_good(store: Store, topic: Topic) -> None:
    engines = {1: await gateway(store, 1)}
    assert await write_where_shown(engines, 1, topic) == {1: COUNT}
    engines[2] = await gateway(store, 2)
    assert await shown(engines[1], topic) == [1] * COUNT, "what it leads it keeps until it gives it back"
    await engines[1].leaders.balance()
    assert Counter(await shown(engines[2], topic)) == {1: COUNT // 2, 2: COUNT // 2}
    assert await write_where_shown(engines, 2, topic) == {1: COUNT // 2, 2: COUNT // 2}
    store.log.calls.clear()
    for engine in engines.values():
        await engine.leaders.balance()
    assert store.log.calls == [], "nothing moves once it is dealt"


async def test_a_gateway_that_leaves_hands_over_first_and_names_only_the_others(store: Store, topic: Topic) -> None:
    engines = {number: await gateway(store, number) for number in (1, 2, 3)}
    await write_where_shown(engines, 1, topic)
    assert await engines[2].leaders.leave()
    assert engines[2].leaders._claims == {}
    view = await engines[2].leader_view([topic])
    assert view.is_going
    assert [broker.broker_id for broker in view.brokers] == [1, 3]
    assert set(await shown(engines[2], topic)) == {1, 3}
    number = (await shown(engines[1], topic)).index(1)
    assert (await produce(engines[2], "t", number, batch([b"x"]))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert set(await write_where_shown(engines, 3, topic)) == {1, 3}
    await engines[2].leaders.release_all()


async def test_the_last_gateway_leads_to_the_end(store: Store, topic: Topic) -> None:
    alone = await gateway(store, 1)
    await write_where_shown({1: alone}, 1, topic)
    assert not await alone.leaders.leave()
    assert not (await alone.leader_view([])).is_going
    assert (await produce(alone, "t", 0, batch([b"x"]))).error is ErrorCode.NONE


@pytest.mark.parametrize("fault", list(Fault))
async def test_leaving_meets_any_fault_and_the_others_get_everything(store: Store, topic: Topic, fault: Fault) -> None:
    engines = {number: await gateway(store, number) for number in (1, 2)}
    await write_where_shown(engines, 1, topic)
    store.catalog.script[("update", store.catalog.count("update") + 1)] = fault
    await engines[1].leaders.leave()
    await store.catalog.deliver_late()
    await engines[1].leaders.release_all()
    assert await write_where_shown(engines, 2, topic) == {2: COUNT}


async def test_a_gateway_that_dies_is_replaced_by_the_one_to_which_its_share_is_dealt(
    store: Store, topic: Topic
) -> None:
    engines = {number: await gateway(store, number) for number in (1, 2, 3)}
    await write_where_shown(engines, 1, topic)
    store.clock.advance(8)
    for number in (1, 3):
        await engines[number].brokers.renew()
    store.clock.advance(8)
    del engines[2]
    assert set((await write_where_shown(engines, 1, topic)).values()) == {COUNT // 2}


async def test_a_store_that_is_away_moves_nothing(store: Store, topic: Topic) -> None:
    engines = {number: await gateway(store, number) for number in (1, 2)}
    await write_where_shown(engines, 1, topic)
    held = dict(engines[1].leaders._claims)
    store.clock.advance(11)  # to one that saw only itself, the other would be gone
    store.catalog.script[("query", store.catalog.count("query") + 1)] = Fault.UNAVAILABLE
    store.log.calls.clear()
    with pytest.raises(StoreUnavailable):
        await engines[1].leaders.balance()
    assert engines[1].leaders._claims == held
    assert store.log.calls == []


async def test_racks_give_each_partition_a_replica_for_their_consumers(store: Store, topic: Topic) -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "c"}
    engines = {number: await gateway(store, number, rack) for number, rack in racks.items()}
    view = await engines[1].leader_view([topic])
    for number in range(COUNT):
        partition = PartitionId(topic.topic_id, number)
        leader, _ = view.leader_of(partition)
        replicas = [leader, *view.read_replicas(partition, leader)]
        assert sorted(racks[replica] for replica in replicas) == ["a", "b", "c"]


async def test_functions_show_the_fleets_partitions_as_theirs(store: Store, topic: Topic) -> None:
    await gateway(store, 1)
    assert await shown(store.engine(leader_cache_ms=0), topic) == [FLEET_BROKER_ID] * COUNT
