"""Groups of each kind at their largest, over every backend: nothing that is sent is beyond a limit of the store.

The most members, partitions and records in flight, under the longest ids. What a group begins with is put into the
tables as it is (tests/support/stores/largest.py): each case is the one operation that it is about. What does not fit is
refused by GROUP_MAX_SIZE_REACHED, and the group stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from odradek.engine.engine import Engine
from odradek.engine.groups.classic_items import classic_session_key, encode_classic
from odradek.engine.groups.items import encode_group, encode_member, group_key, listing_key, member_key
from odradek.engine.groups.state import GroupState, MemberState
from odradek.engine.share.items import NONCE_BYTES, NONCES_KEPT, ShareItem, encode_share, share_key
from odradek.engine.share.window import RecordState, Run, SharePartition
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_size import item_size
from odradek.limits import (
    OFFSET_MAX,
    OFFSET_METADATA_BYTES_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    SHARE_HOLDERS_MAX,
    SHARE_RECORD_LOCKS_MAX,
    SHARE_SESSION_PARTITIONS_MAX,
    TABLE_ITEM_BYTES_MAX,
    TOPICS_PER_REQUEST_MAX,
)
from odradek.model.classic_group import ClassicGroup, ClassicIdentity, ClassicMember, ClassicState, ClassicSync
from odradek.model.group import GroupHeartbeat
from odradek.model.share import AcknowledgementBatch, AcknowledgeType, ShareFetchRequest
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.ports.table import Key
from odradek.settings import Settings

from tests.support.engine import batch, produce
from tests.support.stores.largest import ID, long_id, name_of, plays_moto, put_all, topic_of

Engines = Callable[..., Engine]
MEMBERS = Settings().group_members_max


def group_id_of() -> str:
    """A group's id, one for each test of a store that is kept."""
    return f"{uuid4().hex}{ID[:434]}"


async def size_of(engine: Engine, key: Key) -> int:
    item = await engine.offsets._store.table.get(key)
    assert item is not None
    return item_size(*key, item)


async def settle(engine: Engine, group_id: str, members: list[MemberState], **group: object) -> None:
    """Put a consumer group as it is."""
    made = replace(GroupState(group_id, version=1, epoch=1, member_count=len(members)), **group)  # type: ignore[arg-type]
    items = [(group_key(group_id), encode_group(made)), (listing_key(group_id), {"v": 1})]
    items += [(member_key(group_id, member.member_id), encode_member(member)) for member in members]
    await put_all(engine.offsets._store.table, items)


def heartbeat(group_id: str, member_id: str, epoch: int = 0, **fields: object) -> GroupHeartbeat:
    return GroupHeartbeat(group_id, member_id, epoch, rebalance_timeout_ms=2**31 - 1, **fields)  # type: ignore[arg-type]


# --- consumer groups ------------------------------------------------------------------------------------------------


async def test_members_with_the_longest_subscriptions(engine_of: Engines) -> None:
    engine = engine_of(group_assignment_interval_ms=0)
    names = [name_of(number) for number in range(TOPICS_PER_REQUEST_MAX - 1)]
    names.append((await topic_of(engine, 100)).name)
    group_id = group_id_of()
    for number in range(4):
        member_id = long_id(number)
        joining = heartbeat(
            group_id,
            member_id,
            instance_id=member_id,
            rack_id=ID,
            subscribed_topic_names=names,
            client_id=ID,
            client_host="h",
        )
        result = await engine.groups.heartbeat(joining)
        assert result.error is ErrorCode.NONE, result.message
    assert await size_of(engine, member_key(group_id, long_id(3))) > 250_000


async def test_a_member_that_watches_all_others(engine_of: Engines) -> None:
    """After an outage all are late. The first that comes back watches as many as its item holds."""
    engine = engine_of()
    group_id, now_ms = group_id_of(), engine.clock.now_ms()
    names = tuple(sorted(name_of(number) for number in range(TOPICS_PER_REQUEST_MAX)))
    late = [
        MemberState(long_id(number), 1, version=2**53, nonce=bytes(8), renewed_ms=now_ms - 30_000)
        for number in range(MEMBERS)
    ]
    late[0] = replace(late[0], subscribed_topic_names=names, instance_id=ID, rack_id=ID, client_id=ID)
    await settle(engine, group_id, late, assigned_ms=now_ms, assignment_interval_ms=15_000)
    result = await engine.groups.heartbeat(heartbeat(group_id, late[0].member_id, 1))
    assert result.error is ErrorCode.NONE, result.message
    written = await engine.groups._store.read_member(group_id, late[0].member_id)
    assert written is not None
    assert 20 < len(written.watches) < MEMBERS - 1
    assert min(written.watches) == late[1].member_id, "each is watched by those before it"


