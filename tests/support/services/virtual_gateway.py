"""A gateway on Fargate beside the functions of a virtual account: the dispatcher, group commit and memory of the real
one, without its sockets. What clients send takes half a millisecond each way within the zone, and the processor's time
is counted, not waited for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.client.transport.base import InProcessTransport
from odradek.dispatcher import Arrival, Dispatcher, RequestContext
from odradek.gateway.group_commit import GroupCommit
from odradek.limits import TCP_FRAME_BYTES_MAX
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.protocol.api import ApiKey, FunctionName
from odradek.settings import SERVER_MEMORY

from tests.support.services.virtual_account import CPU_S_PER_PARTITION, VirtualAccount, owned_by

GATEWAY = "gateway"  # the owner of what gateways do
NETWORK_S = 0.0005
# Of the server in bench.kafka_port, whole processors: for a request, and for each byte that comes or goes.
CPU_S, CPU_S_PER_MB = 0.001, 0.005


class VirtualGateway:
    """One task. It leads nothing: several serve the same topics.

    Args:
        settings: what differs from the stage's: gateway_upload_interval_ms, gateway_upload_bytes.

    Attributes:
        cpu_s: processor time so far.
        produce_requests: so far.
    """

    def __init__(self, account: VirtualAccount, settings: Mapping[str, int]) -> None:
        self._account = account
        more: Any = {**SERVER_MEMORY, **settings}
        of_all = replace(account.stage.settings, **more)

        async def busy(partitions: int) -> None:
            self.cpu_s += partitions * CPU_S_PER_PARTITION

        engine = account.busy_engine(busy, of_all)
        commits = GroupCommit.by_settings(engine, account.clock, of_all)
        cluster = Cluster(of_all.cluster_id, Broker(FLEET_BROKER_ID, "gateway", 9092))
        self._dispatcher = Dispatcher(engine, cluster, append=commits.produce)
        self._connections = itertools.count(1)
        self.cpu_s = 0.0
        self.produce_requests = 0

    def transport(self) -> InProcessTransport:
        """A transport for one client, which is one connection."""
        context = RequestContext(
            principal="User:clients",
            client_host="192.0.2.1",
            transport="tcp",
            allowed=frozenset(ApiKey),
            max_response_bytes=TCP_FRAME_BYTES_MAX,
            connection=next(self._connections),
        )
        last: list[Arrival | None] = [None]

        async def dispatch(_: FunctionName, frame: bytes) -> bytes:
            await self._account.clock.sleep(NETWORK_S)
            with owned_by(GATEWAY):
                is_produce = int.from_bytes(frame[:2], "big") == ApiKey.PRODUCE
                self.produce_requests += is_produce
                arrival = last[0] = Arrival(last[0]) if is_produce else None
                try:
                    parts = await self._dispatcher.dispatch(frame, context, arrival)
                finally:
                    if arrival is not None:
                        arrival.enter()
            response = b"".join(parts or ())
            self.cpu_s += CPU_S + (len(frame) + len(response)) / 1e6 * CPU_S_PER_MB
            await self._account.clock.sleep(NETWORK_S)
            return response

        return InProcessTransport(dispatch)
