"""What members of consumer groups and of share groups share: how ids are made, what follows a failed heartbeat."""

from __future__ import annotations

import base64

from odradek.client.connection import Connection
from odradek.client.retry import RetryAfter, decide
from odradek.errors import ErrorCode, KafkaError
from odradek.ports.rng import Rng

LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""The coordinator knows this member no more: it joins anew."""
_MEMBER_ID_BYTES = 16
_SHORTEST_PAUSE_S = 0.001


def new_member_id(rng: Rng) -> str:
    """An id that the client makes itself (KIP-1082): base64 for URLs, as Kafka's Uuid."""
    return base64.urlsafe_b64encode(rng.random_bytes(_MEMBER_ID_BYTES)).decode().rstrip("=")


def pause_between_beats(error: KafkaError, failures: int, connection: Connection) -> float | None:
    """Seconds until the next try after so many failures in a row; None where trying again does not help."""
    verdict = decide(
        error,
        attempts=failures,
        left_s=float("inf"),
        policy=connection.policy,
        jitter=connection.rng.random(),
    )
    return max(verdict.seconds, _SHORTEST_PAUSE_S) if isinstance(verdict, RetryAfter) else None
