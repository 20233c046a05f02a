"""Serving the Kafka port over an open store until it is stopped, for the container and `odradek gateway`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from odradek.engine.engine import Engine
from odradek.functions.metrics import CONTENT_TYPE, Metrics
from odradek.gateway.cloudwatch import KafkaTelemetry
from odradek.gateway.registry_port import RegistryPort
from odradek.gateway.server import Gateway, Listener
from odradek.http.listening import listening_socket
from odradek.http.port import HttpPort
from odradek.http.ports import HEALTH
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.ports.clock import Clock
from odradek.ports.meter import Meter, Usage
from odradek.ports.object_store import ObjectStore
from odradek.ports.rng import Rng
from odradek.ports.tables import Tables
from odradek.ports.task_queue import TaskQueue
from odradek.registry.api import RegistryApi
from odradek.registry.subjects import Subjects
from odradek.settings import Settings


@dataclass(frozen=True, slots=True)
class Ports:
    """The listeners of a gateway process."""

    kafka: Listener
    registry: Listener | None = None  # the schema registry over plain HTTP
    health_port: int = 0  # GET: 200 while serving, 503 while stopping; /metrics: the metrics; 0: none
    broker_id: int = FLEET_BROKER_ID  # a unique one: the gateway leads partitions that are written to


async def serve(
    tables: Tables,
    objects: ObjectStore,
    ports: Ports,
    settings: Settings,
    *,
    clock: Clock,
    rng: Rng,
    stopping: asyncio.Event,
    ready: Callable[[dict[str, str]], None],
    billed: Callable[[], Usage] | None = None,
    telemetry: KafkaTelemetry | None = None,
    wakes: TaskQueue | None = None,
    meter: Meter | None = None,
) -> None:
    """Serve until `stopping` is set or another process takes the broker id; then answer pending requests and stop.

    `ready` is called with the addresses once the ports are open; `billed` returns the usage of the store since the
    start, for the metrics; `telemetry` writes a line a minute; `wakes` is the queue that wakes triggers;
    `meter` counts damage.

    Raises KafkaError(INVALID_CONFIG) if it cannot listen.
    """
    loop = asyncio.get_running_loop()
    engine = Engine(
        tables=tables,
        objects=objects,
        clock=clock,
        rng=rng,
        settings=settings,
        broker_id=ports.broker_id,
        wakes=wakes,
    )
    if meter is not None:
        engine.count_damage(meter)
    metrics = Metrics(billed)

    def observe(api_key: int, duration_ms: float, bytes_in: int, bytes_out: int) -> None:
        metrics.observe_kafka(api_key, duration_ms, bytes_in, bytes_out)
        if telemetry is not None:
            telemetry.observe(duration_ms, bytes_in, bytes_out)

    gateway = Gateway(engine, ports.kafka, clock=clock, rng=rng, observe=observe)
    writing: asyncio.Task[None] | None = None
    registry: RegistryPort | None = None
    health: HealthPort | None = None
    try:
        await gateway.start()
        addresses = {"bootstrap_servers": gateway.bootstrap_servers}
        if ports.registry is not None:
            api = RegistryApi(Subjects(engine.catalog, clock, rng), engine.acls, settings.cluster_id)
            registry = await RegistryPort(api, engine.users, ports.registry, settings, clock=clock, rng=rng).start()
            addresses["registry"] = registry.url
        if ports.health_port:
            known = gateway.bootstrap_servers.rpartition(":")[0]
            health = await HealthPort(stopping, metrics, known, settings, clock=clock).start(ports.health_port)
        if telemetry is not None:
            writing = loop.create_task(telemetry.run(lambda: gateway.connection_count))
        ready(addresses)
        waits = [loop.create_task(event.wait()) for event in (stopping, gateway.lost)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        stopping.set()
    finally:
        await gateway.stop()
        if telemetry is not None and writing is not None:
            writing.cancel()
            telemetry.write(gateway.connection_count)
        if registry is not None:
            await registry.stop()
        if health is not None:
            await health.stop()


class HealthPort:
    """Answers GET /metrics, and any other request with 200 while the gateway serves, 503 while it stops.

    Metrics are refused to pages in a browser, and under a name that a third party may own (http/browsers.py).
    """

    def __init__(
        self, stopping: asyncio.Event, metrics: Metrics, known: str, settings: Settings, *, clock: Clock
    ) -> None:
        self._stopping = stopping
        self._metrics = metrics
        self._port = HttpPort(
            HEALTH, self._answer, settings=settings, clock=clock, refuse=_refusal, names=("localhost", known.lower())
        )

    async def start(self, port: int) -> Self:
        """Listen on all addresses. Raises KafkaError(INVALID_CONFIG) if the port cannot be used."""
        await self._port.start(listening_socket("0.0.0.0", port))
        return self

    async def stop(self) -> None:
        await self._port.stop()

    async def _answer(self, request: web.BaseRequest, _: str | None) -> web.Response:
        if request.method == "GET" and request.path == "/metrics":
            return web.Response(text=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})
        response = web.Response(status=503 if self._stopping.is_set() else 200)
        response.force_close()
        return response


def _refusal(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=message + "\n")
