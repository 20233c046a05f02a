"""A served table is the fold of its topic: the latest record of each key, tombstones deleted, once."""

from __future__ import annotations

import os

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.table import ServedTable, TableState
from odradek.ports.table import Compare, Key, Put
from odradek.served.follow import Ended, TableMaintainer
from odradek.served.positions import Fenced, Positions
from odradek.served.reads import Freshness

from tests.support.services.served import ALL, ANY_TIME, NOW_MS, Served


async def test_a_row_is_the_latest_record_of_its_key_and_a_tombstone_deletes_it() -> None:
    served = Served()
    await served.topic(partitions=2)
    await served.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    await served.serve()
    await served.work()
    assert [await served.value(key) for key in "abc"] == [3, 2, None]
    await served.put((b"a", None), (b"c", b"4"), partition=1)
    await served.put((b"b", None), (b"d", None), (b"e", b"5"))
    assert await served.work() > 0  # the appends have woken the maintainer by the mark
    assert [await served.value(key) for key in "bcde"] == [None, 4, None, 5]
    status = await served.parts.tables.describe("scores")
    assert (status.lag, [partition.covered for partition in status.partitions]) == (0, [6, 2])


async def test_nothing_is_polled_and_an_append_at_rest_sends_one_message() -> None:
    served = Served()
    await served.topic()
    await served.serve()
    await served.work()
    for number in range(5):
        await served.put((b"a", b"%d" % number))
    assert len(served.queue.messages) == 1
    await served.work()
    assert await served.value("a") == 4
    assert not served.queue.messages


async def test_the_same_messages_wake_every_table_of_the_topic() -> None:
    served = Served()
    await served.topic()
    await served.serve("one")
    await served.serve("two", value_format="BYTES")
    await served.work()
    await served.put((b"a", b"7"))
    await served.work()
    assert await served.value("a", "one") == 7
    assert await served.value("a", "two") == "Nw=="


async def test_who_comes_late_with_old_records_changes_nothing() -> None:
    """A maintainer that stalls between its reading and its writing, and wakes when all is done."""
    served = Served()
    await served.topic()
    await served.serve()
    await served.work()
    await served.put((b"kept", b"1"), (b"gone", b"1"), (b"new", b"1"))
    late = served.process().maintainer
    definition = await served.parts.reader.table("scores")
    topic = await served.engine.topics.resolve("scores")
    positions = Positions(served.store.rows)
    [position] = await positions.read(definition.generation, [0])
    taken = await positions.take(definition.generation, position, NOW_MS)
    assert taken is not None
    fetched = await late._fetch(topic, taken)

    served.clock.advance(60)  # its lease is over
    await served.put((b"kept", b"2"), (b"gone", None), (b"new", None))
    await served.work()
    before = served.store.rows._partitions.copy()
    with pytest.raises(Fenced):
        await late._step(definition, topic, taken, fetched)
    with pytest.raises(Fenced):
        await positions.advance(definition.generation, taken)
    assert [await served.value(key) for key in ("kept", "gone", "new")] == [2, None, None]
    assert served.store.rows._partitions == before


async def test_two_maintainers_at_once_and_a_repeated_one_leave_the_same_rows() -> None:
    served = Served()
    await served.topic()
    await served.serve()
    served.queue.messages.clear()
    await served.put((b"a", b"1"), (b"b", b"1"))
    topic = await served.engine.topics.resolve("scores")
    first = await served.parts.maintainer.catch_up("scores", topic, {0: 2}, 1e9)
    again = await served.process().maintainer.catch_up("scores", topic, {0: 2}, 1e9)
    assert (first, again) == ([Ended.CAUGHT_UP], [])
    status = await served.parts.tables.describe("scores")
    assert status.partitions[0].changes == 2


async def test_a_maintainer_leaves_a_partition_alone_at_which_another_one_is() -> None:
    served = Served()
    await served.topic()
    await served.serve()
    await served.put((b"a", b"1"))
    definition = await served.parts.reader.table("scores")
    positions = Positions(served.store.rows)
    [position] = await positions.read(definition.generation, [0])
    await positions.take(definition.generation, position, NOW_MS)
    topic = await served.engine.topics.resolve("scores")
    assert await served.parts.maintainer.catch_up("scores", topic, {0: 1}, 1e9) == [Ended.BUSY]
    served.clock.advance(21)
    assert await served.parts.maintainer.catch_up("scores", topic, {0: 1}, 1e9) == [Ended.CAUGHT_UP]


