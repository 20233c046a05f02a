"""Transitions of the group state machine, case by case and without a store."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from odradek.engine.groups.decisions import (
    LEASES_PER_STEP,
    LEASES_WITH_GROUP,
    Circumstances,
    Grant,
    Release,
    Transition,
    decide_continuation,
    decide_expiry,
    decide_heartbeat,
)
from odradek.engine.groups.state import GroupState, GroupView, MemberState
from odradek.engine.groups.targets import next_target
from odradek.errors import ErrorCode
from odradek.model.group import GroupHeartbeat
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings

TOPIC_ID = UUID(int=7)
NOW_MS = 1_000_000


def around(partition_count: int = 4) -> Circumstances:
    return Circumstances({"t": Topic("t", TOPIC_ID, partition_count)}, NOW_MS, b"nonce", Settings())


def parts(*numbers: int) -> frozenset[PartitionId]:
    return frozenset(PartitionId(TOPIC_ID, number) for number in numbers)


def member(member_id: str, epoch: int, *held: int, **fields: object) -> MemberState:
    state = MemberState(
        member_id, epoch=epoch, subscribed_topic_names=("t",), renewed_ms=NOW_MS - 1000, assigned=parts(*held)
    )
    return replace(state, **fields)  # type: ignore[arg-type]


def group_of(*members: MemberState, partition_count: int = 4) -> GroupView:
    by_id = {member.member_id: member for member in members}
    return GroupView(
        "g", next_target(GroupState("g", version=3, epoch=4), by_id, around(partition_count).topics), by_id
    )


def beat(member_id: str, epoch: int, owned: list[int] | None = None) -> GroupHeartbeat:
    return GroupHeartbeat("g", member_id, epoch, owned=None if owned is None else {TOPIC_ID: owned})


def join(member_id: str) -> GroupHeartbeat:
    return GroupHeartbeat("g", member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], owned={})


def test_first_join_makes_group_target_and_grants_in_one_step() -> None:
    step = decide_heartbeat(GroupView("g"), join("a"), around())
    assert step.group is not None
    assert (step.group.epoch, step.group.member_count) == (1, 1)
    assert step.granted == tuple(Grant(PartitionId(TOPIC_ID, number), "t", "a", 1) for number in range(4))
    assert step.result.assignment == {TOPIC_ID: [0, 1, 2, 3]}
    assert step.then == "answer"


def test_quiet_heartbeat_writes_the_member_alone_and_says_nothing_new() -> None:
    view = group_of(member("a", 5, 0, 1, 2, 3))
    step = decide_heartbeat(view, beat("a", 5), around())
    [written] = step.members
    assert step == Transition(step.result, members=(written,))
    assert written.version == 1
    assert step.result.assignment is None
    assert step.result.member_epoch == 5


def test_what_left_the_target_is_revoked_first_and_released_when_reported() -> None:
    view = group_of(member("a", 4, 0, 1, 2, 3), member("b", 4))
    step = decide_heartbeat(view, beat("a", 4), around())
    [owing] = step.members
    kept, lost = owing.assigned, owing.revoking
    assert (len(kept), len(lost)) == (2, 2)
    assert owing.epoch == 4
    assert not step.released
    view = GroupView("g", view.group, {**view.members, "a": owing})
    waiting = decide_heartbeat(view, beat("b", 4), around())
    assert not waiting.granted, "the leases are still a's"
    numbers = sorted(partition.partition for partition in kept)
    done = decide_heartbeat(view, beat("a", 4, numbers), around())
    assert done.released == tuple(Release(partition, "a") for partition in sorted(lost))
    [settled] = done.members
    assert (settled.epoch, settled.previous_epoch, settled.held) == (5, 4, kept)
    view = GroupView("g", view.group, {**view.members, "a": settled})
    assert {grant.partition for grant in decide_heartbeat(view, beat("b", 4), around()).granted} == lost


def test_reporting_only_some_gone_releases_those() -> None:
    owing = member("a", 4, 0, 1, revoking=parts(2, 3))
    view = group_of(owing, member("b", 5))
    assert view.group is not None
    view = replace(view, group=replace(view.group, target={"a": parts(0, 1), "b": parts(2, 3)}))
    step = decide_heartbeat(view, beat("a", 4, [0, 1, 3]), around())
    assert [release.partition.partition for release in step.released] == [2]
    assert step.members[0].epoch == 4


def test_who_owes_a_partition_is_granted_none() -> None:
    owing = member("a", 4, 0, 1, revoking=parts(2))
    view = group_of(owing, member("b", 5))
    assert view.group is not None
    view = replace(view, group=replace(view.group, target={"a": parts(0, 1, 3), "b": parts(2)}))
    step = decide_heartbeat(view, beat("a", 4), around())
    assert step.granted == ()
    done = decide_heartbeat(view, beat("a", 4, [0, 1]), around())
    assert [grant.partition for grant in done.granted] == list(parts(3))


def test_partition_dropped_and_given_back_is_granted_anew_with_the_new_epoch() -> None:
    owing = member("a", 4, 0, 1, revoking=parts(2, 3))
    view = group_of(owing)  # the others left: everything is a's again
    step = decide_heartbeat(view, beat("a", 4, [0, 1]), around())
    assert {(grant.partition.partition, grant.epoch) for grant in step.granted} == {(2, 5), (3, 5)}
    assert step.released == (), "one write a lease"


def test_more_leases_than_a_transaction_holds_take_several_steps() -> None:
    count = 2 * LEASES_PER_STEP + 5
    step = decide_heartbeat(GroupView("g"), join("a"), around(count))
    assert step.group is not None
    group, granted = step.group, []
    while step.then == "continue":
        view = GroupView("g", group, {"a": step.members[0]})
        step = decide_continuation(view, join("a"), around(count))
        granted.append(len(step.granted))
    assert granted == [LEASES_PER_STEP, LEASES_PER_STEP, 5]
    assert step.result.assignment == {TOPIC_ID: list(range(count))}


def test_a_step_that_writes_the_group_carries_few_leases_or_none() -> None:
    step = decide_heartbeat(GroupView("g"), join("a"), around(LEASES_WITH_GROUP))
    assert (len(step.granted), step.then) == (LEASES_WITH_GROUP, "answer")
    many = decide_heartbeat(GroupView("g"), join("a"), around(LEASES_WITH_GROUP + 1))
    assert (many.granted, many.then) == ((), "continue")


def test_what_was_given_up_is_released_after_a_step_that_writes_the_group() -> None:
    owing = member("a", 4, 0, revoking=parts(*range(1, 20)), revoking_elapsed_ms=60_000, rebalance_timeout_ms=60_000)
    view = group_of(owing, member("b", 4), partition_count=20)
    step = decide_heartbeat(view, beat("a", 4, [0]), around(21))  # a partition more: a new target
    assert step.group is not None
    assert (step.released, step.then) == ((), "continue")
    view = GroupView("g", step.group, {**view.members, "a": step.members[0]})
    done = decide_continuation(view, beat("a", 4, [0]), around(21))
    moved = {release.partition for release in done.released} | {grant.partition for grant in done.granted}
    assert moved >= parts(*range(1, 20)), "given up, or given up and given back: every lease is written"
    assert done.members[0].epoch == step.group.epoch


def test_expiry_releases_all_leases_and_who_stays_computes_the_next_target() -> None:
    view = group_of(member("a", 5, 0, 1), member("b", 5, 2, 3))
    step = decide_expiry(view, [view.members["a"]], around())
    assert step.removed == (view.members["a"],)
    assert {release.partition for release in step.released} == parts(0, 1)
    assert (step.group, step.then) == (None, "again")
    after = decide_heartbeat(GroupView("g", view.group, {"b": view.members["b"]}), beat("b", 5), around())
    assert after.group is not None
    assert (after.group.epoch, dict(after.group.target)) == (6, {"b": parts(0, 1, 2, 3)})
    assert {grant.partition for grant in after.granted} == parts(0, 1)


def test_the_last_one_out_leaves_an_empty_target() -> None:
    view = group_of(member("a", 5, 0, 1, 2, 3))
    step = decide_expiry(view, [view.members["a"]], around())
    assert step.group is not None
    assert (step.group.epoch, dict(step.group.target), step.group.member_count) == (6, {}, 0)


def test_a_grown_topic_makes_a_new_target() -> None:
    view = group_of(member("a", 5, 0, 1, 2, 3))
    step = decide_heartbeat(view, beat("a", 5), around(6))
    assert step.group is not None
    assert {grant.partition for grant in step.granted} == parts(4, 5)
    assert step.result.member_epoch == step.group.epoch == 6


def test_repeat_with_the_epoch_before_needs_what_it_owns() -> None:
    view = group_of(member("a", 5, 0, 1, 2, 3, previous_epoch=4))
    assert decide_heartbeat(view, beat("a", 4), around()).result.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert decide_heartbeat(view, beat("a", 4, [9]), around()).result.error is ErrorCode.FENCED_MEMBER_EPOCH
    repeat = decide_heartbeat(view, beat("a", 4, [0, 1]), around())
    assert repeat.result.error is ErrorCode.NONE
    assert repeat.result.assignment == {TOPIC_ID: [0, 1, 2, 3]}
