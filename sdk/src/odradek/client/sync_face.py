"""The synchronous face of a client: it runs the asynchronous client on a background loop and shares its documentation.

A face consists of methods that run the asynchronous method of the same name and wait. `class Admin(SyncFace[aio.Admin],
of=...)` gives every public method without a docstring the docstring of the asynchronous method, so that
`help(odradek.Admin.create_topics)` is complete and the two texts cannot differ.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from odradek.client.background_loop import BackgroundLoop


class _Closeable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closeable)


class SyncFace(Generic[C]):
    """Base of the synchronous clients.

    Class arguments:
        of: the asynchronous class, whose docstrings the methods take over.
    """

    _thread_name: ClassVar[str]
    _other_names: ClassVar[Mapping[str, str]] = {}  # methods of other clients, with what to call here

    def __init_subclass__(cls, *, of: type, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._thread_name = f"odradek-{cls.__name__.lower()}"
        for name, method in vars(cls).items():
            if not name.startswith("_") and inspect.isfunction(method) and not method.__doc__:
                method.__doc__ = inspect.getdoc(getattr(of, name))

    def __init__(self, start: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._loop = BackgroundLoop(self._thread_name)
        self._ending = threading.RLock()
        try:
            self._client: C = self._loop.call(start())  # made on the loop that it runs on
        except BaseException:
            self._loop.close()
            raise

    def __getattr__(self, name: str) -> Any:
        """Say what a method of another client is called here. Raises AttributeError."""
        hint = self._other_names.get(name)
        said = f"{type(self).__name__} has no {name!r}"
        raise AttributeError(f"{said}: {hint} (docs/from-kafka-clients.md)" if hint else said, name=name, obj=self)

    def _run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Run a method of the client that does not wait, on the loop that owns the client's state."""

        async def run() -> Any:
            return function(*arguments, **named)

        return self._loop.call(run())

    def close(self) -> None:
        """Release connections and the background thread. May be called twice.

        A call that waits in another thread ends with KafkaError(INVALID_REQUEST). In a child process nothing happens:
        the client belongs to the parent.
        """
        self._close(lambda: self._client.close())

    def _close(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop.is_closed:
            return
        with self._ending:
            try:
                if not self._loop.is_closed:  # by another thread in the meantime
                    self._loop.call(close())
            finally:
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
