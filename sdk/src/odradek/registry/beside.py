"""Threads for what takes long, beside the event loop that serves everybody else.

A question runs at most as long as its budget lasts (budget.py). Who stops waiting, because of a time limit or because
the client is gone, stops it too. `AT_ONCE` bounds how much of the processor hostile questions get; others wait in line.
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
    """Runs pure functions beside the loop, each with a budget of its own."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, question: Callable[[Budget], T]) -> T:
        """The answer, or what the question raises."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="odradek-schemas")
        budget = Budget()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question, budget)
        finally:
            budget.stop()
