"""Members of a consumer group: join, heartbeat, read from the committed offset on, process, commit; leave and crash."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.model.group import GroupHeartbeat
from odradek.model.log import FetchPartition
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition

from tests.simulation.actors.common import idle_pace_s, pause, read_from
from tests.simulation.books.group_book import RESET, signature
from tests.simulation.world import Process, World
from tests.support.clients.group_member import Member

_POLL_BYTES_MAX = 600
_LEAVES = 0.08  # of the turns
_RESETS = 0.3  # of the lives begin with one
_STALE = 0.15  # of the turns: a heartbeat under an epoch that is over comes, too
_STUBBORN = 0.3  # of the lives: they let go of nothing that they are told to give up


class GroupMember:
    """One place in a group; every life is a new member.

    Args:
        turns: how many polls before the world calms down; after it has, the member goes on until the run stops.
        assignor: that it asks for; None: none.
    """

    def __init__(
        self,
        world: World,
        name: str,
        group_id: str,
        topics: list[str],
        *,
        turns: int,
        pace_s: float,
        assignor: str | None = None,
    ) -> None:
        self._world = world
        self._name = name
        self._group_id = group_id
        self._topics = topics
        self._turns = turns
        self._pace_s = pace_s
        self._assignor = assignor
        self._lives = 0
        self._is_stubborn = False

    async def program(self, process: Process) -> None:
        world, engine = self._world, process.engine
        while not world.stop.is_set():
            self._lives += 1
            await self._reset(process)
            await pause(world, self._pace_s)  # not all at once: who comes later takes from those who are there
            self._is_stubborn = world.rng.random() < _STUBBORN
            member = self._member(engine)
            world.ledger.groups.owned[member.member_id] = lambda member=member: member.owned  # type: ignore[misc]
            positions: dict[PartitionId, int] = {}
            while not world.stop.is_set():
                if self._turns > 0 and world.rng.random() < _STALE:
                    await self._speak_of_the_past(engine, member)
                    await self._commit_of_the_past(member, positions)
                await self._turn(process, member, positions)
                if self._turns > 0 and world.rng.random() < _LEAVES:
                    await member.leave()
                    await pause(world, 10.0)
                    break
                self._turns -= 1
                if self._turns == 0:
                    await world.settled.wait()  # silent until then: its session expires
                await asyncio.sleep(world.rng.random() * (self._pace_s if self._turns > 0 else idle_pace_s(world)))

    async def _speak_of_the_past(self, engine: Engine, member: Any) -> None:
        """A heartbeat under an epoch that the member has left, as of a process that was cloned or set back.

        The epoch before may be a repetition; but then the member says what it owns.
        """
        epoch = member.epoch - self._world.rng.choice((1, 2, 3))
        if epoch < 1:
            return
        owned = self._world.rng.choice((None, {topic_id: [*range(99)] for topic_id in self._world.ledger.live_topics}))
        response = await engine.groups.heartbeat(GroupHeartbeat(self._group_id, member.member_id, epoch, owned=owned))
        if response.error is ErrorCode.NONE:
            self._world.history.problem(f"{member.member_id}, of {member.epoch}, goes on under epoch {epoch}")

    async def _commit_of_the_past(self, member: Any, positions: dict[PartitionId, int]) -> None:
        """A commit under the epoch before, which may be that of an earlier grant of the partition."""
        for partition in sorted(positions)[:1]:
            name = self._world.ledger.topic_names[partition.topic_id]
            epoch = member.epoch - 1
            try:
                await member.commit(
                    TopicPartition(name, partition.partition),
                    positions[partition],
                    epoch,
                    metadata=signature(member.member_id, epoch),
                )
            except KafkaError:
                return

    def _member(self, engine: Engine) -> Any:
        """A new member: its client's side."""
        return Member(
            None,  # type: ignore[arg-type]
            # By its id a member that comes back is the last: the range assignor then moves what the others have.
            f"{self._lives}/{self._name}",
            self._topics,
            group_id=self._group_id,
            groups=engine.groups,
            offsets=engine.offsets,
            assignor=self._assignor,
            rebalance_timeout_ms=self._world.rng.choice((500, 60_000)),
        )

    async def _reset(self, process: Process) -> None:
        """Set offsets from outside, as an operator does: refused as soon as the group has members."""
        if self._world.rng.random() >= _RESETS:
            return
        offset = OffsetAndMetadata(0, metadata=RESET)
        for name in self._topics:
            try:
                await process.engine.offsets.commit(self._group_id, {TopicPartition(name, 0): offset})
            except KafkaError:
                return

    async def _turn(self, process: Process, member: Any, positions: dict[PartitionId, int]) -> None:
        world = self._world
        lose_answer = self._turns > 0 and world.rng.random() < 0.03
        # Now and then the application does not let go at once of what it is told to give up.
        keeps = (self._is_stubborn and self._turns > 0) or member.beats % 3 == 2
        keep = member.owned if keeps else frozenset()
        await member.beat(lose_answer=lose_answer, keep=keep)
        for lost in [partition for partition in positions if partition not in member.owned]:
            del positions[lost]
        for partition in sorted(member.owned):
            name = world.ledger.topic_names.get(partition.topic_id)
            if name is None:
                continue
            if partition not in positions and not await self._position(process, member, partition, name, positions):
                continue
            before = positions[partition]
            await self._process(process, partition, name, positions)
            if positions[partition] != before or world.rng.random() < 0.1:
                code = await self._commit(member, TopicPartition(name, partition.partition), positions[partition])
                if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
                    del positions[partition]  # it may come back: then from what was committed

    async def _position(
        self, process: Process, member: Any, partition: PartitionId, name: str, positions: dict[PartitionId, int]
    ) -> bool:
        """Start where the group has got to; False where that cannot be said now."""
        tps = [TopicPartition(name, partition.partition)]
        try:
            [fetched] = await process.engine.offsets.fetch(
                self._group_id, tps, member_id=member.member_id, member_epoch=member.epoch
            )
        except KafkaError:
            return False
        if fetched.error is not ErrorCode.NONE:
            return False
        positions[partition] = 0 if fetched.committed is None else fetched.committed.offset
        return True

    async def _process(
        self, process: Process, partition: PartitionId, name: str, positions: dict[PartitionId, int]
    ) -> None:
        world, group_partition = self._world, (self._group_id, partition)
        position = positions[partition]
        request = FetchPartition(name, partition.partition, position, _POLL_BYTES_MAX, topic_id=partition.topic_id)
        [result] = await process.engine.fetch([request])
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE and result.log_start_offset > position:
            world.history.skipped[group_partition].append((position, result.log_start_offset))
            positions[partition] = result.log_start_offset
            return
        try:
            records, positions[partition] = read_from(position, result.records)
            done = world.history.processed[group_partition]
            fresh = [record.offset for record in records if record.offset not in done]
            world.history.order[self._group_id] += [(partition, offset) for offset in fresh]
            done.update(fresh)
        except FormatError as error:
            world.history.problem(f"{self._name} read damaged bytes of {partition}: {error}")

    async def _commit(self, member: Any, partition: TopicPartition, offset: int) -> ErrorCode:
        try:
            return await member.commit(partition, offset, metadata=signature(member.member_id, member.epoch))
        except KafkaError as error:
            return error.code
