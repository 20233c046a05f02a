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
    """A started service; `stop` it or use it as a context manager. See `start_local`."""

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
        """The schema registry for clients that cannot sign; only with a registry port."""
        return self._service.registry_url

    @property
    def data_dir(self) -> Path:
        return self._service.data_dir

    @property
    def credentials(self) -> Credentials:
        """What clients sign with."""
        return self._service.credentials

    @property
    def client_config(self) -> dict[str, str]:
        """Keyword arguments for Producer, Consumer and Admin."""
        return self._service.client_config

    @property
    def meter(self) -> InvocationMeter:
        """What all invocations so far would be billed."""
        return self._service.meter

    @property
    def service(self) -> LocalService:
        """The service itself; its coroutines belong on `loop`."""
        return self._service

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop in the thread."""
        assert self._loop is not None
        return self._loop

    def stop(self) -> None:
        """Stop the service and, where the data directory was temporary, delete it. May be repeated."""
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
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
        data_dir: where everything is stored; None makes a directory that is deleted at the end.
        kafka_port: where Kafka clients are served as well, 0 takes a free port; None serves none. For TLS or
            logins give `kafka=odradek.local.Listener(...)` instead.
        registry_port: where clients that cannot sign reach the schema registry, 0 takes a free one; None: nowhere.
        options: those of LocalService (host, port, settings, limits, synchronous, clock, write_line, kafka).

    Raises KafkaError as LocalService.start.
    """
    if kafka_port is not None:
        options = {"kafka": Listener(port=kafka_port), **options}
    if registry_port is not None:
        options = {"registry": Listener(port=registry_port), **options}
    return ThreadedService(data_dir, options)
