"""Validation of heartbeats, independent of the group's state (KIP-848, "Request Validation"). Pure."""

from __future__ import annotations

from odradek.engine.groups.assignors import ASSIGNORS
from odradek.engine.groups.topic_pattern import topic_pattern
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import ID_BYTES_MAX, TOPICS_PER_REQUEST_MAX
from odradek.model.group import JOIN_EPOCH, LEAVE_STATIC_EPOCH, GroupHeartbeat


def check_group_id(group_id: str) -> None:
    """Raises KafkaError(INVALID_GROUP_ID) for a group id that cannot be stored."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id cannot be empty: set group_id")
    if not may_be(group_id):
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"a group id may have at most {ID_BYTES_MAX} bytes")


def check_group_of_heartbeat(group_id: str) -> None:
    """Raises KafkaError as `check_group_id`, but INVALID_REQUEST for an empty id, as Apache Kafka's heartbeats."""
    if not group_id:
        raise _invalid("the group id cannot be empty: set group_id")
    check_group_id(group_id)


def may_be(group_id: str) -> bool:
    """Return True for a valid group id."""
    return 0 < len(group_id.encode()) <= ID_BYTES_MAX


def check_heartbeat(request: GroupHeartbeat) -> None:
    """Raises KafkaError: INVALID_GROUP_ID, INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION."""
    check_group_of_heartbeat(request.group_id)
    texts = {
        "member id": request.member_id,
        "instance id": request.instance_id,
        "rack id": request.rack_id,
        "topic pattern": request.subscribed_topic_regex,
        "client id": request.client_id,
    }
    for what, text in texts.items():
        if text is not None and len(text.encode()) > ID_BYTES_MAX:
            raise _invalid(f"the {what} has more than {ID_BYTES_MAX} bytes")
    if request.instance_id == "" or request.rack_id == "":
        raise _invalid("an instance id or rack id cannot be empty")
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(f"invalid member epoch {request.member_epoch}: the lowest is {LEAVE_STATIC_EPOCH}")
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid(f"only a member with an instance id may leave with epoch {LEAVE_STATIC_EPOCH}")
    if not request.member_id and request.member_epoch != JOIN_EPOCH:
        raise _invalid("the member id cannot be empty")
    if request.subscribed_topic_names is not None and len(request.subscribed_topic_names) > TOPICS_PER_REQUEST_MAX:
        raise _invalid(f"a member may subscribe to at most {TOPICS_PER_REQUEST_MAX} topics by name: use a pattern")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"unknown assignor {request.server_assignor[:40]!r}: use one of {', '.join(sorted(ASSIGNORS))}",
        )
    if request.subscribed_topic_regex:
        topic_pattern(request.subscribed_topic_regex)


def _check_join(request: GroupHeartbeat) -> None:
    if request.rebalance_timeout_ms <= 0:
        raise _invalid("a joining member must give its rebalance timeout")
    if request.owned:
        raise _invalid("a joining member cannot own partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("a joining member must give its subscription: topic names or a pattern")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
