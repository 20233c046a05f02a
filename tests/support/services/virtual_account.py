"""A deployed stage in one process and in virtual time: real functions, real clients, metered stores with latencies.

    clients        the SDK's, over a transport that calls the functions as Lambda would
    functions      the handlers of lambdas/: an instance serves one request at a time and keeps its caches; another one
                   starts, cold, where all are busy
    maintenance    the planner at the stage's period, the queue, and as many maintainers at once as the stage has
    stores         memory, metered as DynamoDB and S3 bill, with log-normal latencies
    time           the loop's clock jumps to the next timer: an hour takes seconds

Every unit is counted for its *owner*: the function in which the call was made. What the processor does takes no virtual
time; CPU_S says how much a function is billed for it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any

import pybase64
from odradek.adapters.aws.wal_bucket import WalApart
from odradek.adapters.express_meter import ExpressMeter
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.adapters.memory.task_queue import MemoryTaskQueue
from odradek.client.transport.base import InProcessTransport
from odradek.cost.metering import UsageMeter
from odradek.dispatcher import Dispatcher
from odradek.engine.engine import Engine
from odradek.functions.context import LambdaContext
from odradek.functions.environment import MAINTAINER, MAINTENANCE
from odradek.functions.handler import FunctionHandler
from odradek.functions.invoked import Instruments, InvokedFunction
from odradek.functions.maintainer import MaintainerHandler
from odradek.functions.maintenance import MaintenanceHandler
from odradek.functions.metering import InvocationMeter
from odradek.local.context import LocalContext
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.model.log import Buffer, FetchPartition, FetchResult, ProducePartition, ProduceResult
from odradek.ports.meter import Meter, Usage
from odradek.ports.rng import Rng
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX, TaskQueue
from odradek.protocol.api import FunctionName
from odradek.settings import Settings
from odradek.testing.latency import Latency, Slow, SlowTables
from odradek.testing.seeded_rng import SeededRng
from odradek.triggers.sweep import TriggerSweep

from infra.stages import Stage
from tests.support.loop_clock import LoopClock

CLIENTS = "clients"  # the owner of what no function does

# Seconds of a whole processor, by bench.request_cpu (its --partitions); a function has memory / 1,769 MB of one.
CPU_S_PER_PARTITION = 0.00015  # of a request to produce or fetch
CPU_S = {FunctionName.PRODUCE.value: 0.0015, FunctionName.FETCH.value: 0.0015}
CPU_S_OTHER = 0.001
CPU_S_PER_MB = 0.004
COLD_START_S = 0.45
_VCPU_MB = 1769
_OPENED_MAX = 64  # objects kept as bytes, for the next range of the same object
_LOG_EVENT_BYTES = 26  # that CloudWatch Logs adds to each line it bills (its quotas and prices)

_OWNER: ContextVar[str] = ContextVar("owner", default=CLIENTS)


@contextmanager
def owned_by(owner: str) -> Iterator[None]:
    """Count what is used inside for this owner."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of the calls of a function, and of a client's call of a function."""

    table: Latency = field(default_factory=lambda: Latency(6, 16))
    put: Latency = field(default_factory=lambda: Latency(65, 200))
    get: Latency = field(default_factory=lambda: Latency(30, 100))
    express_put: Latency = field(default_factory=lambda: Latency(7, 25))  # AWS: "single-digit milliseconds"
    express_get: Latency = field(default_factory=lambda: Latency(6, 20))
    call: Latency = field(default_factory=lambda: Latency(12, 40))  # network and Lambda's own part, not billed


@dataclass(frozen=True, slots=True)
class _Counted(Latency):
    """A latency whose seconds are counted for the owner of the call."""

    what: str
    waits: dict[tuple[str, str], float]

    def draw_s(self, rng: Rng) -> float:
        seconds = Latency.draw_s(self, rng)
        self.waits[_OWNER.get(), self.what] += seconds
        return seconds


