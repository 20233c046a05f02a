"""A queue that distributes tasks to workers: at least once, in any order, sometimes late. SQS or a list.

The port has only the sending side: messages invoke their receiver (a function, by its event source mapping).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

MESSAGES_PER_SEND_MAX: Final = 10


class TaskQueue(Protocol):
    """A queue of tasks."""

    async def send(self, messages: Sequence[str]) -> list[str]:
        """Send up to `MESSAGES_PER_SEND_MAX` messages; return those that the queue did not accept, to be sent again.

        Raises:
            ValueError: no messages or too many, or one that the queue can never accept.
            StoreUnavailable: certainly none was sent.
            OutcomeUnknown: any of them may have been sent: sending them again duplicates some.
        """
        ...

    async def waiting(self) -> int:
        """Return about how many messages have not been received yet. Raises StoreUnavailable."""
        ...
