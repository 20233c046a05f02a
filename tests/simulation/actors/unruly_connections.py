"""Connections whose clients do what no client should, or what happens to them: a batch comes without its predecessor, a
predecessor is refused for good, an epoch begins over batches of the one before. What each is answered is in
docs/decisions/0009; stock clients (stock/) draw little of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.engine.append.order import COME_AGAIN, LONE_ARRIVALS
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import partition_pk
from odradek.model.log import ProducePartition, ProduceResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

from tests.simulation.actors.common import Payload, encode, find_topic, pause
from tests.simulation.books.history import Send
from tests.simulation.world import Process, World

_TURNS = 14
_ATTEMPTS = 40  # of what is to succeed in the end
_IN_FLIGHT = (2, 3, 5)
_TOO_LARGE = 2_000_000  # bytes of a record: more than max.message.bytes
_DONE = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_GAPS = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


@dataclass(frozen=True)
class _Batch:
    request: ProducePartition
    send: Send | None
    sequence: int


class UnrulyConnection:
    """One connection to the fleet, with one idempotent producer at a time, that writes to one partition.

    Args:
        number: of the connection.
    """

    def __init__(self, world: World, name: str, topic: str, number: int, pace_s: float) -> None:
        self._world = world
        self._name = name
        self._topic_name = topic
        self._number = number
        self._pace_s = pace_s
        self._turns = _TURNS
        self._sent = 0
        self._lives = 0
        self._unknown: set[bytes] = set()  # records that may be in the log, by an answer
        self._producer = (-1, -1)
        self._next = 0  # sequence: all before it are in the log
        self._is_counted = False  # whether something is known of a follower of that without its predecessor

    async def program(self, process: Process) -> None:
        self._lives += 1  # the process is another one, and so is the connection
        engine = process.engine
        self._topic: Topic = await find_topic(engine, self._topic_name)
        await self._begin(engine)
        turns = (
            self._in_a_row,
            self._after_a_lost_answer,
            self._plain,
            self._alone,
            self._after_one_that_is_too_large,
            self._under_a_new_epoch,
        )
        while self._turns > 0:
            self._turns -= 1
            if not await self._world.rng.choice(turns)(engine):
                await self._begin(engine)  # what became of some batch is not known
            await pause(self._world, self._pace_s)

    async def _begin(self, engine: Engine) -> None:
        while True:
            try:
                self._producer = await engine.producer_ids.init()
            except KafkaError:
                await engine.clock.sleep(0.1)
            else:
                self._next, self._is_counted = 0, False
                return

    # --- turns: False where the producer has to begin anew ------------------------------------------------------------

    async def _in_a_row(self, engine: Engine) -> bool:
        """Several in flight, as clients send them, until all are in the log."""
        batches = [self._batch(self._next + i) for i in range(self._world.rng.choice(_IN_FLIGHT))]
        if not await self._finish(engine, batches):
            return False
        self._next += len(batches)
        self._is_counted = False
        return True

    async def _after_a_lost_answer(self, engine: Engine) -> bool:
        """The answer to one is lost with its connection: it comes again, and what was to follow comes with it."""
        first, *others = (self._batch(self._next + i) for i in range(self._world.rng.choice(_IN_FLIGHT)))
        [result] = await self._produce(engine, [first])
        self._judge(first, result)
        if not await self._finish(engine, [first, *others]):
            return False
        self._next += 1 + len(others)
        self._is_counted = False
        return True

    async def _plain(self, engine: Engine) -> bool:
        """Several batches of no producer: those that are appended at once are in the order of their sending."""
        batches = [self._batch(-1) for _ in range(self._world.rng.choice(_IN_FLIGHT))]
        results = await self._produce(engine, batches)
        offsets = [result.base_offset for result in results if result.error is ErrorCode.NONE]
        if offsets != sorted(offsets):
            self._problem(f"its plain batches went to {offsets}")
        for batch, result in zip(batches, results, strict=True):
            self._judge(batch, result)
        return True

    async def _alone(self, engine: Engine) -> bool:
        """A follower without its predecessor is told to come again, and, coming alone again, of the gap.

        With some luck its predecessor comes in between, and the counting begins anew.
        """
        if self._is_counted:
            return await self._in_a_row(engine)
        self._is_counted = True
        first, follower = self._batch(self._next), self._batch(self._next + 1)
        is_known = self._next > 0
        if not await self._is_told_to_come_again(engine, follower):
            return False
        if self._world.rng.random() < 0.5:
            results = await self._produce(engine, [first, follower])
            self._judge_order([first, follower], results)
            if results[0].error in _DONE:
                self._judge(first, results[0])
                self._next += 1
                if not await self._finish(engine, [follower]):
                    return False
                self._next, self._is_counted = self._next + 1, False
                return True
            if not results[0].error.has_no_side_effects:
                return False  # it may be in the log by now, or later
            if not await self._is_told_to_come_again(engine, follower):
                return False
        result = await self._until_decided(engine, follower)
        if result is None:
            return False
        if is_known and result.error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._problem(f"{follower.sequence} without its predecessor got {result.error.name}")
        if not is_known and result.error is not ErrorCode.NONE:
            self._problem(f"{follower.sequence}, the first that the log knows, got {result.error.name}")
        assert follower.send is not None
        if follower.send.identity in self._unknown:
            return False  # other batches under its sequence might be taken for it
        if is_known:
            follower.send.outcome = "failed"
            return await self._in_a_row(engine)
        return False

    async def _after_one_that_is_too_large(self, engine: Engine) -> bool:
        """Batches after one that is refused for good meet the gap at once."""
        if self._next == 0 or self._is_counted:
            return await self._in_a_row(engine)
        self._is_counted = True
        large = self._batch(self._next, size=_TOO_LARGE)
        follower = self._batch(self._next + 1)
        first, second = await self._produce(engine, [large, follower])
        self._judge_order([large, follower], [first, second])
        if not first.error.is_retryable and second.message == COME_AGAIN.message:
            self._problem(f"{follower.sequence} is to come again, and {large.sequence} was refused for good")
        return second.error.has_no_side_effects  # else it may come yet, and be taken for another under its sequence

    async def _under_a_new_epoch(self, engine: Engine) -> bool:
        """A new epoch begins while batches of the one before are on their way on the same connection."""
        older = [self._batch(self._next + i) for i in range(2)]
        self._producer = self._producer[0], self._producer[1] + 1
        newer = [self._batch(i) for i in range(self._world.rng.choice((1, 2)))]
        results = await self._produce(engine, [*older, *newer])
        for batch, result in zip(older, results, strict=False):
            self._judge(batch, result)
            if result.error is ErrorCode.INVALID_PRODUCER_EPOCH:
                self._problem(f"{batch.sequence} was fenced by what was sent after it")
        if not await self._finish(engine, newer):
            return False
        self._next, self._is_counted = len(newer), False
        return True

    # --- steps --------------------------------------------------------------------------------------------------------

    def _batch(self, sequence: int, size: int = 0) -> _Batch:
        self._sent += 1
        number, epoch = self._producer if sequence >= 0 else (-1, -1)
        name = f"{self._name}:{self._sent}".encode()
        send = None
        if not size:
            partition = PartitionId(self._topic.topic_id, 0)
            send = self._world.history.sent(name, partition, "", 0)
        records = encode([Payload(name + bytes(size))], (number, epoch, sequence))
        connection = self._number * 1_000 + self._lives
        request = ProducePartition(self._topic_name, 0, records, self._topic.topic_id, connection=connection)
        return _Batch(request, send, sequence)

    async def _produce(self, engine: Engine, batches: Sequence[_Batch]) -> list[ProduceResult]:
        """Send one after the other, without waiting for answers; at times in one call, as a gateway gathers them."""
        if self._world.rng.random() < 0.5:
            return await engine.produce([batch.request for batch in batches])
        calls = [asyncio.ensure_future(engine.produce([batch.request])) for batch in batches]
        return [(await call)[0] for call in calls]

    async def _finish(self, engine: Engine, batches: Sequence[_Batch]) -> bool:
        """Send batches, whose first is the log's next, until all are in the log; False: it takes too long."""
        left = list(batches)
        for attempt in range(_ATTEMPTS):
            results = await self._produce(engine, left)
            self._judge_order(left, results)
            for batch, result in zip(left, results, strict=True):
                self._judge(batch, result)
                if result.error in _GAPS:
                    self._problem(f"{batch.sequence} got {result.error.name}, and nothing is missing")
            left = [batch for batch, result in zip(left, results, strict=True) if result.error not in _DONE]
            if not left:
                return True
            await engine.clock.sleep(0.05 * min(attempt + 1, 20))
        return False

    async def _is_told_to_come_again(self, engine: Engine, follower: _Batch) -> bool:
        """Send a follower alone as often as must not show a gap; False: something else happened."""
        come_again_count = 0
        for _ in range(_ATTEMPTS):
            if come_again_count == LONE_ARRIVALS:
                return True
            [result] = await self._produce(engine, [follower])
            self._judge(follower, result)
            come_again_count += result.message == COME_AGAIN.message or result.error is ErrorCode.REQUEST_TIMED_OUT
            if result.error in _GAPS | _DONE:
                self._problem(f"{follower.sequence} without its predecessor got {result.error.name} at once")
                return False
            if not result.error.is_retryable:
                return False
        return False

    async def _until_decided(self, engine: Engine, follower: _Batch) -> ProduceResult | None:
        come_again_count = 0
        for _ in range(_ATTEMPTS):
            [result] = await self._produce(engine, [follower])
            self._judge(follower, result)
            if not result.error.is_retryable:
                return result
            come_again_count += result.message == COME_AGAIN.message
            if come_again_count > LONE_ARRIVALS:
                self._problem(f"{follower.sequence} is told to come again, for ever")
                return None
            await engine.clock.sleep(0.1)
        return None

    def _judge(self, batch: _Batch, result: ProduceResult) -> None:
        if batch.send is None:
            return
        if not result.error.has_no_side_effects:
            self._unknown.add(batch.send.identity)
        if result.error in _DONE:
            batch.send.outcome = "acked"
            if result.error is ErrorCode.NONE:
                batch.send.offset = result.base_offset

    def _judge_order(self, batches: Sequence[_Batch], results: Sequence[ProduceResult]) -> None:
        """After a batch that was not appended, none is appended: otherwise a client would lose its order."""
        failed = None
        for batch, result in zip(batches, results, strict=True):
            if failed is None and batch is not batches[0] and result.message == COME_AGAIN.message:
                self._problem(f"{batch.sequence} is to come again, and all before it were appended")
            if result.error not in _DONE:
                failed = batch.sequence if failed is None else failed
            elif failed is not None:
                self._problem(f"{batch.sequence} was appended, and {failed} before it was not")

    def _problem(self, complaint: str) -> None:
        pk = partition_pk(PartitionId(self._topic.topic_id, 0))
        producer = f"producer {self._producer[0]} epoch {self._producer[1]}"
        self._world.history.problem(f"{self._name} ({producer}, {pk}): {complaint}")
