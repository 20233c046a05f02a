"""Gateways of the simulation, and what clients know of them.

Each gateway is the real one (server, connections, group commit, dispatcher) without its sockets, in a process of the
world: its calls to the store stall, fail and get lost, it crashes and is started again, it stops in good order. Either
all of them act for the fleet (broker 0: an address behind which one of them answers), or each registers as a broker of
its own and leads what is written through it.
"""

from __future__ import annotations

import asyncio
from typing import cast

from odradek.dispatcher import Dispatcher
from odradek.errors import KafkaError
from odradek.format.item_keys import partition_pk
from odradek.gateway.server import Gateway, Listener
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.testing.seeded_rng import SeededRng

from tests.simulation.stock.wire import Wire
from tests.simulation.store.ports import Crash
from tests.simulation.world import Process, World

_DRAIN_S = 5.0
_REGISTER_AGAIN_S = 1.0


class _Socket:
    """Stands for a gateway's socket, which the gateway closes when it stops."""

    def close(self) -> None:
        return None


class SocketlessGateway(Gateway):
    """The gateway as it is, but for its sockets."""

    async def open(self) -> None:
        """As `start`. Raises KafkaError where the broker id cannot be had."""
        leaders = self._engine.leaders
        if self._leads:
            await leaders.register("gateway", 9092)
            self._leading = [asyncio.ensure_future(task) for task in (self._renew(), leaders.run_balance())]
        cluster = Cluster(self._settings.cluster_id, Broker(leaders.broker_id, "gateway", 9092))
        self._dispatcher = Dispatcher(self._engine, cluster, append=self._commits.produce)
        self._server = cast(asyncio.Server, _Socket())

    def connect(self, world: World) -> Wire:
        """A new connection."""
        return Wire(world, self._connection())

    def die(self) -> None:
        """The process is gone, and with it its connections."""
        self._is_stopping = True
        for connection in list(self._connections):
            connection.abort()
        for task in self._leading:
            task.cancel()


class StockCluster:
    """The gateways that are up."""

    def __init__(self, world: World, *, leads: bool) -> None:
        self.world = world
        self.leads = leads
        self._up: dict[int, SocketlessGateway] = {}  # by the number of the gateway, from 1

    def nodes(self) -> list[int]:
        """Broker ids that answer."""
        if not self.leads:
            return [FLEET_BROKER_ID] if self._up else []
        return list(self._up)

    def leader_of(self, tp: TopicPartition) -> int | None:
        """Return the leader by metadata: the broker for a partition's batches; None without a gateway or topic."""
        nodes = self.nodes()
        ledger = self.world.ledger
        topic_ids = [topic_id for topic_id in ledger.live_topics if ledger.topic_names[topic_id] == tp.topic]
        if not nodes or not topic_ids:
            return None
        head = ledger.heads.get(partition_pk(PartitionId(topic_ids[0], tp.partition)), {})
        leader = cast(int, head.get("li", FLEET_BROKER_ID))
        return leader if leader in nodes else self.world.rng.choice(nodes)

    def connect(self, node: int) -> Wire | None:
        """A connection to a broker; None where it does not answer."""
        if not self.leads and self._up:
            node = self.world.rng.choice(list(self._up))
        gateway = self._up.get(node)
        return None if gateway is None else gateway.connect(self.world)

    def up(self, number: int, gateway: SocketlessGateway) -> None:
        self._up[number] = gateway

    def down(self, number: int) -> None:
        self._up.pop(number, None)


class StockGateway:
    """The life of one gateway until the world stops.

    Args:
        number: from 1; its broker id where gateways lead.
        life_s: about how long it serves before it restarts in good order; 0: for ever.
    """

    def __init__(self, cluster: StockCluster, number: int, life_s: float) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._number = number
        self._life_s = life_s

    async def program(self, process: Process) -> None:
        rng = self._world.rng
        while not self._world.stop.is_set():
            engine_rng = SeededRng(rng.getrandbits(64))
            gateway = SocketlessGateway(process.engine, Listener(), clock=process.clock, rng=engine_rng)
            process.on_death = gateway.die
            try:
                await gateway.open()
            except KafkaError:
                await asyncio.sleep(_REGISTER_AGAIN_S)
                continue
            await self._serve(process, gateway)

    async def _serve(self, process: Process, gateway: SocketlessGateway) -> None:
        world = self._world
        self._cluster.up(self._number, gateway)
        ends = [asyncio.ensure_future(event.wait()) for event in (world.stop, gateway.lost, process.died)]
        life_s = self._life_s * (0.5 + world.rng.random()) or None
        await asyncio.wait(ends, timeout=life_s, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        self._cluster.down(self._number)
        if process.dead:
            raise Crash
        world.note(f"{process.name} stops in good order")
        await gateway.stop(_DRAIN_S)
