"""The embedded service for synchronous callers: its loop runs in a thread of this process."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from odradek.functions.metering import InvocationMeter
from odradek.gateway import Listener
from odradek.local.credentials import Credentials
from odradek.local.service import LocalService


class ThreadedService:
    """A running embedded service, made by `odradek.local()`. Call `stop`, or use it as a context manager."""

    def __init__(self, data_dir: Path | str | None, options: dict[str, Any]) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="odradek-") if data_dir is None else None
        folder = Path(data_dir) if data_dir is not None else Path(self._temporary.name) if self._temporary else Path()
        self._service = LocalService(folder, **options)
        self._ready: Future[None] = Future()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), name="odradek-local", daemon=True)
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self._thread.join()
            self._forget()
            raise

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            await self._service.start()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        await self._stopping.wait()
        await self._service.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return self._service.bootstrap_servers

    @property
    def kafka_bootstrap_servers(self) -> str:
        """The address for Kafka clients; only with a Kafka port."""
        return self._service.kafka_bootstrap_servers

    @property
    def registry_url(self) -> str:
        """The schema registry's address for clients that cannot sign requests; only with a registry port."""
        return self._service.registry_url

    @property
    def data_dir(self) -> Path:
        return self._service.data_dir

    @property
    def credentials(self) -> Credentials:
        """The credentials with which clients sign requests."""
        return self._service.credentials

    @property
    def client_config(self) -> dict[str, str]:
        """Keyword arguments for Producer, Consumer and Admin."""
        return self._service.client_config

    @property
    def meter(self) -> InvocationMeter:
        """The billable units of all invocations so far."""
        return self._service.meter

    @property
    def service(self) -> LocalService:
        """The asynchronous service; run its coroutines on `loop`."""
        return self._service

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the background thread."""
        assert self._loop is not None
        return self._loop

    def maintain(self) -> None:
        """Run one pass of maintenance now: retention, merges, compaction. Raises OdradekError if it failed."""
        asyncio.run_coroutine_threadsafe(self._service.maintain(), self.loop).result()

    def stop(self) -> None:
        """Stop the service and delete a temporary data directory. May be called twice."""
        if self._thread.is_alive() and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._forget()

    def _forget(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_local(
    data_dir: Path | str | None = None,
    *,
    kafka_port: int | None = None,
    registry_port: int | None = None,
    **options: Any,
) -> ThreadedService:
    """Start an embedded service in this process: `with odradek.local() as service: ...`.

    Args:
        data_dir: where everything is stored; None creates a temporary directory.
        kafka_port: port for Kafka clients; 0 chooses a free port, None opens none. For TLS or logins, pass
            `kafka=odradek.local.Listener(...)` instead.
        registry_port: port of the schema registry for clients that cannot sign; 0 chooses a free port, None opens none.
        options: those of LocalService (host, port, settings, limits, synchronous, clock, write_line, kafka).

    Raises:
        KafkaError: as LocalService.start.
    """
    if kafka_port is not None:
        options = {"kafka": Listener(port=kafka_port), **options}
    if registry_port is not None:
        options = {"registry": Listener(port=registry_port), **options}
    return ThreadedService(data_dir, options)
