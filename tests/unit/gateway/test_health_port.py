"""The health port: any path tells a load balancer whether the gateway serves; only one has the metrics."""

from __future__ import annotations

import asyncio

import pytest
from odradek.functions.metrics import Metrics
from odradek.gateway.serve import HealthPort
from odradek.http.listening import listening_socket
from odradek.settings import Settings
from odradek.system import SystemClock

from tests.support.all_ports import ask


@pytest.mark.parametrize("path", ["/", "/health", "/metrics/"])
async def test_a_gateway_that_stops_is_told_on_every_path_but_that_of_metrics(path: str) -> None:
    free = listening_socket("127.0.0.1", 0)
    number = free.getsockname()[1]
    free.close()
    url = f"http://127.0.0.1:{number}"
    stopping = asyncio.Event()
    port = HealthPort(stopping, Metrics(), "127.0.0.1", Settings(), clock=SystemClock())
    await port.start(number)
    try:
        assert (await asyncio.to_thread(ask, url, "GET", path))[:2] == (200, "")
        stopping.set()
        assert (await asyncio.to_thread(ask, url, "GET", path))[:2] == (503, "")
        assert (await asyncio.to_thread(ask, url, "GET", "/metrics"))[0] == 200
    finally:
        await port.stop()
