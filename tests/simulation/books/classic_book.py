"""Groups of the classic protocol: at every write of a group and every commit, and what members are told.

* a generation never goes back; within one there is one leader, one set of members who were told of it, one assignment
* a partition is assigned to one member in a generation; no generation is settled without the leader's assignment
* a commit is one of a member of the group, in the group's generation, and not between a round and its sync

A member signs its commits by their metadata (`signature`), so that the table tells whose they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from odradek.engine.groups.classic_items import decode_classic, is_classic
from odradek.format.item_keys import group_pk
from odradek.model.classic_group import ClassicGroup, ClassicState
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key

_SIGNED = "classic"
_EARLY = "early"


def signature(member_id: str, generation: int, *, is_early: bool = False) -> str:
    """Return the metadata of a member's commits; `is_early`: before it knows its partitions."""
    return f"{_EARLY if is_early else _SIGNED} {generation} {member_id}"


def number_in(name: str) -> str:
    """Return the number at the end of the name of an actor or of its process."""
    return name[len(name.rstrip("0123456789")) :]


def is_signed(metadata: str) -> bool:
    """Return True if a commit is a classic member's."""
    return metadata.startswith((f"{_SIGNED} ", f"{_EARLY} "))


def is_early(metadata: str) -> bool:
    """Return True if a classic member made the commit before it knew its partitions: of those that were its own."""
    return metadata.startswith(f"{_EARLY} ")


class ClassicBook:
    """Attributes:
    groups: as they stand, by id.
    leaders: by group and generation, whom members were told to be the leader.
    owners: by group and generation, the member that each partition was told to.
    """

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self.groups: dict[str, ClassicGroup] = {}
        self.leaders: dict[tuple[str, int], str] = {}
        self.owners: dict[tuple[str, int], dict[PartitionId, str]] = defaultdict(dict)
        self._told: dict[tuple[str, int, str], frozenset[PartitionId]] = {}

    def stored(self, key: Key, new: Item | None, caller: str) -> None:
        """A group's item was written (new None: deleted)."""
        group_id = key.pk.removeprefix(group_pk(""))
        before = self.groups.pop(group_id, None)
        if new is None or not is_classic(new):
            return
        group = self.groups[group_id] = decode_classic(new)
        is_settled = before is not None and before.state is ClassicState.COMPLETING_REBALANCE
        if is_settled and group.state is ClassicState.STABLE and not any(m.assignment for m in group.members):
            self._problem(f"generation {group.generation} of {group_id} is settled, and nobody was assigned anything")
        if before is not None and before.state is ClassicState.PREPARING_REBALANCE:
            self._round_ended(group_id, before, group, caller)
        if before is not None and group.generation < before.generation:
            self._problem(f"the generation of {group_id} goes back from {before.generation} to {group.generation}")

    def _round_ended(self, group_id: str, before: ClassicGroup, after: ClassicGroup, caller: str) -> None:
        """Check that members of the new generation joined its round; the one that ends it joins with that write."""
        if after.state is not ClassicState.COMPLETING_REBALANCE:
            return
        for member in after.members:
            was = before.member(member.member_id)
            is_writer = number_in(member.client_id) == number_in(caller.split(".")[0])
            if was is not None and not was.joined and was.instance_id is None and not is_writer:
                self._problem(f"{member.member_id} is in generation {after.generation} of {group_id} without joining")

    def committed(self, group_id: str, metadata: str) -> None:
        """A commit that a classic member signed was applied."""
        wrong = self.why_not(group_id, metadata)
        if wrong:
            self._problem(wrong)

    def why_not(self, group_id: str, metadata: str) -> str:
        """Why a commit with that signature must not be applied now; empty: it may."""
        _, generation, member_id = metadata.split(" ", 2)
        group = self.groups.get(group_id, ClassicGroup())
        commit_text = f"{member_id} of generation {generation} committed to {group_id}"
        if group.generation != int(generation):
            return f"{commit_text}, whose generation is {group.generation}"
        if group.member(member_id) is None:
            return f"{commit_text}, which it is no member of"
        if group.state is ClassicState.COMPLETING_REBALANCE:
            return f"{commit_text} before it could know its partitions"
        return ""

    def joined(self, group_id: str, generation: int, member_id: str, leader: str) -> None:
        """A member was told of a round that is complete."""
        known_leader = self.leaders.setdefault((group_id, generation), leader)
        if known_leader != leader:
            self._problem(
                f"{member_id} was told that {leader} leads generation {generation}, others that {known_leader} does"
            )

    def assigned(self, group_id: str, generation: int, member_id: str, partitions: frozenset[PartitionId]) -> None:
        """A member was told its partitions."""
        before = self._told.setdefault((group_id, generation, member_id), partitions)
        if before != partitions:
            self._problem(f"{member_id} was told two assignments in generation {generation} of {group_id}")
        owners = self.owners[group_id, generation]
        for partition in partitions:
            other = owners.setdefault(partition, member_id)
            if other != member_id:
                self._problem(f"{partition} is {other}'s and {member_id}'s in generation {generation} of {group_id}")
