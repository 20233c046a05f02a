"""Members of a group of the classic protocol, as clients from before KIP-848 are: they join, the leader assigns, they
read from the commit on; a request that takes long is given up and made again; they leave, stall and crash."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import group_pk
from odradek.model.classic_group import (
    ClassicIdentity,
    ClassicJoin,
    ClassicJoinResult,
    ClassicLeave,
    ClassicState,
    ClassicSync,
)
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition

from tests.simulation.actors.common import idle_pace_s, pause
from tests.simulation.actors.group_members import GroupMember
from tests.simulation.audit.groups import lagging
from tests.simulation.books.classic_book import signature
from tests.simulation.books.items import partition_of
from tests.simulation.world import Process, World

REBALANCE_MS = 20_000
_REQUEST_S = 15.0  # shorter than a round may take by default
_ROUND_SLACK_S = 3.0  # once nothing fails
_STUBBORN_BEATS = 12  # of the heartbeats after a round that is missed, once nothing fails
_PATIENCE_S = 1_200.0  # beside the longest absence
_QUIET_S = 60.0
_JOINS_MAX = 16  # in a row that a round does not end: four times REBALANCE_MS, with clocks a minute apart
_STUBBORN = 0.15  # of the lives: the member hears of a round and does not join it
_STALE = 0.05  # of the heartbeats: one of the generation before comes, too


class ClassicGroupMember(GroupMember):
    """One place in a classic group; every life is a new member, and one that is unknown becomes another."""

    def __init__(self, world: World, *args: Any, rebalance_ms: int = REBALANCE_MS, **options: Any) -> None:
        super().__init__(world, *args, **options)
        self._rebalance_ms = rebalance_ms

    _reached: tuple[PartitionId | None, int] = (None, 0)  # the last commit that was taken, until the next round

    async def program(self, process: Process) -> None:
        world, engine = self._world, process.engine
        member_id = ""
        waited = 0
        while not world.stop.is_set():
            began_s = asyncio.get_running_loop().time()
            joined = await self._join(process, member_id)
            is_away = process.frozen_until_s >= asyncio.get_running_loop().time() or process.stalled_until_s > began_s
            is_waiting = joined is None and not is_away
            waited = waited + 1 if is_waiting else 0
            if waited > _JOINS_MAX and not world.ledger.shares.jumped:
                world.history.problem(f"{self._name} has waited for a round for {waited * _REQUEST_S} s")
            if joined is None or joined.error is not ErrorCode.NONE:
                forgotten = joined is not None and joined.error is ErrorCode.UNKNOWN_MEMBER_ID
                member_id = "" if forgotten else (joined.member_id if joined is not None else member_id)
                await pause(world, 1.0)
                continue
            member_id = joined.member_id
            me = ClassicIdentity(self._group_id, member_id, joined.generation)
            world.ledger.classic.joined(self._group_id, me.generation, member_id, joined.leader)
            await self._commit_early(process, me)
            partitions = await self._sync(process, me, joined)
            if partitions is None:
                await pause(world, 0.2)
                continue
            code = await self._live(process, me, partitions)
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                member_id = ""
            elif code is None:
                await engine.classic_groups.leave(self._group_id, [ClassicLeave(member_id)])
                await pause(world, 10.0)
                member_id = ""

    async def _join(self, process: Process, member_id: str) -> ClassicJoinResult | None:
        """The answer; None where it did not come in time."""
        session_ms = self._world.settings.group_session_timeout_ms
        request = ClassicJoin(
            self._group_id,
            member_id,
            "consumer",
            (("range", b""),),
            session_ms,
            self._rebalance_ms,
            client_id=self._name,
        )
        is_settled = self._world.settled.is_set()
        try:
            async with asyncio.timeout(_REQUEST_S):
                return await process.engine.classic_groups.join(request)
        except TimeoutError:
            if is_settled and self._rebalance_ms / 1000 + _ROUND_SLACK_S <= _REQUEST_S:
                self._world.history.problem(f"{self._name} has waited for a round for {_REQUEST_S} s, and all is calm")
            return None

    async def _commit_early(self, process: Process, me: ClassicIdentity) -> None:
        """Commit what was the member's own before the round, as a client that commits on a timer does: too early."""
        partition, offset = self._reached
        self._reached = None, 0
        if partition is None or me.generation % 2:
            return
        tp = TopicPartition(self._world.ledger.topic_names[partition.topic_id], partition.partition)
        early = OffsetAndMetadata(offset, metadata=signature(me.member_id, me.generation, is_early=True))
        try:
            await process.engine.offsets.commit(
                self._group_id, {tp: early}, member_id=me.member_id, member_epoch=me.generation
            )
        except KafkaError:
            return

    async def _sync(
        self, process: Process, me: ClassicIdentity, joined: ClassicJoinResult
    ) -> frozenset[PartitionId] | None:
        """The member's partitions; the leader deals them out. None: join again."""
        request = ClassicSync(me)
        if joined.leader == me.member_id:
            all_partitions = self._places()
            members = sorted(member.member_id for member in joined.members)
            shares = {member_id: _encode(all_partitions[i :: len(members)]) for i, member_id in enumerate(members)}
            request = replace(request, assignments=shares)
        try:
            async with asyncio.timeout(_REQUEST_S):
                result = await process.engine.classic_groups.sync(request)
        except TimeoutError:
            return None
        if result.error is not ErrorCode.NONE:
            return None
        partitions = _decode(result.assignment)
        self._world.ledger.classic.assigned(self._group_id, me.generation, me.member_id, partitions)
        return partitions

    def _places(self) -> list[PartitionId]:
        """Every partition of the topics; they do not change."""
        ledger = self._world.ledger
        partitions = (partition_of(pk) for pk in ledger.heads)
        return sorted(
            partition for partition in partitions if ledger.topic_names.get(partition.topic_id) in self._topics
        )

    async def _live(
        self, process: Process, me: ClassicIdentity, partitions: frozenset[PartitionId]
    ) -> ErrorCode | None:
        """Read, process and commit until another round is due, and why; None: the member leaves, or the run is over."""
        world = self._world
        positions: dict[PartitionId, int] = {}
        self._is_stubborn = world.rng.random() < _STUBBORN
        beats_missed = 0
        while not world.stop.is_set():
            if world.rng.random() < _STALE:
                await self._speak_of_the_past(process.engine, me)
            code = await process.engine.classic_groups.heartbeat(me)
            is_away = code is ErrorCode.REBALANCE_IN_PROGRESS and self._is_stubborn
            if is_away and (self._turns > 0 or beats_missed < self._stubborn_beats()):
                beats_missed += self._turns <= 0
                self._turns -= 1
                await asyncio.sleep(world.rng.random() * self._pace_s)
                continue  # it stays away from the round, and lives
            if code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                return code
            for partition in sorted(partitions):
                code = await self._work(process, me, partition, positions)
                if code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
                    return code
            if self._turns > 0 and world.rng.random() < 0.03:
                return None
            self._turns -= 1
            if self._turns == 0:
                await world.settled.wait()  # silent until then: its session expires
            await asyncio.sleep(world.rng.random() * (self._pace_s if self._turns > 0 else idle_pace_s(world)))
        return None

    def _stubborn_beats(self) -> int:
        """How many of its heartbeats a member stays away from a round when nothing fails any more."""
        return _STUBBORN_BEATS if self._rebalance_ms < REBALANCE_MS else 0

    async def _speak_of_the_past(self, engine: Engine, me: Any) -> None:
        """A heartbeat of the generation before the member's."""
        code = await engine.classic_groups.heartbeat(replace(me, generation=me.generation - 1))
        if code is ErrorCode.NONE:
            self._world.history.problem(f"{me.member_id} goes on in generation {me.generation - 1}")

    async def _work(
        self, process: Process, me: ClassicIdentity, partition: PartitionId, positions: dict[PartitionId, int]
    ) -> ErrorCode:
        name = self._world.ledger.topic_names[partition.topic_id]
        tp = TopicPartition(name, partition.partition)
        try:
            if partition not in positions:
                [fetched] = await process.engine.offsets.fetch(self._group_id, [tp])
                if fetched.error is not ErrorCode.NONE:
                    return fetched.error
                positions[partition] = 0 if fetched.committed is None else fetched.committed.offset
            before = positions[partition]
            await self._process(process, partition, name, positions)
            if positions[partition] == before and self._world.rng.random() < 0.9:
                return ErrorCode.NONE
            offset = OffsetAndMetadata(positions[partition], metadata=signature(me.member_id, me.generation))
            [done] = await process.engine.offsets.commit(
                self._group_id, {tp: offset}, member_id=me.member_id, member_epoch=me.generation
            )
        except KafkaError as error:
            return error.code
        if done.error is ErrorCode.NONE:
            self._reached = partition, positions[partition]
        return done.error


