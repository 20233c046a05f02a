"""The event loop of a synchronous client: one daemon thread, joined on close.

    call    run a coroutine there and wait for it here

While a caller waits, the loop can run a function in the caller's own thread (`on_caller`). A user's rebalance listener
runs this way in the thread that polls, where it may call the client again.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from odradek.errors import ErrorCode, KafkaError

T = TypeVar("T")

_JOIN_S = 10.0


class BackgroundLoop:
    """Owns one thread with one event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._callers: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. An interrupted wait cancels the coroutine."""
        if self._closed:
            work.close()
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client is closed: create a new one")
        if threading.current_thread() is self._thread:
            work.close()
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "a synchronous client cannot be called from its own callbacks: use odradek.aio",
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        handed: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._callers.append(handed)
        future.add_done_callback(lambda _: handed.put(None))
        try:
            while (task := handed.get()) is not None:
                task()
        except BaseException:  # KeyboardInterrupt while waiting
            future.cancel()
            raise
        finally:
            self._callers.remove(handed)
        return future.result()

    def start(self, make: Callable[[], asyncio.Task[T]]) -> Future[T]:
        """Start a task on the loop and return a future with its outcome."""

        async def run() -> T:
            return await make()

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    async def on_caller(self, function: Callable[[], T]) -> T:
        """Run a function on the thread that waits in the innermost `call`. Called on the loop."""
        if not self._callers:
            return await asyncio.to_thread(function)
        outcome: Future[T] = Future()

        def task() -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)

        self._callers[-1].put(task)
        return await asyncio.wrap_future(outcome)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Stop the loop and join the thread. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)
