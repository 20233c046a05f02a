"""Properties of the assignors: complete, exclusive, balanced, sticky, deterministic."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.groups.assignors import ASSIGNORS, AssignorMember, assign_range, assign_uniform
from odradek.model.topic_partition import PartitionId

from tests.support.examples import examples

QUICK = settings(max_examples=examples(60))

TOPIC_IDS = [UUID(int=number) for number in range(1, 6)]
NAMES = st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, min_size=1, max_size=9)
TOPICS = st.dictionaries(st.sampled_from(TOPIC_IDS), st.integers(0, 17), min_size=1)
ANY_PARTITIONS = st.frozensets(st.builds(PartitionId, st.sampled_from(TOPIC_IDS), st.integers(0, 20)), max_size=20)


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[AssignorMember], dict[UUID, int]]:
    members = [
        AssignorMember(name, draw(st.frozensets(st.sampled_from(TOPIC_IDS))), draw(ANY_PARTITIONS))
        for name in draw(NAMES)
    ]
    return members, draw(TOPICS)


@st.composite
def equal_groups(draw: st.DrawFn) -> tuple[list[AssignorMember], dict[UUID, int]]:
    topics = draw(TOPICS)
    return [AssignorMember(name, frozenset(topics)) for name in draw(NAMES)], topics


@QUICK
@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_has_one_owner_that_subscribes(
    group: tuple[list[AssignorMember], dict[UUID, int]], name: str
) -> None:
    members, topics = group
    assignment = ASSIGNORS[name](members, topics)
    assert set(assignment) == {member.member_id for member in members}
    given_out = [partition for partitions in assignment.values() for partition in partitions]
    wanted = frozenset[UUID]().union(*(member.topic_ids for member in members))
    assert sorted(given_out) == sorted(
        PartitionId(topic_id, number) for topic_id in topics if topic_id in wanted for number in range(topics[topic_id])
    )
    for member in members:
        assert {partition.topic_id for partition in assignment[member.member_id]} <= member.topic_ids


@QUICK
@given(groups(), st.sampled_from(sorted(ASSIGNORS)), st.randoms(use_true_random=False))
def test_order_does_not_matter(
    group: tuple[list[AssignorMember], dict[UUID, int]], name: str, shuffled: object
) -> None:
    members, topics = group
    other_members, other_topics = list(members), list(topics.items())
    shuffled.shuffle(other_members)  # type: ignore[attr-defined]
    shuffled.shuffle(other_topics)  # type: ignore[attr-defined]
    assert ASSIGNORS[name](members, topics) == ASSIGNORS[name](other_members, dict(other_topics))


@QUICK
@given(groups())
def test_uniform_leaves_no_move_that_would_balance(group: tuple[list[AssignorMember], dict[UUID, int]]) -> None:
    members, topics = group
    assignment = assign_uniform(members, topics)
    for giver in members:
        for taker in members:
            could_move = any(partition.topic_id in taker.topic_ids for partition in assignment[giver.member_id])
            assert not could_move or len(assignment[giver.member_id]) <= len(assignment[taker.member_id]) + 1


@QUICK
@given(equal_groups())
def test_uniform_gives_consecutive_partitions_to_members_that_come_together(
    group: tuple[list[AssignorMember], dict[UUID, int]],
) -> None:
    members, topics = group
    for partitions in assign_uniform(members, topics).values():
        for topic_id in topics:
            numbers = sorted(partition.partition for partition in partitions if partition.topic_id == topic_id)
            assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True


@QUICK
@given(equal_groups())
def test_uniform_is_balanced_within_one_and_repeats_itself(
    group: tuple[list[AssignorMember], dict[UUID, int]],
) -> None:
    members, topics = group
    first = assign_uniform(members, topics)
    sizes = [len(partitions) for partitions in first.values()]
    assert max(sizes) - min(sizes) <= 1
    assert assign_uniform(_holding(members, first), topics) == first


@QUICK
@given(equal_groups())
def test_uniform_moves_the_fewest_for_a_new_member(group: tuple[list[AssignorMember], dict[UUID, int]]) -> None:
    members, topics = group
    before = assign_uniform(members, topics)
    late = AssignorMember("zzz-late", frozenset(topics))
    after = assign_uniform([*_holding(members, before), late], topics)
    moved = sum(len(before[member.member_id] - after[member.member_id]) for member in members)
    assert moved == len(after[late.member_id]) == sum(topics.values()) // (len(members) + 1)


@QUICK
@given(equal_groups())
def test_uniform_moves_only_what_a_leaving_member_had(group: tuple[list[AssignorMember], dict[UUID, int]]) -> None:
    members, topics = group
    before = assign_uniform(members, topics)
    staying = _holding(members[1:], before)
    after = assign_uniform(staying, topics)
    assert all(before[member.member_id] <= after[member.member_id] for member in staying)


def test_uniform_balances_along_a_chain() -> None:
    one, two = TOPIC_IDS[:2]
    members = [
        AssignorMember("a", frozenset({one}), frozenset(PartitionId(one, number) for number in range(3))),
        AssignorMember("b", frozenset({one, two}), frozenset(PartitionId(two, number) for number in range(2))),
        AssignorMember("c", frozenset({two}), frozenset({PartitionId(two, 2)})),
    ]
    assert sorted(len(partitions) for partitions in assign_uniform(members, {one: 3, two: 3}).values()) == [2, 2, 2]


@QUICK
@given(NAMES, st.integers(1, 20))
def test_range_puts_co_partitioned_topics_on_one_member(names: list[str], count: int) -> None:
    one, two = TOPIC_IDS[:2]
    members = [AssignorMember(name, frozenset({one, two})) for name in names]
    for partitions in assign_range(members, {one: count, two: count}).values():
        numbers = {
            topic_id: sorted(p.partition for p in partitions if p.topic_id == topic_id) for topic_id in (one, two)
        }
        assert numbers[one] == numbers[two]
        assert numbers[one] == list(range(numbers[one][0], numbers[one][-1] + 1)) if numbers[one] else True
        assert len(numbers[one]) in (count // len(names), count // len(names) + 1)


def _holding(members: list[AssignorMember], held: dict[str, frozenset[PartitionId]]) -> list[AssignorMember]:
    return [replace(member, previous=held[member.member_id]) for member in members]
