"""The catalog: visible only when whole, refused with Kafka's errors, right under lost answers."""

from __future__ import annotations

import asyncio

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import DELETED_TOPICS_PK
from odradek.limits import HEAD_BYTES_MAX, TABLE_ITEM_BYTES_MAX
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all


@pytest.fixture
def store() -> Store:
    return memory_store()


async def refused(awaitable: object) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await awaitable  # type: ignore[misc]
    assert len(error.value.message) > 10
    return error.value.code


async def test_create_describe_list_delete(store: Store) -> None:
    topics = store.engine().topics
    created = await topics.create("b.topic_1-x", 4, {"retention.ms": "1000"})
    await topics.create("a")
    other = store.engine(1).topics
    assert [t.name for t in await other.list()] == ["a", "b.topic_1-x"]
    assert await other.get("b.topic_1-x") == created
    assert await other.get_by_id(created.topic_id) == created
    assert created.partition_count == 4
    configs = {c.name: c for c in other.describe_configs(created)}
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("1000", False)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].is_default) == ("delete", True)
    await topics.delete("b.topic_1-x")
    assert await store.engine().topics.get("b.topic_1-x") is None
    assert await store.engine().topics.get_by_id(created.topic_id) is None


async def test_what_is_refused(store: Store) -> None:
    topics = store.engine().topics
    await topics.create("t", 2)
    for name in ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\x00", "topics#1"):
        assert await refused(topics.create(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await refused(topics.create("t")) is ErrorCode.TOPIC_ALREADY_EXISTS
    for count in (0, -2, 10_001):
        assert await refused(topics.create("n", count)) is ErrorCode.INVALID_PARTITIONS
    for configs in ({"no.such": "1"}, {"retention.ms": "soon"}, {"cleanup.policy": "burn"}, {"segment.bytes": "1"}):
        assert await refused(topics.create("n", 1, configs)) is ErrorCode.INVALID_CONFIG
    assert await refused(topics.delete("n")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await refused(topics.create_partitions("t", 2)) is ErrorCode.INVALID_PARTITIONS
    assert [t.name for t in await topics.list()] == ["t"]


async def test_validate_only_changes_nothing(store: Store) -> None:
    topics = store.engine().topics
    await topics.create("v", 3, validate_only=True)
    assert await topics.list() == []
    await topics.create("t", 1)
    await topics.create_partitions("t", 5, validate_only=True)
    await topics.alter_configs("t", set={"retention.ms": "1"}, validate_only=True)
    [topic] = await topics.list()
    assert (topic.partition_count, topic.configs) == (1, {})


async def test_one_of_many_creators_wins(store: Store) -> None:
    async def create(seed: int) -> object:
        return await store.engine(seed).topics.create("t", 2)

    outcomes = await asyncio.gather(*(create(seed) for seed in range(1, 9)), return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, KafkaError)]
    assert len(refusals) == 7
    assert {refusal.code for refusal in refusals} == {ErrorCode.TOPIC_ALREADY_EXISTS}
    engine = store.engine()
    for partition in range(2):
        assert (await produce(engine, "t", partition, batch([b"a"]))).base_offset == 0


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.UNAVAILABLE, Fault.REPEATED])
async def test_a_lost_answer_of_create_and_delete_is_read_back(store: Store, fault: Fault) -> None:
    store.catalog.script[("transact", 1)] = fault
    topics = store.engine().topics
    topic = await topics.create("t", 1)
    assert (await store.engine(1).topics.get("t")) == topic
    store.catalog.script[("transact", store.catalog.count("transact") + 1)] = fault
    await topics.delete("t")
    assert await store.engine(2).topics.get("t") is None


@pytest.mark.parametrize("operation", ["get", "query", "transact"])
async def test_a_catalog_that_is_throttled_for_a_moment_is_asked_again_within_the_request(
    store: Store, operation: str
) -> None:
    engine = store.engine(catalog_cache_ms=0)
    topic = await engine.topics.create("t", 1)

    def throttle(times: int) -> None:
        used = store.catalog.count(operation)
        store.catalog.script = {(operation, used + n): Fault.UNAVAILABLE for n in range(1, times + 1)}

    for work in (
        lambda: engine.topics.get("t"),
        lambda: engine.topics.get_by_id(topic.topic_id),
        lambda: engine.topics.list(),
        lambda: engine.topics.create("other", 1),
        lambda: engine.topics.delete("other"),
        lambda: engine.group_configs.describe("g"),
        lambda: engine.group_configs.list(),
    ):
        throttle(4)
        await work()
    throttle(100)
    began_s = store.clock.monotonic()
    work = engine.topics.list if operation == "query" else lambda: engine.topics.create("another", 1)
    assert await refused(work()) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "certainly not created"
    assert store.clock.monotonic() > began_s, "it has waited in between"


async def test_grow_keeps_the_old_partitions(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    await produce(engine, "t", 0, batch([b"a"]))
    grown = await engine.topics.create_partitions("t", 3)
    assert grown.partition_count == 3
    assert (await produce(engine, "t", 2, batch([b"b"]))).base_offset == 0
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"a"]


