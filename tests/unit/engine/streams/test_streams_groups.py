"""A streams group as its members see it: tasks are shared, move one owner at a time, and commits are fenced."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.engine.groups.items import decode_member, member_key
from odradek.engine.groups.leases import decode_lease, lease_slot
from odradek.errors import ErrorCode, KafkaError
from odradek.model.classic_group import ClassicJoin, ClassicLeave
from odradek.model.group import GroupHeartbeat
from odradek.model.streams import Endpoint, StreamsRequest, Subtopology, TaskId, Tasks, Topology
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.testing.manual_clock import ManualClock

from tests.support.clients.streams_member import COUNTING, StreamsMember, settle
from tests.support.engine import Store, memory_store

DELAY = {"streams.initial.rebalance.delay.ms": "3000"}
ORDERS = [TopicPartition("orders", number) for number in range(4)]


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
def clock(store: Store) -> ManualClock:
    return store.clock


async def application(store: Store, *, partitions: int = 4, **configs: str) -> Engine:
    """An engine with topic `orders`, and the group `app` without an initial delay."""
    engine = store.engine(catalog_cache_ms=0, group_assignment_interval_ms=0)
    await engine.topics.create("orders", partitions)
    await engine.group_configs.alter("app", set={"streams.initial.rebalance.delay.ms": "0"} | configs)
    return engine


async def running(store: Store, *names: str, **configs: str) -> tuple[Engine, list[StreamsMember]]:
    """An application whose members have settled."""
    engine = await application(store, **configs)
    members = [StreamsMember(engine, name) for name in names]
    await settle(members, store.clock)
    return engine, members


def active(*members: StreamsMember) -> list[TaskId]:
    return sorted(task for member in members for task in member.tasks.active)


ALL = [TaskId(subtopology, number) for subtopology in "01" for number in range(4)]


async def lease(store: Store, engine: Engine, partition: TopicPartition) -> tuple[str | None, int]:
    topic = await engine.topics.resolve(partition.topic)
    slot = lease_slot("app", PartitionId(topic.topic_id, partition.partition))
    item = await store.tables.groups.get(slot.key)
    lease_read = None if item is None else decode_lease(item, slot.suffix)
    return (None, -1) if lease_read is None else (lease_read.owner, lease_read.epoch)


# --- joining ----------------------------------------------------------------------------------------------------------


async def test_the_first_member_waits_for_its_internal_topics_and_gets_every_task(store: Store) -> None:
    engine = await application(store)
    one = StreamsMember(engine, "one")
    assert await one.beat() is ErrorCode.NONE
    assert (one.statuses, one.tasks) == (["MISSING_INTERNAL_TOPICS"], Tasks())
    assert (await engine.topics.resolve("app-counts")).configs == {"cleanup.policy": "compact"}
    await settle([one], store.clock)
    assert (one.statuses, active(one)) == ([], ALL)
    assert await lease(store, engine, ORDERS[2]) == ("one", one.epoch)
    assert (await lease(store, engine, TopicPartition("app-by-customer", 3)))[0] == "one"


async def test_members_share_the_tasks_and_each_has_one_owner(store: Store) -> None:
    _, members = await running(store, "one", "two", "three")
    assert active(*members) == ALL
    assert sorted(len(member.tasks.active) for member in members) == [2, 3, 3]


async def test_members_that_start_within_the_initial_delay_are_assigned_together(
    store: Store, clock: ManualClock
) -> None:
    engine = await application(store, **DELAY)
    one, two = StreamsMember(engine, "one"), StreamsMember(engine, "two")
    await one.beat()
    assert one.epoch > 0, "epoch 0 would tell the member that it is not in the group"
    clock.advance(1)
    await two.beat()
    assert (one.tasks, two.tasks) == (Tasks(), Tasks())
    assert one.statuses == ["ASSIGNMENT_DELAYED", "MISSING_INTERNAL_TOPICS"]
    assert two.statuses == ["ASSIGNMENT_DELAYED"]
    [group] = await engine.streams_groups.describe(["app"])
    first = group.assignment_epoch
    clock.advance(2)
    await settle([two, one], clock)
    assert (len(one.tasks.active), len(two.tasks.active)) == (4, 4)
    [group] = await engine.streams_groups.describe(["app"])
    assert group.assignment_epoch == first + 1, "one target for both"


async def test_a_member_without_source_topics_is_told_so_and_asked_back_after_the_whole_interval(store: Store) -> None:
    engine = store.engine(catalog_cache_ms=0, group_assignment_interval_ms=0)
    one = StreamsMember(engine, "one")
    await one.beat()
    await one.beat()
    assert one.statuses[-1] == "MISSING_SOURCE_TOPICS"
    assert one.last.heartbeat_interval_ms == engine.settings.group_heartbeat_interval_ms
    [group] = await engine.streams_groups.describe(["app"])
    assert group.state in ("NotReady", "Assigning")
    await engine.topics.create("orders", 2)
    await settle([one], store.clock)
    assert len(one.tasks.active) == 4


async def test_tasks_are_taken_back_while_a_source_topic_is_gone(store: Store) -> None:
    engine, [one] = await running(store, "one")
    await engine.topics.delete("orders")
    await settle([one], store.clock)
    assert (one.statuses, one.tasks) == (["MISSING_SOURCE_TOPICS"], Tasks())
    [listing] = await engine.groups.list()
    assert (listing.group_type, listing.protocol_type, listing.state) == ("streams", "streams", "NotReady")


# --- moving -----------------------------------------------------------------------------------------------------------


async def test_a_task_moves_only_when_its_owner_has_given_it_up(store: Store, clock: ManualClock) -> None:
    engine, [one] = await running(store, "one")
    two = StreamsMember(engine, "two")
    await two.beat()
    kept = one.tasks
    await one.beat(keep=kept)
    tasks_asked = one.last.streams.tasks  # type: ignore[union-attr]
    assert tasks_asked is not None
    assert len(tasks_asked.active) == 4, "it was told what it may keep"
    for _ in range(3):
        await two.beat()
        await one.beat(keep=kept)
    assert two.tasks == Tasks(), "it is granted nothing that another member still runs"
    before = one.epoch
    await settle([one, two], clock)
    assert (len(one.tasks.active), len(two.tasks.active)) == (4, 4)
    assert one.epoch > before


async def test_a_task_that_is_given_up_and_given_back_at_once_keeps_its_lease(store: Store, clock: ManualClock) -> None:
    engine, [one] = await running(store, "one")
    two = StreamsMember(engine, "two")
    await two.beat()
    before = one.tasks
    await one.beat(keep=before)
    await two.leave()
    three = StreamsMember(engine, "three")  # its join computes the target without the second member
    assert await three.beat() is ErrorCode.NONE
    await three.leave()
    one.tasks = one.last.streams.tasks  # type: ignore[union-attr, assignment]
    assert active(one) != ALL
    assert await one.beat() is ErrorCode.NONE
    assert active(one) == ALL, "it is asked to run again what it has just given up"
    for partition in ORDERS:
        assert (await lease(store, engine, partition))[0] == "one"
        assert await one.commit(partition, 1) is ErrorCode.NONE


async def test_who_keeps_a_task_for_longer_than_its_rebalance_timeout_is_removed(
    store: Store, clock: ManualClock
) -> None:
    engine = await application(store)
    one = StreamsMember(engine, "one", rebalance_timeout_ms=10_000)
    await settle([one], clock)
    two = StreamsMember(engine, "two")
    await two.beat()
    kept = one.tasks
    for _ in range(12):
        clock.advance(1)
        await two.beat()
        if await one.beat(keep=kept) is ErrorCode.UNKNOWN_MEMBER_ID:
            break
    else:
        raise AssertionError("it was never removed")
    await settle([two], clock)
    assert active(two) == ALL


async def test_a_dead_members_tasks_go_to_the_others(store: Store, clock: ManualClock) -> None:
    _, [one, two] = await running(store, "one", "two")
    for _ in range(60):
        clock.advance(1)
        await two.beat()
    await settle([two], clock)
    assert active(two) == ALL
    assert await one.beat() is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_lost_answer_does_no_harm(store: Store, clock: ManualClock) -> None:
    engine, [one] = await running(store, "one")
    two = StreamsMember(engine, "two")
    await two.beat()
    await one.beat(lose_answer=True)
    await one.beat()
    await one.beat(lose_answer=True)
    await one.beat()
    await settle([one, two], clock)
    assert active(one, two) == ALL


async def test_a_member_with_an_old_epoch_and_foreign_tasks_is_fenced(store: Store, clock: ManualClock) -> None:
    engine, [one] = await running(store, "one")
    two = StreamsMember(engine, "two")
    await settle([one, two], clock)
    one.epoch -= 1
    one.tasks, one.reported = Tasks(frozenset(ALL)), None
    assert await one.beat() is ErrorCode.FENCED_MEMBER_EPOCH


async def test_partitions_that_a_source_gains_become_tasks(store: Store, clock: ManualClock) -> None:
    topology = Topology(0, (Subtopology("0", source_topics=("orders",)),))
    engine = await application(store, partitions=2)
    one = StreamsMember(engine, "one", topology)
    await settle([one], clock)
    await engine.topics.create_partitions("orders", 5)
    await settle([one], clock)
    assert active(one) == [TaskId("0", number) for number in range(5)]
    assert (await lease(store, engine, TopicPartition("orders", 4)))[0] == "one"


async def test_a_recreated_source_is_leased_anew(store: Store, clock: ManualClock) -> None:
    topology = Topology(0, (Subtopology("0", source_topics=("orders",)),))
    engine = await application(store, partitions=2)
    one = StreamsMember(engine, "one", topology)
    await settle([one], clock)
    await engine.topics.delete("orders")
    await engine.topics.create("orders", 2)
    await settle([one], clock)
    assert await lease(store, engine, ORDERS[0]) == ("one", one.epoch)
    assert await one.commit(ORDERS[0], 1) is ErrorCode.NONE
    item = await store.tables.groups.get(member_key("app", "one"))
    assert item is not None
    topic = await engine.topics.resolve("orders")
    assert {partition.topic_id for partition in decode_member("one", item).held} == {topic.topic_id}


async def test_more_leases_than_fit_one_transaction_are_granted_in_steps(store: Store, clock: ManualClock) -> None:
    names = tuple(f"source-{number:02}" for number in range(30))
    engine = await application(store, partitions=1)
    for name in names:
        await engine.topics.create(name, 12)
    topology = Topology(0, (Subtopology("0", source_topics=names),))
    one, two = StreamsMember(engine, "one", topology), StreamsMember(engine, "two", topology)
    await settle([one], clock)
    assert len(one.tasks.active) == 12
    assert await lease(store, engine, TopicPartition("source-29", 11)) == ("one", one.epoch)
    await settle([one, two], clock)
    assert (len(one.tasks.active), len(two.tasks.active)) == (6, 6)
    await one.leave()
    await settle([two], clock)
    assert len(two.tasks.active) == 12


# --- standbys and processes -------------------------------------------------------------------------------------------


async def test_a_standby_is_kept_by_another_process_and_takes_over(store: Store, clock: ManualClock) -> None:
    _, [one, two] = await running(store, "one", "two", **{"streams.num.standby.replicas": "1"})
    stateful = {task for task in ALL if task.subtopology_id == "1"}
    assert one.tasks.standby | two.tasks.standby == stateful
    assert not one.tasks.standby & one.tasks.active
    standby = two.tasks.standby
    await one.leave()
    await settle([two], clock)
    assert standby <= two.tasks.active
    assert two.tasks.standby == frozenset()


async def test_threads_of_one_process_keep_no_standby_of_each_other(store: Store, clock: ManualClock) -> None:
    engine = await application(store, **{"streams.num.standby.replicas": "1"})
    one, two = (StreamsMember(engine, name, process_id="process") for name in ("one", "two"))
    await settle([one, two], clock)
    assert (one.tasks.standby, two.tasks.standby) == (frozenset(), frozenset())


async def test_more_standbys_are_assigned_as_soon_as_they_are_configured(store: Store, clock: ManualClock) -> None:
    engine, [one, two] = await running(store, "one", "two")
    assert not one.tasks.standby
    await engine.group_configs.alter("app", set={"streams.num.standby.replicas": "1"})
    await settle([one, two], clock)
    assert len(one.tasks.standby | two.tasks.standby) == 4


# --- commits ----------------------------------------------------------------------------------------------------------


async def test_only_a_tasks_owner_commits_its_partitions(store: Store, clock: ManualClock) -> None:
    engine, [one] = await running(store, "one")
    assert await one.commit(ORDERS[0], 5) is ErrorCode.NONE
    stale = one.epoch
    two = StreamsMember(engine, "two")
    await settle([one, two], clock)
    owner, other = (one, two) if TaskId("0", 0) in one.tasks.active else (two, one)
    assert await owner.commit(ORDERS[0], 6) is ErrorCode.NONE
    assert await other.commit(ORDERS[0], 7) in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH)
    kept = next(task.partition for task in one.tasks.active if task.subtopology_id == "0")
    assert await one.commit(ORDERS[kept], 6, epoch=stale) is ErrorCode.NONE, "granted at that epoch or earlier"
    moved = next(task.partition for task in two.tasks.active if task.subtopology_id == "0")
    assert await two.commit(ORDERS[moved], 6, epoch=two.epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH


async def test_a_removed_members_commit_is_refused(store: Store, clock: ManualClock) -> None:
    _, [one] = await running(store, "one")
    epoch = one.epoch
    await one.leave()
    one.epoch = epoch
    assert await one.commit(ORDERS[0], 1) is ErrorCode.UNKNOWN_MEMBER_ID


# --- topologies, shutdown, endpoints ----------------------------------------------------------------------------------


async def test_a_group_keeps_its_topology(store: Store) -> None:
    engine, _ = await running(store, "one")
    other = Topology(0, (Subtopology("0", source_topics=("orders",)),))
    two = StreamsMember(engine, "two", other)
    assert await two.beat() is ErrorCode.INVALID_REQUEST
    assert "application.id" in (two.last.message or "")


async def test_a_member_with_an_older_topology_is_told_so(store: Store, clock: ManualClock) -> None:
    engine = await application(store)
    newer = Topology(3, COUNTING.subtopologies)
    one, two = StreamsMember(engine, "one", newer), StreamsMember(engine, "two", COUNTING)
    await settle([one], clock)
    await settle([one, two], clock)
    assert (one.statuses, two.statuses) == ([], ["STALE_TOPOLOGY"])


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_shutdown_is_told_to_everyone_until_all_have_left(
    store: Store, clock: ManualClock, leaves: bool
) -> None:
    engine, [one, two] = await running(store, "one", "two")
    if leaves:
        await one.leave(shutdown=True)
    else:
        await one.beat(shutdown=True)
        await one.beat()
        assert one.statuses == ["SHUTDOWN_APPLICATION"]
        await one.leave()
    await two.beat()
    assert two.statuses == ["SHUTDOWN_APPLICATION"]
    await two.leave()
    three = StreamsMember(engine, "three")
    await settle([three], clock)
    assert three.statuses == []


async def test_members_learn_each_others_endpoints_once_a_change(store: Store, clock: ManualClock) -> None:
    engine = await application(store)
    one = StreamsMember(engine, "one", endpoint=Endpoint("host-1", 8080))
    two = StreamsMember(engine, "two", endpoint=Endpoint("host-2", 8080))
    await settle([one, two], clock)
    for member in (one, two):
        endpoints_by_host = {endpoint.endpoint.host: endpoint for endpoint in member.endpoints}
        assert sorted(endpoints_by_host) == ["host-1", "host-2"]
        partitions = [number for endpoint in endpoints_by_host.values() for number in endpoint.active["orders"]]
        assert sorted(partitions) == [0, 1, 2, 3]
        assert set(endpoints_by_host["host-1"].active["orders"]) == {
            t.partition for t in one.tasks.active if t[0] == "0"
        }
    await one.beat()
    assert one.last.streams is not None
    assert one.last.streams.endpoints is None, "nothing has changed"
    await two.leave()
    await settle([one], clock)
    assert [endpoint.endpoint.host for endpoint in one.endpoints] == ["host-1"]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "streams", "code"),
    [
        ({"instance_id": "i"}, {}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, {}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, {"topology": None}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, {}, ErrorCode.INVALID_REQUEST),
        ({}, {"topology": None}, ErrorCode.INVALID_REQUEST),
        ({}, {"unsupported": "no"}, ErrorCode.INVALID_REQUEST),
        ({}, {"owned": Tasks(frozenset(ALL))}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 3}, {}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 3}, {"topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({}, {"topology": Topology(0)}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({}, {"topology": Topology(-1, COUNTING.subtopologies)}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({}, {"topology": Topology(0, (Subtopology("0", ("a/b",)),))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (
            {},
            {"topology": Topology(0, (Subtopology("0", ("a",)), Subtopology("1", ("a",))))},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        (
            {},
            {"topology": Topology(0, (Subtopology("0", tuple(f"t{n}" for n in range(65))),))},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        ({"group_id": ""}, {}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_refused_heartbeats(
    store: Store, fields: dict[str, Any], streams: dict[str, Any], code: ErrorCode
) -> None:
    engine = await application(store)
    request = {"group_id": "app", "member_id": "one", "member_epoch": 0, "rebalance_timeout_ms": 1_000} | fields
    part = StreamsRequest(**({"topology": COUNTING} | streams))
    result = await engine.streams_groups.heartbeat(GroupHeartbeat(**request, streams=part))
    assert result.error is code, result.message
    assert result.message
    assert await engine.groups.list() == []


async def test_a_task_that_does_not_exist_is_refused(store: Store) -> None:
    _, [one] = await running(store, "one")
    one.tasks = Tasks(frozenset({TaskId("0", 9)}))
    assert await one.beat() is ErrorCode.INVALID_REQUEST


# --- beside other groups ----------------------------------------------------------------------------------------------


async def test_groups_of_other_types_are_refused_and_refuse(store: Store) -> None:
    engine, [one] = await running(store, "one")
    consumer = GroupHeartbeat("app", "c", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=["orders"])
    assert (await engine.groups.heartbeat(consumer)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert (await engine.share_groups.heartbeat(consumer)).error is ErrorCode.GROUP_ID_NOT_FOUND
    await one.leave()
    assert (await engine.groups.heartbeat(consumer)).error is ErrorCode.GROUP_ID_NOT_FOUND
    used = GroupHeartbeat("used", "c", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=["orders"])
    assert not (await engine.groups.heartbeat(used)).error
    assert await StreamsMember(engine, "s", group_id="used").beat() is ErrorCode.GROUP_ID_NOT_FOUND
    await engine.groups.heartbeat(GroupHeartbeat("used", "c", -1))
    assert await StreamsMember(engine, "s", group_id="used").beat() is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_simple_consumer_does_not_commit_while_the_first_member_waits(store: Store) -> None:
    engine = await application(store, **DELAY)
    await StreamsMember(engine, "one").beat()
    with pytest.raises(KafkaError) as raised:
        await engine.offsets.commit("app", {ORDERS[1]: OffsetAndMetadata(7)})
    assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_no_task_is_taken_away_by_a_function_with_an_old_copy_of_the_topics(
    store: Store, clock: ManualClock
) -> None:
    engine, [one] = await running(store, "one")
    late = store.engine(catalog_cache_ms=3_600_000, group_assignment_interval_ms=0)
    late.streams_groups._topics._by_name |= {name: (float("inf"), None) for name in COUNTING.required_topics}
    elsewhere = StreamsMember(late, "one")
    elsewhere.epoch, elsewhere.tasks, elsewhere.reported = one.epoch, one.tasks, one.tasks
    assert await elsewhere.beat() is ErrorCode.NONE
    assert (elsewhere.statuses, elsewhere.tasks) == ([], one.tasks)
    assert (await lease(store, engine, ORDERS[0]))[0] == "one"


async def test_committed_offsets_become_those_of_the_streams_group(store: Store, clock: ManualClock) -> None:
    engine = await application(store)
    await engine.offsets.commit("app", {ORDERS[1]: OffsetAndMetadata(7)})
    one = StreamsMember(engine, "one")
    await settle([one], clock)
    [result] = await engine.offsets.fetch("app", [ORDERS[1]], member_id="one", member_epoch=one.epoch)
    assert result.committed == OffsetAndMetadata(7)


async def test_an_empty_group_changes_between_streams_and_classic_and_keeps_its_offsets(
    store: Store, clock: ManualClock
) -> None:
    engine, [one] = await running(store, "one")
    join = ClassicJoin("app", "", "consumer", (("range", b""),), 10_000, 10_000, requires_known_member_id=False)
    refused = await engine.classic_groups.join(join)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await one.commit(ORDERS[1], 7)
    await one.leave()
    joined = await engine.classic_groups.join(join)
    assert joined.error is ErrorCode.NONE
    [listing] = await engine.groups.list()
    assert listing.group_type == "classic"
    assert await StreamsMember(engine, "two").beat() is ErrorCode.GROUP_ID_NOT_FOUND
    await engine.classic_groups.leave("app", [ClassicLeave(joined.member_id)])
    other = Topology(0, (Subtopology("0", source_topics=("orders",)),))
    two = StreamsMember(engine, "two", other)
    await settle([two], clock)
    assert len(two.tasks.active) == 4, "a new streams group, with a topology of its own"
    [result] = await engine.offsets.fetch("app", [ORDERS[1]])
    assert result.committed is not None
    assert result.committed.offset == 7


async def test_offsets_of_what_members_read_cannot_be_deleted_nor_altered(store: Store) -> None:
    engine, [one] = await running(store, "one")
    await one.commit(ORDERS[1], 7)
    [refused] = await engine.offsets.delete("app", [ORDERS[1]])
    assert refused.error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    with pytest.raises(KafkaError) as raised:
        await engine.offsets.commit("app", {ORDERS[1]: OffsetAndMetadata(7)})
    assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    await one.leave()
    [deleted] = await engine.offsets.delete("app", [ORDERS[1]])
    assert deleted.error is ErrorCode.NONE


async def test_a_group_is_described_and_deleted_with_all_its_items(store: Store) -> None:
    engine, [one, two] = await running(store, "one", "two")
    [group] = await engine.streams_groups.describe(["app"])
    assert (group.state, group.group_type) == ("Stable", "streams")
    assert group.topology is not None
    assert [
        topic.partitions for subtopology in group.topology.subtopologies for topic in subtopology.changelog_topics
    ] == [4]
    described = {member.member_id: member.streams for member in group.members}
    first = described["one"]
    assert first is not None
    assert (first.assignment, first.target_assignment) == (one.tasks, one.tasks)
    assert await engine.groups.delete(["app"]) == [("app", ErrorCode.NON_EMPTY_GROUP)]
    for member in (one, two):
        await member.leave()
    [listing] = await engine.groups.list()
    assert (listing.group_type, listing.state) == ("streams", "Empty")
    assert await engine.groups.delete(["app"]) == [("app", ErrorCode.NONE)]
    assert await store.tables.groups.query("g#app") == []
