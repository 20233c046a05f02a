"""Groups of the consumer protocol (KIP-848), after every call of the store.

* a member holds exactly the partitions whose leases name it: none has two owners, none an owner that nobody knows
* a member holds nothing that is not in the target of its epoch, and its epoch rises only when it owes nothing
* who owes a partition is granted none; what it owes stays its own until it has said that it gave it up,
  and who owes for longer than its rebalance timeout is no member any more
* who commits owns the partition, and does so under the epoch of its grant or a later one
* of a streams group: no task is active at two members, and no process has two copies of a task
* a commit's stamp exceeds the one before; nothing writes a lease that stays as it was
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from odradek.engine.groups.items import MEMBER_PREFIX, decode_group, decode_member
from odradek.engine.groups.leases import LEASE_PREFIX
from odradek.engine.groups.state import MemberState
from odradek.model.streams import TaskId, Tasks
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key
from odradek.triggers.leases import OWNER_PREFIX

from tests.simulation.books.items import own_partition

_Target = Mapping[str, frozenset[PartitionId]]
_TaskTarget = Mapping[str, Tasks]

RESET = "reset"  # the metadata of a commit by somebody who sets a group's offsets while it has no members


def signature(member_id: str, epoch: int) -> str:
    """Return the metadata of a member's commits."""
    return f"{member_id}@{epoch}"


def foreign_commit(metadata: str, owner: str | None, lease_epoch: int) -> str:
    """Why whoever signed a commit must not make it; empty: it may. A simple consumer signs with nothing."""
    member_id, _, epoch = ("" if metadata == RESET else metadata).partition("@")
    if owner is None and member_id.startswith(OWNER_PREFIX) and int(epoch) == lease_epoch:
        return ""  # a dispatcher of triggers gives the lease back with its last commit
    if member_id != (owner or ""):
        return f"{member_id!r} committed what {owner!r} owns"
    if member_id and int(epoch) < lease_epoch:
        return f"{member_id!r} committed under epoch {epoch} what it was granted in {lease_epoch}"
    return ""