async def test_a_value_that_is_too_large_is_counted_and_told_and_stops_nothing() -> None:
    served = Served()
    await served.topic()
    await served.serve(value_format="BYTES")
    huge = os.urandom(500_000)
    await served.put((b"a", b"1"), (b"huge", huge), (b"b", b"2"), (b"k" * 2_000, b"3"))
    await served.work()
    assert await served.value("b") == "Mg=="
    [row] = await served.rows("huge")
    assert row.value is None
    assert row.error == "the value of 500000 bytes is too large for a table: read scores-0 at offset 1"
    status = await served.parts.tables.describe("scores")
    assert (status.partitions[0].too_large, status.lag, status.last_error) == (2, 0, "")
    await served.put((b"huge", b"now small"))
    await served.work()
    assert await served.value("huge") == "bm93IHNtYWxs"


async def test_records_without_a_key_are_counted() -> None:
    served = Served()
    await served.topic()
    await served.serve()
    await served.engine.topics.alter_configs("scores", set={"cleanup.policy": "delete"})
    await served.put((None, b"1"), (b"a", b"2"))
    await served.work()
    status = await served.parts.tables.describe("scores")
    assert (status.partitions[0].unusable, status.partitions[0].changes) == (1, 1)


async def test_a_recreated_topic_is_an_empty_table_and_the_old_rows_are_removed() -> None:
    served = Served()
    await served.topic()
    await served.put((b"a", b"1"))
    await served.serve()
    await served.work()
    await served.engine.topics.delete("scores")
    with pytest.raises(KafkaError, match="was deleted: create it again, or drop the table") as refused:
        await served.rows("a")
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await served.parts.tables.describe("scores")).state == "NO_TOPIC"
    await served.topic()
    assert await served.value("a") is None
    await served.put((b"b", b"2"))
    await served.parts.sweep.run()
    await served.work()
    assert await served.value("b") == 2
    await served.parts.sweep.run()
    await served.work()
    definition = await served.parts.reader.table("scores")
    left = {pk for pk in served.store.rows._partitions if not pk.startswith(definition.generation)}
    assert not left


async def test_a_log_that_was_restored_to_an_earlier_time_is_read_anew() -> None:
    served = Served()
    await served.topic()
    await served.put((b"a", b"1"))
    await served.serve()
    await served.work()
    definition = await served.parts.reader.table("scores")
    [position] = await Positions(served.store.rows).read(definition.generation, [0])
    key = Key(definition.generation, "000000")
    item = await served.store.rows.get(key)
    assert item is not None
    await served.store.rows.put(Put(key, {**item, "o": 10}))  # as if nine more records had been there
    await served.parts.sweep.run()
    await served.work()
    await served.work()
    again = await served.parts.reader.table("scores")
    assert again.generation != definition.generation
    assert await served.value("a") == 1
    assert position.covered == 1


async def test_records_that_retention_has_deleted_are_passed_over_and_counted() -> None:
    served = Served()
    await served.topic(cleanup_policy="compact,delete")
    await served.put((b"a", b"1"), (b"b", b"1"))
    await served.put((b"c", b"1"))
    from odradek.model.log import DeleteRecordsPartition

    await served.engine.delete_records([DeleteRecordsPartition("scores", 0, 2)])
    await served.serve()
    await served.work()
    assert [await served.value(key) for key in "abc"] == [None, None, 1]
    assert (await served.parts.tables.describe("scores")).partitions[0].lost == 2


async def test_rows_expire_with_the_topics_retention() -> None:
    served = Served()
    await served.topic(cleanup_policy="compact,delete", retention_ms="60000")
    table = await served.serve()
    assert table.retention_ms == 60_000
    await served.put((b"a", b"1"))
    await served.work()
    assert await served.value("a") == 1
    served.clock.advance(62)
    assert await served.value("a") is None
    await served.parts.sweep.run()
    definition = await served.parts.reader.table("scores")
    assert f"{definition.generation}#0" not in served.store.rows._partitions
    await served.put((b"a", b"2"), at_ms=served.clock.now_ms())
    await served.work()
    assert await served.value("a") == 2


async def test_a_key_that_moves_to_another_partition_is_its_newest_record_and_stays_deleted() -> None:
    served = Served()
    await served.topic(partitions=1)
    await served.put((b"a", b"1"), (b"b", b"1"))
    await served.serve()
    await served.work()
    await served.engine.topics.create_partitions("scores", 3)
    await served.put((b"a", b"2"), (b"b", None), partition=2, at_ms=NOW_MS + 1)
    await served.parts.sweep.run()
    await served.work()
    assert [await served.value(key) for key in "ab"] == [2, None]
    answer = await served.parts.reader.range("scores", (None, None, None), ALL, ANY_TIME, limit=10)
    assert [(row.key, row.value) for row in answer.rows] == [("a", 2)]


async def test_a_stopped_table_answers_what_it_has_and_a_resumed_one_goes_on() -> None:
    served = Served()
    await served.topic()
    await served.put((b"a", b"1"))
    await served.serve()
    await served.work()
    await served.parts.tables.stop("scores")
    await served.put((b"a", b"2"))
    await served.work()
    assert await served.value("a") == 1
    with pytest.raises(KafkaError, match="the table is stopped: odradek tables resume scores") as refused:
        await served.parts.reader.get("scores", "a", ALL, Freshness({0: 1}, 0))
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    table = await served.parts.tables.resume("scores")
    assert table.state == TableState.ENABLED
    await served.work()
    assert await served.value("a") == 2


