"""The event loop of a synchronous client: one daemon thread, joined on close.

    call    run a coroutine there and wait for it here

While a caller waits, the loop can run a function in the caller's own thread (`on_caller`). A user's rebalance listener
runs this way in the thread that polls, where it may call the client again. `close` ends the calls of other threads.
"""

from __future__ import annotations

import asyncio
import os
import queue
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from odradek.client.process import Origin, tell_child
from odradek.errors import ErrorCode, KafkaError

T = TypeVar("T")

_JOIN_S = 10.0


class BackgroundLoop:
    """Owns one thread with one event loop."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._callers: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._closed = False
        self._scheduling = threading.Lock()  # nothing is scheduled after the loop was told to stop
        self.origin = Origin()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        tell_child(self)

    def forked(self) -> None:
        """Part the child's copy of the loop from the parent's connections and selector.

        What collects the copies as garbage would otherwise end TLS sessions of the parent, and remove its sockets from
        the selector, which the kernel shares between the two processes.
        """
        nothing = os.open(os.devnull, os.O_RDWR)
        for key in list(self._selector.get_map().values()):
            os.dup2(nothing, key.fd, inheritable=False)
        os.close(nothing)
        self._selector.close()
        self._selector.__init__()  # type: ignore[misc]
        self._loop.set_exception_handler(lambda *_: None)  # "Unclosed client session": it is the parent's

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. An interrupted wait cancels the coroutine.

        Raises:
            KafkaError: INVALID_REQUEST if the client is closed, also while this call waits; in a child process; on the
                loop's own thread.
        """
        if self.origin.is_parent:
            work.close()
            self.origin.check()
        if threading.current_thread() is self._thread:
            work.close()
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "a synchronous client cannot be called from its own callbacks: use odradek.aio",
            )
        with self._scheduling:
            if self._closed:
                work.close()
                raise _closed()
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
        try:
            return future.result()
        except CancelledError:
            if self._closed:
                raise _closed() from None
            raise

    def soon(self, function: Callable[[], None]) -> None:
        """Run a function on the loop without waiting, also from a signal handler. A closed client ignores it."""
        self.origin.check()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    def start(self, make: Callable[[], asyncio.Task[T]]) -> Future[T]:
        """Start a task on the loop and return a future with its outcome. Raises KafkaError as `call`."""

        async def run() -> T:
            return await make()

        self.origin.check()
        with self._scheduling:
            if self._closed:
                raise _closed()
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
        """True after `close`, and in a child process: there is nothing to close."""
        return self._closed or self.origin.is_parent

    def close(self) -> None:
        """Stop the loop, end the calls that wait, and join the thread. May be called twice."""
        if self.is_closed:
            return
        with self._scheduling:
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)


def _closed() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "the client is closed: create a new one")
