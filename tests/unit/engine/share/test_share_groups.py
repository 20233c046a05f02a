"""A share group as its members see it: work is shared, comes back, is done once; poison goes to the dead letters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.engine.share.window import SharePartition
from odradek.errors import ErrorCode, KafkaError
from odradek.model.group import GroupHeartbeat
from odradek.model.log import DeleteRecordsPartition
from odradek.model.share import UNSEEN, AcknowledgeType
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import ManualClock

from tests.support.clients.share_member import ACCEPT, REJECT, RELEASE, ShareMember, ack, runs_of
from tests.support.engine import Store, batch, memory_store, produce, read_all

LOCK_S = 30.0
EARLY = {"share.auto.offset.reset": "earliest"}


@pytest.fixture
def store() -> Store:
    return memory_store()


async def queue(store: Store, count: int = 10, partitions: int = 1, **configs: str) -> Engine:
    """An engine with topic `work` of so many records a partition, and the group `q` that begins at its start."""
    engine = store.engine(catalog_cache_ms=0)
    await engine.topics.create("work", partitions)
    for number in range(partitions):
        for i in range(count):
            assert not (await produce(engine, "work", number, batch([b"%d" % i]))).error
    await engine.group_configs.alter("q", set=EARLY | configs)
    return engine


async def member(engine: Engine, name: str, **options: str) -> ShareMember:
    made = ShareMember(engine, name, "work", **options)
    assert (await made.beat()).error is ErrorCode.NONE
    return made


async def window(engine: Engine, partition: PartitionId) -> SharePartition:
    [item] = await engine.share_windows.read("q", [partition])
    assert item is not None
    return item.state


async def test_two_members_share_one_partition_and_no_record_goes_to_both(store: Store) -> None:
    engine = await queue(store)
    one, two = await member(engine, "one"), await member(engine, "two")
    first = await one.fetch(max_records=4, is_strict=True)
    second = await two.fetch(max_records=4, is_strict=True)
    assert [offset for offset, _, _ in first] == [0, 1, 2, 3]
    assert [offset for offset, _, _ in second] == [4, 5, 6, 7]
    assert {count for _, count, _ in first + second} == {1}
    assert first[2][2] == b"2"


async def test_accepted_records_are_never_delivered_again(store: Store) -> None:
    engine = await queue(store, 3)
    one = await member(engine, "one")
    partition = one.of(0)
    assert len(await one.fetch()) == 3
    assert await one.acknowledge({partition: [ack(0, 2, ACCEPT)]}) == {partition: ErrorCode.NONE}
    store.clock.advance(LOCK_S * 2)
    assert await one.fetch() == []
    state = await window(engine, partition)
    assert (state.start_offset, state.runs) == (3, ())


async def test_a_crashed_members_records_come_back_after_the_lock_and_its_late_acknowledgement_is_refused(
    store: Store,
) -> None:
    engine = await queue(store, 3)
    one, two = await member(engine, "one"), await member(engine, "two")
    partition = one.of(0)
    assert len(await one.fetch()) == 3
    assert await two.fetch() == []
    store.clock.advance(LOCK_S + 0.001)
    assert [(offset, count) for offset, count, _ in await two.fetch()] == [(0, 2), (1, 2), (2, 2)]
    assert await one.acknowledge({partition: [ack(0, 0, ACCEPT)]}) == {partition: ErrorCode.INVALID_RECORD_STATE}
    assert await two.acknowledge({partition: [ack(0, 2, ACCEPT)]}) == {partition: ErrorCode.NONE}


async def test_an_expired_lock_refuses_the_acknowledgement_even_where_nobody_took_the_record(store: Store) -> None:
    engine = await queue(store, 1)
    one = await member(engine, "one")
    await one.fetch()
    store.clock.advance(LOCK_S + 0.001)
    assert await one.acknowledge({one.of(0): [ack(0, 0, ACCEPT)]}) == {one.of(0): ErrorCode.INVALID_RECORD_STATE}


@pytest.mark.parametrize(("ahead_s", "is_held"), [(0, True), (50, True), (3_500, True), (3_700, False)])
async def test_a_lock_of_a_clock_that_is_far_ahead_holds_nobody_up(store: Store, ahead_s: int, is_held: bool) -> None:
    """A wrong clock holds records for an hour at most (CLOCK_AHEAD_MS_MAX), however far ahead it is."""
    engine = await queue(store, 2)
    two = await member(engine, "two")
    wrong = ManualClock(store.clock.now_ms() + ahead_s * 1000, auto_advance=True)
    one = await member(Store(store.tables, store.objects, wrong).engine(5, catalog_cache_ms=0), "one")
    assert len(await one.fetch()) == 2
    assert [(offset, count) for offset, count, _ in await two.fetch()] == ([] if is_held else [(0, 2), (1, 2)])
    if is_held:
        store.clock.advance(ahead_s + LOCK_S + 1)
        assert len(await two.fetch()) == 2


async def test_released_records_come_back_at_once_and_rejected_ones_do_not(store: Store) -> None:
    engine = await queue(store, 3)
    one = await member(engine, "one")
    await one.fetch()
    await one.acknowledge({one.of(0): [ack(0, 2, RELEASE, REJECT, ACCEPT)]})
    assert [(offset, count) for offset, count, _ in await one.fetch()] == [(0, 2)]


async def test_acknowledgements_ride_on_the_next_fetch(store: Store) -> None:
    engine = await queue(store, 6)
    one = await member(engine, "one")
    await one.fetch(max_records=2, is_strict=True)
    got = await one.fetch(max_records=2, is_strict=True, acknowledgements={one.of(0): [ack(0, 1, ACCEPT)]})
    assert [offset for offset, _, _ in got] == [2, 3]
    assert (await window(engine, one.of(0))).start_offset == 2


async def test_a_renewed_lock_holds_for_another_duration(store: Store) -> None:
    engine = await queue(store, 1)
    one, two = await member(engine, "one"), await member(engine, "two")
    await one.fetch()
    store.clock.advance(LOCK_S - 5)
    assert await one.acknowledge({one.of(0): [ack(0, 0, AcknowledgeType.RENEW)]}, renews=True) == {
        one.of(0): ErrorCode.NONE
    }
    store.clock.advance(LOCK_S - 5)
    assert await two.fetch() == []
    assert await one.acknowledge({one.of(0): [ack(0, 0, ACCEPT)]}) == {one.of(0): ErrorCode.NONE}


async def test_a_renewal_must_be_announced_and_allowed(store: Store) -> None:
    engine = await queue(store, 1)
    one = await member(engine, "one")
    await one.fetch()
    renewal = {one.of(0): [ack(0, 0, AcknowledgeType.RENEW)]}
    assert await one.acknowledge(renewal) == {one.of(0): ErrorCode.INVALID_REQUEST}
    await engine.group_configs.alter("q", set={"share.renew.acknowledge.enable": "false"})
    response = await one.request(acknowledgements=renewal, fetches=False, renews=True)
    assert response.error is ErrorCode.INVALID_REQUEST


async def test_poison_is_given_up_after_its_last_delivery_and_goes_to_the_dead_letters_once(store: Store) -> None:
    engine = await queue(store, 3, **{"share.delivery.count.limit": "2", "errors.deadletterqueue.topic.name": "dead"})
    await engine.topics.create("dead", 1)
    one = await member(engine, "one")
    partition = one.of(0)
    await one.fetch()
    await one.acknowledge({partition: [ack(0, 2, ACCEPT, RELEASE, REJECT)]})
    [dead] = await read_all(engine, "dead", 0)
    assert dead.value == b"2"
    assert dict(dead.headers)["__dlq.errors.offset"] == b"2"
    assert [(offset, count) for offset, count, _ in await one.fetch()] == [(1, 2)]
    store.clock.advance(LOCK_S + 1)
    assert await one.fetch() == []  # no delivery is left
    letters = await read_all(engine, "dead", 0)
    assert [letter.value for letter in letters] == [b"2", b"1"]
    headers = dict(letters[1].headers)
    assert headers["__dlq.errors.topic"] == b"work"
    assert headers["__dlq.errors.group"] == b"q"
    assert headers["__dlq.errors.delivery.count"] == b"2"
    state = await window(engine, partition)
    assert (state.start_offset, state.runs) == (3, ())


async def test_a_lost_answer_makes_no_second_dead_letter(store: Store) -> None:
    engine = await queue(store, 1, **{"errors.deadletterqueue.topic.name": "dead"})
    await engine.topics.create("dead", 1)
    one = await member(engine, "one")
    await one.fetch()
    groups = store.groups
    # The window's put after the letter was written never arrives: three tries, then the request is over.
    first = groups.count("put") + 2
    for i in range(first, first + 30):
        groups.script[("put", i)] = Fault.UNAVAILABLE
    assert await one.acknowledge({one.of(0): [ack(0, 0, REJECT)]}) == {one.of(0): ErrorCode.NONE}
    assert runs_of(await window(engine, one.of(0))) == [(0, 1, "LOT")]
    groups.script.clear()
    assert await one.fetch() == []
    assert len(await read_all(engine, "dead", 0)) == 1
    assert runs_of(await window(engine, one.of(0))) == []


async def test_a_writer_that_stalled_does_not_call_the_next_dead_letter_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote the letter of one lot; another member did so too, and the window has got its next lot."""
    engine = await queue(store, 2, **{"errors.deadletterqueue.topic.name": "dead"})
    await engine.topics.create("dead", 1)
    one, two = await member(engine, "one"), await member(store.engine(catalog_cache_ms=0), "two")
    partition = one.of(0)
    await one.fetch(max_records=1, is_strict=True)
    await two.fetch(max_records=1, is_strict=True)
    put, across = store.groups._port.put, store.tables.across
    puts = [0]

    async def stalled(write: Any) -> None:
        puts[0] += 1
        if puts[0] == 2:  # the first was the rejection, this one says that its letter is written
            monkeypatch.undo()
            assert await two.fetch() == []  # writes the same letter, once, and says so
            begun = across.count("transact") + 1
            across.script = {("transact", n): Fault.UNAVAILABLE for n in range(begun, begun + 100)}
            await two.acknowledge({partition: [ack(1, 1, REJECT)]})
            across.script = {}
        await put(write)

    monkeypatch.setattr(store.groups._port, "put", stalled)
    await one.acknowledge({partition: [ack(0, 0, REJECT)]})
    assert puts[0] >= 2
    await two.fetch()
    assert [letter.value for letter in await read_all(engine, "dead", 0)] == [b"0", b"1"]
    assert (await window(engine, partition)).start_offset == 2


