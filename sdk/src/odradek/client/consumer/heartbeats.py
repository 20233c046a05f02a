"""Heartbeats of consumer groups and share groups: member ids, and the reaction to a failed heartbeat."""

from __future__ import annotations

import base64

from odradek.client.connection import Connection
from odradek.client.retry import RetryAfter, decide
from odradek.errors import ErrorCode, KafkaError
from odradek.ports.rng import Rng

LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""The coordinator does not know this member any more: it joins again."""
_MEMBER_ID_BYTES = 16
_SHORTEST_PAUSE_S = 0.001


def new_member_id(rng: Rng) -> str:
    """Return a member id made by the client (KIP-1082): URL-safe base64, like Kafka's Uuid."""
    return base64.urlsafe_b64encode(rng.random_bytes(_MEMBER_ID_BYTES)).decode().rstrip("=")


def pause_between_beats(error: KafkaError, failures: int, connection: Connection) -> float | None:
    """Return the seconds until the next attempt after `failures` in a row; None if the error is not retryable."""
    verdict = decide(
        error,
        attempts=failures,
        left_s=float("inf"),
        policy=connection.policy,
        jitter=connection.rng.random(),
    )
    return max(verdict.seconds, _SHORTEST_PAUSE_S) if isinstance(verdict, RetryAfter) else None