class GroupBook:
    """Writes of each group.

    Args:
        problem: takes note of what is wrong.
        is_repeated: whether the present call is of a request that was delivered again.

    Attributes:
        owned: by member id, what the member itself takes for its own at this moment.
    """

    def __init__(self, problem: Callable[[str], None], is_repeated: Callable[[], bool]) -> None:
        self._problem = problem
        self._is_repeated = is_repeated
        self.owned: dict[str, Callable[[], frozenset[PartitionId]]] = {}
        self._share: set[str] = set()
        self._task_targets: dict[str, dict[int, _TaskTarget]] = defaultdict(dict)
        self._targets: dict[str, dict[int, _Target]] = defaultdict(dict)
        self._members: dict[str, dict[str, MemberState]] = defaultdict(dict)
        self._leases: dict[str, dict[PartitionId, str]] = defaultdict(dict)
        self._written: dict[str, dict[str, MemberState | None]] = defaultdict(dict)  # by this call: as it was before

    def group_stored(self, key: Key, new: Item | None) -> None:
        """A group's item was written (new None: deleted)."""
        if new is None:
            self._targets.pop(key.pk, None)
            self._task_targets.pop(key.pk, None)
            return  # a share group stays one: whoever deletes it may not see yet that its first member has joined
        group = decode_group(key.pk, new)
        if group.is_share:
            self._share.add(key.pk)  # its members have no leases: each may read everything
        self._targets[key.pk][group.epoch] = group.target
        if group.streams is not None:
            self._task_targets[key.pk][group.epoch] = group.streams.target

    def member_stored(self, key: Key, new: Item | None) -> None:
        """A member was written (new None: removed)."""
        member_id = key.sk.removeprefix(MEMBER_PREFIX)
        before = self._members[key.pk].pop(member_id, None)
        self._written[key.pk].setdefault(member_id, before)
        if new is not None:
            self._members[key.pk][member_id] = decode_member(member_id, new)

    def lease_stored(self, key: Key, old: Item | None, new: Item | None) -> None:
        """A lease was written (new None: deleted)."""
        assert key.sk.startswith(LEASE_PREFIX)
        where = f"{key.pk} {key.sk}"
        if old is not None and new is not None:
            if old == new:
                self._problem(f"{where}: what stood there was written once more")
            elif new.get("c", 0) < old.get("c", 0):  # type: ignore[operator]
                self._problem(f"{where}: the stamp fell from {old['c']} to {new.get('c')}")
            elif old.get("c") == new.get("c") and any(old.get(name) != new.get(name) for name in ("f", "le", "m")):
                self._problem(f"{where}: two commits have the stamp {old.get('c')}")
        partition = own_partition(key)
        owner = None if new is None else new.get("o")
        if isinstance(owner, str) and not owner.startswith(OWNER_PREFIX):  # a dispatcher of triggers is no member
            self._leases[key.pk][partition] = owner
        else:
            self._leases[key.pk].pop(partition, None)
        self._written[key.pk] = self._written[key.pk]

    def why_not_hold(self, key: Key, new: Item) -> str:
        """Why a member must not hold now what the item says; empty: it may."""
        if key.pk in self._share:
            return ""  # no leases
        member = decode_member(key.sk.removeprefix(MEMBER_PREFIX), new)
        for other in self._members[key.pk].values():
            if other.member_id == member.member_id:
                continue
            if twice := member.held & other.held:
                return f"{sorted(twice)} is held by {other.member_id}"
            if member.streams is None or other.streams is None:
                continue
            if active := member.streams.held.active & other.streams.held.active:
                return f"{sorted(active)} is active at {other.member_id}"
            copies = set(member.streams.held) & set(other.streams.held)
            if copies and member.streams.process_id == other.streams.process_id:
                return f"{sorted(copies)} has a copy at {other.member_id}, in the same process"
        return ""

    def settled(self) -> None:
        """A call is over."""
        for pk, members in self._written.items():
            if pk in self._share:
                continue
            self._check_owners(pk)
            self._check_tasks(pk)
            for member_id, before in members.items():
                member = self._members[pk].get(member_id)
                if member is not None:
                    self._check_member(pk, before or MemberState(member_id), member)
        self._written.clear()

    def _check_owners(self, pk: str) -> None:
        by_members = {
            (partition, member.member_id) for member in self._members[pk].values() for partition in member.held
        }
        for partition, owner in sorted(by_members ^ self._leases[pk].items()):
            side = "holds it" if (partition, owner) in by_members else "is named by its lease"
            self._problem(f"{pk}: of {partition} only {owner} {side}")

    def _check_tasks(self, pk: str) -> None:
        active: Counter[TaskId] = Counter()
        copies: Counter[tuple[str, TaskId]] = Counter()
        for member in self._members[pk].values():
            if member.streams is not None:
                active.update(member.streams.held.active)
                copies.update((member.streams.process_id, task) for task in member.streams.held)
        for task_count in (*active.items(), *copies.items()):
            if task_count[1] > 1:
                self._problem(f"{pk}: task {task_count[0]} is held {task_count[1]} times")

    def _check_member(self, pk: str, before: MemberState, member: MemberState) -> None:
        member_text = f"{pk}: {member.member_id} of epoch {member.epoch}"
        if member.streams is not None:
            tasks = self._task_targets[pk].get(member.epoch, {}).get(member.member_id, Tasks())
            if extra := member.streams.held - tasks:
                self._problem(f"{member_text} holds tasks that are not in its target: {extra}")
            if bool(member.streams.held.active) != bool(member.held):
                self._problem(f"{member_text} has {member.streams.held.active} and the leases {sorted(member.held)}")
        target = self._targets[pk].get(member.epoch, {}).get(member.member_id, frozenset())
        if member.streams is None and (foreign := member.held - target):
            self._problem(f"{member_text} holds what is not in its target: {sorted(foreign)}")
        if member.revoking and member.epoch > before.epoch:
            self._problem(f"{member_text} rose from {before.epoch} while it owes {sorted(member.revoking)}")
        if member.revoking and (granted := member.assigned - before.held):
            self._problem(f"{member_text} was granted {sorted(granted)} while it owes {sorted(member.revoking)}")
        owes_too_long = before.revoking_elapsed_ms >= member.rebalance_timeout_ms
        if owes_too_long and (owed := before.revoking & member.revoking):
            self._problem(f"{member_text} goes on, and has owed {sorted(owed)} for {before.revoking_elapsed_ms} ms")
        owned = self.owned.get(member.member_id)
        if owned is not None and not self._is_repeated() and (lost := (before.held - member.held) & owned()):
            self._problem(f"{member_text} lost {sorted(lost)}, which it has not given up")
