"""One heartbeat on a group in a given state: what is granted, what is released, what stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from odradek.engine.groups.decisions import Transition
from odradek.engine.groups.state import GroupState, GroupView, MemberState, StreamsGroup, StreamsMember
from odradek.engine.streams.decisions import (
    StreamsCircumstances,
    decide_streams_continuation,
    decide_streams_heartbeat,
    inputs_digest,
)
from odradek.engine.streams.topology import configure
from odradek.errors import ErrorCode
from odradek.model.group import GroupHeartbeat
from odradek.model.streams import InternalTopic, StreamsRequest, Subtopology, TaskId, Tasks, Topology
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings

ORDERS, COUNTS = UUID(int=1), UUID(int=2)
PLAIN = Topology(0, (Subtopology("0", source_topics=("orders",), changelog_topics=(InternalTopic("counts"),)),))
PARTITIONS = 12
TOPICS = {"orders": Topic("orders", ORDERS, PARTITIONS), "counts": Topic("counts", COUNTS, PARTITIONS)}
AROUND = StreamsCircumstances(TOPICS, 10_000, b"nonce", Settings())


def tasks(*numbers: int) -> frozenset[TaskId]:
    return frozenset(TaskId("0", number) for number in numbers)


def places(numbers: Iterable[int], topic_id: UUID = ORDERS) -> frozenset[PartitionId]:
    return frozenset(PartitionId(topic_id, number) for number in numbers)


def member(
    member_id: str, assigned: Tasks | None = None, revoking: Tasks | None = None, *, process: str = "", epoch: int = 5
) -> MemberState:
    """A member that holds these tasks, with their leases."""
    assigned, revoking = assigned or Tasks(), revoking or Tasks()
    return MemberState(
        member_id,
        epoch=epoch,
        previous_epoch=epoch - 1,
        version=3,
        renewed_ms=9_000,
        assigned=places(task.partition for task in assigned.active),
        revoking=places(task.partition for task in revoking.active),
        streams=StreamsMember(0, process or member_id, assigned=assigned, revoking=revoking),
    )


def group(*members: MemberState, target: Mapping[str, Tasks], epoch: int = 5, is_due: bool = False) -> GroupView:
    """A group of these members, whose target is due or not."""
    by_id = {member.member_id: member for member in members}
    digest = b"" if is_due else inputs_digest(by_id, configure(PLAIN, TOPICS), 0)
    state = GroupState(
        "app", 7, epoch, "sticky", topics_digest=digest, streams=StreamsGroup(dict(target), is_ready=True)
    )
    return GroupView("app", state, by_id, topology=PLAIN)


def beat(view: GroupView, member_id: str = "one", owned: Tasks | None = None, *, epoch: int = 5) -> Transition:
    request = GroupHeartbeat("app", member_id, epoch, streams=StreamsRequest(owned=owned))
    return decide_streams_heartbeat(view, request, AROUND)


def written(transition: Transition) -> StreamsMember:
    [after] = transition.members
    assert after.streams is not None
    return after.streams


def test_a_quiet_heartbeat_writes_the_member_alone() -> None:
    one = member("one", Tasks(tasks(0, 1)))
    step = beat(group(one, target={"one": Tasks(tasks(0, 1))}))
    assert (step.group, step.granted, step.released, step.then) == (None, (), (), "answer")
    assert step.result.streams is not None
    assert step.result.streams.tasks is None, "unchanged"


def test_a_task_of_another_member_is_not_granted_even_if_its_lease_is_free() -> None:
    two = replace(member("two", Tasks(tasks(0))), assigned=places([0], UUID(int=9)))  # of the topic before
    step = beat(group(member("one"), two, target={"one": Tasks(tasks(0, 1)), "two": Tasks()}))
    assert written(step).assigned == Tasks(tasks(1))
    assert [grant.partition for grant in step.granted] == sorted(places([1]))


def test_a_task_whose_lease_another_member_still_has_is_not_granted() -> None:
    two = replace(member("two"), revoking=places([0]))
    step = beat(group(member("one"), two, target={"one": Tasks(tasks(0, 1)), "two": Tasks()}))
    assert written(step).assigned == Tasks(tasks(1))


def test_a_process_gets_no_second_copy_of_a_task() -> None:
    two = member("two", revoking=Tasks(standby=tasks(0), active=tasks(1)), process="p")
    view = group(member("one", process="p"), two, target={"one": Tasks(tasks(0, 2), standby=tasks(1)), "two": Tasks()})
    assert written(beat(view)).assigned == Tasks(tasks(2))


def test_a_copy_is_granted_under_the_target_that_gives_it() -> None:
    target = {"one": Tasks(standby=tasks(0))}
    granted = beat(group(member("one", process="p"), target=target))
    assert granted.checks_group, "a member of its process could have joined, and be granted under the next target"
    assert not beat(group(member("one", Tasks(standby=tasks(0)), process="p"), target=target)).checks_group


def test_where_there_are_standbys_the_process_other_members_must_be_as_they_were_read() -> None:
    two, three = member("two", process="p"), member("three", process="q")
    target = {"one": Tasks(tasks(0)), "two": Tasks(), "three": Tasks(standby=tasks(0))}
    step = beat(group(member("one", process="p"), two, three, target=target))
    assert step.checked == (two,), "its grant may be applied and not visible yet"
    without = {"one": Tasks(tasks(0)), "two": Tasks(), "three": Tasks()}
    assert beat(group(member("one", process="p"), two, three, target=without)).checked == ()


def test_a_step_that_writes_a_target_grants_nothing_and_goes_on() -> None:
    step = beat(group(member("one"), target={}, is_due=True))
    assert step.group is not None
    assert (step.then, written(step).assigned, step.granted) == ("continue", Tasks(), ())
    view = GroupView("app", step.group, {"one": step.members[0]}, topology=PLAIN)
    step = decide_streams_continuation(view, GroupHeartbeat("app", "one", 5, streams=StreamsRequest()), AROUND)
    assert step.then == "answer"
    assert len(written(step).assigned.active) == PARTITIONS


def test_another_process_may_have_the_standby() -> None:
    two = member("two", Tasks(tasks(0)), process="q")
    step = beat(group(member("one", process="p"), two, target={"one": Tasks(standby=tasks(0)), "two": Tasks(tasks(0))}))
    assert written(step).assigned == Tasks(standby=tasks(0))
    assert step.granted == (), "a standby has no lease"


def test_who_owes_a_task_is_granted_none_and_keeps_its_epoch() -> None:
    one = member("one", Tasks(tasks(0, 1)), epoch=4)
    step = beat(group(one, target={"one": Tasks(tasks(1, 2))}), epoch=4)
    after = written(step)
    assert (after.assigned, after.revoking) == (Tasks(tasks(1)), Tasks(tasks(0)))
    assert (step.granted, step.released, step.members[0].epoch) == ((), (), 4)
    assert step.members[0].revoking == places([0])


def test_a_standby_that_is_owed_holds_the_member_back_as_well() -> None:
    one = member("one", Tasks(standby=tasks(0)), epoch=4)
    view = group(one, target={"one": Tasks(tasks(0))})
    assert (written(beat(view, epoch=4)).assigned, beat(view, epoch=4).granted) == (Tasks(), ())
    revoking_member = replace(one, streams=StreamsMember(0, "one", revoking=Tasks(standby=tasks(0))))
    step = beat(group(revoking_member, target={"one": Tasks(tasks(0))}), owned=Tasks(), epoch=4)
    assert written(step).assigned == Tasks(tasks(0))


def test_what_is_reported_gone_is_released_and_the_epoch_rises() -> None:
    one = member("one", Tasks(tasks(1)), Tasks(tasks(0)), epoch=4)
    step = beat(group(one, target={"one": Tasks(tasks(1, 2))}), owned=Tasks(tasks(1)), epoch=4)
    assert [release.partition for release in step.released] == sorted(places([0]))
    assert [grant.partition for grant in step.granted] == sorted(places([2]))
    assert (step.members[0].epoch, step.members[0].previous_epoch) == (5, 4)


def test_a_repeat_with_the_epoch_before_is_taken_if_it_runs_only_what_it_may() -> None:
    view = group(member("one", Tasks(tasks(0, 1))), target={"one": Tasks(tasks(0, 1))})
    taken = beat(view, owned=Tasks(tasks(1)), epoch=4)
    assert taken.result.error is ErrorCode.NONE
    assert taken.result.streams is not None
    assert taken.result.streams.tasks == Tasks(tasks(0, 1)), "it is told again"
    assert beat(view, owned=Tasks(tasks(7)), epoch=4).result.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(view, epoch=4).result.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(view, owned=Tasks(), epoch=3).result.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_step_that_writes_the_group_writes_few_leases_and_goes_on() -> None:
    many = range(10)
    one = member("one", revoking=Tasks(tasks(*many)), epoch=4)
    two = member("two")
    view = group(one, two, target={"one": Tasks(), "two": Tasks(tasks(*many))}, is_due=True)
    step = beat(view, owned=Tasks(), epoch=4)
    assert (step.then, step.released, step.granted) == ("continue", (), ())
    assert step.group is not None
    assert set(written(step).held) >= tasks(*many), "nobody else may take what is not released yet"
    [after] = step.members
    view = GroupView("app", step.group, {"one": after, "two": two}, topology=PLAIN)
    request = GroupHeartbeat("app", "one", 4, streams=StreamsRequest(owned=Tasks()))
    step = decide_streams_continuation(view, request, AROUND)
    assert step.then == "answer"
    kept = {grant.partition for grant in step.granted}
    assert places(many) <= {release.partition for release in step.released} | kept
    assert written(step).revoking == Tasks()
    assert step.members[0].held == places(task.partition for task in written(step).assigned.active)


def test_leases_of_a_topic_that_was_replaced_are_released_and_the_new_ones_granted() -> None:
    one = replace(member("one", Tasks(tasks(0))), assigned=places([0], UUID(int=9)))
    step = beat(group(one, target={"one": Tasks(tasks(0))}))
    assert [release.partition for release in step.released] == sorted(places([0], UUID(int=9)))
    assert [grant.partition for grant in step.granted] == sorted(places([0]))
