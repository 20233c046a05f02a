"""Membership of share groups: their decisions, in the common loop of heartbeats (groups/heartbeats.py).

A heartbeat of a stable group is one Query and one PutItem. The configuration is that of the group (groups/configs.py).
`Groups` describes, lists and deletes groups of every kind.
"""

from __future__ import annotations

from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.configs import GroupConfigs
from odradek.engine.groups.decisions import LEASES_PER_STEP, Circumstances, Transition
from odradek.engine.groups.heartbeats import Heartbeats
from odradek.engine.groups.requests import check_group_of_heartbeat
from odradek.engine.groups.state import GroupView
from odradek.engine.groups.store import GroupStore
from odradek.engine.groups.topics import SubscribedTopics
from odradek.engine.partition.fields import attribute
from odradek.engine.share.group_decisions import decide_share_heartbeat
from odradek.engine.share.windows import forget_windows
from odradek.engine.tools import Tools
from odradek.errors import ConditionFailed, ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import (
    SHARE_PARTITION_END,
    SHARE_PARTITION_PREFIX,
    SHARE_SESSION_END,
    SHARE_SESSION_PREFIX,
    group_pk,
)
from odradek.limits import ID_BYTES_MAX, TOPICS_PER_REQUEST_MAX
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, GroupHeartbeat, GroupHeartbeatResult
from odradek.ports.clock import Clock
from odradek.ports.table import Compare, Delete
from odradek.settings import Settings


class ShareGroups:
    """KIP-932's group coordinator over the groups table."""

    def __init__(self, tools: Tools, topics: Topics, configs: GroupConfigs) -> None:
        clock, settings = tools.clock, tools.settings
        self._tables = tools.tables
        protocol = ShareHeartbeats(SubscribedTopics(topics, clock, settings), configs, clock, settings)
        self._heartbeats = Heartbeats(GroupStore(tools.tables.groups), protocol, clock, tools.rng, settings)

    async def heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        """Join, live on or leave: what ShareGroupHeartbeat says, as a GroupHeartbeat. Failures are results.

        Errors: INVALID_GROUP_ID, INVALID_REQUEST, GROUP_ID_NOT_FOUND (it is a group of another kind),
        GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH (join again), COORDINATOR_NOT_AVAILABLE (send it
        again).
        """
        result = await self._heartbeats.heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH and result.error is ErrorCode.NONE:
            await self._forget_left(request.group_id, request.member_id)
        return result

    async def _forget_left(self, group_id: str, member_id: str) -> None:
        """Delete sessions that former members have not closed; after a store error the next leave does it."""
        groups, pk = self._tables.groups, group_pk(group_id)
        try:
            sessions = await groups.query(pk, sk_from=SHARE_SESSION_PREFIX, sk_to=SHARE_SESSION_END)
            kept = {*(await GroupStore(groups).read(group_id)).members, member_id}
            for key, item in sessions:
                if key.sk.removeprefix(SHARE_SESSION_PREFIX) not in kept:
                    await groups.delete(Delete(key, Compare(("w",), "=", attribute(item, "w", bytes))))
        except (ConditionFailed, OutcomeUnknown, StoreUnavailable):
            return

    async def delete_items(self, group_id: str) -> None:
        """Delete the windows and sessions of a share group that has no members: only a member makes windows.

        Raises StoreError: call it again.
        """
        groups, pk = self._tables.groups, group_pk(group_id)
        windows = await groups.query(pk, sk_from=SHARE_PARTITION_PREFIX, sk_to=SHARE_PARTITION_END)
        await forget_windows(self._tables, windows)
        rows = await groups.query(pk, sk_from=SHARE_SESSION_PREFIX, sk_to=SHARE_SESSION_END)
        for start in range(0, len(rows), LEASES_PER_STEP):
            await groups.transact([Delete(row.key) for row in rows[start : start + LEASES_PER_STEP]])


class ShareHeartbeats:
    """KIP-932's decisions: `HeartbeatProtocol` of share groups."""

    def __init__(self, topics: SubscribedTopics, configs: GroupConfigs, clock: Clock, settings: Settings) -> None:
        self._topics = topics
        self._configs = configs
        self._clock = clock
        self._settings = settings

    def check(self, request: GroupHeartbeat) -> None:
        check_share_heartbeat(request)

    def admit(self, view: GroupView) -> GroupView:
        return view  # the decision looks itself

    async def decide(self, view: GroupView, request: GroupHeartbeat, nonce: bytes, *, is_taken_in: bool) -> Transition:
        config = await self._configs.of(request.group_id)
        transition = Transition(GroupHeartbeatResult())
        for fresh in (False, True):
            topics = await self._topics.of(view.members.values(), request, fresh=fresh)
            around = Circumstances(topics, self._clock.now_ms(), nonce, self._settings)
            transition = decide_share_heartbeat(
                view,
                request,
                around,
                interval_ms=config.heartbeat_interval_ms,
                session_ms=config.session_timeout_ms,
            )
            if transition.group is None:
                break
        return transition


def check_share_heartbeat(request: GroupHeartbeat) -> None:
    """Raises KafkaError: INVALID_GROUP_ID, INVALID_REQUEST."""
    check_group_of_heartbeat(request.group_id)
    check_share_member_id(request.member_id)
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"invalid member epoch {request.member_epoch}: the lowest is {LEAVE_EPOCH}")
    if request.rack_id is not None and not 0 < len(request.rack_id.encode()) <= ID_BYTES_MAX:
        raise _invalid(f"a rack id must be null or have 1 to {ID_BYTES_MAX} bytes")
    names = request.subscribed_topic_names
    if request.member_epoch == JOIN_EPOCH and not names:
        raise _invalid("a joining member must give its subscription")
    if names is not None and len(names) > TOPICS_PER_REQUEST_MAX:
        raise _invalid(f"a member may subscribe to at most {TOPICS_PER_REQUEST_MAX} topics")


def check_share_member_id(member_id: str) -> None:
    """Raises KafkaError(INVALID_REQUEST) for a member id that cannot be stored."""
    if not 0 < len(member_id.encode()) <= ID_BYTES_MAX:
        raise _invalid(f"a member must choose its own id, of 1 to {ID_BYTES_MAX} bytes")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
