"""A queue that spreads tasks over workers: at least once, in any order, sometimes late. SQS or a list.

Only the sending side is here: whoever takes messages is called with them (a function by its event source mapping).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

MESSAGES_PER_SEND_MAX: Final = 10


class TaskQueue(Protocol):
    """Where tasks wait."""

    async def send(self, messages: Sequence[str]) -> list[str]:
        """Send up to `MESSAGES_PER_SEND_MAX` messages; returns those that the queue did not take, to be sent again.

        Raises:
            ValueError: none, or too many of them; or the queue will never take one.
            StoreUnavailable: surely none was sent.
            OutcomeUnknown: any of them may have been sent: sending them again doubles some.
        """
        ...

    async def waiting(self) -> int:
        """About how many messages nobody has taken yet. Raises StoreUnavailable."""
        ...
