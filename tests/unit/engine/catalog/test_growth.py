"""A topic that grows to a multiple of its partitions: fences in its heads, marks, steps that a crash may cut short."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import DELETED_TOPICS_PK, GROWTHS_PK
from odradek.format.key_hash import positive_hash
from odradek.model.log import ProducePartition, ProduceResult
from odradek.model.topic import Growth
from odradek.testing.faults import Fault

from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import Store, batch, memory_store, read_all


@pytest.fixture(params=[1, 4], ids=["a head each", "shared heads"])
def store(request: pytest.FixtureRequest) -> Store:
    return memory_store(per_head=request.param)


async def send(engine: Engine, number: int, chosen_by: int | None, sequence: int = -1) -> ProduceResult:
    producer = (7, 0, sequence) if sequence >= 0 else (-1, -1, -1)
    records = batch([b"%d" % sequence], producer=producer)
    [result] = await engine.produce([ProducePartition("t", number, records, chosen_by=chosen_by)])
    return result


def test_a_key_stays_with_its_partition_or_goes_to_one_of_its_children() -> None:
    for number in range(2_000):
        key = b"%d" % number
        assert positive_hash(key) % 12 % 4 == positive_hash(key) % 4


async def test_the_marks_are_the_ends_at_the_growth(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 6)
    for number in (0, 0, 5):
        assert (await send(engine, number, 6)).error is ErrorCode.NONE
    grown = await engine.topics.create_partitions("t", 12)
    [growth] = grown.growths
    assert (growth.before, growth.after, grown.growing) == (6, 12, None)
    assert await engine.topics.get("t") == grown
    assert await store.engine(1).topics.marks_of(grown, growth) == (2, 0, 0, 0, 0, 1)


async def test_who_partitioned_by_fewer_is_refused_and_others_are_not(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 3)
    assert (await send(engine, 1, 3, sequence=0)).error is ErrorCode.NONE
    await engine.topics.create_partitions("t", 6)
    refused = await send(engine, 1, 3, sequence=1)
    assert refused.error is ErrorCode.FENCED_LEADER_EPOCH
    assert "6 partitions" in (refused.message or "")
    assert (await send(engine, 1, 3, sequence=5)).error is ErrorCode.FENCED_LEADER_EPOCH, "its predecessor, too"
    assert (await send(engine, 1, 3)).error is ErrorCode.FENCED_LEADER_EPOCH, "a plain batch, too"
    again = await send(engine, 1, 3, sequence=0)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 0), "what is in the log is acknowledged"
    assert (await send(engine, 1, 6, sequence=1)).base_offset == 1
    assert (await send(engine, 4, 6)).base_offset == 0
    assert (await send(engine, 1, None)).base_offset == 2, "of who does not say there is no telling"
    assert len(await read_all(engine, "t", 1)) == 3


async def test_a_transaction_that_partitioned_by_fewer_cannot_commit(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 3)
    for chosen_by, count in ((3, 6), (6, 6), (None, 6)):
        transactor = await Transactor(engine, f"tx-{chosen_by}").init()
        request = replace(transactor.request("t", 0, b"a"), chosen_by=chosen_by)
        [result] = await transactor.produce(request)
        assert result.error is ErrorCode.NONE
        topic = await engine.topics.get("t")
        if topic is not None and topic.partition_count < count:
            await engine.topics.create_partitions("t", count)
        if chosen_by == 3:
            with pytest.raises(KafkaError, match="has grown from 3 to 6") as error:
                await transactor.commit()
            assert error.value.code is ErrorCode.TRANSACTION_ABORTABLE
        else:
            await transactor.commit()
    assert len(await read_all(engine, "t", 0)) == 2


@pytest.mark.parametrize(("count", "configs"), [(4, {}), (6, {"odradek.growth.hold.ms": "0"})])
async def test_what_keeps_no_order_fences_nobody(store: Store, count: int, configs: dict[str, str]) -> None:
    engine = store.engine()
    await engine.topics.create("t", 3, configs)
    grown = await engine.topics.create_partitions("t", count)
    assert (grown.growths, grown.partition_count) == ((), count)
    assert (await send(engine, 1, 3)).error is ErrorCode.NONE


async def test_growing_by_a_number_that_is_no_multiple_forgets_earlier_growths(store: Store) -> None:
    topics = store.engine().topics
    await topics.create("t", 2)
    await topics.create_partitions("t", 4)
    assert len((await topics.create_partitions("t", 8)).growths) == 2
    assert (await topics.create_partitions("t", 9)).growths == ()
    assert await store.catalog.query(GROWTHS_PK) == []


async def interrupted(store: Store) -> None:
    """Begin to grow from 2 to 4 partitions, and stop after the fences."""
    calls = store.catalog
    for step in range(1, 6):
        calls.script[("transact", calls.count("transact") + step)] = Fault.UNAVAILABLE
    with pytest.raises(KafkaError):
        await store.engine(5).topics.create_partitions("t", 4)
    calls.script.clear()


async def test_whoever_meets_a_growth_that_was_cut_short_finishes_it(store: Store) -> None:
    await store.engine().topics.create("t", 2)
    await send(store.engine(), 1, 2)
    await interrupted(store)
    engine = store.engine(1)
    begun = await engine.topics.resolve("t")
    assert begun.growing == Growth(2, 4, begun.growing.at_ms if begun.growing else 0)
    assert begun.partition_count == 2
    assert (await send(engine, 1, 2)).error is ErrorCode.FENCED_LEADER_EPOCH
    await send(engine, 1, 4)  # one who has heard of more than there are: the mark may be higher than need be
    store.clock.advance(10)
    grown = await engine.topics.resume_growth(begun)
    assert (grown.partition_count, grown.growing) == (4, None)
    assert await engine.topics.marks_of(grown, grown.growths[0]) == (0, 2)
    assert await engine.topics.resume_growth(begun) == grown, "again it changes nothing"


async def test_the_next_growth_finishes_the_one_before(store: Store) -> None:
    await store.engine().topics.create("t", 2)
    await interrupted(store)
    grown = await store.engine(1).topics.create_partitions("t", 8)
    assert [(growth.before, growth.after) for growth in grown.growths] == [(2, 4), (4, 8)]


async def test_a_topic_that_was_growing_is_deleted_with_all_heads(store: Store) -> None:
    await store.engine().topics.create("t", 2)
    await store.engine().topics.create_partitions("t", 4)
    await interrupted_to_eight(store)
    engine = store.engine(1)
    topic = await engine.topics.delete("t")
    [row] = await store.catalog.query(DELETED_TOPICS_PK)
    assert row.item["n"] == 8
    assert await store.catalog.query(GROWTHS_PK) == []
    store.clock.advance(1)
    await engine.maintenance.run()
    assert not await store.log.query(f"{topic.topic_id}#4")


async def interrupted_to_eight(store: Store) -> None:
    calls = store.catalog
    for step in range(1, 6):
        calls.script[("transact", calls.count("transact") + step)] = Fault.UNAVAILABLE
    with pytest.raises(KafkaError):
        await store.engine(5).topics.create_partitions("t", 8)
    calls.script.clear()


async def test_a_process_with_an_older_copy_serves_the_new_partitions_at_once(store: Store) -> None:
    """Its client has heard of them from another process, and waits for a shorter time than copies are kept."""
    older = store.engine(catalog_cache_ms=600_000)
    await older.topics.create("t", 3)
    assert (await send(older, 1, 3)).error is ErrorCode.NONE
    store.clock.advance(1)
    await store.engine().topics.create_partitions("t", 6)
    assert (await send(older, 4, 6)).error is ErrorCode.NONE
    assert [record.value for record in await read_all(older, "t", 4)] == [b"-1"]


async def test_partitions_that_do_not_exist_cost_few_reads_however_often_they_are_named(store: Store) -> None:
    engine = store.engine(catalog_cache_ms=600_000)
    await engine.topics.create("t", 3)
    store.clock.advance(1)
    store.catalog.calls.clear()
    for _ in range(20):
        assert (await send(engine, 7, None)).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert store.catalog.calls == ["get"]
