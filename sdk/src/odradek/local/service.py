"""The embedded service: one process with the store, the engine, all functions and their function-URL server.

    <data dir>/odradek.db, objects/ ...   the store (adapters.embedded)
    <data dir>/credentials.json           the key of clients
    <data dir>/address.json               the address of the service, while it runs

Durable: acknowledged writes survive SIGKILL. A data directory serves one process; a second one gets an error.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from odradek.adapters.embedded import EmbeddedStore, open_embedded
from odradek.adapters.iceberg import embedded_catalog
from odradek.dispatcher import BadFrame, Dispatcher, RequestContext
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError, StoreUnavailable
from odradek.functions.discovery import Discovery
from odradek.functions.environment import REGISTRY, TABLES, TRIGGERS
from odradek.functions.handler import FunctionHandler
from odradek.functions.invoked import Instruments
from odradek.functions.maintenance import MaintenanceHandler
from odradek.functions.metering import InvocationMeter
from odradek.functions.metrics import Metrics
from odradek.functions.registry import RegistryHandler
from odradek.functions.tables import TablesHandler
from odradek.functions.telemetry import WriteLine, write_nowhere
from odradek.functions.triggers import TriggersHandler
from odradek.gateway import Gateway, Listener
from odradek.gateway.registry_port import RegistryPort
from odradek.http.listening import address_of, listening_socket
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.local.address import remove_address, save_address
from odradek.local.credentials import Credentials, load_or_create_credentials
from odradek.local.function_url import USER_ARN
from odradek.local.maintenance_loop import MaintenanceLoop
from odradek.local.server import FunctionLimits, FunctionUrlServer
from odradek.local.triggers import LocalTriggers, local_arn
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.ports.clock import Clock
from odradek.protocol.api import OWNED, FunctionName
from odradek.registry.api import RegistryApi
from odradek.registry.subjects import Subjects
from odradek.registry.value_schemas import RegistryValueSchemas
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng
from odradek.tracing import TracedTables, Tracing, traced_objects
from odradek.triggers.api import TriggersApi
from odradek.triggers.event import EventSource
from odradek.triggers.targets import Handler
from odradek.triggers.triggers import Triggers

T = TypeVar("T")

_IN_PROCESS = "User:local"
# Whoever has the data directory's credentials, or runs in its process, can also read its files: no ACL applies to them.
OWNERS = (_IN_PROCESS, f"User:{USER_ARN}")


class LocalService:
    """An embedded service on a data directory; `start` it or use it as an async context manager.

    Args:
        data_dir: the folder of the store; created if it is missing.
        host, port: where to listen; port 0 takes a free one.
        settings: of the engine.
        limits: memory and time of the functions, as on Lambda.
        synchronous: "FULL" survives a power loss, "NORMAL" a killed process.
        clock: the system clock by default.
        write_line: receives the functions' log lines; None by default.
        kafka: the address for Kafka clients; None by default.
        registry: the address of the schema registry for clients that cannot sign, over HTTP or TLS; None by default.
        trigger_handlers: functions that triggers may call, by the name in the trigger's `function`.
        trigger_modules: modules of which triggers may call `module:handler`; none by default.

    Attributes:
        meter: the billable usage of all invocations so far, `meter.total.usage`.
        credentials: the key with which clients sign.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Settings | None = None,
        limits: FunctionLimits | None = None,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        clock: Clock | None = None,
        write_line: WriteLine = write_nowhere,
        kafka: Listener | None = None,
        registry: Listener | None = None,
        trigger_handlers: Mapping[str, Handler] | None = None,
        trigger_modules: tuple[str, ...] = (),
    ) -> None:
        self.data_dir = Path(data_dir)
        self.settings = settings or Settings()
        self.meter = InvocationMeter()
        self.metrics = Metrics(lambda: self.meter.total.usage)
        self._host = host
        self._port = port
        self._limits = limits or FunctionLimits()
        self._synchronous: Literal["FULL", "NORMAL"] = synchronous
        self._clock = clock or SystemClock()
        self._instruments = Instruments(
            clock=self._clock,
            meter=self.meter,
            cluster_id=self.settings.cluster_id,
            write_line=write_line,
            observe=self.metrics.observe,
        )
        self._store: EmbeddedStore | None = None
        self._server: FunctionUrlServer | None = None
        self._credentials: Credentials | None = None
        self._engine: Engine | None = None
        self._dispatcher: Dispatcher | None = None
        self._maintenance: MaintenanceLoop | None = None
        self._tracing: Tracing | None = None
        self._kafka = kafka
        self._gateway: Gateway | None = None
        self._registry_listener = registry
        self._registry_port: RegistryPort | None = None
        self._triggers = LocalTriggers(self._clock, write_line, trigger_handlers, trigger_modules)

    # --- what callers need ----------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return f"http://{address_of(self._host, self._port)}"

    @property
    def credentials(self) -> Credentials:
        return _started(self._credentials)

    @property
    def engine(self) -> Engine:
        """The engine, for code in this process and on this loop."""
        return _started(self._engine)

    @property
    def triggers(self) -> Triggers:
        """The triggers, for code in this process and on this loop."""
        _started(self._engine)
        return self._triggers.triggers

    @property
    def client_config(self) -> dict[str, str]:
        """Keyword arguments for Producer, Consumer and Admin."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "aws_access_key_id": self.credentials.access_key_id,
            "aws_secret_access_key": self.credentials.secret_access_key,
            "aws_region": self.credentials.region,
        }

    @property
    def kafka_bootstrap_servers(self) -> str:
        """The address for Kafka clients. Raises KafkaError if there is no Kafka port."""
        if self._gateway is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "the service has no Kafka port: start it with one (kafka_port=0)"
            )
        return self._gateway.bootstrap_servers

    @property
    def registry_url(self) -> str:
        """The address of the schema registry for clients that cannot sign. Raises KafkaError if there is none."""
        if self._registry_port is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "the service has no registry port: start it with one (registry_port=0)"
            )
        return self._registry_port.url

    @property
    def kafka_connections(self) -> int:
        """Return the number of connected Kafka clients."""
        return 0 if self._gateway is None else self._gateway.connection_count

    async def dispatch(self, function: FunctionName, frame: bytes) -> bytes:
        """Pass a frame straight to the dispatcher, without HTTP, for client.transport.InProcessTransport.

        Raises KafkaError for a frame that has no response in the protocol.
        """
        context = RequestContext(
            principal=_IN_PROCESS,
            client_host="127.0.0.1",
            transport="https",
            allowed=OWNED[function],
            max_response_bytes=FUNCTION_BINARY_BYTES_MAX,
        )
        try:
            parts = await _started(self._dispatcher).dispatch(frame, context)
        except BadFrame as bad:
            raise KafkaError(bad.code, bad.message) from None
        return b"".join(parts or ())

    async def _metrics_text(self) -> str:
        return self.metrics.text(await self.engine.backlogs.look())

    async def maintain(self) -> None:
        """Run one pass of maintenance now: retention, merges, compaction. Raises OdradekError if it failed."""
        await _started(self._maintenance).run_once()

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Open the store and listen.

        Raises KafkaError if the data directory cannot be used (another process has it, it is read-only) or the address
        is in use; the message says which.
        """
        try:
            self._store = store = await asyncio.to_thread(
                open_embedded, self.data_dir, meter=self.meter, synchronous=self._synchronous, check="quick"
            )
        except StoreUnavailable as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        try:
            self._credentials = load_or_create_credentials(self.data_dir)
            self._tracing = tracing = Tracing() if self.settings.tracing else None
            self._engine = engine = Engine(
                tables=store if tracing is None else TracedTables(store, tracing),
                objects=store.objects if tracing is None else traced_objects(store.objects, tracing),
                clock=self._clock,
                rng=SystemRng(),
                settings=replace(self.settings, super_users=";".join((self.settings.super_users, *OWNERS))),
                wakes=self._triggers.queue,
            ).count_damage(self.meter)
            subjects = Subjects(engine.catalog, self._clock, engine.rng)
            engine.keep_tables(embedded_catalog(self.settings.table_catalog, self.data_dir))
            engine.know_schemas(RegistryValueSchemas(subjects)).use_threads()
            registry = RegistryApi(subjects, engine.acls, self.settings.cluster_id)
            listener = self._listen()
            source = EventSource(local_arn(self.settings.cluster_id), self.bootstrap_servers)
            await self._triggers.start(engine, source, store.rows)
            await self._serve(engine, registry, listener)
            if self._registry_listener is not None:
                port = RegistryPort(
                    registry, engine.users, self._registry_listener, self.settings, clock=self._clock, rng=engine.rng
                )
                self._registry_port = await port.start()
            if self._kafka is not None:
                gateway = Gateway(
                    engine, self._kafka, clock=self._clock, rng=SystemRng(), observe=self.metrics.observe_kafka
                )
                self._gateway = await gateway.start()
            self._maintain(engine)
            save_address(self.data_dir, self.bootstrap_servers)
        except BaseException:
            await self.stop()
            raise
        return self

    def _listen(self) -> socket.socket:
        listener = listening_socket(self._host, self._port, "choose another --port or --host")
        self._port = listener.getsockname()[1]
        return listener

    async def _serve(self, engine: Engine, registry: RegistryApi, listener: socket.socket) -> None:
        """Create the functions and serve them."""
        cluster_id = self.settings.cluster_id
        cluster = Cluster(cluster_id, Broker(FLEET_BROKER_ID, self._host, self._port))
        self._dispatcher = dispatcher = Dispatcher(engine, cluster, takes_uploads=True)
        paths = {name: f"/{name.value}" for name in FunctionName}
        discovery = Discovery(
            cluster_id,
            self.credentials.region,
            paths,
            scheme="http",
            registry=f"/{REGISTRY}",
            triggers=f"/{TRIGGERS}",
            tables=f"/{TABLES}",
        )
        functions = {
            name: FunctionHandler(
                name,
                dispatcher,
                self._instruments,
                discovery=discovery if name is FunctionName.COORDINATOR else None,
                tracing=self._tracing,
            )
            for name in FunctionName
        }
        self._server = FunctionUrlServer(
            functions,
            key=self.credentials.signing_key(),
            clock=self._clock,
            limits=self._limits,
            metrics=self._metrics_text,
            more={
                REGISTRY: RegistryHandler(registry, self._instruments),
                TRIGGERS: TriggersHandler(TriggersApi(self._triggers.triggers, engine.acls), self._instruments),
                TABLES: TablesHandler(self._triggers.tables.api, self._instruments),
            },
            settings=self.settings,
        )
        await self._server.start(listener)

    def _maintain(self, engine: Engine) -> None:
        """Call the maintenance function every `maintenance_interval_ms`."""
        self._maintenance = MaintenanceLoop(
            MaintenanceHandler(engine.maintenance, self._instruments, rng=engine.rng, sweeps=self._triggers.sweeps),
            interval_ms=self.settings.maintenance_interval_ms,
            clock=self._clock,
            memory_limit_in_mb=self._limits.memory_mb,
        )
        self._maintenance.start()

    async def stop(self) -> None:
        """Stop maintenance and listening, then close the store. May be called twice."""
        maintenance, self._maintenance = self._maintenance, None
        if maintenance is not None:
            await maintenance.stop()
        await self._triggers.stop()
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.stop()
        registry, self._registry_port = self._registry_port, None
        if registry is not None:
            await registry.stop()
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
        store, self._store = self._store, None
        if store is not None:  # no other service had the folder, so the address is this one's
            remove_address(self.data_dir)
            await store.aclose()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _started(part: T | None) -> T:
    if part is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "the service is not started: use `async with LocalService(...)`")
    return part
