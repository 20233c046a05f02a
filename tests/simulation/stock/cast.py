"""The cast of the profile `stock`: gateways, stock producers, somebody who deletes topics and makes them again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.cluster import FLEET_BROKER_ID

from tests.simulation.actors.common import lives
from tests.simulation.audit.truth import true_logs
from tests.simulation.plan import Scenario, TopicPlan
from tests.simulation.stock.aiokafka import AiokafkaProducer
from tests.simulation.stock.cluster import StockCluster, StockGateway
from tests.simulation.stock.java import JavaProducer
from tests.simulation.stock.librdkafka import LibrdkafkaProducer
from tests.simulation.stock.producer import Load, StockProducer
from tests.simulation.world import Process, World

CLIENTS: dict[str, type[StockProducer]] = {
    "java": JavaProducer,
    "librdkafka": LibrdkafkaProducer,
    "aiokafka": AiokafkaProducer,
}
_RESTARTS = 1000


class Recreator:
    """Deletes topics and makes them again with as many partitions, a few times."""

    def __init__(self, world: World, plans: list[TopicPlan], turns: int, pace_s: float) -> None:
        self._world = world
        self._plans = plans
        self._turns = turns
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        while self._turns > 0:
            await asyncio.sleep(self._world.rng.random() * self._pace_s)
            self._turns -= 1
            plan = self._world.rng.choice(self._plans)
            try:
                await process.engine.topics.delete(plan.name)
            except KafkaError as error:
                self._world.note(f"{process.name} deletes {plan.name}: {error.code.name}")
        for plan in self._plans:
            await self._exists(process, plan)

    async def _exists(self, process: Process, plan: TopicPlan) -> None:
        while True:
            try:
                await process.engine.topics.create(plan.name, plan.partitions, plan.configs)
            except KafkaError as error:
                if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    return
                await asyncio.sleep(1.0)


class StockCast:
    """Everybody of the profile."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world = world
        self._scenario = scenario
        self._cluster = StockCluster(world, leads=scenario.stock_leads)
        # In a third of the runs, by the seed; not where a topic's end may be that of its next incarnation.
        looks_behind = world.seed % 3 == 0 and not scenario.stock_recreations
        load = Load(scenario.topics, scenario.stock_batches, scenario.pace_s, scenario.stock_silence_s, looks_behind)
        self._producers = [
            CLIENTS[client_type](self._cluster, f"{client_type}{number}", load)
            for number, client_type in enumerate(scenario.stock_clients)
        ]

    def writers(self) -> list[Coroutine[Any, Any, None]]:
        """Those whose work ends by itself."""
        scenario = self._scenario
        writers = [producer.run() for producer in self._producers]
        if scenario.stock_recreations:
            pace_s = 2 * scenario.pace_s * scenario.stock_batches / scenario.stock_recreations
            recreator = Recreator(self._world, list(scenario.topics), scenario.stock_recreations, pace_s)
            writers.append(lives(self._world, "recreator", recreator.program, _RESTARTS))
        return writers

    def readers(self) -> list[Coroutine[Any, Any, None]]:
        """Those who go on until the run stops."""
        scenario = self._scenario
        readers = []
        for number in range(1, scenario.stock_gateways + 1):
            gateway = StockGateway(self._cluster, number, scenario.stock_gateway_life_s)
            broker_id = number if scenario.stock_leads else FLEET_BROKER_ID
            readers.append(lives(self._world, f"gateway{number}", gateway.program, _RESTARTS, broker_id=broker_id))
        return readers

    def testify(self) -> None:
        """Tell the history of every record: clients name a topic by name, the log of which is known only afterwards.

        A topic that was deleted and made again has several logs: a batch whose answer was lost may be in two of them.
        """
        logs, _ = true_logs(self._world.ledger, self._world.clock.now_ms())
        where: dict[bytes, list[Any]] = {}
        for partition, log in logs.items():
            for true in log.records:
                where.setdefault(true.identity, []).append(partition)
        history = self._world.history
        for producer in self._producers:
            for record in producer.records:
                tps = where.get(record.identity, [])
                if record.outcome == "acked" and not tps:
                    producer.problem(f"lost write: {record.identity!r} acknowledged at {record.offset}")
                for tp in dict.fromkeys(tps):
                    send = history.sent(record.identity, tp, producer.name, record.number)
                    send.outcome = "unknown" if record.outcome == "failed" else record.outcome
                    send.offset = record.offset if len(tps) == 1 else None