async def test_alter_configs_sets_and_deletes(store: Store) -> None:
    topics = store.engine().topics
    await topics.create("t", 1, {"retention.ms": "5", "segment.ms": "7"})
    altered = await topics.alter_configs("t", set={"cleanup.policy": "compact"}, delete=["retention.ms"])
    assert altered.configs == {"segment.ms": "7", "cleanup.policy": "compact"}
    assert (await store.engine(1).topics.get("t")) == altered


async def test_a_topic_made_again_starts_afresh(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    await produce(engine, "t", 0, batch([b"old"]))
    await engine.topics.delete("t")
    await engine.topics.create("t", 1)
    assert await read_all(engine, "t", 0) == []
    report = await engine.maintenance.run()
    assert report.done["topics_removed"] == 1
    assert (await produce(engine, "t", 0, batch([b"new"]))).base_offset == 0


async def test_what_is_late_for_a_topic_does_not_reach_the_next_one_of_that_name(store: Store) -> None:
    topics = store.engine().topics
    await topics.create("t", 1)
    calls = store.catalog
    calls.script[("transact", calls.count("transact") + 1)] = Fault.LATE
    calls.script[("update", calls.count("update") + 1)] = Fault.LATE
    await topics.create_partitions("t", 2)  # by the second try: the first one is under way
    await topics.alter_configs("t", set={"retention.ms": "5"})
    await topics.delete("t")
    again = await topics.create("t", 1)
    assert await calls.deliver_late() == 0
    assert await store.engine(1).topics.get("t") == again
    grown = await topics.create_partitions("t", 2)  # to the version at which the late change was made
    calls.script[("update", calls.count("update") + 1)] = Fault.LATE
    await topics.alter_configs("t", set={"retention.ms": "5"})
    await topics.delete("t")
    await topics.create("t", 1)
    made = await topics.create_partitions("t", 3)
    assert made.version == grown.version
    assert await calls.deliver_late() == 0
    assert await store.engine(1).topics.get("t") == made


async def test_a_topic_that_grew_meanwhile_is_deleted_with_the_partitions_that_it_got(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = store.engine().topics
    topic = await topics.create("t", 1)
    grown = await store.engine(1).topics.create_partitions("t", 3)

    async def resolve(name: str) -> Topic:
        return topic

    monkeypatch.setattr(topics, "resolve", resolve)
    assert await topics.delete("t") == grown
    [row] = await store.catalog.query(DELETED_TOPICS_PK)
    assert row.item["n"] == 3
    heads = [PartitionId(topic.topic_id, number) for number in range(3)]
    assert await store.engine(2).index.read_heads(heads) == [None, None, None]


async def test_producer_ids_are_unique_over_engines_and_faults(store: Store) -> None:
    store.catalog.script[("update", 2)] = Fault.LOST_ANSWER
    engines = [store.engine(seed, producer_id_block=block) for seed, block in enumerate((1, 3, 2))]
    ids = [(await engine.producer_ids.init()).producer_id for _ in range(5) for engine in engines]
    assert len(set(ids)) == 15
    kept = await engines[0].producer_ids.init(producer_id=ids[0], producer_epoch=4)
    assert kept == (ids[0], 5)
    assert await refused(engines[0].producer_ids.init(producer_id=3)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.UNAVAILABLE])
async def test_growing_once_though_the_outcome_is_unknown(store: Store, fault: Fault) -> None:
    """A change that was applied though its response was lost is not refused as already there."""
    topics = store.engine().topics
    await topics.create("t", 2)
    store.catalog.script[("transact", store.catalog.count("transact") + 1)] = fault
    assert (await topics.create_partitions("t", 3)).partition_count == 3


@pytest.mark.parametrize("value", ["0" * 400, " " * 500_000 + "1", "1" * 5_000], ids=["zeros", "blanks", "digits"])
async def test_values_that_are_too_long(store: Store, value: str) -> None:
    engine = store.engine()
    await engine.topics.create("t")
    assert await refused(engine.topics.alter_configs("t", set={"retention.ms": value})) is ErrorCode.INVALID_CONFIG
    altered = engine.group_configs.alter("g", set={"share.session.timeout.ms": value})
    assert await refused(altered) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("name", ["item_bytes_max", "offset_metadata_bytes_max", "head_bytes_max"])
def test_settings_that_no_item_holds(store: Store, name: str) -> None:
    with pytest.raises(KafkaError, match=name):
        store.engine(**{name: TABLE_ITEM_BYTES_MAX})


def test_the_longest_head_that_a_setting_may_ask_for(store: Store) -> None:
    """The rest of the item is for what one request adds."""
    store.engine(head_bytes_max=HEAD_BYTES_MAX)
    for refused_bytes in (HEAD_BYTES_MAX + 1, 0):
        with pytest.raises(KafkaError, match=f"head_bytes_max must be between 1 and 102400, not {refused_bytes}: "):
            store.engine(head_bytes_max=refused_bytes)
