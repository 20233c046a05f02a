"""The tail of a quiet partition is the active segment: rolled when it is as old as one may become."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of

DAY_S = 86_400
HOUR_S = 3_600
SETTINGS = {"merge_rows_min": 1, "merge_age_ms": 0, "merge_delay_ms": 0}


@pytest.fixture
def store() -> Store:
    return memory_store()


async def test_a_tombstoned_key_goes_from_a_topic_that_nobody_writes_to_any_more(store: Store) -> None:
    engine = store.engine(**SETTINGS)
    configs = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.0"}
    await engine.topics.create("t", 1, {**configs, "delete.retention.ms": "60000"})
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", None)):
        await produce(engine, "t", 0, batch([value], keys=[key], timestamp_ms=store.clock.now_ms()))
    await engine.maintenance.run()
    assert len(await read_all(engine, "t", 0)) == 3, "the active segment is not compacted"
    done: Counter[str] = Counter()
    for _ in range(6):
        store.clock.advance(HOUR_S)
        done += (await engine.maintenance.run()).done
    left = [(record.key, record.value) for record in await read_all(engine, "t", 0)]
    assert left == [(b"b", b"2"), (b"a", None)], "the tombstone itself goes with the next cleaning"
    assert done["tails_rolled"] == 1


@pytest.mark.parametrize(
    ("configs", "goes"),
    [
        ({"retention.ms": "600000"}, True),
        ({"retention.ms": "604800000"}, False),
        ({"retention.ms": "-1"}, False),
        ({"retention.ms": "600000", "cleanup.policy": "compact"}, False),
    ],
)
async def test_expired_records_go_from_a_quiet_topic(store: Store, configs: dict[str, str], goes: bool) -> None:
    engine = store.engine(**SETTINGS)
    await engine.topics.create("t", 1, configs)
    await produce(engine, "t", 0, batch([b"x"], keys=[b"k"], timestamp_ms=store.clock.now_ms()))
    store.clock.advance(HOUR_S)
    for _ in range(2):
        await engine.maintenance.run()
    head = await engine.index.read_head(await partition_of(engine, "t"))
    assert head is not None
    assert (head.log_start_offset, bool(head.tail)) == ((1, False) if goes else (0, True))


async def test_a_tail_is_rolled_by_segment_ms_and_not_before(store: Store) -> None:
    engine = store.engine(**SETTINGS)
    await engine.topics.create("t", 1, {"segment.ms": "7100000"})
    await produce(engine, "t", 0, batch([b"x"], timestamp_ms=store.clock.now_ms()))
    for _ in range(2):
        assert not (await engine.maintenance.run()).done["tails_rolled"]
        store.clock.advance(HOUR_S)
    assert (await engine.maintenance.run()).done["tails_rolled"] == 1
    assert [record.value for record in await read_all(engine, "t", 0)] == [b"x"]
    assert not (await engine.maintenance.run()).done["tails_rolled"], "there is nothing left in the tail"


async def test_max_compaction_lag_rolls_a_compacted_tail(store: Store) -> None:
    engine = store.engine(**SETTINGS)
    await engine.topics.create("t", 1, {"cleanup.policy": "compact", "max.compaction.lag.ms": "3600000"})
    await engine.topics.create("plain", 1, {"max.compaction.lag.ms": "3600000"})
    for topic in ("t", "plain"):
        await produce(engine, topic, 0, batch([b"x"], keys=[b"k"], timestamp_ms=store.clock.now_ms()))
    store.clock.advance(2 * HOUR_S)
    assert (await engine.maintenance.run()).done["tails_rolled"] == 1