async def test_without_the_dead_letter_topic_a_record_waits_for_it(store: Store) -> None:
    engine = await queue(store, 1, **{"errors.deadletterqueue.topic.name": "dead"})
    one = await member(engine, "one")
    await one.fetch()
    await one.acknowledge({one.of(0): [ack(0, 0, REJECT)]})
    assert await one.fetch() == []
    await engine.topics.create("dead", 1)
    await one.fetch()
    assert len(await read_all(engine, "dead", 0)) == 1


async def test_the_window_is_bounded(store: Store) -> None:
    engine = await queue(store, 0, **{"share.partition.max.record.locks": "100"})
    assert not (await produce(engine, "work", 0, batch([b"x"] * 250))).error
    one = await member(engine, "one")
    got = await one.fetch(max_records=1000)
    assert [offset for offset, _, _ in got] == list(range(100))
    assert await one.fetch(max_records=1000) == []
    await one.acknowledge({one.of(0): [ack(0, 9, ACCEPT)]})
    assert [offset for offset, _, _ in await one.fetch(max_records=1000)] == list(range(100, 110))


async def test_closing_gives_everything_back_at_once_and_the_delivery_counts(store: Store) -> None:
    engine = await queue(store, 2)
    one, two = await member(engine, "one"), await member(engine, "two")
    await one.fetch()
    await one.close()
    assert [(offset, count) for offset, count, _ in await two.fetch()] == [(0, 2), (1, 2)]