async def test_a_dropped_table_leaves_nothing_and_may_be_served_again() -> None:
    served = Served()
    await served.topic()
    await served.put((b"a", b"1"))
    await served.serve()
    await served.work()
    await served.parts.tables.drop("scores")
    with pytest.raises(KafkaError, match="there is no served table 'scores'"):
        await served.rows("a")
    await served.parts.sweep.run()
    await served.work()
    assert not served.store.rows._partitions
    await served.serve(value_format="STRING")
    await served.work()
    assert await served.value("a") == "1"
    served.clock.advance(90_000)
    await served.parts.sweep.run()
    await served.work()
    assert not await served.store.catalog.query("dropped-tables")


async def test_a_process_sees_its_own_changes_of_a_table_at_once() -> None:
    """Definitions are kept for five seconds, also that there is none."""
    served = Served(catalog_cache_ms=5_000)
    await served.topic()
    with pytest.raises(KafkaError, match="there is no served table 'scores'"):
        await served.rows("a")
    await served.serve()
    assert (await served.parts.reader.table("scores")).table.is_enabled
    await served.parts.tables.stop("scores")
    assert not (await served.parts.reader.table("scores")).table.is_enabled


async def test_a_removal_that_is_cut_short_is_finished_by_the_next() -> None:
    served = Served()
    await served.topic()
    await served.put(*((b"%d" % number, b"1") for number in range(20)))
    await served.serve()
    await served.work()
    generation = (await served.parts.reader.table("scores")).generation
    await served.parts.tables.drop("scores")
    served.clock.advance(90_000)  # it is looked at for a day
    removal = served.parts.maintainer._removal
    await removal.run(generation, served.clock.monotonic())
    assert await served.store.catalog.query("dropped-tables"), "there was no time to look for rows"
    await removal.run(generation, served.clock.monotonic() + 60)
    assert not served.store.rows._partitions
    assert not await served.store.catalog.query("dropped-tables")


async def test_what_a_lost_message_left_is_found_by_the_sweep() -> None:
    served = Served()
    await served.topic()
    await served.serve()
    await served.work()
    await served.put((b"a", b"1"))
    served.queue.messages.clear()
    sent, failures = await served.parts.sweep.run()
    assert (sent, failures) == (1, [])
    await served.work()
    assert await served.value("a") == 1
    assert (await served.parts.sweep.run())[0] == 0


async def test_a_batch_that_cannot_be_read_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served()
    await served.topic()
    await served.serve()
    await served.put((b"a", b"1"))

    async def broken(*_: object) -> None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "batch 0 of scores-0 is damaged")

    with monkeypatch.context() as patched:
        patched.setattr(TableMaintainer, "_fetch", broken)
        message = served.queue.messages[0]
        served.queue.messages = [message]
        from odradek.engine.marks import decode_wake

        topic = await served.engine.topics.resolve("scores")
        await served.parts.maintainer.handle(topic, decode_wake(message), 1e9)
    status = await served.parts.tables.describe("scores")
    assert status.last_error == "batch 0 of scores-0 is damaged"
    await served.work()
    status = await served.parts.tables.describe("scores")
    assert (status.last_error, await served.value("a")) == ("", 1)


async def test_a_row_that_has_no_offset_to_compare_is_written_only_by_who_has_the_partition() -> None:
    """The condition by which the rest holds: an insert is one transaction with the position."""
    served = Served()
    await served.topic()
    await served.serve()
    await served.put((b"a", b"1"))
    transactions: list[list[object]] = []
    original = served.store.rows.transact

    async def transact(operations: object) -> None:
        transactions.append(list(operations))  # type: ignore[call-overload]
        await original(operations)  # type: ignore[arg-type]

    served.store.rows.transact = transact  # type: ignore[method-assign, assignment]
    await served.work()
    [[check, _put]] = transactions
    assert check.condition == Compare(("e",), "=", 1)  # type: ignore[attr-defined]


async def test_a_maintainer_that_does_not_know_a_new_table_yet_misses_nothing() -> None:
    """Its definitions are five seconds old: a message with a name has it read them, and a second message comes."""
    served = Served(catalog_cache_ms=5_000)
    await served.topic()
    await served.serve("first")
    await served.work()  # it knows the first alone
    second = await served.process().tables.serve(served_as("second"))
    assert len(served.queue.messages) == 2  # now, and when nobody's copy is older
    await served.work()
    await served.put((b"a", b"1"))
    await served.work()
    assert second.name == "second"
    assert [await served.value("a", name) for name in ("first", "second")] == [1, 1]


def served_as(name: str) -> ServedTable:
    return ServedTable(name=name, topic="scores")
