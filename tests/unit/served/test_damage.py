"""A served table over damaged uploads: it has what lies before, names the damage, and goes on behind it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from odradek.engine.audit.store import audit_store
from odradek.errors import ErrorCode, KafkaError
from odradek.served.reads import Freshness

from tests.support.services.served import ALL, Served


async def start(count: int, damaged: Sequence[int]) -> Served:
    """A table on a log of single records, each in an upload of its own, of which some are missing."""
    served = Served(item_bytes_max=0)
    await served.topic(partitions=2)
    for number in range(count):
        await served.put((b"%d" % number, b"%d" % number))
        served.clock.advance(0.01)
    keys = sorted((info.key for info in await served.objects.list("wal/")), key=lambda key: key[-32:])
    await served.objects.delete([keys[number] for number in damaged])
    await served.serve()
    return served


async def changes(served: Served, offsets: dict[int, int]) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Partition and offset of the changes of one answer, and the next offsets."""
    found = await served.parts.reader.changes("scores", None, ALL, offsets, wait_ms=0)
    return [(each.partition, each.offset) for each in found.changes], dict(found.offsets)


async def work_for(served: Served, seconds: float) -> None:
    """Follow both partitions; the queue has no time, so that a message for later would come at once."""
    topic = await served.engine.topics.resolve("scores")
    served.queue.messages.clear()
    await served.parts.maintainer.catch_up("scores", topic, {0: 6, 1: 1}, 1e9)
    served.clock.advance(seconds)


async def test_a_missing_upload_hides_neither_rows_before_nor_other_partitions() -> None:
    served = await start(6, [3])
    await served.put((b"other", b"7"), partition=1)
    await work_for(served, 1)
    assert [await served.value(key) for key in ("0", "2", "3", "5", "other")] == [0, 2, None, None, 7]
    status = await served.parts.tables.describe("scores")
    assert [(each.covered, bool(each.error)) for each in status.partitions] == [(3, True), (1, False)]
    assert "offset 3 of scores-0 cannot be read: " in status.last_error
    assert "is missing" in status.last_error


async def test_an_answer_that_must_contain_a_damaged_offset_names_the_damage() -> None:
    served = await start(6, [3])
    answer = await served.parts.reader.get("scores", "2", ALL, Freshness({0: 2}))
    assert [row.value for row in answer.rows] == [2]
    with pytest.raises(KafkaError, match="covers scores-0 up to 3, not yet 3") as caught:
        await served.parts.reader.get("scores", "5", ALL, Freshness({0: 3}))
    assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert "offset 3 of scores-0 cannot be read: " in caught.value.message


async def test_it_goes_on_behind_offsets_that_a_repair_gave_up() -> None:
    served = await start(6, [3])
    await work_for(served, 120)  # what was written in the last minute is skipped by a later repair
    repaired = await audit_store(served.engine, repair=True, skip_damaged=True)
    assert repaired.skipped == ["scores-0 [3, 4)"]
    await work_for(served, 1)
    assert [await served.value(key) for key in ("2", "3", "4", "5")] == [2, None, 4, 5]
    status = await served.parts.tables.describe("scores")
    assert (status.partitions[0].covered, status.last_error) == (6, "")


async def test_changes_before_the_damage_and_of_other_partitions_are_told() -> None:
    served = await start(6, [3])
    await served.put((b"other", b"7"), partition=1)
    assert await changes(served, {0: 0, 1: 0}) == ([(0, 0), (0, 1), (0, 2), (1, 0)], {0: 3, 1: 1})
    with pytest.raises(KafkaError, match="offset 3 of scores-0 cannot be read: ") as caught:
        await changes(served, {0: 3, 1: 1})
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    await served.put((b"other", b"8"), partition=1)
    assert await changes(served, {0: 3, 1: 1}) == ([(1, 1)], {0: 3, 1: 2})
    assert await changes(served, {0: 4, 1: 2}) == ([(0, 4), (0, 5)], {0: 6, 1: 2}), "a cursor behind it goes on"