async def test_a_delivery_that_no_application_saw_does_not_count(store: Store) -> None:
    engine = await queue(store, 3, **{"share.delivery.count.limit": "1"})
    one, two = await member(engine, "one"), await member(engine, "two")
    partition = one.of(0)
    await one.fetch(max_records=2, is_strict=True)
    await two.fetch()
    response = await one.request(-1, fetches=False, acknowledgements={partition: [ack(0, 2, ACCEPT, UNSEEN, UNSEEN)]})
    assert [result.acknowledge_error for result in response.results] == [ErrorCode.NONE]  # 2 is another member's
    assert [(offset, count) for offset, count, _ in await two.fetch()] == [(1, 1)]
    assert (await two.acknowledge({partition: [ack(1, 2, ACCEPT)]})) == {partition: ErrorCode.NONE}


@pytest.mark.parametrize("has_dead_letters", [True, False])
async def test_a_member_that_fails_on_a_record_and_closes_gets_it_as_often_as_the_limit_says(
    store: Store, has_dead_letters: bool
) -> None:
    engine = await queue(store, 2, **({"errors.deadletterqueue.topic.name": "dead"} if has_dead_letters else {}))
    await engine.topics.create("dead", 1)
    counts = []
    for life in range(8):
        one = await member(engine, f"life {life}")
        counts += [(offset, count) for offset, count, _ in await one.fetch(max_records=1, is_strict=True)]
        await one.close()
        await one.leave()
    assert counts == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 1), (1, 2), (1, 3)]
    letters = [letter.value for letter in await read_all(engine, "dead", 0)]
    assert letters == ([b"0"] if has_dead_letters else [])


