"""One call of a trigger's function, and the ways in which it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from odradek.model.trigger import Trigger

RESPONSE_BYTES_MAX = 6 * 1024 * 1024  # as Lambda's


class CallFailed(Exception):
    """The function raised, or did not answer in time: it may have run. The text says what it said."""


class CallRefused(CallFailed):
    """The function has not run: it is throttled, missing, or may not be called. That is no attempt of its records."""


class CallTooLarge(CallRefused):
    """The event has more bytes than the function takes."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        call_id: the same for repetitions of a batch.
        event: as JSON.
        timeout_s: after which it counts as failed.
    """

    trigger: Trigger
    call_id: str
    event: bytes
    timeout_s: float


class Target(Protocol):
    """Something that can be called."""

    async def call(self, call: Call) -> bytes:
        """Return the response. Raises CallFailed, CallRefused, CallTooLarge."""
        ...
