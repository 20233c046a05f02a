"""A process that starts services which are made to die: `python -m tests.e2e.crash.worker`.

It imports everything once and forks, so a service is there in milliseconds. Its parent writes one JSON line a service:

    {"data_dir", "port", "settings", "synchronous", "die_at", "die_before", "file_bytes_max"}    one service

The service is `odradek.local`'s own (functions, function-URL server, engine, SQLite and files) and prints one line when
it is ready; this process prints its exit status. A service ends by SIGKILL: its parent's, or its own at the `die_at`-th
write at a port after SIGUSR1, just before or just after it. The end of standard input ends everything.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import odradek.local.service
from odradek.adapters.embedded import open_embedded
from odradek.errors import KafkaError
from odradek.local.service import LocalService
from odradek.ports.tables import TableOperation
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import preload
from odradek.settings import Settings

WRITES = frozenset({"put", "update", "delete", "transact"})


class Death:
    """Counts writes once armed and kills this process at one of them. `at` 0: never."""

    def __init__(self, at: int, *, before: bool) -> None:
        self._left = at
        self._before = before
        self._armed = False

    def arm(self) -> None:
        self._armed = True

    async def around(self, call: Any) -> Any:
        """Make the call; on the fatal one, die."""
        if not self._armed or self._left <= 0:
            return await call()
        self._left -= 1
        if self._left > 0:
            return await call()
        if not self._before:
            await call()
        os.kill(os.getpid(), signal.SIGKILL)
        return await asyncio.Event().wait()  # the signal is on its way


class MortalPort:
    """A table or the objects, whose writes may be the last thing that this process does."""

    def __init__(self, port: Any, death: Death) -> None:
        self._port = port
        self._death = death

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in WRITES:
            return method
        return lambda *args, **kwargs: self._death.around(lambda: method(*args, **kwargs))


class MortalStore:
    """An embedded store with mortal ports."""

    def __init__(self, store: Any, death: Death) -> None:
        self._store = store
        self._death = death
        tables = (store.log, store.groups, store.catalog, store.rows)
        self.log, self.groups, self.catalog, self.rows = (MortalPort(table, death) for table in tables)
        self.objects = MortalPort(store.objects, death)

    async def transact(self, operations: list[TableOperation]) -> None:
        await self._death.around(lambda: self._store.transact(operations))

    async def aclose(self) -> None:
        await self._store.aclose()


async def serve(order: dict[str, Any]) -> None:
    """One service until standard input ends or it is killed."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    death = Death(order["die_at"], before=order["die_before"])
    loop.add_signal_handler(signal.SIGUSR1, death.arm)
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_reader(0, stopping.set)
    odradek.local.service.open_embedded = (  # type: ignore[attr-defined]
        lambda *args, **options: MortalStore(open_embedded(*args, **options), death)
    )
    service = LocalService(
        Path(order["data_dir"]),
        port=order["port"],
        settings=Settings(**order["settings"]),
        synchronous=order["synchronous"],
    )
    async with service:
        print(f"ready {os.getpid()}", flush=True)
        await stopping.wait()


def main() -> None:
    """Fork one service a line."""
    preload(ApiKey)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            if order["file_bytes_max"]:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead (Python does so, too)
                resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_bytes_max"],) * 2)
            try:
                asyncio.run(serve(order))
            except KafkaError as error:
                print(f"refused {error}", flush=True)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(f"exit {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
