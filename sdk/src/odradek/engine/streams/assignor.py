"""The assignor `sticky` of streams groups: which member runs which task, and which keeps a standby. Pure, total and
deterministic.

A *process* is one streams application instance, whose members (its threads) share a state directory: so no process
has two copies of a task. Balance is over processes by their number of members, then over the members.

    1. A member keeps its active tasks up to its quota.
    2. A task whose former owner is gone or full goes to a member that had its standby, if that has room.
    3. The others go to the process with the least load; of a subtopology, neighbours go to different processes.
    4. Standbys of stateful tasks go to other processes than the active task: first where the task, or its standby, was.
       With fewer processes than copies the copies that find none are left out.

Before quotas were filled, the quota is the number of tasks by members, rounded up; members that reach it leave the
others with the rest, so that with 7 tasks over 3 members nobody has more than 3 and nobody fewer than 2.

Sources: KIP-1071; the rules are those of Apache Kafka's StickyTaskAssignor. Unlike there, equal loads are broken by id,
so two functions that compute the same target agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.streams import TaskId, Tasks

STICKY = "sticky"


@dataclass(frozen=True, slots=True)
class StreamsAssignorMember:
    """A member as the assignor sees it."""

    member_id: str
    process_id: str
    previous: Tasks = field(default_factory=Tasks)  # its part of the last target


def assign_sticky(
    members: Sequence[StreamsAssignorMember],
    task_counts: Mapping[str, int],
    stateful: Iterable[str] = (),
    standby_replicas: int = 0,
) -> dict[str, Tasks]:
    """Assign all tasks.

    Args:
        members: the group's members, ids unique.
        task_counts: number of tasks by subtopology id.
        stateful: ids of the subtopologies whose tasks may have standbys.
        standby_replicas: standbys of each stateful task.

    Returns:
        The tasks of each member; every member has an entry.
    """
    tasks = [TaskId(each, number) for each in sorted(task_counts) for number in range(task_counts[each])]
    with_state = set(stateful)
    copied = [task for task in tasks if task.subtopology_id in with_state] if standby_replicas else []
    balance = _Balance(sorted(members, key=lambda member: member.member_id), tasks, len(copied) * standby_replicas)
    if members:
        balance.assign_active(tasks)
        balance.assign_standby(copied, standby_replicas)
    return balance.assignment()


@dataclass(slots=True)
class _Quota:
    """How many tasks a member should have: what is left, divided by the members that are not full yet."""

    tasks: int
    members: int

    @property
    def size(self) -> int:
        return -(-self.tasks // self.members) if self.members else 0

    def note(self, count: int) -> None:
        """A member has that many tasks now."""
        if self.members and count == self.size:
            self.members -= 1
            self.tasks -= count


@dataclass(slots=True)
class _Process:
    """A process with its members' tasks."""

    process_id: str
    counts: dict[str, int] = field(default_factory=dict)  # tasks by member id
    tasks: set[TaskId] = field(default_factory=set)

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def least_loaded(self) -> str:
        return min(self.counts, key=lambda member_id: (self.counts[member_id], member_id))


class _Balance:
    """The working state of `assign_sticky`."""

    def __init__(self, members: Sequence[StreamsAssignorMember], tasks: Sequence[TaskId], standbys: int) -> None:
        self._active: dict[str, set[TaskId]] = {member.member_id: set() for member in members}
        self._standby: dict[str, set[TaskId]] = {member.member_id: set() for member in members}
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._was_active: dict[TaskId, str] = {}
        self._was_standby: dict[TaskId, list[str]] = {}
        for member in members:
            process = self._processes.setdefault(member.process_id, _Process(member.process_id))
            process.counts[member.member_id] = 0
            self._process_of[member.member_id] = process
            for task in member.previous.active:
                self._was_active.setdefault(task, member.member_id)
            for task in member.previous.standby:
                self._was_standby.setdefault(task, []).append(member.member_id)
        self._active_quota = _Quota(len(tasks), len(members))
        self._quota = _Quota(len(tasks) + standbys, len(members))

    def assign_active(self, tasks: Sequence[TaskId]) -> None:
        waiting = []
        by_partition = sorted(tasks, key=lambda task: (task.partition, task.subtopology_id))
        for task in by_partition:
            owner = self._was_active.get(task)
            if owner is None or not self._has_room(owner, self._active_quota):
                waiting.append(task)
            else:
                self._give(owner, task, self._active)
        left = []
        for task in waiting:
            holder = self._least_loaded(self._was_standby.get(task, ()))
            if holder is None or not self._has_room(holder, self._active_quota):
                left.append(task)
            else:
                self._give(holder, task, self._active)
        for task in sorted(left):
            process = min(self._processes.values(), key=_by_load)
            self._give(process.least_loaded(), task, self._active)

    def assign_standby(self, tasks: Sequence[TaskId], replicas: int) -> None:
        left: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id), reverse=True):
            for placed in range(replicas):
                former = [*([self._was_active[task]] if task in self._was_active else ())]
                holder = self._without(task, former, self._quota) or self._without(
                    task, self._was_standby.get(task, ()), self._quota
                )
                if holder is None:
                    left.append((task, replicas - placed))
                    break
                self._give(holder, task, self._standby)
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                free = [process for process in self._processes.values() if task not in process.tasks]
                if not free:
                    break
                self._give(min(free, key=_by_load).least_loaded(), task, self._standby)

    def assignment(self) -> dict[str, Tasks]:
        return {
            member_id: Tasks(frozenset(active), frozenset(self._standby[member_id]))
            for member_id, active in self._active.items()
        }

    def _without(self, task: TaskId, member_ids: Sequence[str], quota: _Quota) -> str | None:
        """Return the least loaded of the members whose process has no copy of the task, if it has room."""
        holder = self._least_loaded([each for each in member_ids if task not in self._process_of[each].tasks])
        return holder if holder is not None and self._has_room(holder, quota) else None

    def _least_loaded(self, member_ids: Sequence[str]) -> str | None:
        return min(
            member_ids,
            key=lambda each: (self._process_of[each].load, self._process_of[each].counts[each], each),
            default=None,
        )

    def _has_room(self, member_id: str, quota: _Quota) -> bool:
        return self._process_of[member_id].counts[member_id] < quota.size

    def _give(self, member_id: str, task: TaskId, role: dict[str, set[TaskId]]) -> None:
        process = self._process_of[member_id]
        role[member_id].add(task)
        process.tasks.add(task)
        process.counts[member_id] += 1
        if role is self._active:
            self._active_quota.note(process.counts[member_id])
        self._quota.note(process.counts[member_id])


def _by_load(process: _Process) -> tuple[float, str]:
    return process.load, process.process_id
