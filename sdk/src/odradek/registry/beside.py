"""Threads that parse and compare schemas, so that the event loop keeps serving other requests.

A question runs at most as long as its budget lasts (budget.py). If its caller stops waiting, because of a time limit or
because the client has disconnected, the question stops too. `AT_ONCE` bounds how many run at a time, and so how much of
the processor hostile questions get; the others are queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from odradek.registry.budget import Budget

T = TypeVar("T")

AT_ONCE = 2


class Beside:
    """Run pure functions in threads, each with a budget of its own."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, question: Callable[[Budget], T]) -> T:
        """Return the answer of a question, or raise what it raises."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="odradek-schemas")
        budget = Budget()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question, budget)
        finally:
            budget.stop()