def _encode(partitions: list[PartitionId]) -> bytes:
    return json.dumps([[str(partition.topic_id), partition.partition] for partition in partitions]).encode()


def _decode(assignment: bytes) -> frozenset[PartitionId]:
    return frozenset(PartitionId(UUID(topic_id), number) for topic_id, number in json.loads(assignment or b"[]"))


async def classic_group_at_rest(
    world: World, group_id: str, topic_names: set[str], members: int, longest_absence_s: float
) -> list[str]:
    """Once nothing fails any more all members are in one generation, which lasts, and get to the end of the topics."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + longest_absence_s + _PATIENCE_S
    quiet_since, generation = loop.time(), -1
    while not world.ledger.problems:
        group = world.ledger.classic.groups.get(group_id)
        is_settled = group is not None and group.state is ClassicState.STABLE and len(group.members) == members
        if group is None or not is_settled or group.generation != generation:
            quiet_since, generation = loop.time(), group.generation if group is not None else -1
        left = lagging(world.ledger, group_id, topic_names)
        if is_settled and not left and loop.time() - quiet_since >= _QUIET_S:
            break
        if loop.time() > give_up:
            return [f"{group_pk(group_id)} does not come to rest: {group}; {', '.join(left)} have records left"]
        await asyncio.sleep(5)
    return []
