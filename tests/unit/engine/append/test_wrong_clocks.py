"""A process whose clock is days off costs others work, and stops nobody."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from odradek.adapters.store_clock import StoreClock
from odradek.engine.audit.decisions import FindingKind
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.topic_partition import PartitionId
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import ManualClock

from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import Store, batch, memory_store, produce, read_all

DAY_MS = 86_400_000
SPILLING = {"head_bytes_max": 400, "spill_entries": 1}


@pytest.fixture
def store() -> Store:
    return memory_store()


def ahead(store: Store, days: int = 2, *, seed: int = 9, **settings: int) -> Engine:
    """An engine of a machine whose clock is so many days off."""
    clock = ManualClock(auto_advance=True)
    clock.advance(store.clock.now_ms() / 1000 - clock.now_ms() / 1000 + days * DAY_MS / 1000)
    return Store(store.tables, store.objects, clock).engine(seed, **settings)


async def test_a_sweep_by_a_clock_two_days_ahead_stops_no_transaction(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    await produce(engine, "t", 0, batch([b"old"]))
    await engine.wal.upload(store.clock.now_ms().to_bytes(6, "big") + bytes(10), [b"lost"])
    done: Counter[str] = Counter()
    await ahead(store).sweep.run(done)
    assert done["uploads_swept"]
    store.clock.advance(1)
    producer = await Transactor(engine).init()
    await producer.send("t", 0, b"a")
    await producer.commit()
    assert [record.value for record in await read_all(engine, "t", 0)] == [b"old", b"a"]


async def test_hours_that_a_wrong_sweep_noted_are_swept_all_the_same(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    await ahead(store).sweep.run(Counter())
    store.clock.advance(1)
    await engine.wal.upload(store.clock.now_ms().to_bytes(6, "big") + bytes(10), [b"lost"])
    store.clock.advance(10 * 3600)
    done: Counter[str] = Counter()
    await engine.sweep.run(done)
    assert done["uploads_swept"] == 1


async def test_append_times_do_not_follow_a_floor_that_is_days_ahead(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1, {"message.timestamp.type": "LogAppendTime"})
    wrong = ahead(store, **SPILLING)
    for number in range(8):
        await produce(wrong, "t", 0, batch([b"%d" % number], producer=(4, 0, number)))
    for number in range(2):
        result = await produce(engine, "t", 0, batch([b"x"], producer=(5, 0, number)))
        assert result.error is ErrorCode.NONE
        assert abs(result.log_append_time_ms - store.clock.now_ms()) < 60_000
    records = await read_all(engine, "t", 0)
    assert [record.timestamp_ms - store.clock.now_ms() < 60_000 for record in records][-2:] == [True, True]


async def test_rows_of_a_floor_that_is_days_ahead_are_merged(store: Store) -> None:
    await store.engine().topics.create("t", 1)
    wrong = ahead(store, **SPILLING)
    for number in range(20):
        await produce(wrong, "t", 0, batch([b"%d" % number]))
    report = await store.engine(merge_rows_min=4).maintenance.run()
    assert report.done["rows_merged"]


async def test_a_maintainer_that_died_days_ahead_does_not_hold_its_partition_for_days(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.create("t", 1)
    partition = PartitionId(topic.topic_id, 0)
    assert await ahead(store).leases.take(partition) is not None
    assert await engine.leases.take(partition) is not None


async def test_the_stores_time_replaces_a_clock_that_is_a_minute_off_or_more() -> None:
    own = ManualClock()
    clock = StoreClock(own)
    assert clock.now_ms() == own.now_ms(), "there is nothing to compare with yet"
    store_ms = own.now_ms()
    clock.answered(store_ms + 30_000)
    assert clock.now_ms() == own.now_ms()
    clock.answered(store_ms - 2 * DAY_MS)
    assert clock.now_ms() == store_ms - 2 * DAY_MS
    own.advance(90)
    assert clock.now_ms() == store_ms - 2 * DAY_MS + 90_000
    assert clock.wants_answer()
    clock.answered(own.now_ms())
    assert not clock.wants_answer()
    assert clock.now_ms() == own.now_ms()


async def test_a_floor_that_is_days_ahead_is_found_and_lowered(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1, {"message.timestamp.type": "LogAppendTime"})
    wrong = ahead(store, **SPILLING)
    for number in range(8):
        await produce(wrong, "t", 0, batch([b"%d" % number], producer=(4, 0, number)))
    audit = await audit_store(engine)
    assert [finding.kind for finding in audit.findings] == [FindingKind.CLOCK]
    late = store.log.script
    late[("update", store.log.count("update") + 1)] = Fault.LATE
    pending = await produce(wrong, "t", 0, batch([b"8"], producer=(4, 0, 8)))
    assert not pending.error
    report = await audit_store(engine, repair=True)
    assert (report.is_clean, report.repaired["floors_lowered"]) == (True, 1)
    assert await store.log.deliver_late() == 0
    fresh = store.engine(3, **SPILLING)
    store.clock.advance(1)
    before = store.log.count("update")
    assert not (await produce(fresh, "t", 0, batch([b"9"], producer=(4, 0, 9)))).error
    assert store.log.count("update") == before + 2, "one update, and its spill: no floor stands in the way"
    duplicate = await produce(fresh, "t", 0, batch([b"9"], producer=(4, 0, 9)))
    assert duplicate.base_offset == 9
    assert [record.value for record in await read_all(fresh, "t", 0)] == [b"%d" % number for number in range(10)]


async def test_a_plain_append_whose_rows_are_searched_during_the_repair_is_not_applied_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are written under the lowered floor deny every entry that is far ahead, also one in an older row."""
    engine = store.engine(3, **SPILLING)
    await engine.topics.create("t", 1)
    wrong = ahead(store, head_bytes_max=100_000)
    store.log.script[("update", store.log.count("update") + 1)] = Fault.LOST_ANSWER
    sleep, query = wrong.clock.sleep, store.log._port.query

    async def spilled(seconds: float) -> None:
        wrong.clock.sleep = sleep  # type: ignore[method-assign]
        other = ahead(store, seed=10, **SPILLING)
        for _ in range(8):
            await produce(other, "t", 0, batch([b"x"]))
        monkeypatch.setattr(store.log._port, "query", repaired)
        await sleep(seconds)

    async def repaired(*args: Any, **bounds: Any) -> Any:
        if bounds.get("descending"):  # the search for the entry
            monkeypatch.setattr(store.log._port, "query", query)
            assert (await audit_store(engine, repair=True)).repaired["floors_lowered"]
            store.clock.advance(1)
            for _ in range(16):
                await produce(engine, "t", 0, batch([b"x"]))
        return await query(*args, **bounds)

    wrong.clock.sleep = spilled  # type: ignore[method-assign]
    result = await produce(wrong, "t", 0, batch([b"plain"]))
    values = [record.value for record in await read_all(engine, "t", 0)]
    assert values.count(b"plain") == 1
    assert result.error is ErrorCode.REQUEST_TIMED_OUT


async def test_a_plain_append_under_way_is_not_applied_twice_by_the_repair(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1)
    wrong = ahead(store, **SPILLING)
    for number in range(6):
        await produce(wrong, "t", 0, batch([b"%d" % number], producer=(4, 0, number)))
    original = engine.clock.sleep

    async def meanwhile(seconds: float) -> None:
        engine.clock.sleep = original  # type: ignore[method-assign]
        assert (await audit_store(store.engine(3), repair=True)).repaired["floors_lowered"]
        await original(seconds)

    engine.clock.sleep = meanwhile  # type: ignore[method-assign]
    store.log.script[("update", store.log.count("update") + 2)] = Fault.LOST_ANSWER  # the first is refused by the floor
    result = await produce(engine, "t", 0, batch([b"plain"]))
    assert result.error is ErrorCode.REQUEST_TIMED_OUT
    values = [record.value for record in await read_all(engine, "t", 0)]
    assert values.count(b"plain") == 1