async def test_sessions_have_kafkas_rules(store: Store) -> None:
    engine = await queue(store, 2)
    one = await member(engine, "one")
    assert (await one.request(1)).error is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await one.request(0, fetches=False)).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    refused = await one.request(0, acknowledgements={one.of(0): [ack(0, 0, ACCEPT)]})
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert (await one.request(0)).error is ErrorCode.NONE
    assert (await one.request(2)).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await one.request(1)).error is ErrorCode.NONE
    assert (await one.request(1)).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH  # a request that was repeated
    assert (await one.request(0)).error is ErrorCode.NONE  # opens a new one
    assert (await one.request(-1, fetches=False)).error is ErrorCode.NONE
    assert (await one.request(1)).error is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_only_members_open_sessions(store: Store) -> None:
    engine = await queue(store, 2)
    stranger = ShareMember(engine, "stranger", "work")
    assert (await stranger.request(0)).error is ErrorCode.SHARE_SESSION_NOT_FOUND
    one = await member(engine, "one")
    await one.request()
    await one.leave()
    assert (await one.request(0)).error is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_partitions_join_and_leave_a_session(store: Store) -> None:
    engine = await queue(store, 1, partitions=2)
    one = await member(engine, "one")
    await one.request(0, partitions=frozenset({one.of(0)}))
    assert {result.partition for result in one.answer.results} == {one.of(0)}
    await one.request(partitions=frozenset({one.of(1)}), forgotten=frozenset({one.of(0)}))
    assert {result.partition for result in one.answer.results} == {one.of(1)}


async def test_a_lost_answer_of_a_write_is_recognized(store: Store) -> None:
    engine = await queue(store, 4)
    one = await member(engine, "one")
    await one.fetch(max_records=1, is_strict=True)
    groups = store.groups
    groups.script[("put", groups.count("put") + 1)] = Fault.LOST_ANSWER
    groups.script[("update", groups.count("update") + 1)] = Fault.LOST_ANSWER
    got = await one.fetch(max_records=1, is_strict=True)
    assert [(offset, count) for offset, count, _ in got] == [(1, 1)]
    assert runs_of(await window(engine, one.of(0))) == [(0, 1, "ACQUIRED"), (1, 2, "ACQUIRED")]
    groups.script[("put", groups.count("put") + 1)] = Fault.LOST_ANSWER
    assert await one.acknowledge({one.of(0): [ack(0, 1, ACCEPT)]}) == {one.of(0): ErrorCode.NONE}


async def test_members_racing_for_one_partition_share_it(store: Store) -> None:
    engine = await queue(store, 30)
    members = [await member(engine, f"m{i}") for i in range(6)]
    got = await asyncio.gather(*(member.fetch(max_records=5, is_strict=True, max_wait_ms=1000) for member in members))
    offsets = sorted(offset for some in got for offset, _, _ in some)
    assert offsets == list(range(30))


async def test_a_fetch_waits_for_records(store: Store) -> None:
    engine = await queue(store, 0)
    one = await member(engine, "one")

    async def later() -> None:
        await asyncio.sleep(0)
        await produce(engine, "work", 0, batch([b"late"]))

    got, _ = await asyncio.gather(one.fetch(max_wait_ms=5_000), later())
    assert [value for _, _, value in got] == [b"late"]


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("latest", 3), ("by_duration:PT1H", 3), ("by_duration:P20000D", 0)]
)
async def test_where_a_group_begins(store: Store, reset: str, first: int) -> None:
    engine = await queue(store, 3, **{"share.auto.offset.reset": reset})
    store.clock.advance(7_200)
    one = await member(engine, "one")
    await one.fetch()
    assert (await window(engine, one.of(0))).start_offset == first


