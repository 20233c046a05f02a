"""Properties of the streams groups' assignor: complete, exclusive, apart, balanced, sticky, deterministic."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.streams.assignor import StreamsAssignorMember, assign_sticky
from odradek.model.streams import TaskId, Tasks

from tests.support.examples import examples

QUICK = settings(max_examples=examples(80))

SUBTOPOLOGIES = ("0", "1", "2")
COUNTS = st.dictionaries(st.sampled_from(SUBTOPOLOGIES), st.integers(1, 9), min_size=1)
TASKS = st.frozensets(st.builds(TaskId, st.sampled_from(SUBTOPOLOGIES), st.integers(0, 10)), max_size=8)


@st.composite
def members(draw: st.DrawFn) -> list[StreamsAssignorMember]:
    names = draw(st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, min_size=1, max_size=7))
    return [
        StreamsAssignorMember(name, draw(st.sampled_from(("p", "q", "r"))), Tasks(draw(TASKS), draw(TASKS)))
        for name in names
    ]


def all_tasks(counts: dict[str, int]) -> list[TaskId]:
    return sorted(TaskId(subtopology, number) for subtopology in counts for number in range(counts[subtopology]))


@QUICK
@given(members(), COUNTS, st.sets(st.sampled_from(SUBTOPOLOGIES)), st.integers(0, 2))
def test_every_task_is_active_once_and_copies_are_in_different_processes(
    group: list[StreamsAssignorMember], counts: dict[str, int], stateful: set[str], replicas: int
) -> None:
    target = assign_sticky(group, counts, stateful, replicas)
    assert set(target) == {member.member_id for member in group}
    assert sorted(task for assignment in target.values() for task in assignment.active) == all_tasks(counts)
    processes = {member.member_id: member.process_id for member in group}
    copies = [(processes[member_id], task) for member_id, assignment in target.items() for task in assignment]
    assert len(copies) == len(set(copies)), "a process has one copy of a task"
    for task in all_tasks(counts):
        standbys = sum(task in assignment.standby for assignment in target.values())
        wanted = replicas if task.subtopology_id in stateful else 0
        assert standbys == min(wanted, len(set(processes.values())) - 1)
    assert not any(assignment.warmup for assignment in target.values())


@QUICK
@given(members(), COUNTS, st.integers(0, 2), st.randoms(use_true_random=False))
def test_order_does_not_matter(
    group: list[StreamsAssignorMember], counts: dict[str, int], replicas: int, shuffled: Any
) -> None:
    other, items = list(group), list(counts.items())
    shuffled.shuffle(other)
    shuffled.shuffle(items)
    assert assign_sticky(group, counts, counts, replicas) == assign_sticky(other, dict(items), counts, replicas)


@QUICK
@given(st.integers(1, 7), COUNTS)
def test_members_of_their_own_processes_differ_by_one_task(count: int, counts: dict[str, int]) -> None:
    group = [StreamsAssignorMember(f"m{number}", f"p{number}") for number in range(count)]
    loads = [len(assignment.active) for assignment in assign_sticky(group, counts).values()]
    assert max(loads) - min(loads) <= 1


@QUICK
@given(st.integers(1, 6), COUNTS, st.integers(0, 1))
def test_nothing_moves_while_nothing_changes(count: int, counts: dict[str, int], replicas: int) -> None:
    group = [StreamsAssignorMember(f"m{number}", f"p{number}") for number in range(count)]
    first = assign_sticky(group, counts, counts, replicas)
    again = [StreamsAssignorMember(member.member_id, member.process_id, first[member.member_id]) for member in group]
    second = assign_sticky(again, counts, counts, replicas)
    assert {name: assignment.active for name, assignment in second.items()} == {
        name: assignment.active for name, assignment in first.items()
    }


def test_only_the_new_members_share_moves() -> None:
    first = assign_sticky([StreamsAssignorMember("a", "p"), StreamsAssignorMember("b", "q")], {"0": 9})
    again = [StreamsAssignorMember("a", "p", first["a"]), StreamsAssignorMember("b", "q", first["b"])]
    second = assign_sticky([*again, StreamsAssignorMember("c", "r")], {"0": 9})
    assert second["a"].active < first["a"].active
    assert second["b"].active < first["b"].active
    assert len(second["c"].active) == 3


def test_a_lost_members_tasks_go_where_their_standbys_are() -> None:
    group = [StreamsAssignorMember(name, name) for name in "abc"]
    first = assign_sticky(group, {"0": 6}, {"0"}, 1)
    left = [StreamsAssignorMember(name, name, first[name]) for name in "ab"]
    second = assign_sticky(left, {"0": 6}, {"0"}, 1)
    taken_over = [first["c"].active & first[name].standby & second[name].active for name in "ab"]
    assert sum(map(len, taken_over)) >= 1, "as many as the quota allows"
    for name in "ab":
        assert first[name].active <= second[name].active


def test_a_process_with_more_threads_has_more_tasks() -> None:
    group = [StreamsAssignorMember(name, process) for name, process in (("a", "p"), ("b", "p"), ("c", "q"))]
    target = assign_sticky(group, {"0": 6})
    assert [len(target[name].active) for name in "abc"] == [2, 2, 2]


def test_a_standby_takes_over_before_others_that_are_as_idle() -> None:
    keeps, copies, lost = TaskId("0", 0), TaskId("0", 1), TaskId("0", 2)
    group = [
        StreamsAssignorMember("a", "a", Tasks(frozenset({keeps}))),
        StreamsAssignorMember("b", "b", Tasks(frozenset({copies}), frozenset({lost}))),
    ]
    target = assign_sticky(group, {"0": 3}, {"0"}, 1)
    assert target["b"].active == {copies, lost}
