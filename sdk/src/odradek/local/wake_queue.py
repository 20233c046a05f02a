"""The queue of wake messages in the embedded service: each is handled once, at once or after its delay.

Messages are in memory. What a stopped process had is found by the sweep of triggers when the next one starts.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence

from odradek.errors import FormatError, OdradekError
from odradek.functions.telemetry import WriteLine, event_line
from odradek.ports.clock import Clock
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX, check_delay

_AGAIN_S = 1.0  # after a message that failed
_AT_ONCE = 64

Handle = Callable[[str], Awaitable[None]]


class WakeQueue:
    """ports.task_queue.TaskQueue that hands its messages to a function of this process.

    Args:
        clock: delays by it.
        write_line: writes what failed.
    """

    def __init__(self, clock: Clock, write_line: WriteLine) -> None:
        self._clock = clock
        self._write_line = write_line
        self._handle: Handle | None = None
        self._waiting: list[tuple[str, int]] = []  # until it is started
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def start(self, handle: Handle) -> None:
        """Hand messages to the function from now on."""
        self._handle = handle
        waiting, self._waiting = self._waiting, []
        for message, delay_s in waiting:
            self._begin(message, delay_s)

    async def stop(self) -> None:
        """Stop; calls that are under way are given up. May be called twice."""
        self._handle = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        if not 1 <= len(messages) <= MESSAGES_PER_SEND_MAX:
            raise ValueError(f"a call sends 1 to {MESSAGES_PER_SEND_MAX} messages, not {len(messages)}")
        check_delay(delay_s)
        for message in messages:
            if self._handle is None:
                self._waiting.append((message, delay_s))
            else:
                self._begin(message, delay_s)
        return []

    async def waiting(self) -> int:
        return len(self._tasks) + len(self._waiting)

    def _begin(self, message: str, delay_s: int) -> None:
        task = asyncio.get_running_loop().create_task(self._deliver(message, delay_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, message: str, delay_s: float) -> None:
        while self._handle is not None:
            if delay_s:
                await self._clock.sleep(delay_s)
            try:
                async with self._slots:
                    if self._handle is not None:
                        await self._handle(message)
                return
            except FormatError as error:
                self._write_line(event_line("triggers", {"message": message, "error": str(error)}))
                return
            except Exception as error:  # the store's, or a fault: later
                said = str(error) if isinstance(error, OdradekError) else traceback.format_exc()
                self._write_line(event_line("triggers", {"message": message, "error": said}))
                delay_s = _AGAIN_S
