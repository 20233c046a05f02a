"""Transitions of a classic group, case by case and without a store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.engine.classic.decisions import (
    complete_round,
    decide_commit,
    decide_heartbeat,
    decide_join,
    decide_round,
    decide_sync,
    leaving_member,
    without,
)
from odradek.engine.groups.classic_items import decode_classic, encode_classic
from odradek.errors import ErrorCode
from odradek.model.classic_group import (
    ClassicGroup,
    ClassicIdentity,
    ClassicJoin,
    ClassicLeave,
    ClassicMember,
    ClassicState,
    ClassicSync,
)

RANGE = (("range", b"topics"),)


def member(member_id: str, *, joined: bool = False, **fields: object) -> ClassicMember:
    made = ClassicMember(member_id, rebalance_ms=60_000, session_ms=10_000, protocols=RANGE, joined=joined)
    return replace(made, **fields)  # type: ignore[arg-type]


def stable(*members: ClassicMember) -> ClassicGroup:
    assigned = tuple(replace(member, assignment=member.member_id.encode()) for member in members)
    return ClassicGroup(ClassicState.STABLE, 5, "consumer", "range", members[0].member_id, assigned)


def join(member_id: str, protocols: tuple[tuple[str, bytes], ...] = RANGE, **fields: object) -> ClassicJoin:
    made = ClassicJoin("g", member_id, "consumer", protocols, session_ms=10_000, rebalance_ms=60_000)
    return replace(made, **fields)  # type: ignore[arg-type]


def decide(group: ClassicGroup, request: ClassicJoin, member_id: str = "", waiting_since: int | None = None):  # type: ignore[no-untyped-def]
    return decide_join(group, request, member_id or request.member_id, waiting_since=waiting_since, members_max=3)


def test_the_first_member_begins_a_round_that_waits_a_little_for_more() -> None:
    group = decide(ClassicGroup(), join("a")).group
    assert (group.state, group.is_initial, group.protocol_type) == (ClassicState.PREPARING_REBALANCE, True, "consumer")
    assert decide_round(group, waited_ms=499, initial_delay_ms=500) is None
    done = decide_round(group, waited_ms=500, initial_delay_ms=500)
    assert done is not None
    assert (done.state, done.generation, done.leader, done.protocol) == ("CompletingRebalance", 1, "a", "range")


def test_a_round_waits_for_all_and_then_leaves_behind_who_did_not_come() -> None:
    group = decide(stable(member("a"), member("b")), join("c")).group
    assert [member.joined for member in group.members] == [False, False, True]
    group = decide(group, join("a")).group
    assert decide_round(group, waited_ms=59_999, initial_delay_ms=0) is None
    done = decide_round(group, waited_ms=60_000, initial_delay_ms=0)
    assert done is not None
    assert ([member.member_id for member in done.members], done.generation, done.leader) == (["a", "c"], 6, "a")


def test_a_round_keeps_static_members_but_not_as_leaders() -> None:
    group = stable(member("a", instance_id="one"), member("b"))
    group = decide(group, join("b", (("range", b"other"),))).group
    done = decide_round(group, waited_ms=60_000, initial_delay_ms=0)
    assert done is not None
    assert ([member.member_id for member in done.members], done.leader) == (["a", "b"], "b")


def test_the_protocol_is_one_that_all_know_and_most_like() -> None:
    both = (("sticky", b""), ("range", b""))
    members = (
        member("a", joined=True, protocols=(("range", b""), ("sticky", b""))),
        member("b", joined=True, protocols=both),
        member("c", joined=True, protocols=(("own", b""), *both)),
    )
    group = ClassicGroup(ClassicState.PREPARING_REBALANCE, 1, "consumer", members=members)
    assert complete_round(group).protocol == "sticky"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (join("new", (("own", b""),)), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join("new", protocol_type="connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join("a", instance_id="nobody's"), ErrorCode.UNKNOWN_MEMBER_ID),
        (join("a", instance_id="two"), ErrorCode.FENCED_INSTANCE_ID),
        (join("fourth"), ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_joins_that_are_refused(request_: ClassicJoin, code: ErrorCode) -> None:
    group = stable(member("a"), member("b", instance_id="two"), member("c"))
    step = decide(group, request_)
    assert step.group is None
    assert step.answer.error is code


def test_a_follower_that_comes_again_unchanged_is_answered_and_a_leader_begins_a_round() -> None:
    group = stable(member("a"), member("b"))
    step = decide(group, join("b"))
    assert (step.group, step.answer.generation, step.answer.members) == (None, 5, ())
    assert decide(group, join("a")).group.state is ClassicState.PREPARING_REBALANCE
    assert decide(group, join("b", (("range", b"more"),))).group.state is ClassicState.PREPARING_REBALANCE


def test_the_leader_is_told_what_all_subscribe_to() -> None:
    group = replace(stable(member("a"), member("b")), state=ClassicState.COMPLETING_REBALANCE)
    answer = decide(group, join("a")).answer
    assert (answer.leader, [member.member_id for member in answer.members]) == ("a", ["a", "b"])


def test_a_follower_that_wakes_late_gets_its_generation_before_the_next() -> None:
    group = decide(stable(member("a"), member("b")), join("a")).group  # a was quicker: b has not heard of generation 5
    step = decide(group, join("b"), waiting_since=4)
    assert (step.group, step.answer.error, step.answer.generation) == (None, ErrorCode.NONE, 5)
    follower = ClassicSync(ClassicIdentity("g", "b", 5))
    assert decide_sync(group, follower).answer.assignment == b"b"
    assert decide_heartbeat(group, follower.identity) is ErrorCode.REBALANCE_IN_PROGRESS
    assert decide_round(group, waited_ms=59_999, initial_delay_ms=0) is None  # the next round waits for it
    assert decide_sync(group, ClassicSync(ClassicIdentity("g", "a", 5))).answer.error is (
        ErrorCode.REBALANCE_IN_PROGRESS  # it has joined the next round, and given up what it had
    )
    again = decide(group, join("b")).group
    assert decide(again, join("b"), waiting_since=5).answer is None  # waits for generation 6
    assert decide_sync(again, follower).answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert decide(without(group, {"b"}), join("b"), waiting_since=4).answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_wakes_late_joins_the_next_round_unasked_if_nothing_was_assigned() -> None:
    completing = ClassicGroup(
        ClassicState.COMPLETING_REBALANCE, 5, "consumer", "range", "a", (member("a"), member("b"), member("c"))
    )
    group = without(completing, {"a"})
    follower = ClassicSync(ClassicIdentity("g", "b", 5))
    assert decide_sync(group, follower).answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    step = decide(group, join("b"), waiting_since=4)
    assert step.answer is None
    assert [member.joined for member in step.group.members] == [True, False]


def test_a_static_member_comes_back_without_a_round() -> None:
    group = stable(member("a"), member("b", instance_id="two"))
    step = decide(group, join("", instance_id="two"), "fresh")
    assert step.group.state is ClassicState.STABLE
    assert step.answer.generation == 5
    assert step.group.member("fresh").assignment == b"b"
    assert step.group.member("b") is None
    assert decide_heartbeat(step.group, ClassicIdentity("g", "b", 5, "two")) is ErrorCode.FENCED_INSTANCE_ID
    changed = decide(group, join("", (("range", b"more"),), instance_id="two"), "fresh")
    assert changed.group.state is ClassicState.PREPARING_REBALANCE


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_leader_that_comes_back_does_not_assign_anew(may_skip: bool) -> None:
    group = stable(member("a", instance_id="one"), member("b"))
    answer = decide(group, join("", instance_id="one", may_skip_assignment=may_skip), "fresh").answer
    assert (answer.skip_assignment, answer.leader == "fresh") == (may_skip, may_skip)


def test_sync() -> None:
    group = ClassicGroup(ClassicState.COMPLETING_REBALANCE, 5, "consumer", "range", "a", (member("a"), member("b")))
    leader = ClassicSync(ClassicIdentity("g", "a", 5), assignments={"a": b"1", "b": b"2"})
    follower = ClassicSync(ClassicIdentity("g", "b", 5))
    assert decide_sync(group, follower) == type(decide_sync(group, follower))()  # waits
    step = decide_sync(group, leader)
    assert (step.group.state, step.answer.assignment) == (ClassicState.STABLE, b"1")
    assert decide_sync(step.group, follower).answer.assignment == b"2"
    wrong = replace(follower, protocol="sticky")
    assert decide_sync(step.group, wrong).answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    late = replace(follower, identity=ClassicIdentity("g", "b", 4))
    assert decide_sync(step.group, late).answer.error is ErrorCode.ILLEGAL_GENERATION
    preparing = without(group, {"a"})  # before it assigned
    assert decide_sync(preparing, follower).answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_are_told_to_join_while_a_round_gathers_and_not_before_or_after() -> None:
    group = stable(member("a"), member("b"))
    identity = ClassicIdentity("g", "a", 5)
    assert decide_heartbeat(group, identity) is ErrorCode.NONE
    gathering = decide(group, join("c")).group
    assert decide_heartbeat(gathering, identity) is ErrorCode.REBALANCE_IN_PROGRESS
    completing = complete_round(decide(gathering, join("a")).group)
    assert decide_heartbeat(completing, replace(identity, generation=6)) is ErrorCode.NONE


def test_commits_are_taken_while_a_round_gathers_but_not_between_round_and_sync() -> None:
    group = stable(member("a"), member("b"))
    identity = ClassicIdentity("g", "a", 5)
    assert decide_commit(group, identity) is ErrorCode.NONE
    assert decide_commit(without(group, {"b"}), identity) is ErrorCode.NONE
    completing = complete_round(
        without(replace(group, members=tuple(replace(m, joined=True) for m in group.members)), {})
    )
    assert decide_commit(completing, identity) is ErrorCode.ILLEGAL_GENERATION
    assert decide_commit(completing, ClassicIdentity("g", "a", 6)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_one_leaves_an_empty_group_of_the_next_generation() -> None:
    group = without(stable(member("a")), {"a"})
    assert (group.state, group.generation, group.leader, group.protocol) == (ClassicState.EMPTY, 6, None, None)


def test_who_leaves() -> None:
    group = stable(member("a"), member("b", instance_id="two"))
    assert leaving_member(group, ClassicLeave("", "two")) == group.members[1]
    assert leaving_member(group, ClassicLeave("a", "two")) is ErrorCode.FENCED_INSTANCE_ID
    assert leaving_member(group, ClassicLeave("", "three")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert leaving_member(group, ClassicLeave("c")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_items_round_trip() -> None:
    group = stable(member("a", client_id="c", client_host="/h"), member("b", instance_id="two", joined=True))
    for classic_group in (group, ClassicGroup(), replace(group, is_initial=True, protocol=None, leader=None)):
        assert decode_classic(encode_classic(classic_group, 7)) == classic_group