@pytest.mark.parametrize(("members", "fits"), [(MEMBERS, True), (MEMBERS + 100, False)], ids=["fits", "too many"])
async def test_a_target_of_the_most_members_and_partitions(engine_of: Engines, members: int, fits: bool) -> None:
    engine = engine_of(group_members_max=members, group_assignment_interval_ms=0)
    topic = await topic_of(engine, PARTITIONS_PER_TOPIC_MAX)
    group_id, now_ms, subscribed = group_id_of(), engine.clock.now_ms(), (topic.name,)
    members_before = [
        MemberState(
            long_id(number), 1, version=1, nonce=bytes(8), renewed_ms=now_ms, subscribed_topic_names=(topic.name,)
        )
        for number in range(members - 1)
    ]
    await settle(engine, group_id, members_before)
    before = await engine.offsets._store.table.get(group_key(group_id))
    result = await engine.groups.heartbeat(
        heartbeat(group_id, long_id(members), subscribed_topic_names=subscribed, server_assignor="uniform")
    )
    after = await engine.offsets._store.read_group(group_id)
    assert after is not None
    if fits:
        assert result.error is ErrorCode.NONE, result.message
        assert len(after.target) == members
        assert sum(map(len, after.target.values())) == PARTITIONS_PER_TOPIC_MAX
        return
    assert result.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "use fewer members" in str(result.message)
    assert await engine.offsets._store.table.get(group_key(group_id)) == before
    assert await engine.groups._store.read_member(group_id, long_id(members)) is None


async def test_a_member_of_many_partitions(engine_of: Engines) -> None:
    """As many steps as it takes, each a transaction of at most a hundred items."""
    engine = engine_of(group_assignment_interval_ms=0)
    count = 250 if plays_moto(engine) else 2_000
    topic = await topic_of(engine, count)
    group_id, member_id = group_id_of(), long_id(0)
    result = await engine.groups.heartbeat(heartbeat(group_id, member_id, subscribed_topic_names=[topic.name]))
    for _ in range(3):
        if result.assignment and sum(map(len, result.assignment.values())) == count:
            break
        result = await engine.groups.heartbeat(heartbeat(group_id, member_id, result.member_epoch))
    assert result.assignment is not None, result.message
    assert sum(map(len, result.assignment.values())) == count


# --- classic groups -------------------------------------------------------------------------------------------------


def classic_group(member_bytes: int, members: int = MEMBERS) -> ClassicGroup:
    """A round that waits for its leader's assignment."""
    made = [
        ClassicMember(
            f"{long_id(number)[:200]}-{UUID(int=number, version=4)}",
            client_id=ID[:100],
            client_host="h",
            protocols=(("p" * 100, bytes(member_bytes)),),
            joined=True,
        )
        for number in range(members)
    ]
    leader = made[0].member_id
    return ClassicGroup(ClassicState.COMPLETING_REBALANCE, 2**31 - 1, "consumer", "p" * 100, leader, tuple(made))


async def settle_classic(engine: Engine, group_id: str, group: ClassicGroup) -> None:
    now_ms = engine.clock.now_ms()
    items = [(group_key(group_id), encode_classic(group, 1)), (listing_key(group_id), {"v": 1})]
    items += [
        (classic_session_key(group_id, member.member_id), {"v": 1, "n": 1, "rn": now_ms}) for member in group.members
    ]
    await put_all(engine.offsets._store.table, items)


@pytest.mark.parametrize(("assigned_bytes", "fits"), [(300, True), (1_000, False)], ids=["fits", "too large"])
async def test_a_classic_group_of_the_most_members(engine_of: Engines, assigned_bytes: int, fits: bool) -> None:
    engine = engine_of()
    group_id, group = group_id_of(), classic_group(member_bytes=50)
    await settle_classic(engine, group_id, group)
    assert group.leader is not None
    assignments = {member.member_id: bytes(assigned_bytes) for member in group.members}
    identity = ClassicIdentity(group_id, group.leader, group.generation)
    result = await engine.classic_groups.sync(ClassicSync(identity, "consumer", group.protocol, assignments))
    if fits:
        assert (result.error, result.assignment) == (ErrorCode.NONE, bytes(assigned_bytes))
        assert TABLE_ITEM_BYTES_MAX - 50_000 < await size_of(engine, group_key(group_id)) <= TABLE_ITEM_BYTES_MAX
    else:
        assert result.error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert await engine.offsets._store.table.get(group_key(group_id)) == encode_classic(group, 1)