class OwnedMeter:
    """ports.meter.Meter: usage by owner and operation."""

    def __init__(self) -> None:
        self.of: dict[str, UsageMeter] = {}

    def add(self, operation: str, usage: Usage) -> None:
        owner = _OWNER.get()
        meter = self.of.get(owner)
        if meter is None:
            meter = self.of[owner] = UsageMeter()
        meter.add(operation, usage)

    def snapshot(self) -> dict[str, dict[str, Usage]]:
        """Return the usage so far by owner and operation."""
        return {owner: dict(meter.by_operation()) for owner, meter in self.of.items()}

    def calls(self) -> dict[str, dict[str, int]]:
        """Return the number of calls so far by owner and operation."""
        return {owner: meter.calls() for owner, meter in self.of.items()}


class _Deflated:
    """The bytes of an object, deflated: an hour of records fits in memory."""

    __slots__ = ("data", "size")

    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self.data = zlib.compress(content, 1)

    def __len__(self) -> int:
        return self.size


class DeflatedObjects(MemoryObjectStore):
    """A memory object store whose objects take little memory."""

    def __init__(self, clock: LoopClock, meter: Meter) -> None:
        super().__init__(clock, meter)
        self._opened: OrderedDict[str, bytes] = OrderedDict()

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await super().put(key, parts)
        content, at_ms = self._objects[key]
        self._objects[key] = (_Deflated(content), at_ms)  # type: ignore[assignment]

    def _find(self, key: str) -> bytes:
        stored: Any = super()._find(key)
        content = self._opened.get(key)
        if content is None:
            content = self._opened[key] = zlib.decompress(stored.data)
            if len(self._opened) > _OPENED_MAX:
                self._opened.popitem(last=False)
        return content

    @property
    def stored_bytes(self) -> int:
        return sum(len(content) for content, _ in self._objects.values())


class _SlowObjects:
    """An object store whose reads and writes have latencies of their own."""

    def __init__(self, objects: Any, put: Latency, get: Latency, clock: LoopClock, rng: SeededRng) -> None:
        self._puts = Slow(objects, put, clock, rng)
        self._gets = Slow(objects, get, clock, rng)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._puts if name == "put" else self._gets, name)


class Instances:
    """The instances of one function: the last one that became idle serves the next request, as on Lambda."""

    def __init__(self, start: Callable[[], InvokedFunction]) -> None:
        self._start = start
        self._idle: list[InvokedFunction] = []
        self.started = 0

    def take(self) -> tuple[InvokedFunction, bool]:
        if self._idle:
            return self._idle.pop(), False
        self.started += 1
        return self._start(), True

    def give_back(self, instance: InvokedFunction) -> None:
        self._idle.append(instance)


class _BusyEngine(Engine):
    """An engine whose processor is busy with each partition of a request.

    Attributes:
        busy: waits for so many partitions.
    """

    busy: Callable[[int], Awaitable[None]]

    async def produce(self, partitions: Sequence[ProducePartition], **named: Any) -> list[ProduceResult]:
        results = await super().produce(partitions, **named)  # first: the order of these calls is that of the batches
        await self.busy(len(partitions))
        return results

    async def fetch(self, partitions: Sequence[FetchPartition], **named: Any) -> list[FetchResult]:
        await self.busy(len(partitions))
        return await super().fetch(partitions, **named)


