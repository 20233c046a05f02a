"""Share groups' membership: the loop of consumer groups (groups.py) over decisions of their own.

A heartbeat of a quiet group is one Query and one PutItem. Configuration comes from the group's own
(groups/configs.py). Describing, listing and deleting is what `Groups` does for groups of every kind.
"""

from __future__ import annotations

from odradek.engine.groups.decisions import Circumstances, Transition
from odradek.engine.groups.groups import Groups
from odradek.engine.groups.items import ID_BYTES_MAX
from odradek.engine.groups.requests import check_group_id
from odradek.engine.groups.state import GroupView
from odradek.engine.share.group_decisions import decide_share_heartbeat
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import TOPICS_PER_REQUEST_MAX
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, GroupHeartbeat, GroupHeartbeatResult


class ShareGroups(Groups):
    """KIP-932's group coordinator over the groups table.

    `heartbeat` takes what ShareGroupHeartbeat says as a GroupHeartbeat. Errors: INVALID_GROUP_ID, INVALID_REQUEST,
    GROUP_ID_NOT_FOUND (it is a group of another kind), GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH
    (join again), COORDINATOR_NOT_AVAILABLE (send it again).
    """

    def _check(self, request: GroupHeartbeat) -> None:
        check_share_heartbeat(request)

    def _of_this_protocol(self, view: GroupView) -> GroupView:
        return view  # the decision looks itself

    async def _decide(self, view: GroupView, request: GroupHeartbeat, nonce: bytes, *, is_taken_in: bool) -> Transition:
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
    check_group_id(request.group_id)
    check_share_member_id(request.member_id)
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"the member epoch {request.member_epoch} has no meaning; the lowest is {LEAVE_EPOCH}")
    if request.rack_id is not None and not 0 < len(request.rack_id.encode()) <= ID_BYTES_MAX:
        raise _invalid(f"a rack id is null or has 1 to {ID_BYTES_MAX} bytes")
    names = request.subscribed_topic_names
    if request.member_epoch == JOIN_EPOCH and not names:
        raise _invalid("a member that joins must say which topics it subscribes to")
    if names is not None and len(names) > TOPICS_PER_REQUEST_MAX:
        raise _invalid(f"a member subscribes to at most {TOPICS_PER_REQUEST_MAX} topics")


def check_share_member_id(member_id: str) -> None:
    """Raises KafkaError(INVALID_REQUEST) for a member id that cannot be stored."""
    if not 0 < len(member_id.encode()) <= ID_BYTES_MAX:
        raise _invalid(f"a member makes its own id, of 1 to {ID_BYTES_MAX} bytes")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
