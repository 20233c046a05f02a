"""A queue that distributes tasks to workers: at least once, in any order, sometimes late. SQS or a list.

The port has only the sending side: messages invoke their receiver (a function, by its event source mapping).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

MESSAGES_PER_SEND_MAX: Final = 10
DELAY_S_MAX: Final = 900  # of SQS


def check_delay(delay_s: int) -> None:
    """Raises ValueError for a delay that the queue does not have (a bug of the caller)."""
    if not 0 <= delay_s <= DELAY_S_MAX:
        raise ValueError(f"a message can be delayed by 0 to {DELAY_S_MAX} seconds, not {delay_s}")


class TaskQueue(Protocol):
    """A queue of tasks."""

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        """Send up to `MESSAGES_PER_SEND_MAX` messages; return those that the queue did not accept, to be sent again.

        Args:
            delay_s: receivers get them after so long, 0 to `DELAY_S_MAX`.

        Raises:
            ValueError: no messages or too many, a delay that is too long, or a message that the queue can never accept.
            StoreUnavailable: certainly none was sent.
            OutcomeUnknown: any of them may have been sent: sending them again duplicates some.
        """
        ...

    async def waiting(self) -> int:
        """Return about how many messages have not been received yet. Raises StoreUnavailable."""
        ...
