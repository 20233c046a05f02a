"""A consumer that assigns itself every partition of a topic and reads from the start to the end of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from uuid import UUID

from odradek.errors import ErrorCode, FormatError
from odradek.format.item_keys import partition_pk
from odradek.model.log import FetchPartition, FetchResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

from tests.simulation.actors.common import look_up, read_from
from tests.simulation.actors.lookups import look_up_by_time, read_again, read_in_bulk
from tests.simulation.books.history import Poll, identity
from tests.simulation.world import Process, World

_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_LAST_TRIES = 5
_LOOKUPS = 0.15  # of the polls: they ask something else besides
_CURIOUS_REST_S = 5.0  # who rests less than that asks after every second poll


class Consumer:
    """Reads until told to stop. A topic that is deleted is read as its next incarnation, from the start."""

    def __init__(
        self, world: World, name: str, topic: str, idle_s_max: float = 120.0, *, plans_in_bulk: bool = False
    ) -> None:
        self._world = world
        self._name = name
        self._topic = topic
        self._idle_s_max = idle_s_max
        self._is_curious = plans_in_bulk or idle_s_max < _CURIOUS_REST_S
        self._lookups = 0.5 if self._is_curious else _LOOKUPS
        self._questions: tuple[Callable[..., Coroutine[Any, Any, None]], ...] = (look_up_by_time, read_again)
        if plans_in_bulk:
            self._questions = partial(look_up_by_time, at_any_time=True), read_again, read_in_bulk
        self._lives = 0
        self._gone: UUID | None = None  # a topic that, by an answer to this process, has no heads any more

    async def program(self, process: Process) -> None:
        self._gone = None
        while not self._world.written.is_set():
            # While a deletion is being applied, not all of it is seen at once: the heads may be gone before the name.
            is_whole = asyncio.get_running_loop().time() >= self._world.visibility.all_visible_s
            topic = await look_up(process.engine, self._topic)
            is_back = topic is not None and topic.topic_id == self._gone
            if is_back and is_whole and self._topic not in self._world.ledger.revived:
                self._world.history.problem(
                    f"{self._name} was told that {self._gone} is gone, and finds it by its name"
                )
            if topic is None:
                await asyncio.sleep(5)
            else:
                await self._read(process, topic)

    async def _read(self, process: Process, topic: Topic) -> None:
        """Read one incarnation of the topic."""
        world = self._world
        self._lives += 1
        polls: list[Poll] = []
        idle_s = 0.01
        last_tries = _LAST_TRIES
        while True:
            is_last = world.written.is_set()
            for number in range(len(polls), topic.partition_count):
                polls.append(Poll(f"{self._name}/{self._lives}", PartitionId(topic.topic_id, number)))
                world.history.polls.append(polls[-1])
            if not is_last and world.rng.random() < self._lookups:
                ask = world.rng.choice(self._questions)
                await ask(
                    world,
                    process.engine,
                    topic,
                    world.rng.randrange(topic.partition_count),
                    is_patient=not self._is_curious,
                )
            before = [poll.position for poll in polls]
            wanted = [
                FetchPartition(self._topic, p, poll.position, max_bytes=400, topic_id=topic.topic_id)
                for p, poll in enumerate(polls)
            ]
            wait_ms = 0 if is_last else world.rng.choice((0, 20))
            results = await process.engine.fetch(wanted, max_wait_ms=wait_ms, max_bytes=2000)
            if any(result.error in _GONE for result in results):
                has_no_head = any(result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for result in results)
                self._gone = topic.topic_id if has_no_head else None
                return None
            for result in results:
                self._take(polls[result.partition], result)
            if before == [poll.position for poll in polls]:
                if is_last and (all(poll.finished for poll in polls) or last_tries == 0):
                    return self._gave_up(polls, results)
                last_tries -= is_last
                idle_s = min(idle_s * 2, self._idle_s_max)
                # Partitions that were added.
                topic = await self._refreshed(process, topic)
            else:
                idle_s = 0.01
            await asyncio.sleep(0 if is_last else idle_s)

    def _gave_up(self, polls: list[Poll], results: list[FetchResult]) -> None:
        """Nothing fails any more: what still cannot be read is a problem."""
        for poll, result in zip(polls, results, strict=False):
            if not poll.finished:
                self._world.history.problem(
                    f"unreadable: {poll.consumer} is stuck at {poll.position} of {poll.partition}: {result.error.name}"
                )

    async def _refreshed(self, process: Process, topic: Topic) -> Topic:
        topic_now = await look_up(process.engine, self._topic)
        return topic_now if topic_now is not None and topic_now.topic_id == topic.topic_id else topic

    def _take(self, poll: Poll, result: FetchResult) -> None:
        history, ledger = self._world.history, self._world.ledger
        head = ledger.heads.get(partition_pk(poll.partition))
        if head is not None and result.high_watermark > head["no"]:  # type: ignore[operator]
            history.problem(f"{poll.consumer} was told of a high watermark that {poll.partition} has not reached")
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if result.log_start_offset > poll.position:
                poll.resets.append((poll.position, result.log_start_offset))
                poll.position = result.log_start_offset
            else:
                history.problem(
                    f"the log shrank: {poll.consumer} at {poll.position} of {poll.partition} is out of range"
                )
            return
        try:
            records, poll.position = read_from(poll.position, result.records)
            poll.records += [(record.offset, identity(record)) for record in records]
        except FormatError as error:
            history.problem(f"{poll.consumer} read damaged bytes at {poll.position} of {poll.partition}: {error}")
        poll.finished = self._world.written.is_set() and result.error is ErrorCode.NONE
