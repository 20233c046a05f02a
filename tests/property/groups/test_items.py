"""Round trips of a group's items, and bytes that are none."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.groups.items import (
    decode_group,
    decode_member,
    encode_group,
    encode_member,
)
from odradek.engine.groups.leases import decode_lease, lease_partitions, lease_slot
from odradek.engine.groups.partition_sets import decode_partitions, decode_target, encode_partitions, encode_target
from odradek.engine.groups.state import GroupState, MemberState, StreamsGroup, StreamsMember, Watch
from odradek.engine.groups.streams_items import (
    decode_task_target,
    decode_tasks,
    decode_topology,
    encode_topology,
)
from odradek.errors import FormatError
from odradek.limits import LEASES_PER_ITEM_MAX, PARTITIONS_PER_HEAD_MAX, PARTITIONS_PER_TOPIC_MAX, TABLE_ITEM_BYTES_MAX
from odradek.model.streams import Endpoint, InternalTopic, Subtopology, TaskId, Tasks, Topology
from odradek.model.topic_partition import PartitionId, new_topic_id

from tests.support.examples import examples

QUICK = settings(max_examples=examples(60))

TEXT = st.text(max_size=20)
COUNT = st.integers(0, 2**40)
PARTITION = st.builds(PartitionId, st.uuids(), st.integers(0, PARTITIONS_PER_TOPIC_MAX - 1))
PARTITIONS = st.frozensets(PARTITION, max_size=30) | st.builds(
    lambda topic_id, end: frozenset(PartitionId(topic_id, number) for number in range(end)),
    st.uuids(),
    st.integers(0, 200),
)
TARGET = st.dictionaries(TEXT, PARTITIONS, max_size=5)
TASKS = st.builds(
    Tasks, *[st.frozensets(st.builds(TaskId, TEXT, st.integers(0, PARTITIONS_PER_TOPIC_MAX - 1)), max_size=9)] * 3
)
PAIRS = st.dictionaries(TEXT, TEXT, max_size=3).map(lambda pairs: tuple(sorted(pairs.items())))
STREAMS_MEMBER = st.builds(
    StreamsMember,
    topology_epoch=st.integers(-1, 2**31),
    process_id=TEXT,
    endpoint=st.none() | st.builds(Endpoint, TEXT, st.integers(0, 65_535)),
    client_tags=PAIRS,
    assigned=TASKS,
    revoking=TASKS,
)
STREAMS_GROUP = st.builds(
    StreamsGroup,
    target=st.dictionaries(TEXT, TASKS, max_size=4),
    is_ready=st.booleans(),
    shutdown_by=st.none() | TEXT,
)
NAMES = st.lists(TEXT, max_size=3).map(tuple)
INTERNAL_TOPICS = st.lists(
    st.builds(InternalTopic, TEXT, st.integers(0, 99), st.integers(0, 3), PAIRS), max_size=3
).map(tuple)
TOPOLOGY = st.builds(
    Topology,
    epoch=st.integers(0, 2**31),
    subtopologies=st.lists(
        st.builds(
            Subtopology, TEXT, NAMES, NAMES, INTERNAL_TOPICS, INTERNAL_TOPICS, st.lists(NAMES, max_size=2).map(tuple)
        ),
        max_size=3,
    ).map(tuple),
)
MEMBER = st.builds(
    MemberState,
    member_id=TEXT,
    epoch=st.integers(-2, 2**31),
    previous_epoch=st.integers(-1, 2**31),
    version=COUNT,
    nonce=st.binary(max_size=8),
    instance_id=st.none() | TEXT,
    rack_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    subscribed_topic_names=st.lists(TEXT, max_size=4).map(tuple),
    subscribed_topic_regex=st.none() | TEXT,
    assignor=st.none() | TEXT,
    rebalance_timeout_ms=COUNT,
    session_ms=COUNT,
    interval_ms=COUNT,
    renewed_ms=COUNT,
    revoking_elapsed_ms=COUNT,
    assigned=PARTITIONS,
    revoking=PARTITIONS,
    watches=st.dictionaries(TEXT, st.builds(Watch, COUNT, COUNT), max_size=3),
    streams=st.none() | STREAMS_MEMBER,
)


@QUICK
@given(COUNT, STREAMS_GROUP)
def test_streams_group_round_trip(version: int, streams: StreamsGroup) -> None:
    group = GroupState("g", version, 4, "sticky", topics_digest=b"d", streams=streams)
    assert decode_group("g", encode_group(group)) == group


@QUICK
@given(TOPOLOGY)
def test_topology_round_trip(topology: Topology) -> None:
    assert decode_topology(encode_topology(topology)) == topology


@QUICK
@given(st.binary(max_size=60))
def test_damaged_tasks_and_topologies_are_format_errors(data: bytes) -> None:
    for decode in (decode_tasks, decode_task_target):
        try:
            decoded = decode(data)
        except FormatError:
            continue
        assert decoded is not None
    with pytest.raises(FormatError):
        decode_topology({"v": 1, "z": data})


@QUICK
@given(MEMBER)
def test_member_round_trip(member: MemberState) -> None:
    assert decode_member(member.member_id, encode_member(member)) == member


@QUICK
@given(
    st.builds(
        GroupState,
        group_id=TEXT,
        version=COUNT,
        epoch=COUNT,
        assignor=TEXT,
        target=TARGET,
        topics_digest=st.binary(max_size=12),
        member_count=COUNT,
        assigned_ms=COUNT,
        assignment_interval_ms=COUNT,
    )
)
def test_group_round_trip(group: GroupState) -> None:
    assert decode_group(group.group_id, encode_group(group)) == group


@QUICK
@given(st.binary(min_size=16, max_size=16), st.integers(1, PARTITIONS_PER_HEAD_MAX), st.integers(0, 10_000))
def test_a_lease_is_found_by_its_key_and_has_its_names_to_itself(data: bytes, per_head: int, number: int) -> None:
    partition = PartitionId(new_topic_id(data, per_head), number)
    slot = lease_slot("g", partition)
    sharing = lease_partitions(slot.key.sk)
    assert partition in sharing
    assert 1 <= len(sharing) <= min(per_head, LEASES_PER_ITEM_MAX)
    slots = {lease_slot("g", partition) for partition in sharing}
    assert len(slots) == len(sharing)
    assert {slot.key for slot in slots} == {slot.key}


@QUICK
@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    for decode in (decode_partitions, decode_target):
        try:
            decode(data)
        except FormatError:
            pass


@QUICK
@given(PARTITIONS, st.integers(1, 10))
def test_a_cut_set_is_refused(partitions: frozenset[PartitionId], cut: int) -> None:
    data = encode_partitions(partitions)
    with pytest.raises(FormatError):
        decode_partitions(data[: max(len(data) - cut, 0)])


@pytest.mark.parametrize("item", [{}, {"v": 2}, {"v": 1}, {"v": 1, "t": 5}])
def test_damaged_items_are_refused(item: dict[str, object]) -> None:
    for decode in (
        lambda: decode_group("g", item),  # type: ignore[arg-type]
        lambda: decode_member("m", item),  # type: ignore[arg-type]
        lambda: decode_lease(item),  # type: ignore[arg-type]
    ):
        with pytest.raises(FormatError):
            decode()


def test_a_large_group_fits_an_item() -> None:
    topics = [UUID(int=number) for number in range(50)]
    target = {
        f"a-member-id-that-has-36-characters-{member:03}": frozenset(
            PartitionId(topic_id, number) for topic_id in topics for number in range(member, 1000, 200)
        )
        for member in range(200)
    }
    data = encode_target(target)
    assert decode_target(data) == target
    assert len(data) < TABLE_ITEM_BYTES_MAX * 3 // 4
