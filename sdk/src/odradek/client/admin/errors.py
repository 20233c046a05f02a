"""Errors of administrative responses, with messages that name the resource."""

from __future__ import annotations

from typing import Any

from odradek.client.connection import error_code
from odradek.errors import ErrorCode, KafkaError


class NotThere(KafkaError):
    """UNKNOWN_TOPIC_OR_PARTITION as a final answer, which is not retried."""

    @property
    def is_retryable(self) -> bool:
        return False


def raise_for(name: str, code: int, message: str | None) -> None:
    """Raise KafkaError for the error of a named resource, if it has one."""
    known = error_code(code)
    if known is not ErrorCode.NONE:
        raise KafkaError(known, sentence(name, known, message))


_UNSAID = {  # texts for responses that have no field for a message
    ErrorCode.GROUP_ID_NOT_FOUND: "does not exist",
    ErrorCode.NON_EMPTY_GROUP: "has members: stop them first",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "is not allowed by any ACL",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "does not exist",
}


def sentence(name: str, code: ErrorCode, message: str | None) -> str:
    """Return a message about the named resource, in which the name appears once."""
    if not message:
        return f"{name} {_UNSAID[code]}" if code in _UNSAID else f"{name}: {code.name}"
    return message if message.startswith(name) else f"{name}: {message}"


def raise_for_groups(response: Any) -> None:
    """Raise the first error in the `groups` of a response."""
    for group in response.groups:
        raise_for(f"group {group.group_id!r}", group.error_code, group.error_message)
