"""Classic groups over a table: JoinGroup, SyncGroup, Heartbeat, LeaveGroup for clients before KIP-848.

Any process may serve any request: decisions (classic/decisions.py) are based on one read of the group and written on
its version. A member that waits in JoinGroup or SyncGroup polls the group. While it waits, it renews its session and
checks the others': the first to poll completes a round whose time has come and removes expired members. If the process
in which it waits dies, its client sends the request again, to any other.

Why each step is safe under crashes, repeats and lost answers: a write is conditional on the version, so a late or
repeated one does nothing; after an unknown outcome the group is read again, and every decision finds its own effect (a
member that has joined waits, an assignment that is written is answered). A member id is made once a call, so
a repeat does not join twice. Sessions are liveness only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from odradek.backoff import Backoff
from odradek.engine.classic.decisions import (
    SyncStep,
    check_identity,
    decide_heartbeat,
    decide_join,
    decide_round,
    decide_sync,
    leaving_member,
    rebalance_timeout_ms,
    rebalanced,
    without,
)
from odradek.engine.classic.held_assignments import HeldAssignments
from odradek.engine.classic.sessions import SessionWatch
from odradek.engine.groups import admin as group_admin
from odradek.engine.groups.classic_items import VERSION, classic_session_key, encode_classic
from odradek.engine.groups.items import group_key, listing_key
from odradek.engine.groups.requests import check_group_id
from odradek.engine.groups.sessions import alive
from odradek.engine.groups.state import GroupView
from odradek.engine.groups.store import GroupStore
from odradek.engine.partition.fields import is_version_or_absent
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.limits import ID_BYTES_MAX
from odradek.model.classic_group import (
    ClassicGroup,
    ClassicIdentity,
    ClassicJoin,
    ClassicJoinResult,
    ClassicLeave,
    ClassicLeaveResult,
    ClassicState,
    ClassicSync,
    ClassicSyncResult,
)
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Add, Compare, Delete, Key, Put, Set, Table, Update
from odradek.settings import Settings

MEMBER_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
"""The suffix of member ids that are generated here, after the client id."""

_RENEWALS_A_SESSION = 4  # of a member that waits
_CLIENT_ID_CHARACTERS_MAX = 200

_RETRIED = (ConditionFailed, TransactionCanceled, StoreUnavailable, OutcomeUnknown)


class ClassicGroups:
    """The coordinator of classic groups; holds only its observations of sessions.

    Args:
        held: partitions that groups do not get yet; None: they get all.
    """

    def __init__(
        self, groups: Table, clock: Clock, rng: Rng, settings: Settings, held: HeldAssignments | None = None
    ) -> None:
        self._store = GroupStore(groups)
        self._held = held
        self._table = groups
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.01, max_s=0.2)
        self._settings = settings
        self._watch = SessionWatch(clock)

    # --- join -------------------------------------------------------------------------------------------------------

    async def join(self, request: ClassicJoin) -> ClassicJoinResult:
        """Join a group and wait until its round is complete. Failures are results.

        Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL (also where the group has members
        of the new protocol), GROUP_MAX_SIZE_REACHED, INVALID_REQUEST (give up); MEMBER_ID_REQUIRED (join with the id in
        the answer), UNKNOWN_MEMBER_ID (join without an id), FENCED_INSTANCE_ID (another process has this place),
        COORDINATOR_NOT_AVAILABLE (again).
        """
        member_id = request.member_id
        try:
            self._check_join(request)
            if not member_id:
                member_id = self._new_member_id(request.client_id)
                if request.requires_known_member_id and request.instance_id is None:
                    return ClassicJoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            return await self._join(request, member_id)
        except KafkaError as error:
            return ClassicJoinResult(error.code, member_id=request.member_id)

    async def _join(self, request: ClassicJoin, member_id: str) -> ClassicJoinResult:
        waiting_since: int | None = None
        wait = _Wait(self._clock, self._settings, request.session_ms)
        failures = 0
        while True:
            try:
                view, group = await self._read(request.group_id)
                step = decide_join(
                    group,
                    request,
                    member_id,
                    waiting_since=waiting_since,
                    members_max=self._settings.group_members_max,
                )
                if step.group is not None:
                    await self._write(view, step.group)
                    await self._renew(request.group_id, member_id)
                if step.answer is not None:
                    return step.answer
                if waiting_since is None or step.group is not None:
                    waiting_since = (step.group or group).generation
                if step.group is None:
                    waited_ms = wait.since(("join", group.generation))
                    if await self._look(view, group, waited_ms):
                        continue
                    if wait.renewal_is_due():
                        await self._renew(request.group_id, member_id)
                    await wait.pause()
                failures = 0
            except _RETRIED as error:
                failures = await self._after_failure(request.group_id, failures, error)

    async def _look(self, view: GroupView, group: ClassicGroup, waited_ms: int) -> bool:
        """Complete the round if its time has come, remove expired members; return True if anything was written."""
        changed = decide_round(
            group, waited_ms=waited_ms, initial_delay_ms=self._settings.group_initial_rebalance_delay_ms
        )
        if changed is None:
            gone = self._watch.expired(view.group_id, group, view.sessions)
            changed = without(group, gone) if gone else None
        if changed is None:
            return False
        await self._write(view, changed)
        return True

    def _check_join(self, request: ClassicJoin) -> None:
        check_group_id(request.group_id)
        for text in (request.member_id, request.instance_id or ""):
            if len(text.encode()) > ID_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"a member or instance id may have at most {ID_BYTES_MAX} bytes"
                )
        low, high = self._settings.group_session_timeout_ms_min, self._settings.group_session_timeout_ms_max
        if not low <= request.session_ms <= high:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT, f"the session timeout must be between {low} and {high} ms"
            )
        if not request.protocols or not request.protocol_type:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member must name its protocol type and protocols"
            )
        if request.member_id and request.instance_id is None and not MEMBER_ID.search(request.member_id):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the coordinator assigns member ids: join without one")

    def _new_member_id(self, client_id: str) -> str:
        made = UUID(bytes=self._rng.random_bytes(16), version=4)
        return f"{client_id[:_CLIENT_ID_CHARACTERS_MAX]}-{made}"

    # --- sync, heartbeat, leave --------------------------------------------------------------------------------------

    async def sync(self, request: ClassicSync) -> ClassicSyncResult:
        """Hand in the assignment (the leader) and wait for one's own. Failures are results.

        Errors: INVALID_GROUP_ID, INCONSISTENT_GROUP_PROTOCOL (give up); UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
        REBALANCE_IN_PROGRESS (join again), FENCED_INSTANCE_ID, COORDINATOR_NOT_AVAILABLE (again).
        """
        group_id, member_id = request.identity.group_id, request.identity.member_id
        wait: _Wait | None = None
        failures = 0
        try:
            check_group_id(group_id)
            while True:
                try:
                    view, group = await self._read_classic(group_id)
                    step = await self._decide_sync(group, request)
                    if step.group is not None:
                        await self._write(view, step.group)
                    if step.answer is not None:
                        return step.answer
                    if wait is None:
                        member = group.member(member_id)
                        wait = _Wait(self._clock, self._settings, member.session_ms if member else 0)
                    waited_ms = wait.since(("sync", group.generation))
                    gone = self._watch.expired(group_id, group, view.sessions)
                    if waited_ms > rebalance_timeout_ms(group) and group.leader is not None:
                        gone.append(group.leader)  # it heartbeats, but never hands in an assignment
                    if gone:
                        await self._write(view, without(group, gone))
                        continue
                    if wait.renewal_is_due():
                        await self._renew(group_id, member_id)
                    await wait.pause()
                    failures = 0
                except _RETRIED as error:
                    failures = await self._after_failure(group_id, failures, error)
        except KafkaError as error:
            return ClassicSyncResult(error.code)

    async def _decide_sync(self, group: ClassicGroup, request: ClassicSync) -> SyncStep:
        step = decide_sync(group, request)
        if step.group is None or self._held is None:
            return step
        return decide_sync(*await self._held.taken_out(group, request))

    async def heartbeat(self, identity: ClassicIdentity) -> ErrorCode:
        """Live on: NONE, or REBALANCE_IN_PROGRESS (join again), ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
        FENCED_INSTANCE_ID, INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE (again)."""
        failures = 0
        try:
            check_group_id(identity.group_id)
            while True:
                try:
                    view, group = await self._read_classic(identity.group_id)
                    if check_identity(group, identity) is None:
                        await self._renew(identity.group_id, identity.member_id)
                    others = [
                        member_id
                        for member_id in self._watch.expired(identity.group_id, group, view.sessions)
                        if member_id != identity.member_id
                    ]
                    if others:
                        group = without(group, others)
                        await self._write(view, group)
                    elif group.state is ClassicState.STABLE and await self._is_released(identity.group_id, group):
                        group = rebalanced(group)
                        await self._write(view, group)
                    return decide_heartbeat(group, identity)
                except _RETRIED as error:
                    failures = await self._after_failure(identity.group_id, failures, error)
        except KafkaError as error:
            return error.code

    async def _is_released(self, group_id: str, group: ClassicGroup) -> bool:
        return self._held is not None and await self._held.is_released(group_id, group)

    async def leave(self, group_id: str, leaves: Sequence[ClassicLeave]) -> ClassicLeaveResult:
        """Remove members; each has an error code: NONE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.

        Also members of a group of the new protocol: an administrator removes those by LeaveGroup, too.

        Errors of the whole: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE.
        """
        failures = 0
        left: set[ClassicLeave] = set()  # tried, perhaps applied
        try:
            check_group_id(group_id)
            while True:
                try:
                    view, group = await self._read_classic(group_id)
                    codes = []
                    gone = set()
                    is_new = view.group is not None and view.group.group_type == "consumer"
                    for leave in leaves:
                        found = group_admin.leaving_member(view, leave) if is_new else leaving_member(group, leave)
                        if isinstance(found, ErrorCode):
                            codes.append((leave, ErrorCode.NONE if leave in left else found))
                        else:
                            codes.append((leave, ErrorCode.NONE))
                            gone |= {found.member_id}
                            left |= {leave}
                    if gone and is_new:
                        members = [view.members[member_id] for member_id in sorted(gone)]
                        await group_admin.remove_some(self._store, self._clock, self._settings, view, members)
                        continue  # until none of them is left: one step removes as many as it has room for
                    if gone:
                        await self._write(view, without(group, gone))
                    return ClassicLeaveResult(members=codes)
                except _RETRIED as error:
                    failures = await self._after_failure(group_id, failures, error)
        except KafkaError as error:
            return ClassicLeaveResult(error.code)

    # --- the store ---------------------------------------------------------------------------------------------------

    async def _read_classic(self, group_id: str) -> tuple[GroupView, ClassicGroup]:
        """Return the stored group; one of the new protocol has no classic members. Raises StoreUnavailable."""
        view = await self._store.read(group_id)
        classic = view.group.classic if view.group is not None else None
        return view, classic or ClassicGroup()

    async def _read(self, group_id: str) -> tuple[GroupView, ClassicGroup]:
        """The group for a join: an empty one of the new protocol becomes classic, keeping its offsets.

        Raises KafkaError(INCONSISTENT_GROUP_PROTOCOL) where members of the new protocol live in it.
        """
        view = await self._store.read(group_id)
        if view.group is not None and view.group.is_share:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {group_id} is a share group: use a share consumer",
            )
        if view.group is None or view.group.classic is not None:
            return view, (view.group.classic if view.group is not None else None) or ClassicGroup()
        if alive(view.members.values(), self._clock.now_ms()):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {group_id} has members of the {view.group.group_type} protocol: use "
                f"group.protocol={view.group.group_type}",
            )
        if view.members:
            await group_admin.evict(self._store, self._clock, self._settings, view)
            raise StoreUnavailable("expired members were removed: read again")
        return view, ClassicGroup(generation=view.group.epoch)

    async def _write(self, view: GroupView, group: ClassicGroup) -> None:
        """Write the group on the version that was read, then delete sessions of former members.

        Raises as `Table.put`, and KafkaError(GROUP_MAX_SIZE_REACHED) if it no longer fits an item.
        """
        key = group_key(view.group_id)
        try:
            if view.group is None:
                item = encode_classic(group, 1)
                await self._table.transact(
                    [Put(key, item, Absent(("v",))), Put(listing_key(view.group_id), {"v": VERSION})]
                )
            else:
                item = encode_classic(group, view.group.version + 1)
                await self._table.put(Put(key, item, Compare(("n",), "=", view.group.version)))
        except (ItemTooLarge, StoreRejected):
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {view.group_id} with the subscriptions of {len(group.members)} members does not fit an item: "
                f"use fewer members or topics, or group.protocol=consumer",
            ) from None
        stale = view.sessions.keys() - {member.member_id for member in group.members}
        for member_id in sorted(stale):
            await self._forget(classic_session_key(view.group_id, member_id))

    async def _forget(self, key: Key) -> None:
        """Best effort: the next write of the group tries again."""
        try:
            await self._table.delete(Delete(key))
        except StoreError:
            return

    async def _renew(self, group_id: str, member_id: str) -> None:
        """Raise the session's counter. A failure is nothing: the next heartbeat comes soon."""
        actions = (Set(("v",), VERSION), Add(("n",), 1), Set(("rn",), self._clock.now_ms()))
        try:
            key = classic_session_key(group_id, member_id)
            await self._table.update(Update(key, actions, is_version_or_absent(VERSION)))
        except StoreError:
            return

    async def _after_failure(self, group_id: str, failures: int, error: Exception) -> int:
        failures += 1
        if failures >= self._settings.group_attempts_max:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"group {group_id} is contended, or the groups table does not answer: try again",
            ) from error
        await self._backoff.pause(failures - 1)
        return failures


class _Wait:
    """The waiting time of a member, its next renewal, and its polling interval."""

    def __init__(self, clock: Clock, settings: Settings, session_ms: int) -> None:
        self._clock = clock
        self._settings = settings
        self._renew_every_s = session_ms / 1000 / _RENEWALS_A_SESSION
        self._renewed_s = clock.monotonic()
        self._pause_ms = settings.poll_interval_ms
        self._what: tuple[str, int] | None = None
        self._since_s = clock.monotonic()

    def since(self, what: tuple[str, int]) -> int:
        """Milliseconds that this has been waited for."""
        if what != self._what:
            self._what, self._since_s = what, self._clock.monotonic()
            self._pause_ms = self._settings.poll_interval_ms
        return int((self._clock.monotonic() - self._since_s) * 1000)

    def renewal_is_due(self) -> bool:
        now_s = self._clock.monotonic()
        if now_s - self._renewed_s < self._renew_every_s:
            return False
        self._renewed_s = now_s
        return True

    async def pause(self) -> None:
        await self._clock.sleep(self._pause_ms / 1000)
        self._pause_ms = min(self._pause_ms + self._settings.poll_interval_ms, self._settings.poll_interval_ms_max)
