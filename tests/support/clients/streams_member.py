"""A streams group's member as a client library behaves: runs what it is told to run, reports what it runs."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.group import GroupHeartbeat, GroupHeartbeatResult
from odradek.model.streams import (
    Endpoint,
    InternalTopic,
    StreamsAnswer,
    StreamsRequest,
    Subtopology,
    Tasks,
    Topology,
)
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}

COUNTING = Topology(
    epoch=0,
    subtopologies=(
        Subtopology("0", source_topics=("orders",), repartition_sink_topics=("app-by-customer",)),
        Subtopology(
            "1",
            repartition_source_topics=(InternalTopic("app-by-customer", configs=(("cleanup.policy", "delete"),)),),
            changelog_topics=(InternalTopic("app-counts", configs=(("cleanup.policy", "compact"),)),),
        ),
    ),
)
"""Reads `orders`, regroups by customer, counts: subtopology 1 has a repartition topic and state."""


class StreamsMember:
    """Speaks KIP-1071: sends what changed, drops what it was told to drop, joins again when fenced.

    Args:
        engine: whose streams_groups, offsets and topics it calls.
        creates: whether it creates internal topics that are missing, as the dispatcher does.
    """

    def __init__(
        self,
        engine: Any,
        member_id: str,
        topology: Topology = COUNTING,
        *,
        group_id: str = "app",
        process_id: str | None = None,
        endpoint: Endpoint | None = None,
        rebalance_timeout_ms: int = 60_000,
        creates: bool = True,
    ) -> None:
        self.engine = engine
        self.member_id = member_id
        self.topology = topology
        self.group_id = group_id
        self.process_id = process_id or member_id
        self.endpoint = endpoint
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.creates = creates
        self.epoch = 0
        self.tasks = Tasks()  # what it runs
        self.reported: Tasks | None = None
        self.endpoint_epoch = -1
        self.endpoints: Any = ()
        self.last = GroupHeartbeatResult()
        self.refused: list[ErrorCode] = []

    @property
    def statuses(self) -> list[str]:
        """Names of the statuses of the last response."""
        return [status.code.name for status in (self.last.streams or StreamsAnswer()).statuses]

    async def beat(self, *, lose_answer: bool = False, keep: Tasks | None = None, shutdown: bool = False) -> ErrorCode:
        """One heartbeat. `keep`: tasks that the application does not let go of yet."""
        joins = self.epoch == 0
        owned = self.tasks if joins else self.tasks if self.tasks != self.reported else None
        self.last = result = await self.engine.streams_groups.heartbeat(
            GroupHeartbeat(
                self.group_id,
                self.member_id,
                self.epoch,
                rebalance_timeout_ms=self.rebalance_timeout_ms if joins else -1,
                streams=StreamsRequest(
                    topology=self.topology if joins else None,
                    owned=owned,
                    process_id=self.process_id if joins else None,
                    endpoint=self.endpoint if joins else None,
                    client_tags=() if joins else None,
                    requests_shutdown=shutdown,
                    endpoint_epoch=self.endpoint_epoch,
                ),
            )
        )
        if lose_answer:
            self.reported = None
            return result.error
        if result.error in LOST:
            self.forget()
        elif result.error is ErrorCode.NONE:
            self.reported = self.reported if owned is None else owned
            await self._take(result, result.streams or StreamsAnswer(), keep or Tasks())
        return result.error

    async def _take(self, result: GroupHeartbeatResult, response: StreamsAnswer, keep: Tasks) -> None:
        self.epoch = result.member_epoch
        self.endpoint_epoch = response.endpoint_epoch
        if response.endpoints is not None:
            self.endpoints = response.endpoints
        if response.tasks is not None:
            self.tasks = response.tasks | (self.tasks & keep)
        for topic in response.missing_topics if self.creates else ():
            try:
                await self.engine.topics.create(topic.name, topic.partitions, dict(topic.configs))
            except KafkaError as error:  # another member was first, or the next heartbeat asks again
                self.refused.append(error.code)

    def forget(self) -> None:
        """Give up everything, as after a fence."""
        self.epoch, self.tasks, self.reported, self.endpoint_epoch = 0, Tasks(), None, -1

    async def leave(self, *, shutdown: bool = False) -> ErrorCode:
        result = await self.engine.streams_groups.heartbeat(
            GroupHeartbeat(self.group_id, self.member_id, -1, streams=StreamsRequest(requests_shutdown=shutdown))
        )
        self.forget()
        return result.error

    async def commit(
        self, partition: TopicPartition, offset: int, epoch: int | None = None, metadata: str = ""
    ) -> ErrorCode:
        [result] = await self.engine.offsets.commit(
            self.group_id,
            {partition: OffsetAndMetadata(offset, metadata=metadata or self.member_id)},
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
        )
        return result.error


async def settle(members: Iterable[StreamsMember], clock: Any, *, rounds: int = 15, step_s: float = 1.0) -> int:
    """Beat in turn until two whole rounds change nothing; the number of rounds that it took."""
    members = list(members)
    quiet = 0
    for done in range(rounds):
        before = [(member.epoch, member.tasks) for member in members]
        for member in members:
            assert await member.beat() is ErrorCode.NONE, member.last
        clock.advance(step_s)
        quiet = quiet + 1 if before == [(member.epoch, member.tasks) for member in members] else 0
        if quiet == 2 and len({member.epoch for member in members}) == 1:
            return done
    raise AssertionError(f"not settled after {rounds} rounds")


def sometimes(rng: random.Random, tasks: Tasks) -> Tasks:
    """Some of the tasks: what a slow application still runs."""
    return Tasks(
        frozenset(task for task in tasks.active if rng.random() < 0.5),
        frozenset(task for task in tasks.standby if rng.random() < 0.5),
    )
