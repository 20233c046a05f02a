"""Assignors: the owner of each partition among a group's members. Pure, total and deterministic.

    uniform   balanced and sticky: a partition moves only where balance asks for it; new ones go in consecutive runs
    range     each topic cut into consecutive ranges, members in the same order for every topic

The same members and topics in any order give the same assignment, so that two functions that compute it at once agree.
Invariants of both: every partition of a topic that somebody subscribes to has exactly one owner, and the owner
subscribes to its topic. Names and meaning are KIP-848's (server-side assignors); "previous" is the last target.

`uniform` is balanced in the strong sense: as long as some chain of members m1 -> m2 -> ... -> mk, each able to take
a partition of the one before it, ends at a member that holds at least two fewer than m1, a partition moves along the
chain. With equal subscriptions that is a difference of at most one, and no move beyond the fewest possible.

`range` puts partition p of every co-partitioned topic (same count, same subscribers) on the same member; ordering by
instance id where there is one keeps a static member's place over restarts (Kafka's RangeAssignor).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from uuid import UUID

from odradek.model.topic_partition import PartitionId

Assignment = dict[str, frozenset[PartitionId]]

UNIFORM = "uniform"
RANGE = "range"


@dataclass(frozen=True, slots=True)
class AssignorMember:
    """A member as an assignor sees it."""

    member_id: str
    topic_ids: frozenset[UUID]  # topics that it subscribes to
    previous: frozenset[PartitionId] = frozenset()  # its part of the last target
    instance_id: str | None = None


def assign_uniform(members: Sequence[AssignorMember], topics: Mapping[UUID, int]) -> Assignment:
    """Balance the partitions over the members, keeping as many as possible where they were.

    Args:
        members: the group's members, ids unique.
        topics: partition count by topic id; subscriptions to other topics are ignored.

    Returns:
        The partitions of each member; every member has an entry.
    """
    balance = _Balance(sorted(members, key=lambda member: member.member_id), topics)
    balance.keep_previous()
    balance.place_the_rest()
    while balance.improve():
        pass
    return balance.assignment()


def assign_range(members: Sequence[AssignorMember], topics: Mapping[UUID, int]) -> Assignment:
    """Cut each topic into consecutive ranges, one a subscriber; the first ones are longer by one where it does not
    divide.

    Arguments and answer as of `assign_uniform`; `previous` plays no part.
    """
    owned: dict[str, set[PartitionId]] = {member.member_id: set() for member in members}
    ordered = sorted(members, key=lambda member: (member.instance_id or member.member_id, member.member_id))
    for topic_id, partition_count in topics.items():
        subscribers = [member for member in ordered if topic_id in member.topic_ids]
        if not subscribers:
            continue
        quota, longer = divmod(partition_count, len(subscribers))
        start = 0
        for position, member in enumerate(subscribers):
            end = start + quota + (position < longer)
            owned[member.member_id].update(PartitionId(topic_id, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


ASSIGNORS: Mapping[str, Callable[[Sequence[AssignorMember], Mapping[UUID, int]], Assignment]] = {
    UNIFORM: assign_uniform,
    RANGE: assign_range,
}


def preferred_assignor(choices: Iterable[str | None]) -> str:
    """Return the assignor that most members choose; `uniform` without a choice, the first by name after a tie."""
    votes = [choice for choice in choices if choice is not None]
    return min(set(votes), key=lambda choice: (-votes.count(choice), choice)) if votes else UNIFORM


class _Balance:
    """The working state of `assign_uniform`: the partitions of each member by topic."""

    def __init__(self, members: Sequence[AssignorMember], topics: Mapping[UUID, int]) -> None:
        self._members = members
        self._topics = topics
        self._subscribers = {
            topic_id: [member.member_id for member in members if topic_id in member.topic_ids]
            for topic_id in sorted(topics)
        }
        self._held: dict[str, dict[UUID, list[int]]] = {member.member_id: {} for member in members}
        self._load = dict.fromkeys(self._held, 0)

    def keep_previous(self) -> None:
        """Leave each partition where it was, if it still exists and its owner still subscribes; the first by id
        wins."""
        taken: set[PartitionId] = set()
        for member in self._members:
            for partition in sorted(member.previous - taken):
                is_there = 0 <= partition.partition < self._topics.get(partition.topic_id, 0)
                if is_there and partition.topic_id in member.topic_ids:
                    taken.add(partition)
                    self._give(member.member_id, partition)

    def place_the_rest(self) -> None:
        """Assign the remaining partitions to the least loaded subscribers, topics with few subscribers first.

        Each gets a run of consecutive ones, as from Kafka's assignor: they lie beside each other in uploads and share
        heads, so that a member reads its part of an upload and some of the heads, and not all of both.
        """
        taken = {
            PartitionId(topic_id, number)
            for held in self._held.values()
            for topic_id, numbers in held.items()
            for number in numbers
        }
        for topic_id in sorted(self._subscribers, key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id)):
            numbers = (number for number in range(self._topics[topic_id]) if PartitionId(topic_id, number) not in taken)
            left = list(numbers) if self._subscribers[topic_id] else []
            for member_id, count in self._shares(topic_id, len(left)).items():
                for number in left[:count]:
                    self._give(member_id, PartitionId(topic_id, number))
                del left[:count]

    def _shares(self, topic_id: UUID, count: int) -> dict[str, int]:
        """How many more partitions of a topic each subscriber gets: one after the other goes to the least loaded."""
        shares = dict.fromkeys(self._subscribers[topic_id], 0)
        loads = [(self._load[member_id], member_id) for member_id in shares]
        heapify(loads)
        for _ in range(count):
            load, member_id = loads[0]
            shares[member_id] += 1
            heapreplace(loads, (load + 1, member_id))
        return shares

    def improve(self) -> bool:
        """Move one partition along a shortest chain from a loaded member to one with at least two fewer, if there is
        any."""
        least = min(self._load.values(), default=0)
        for source in sorted(self._load, key=lambda member_id: (-self._load[member_id], member_id)):
            if self._load[source] < least + 2:
                return False
            chain = self._chain_from(source)
            if chain:
                for giver, topic_id, taker in chain:
                    number = self._held[giver][topic_id].pop()
                    self._load[giver] -= 1
                    self._give(taker, PartitionId(topic_id, number))
                return True
        return False

    def assignment(self) -> Assignment:
        return {
            member_id: frozenset(PartitionId(topic_id, number) for topic_id in held for number in held[topic_id])
            for member_id, held in self._held.items()
        }

    def _give(self, member_id: str, partition: PartitionId) -> None:
        self._held[member_id].setdefault(partition.topic_id, []).append(partition.partition)
        self._load[member_id] += 1

    def _chain_from(self, source: str) -> list[tuple[str, UUID, str]]:
        """Steps (giver, topic, taker) to the nearest member with at least two fewer than `source`; empty where none
        is."""
        steps: dict[str, tuple[str, UUID, str] | None] = {source: None}
        waiting = deque([source])
        while waiting:
            giver = waiting.popleft()
            # Of the topics that it holds most of first, so that topics spread as well.
            for topic_id in sorted(self._held[giver], key=lambda topic: (-len(self._held[giver][topic]), topic)):
                if not self._held[giver][topic_id]:
                    continue
                takers = [member_id for member_id in self._subscribers[topic_id] if member_id not in steps]
                for taker in sorted(takers, key=lambda member_id: (self._load[member_id], member_id)):
                    steps[taker] = (giver, topic_id, taker)
                    if self._load[taker] <= self._load[source] - 2:
                        return _back_to_source(steps, taker)
                    waiting.append(taker)
        return []


def _back_to_source(steps: Mapping[str, tuple[str, UUID, str] | None], last: str) -> list[tuple[str, UUID, str]]:
    chain = []
    step = steps[last]
    while step is not None:
        chain.append(step)
        step = steps[step[0]]
    return chain[::-1]