async def test_a_classic_member_commits_the_most_partitions(engine_of: Engines) -> None:
    """More than a transaction takes: in as many as it takes, each fenced."""
    engine = engine_of(offset_metadata_bytes_max=OFFSET_METADATA_BYTES_MAX)
    topic = await topic_of(engine, 150)
    group_id, group = group_id_of(), classic_group(100, members=2)
    await settle_classic(engine, group_id, replace(group, state=ClassicState.STABLE))
    longest = OffsetAndMetadata(OFFSET_MAX, 2**31 - 1, "m" * OFFSET_METADATA_BYTES_MAX)
    offsets = {TopicPartition(topic.name, number): longest for number in range(150)}
    committed = await engine.offsets.commit(
        group_id, offsets, member_id=group.members[0].member_id, member_epoch=group.generation
    )
    assert {result.error for result in committed} == {ErrorCode.NONE}


# --- share groups ---------------------------------------------------------------------------------------------------


async def test_a_window_of_the_most_records_and_holders(engine_of: Engines) -> None:
    """Each record in a state of its own, the holders' ids at their longest: it is changed, and takes no holder more."""
    engine = engine_of()
    topic = await topic_of(engine)
    partition = PartitionId(topic.topic_id, 0)
    result = await produce(engine, topic.name, 0, batch([b""] * (SHARE_RECORD_LOCKS_MAX + 10)))
    assert result.error is ErrorCode.NONE
    group_id, now_ms = group_id_of(), engine.clock.now_ms()
    await engine.group_configs.alter(group_id, set={"share.partition.max.record.locks": str(SHARE_RECORD_LOCKS_MAX)})
    for number in (0, SHARE_HOLDERS_MAX):
        joining = GroupHeartbeat(group_id, long_id(number), 0, subscribed_topic_names=[topic.name])
        assert (await engine.share_groups.heartbeat(joining)).error is ErrorCode.NONE
    until_ms = now_ms + 3_000_000
    runs = tuple(
        Run(at, at + 1, RecordState.AVAILABLE, 9)
        if at == SHARE_RECORD_LOCKS_MAX // 2
        else Run(at, at + 1, RecordState.ACQUIRED, 10, long_id(at % SHARE_HOLDERS_MAX), until_ms + at)
        for at in range(SHARE_RECORD_LOCKS_MAX)
    )
    window = ShareItem(SharePartition(0, runs, 2**62), bytes(NONCE_BYTES), 2**62, (bytes(NONCE_BYTES),) * NONCES_KEPT)
    await put_all(engine.offsets._store.table, [(share_key(group_id, partition), encode_share(window))])
    assert await size_of(engine, share_key(group_id, partition)) > 150_000

    def request(number: int, epoch: int = 0, **options: object) -> ShareFetchRequest:
        added = frozenset({partition}) if epoch == 0 else frozenset()
        return ShareFetchRequest(group_id, long_id(number), epoch, added, max_bytes=1 << 20, **options)  # type: ignore[arg-type]

    one_more = await engine.share.serve(request(SHARE_HOLDERS_MAX, max_records=10))
    assert (one_more.error, one_more.results) == (ErrorCode.NONE, ())
    taken = await engine.share.serve(request(0, max_records=10))
    [result_taken] = taken.results
    assert [batch.first_offset for batch in result_taken.acquired] == [SHARE_RECORD_LOCKS_MAX // 2]
    batches = [AcknowledgementBatch(100, 100, (AcknowledgeType.RELEASE,))]
    released = await engine.share.serve(request(0, 1, acknowledgements={partition: batches}, fetches=False))
    assert [result.acknowledge_error for result in released.results] == [ErrorCode.NONE]


async def test_a_share_session_of_the_most_partitions(engine_of: Engines) -> None:
    """Each of a topic of its own. Asked of the session alone: serving it reads each topic."""
    engine = engine_of()
    group_id, member_id = group_id_of(), long_id(0)
    joining = GroupHeartbeat(group_id, member_id, 0, subscribed_topic_names=[name_of(0)])
    assert (await engine.share_groups.heartbeat(joining)).error is ErrorCode.NONE
    places = frozenset(PartitionId(uuid4(), PARTITIONS_PER_TOPIC_MAX - 1) for _ in range(SHARE_SESSION_PARTITIONS_MAX))
    sessions = engine.share._sessions
    assert await sessions.enter(group_id, member_id, 0, places, frozenset()) == places
    with pytest.raises(KafkaError) as refused:
        await sessions.enter(group_id, member_id, 1, frozenset({PartitionId(uuid4(), 0)}), frozenset())
    assert refused.value.code is ErrorCode.INVALID_REQUEST
