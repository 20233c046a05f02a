"""An embedded service whose store is slow and unkind, as a process of its own that a test may stop and kill.

    python -m tests.support.services.slow_service DATA_DIR '{"kafka_port": ..., "late_every": 25, "late_ms": 800, ...}'

Prints one JSON line once it serves: `{"kafka": ..., "pid": ...}`. SIGTERM ends it in order; it then prints a line of
what its store did: `{"writes", "late", "faults"}`. `RunningService` is the test's side of it.

With `gateways` more than none, gateways with broker ids of their own serve the same store from the same process beside
the fleet. `moves_every_s` stops them in turn and starts them again, so that the leaders of all partitions move.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import odradek.local.service
from odradek.adapters.embedded import EmbeddedStore, open_embedded
from odradek.engine.engine import Engine
from odradek.functions.logs import log_as_json
from odradek.gateway import Gateway, Listener
from odradek.local.service import LocalService
from odradek.ports.tables import TableOperation
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng
from odradek.testing.latency import Outliers, Slow, SlowTables

from tests.e2e.load.misbehaving import MisbehavingStore, Misbehaviour

READY_S = 60.0


@dataclass(frozen=True)
class Unkindness:
    """Delays and errors of a slow service for its writers. The default has none."""

    late_every: int = 0  # every n-th write of the store is late; 0: none
    late_ms: float = 0.0
    late_methods: tuple[str, ...] = ("put", "update")  # which writes these are
    failing_share: float = 0.0  # of the store's calls that throttle, fail, time out or stall (load/misbehaving.py)
    seed: int = 1
    gateways: int = 0  # that lead what is written through them, beside the fleet's own port
    moves_every_s: float = 0.0  # how often one of them stops and starts again; 0: never
    crashes: bool = False  # whether it stops without an answer to anybody and keeps its partitions, as a dead one does


class SlowStore:
    """An embedded store whose writes are late now and then."""

    def __init__(self, store: EmbeddedStore, outliers: Outliers) -> None:
        clock, rng = SystemClock(), SystemRng()
        self._store = store
        self._tables = SlowTables(store, None, clock, rng, outliers)
        self.log, self.groups, self.catalog = self._tables.log, self._tables.groups, self._tables.catalog
        self.rows: Any = Slow(store.rows, None, clock, rng, outliers)
        self.objects: Any = Slow(store.objects, None, clock, rng, outliers)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        await self._tables.transact(operations)

    async def aclose(self) -> None:
        await self._store.aclose()


class _Server:
    """The process's side."""

    def __init__(self, data_dir: Path, ports: Sequence[int], unkindness: Unkindness, settings: dict[str, Any]) -> None:
        self._data_dir, self._ports, self._unkindness = data_dir, ports, unkindness
        self._settings = Settings(**settings)
        self._outliers = Outliers(
            unkindness.late_every or sys.maxsize, unkindness.late_ms, frozenset(unkindness.late_methods)
        )
        self._misbehaviour = Misbehaviour(cast(Any, random.Random(unkindness.seed)), unkindness.failing_share)
        self._store: Any = None
        self._gateways: list[Gateway] = []
        self._engines: dict[int, Engine] = {}

    def _open(self, *args: Any, **options: Any) -> Any:
        """In place of `open_embedded`: the same store, unkind."""
        slow = SlowStore(open_embedded(*args, **options), self._outliers)
        self._store = MisbehavingStore(slow, self._misbehaviour) if self._unkindness.failing_share else slow
        return self._store

    async def run(self) -> None:
        odradek.local.service.open_embedded = self._open  # type: ignore[attr-defined]
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        kafka = Listener(port=self._ports[0])
        async with LocalService(self._data_dir, settings=self._settings, synchronous="NORMAL", kafka=kafka) as service:
            self._gateways = [await self._gateway(number) for number in range(self._unkindness.gateways)]
            servers = [gateway.bootstrap_servers for gateway in self._gateways]
            kafka_servers = ",".join(servers) or service.kafka_bootstrap_servers
            print(json.dumps({"kafka": kafka_servers, "pid": os.getpid()}), flush=True)
            moving = asyncio.create_task(self._move()) if self._unkindness.moves_every_s else None
            await stopping.wait()
            self._misbehaviour.share, self._outliers.late_ms = 0.0, 0.0
            if moving is not None:
                moving.cancel()
                await asyncio.gather(moving, return_exceptions=True)
            await asyncio.gather(*(gateway.stop(0.5) for gateway in self._gateways))
        counts = {"writes": self._outliers.calls, "late": self._outliers.late}
        print(json.dumps({**counts, "faults": dict(self._misbehaviour.faults)}), flush=True)

    async def _gateway(self, number: int) -> Gateway:
        clock, rng = SystemClock(), SystemRng()
        engine = Engine(
            tables=self._store,
            objects=self._store.objects,
            clock=clock,
            rng=rng,
            settings=self._settings,
            broker_id=number + 1,
        )
        self._engines[number] = engine
        return await Gateway(engine, Listener(port=self._ports[1 + number]), clock=clock, rng=rng).start()

    async def _move(self) -> None:
        """Stop and start the gateways in turn: what one led, another takes over."""
        number = 0
        while True:
            await asyncio.sleep(self._unkindness.moves_every_s)
            if self._unkindness.crashes:
                self._engines[number].leaders.release_all = _release_nothing  # type: ignore[method-assign]
                await self._gateways[number].stop(0.0)
            else:
                await self._gateways[number].stop(0.2)
            await asyncio.sleep(0.3)
            self._gateways[number] = await self._gateway(number)
            number = (number + 1) % len(self._gateways)


async def _release_nothing() -> None:
    """In place of `Leaders.release_all`: the dead give nothing back."""


class RunningService:
    """A slow service in another process, on the same ports and data directory however often it is started."""

    def __init__(self, data_dir: Path, unkindness: Unkindness | None = None, **settings: Any) -> None:
        self.data_dir = data_dir
        self.unkindness = unkindness or Unkindness()
        self._settings = settings
        self._ports = free_ports(1 + self.unkindness.gateways)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None
        self.servers = ""
        self.troubles: Counter[str] = Counter()  # what befell it, by name
        self.counts: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def errors(self) -> str:
        """Return the processes' standard error."""
        self._errors.seek(0)
        return self._errors.read()

    def start(self) -> RunningService:
        """Start the process and wait until it serves."""
        order = {"ports": self._ports, "settings": self._settings, "unkindness": dataclasses.asdict(self.unkindness)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.services.slow_service", str(self.data_dir), json.dumps(order)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.errors
        self.servers = json.loads(line)["kafka"]
        return self

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order. May be repeated, and after a kill."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            output, _ = self._process.communicate(timeout=30)
            self.counts = json.loads(output.splitlines()[-1]) if output else {}
        finally:
            self._process.kill()

    def __enter__(self) -> RunningService:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._errors.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that a kernel gives to outgoing connections."""
    ports: list[int] = []
    for port in random.Random().sample(range(20_000, 30_000), 200):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError("no free port")


def main() -> None:
    """See the module."""
    data_dir, order = Path(sys.argv[1]), json.loads(sys.argv[2])
    log_as_json(lambda line: print(line, file=sys.stderr))
    asyncio.run(_Server(data_dir, order["ports"], Unkindness(**order["unkindness"]), order["settings"]).run())


if __name__ == "__main__":
    main()
