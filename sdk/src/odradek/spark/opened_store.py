"""A store named by options, opened on an event loop in a separate thread, because Spark's side is synchronous.

Spark may fork or pickle its holder, so the store is opened and closed where it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self, TypeVar

from odradek.backoff import Backoff
from odradek.errors import ErrorCode, KafkaError, StoreUnavailable
from odradek.spark.options import StoreOptions
from odradek.system import SystemClock, SystemRng

if TYPE_CHECKING:
    from odradek.adapters.aws import AwsStore
    from odradek.adapters.embedded import EmbeddedStore

T = TypeVar("T")

_ATTEMPTS = 5
_BACKOFF = Backoff(SystemClock(), SystemRng(), first_s=0.3, max_s=3.0)


class OpenedStore:
    """Base of readers and writers of a store. Use it as a context manager, or `close` it.

    Args:
        thread_name: the name of the thread.

    Raises KafkaError(INVALID_CONFIG): the store cannot be opened.
    """

    def __init__(self, options: StoreOptions, *, thread_name: str) -> None:
        self._closed = False
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
        try:
            self._store = self._run(lambda: open_store(options))
        except BaseException:
            self._stop()
            raise

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]], *, retry_errors: bool = False) -> T:
        """Return the result of `_submit`."""
        return self._submit(work, retry_errors=retry_errors).result()

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]], *, retry_errors: bool = False) -> Future[T]:
        """Run work on the loop; retry it for a while if the store is unavailable, so it must be repeatable.

        Args:
            retry_errors: also retry Kafka's retriable errors.
        """
        return self._thread.submit(self._runner.run, _patiently(work, retry_errors))

    def close(self) -> None:
        """Finish the work in progress, then close the store. May be called twice."""
        if self._closed:
            return
        try:
            self._run(self._store.aclose)
        finally:
            self._stop()

    def _stop(self) -> None:
        self._closed = True
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _patiently(work: Callable[[], Coroutine[Any, Any, T]], retry_errors: bool) -> T:
    attempt = 0
    while True:
        attempt += 1
        try:
            return await work()
        except KafkaError as error:
            if attempt == _ATTEMPTS or not (retry_errors and error.is_retryable):
                raise
        except StoreUnavailable as error:
            if attempt == _ATTEMPTS:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the store does not answer: {error}") from error
        await _BACKOFF.pause(attempt - 1)


async def open_store(options: StoreOptions, *, read_only: bool = True) -> EmbeddedStore | AwsStore:
    """Open the store that options name; on AWS the role decides what is allowed.

    Args:
        read_only: of an embedded store: objects may be added, nothing else written. Otherwise this process is its only
            writer, and no service may use it.

    Raises KafkaError(INVALID_CONFIG).
    """
    # Import each backend's libraries only if it is used.
    if options.data_dir is None:
        from odradek.adapters.aws import open_aws

        return open_aws(
            region=options.region or None,
            log_table=options.log_table,
            groups_table=options.catalog_table,  # no reader looks at groups
            catalog_table=options.catalog_table,
            bucket=options.bucket,
            prefix=options.prefix,
            endpoint_url=options.endpoint_url or None,
        )
    from odradek.adapters.embedded import open_embedded

    try:
        return open_embedded(options.data_dir, read_only=read_only)
    except StoreUnavailable as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"option store: {error}") from None