class VirtualAccount:
    """One stage, deployed. Create it inside the virtual loop.

    Args:
        stage: its settings, the period of its planner, the number of its maintainers, and where its WAL is.

    Attributes:
        waits: seconds by owner and what was waited for: "network" (to a function and back), "processor", "tables" or
            "objects". Calls that are made at once all count.
    """

    def __init__(self, stage: Stage, latencies: Latencies | None = None, seed: int = 1) -> None:
        self.stage = stage
        self.clock = LoopClock()
        self.rng = SeededRng(seed)
        self.meter = OwnedMeter()
        self.waits: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.latencies = self._counted(latencies or Latencies())
        # The handlers' meter passes everything on to the owners'.
        self._invocations = InvocationMeter(self.meter)
        self.tables = MemoryStore(self._invocations)
        self.objects = DeflatedObjects(self.clock, self._invocations)
        self._express = DeflatedObjects(self.clock, ExpressMeter(self._invocations))
        self._queue = MemoryTaskQueue(self._invocations)
        self.log_bytes: Counter[str] = Counter()
        self.instances: dict[str, Instances] = {}
        for name in FunctionName:
            self.instances[name.value] = Instances(lambda name=name: self._handler(name))  # type: ignore[misc]
        self.instances[MAINTENANCE] = Instances(self._planner)
        self.instances[MAINTAINER] = Instances(self._maintainer)
        self.wakes: TaskQueue | None = None  # of triggers, for who measures them
        self._workers = asyncio.Semaphore(stage.maintenance_workers)
        self._working: set[asyncio.Task[None]] = set()
        self._requests = 0

    def _counted(self, latencies: Latencies) -> Latencies:
        wait_names = {"table": "tables", "call": "network"}
        counted: dict[str, Any] = {}
        for name in (spec.name for spec in fields(Latencies)):
            plain: Latency = getattr(latencies, name)
            counted[name] = _Counted(plain.p50_ms, plain.p99_ms, wait_names.get(name, "objects"), self.waits)
        return Latencies(**counted)

    # --- functions ------------------------------------------------------------------------------------------------

    def engine(self, settings: Settings | None = None) -> Engine:
        """Return an engine with caches of its own, over the slow stores.

        Args:
            settings: the stage's by default.
        """
        return Engine(**self._parts(settings))

    def busy_engine(self, busy: Callable[[int], Awaitable[None]], settings: Settings | None = None) -> Engine:
        """Return an engine of a process that each partition of a request keeps busy: it awaits `busy` of so many."""
        engine = _BusyEngine(**self._parts(settings))
        engine.busy = busy
        return engine

    def _parts(self, settings: Settings | None = None) -> dict[str, Any]:
        slow_tables = SlowTables(self.tables, self.latencies.table, self.clock, self.rng)
        times = self.latencies
        slow_objects: Any = _SlowObjects(self.objects, times.put, times.get, self.clock, self.rng)
        if self.stage.wal_zone_id:
            express: Any = _SlowObjects(self._express, times.express_put, times.express_get, self.clock, self.rng)
            slow_objects = WalApart(express, slow_objects)
        return {
            "tables": slow_tables,
            "objects": slow_objects,
            "clock": self.clock,
            "rng": self.rng,
            "settings": settings or self.stage.settings,
            "wakes": self.wakes,
        }

    def instruments(self) -> Instruments:
        return Instruments(
            clock=self.clock,
            meter=self._invocations,
            cluster_id=self.stage.settings.cluster_id,
            write_line=self._write_line,
            log_interval_ms=self.stage.settings.log_interval_ms,
            detailed_metrics=self.stage.settings.detailed_metrics,
        )

    def _write_line(self, line: str) -> None:
        self.log_bytes[_OWNER.get()] += len(line) + _LOG_EVENT_BYTES

    def _handler(self, name: FunctionName) -> InvokedFunction:
        cluster = Cluster(self.stage.settings.cluster_id, Broker(FLEET_BROKER_ID, "fleet", 443))
        share = self._processors(name.value)
        engine = self.busy_engine(lambda partitions: self._busy(partitions * CPU_S_PER_PARTITION / share))
        return FunctionHandler(name, Dispatcher(engine, cluster), self.instruments())

    async def _busy(self, seconds: float) -> None:
        self.waits[_OWNER.get(), "processor"] += seconds
        await self.clock.sleep(seconds)

    def _processors(self, function: str) -> float:
        """Return how much of a processor a function has."""
        return min(1.0, self.stage.size_of(function).memory_mb / _VCPU_MB)

    def _planner(self) -> InvokedFunction:
        engine = self.engine()
        return MaintenanceHandler(
            engine.maintenance,
            self.instruments(),
            rng=self.rng,
            queue=self._queue,
            backlogs=engine.backlogs,
            limits=self.stage.settings,
            sweeps={} if (sweep := self.sweep(engine)) is None else {"triggers": sweep},
        )

    def sweep(self, engine: Engine) -> TriggerSweep | None:
        """Return what the planner looks for triggers with; None: there are none."""
        return None

    def _maintainer(self) -> InvokedFunction:
        return MaintainerHandler(
            self.engine().maintenance,
            self.instruments(),
            tasks_at_once=self.stage.settings.maintenance_parallelism,
        )

    async def invoke(self, name: str, event: dict[str, Any], payload_bytes: int) -> dict[str, Any]:
        """Invoke a function, on an idle instance or a new one."""
        size = self.stage.size_of(name)
        instances = self.instances[name]
        token = _OWNER.set(name)
        try:
            instance, is_cold = instances.take()
            busy_s = (CPU_S.get(name, CPU_S_OTHER) + payload_bytes / 1e6 * CPU_S_PER_MB) / self._processors(name)
            if is_cold:
                busy_s += COLD_START_S
            await self._busy(busy_s)
            self._requests += 1
            context: LambdaContext = LocalContext(
                function_name=name,
                memory_limit_in_mb=size.memory_mb,
                aws_request_id=f"6f9619ff-8b86-d011-b42d-{self._requests:012}",
                deadline_s=self.clock.monotonic() + size.timeout_s,
                monotonic=self.clock.monotonic,
            )
            # Not another "Invoke": the handler counts the call itself, with the time that it waits.
            self.meter.add("Processor", Usage(function_gb_seconds=busy_s * size.memory_mb / 1024))
            try:
                return await instance.handle(event, context)
            finally:
                instances.give_back(instance)
        finally:
            _OWNER.reset(token)

    async def dispatch(self, function: FunctionName, frame: bytes) -> bytes:
        """Carry a frame to its function over the network, and return its response."""
        with owned_by(function.value):
            half_s = self.latencies.call.draw_s(self.rng) / 2
        await self.clock.sleep(half_s)
        event = {
            "requestContext": {
                "http": {"method": "POST", "path": "/", "sourceIp": "192.0.2.1"},
                "requestId": "",
                "domainName": "fleet",
                "authorizer": {"iam": {"userArn": "arn:aws:iam::000000000000:user/clients"}},
            },
            "rawPath": "/",
            "body": pybase64.b64encode_as_string(frame),
            "isBase64Encoded": True,
        }
        response = await self.invoke(function.value, event, len(frame))
        await self.clock.sleep(half_s)
        if response["statusCode"] != 200:
            raise RuntimeError(response)
        return pybase64.b64decode(response["body"])

    def transport(self) -> InProcessTransport:
        """Return a transport for one client."""
        return InProcessTransport(self.dispatch)

    # --- maintenance ----------------------------------------------------------------------------------------------

    async def maintain(self) -> None:
        """Plan at the stage's period, and have the tasks done. Runs until it is cancelled."""
        while True:
            await self.clock.sleep(self.stage.maintenance_every_minutes * 60)
            await self.invoke(MAINTENANCE, {}, 0)
            self._deliver()

    def _deliver(self) -> None:
        """Hand the messages to maintainers, ten at a time."""
        messages, self._queue.messages = self._queue.messages, []
        for start in range(0, len(messages), MESSAGES_PER_SEND_MAX):
            task = asyncio.create_task(self._work(messages[start : start + MESSAGES_PER_SEND_MAX]))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _work(self, messages: Sequence[str]) -> None:
        async with self._workers:
            records = [{"messageId": str(number), "body": body} for number, body in enumerate(messages)]
            await self.invoke(MAINTAINER, {"Records": records}, 0)
            token = _OWNER.set(MAINTAINER)
            self.meter.add("ReceiveMessage", Usage(queue_requests=1))
            self.meter.add("DeleteMessageBatch", Usage(queue_requests=1))
            _OWNER.reset(token)
