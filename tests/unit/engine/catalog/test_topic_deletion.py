"""A deleted topic leaves nothing: heads, rows, leases, producers, segments, orphans; whatever fails on the way."""

from __future__ import annotations

from itertools import product

import pytest
from odradek.engine.audit.store import audit_store
from odradek.engine.maintenance.maintenance import MaintenancePlan
from odradek.errors import ErrorCode, StoreError
from odradek.format.item_keys import DELETED_TOPICS_PK, HEAD_SK, partition_pk
from odradek.format.maintenance_task import TaskKind
from odradek.format.object_keys import segment_key
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.examples import some
from tests.support.stores.segments import merge_by_hand, partition_of

SMALL = {"head_bytes_max": 400, "spill_entries": 1, "producers_in_head_max": 1, "sweep_interval_ms": 10**15}


async def deleted_topic(store: Store) -> PartitionId:
    """The first partition of a topic that had all that a topic can have, deleted but not yet cleared away."""
    engine = store.engine(**SMALL)
    await engine.topics.create("kept")
    await produce(engine, "kept", 0, batch([b"kept"]))
    await engine.topics.create("t", 2)
    for sequence in range(6):
        for producer_id in (1, 2, 3):
            store.clock.advance(0.01)
            records = batch([b"x"], producer=(producer_id, 0, sequence))
            assert not (await produce(engine, "t", 0, records)).error
    partition = await partition_of(engine, "t")
    await merge_by_hand(engine, partition, rows_per_segment=2)
    for number in (0, 1):
        orphan = segment_key(PartitionId(partition.topic_id, number), 7, bytes(16))
        await store.objects.put(orphan, [b"left by a maintainer that died"])
    await engine.leases.take(PartitionId(partition.topic_id, 1))
    await engine.topics.delete("t")
    return partition


async def left(store: Store, partition: PartitionId) -> list[str]:
    """Names of all that is left of the topic."""
    names = [info.key for info in await store.objects.list(f"topics/{partition.topic_id}/")]
    for number in (0, 1):
        rows = await store.log.query(partition_pk(PartitionId(partition.topic_id, number)))
        names += [f"{row.key}" for row in rows]
    rows = await store.catalog.query(DELETED_TOPICS_PK)
    return names + [f"{row.key}" for row in rows if "e" not in row.item]


async def test_one_pass_removes_everything_and_nothing_else() -> None:
    store = memory_store(per_head=1)
    partition = await deleted_topic(store)
    assert len(await left(store, partition)) > 8
    report = await store.engine(1, **SMALL).maintenance.run()
    assert report.done["topics_removed"] == 1
    assert await left(store, partition) == []
    assert [record.value for record in await read_all(store.engine(2), "kept", 0)] == [b"kept"]


@pytest.mark.parametrize("per_head", [1, 4])
async def test_who_still_believes_in_the_topic_finds_no_head_rather_than_one_without_its_rows(per_head: int) -> None:
    """Also when who deleted the topic died before its heads were gone, and maintenance removes them."""
    store = memory_store(per_head=per_head)
    engine = store.engine(**SMALL)
    await engine.topics.create("t", 2)
    partition = await partition_of(engine, "t")
    for sequence in range(30):
        store.clock.advance(0.01)
        assert not (await produce(engine, "t", 0, batch([b"x"], producer=(1, 0, sequence)))).error
    before = len(await store.log.query(partition_pk(partition)))
    assert before > 2, "there are pages or rows beside the head"
    for deleted in range(before):
        store.log.script = {
            ("delete", store.log.count("delete") + n): Fault.UNAVAILABLE for n in range(deleted, before)
        }
        try:
            await engine.index.delete_items(partition)
        except StoreError:
            pass
        store.log.script = {}
        rows = await store.log.query(partition_pk(partition))
        assert len(rows) == before or HEAD_SK not in {row.key.sk for row in rows}


async def test_what_comes_late_is_removed_before_the_topic_is_forgotten() -> None:
    """After the first pass, hours before the second: a maintainer that was at it stores its segment, a head is made."""
    store = memory_store(per_head=1)
    partition = await deleted_topic(store)
    engine = store.engine(1, **SMALL)
    await engine.maintenance.run()
    await store.objects.put(segment_key(partition, 9, bytes(16)), [b"merged meanwhile"])
    await engine.index.create_head(partition, bytes(16))
    plan = MaintenancePlan()
    await engine.maintenance.plan(plan)
    assert plan.of_kind(TaskKind.TOPIC_DELETION) == [], "nothing is looked at in vain"
    report = await audit_store(engine)
    assert (report.findings, report.pending["deletions"]) == ([], 1)
    store.clock.advance(engine.settings.sweep_recheck_hours * 3600)
    assert (await engine.maintenance.run()).done["topics_forgotten"] == 1
    assert await left(store, partition) == []
    assert await store.catalog.query(DELETED_TOPICS_PK) == []
    await engine.maintenance.plan(plan)
    assert plan.of_kind(TaskKind.TOPIC_DELETION) == []


async def test_a_creation_that_comes_late_does_not_bring_a_deleted_topic_back() -> None:
    store = memory_store(per_head=1)
    store.catalog.script[("transact", 1)] = Fault.LATE
    engine = store.engine()
    await engine.topics.create("t", 1)  # by its second try
    await engine.topics.delete("t")
    await engine.maintenance.run()
    assert await store.catalog.deliver_late() == 0
    assert await store.engine(1).topics.list() == []


@pytest.mark.parametrize(("port_name", "fault"), some(product(["log", "objects", "catalog"], Fault), every=2))
async def test_cut_short_at_any_deletion_the_next_pass_removes_the_rest(port_name: str, fault: Fault) -> None:
    for n in range(1, 30):
        store = memory_store(per_head=1)
        partition = await deleted_topic(store)
        port = getattr(store, port_name)
        done = port.count("delete")
        port.script = {("delete", done + n + later): fault for later in range(60)}
        try:
            await store.engine(1, **SMALL).maintenance.run()
        except StoreError:
            pass
        reached = port.count("delete") >= done + n
        port.script = {}
        await store.engine(2, **SMALL).maintenance.run()
        await port.deliver_late()
        assert await left(store, partition) == [], n
        assert [record.value for record in await read_all(store.engine(3), "kept", 0)] == [b"kept"]
        if not reached:
            return
    assert port_name == "log"


@pytest.mark.parametrize("age_s", [20.0, 30.0])
async def test_a_produce_that_waited_longer_than_it_is_valid_meets_no_later_topic(age_s: float) -> None:
    """As in a gateway that is frozen between receiving it and appending it."""
    store = memory_store(per_head=1)
    engine = store.engine(catalog_cache_ms=0)
    await engine.topics.create("t", 1)
    request = ProducePartition("t", 0, batch([b"of the former topic"]), valid_until_s=store.clock.monotonic() + 25)
    await engine.topics.delete("t")
    await engine.topics.create("t", 1)
    store.clock.advance(age_s)
    [result] = await engine.produce([request])
    if age_s < 25:  # nobody can tell
        assert result.error is ErrorCode.NONE
    else:
        assert result.error is ErrorCode.REQUEST_TIMED_OUT
        assert "nothing was appended" in str(result.message)
        assert await read_all(engine, "t", 0) == []
