"""One run: a seed draws a scenario, actors live in it, the world calms down, the auditor looks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import fitting
from odradek.engine.catalog.topic_configs import (
    ICEBERG_ENABLE,
    PARTITIONS_PER_HEAD,
    TABLE_COMMIT_INTERVAL,
    TABLE_ENABLE,
    TABLE_SCHEMA,
    TABLE_SEGMENT_BYTES,
    TABLE_VALUE_BYTES,
)
from odradek.errors import ErrorCode
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.model.trigger import Trigger

from tests.simulation.actors.classic_members import ClassicGroupMember, classic_group_at_rest
from tests.simulation.actors.common import Payload, encode, find_topic, lives
from tests.simulation.actors.consumers import Consumer
from tests.simulation.actors.gateways import Gateway
from tests.simulation.actors.group_members import GroupMember
from tests.simulation.actors.growing_topics import KeyedClient, Multiplier
from tests.simulation.actors.maintainers import Maintainer, Sweeper
from tests.simulation.actors.merged_producers import MergedProducers
from tests.simulation.actors.producers import ConditionalProducer, Habits, Producer
from tests.simulation.actors.share_workers import ShareGroupDeleter, ShareWorker, queue_at_rest
from tests.simulation.actors.streams_members import StreamsGroupMember
from tests.simulation.actors.topic_admins import RecordDeleter, TableFlusher, TopicAdmin, TopicGrower
from tests.simulation.actors.transactional_members import MEMBERS
from tests.simulation.actors.transactors import Transactor
from tests.simulation.actors.triggers import (
    TIMEOUT_S,
    TriggerFleet,
    WakeQueue,
    audit_triggers,
    create_triggers,
    triggers_at_rest,
)
from tests.simulation.actors.unruly_connections import UnrulyConnection
from tests.simulation.audit.auditor import audit
from tests.simulation.audit.cleanup import clean_up
from tests.simulation.audit.groups import lagging
from tests.simulation.loop import run
from tests.simulation.plan import DEAD_TOPIC, Scenario
from tests.simulation.scenario import draw
from tests.simulation.stock.cast import StockCast
from tests.simulation.store.ports import HOUR_S, Crash, Fates
from tests.simulation.world import World
from tests.support.stores.wal_shards import few_wal_shards

GROUP = "g"
CLASSIC_GROUP = "c"
STREAMS_GROUP = "app"
QUEUE = "q"
_READER_RESTARTS = 1000
_GROUP_PATIENCE_S = 2 * HOUR_S  # longer than the longest stall


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    seed: int
    profile: str
    problems: tuple[str, ...]
    digest: str
    steps: int
    acked: int
    hours: float
    work: dict[str, int]
    trace: tuple[str, ...]

    def without_trace(self) -> Outcome:
        """The same, fit to be sent from one process to another by the thousand."""
        return replace(self, trace=())


def simulate(seed: int, profile: str | None = None, *, change: Callable[[Scenario], Scenario] | None = None) -> Outcome:
    """Run the simulation of a seed.

    Args:
        profile: None: drawn by the seed.
        change: what a test wants to be otherwise than drawn.
    """
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    rng = random.Random(seed)
    scenario = draw(rng, profile)
    if change is not None:
        scenario = change(scenario)
    with few_wal_shards(), _narrowed(scenario.narrow):
        return run(_simulate(seed, rng, scenario))


@contextmanager
def _narrowed(factor: int) -> Iterator[None]:
    """Let appends believe that an update takes so many times less than it does: a dozen producers then exceed it."""
    share_of_limits, surely_fit = fitting.share_of_limits, fitting.SURELY_FIT
    with (
        patch.object(fitting, "share_of_limits", lambda update: factor * share_of_limits(update)),
        patch.object(fitting, "SURELY_FIT", surely_fit // factor),
    ):
        yield


_MORE_PARTITIONS = 2  # of topics whose partitions share heads


def _sharing(world: World) -> dict[str, str]:
    """Give topics of one partition a shared head, too, where partitions share heads."""
    per_head = world.settings.default_partitions_per_head
    return {} if per_head == 1 else {PARTITIONS_PER_HEAD: str(per_head)}


def _table(world: World, scenario: Scenario) -> dict[str, str]:
    """In half of the runs, by their seed, what merges close is columnar; in a quarter it is an Iceberg table, too.

    In an eighth the files make values of typed columns. In half of the runs of tables files close by time, too.
    """
    if world.lake is None and not world.is_typed and (not scenario.tables or not world.seed % 2):
        return {}
    more = {ICEBERG_ENABLE: "true"} if world.lake is not None else {}
    if world.is_typed:
        more |= {TABLE_SCHEMA: "id string", TABLE_VALUE_BYTES: "false"}
    if _closes_by_time(world.seed, scenario):
        more |= {TABLE_COMMIT_INTERVAL: "60000", TABLE_SEGMENT_BYTES: "30000"}  # small files, which are joined
    return {TABLE_ENABLE: "true", TABLE_SEGMENT_BYTES: "1024", **more}


_ROOM_FOR_SMALL_FILES = {"segment_bytes_max": 30_000, "merge_bytes_max": 60_000}


def _closes_by_time(seed: int, scenario: Scenario) -> bool:
    """Return True for two runs of eight; in one of them the tables are Iceberg tables."""
    return scenario.tables and (scenario.closes_by_time or seed % 8 in (3, 5))


async def _simulate(seed: int, rng: random.Random, scenario: Scenario) -> Outcome:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_quiet)
    room = _ROOM_FOR_SMALL_FILES if _closes_by_time(seed, scenario) else {}
    world = World(seed, rng, Fates.none(), {**scenario.settings, **room}, scenario.write_units)
    world.bumps = scenario.bump
    if scenario.tables and (scenario.iceberg or seed % 4 == 1):
        world.keep_tables()
    world.is_typed = scenario.tables and (scenario.typed or seed % 8 == 7)
    setup = world.process("setup", 0)
    for plan in scenario.topics:
        count = plan.partitions + (_MORE_PARTITIONS if _sharing(world) and not plan.keys else 0)
        await setup.engine.topics.create(
            plan.name, count, {**_sharing(world), **_table(world, scenario), **plan.configs}
        )
    if scenario.streams_members:
        configs = {"streams.num.standby.replicas": str(scenario.streams_standbys)}
        await setup.engine.group_configs.alter(STREAMS_GROUP, set=configs)
    if scenario.share_workers:
        await setup.engine.group_configs.alter(QUEUE, set=scenario.group_configs)
        dead = await setup.engine.topics.resolve(scenario.group_configs["errors.deadletterqueue.topic.name"])
        world.history.server_written.add(dead.topic_id)
        if scenario.share_deletions:
            world.history.written_again.add(dead.topic_id)  # by the group that comes after
    if scenario.keyed_clients:
        world.history.server_written.add((await setup.engine.topics.resolve(scenario.topics[0].name)).topic_id)
    fleet = await _trigger_fleet(world, scenario)
    world.fates = scenario.fates.drawn(seed)
    stock = StockCast(world, scenario)
    if scenario.begins_s:
        await asyncio.sleep(scenario.begins_s)
    readers = [asyncio.ensure_future(reader) for reader in _readers(world, scenario)]
    copiers = [asyncio.ensure_future(copier) for copier in _copiers(world, scenario)]
    readers += [
        asyncio.ensure_future(reader) for reader in (*_members_and_maintainers(world, scenario), *stock.readers())
    ]
    readers += [asyncio.ensure_future(actor.run()) for actor in fleet]
    await asyncio.gather(*_writers(world, scenario), *stock.writers())
    world.calm()
    await world.settle()
    problems = []
    longest_s = max(*scenario.fates.stalls_s, *scenario.fates.freezes_s)  # a process that is away may come back so late
    if scenario.group_members:
        problems += await _group_at_rest(world, GROUP, {plan.name for plan in scenario.topics})
        if scenario.grows_at_rest and not problems:
            problems += await _grown_at_rest(world, GROUP, scenario.topics[0].name)
    if scenario.streams_members:
        problems += await _group_at_rest(world, STREAMS_GROUP, {plan.name for plan in scenario.topics})
    if scenario.classic_members:
        names = {plan.name for plan in scenario.topics}
        problems += await classic_group_at_rest(world, CLASSIC_GROUP, names, scenario.classic_members, longest_s)
    if scenario.share_workers:
        problems += await queue_at_rest(world, [*_queued(scenario), *scenario.churn], longest_s)
    if scenario.triggers:
        problems += await triggers_at_rest(world, sweeps=scenario.trigger_sweeps)
    world.stop.set()
    await asyncio.gather(*copiers)
    world.written.set()
    await asyncio.gather(*readers)
    stock.testify()
    problems += await audit(world, world.process("auditor", 0))
    if scenario.triggers:
        problems += await audit_triggers(world, world.process("auditor", 0))
    if scenario.maintainers:
        problems += await clean_up(world)
        problems += [problem for problem in await audit(world, world.process("auditor", 0)) if problem not in problems]
    world.work.update(f"transactions_{one.outcome}" for one in world.history.transactions)
    acked = sum(send.outcome == "acked" for send in world.history.sends)
    acked += sum(send.place is not None for send in world.history.keyed)
    return Outcome(
        seed,
        scenario.profile,
        tuple(problems),
        world.trace_digest(),
        len(world.trace),
        acked,
        loop.time() / 3600,
        dict(world.work),
        tuple(world.trace),
    )


async def _trigger_fleet(world: World, scenario: Scenario) -> list[TriggerFleet]:
    if not scenario.triggers:
        return []
    world.wakes = WakeQueue(world, is_kind=scenario.trigger_queue_is_kind)
    if any(plan.name == DEAD_TOPIC for plan in scenario.topics):
        dead = await world.process("trigger-setup", 0).engine.topics.resolve(DEAD_TOPIC)
        world.history.server_written.add(dead.topic_id)
        world.history.written_again.add(dead.topic_id)  # by a dispatcher that died before its commit
    topic = scenario.topics[-1].name
    triggers = [
        Trigger(
            **{
                "name": f"trigger{number}",
                "topic": topic,
                "function": "https://example.org",
                "batch_size": world.weather.choice((1, 3, 100)),
                "parallelization_factor": scenario.trigger_factor,
                "bisect": world.weather.random() < 0.5,
                "timeout_s": TIMEOUT_S,
                **scenario.trigger_options,
            }
        )
        for number in range(scenario.triggers)
    ]
    world.trigger_book.triggers += triggers
    world.trigger_book.may_overlap = scenario.fates.jump > 0
    await create_triggers(world.process("trigger-setup", 0), triggers)
    return [TriggerFleet(world, sweeps=scenario.trigger_sweeps)]


def _writers(world: World, scenario: Scenario) -> list[Coroutine[Any, Any, None]]:
    """Those whose work ends by itself."""
    rng, writers = world.rng, []
    plans = {plan.name: plan for plan in scenario.topics}
    names = [*_queued(scenario), *(name for name in scenario.churn if name not in plans)]
    for i in range(scenario.producers):
        name = names[i % len(names)] if i < len(names) else rng.choice(names)
        producer = Producer(
            world,
            f"p{i}",
            name,
            scenario.records_of,
            idempotent=rng.random() < scenario.idempotent_share,
            habits=Habits(
                scenario.pace_s,
                plans[name].keys if name in plans else 0,
                scenario.together,
                in_parts=scenario.in_parts,
                overtaken=scenario.overtaken,
                tombstones=scenario.tombstones,
                epoch_batches=scenario.epoch_batches,
            ),
        )
        writers.append(lives(world, f"producer{i}", producer.program))
    if scenario.merged:
        merged = MergedProducers(
            world,
            "m",
            scenario.topics[0].name,
            scenario.merged,
            scenario.records_of,
            scenario.merged_ms,
            Habits(scenario.pace_s, everywhere=0.5, epoch_batches=scenario.epoch_batches),
        )
        writers.append(lives(world, "merged", merged.program))
    for i in range(scenario.conditional):
        conditional = ConditionalProducer(world, f"c{i}", rng.choice(list(plans)), 15, pace_s=scenario.pace_s * 4)
        writers.append(lives(world, f"conditional{i}", conditional.program))
    for i in range(scenario.unruly):
        unruly = UnrulyConnection(world, f"u{i}", rng.choice(list(plans)), i + 1, scenario.pace_s)
        writers.append(lives(world, f"unruly{i}", unruly.program))
    for i in range(scenario.admins):
        admin = TopicAdmin(world, list(scenario.churn), scenario.admin_turns, scenario.pace_s * 10)
        writers.append(lives(world, f"admin{i}", admin.program))
    for i in range(scenario.deleters):
        shortened = [name for name in plans if name != DEAD_TOPIC]
        deleter = RecordDeleter(world, shortened, scenario.admin_turns, scenario.pace_s * 10, scenario.deletes_all)
        writers.append(lives(world, f"deleter{i}", deleter.program))
    if scenario.growths:
        topic = scenario.topics[0].name
        multiplier = Multiplier(world, topic, scenario.growths, scenario.pace_s * 10)
        writers.append(lives(world, "multiplier", multiplier.program, _READER_RESTARTS))
        writers += [
            KeyedClient(world, f"k{i}", topic, scenario.records_of, scenario.pace_s).run()
            for i in range(scenario.keyed_clients)
        ]
    if scenario.grows:
        grower = TopicGrower(world, list(plans), scenario.pace_s * 20)
        writers.append(lives(world, "grower", grower.program))
    for source, sink in scenario.chains:
        for i in range(scenario.transactors):
            transactor = Transactor(
                world,
                f"tx-{source}-{i}",
                f"tx-{source}",
                f"tx-{source}",
                (source, sink),
                turns=scenario.transactor_turns,
                pace_s=scenario.pace_s,
                bump=scenario.bump,
                mischief=scenario.mischief,
            )
            writers.append(lives(world, f"transactor-{source}-{i}", transactor.program))
    for i in range(scenario.gateways):
        gateway = Gateway(
            world, f"gw{i}", list(plans), scenario.gateway_turns, scenario.records_of // 2, scenario.pace_s
        )
        broker_id = i % (scenario.gateway_ids or scenario.gateways) + 1
        writers.append(lives(world, f"gateway{i}", gateway.program, broker_id=broker_id))
    if scenario.share_deletions:
        deleter_of_group = ShareGroupDeleter(world, QUEUE, scenario.share_deletions, scenario.pace_s * 4)
        writers.append(lives(world, "group-deleter", deleter_of_group.program))
    return writers


def _readers(world: World, scenario: Scenario) -> list[Coroutine[Any, Any, None]]:
    """Those who go on until the run stops."""
    readers = []
    names = list(dict.fromkeys((*(plan.name for plan in scenario.topics), *scenario.churn)))
    for name in names:
        for i in range(scenario.consumers):
            consumer = Consumer(
                world, f"r-{name}-{i}", name, scenario.consumers_rest_s, plans_in_bulk=scenario.plans_in_bulk
            )
            readers.append(lives(world, f"consumer-{name}-{i}", consumer.program, _READER_RESTARTS))
    for i in range(scenario.group_members):
        member = GroupMember(
            world,
            f"m{i}",
            GROUP,
            [plan.name for plan in scenario.topics],
            turns=scenario.group_turns,
            pace_s=scenario.pace_s * 4,
            assignor=scenario.group_assignor,
        )
        readers.append(lives(world, f"member{i}", member.program, _READER_RESTARTS))
    for i in range(scenario.streams_members):
        topics = [plan.name for plan in scenario.topics]
        one = StreamsGroupMember(
            world, i, STREAMS_GROUP, topics, turns=scenario.group_turns, pace_s=scenario.pace_s * 4
        )
        readers.append(lives(world, f"streams{i}", one.program, _READER_RESTARTS))
    return readers


def _copiers(world: World, scenario: Scenario) -> list[Coroutine[Any, Any, None]]:
    """Members of groups that write what they read, until the run stops: consumers read on until they have ended."""
    copiers = []
    for i, member_type in enumerate(scenario.transactional_members):
        source, sink = scenario.chains[0]
        copier = Transactor(
            world,
            f"tm{i}",
            f"tm{i}",
            f"{member_type}-members",
            (source, sink),
            turns=scenario.transactor_turns,
            pace_s=scenario.pace_s,
            bump=scenario.bump,
            mischief=scenario.mischief,
        )
        rounds = {"rebalance_ms": scenario.classic_rebalance_ms} if member_type == "classic" else {}
        one = MEMBERS[member_type](
            world, f"tm{i}", f"{member_type}-members", [source], turns=scenario.group_turns, copier=copier, **rounds
        )
        copiers.append(lives(world, f"transactional{i}", one.program, _READER_RESTARTS))
    return copiers


def _members_and_maintainers(world: World, scenario: Scenario) -> list[Coroutine[Any, Any, None]]:
    """Those who also go on until the run stops; what share workers write, dead letters, is over by then."""
    readers = []
    for i in range(scenario.classic_members):
        classic = ClassicGroupMember(
            world,
            f"k{i}",
            CLASSIC_GROUP,
            [plan.name for plan in scenario.topics],
            turns=scenario.group_turns,
            pace_s=scenario.pace_s * 4,
            rebalance_ms=scenario.classic_rebalance_ms,
        )
        readers.append(lives(world, f"classic{i}", classic.program, _READER_RESTARTS))
    for i in range(scenario.share_workers):
        topics = [*_queued(scenario), *scenario.churn]
        worker = ShareWorker(
            world,
            QUEUE,
            topics,
            turns=scenario.share_turns,
            pace_s=scenario.pace_s * 2,
            deliveries_max=int(scenario.group_configs["share.delivery.count.limit"]),
            leaves=scenario.share_leaves,
            rejects=scenario.share_rejects,
        )
        readers.append(lives(world, f"worker{i}", worker.program, _READER_RESTARTS))
    for i in range(scenario.maintainers):
        maintainer = Maintainer(world, scenario.maintainer_turns, scenario.maintainer_pace_s)
        readers.append(lives(world, f"maintainer{i}", maintainer.program, _READER_RESTARTS))
    if _closes_by_time(world.seed, scenario):
        flusher = TableFlusher(world, [plan.name for plan in scenario.topics], scenario.maintainer_pace_s * 4)
        readers.append(lives(world, "flusher", flusher.program, _READER_RESTARTS))
    for i in range(scenario.sweepers):
        sweeper = Sweeper(world, scenario.maintainer_turns, scenario.maintainer_pace_s)
        readers.append(lives(world, f"sweeper{i}", sweeper.program, _READER_RESTARTS))
    return readers


def _queued(scenario: Scenario) -> list[str]:
    """The topics that producers write and share groups read."""
    dead = (scenario.group_configs.get("errors.deadletterqueue.topic.name"), DEAD_TOPIC)
    return [plan.name for plan in scenario.topics if plan.name not in dead]


async def _group_at_rest(world: World, group_id: str, topic_names: set[str]) -> list[str]:
    """Once nothing fails any more, a group gets to the end of its topics."""
    give_up = asyncio.get_running_loop().time() + _GROUP_PATIENCE_S
    while left := lagging(world.ledger, group_id, topic_names):
        if asyncio.get_running_loop().time() > give_up:
            return [f"group {group_id} is stuck before the end of {', '.join(left)}"]
        await asyncio.sleep(5)
    return []


async def _grown_at_rest(world: World, group_id: str, name: str) -> list[str]:
    """A group whose members stay takes in a partition that is added, and what is written to it."""
    grower = world.process("late-grower", 0)
    topic = await find_topic(grower.engine, name)
    await grower.engine.topics.create_partitions(name, topic.partition_count + 1)
    partition = PartitionId(topic.topic_id, topic.partition_count)
    send = world.history.sent(b"late", partition, "", 0)
    [result] = await grower.engine.produce([ProducePartition(name, partition.partition, encode([Payload(b"late")]))])
    send.outcome = "acked" if result.error is ErrorCode.NONE else "unknown"
    return await _group_at_rest(world, group_id, {name})


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tasks of a dead process end with Crash, which nobody awaits."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)