async def test_deleted_records_leave_the_window(store: Store) -> None:
    engine = await queue(store, 6)
    one = await member(engine, "one")
    await one.fetch(max_records=2, is_strict=True)
    await engine.delete_records([DeleteRecordsPartition("work", 0, 4)])
    assert [offset for offset, _, _ in await one.fetch()] == [4, 5]
    assert (await window(engine, one.of(0))).start_offset == 4


async def test_a_group_is_at_the_end_where_all_that_it_had_not_read_was_deleted(store: Store) -> None:
    engine = await queue(store, 6)
    one = await member(engine, "one")
    await one.fetch(max_records=2, is_strict=True)
    await engine.delete_records([DeleteRecordsPartition("work", 0, -1)])
    assert await one.fetch() == []
    [stands] = await engine.share_offsets.describe("q", [TopicPartition("work", 0)])
    assert (stands.start_offset, stands.lag) == (6, 0)


async def test_a_group_is_listed_described_and_deleted_with_all_its_items(store: Store) -> None:
    engine = await queue(store, 3)
    one = await member(engine, "one")
    await one.fetch()
    [listing] = await engine.groups.list()
    assert (listing.group_id, listing.group_type, listing.state) == ("q", "share", "Stable")
    [described] = await engine.groups.describe(["q"])
    assert described.group_type == "share"
    assert described.members[0].member_id == "one"
    assert await engine.groups.delete(["q"]) == [("q", ErrorCode.NON_EMPTY_GROUP)]
    assert await one.leave() is ErrorCode.NONE
    assert await engine.groups.delete(["q"]) == [("q", ErrorCode.NONE)]
    assert await store.groups.query("g#q") == []
    assert await store.groups.query("groups") == []


async def test_a_deleted_topics_windows_go_with_maintenance(store: Store) -> None:
    engine = await queue(store, 3)
    one = await member(engine, "one")
    await one.fetch()
    await engine.topics.delete("work")
    assert not (await engine.maintenance.run()).failures
    assert [row.key.sk for row in await store.groups.query("g#q", sk_from="s#", sk_to="s$")] == []
    response = await one.request()
    assert [result.error for result in response.results] == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_groups_of_other_kinds_are_refused(store: Store) -> None:
    engine = await queue(store, 1)
    await member(engine, "one")
    consumer = GroupHeartbeat("q", "c", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["work"])
    assert (await engine.groups.heartbeat(consumer)).error is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        await engine.offsets.commit("q", {TopicPartition("work", 0): OffsetAndMetadata(1)})
    other = GroupHeartbeat("c", "c", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["work"])
    assert (await engine.groups.heartbeat(other)).error is ErrorCode.NONE
    shared = ShareMember(engine, "one", "work", group_id="c")
    assert (await shared.beat()).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert (await shared.request(0)).error is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_silent_members_expire_and_rejoin(store: Store) -> None:
    engine = await queue(store, 1)
    one, two = await member(engine, "one"), await member(engine, "two")
    for _ in range(30):
        store.clock.advance(5)
        await two.beat()
    [described] = await engine.groups.describe(["q"])
    assert [member.member_id for member in described.members] == ["two"]
    assert (await one.beat()).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await one.beat()).error is ErrorCode.NONE


async def test_a_new_partition_is_assigned_at_the_next_heartbeat(store: Store) -> None:
    engine = await queue(store, 1)
    one = await member(engine, "one")
    epoch = one.epoch
    await engine.topics.create_partitions("work", 3)
    await one.beat()
    assert len(one.assignment) == 3
    assert one.epoch > epoch


async def test_a_quiet_groups_heartbeat_is_two_requests_and_an_empty_fetch_three(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("work", 1)
    one = await member(engine, "one")
    await one.fetch()
    before = len(store.groups.calls)
    await one.beat()
    assert store.groups.calls[before:] == ["query", "put"]
    before, log_before = len(store.groups.calls), len(store.log.calls)
    await one.fetch()
    assert store.groups.calls[before:] == ["update", "get_many"]
    assert len(store.log.calls) - log_before == 1
